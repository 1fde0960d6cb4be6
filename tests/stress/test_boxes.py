"""Jobs that share pictures with boxes: each gets each once an epoch, and its boxes are where it is white."""

import time

from box_folders import make_coco, wrapped
from job_processes import Host, assert_exactly_once
from sizes import size
from subjects_of_storms import OF_BOXES, assert_boxes
from torchvision_here import v2

import seneca

PICTURES = 120
EPOCHS = size(3, 8)


def test_jobs_serve_each_other_copies_with_boxes(host: Host, tmp_path):
    dataset = wrapped(make_coco(tmp_path / "coco", PICTURES, v2.Compose(OF_BOXES)))
    options = {"num_workers": 1, "cache": host.name, "cache_bytes": "4MiB", "split": "10-10-80"}

    def shares(log):
        loader = seneca.DataLoader(dataset, 8, shuffle=True, collate_fn=list, **options)
        assert loader.explain().startswith("native")
        for epoch in range(EPOCHS):
            for batch in loader:
                assert_boxes(batch, loader.last_indices)
                log(epoch, loader.last_indices)
                time.sleep(0.002)
        (host.folder / f"served {loader.stats()['served']['augmented']}").touch()

    jobs = [host.start(shares) for _ in range(2)]
    assert [job.wait() for job in jobs] == [0, 0]
    for job in jobs:
        assert_exactly_once(job, EPOCHS, PICTURES, 8)
    served = [int(path.name.split()[1]) for path in host.folder.glob("served *")]
    print(f"{served} copies served")
    assert sum(served) > 0
