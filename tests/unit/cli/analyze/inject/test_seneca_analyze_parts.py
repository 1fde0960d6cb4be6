"""Which functions take the CPU of batches: what is timed, how it is named, and that nothing else changes."""

import copy
import functools
import pickle
import threading
import time

import numpy as np
import pytest
from sizes import size
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset
from torch.utils.data._utils.fetch import _MapDatasetFetcher
from torchvision_here import v2
from traced import run_traced

from seneca.cli.analyze.inject import seneca_analyze_parts as parts_module
from seneca.cli.analyze.inject.seneca_analyze_parts import Parts, Timed, _sites, name_of
from seneca.cli.analyze.trace import read_trace


class Events:
    """A trace in memory."""

    def __init__(self):
        self.written = []

    def event(self, what, **fields):
        self.written.append((what, fields))


def burn(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


class Rows(Dataset):
    def __init__(self, transform=None, loader=None):
        self.transform, self.loader = transform, loader

    def __len__(self):
        return 24

    def __getitem__(self, index):
        if self.loader is not None:
            self.loader(index)
        return index if self.transform is None else self.transform(index)


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, item):
        for transform in self.transforms:
            item = transform(item)
        return item


def slow(item):
    burn(0.006)
    return item


def quick(item):
    burn(0.002)
    return item


def collate(items):
    burn(0.002)
    return items


def made(dataset, collate_fn=collate, indices=(0, 1)):
    """A batch whose parts are timed: the batch, and the shares of the parts."""
    trace = Events()
    parts = Parts(trace)
    assert parts.due(1.0)
    batch = parts.fetch(
        _MapDatasetFetcher.fetch, _MapDatasetFetcher(dataset, True, collate_fn, False), list(indices)
    )
    parts.write(5)
    ((what, fields),) = trace.written
    assert what == "parts" and fields["iterator"] == 5
    total = sum(fields["parts"].values())
    return batch, {name: seconds / total for name, seconds in fields["parts"].items()}


def line_of(function):
    return f"test_seneca_analyze_parts.py:{function.__code__.co_firstlineno}"


def test_each_function_of_a_compose_has_its_time():
    given = [slow, quick]
    batch, shares = made(Rows(Compose(given), loader=quick))
    assert batch == [0, 1] and given == [slow, quick], "all is as it was"
    assert set(shares) == {
        f"slow ({line_of(slow)})",
        f"quick ({line_of(quick)})",
        f"collate_fn collate ({line_of(collate)})",
        f"other code of Rows ({line_of(Rows.__getitem__)})",
    }
    # Of two samples: 12 ms slow, 4 + 4 ms quick (a transform and the loader), and 2 ms of collate_fn.
    assert shares[f"slow ({line_of(slow)})"] == pytest.approx(12 / 22, abs=0.1)
    assert shares[f"quick ({line_of(quick)})"] == pytest.approx(8 / 22, abs=0.1)


def test_what_calls_another_function_that_is_timed_does_not_count_its_time():
    inner = Rows(transform=slow)

    class Outer(Dataset):
        def __init__(self):
            self.base, self.transform = inner, lambda index: (quick(0), self.base[index])[1]

    Outer.__getitem__ = lambda self, index: self.transform(index)
    _, shares = made(Outer(), collate_fn=list)
    assert shares[f"slow ({line_of(slow)})"] == pytest.approx(0.75, abs=0.1)


def test_functions_of_datasets_within_are_found():
    rows = [Rows(transform=slow), Rows(transform=Compose([quick]))]
    whole = Subset(ConcatDataset(rows), [0, 30])
    _, shares = made(whole)
    assert {name.split()[0] for name in shares} == {"slow", "quick", "collate_fn", "other"}
    assert rows[0].transform is slow and rows[1].transform.transforms == [quick]


def test_torchvisions_transforms_have_their_names():
    compose = v2.Compose([v2.Lambda(slow), v2.Resize(8), v2.Compose([v2.ToImage()])])
    fetcher = _MapDatasetFetcher(Rows(compose), True, list, False)
    assert [name for *_, name in _sites(fetcher)] == [
        "collate_fn list",
        f"Lambda ({line_of(slow)})",
        "Resize",
        "ToImage",
    ]


class Adds:
    def __init__(self, n):
        self.n = n

    def __call__(self, item):
        return item + self.n


def test_names():
    from torchvision.datasets.folder import default_loader

    assert name_of(default_loader) == "decoding"
    assert name_of(functools.partial(slow)) == f"slow ({line_of(slow)})"
    assert name_of(lambda item: item).startswith("lambda (test_seneca_analyze_parts.py:")
    assert name_of(Adds(1)) == f"Adds ({line_of(Adds.__call__)})"
    assert name_of(Adds(1).__call__) == f"Adds.__call__ ({line_of(Adds.__call__)})"
    assert name_of(len) == "len" and name_of(np.add) == "ufunc"


