"""A trace is read whole, also what killed processes left of it."""

import numpy as np
from traced import PYTHON, TORCH, batches, iterator, steps, write

from seneca.cli.analyze.trace import read_trace


def end(at, number=1):
    return {"what": "end", "at": at, "iterator": number}


def test_a_loader_has_the_steps_of_its_process_and_the_batches_of_its_workers(tmp_path):
    write(tmp_path, 7, steps([0.1, 0.2], 1.0), PYTHON, TORCH, iterator(workers=[8, 9]))
    write(tmp_path, 8, batches(3, 0.01))
    write(tmp_path, 9, batches(2, 0.01), PYTHON)
    write(tmp_path, 10, batches(5, 0.01))  # another loader's
    run = read_trace(tmp_path)
    assert (run.python, len(run.torch), run.full) == (2, 1, False)
    (one,) = run.epochs
    assert (one.pid, one.about["dataset"]) == (7, "Rows")
    assert [len(epoch) for epoch in one.steps] == [2]
    assert len(one.batches) == 5


def test_the_rank_is_that_of_the_group_or_else_the_launchers(tmp_path):
    write(tmp_path, 7, steps([0.1] * 2, 1.0), TORCH, iterator(rank=1))  # torch.multiprocessing.spawn
    write(tmp_path, 8, steps([0.1] * 2, 1.0), TORCH | {"rank": 3}, iterator(rank=None))
    write(tmp_path, 9, steps([0.1] * 2, 1.0), TORCH | {"rank": 3}, iterator(rank=2))
    ranks = {one.pid: (one.rank, one.together) for one in read_trace(tmp_path).epochs}
    assert ranks == {7: (1, True), 8: (3, False), 9: (2, True)}


def test_the_epochs_of_persistent_workers_are_distinguished(tmp_path):
    rows = steps([0.1] * 6, 1.0, begin=100.0)
    write(tmp_path, 7, rows, iterator(), end(rows["begin"][2] + 0.1), end(rows["begin"][5] + 0.1))
    (one,) = read_trace(tmp_path).epochs
    assert [len(epoch) for epoch in one.steps] == [3, 3]


def of(rows, number):
    rows["iterator"] = number
    return rows


def test_a_pause_for_another_loader_is_no_step(tmp_path):
    """Validation amid an epoch, or between epochs of a loader whose iterator never ends."""
    train = [steps([0.1] * 4, 1.0, begin=begin) for begin in (100.0, 200.0, 300.0)]
    validation = [of(steps([0.1] * 3, 20.0, begin=begin), 2) for begin in (110.0, 210.0)]
    rows = np.concatenate([train[0], validation[0], train[1], validation[1], train[2]])
    write(tmp_path, 7, rows, iterator(1), iterator(2, dataset="Validation"))
    found, _ = read_trace(tmp_path).epochs
    assert [len(epoch) for epoch in found.steps] == [4, 4, 4]
    assert [epoch["begin"][0] for epoch in found.steps] == [100.0, 200.0, 300.0]


def test_loaders_that_each_step_uses_make_no_pause(tmp_path):
    train = steps([0.1] * 6, 2.0, begin=100.0)
    tasks = of(steps([0.1] * 18, 0.6, begin=100.2), 2)  # three of them in each step
    once = of(steps([0.1], 1.0, begin=104.9), 3)  # such as a picture for the log
    write(tmp_path, 7, np.concatenate([train, tasks, once]), iterator(1), iterator(2), iterator(3))
    (found,) = read_trace(tmp_path).epochs  # they are alike
    assert [len(epoch) for epoch in found.steps] == [6, 18, 1]


def test_iterators_of_loaders_that_are_alike_are_epochs_of_one(tmp_path):
    second = steps([0.1] * 3, 1.0, begin=200.0)
    second["iterator"] = 2
    third = steps([0.1] * 4, 1.0, begin=300.0)
    third["iterator"] = 3
    rows = np.concatenate([steps([0.1] * 2, 1.0), second, third])
    write(tmp_path, 7, rows, iterator(1), iterator(2), iterator(3, dataset_number=1))
    train, validation = read_trace(tmp_path).epochs
    assert [len(epoch) for epoch in train.steps] == [2, 3]
    assert [len(epoch) for epoch in validation.steps] == [4]


def test_a_line_that_a_killed_process_had_begun_is_left_out(tmp_path):
    write(tmp_path, 7, steps([0.1] * 2, 1.0), PYTHON, TORCH, iterator())
    with open(tmp_path / "7.jsonl", "a") as file:
        file.write('{"what": "en')
    with open(tmp_path / "7.records", "ab") as file:
        file.write(b"\1\0\0")
    (one,) = read_trace(tmp_path).epochs
    assert [len(epoch) for epoch in one.steps] == [2]


def test_what_senecas_own_loader_writes_is_summed(tmp_path):
    def causes(storage, advice):
        seconds = {"storage": storage, "decode": 1.0}
        return {
            "what": "causes",
            "iterator": 1,
            "seconds": seconds,
            "remedies": [["more", 0.5]],
            "advice": advice,
        }

    write(tmp_path, 7, steps([0.1] * 2, 1.0), iterator(), causes(2.0, "a"), causes(3.0, "b"))
    (one,) = read_trace(tmp_path).epochs
    assert one.causes == {"storage": 5.0, "decode": 2.0}
    assert (one.remedies, one.advice) == ([("more", 0.5)], "b")


def test_an_empty_trace_has_nothing(tmp_path):
    run = read_trace(tmp_path)
    assert (run.python, run.torch, run.epochs) == (0, [], [])


def test_what_a_hypervisor_took_is_counted_from_the_first_look_to_the_last(tmp_path):
    def host(at, busy, stolen):
        return {"what": "host", "at": at, "busy": busy, "stolen": stolen}

    write(tmp_path, 7, None, host(2.0, 1000, 50), host(5.0, 1300, 150))
    write(tmp_path, 8, None, host(3.0, 1100, 60))
    assert read_trace(tmp_path).stolen == 0.25
