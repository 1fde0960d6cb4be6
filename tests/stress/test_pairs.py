"""Jobs that share pairs: each gets each pair once an epoch, and a mask is always that of its picture."""

import time

from job_processes import Host, assert_exactly_once
from subjects_of_storms import assert_pairs, make_pairs, pairs_of

import seneca

PAIRS = 120


def test_jobs_serve_each_other_copies_of_pairs(host: Host, tmp_path):
    folders = make_pairs(tmp_path, PAIRS)

    def shares(log):
        dataset = pairs_of(folders)
        options = {"num_workers": 1, "cache": host.name, "cache_bytes": "4MiB", "split": "10-10-80"}
        loader = seneca.DataLoader(dataset, 8, shuffle=True, **options)
        for epoch in range(12):
            for batch in loader:
                assert_pairs(batch, loader.last_indices)
                log(epoch, loader.last_indices)
                time.sleep(0.002)
        (host.folder / f"served {loader.stats()['served']['augmented']}").touch()

    jobs = [host.start(shares) for _ in range(2)]
    assert [job.wait() for job in jobs] == [0, 0]
    for job in jobs:
        assert_exactly_once(job, 12, PAIRS, 8)
    served = [int(path.name.split()[1]) for path in host.folder.glob("served *")]
    print(f"{served} copies served")
    assert sum(served) > 0
