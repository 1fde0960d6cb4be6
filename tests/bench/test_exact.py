"""The benchmark of jobs of one seed."""

import bench_exact
import pytest

ENDS = [
    {"prepared": 60, "sums": ["a", "b"], "in_vain": 0, "longest_peer_wait_s": 0.01, "per_s": 100.0},
    {"prepared": 44, "sums": ["a", "b"], "in_vain": 4, "longest_peer_wait_s": 0.03, "per_s": 110.0},
]


def test_preparations_are_those_of_all_jobs_for_a_sample_and_epoch():
    assert bench_exact.preparations(ENDS, samples=50, epochs=2) == 1.04


def test_jobs_that_got_other_batches_are_an_error_and_no_number():
    assert bench_exact.sums_of(ENDS) == ["a", "b"]
    with pytest.raises(RuntimeError, match="jobs of one seed got other batches"):
        bench_exact.sums_of([*ENDS, {**ENDS[0], "sums": ["a", "c"]}])


def test_it_measures_each_number_of_jobs_together_and_apart_and_prints_it(
    monkeypatch, picture_folder, capsys
):
    asked = []

    def run(folder, jobs, setup, disturb=False):
        asked.append((jobs, setup["share"], setup["apart"], disturb))
        return [ENDS[k % 2] for k in range(jobs)]

    monkeypatch.setattr(bench_exact, "run", run)
    bench_exact.main(["--data", str(picture_folder), "--samples", "50", "--jobs", "2", "4", "--rounds", "1"])
    assert asked == [
        (1, "exact", 0.0, False),
        *((2, "exact", apart, False) for apart in (0.0, 0.1)),
        *((4, "exact", apart, False) for apart in (0.0, 0.1 / 3)),
        *((4, share, 0.0, False) for share in ("exact", "augmented")),
        (4, "exact", 0.0, True),
    ]
    printed = capsys.readouterr().out
    assert "1.040" in printed and "2.080" in printed and "1.00" in printed
    assert "longest extra wait of the others 30 ms; batches as alone: yes" in printed
