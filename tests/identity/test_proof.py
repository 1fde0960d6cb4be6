"""What a fingerprint does not see shows in what jobs make: before they share, and while they do."""

from __future__ import annotations

import gc
import io
import os
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from pairs import SAMPLES, Scenario, assert_nothing_wrong, run, senecas
from PIL import Image
from sizes import size

import seneca
from seneca import transforms as T
from seneca.audit.check import check as verify
from seneca.epochs.generators import drawing, fixed_generators
from seneca.workers.proof.examples import shape_of

FACTOR = {"now": 1}


class Unseen(torch.utils.data.Dataset):
    """Its items depend on what no fingerprint can see."""

    def __init__(self, count=SAMPLES):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return index, torch.full((3,), index * globals()["FACTOR"]["now"])


class UnseenStages(seneca.StagedDataset):
    """The same, with stages."""

    def __len__(self):
        return SAMPLES

    def read(self, index):
        return np.full(4, index * globals()["FACTOR"]["now"]).tobytes()

    def decode(self, data):
        return np.frombuffer(data, np.int64)

    def augment(self, array, rng):
        return torch.from_numpy(array + rng.integers(0, 1))

    def label(self, index):
        return index

    def __getitem__(self, index):
        return index, torch.from_numpy(self.decode(self.read(index)).copy())


def labelled_first(batch):
    return [(index, x) for x, index in batch]


@pytest.fixture(autouse=True)
def truth():
    yield
    FACTOR["now"] = 1


WORKERS = [{}, {"num_workers": size(1, 2)}]


@pytest.mark.whole_size(
    shown_by="test_a_lie_that_begins_later_is_found_and_all_jobs_go_on_alone_with_what_is_theirs"
)
@pytest.mark.parametrize("workers", WORKERS, ids=["here", "workers"])
@pytest.mark.parametrize("staged", [False, True])
def test_a_job_that_means_something_else_from_the_beginning_shares_nothing_and_says_why(
    workers, staged, tmp_path
):
    def make(side):
        FACTOR["now"] = side.pick(1, 100)
        return UnseenStages() if staged else Unseen()

    def options(side):
        more = {"split": "30-70-0", "collate_fn": labelled_first} if staged else {}
        return {**workers, **more, "check_every": None}

    seen = run(Scenario(make, options), tmp_path)
    assert_nothing_wrong(seen)
    refused = [one for one in seen if one.explained.startswith("not shared: nothing is shared here: sample ")]
    assert len(refused) == 1, "who came first shares on, with whoever means the same"
    (text,) = [text for text in refused[0].warned if "nothing is shared here" in text]
    assert "with other values" in text and "give each a cache= name of its own" in text
    assert refused[0].stats["served"]["storage"] == refused[0].delivered


def test_what_differs_is_named_where_it_is_the_type(tmp_path):
    def make(side):
        FACTOR["now"] = side.pick(1, 1.5)
        return Unseen()

    seen = run(Scenario(make), tmp_path)
    assert_nothing_wrong(seen)
    texts = [text for one in seen for text in one.warned if "nothing is shared here" in text]
    assert len(texts) == 1
    assert "(int, int64 (3,))" in texts[0] and "(int, float32 (3,))" in texts[0]


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", WORKERS, ids=["here", "workers"])
@pytest.mark.parametrize("staged", [False, True])
def test_a_lie_that_begins_later_is_found_and_all_jobs_go_on_alone_with_what_is_theirs(
    workers, staged, tmp_path, monkeypatch
):
    """One of the two makes other items from the second epoch on."""
    monkeypatch.setenv("SENECA_AUDIT", str(tmp_path / "audit"))
    found_by = 8

    def between(side, dataset, epoch):
        if side.name == "B" and epoch >= 1:
            FACTOR["now"] = 100

    def options(side):
        more = {"split": "0-100-0", "collate_fn": labelled_first} if staged else {}
        return {**workers, **more, "check_every": found_by}

    seen = run(
        Scenario(
            lambda side: UnseenStages() if staged else Unseen(), options, between=between, epochs=size(4, 5)
        ),
        tmp_path,
    )
    for one in seen:
        assert one.once
        assert {epoch for epoch, *_ in one.wrong} <= {1, 2}, "from there on all are right"
    different = sum(one.stats["different"] for one in seen)
    refusals = sum("nothing is shared here" in text for one in seen for text in one.warned)
    assert different + refusals >= 1 and sum(one.stats["checked"] for one in seen) >= different
    for one in seen:
        texts = [text for text in one.warned if "no longer share" in text or "nothing is shared here" in text]
        assert len(texts) <= 1, "once"
    if different:
        violations = verify(tmp_path / "audit").violations
        assert {violation.kind for violation in violations} == {"content"}
        assert "was served from the cache differed when it made them again" in violations[0].text