def test_a_batch_that_fails_puts_all_back_and_is_not_counted():
    def fails(item):
        raise KeyError(item)

    trace, dataset = Events(), Rows(Compose([fails]))
    parts, fetcher = Parts(trace), _MapDatasetFetcher(dataset, True, list, False)
    assert parts.due(1.0)
    with pytest.raises(KeyError):
        parts.fetch(_MapDatasetFetcher.fetch, fetcher, [0])
    parts.write(1)
    assert trace.written == [] and dataset.transform.transforms == [fails] and fetcher.collate_fn is list
    assert parts.due(10.0), "the next one is timed"


def test_what_a_dataset_sets_meanwhile_stays():
    class Changes(Rows):
        def __getitem__(self, index):
            self.transform, self.list.transforms[0] = quick, quick
            return index

    dataset = Changes(slow)
    dataset.list = dataset.augment = Compose([slow])
    made(dataset)
    assert dataset.transform is quick and dataset.augment.transforms == [quick]


def test_only_one_batch_in_a_while_is_timed():
    parts = Parts(Events())
    now, due = 100.0, 0
    while now < 1100.0:
        if parts.due(now):
            due += 1
            parts._turn.release()
        now += 0.01
    assert 300 < due < 800, "of a long run fewer and fewer"


def test_another_thread_does_not_time_its_batch_meanwhile():
    parts = Parts(Events())
    assert parts.due(1.0)
    found = []
    other = threading.Thread(target=lambda: found.append(parts.due(100.0)))
    other.start()
    other.join()
    assert found == [False]


def test_a_function_that_is_timed_is_used_as_itself():
    parts = Parts(Events())
    timed = Timed(Adds(3), "Adds", parts)
    assert isinstance(timed, Adds) and callable(timed) and timed(4) == 7 and timed.n == 3
    timed.n = 5
    assert timed(1) == 6
    assert type(pickle.loads(pickle.dumps(timed))) is Adds and type(copy.copy(timed)) is Adds
    assert parts.seconds == {}, "no batch is timed in this thread"


@pytest.mark.parametrize("kind", ["container", "class", "seneca"])
def test_what_could_be_noticed_is_left_alone(kind, picture_folder):
    import seneca

    class Steps(list):
        def __call__(self, item):
            return item

    if kind == "seneca":
        dataset = seneca.ImageFolder(picture_folder, transform=slow)
        assert list(_sites(_MapDatasetFetcher(dataset, True, list, False))) == []
        return
    dataset = Rows(Steps() if kind == "container" else Adds)
    assert [key for _, key, *_ in _sites(_MapDatasetFetcher(dataset, True, list, False))] == ["collate_fn"]


@pytest.mark.parametrize("workers", [0, size(1, 2)])
def test_a_script_shows_its_slow_function(tmp_path, workers):
    script = f"""
    import time
    from torch.utils.data import DataLoader, Dataset

    def burn(item):
        until = time.thread_time() + 0.004
        while time.thread_time() < until:
            pass
        return item

    class Rows(Dataset):
        def __init__(self):
            self.transform = burn
        def __len__(self):
            return 24
        def __getitem__(self, index):
            return self.transform(index)

    for epoch in range(2):
        list(DataLoader(Rows(), 4, num_workers={workers}))
    """
    ran = run_traced(tmp_path, script)
    assert (ran.returncode, ran.stderr) == (0, "")
    (one,) = read_trace(tmp_path / "trace").epochs
    total = sum(one.parts.values())
    (slow_one,) = [name for name in one.parts if name.startswith("burn (script.py:")]
    assert one.parts[slow_one] > 0.5 * total
    assert any(name.startswith("other code of Rows (script.py:") for name in one.parts)
    assert len(one.batches) >= 12, "batches whose parts are timed are noted as others are"


def test_a_loader_gives_what_it_gave(monkeypatch):
    monkeypatch.setattr(parts_module, "EVERY_S", 0.0)
    monkeypatch.setattr(parts_module, "RARER", 0.0)
    plain = [batch.tolist() for batch in DataLoader(Rows(Compose([Adds(2)])), 4)]
    parts, inner = Parts(Events()), _MapDatasetFetcher.fetch

    def fetch(fetcher, indices):
        assert parts.due(time.monotonic())
        try:
            return parts.fetch(inner, fetcher, indices)
        finally:
            parts.write(1)

    monkeypatch.setattr(_MapDatasetFetcher, "fetch", fetch)
    assert [batch.tolist() for batch in DataLoader(Rows(Compose([Adds(2)])), 4)] == plain