def test_a_lie_in_mid_epoch_is_found_within_the_next_checks(tmp_path):
    """Many samples, and no new inspection in between."""

    def within(side, dataset, epoch, batch):
        if side.name == "B" and batch == 20:
            FACTOR["now"] = 100

    scenario = Scenario(
        lambda side: Unseen(960), lambda side: {"batch_size": 8, "check_every": 20}, within=within, epochs=1
    )
    seen = run(scenario, tmp_path)
    assert sum(one.stats["different"] for one in seen) >= 1
    for one in seen:
        assert one.once and 0 <= len(one.wrong) <= 160
        (text,) = [text for text in one.warned if "no longer share" in text]
        assert "differs from what the cache had of it" in text
        assert "no longer share" in one.explained


@pytest.mark.whole_size(shown_by="test_a_lie_in_mid_epoch_is_found_within_the_next_checks")
def test_what_a_lie_has_left_since_the_last_inspection_goes_with_it(tmp_path):
    """A sample that is made anyway shows it, or the liar's next inspection. Then the cache is given up."""

    def within(side, dataset, epoch, batch):
        if side.name == "B" and epoch == 0 and batch == 5:
            FACTOR["now"] = 100

    def options(side):
        return {"split": "0-100-0", "collate_fn": labelled_first, "check_every": None}

    seen = run(Scenario(lambda side: UnseenStages(), options, within=within, epochs=5), tmp_path)
    for one in seen:
        assert one.once and {epoch for epoch, *_ in one.wrong} <= {0, 1}
    texts = [text for one in seen for text in one.warned]
    assert any("no longer share" in text or "nothing is shared here" in text for text in texts), texts


class Random(Unseen):
    def __getitem__(self, index):
        return index, torch.rand(3) + random.random() + np.random.rand()


class Secret(Unseen):
    """Random, whatever the generators say."""

    def __getitem__(self, index):
        return index, int.from_bytes(os.urandom(4), "little")


class Sometimes(Unseen):
    """Random, but seldom."""

    def __getitem__(self, index):
        return index, index + 1000 * int(torch.rand(()) < 0.05)


@pytest.mark.small(1)
@pytest.mark.parametrize("kind", [Random, Sometimes, Secret])
@pytest.mark.parametrize("workers", WORKERS, ids=["here", "workers"])
def test_random_items_are_shared_and_no_lies(kind, workers, tmp_path):
    scenario = Scenario(
        lambda side: kind(),
        lambda side: {**workers, "check_every": 1},
        want=lambda side, dataset, index: None,
    )
    seen = run(scenario, tmp_path)
    assert sum(one.others for one in seen) > 0
    for one in seen:
        assert one.once and one.stats["different"] == 0, one.warned
        alone = "sharing rests on that alone: sample "
        assert (alone in one.explained) is (kind is Secret) or one.explained.count(
            "compared with what other jobs make"
        ) == 1
    assert any("sharing rests on that alone" in one.explained for one in seen) is (kind is Secret)


class Coin(Unseen):
    """Two equal coins are not another dataset."""

    def __getitem__(self, index):
        return index, index + 1000 * int(np.random.default_rng().random() < 0.5)


class OwnCoin(Unseen):
    def __init__(self):
        super().__init__()
        self.rng = np.random.default_rng()

    def __getitem__(self, index):
        return index, index + 1000 * int(self.rng.random() < 0.1)


@pytest.mark.whole_size(shown_by="test_random_items_are_shared_and_no_lies")
@pytest.mark.small(1)
@pytest.mark.parametrize("kind, key", [(Coin, None), (OwnCoin, "mine")])
def test_a_coin_that_nobody_can_set_is_no_lie(kind, key, tmp_path):
    scenario = Scenario(
        lambda side: kind(),
        lambda side: {"check_every": 1, "key": key},
        want=lambda side, dataset, index: None,
    )
    seen = run(scenario, tmp_path)
    assert sum(one.others for one in seen) > 0
    for one in seen:
        assert one.once and one.stats["different"] == 0 and not one.explained.startswith("not shared")


class Visits(Unseen):
    """An item says how often it was made."""

    def __init__(self):
        super().__init__()
        self.visits = [0] * SAMPLES

    def __getitem__(self, index):
        self.visits[index] += 1
        return index, self.visits[index]


def test_a_dataset_that_counts_what_it_makes_is_not_shared(tmp_path):
    scenario = Scenario(
        lambda side: Visits(),
        lambda side: {"num_workers": 1, "persistent_workers": True},
        want=lambda side, dataset, index: None,
    )
    seen = run(scenario, tmp_path)
    refused = [one for one in seen if "the dataset changes as its items are made" in one.explained]
    assert refused and all(one.once for one in seen)


CALLS = {}  # of a job: how often each of its processes was asked for an item


class Counted(torch.utils.data.Dataset):
    """Its items are counted where no fingerprint sees it."""

    def __init__(self, *, draws):
        self.draws = draws

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        info = torch.utils.data.get_worker_info()
        globals()["CALLS"]["now"][0 if info is None else info.id] += 1
        return index, torch.rand(2) if self.draws else torch.full((2,), index)


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("draws", [False, True])
def test_proof_makes_as_many_samples_as_the_docs_say_at_the_most(draws, workers, tmp_path):
    """Each process makes 4, then 2 an epoch. Besides, each sample may be compared once (docs/limits.md)."""
    epochs = size(3, 4)

    def make(side):
        CALLS["now"] = torch.zeros(2, dtype=torch.int64).share_memory_()
        return Counted(draws=draws)

    def within(side, dataset, epoch, batch):
        (side.folder / "calls").write_text(str(int(CALLS["now"].sum())))

    scenario = Scenario(
        make,
        lambda side: {"num_workers": workers, "check_every": None},
        within=within,
        want=lambda side, dataset, index: None,
        epochs=epochs,
        in_turn=True,
    )
    for name, one in zip("AB", run(scenario, tmp_path), strict=True):
        calls = int((tmp_path / name / "calls").read_text())
        examples = max(1, workers) * (4 + 2 * (epochs - 1))
        made = one.delivered - one.others
        assert one.once and made < calls <= made + examples + SAMPLES


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("draws", [False, True])
def test_proof_makes_as_many_samples_for_a_job_alone_as_the_docs_say(draws, workers):
    """Each process makes 4 in its first epoch, and then 2 (docs/limits.md)."""
    CALLS["now"] = torch.zeros(2, dtype=torch.int64).share_memory_()
    loader = seneca.DataLoader(Counted(draws=draws), 8, shuffle=True, num_workers=workers)
    for epoch in range(3):
        CALLS["now"].zero_()
        assert sum(len(index) for index, _ in loader) == SAMPLES
        made, processes = int(CALLS["now"].sum()), max(1, workers)
        assert SAMPLES < made <= SAMPLES + processes * (2 if epoch else 4)


def test_equal_items_are_checked_and_shared(tmp_path):
    seen = run(Scenario(lambda side: Unseen(), lambda side: {"check_every": 4}, in_turn=True), tmp_path)
    assert_nothing_wrong(seen)
    for one in seen:
        assert one.others > 0 and one.stats["checked"] >= one.others // 4  # and more, until all have agreed
        assert one.stats["different"] == 0 and "none differed" in one.explained


def test_files_that_are_rewritten_under_a_running_job_are_seen_at_the_next_epoch(tmp_path):
    """One job alone: what it had kept is given up, and the epoch after the next is shared again."""
    place = tmp_path / "data"
    place.mkdir()

    class Files(UnseenStages):
        def __init__(self):
            self.place = str(place)

        def read(self, index):
            return (Path(self.place) / str(index)).read_bytes()

    def write(factor):
        for index in range(SAMPLES):
            (place / str(index)).write_bytes(np.full(4, (index + 1) * factor).tobytes())

    write(1)
    loader = senecas(Files(), split="0-100-0", collate_fn=labelled_first, cache="proof-files")
    for epoch, factor in enumerate((1, 1, 100, 100, 100)):
        if epoch == 2:
            write(100)
        before = loader.stats()["served"]["decoded"]
        items = {index: x for batch in loader for index, x in batch}
        assert all((items[index] == (index + 1) * factor).all() for index in range(SAMPLES)), epoch
        kept = loader.stats()["served"]["decoded"] - before
        assert (kept == SAMPLES) is (epoch in (1, 4)), (epoch, kept)
    del loader
    gc.collect()


# The tools


def test_generators_are_put_back_and_drawing_is_seen():
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    for draw in (random.random, np.random.rand, lambda: torch.rand(())):
        with drawing() as drawn:
            assert not drawn()
            draw()
            assert drawn()
    with fixed_generators(7):
        first = random.random(), float(np.random.rand()), torch.rand(()).item()
    with fixed_generators(7):
        assert (random.random(), float(np.random.rand()), torch.rand(()).item()) == first
    assert (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()) == before


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (torch.zeros(2, 3), "float32 (2, 3)"),
        ((np.zeros(2, np.int16), 1), "(int16 (2,), int)"),
        ([1.5, {"a": "text"}], "[float, {a: str}]"),
        (None, "NoneType"),
    ],
)
def test_items_are_described_by_types_and_sizes(item, words):
    assert shape_of(item) == words


def test_examples_cost_no_generator_a_number():
    """A job alone draws what torch's loader draws, though it makes examples first."""
    drawn = []
    for loader in (torch.utils.data.DataLoader, senecas):
        torch.manual_seed(5)
        options = {"batch_size": 4, "collate_fn": list, "shuffle": False}
        drawn.append([x.tolist() for batch in loader(Random(), **options) for _, x in batch])
        drawn.append(torch.rand(()).item())
    assert drawn[1] == drawn[3] and len(drawn[0]) == len(drawn[2])


def test_check_every_is_a_number_of_samples_or_none():
    for wrong in (0, -1, 2.5, True, "often"):
        with pytest.raises(ValueError, match="check_every is a whole number of samples"):
            seneca.DataLoader([1, 2], check_every=wrong)
    assert seneca.DataLoader([1, 2], check_every=None).check_every is None


# Pictures, natively


def paint(path: Path, level: int) -> None:
    """Of one size, whatever the level; and of one time. Nobody sees it half written, or made twice."""
    data = io.BytesIO()
    Image.new("RGB", (24, 24), (level,) * 3).save(data, "JPEG", quality=90)
    new = path.with_suffix(f".of-{os.getpid()}")
    new.write_bytes(data.getvalue().ljust(2000, b"\0"))
    os.utime(new, (1, 1))
    try:
        os.link(new, path)
    except FileExistsError:
        with open(path, "r+b", buffering=0) as file:
            file.write(new.read_bytes())
        os.utime(path, (1, 1))
    new.unlink()


@pytest.mark.small(1)
@pytest.mark.parametrize("split", ["100-0-0", "0-100-0"])
@pytest.mark.parametrize("threads", [0, 2])
def test_pictures_that_change_under_a_running_job_stop_sharing_for_all_jobs(split, threads, tmp_path):
    """Rewritten in mid-epoch, with the sizes and times that they had, and not asked for them again."""

    def make(side):
        # A name of its own: equal folders share, and another of these tests may run at the same time.
        folder = side.both / "pictures" / f"split {split}, {threads} threads"
        folder.mkdir(parents=True, exist_ok=True)
        for index in range(SAMPLES):
            if not (folder / f"{index:02}.jpg").exists():
                paint(folder / f"{index:02}.jpg", index)  # the other job may have made it since: the same
        return seneca.ImageFolder(folder.parent, T.Compose([T.CenterCrop(16), T.RandomHorizontalFlip()]))

    def within(side, dataset, epoch, batch):
        if side.name == "A" and (epoch, batch) == (2, 2):
            for index, (path, _) in enumerate(dataset.samples):
                paint(Path(path), index + 100)

    class Levels:
        """A loader of pictures as one of indices and levels, as they are at the moment."""

        def __init__(self, loader):
            self.loader = loader
            self.stats, self.explain = loader.stats, loader.explain

        def __iter__(self):
            for pictures, _ in self.loader:
                levels = (pictures * 255).round().int().float().mean(dim=(1, 2, 3)).tolist()
                yield [(round(level) % 100, round(level)) for level in levels]

    def loader(dataset, **options):
        return Levels(senecas(dataset, **{**options, "collate_fn": None}))

    def options(side):
        return {"split": split, "num_workers": threads, "check_every": 5, "verify_files": "run"}

    epochs = 6
    seen = run(Scenario(make, options, loader, within=within, want=lambda *_: None, epochs=epochs), tmp_path)
    assert sum(one.stats["different"] for one in seen) >= 1
    for one in seen:
        assert one.once
        by_epoch = [{given >= 100 for epoch, _, given, _ in one.wrong if epoch == e} for e in range(epochs)]
        assert by_epoch[0] == by_epoch[1] == {False} and by_epoch[-1] == {True}, (
            "and the last are as they are now"
        )
        (text,) = [text for text in one.warned if "no longer share" in text]
        assert "differs from what the cache had of it" in text
        assert "nothing is shared: " in one.explained and one.stats["served"]["storage"] > SAMPLES


def test_kept_pictures_that_are_what_their_files_are_go_on_being_shared(picture_folder):
    transform = T.Compose([T.Resize((20, 20)), T.RandomHorizontalFlip()])
    for split in ("100-0-0", "0-100-0"):
        loader = seneca.DataLoader(
            seneca.ImageFolder(picture_folder, transform), 8, shuffle=True, split=split, cache_bytes="8MiB",
            check_every=1,
        )  # fmt: skip
        for _ in range(3):
            assert sum(len(labels) for _, labels in loader) == 48
        stats = loader.stats()
        assert stats["different"] == 0 and stats["checked"] == 2 * 48, "each that was served from the cache"
        del loader
        gc.collect()
