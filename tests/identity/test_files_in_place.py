"""Files that are rewritten in place, with the sizes and times that they had: nobody is served the old ones.

Only their ctimes show it. Those move for other reasons too, and that costs no job its cache.
"""

from __future__ import annotations

import gc
import io
import logging
import os
import secrets
import shutil
import tarfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from engine import Process
from PIL import Image
from redis_servers import RedisServer, needs_redis
from torchvision_here import v2

import seneca
from seneca import transforms as T
from seneca.data.files import files_of

SAMPLES = 48
FILE_BYTES = 2000
MEMBER_BYTES = 20_000  # so that the ends of an archive, which are compared, have no whole picture
NATIVE = T.Compose([T.CenterCrop(16), T.RandomHorizontalFlip()])


def level(picture: Any) -> torch.Tensor:
    """A transform in Python."""
    return torch.tensor(np.asarray(picture, dtype=np.float32).mean())


KINDS = {"native": NATIVE, "staged": level}
RECODED = "20-80-0-0"  # what has no such form has room as ENCODED
SPLITS = pytest.mark.parametrize("split", ["100-0-0", RECODED, "0-100-0"])


def encoded(level: int, size: int = FILE_BYTES, kind: str = "JPEG") -> bytes:
    """A picture of one level, in a file of this size."""
    data = io.BytesIO()
    Image.new("RGB", (24, 24), (level,) * 3).save(data, kind, **({"quality": 90} if kind == "JPEG" else {}))
    return data.getvalue().ljust(size, b"\0")


def painted(folder: Path, suffix: str = ".jpg") -> Path:
    """A folder of pictures, of which each has its index as its level. No other test's has the same names."""
    place = folder / "pictures" / secrets.token_hex(8)
    place.mkdir(parents=True)
    for index in range(SAMPLES):
        path = place / f"{index:02}{suffix}"
        path.write_bytes(encoded(index, kind="BMP" if suffix == ".bmp" else "JPEG"))
        os.utime(path, (1, 1))
    return place.parent


def rewrite(path: str | Path, content: bytes, at: int = 0) -> None:
    """Write into a file, and set its size and times back."""
    before = os.stat(path)
    with open(path, "r+b", buffering=0) as file:
        file.seek(at)
        file.write(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    now = os.stat(path)
    assert (now.st_size, now.st_mtime_ns, now.st_ino) == (before.st_size, before.st_mtime_ns, before.st_ino)
    assert now.st_ctime_ns > before.st_ctime_ns


def unseen(dataset: Any, of: Any = range(SAMPLES)) -> int:
    """One of these pictures whose ends are no part of the fingerprint."""
    return max(set(of) - with_ends(dataset, SAMPLES))


def with_ends(dataset: Any, count: int) -> set[int]:
    """The files, of so many, whose ends are part of the fingerprint."""
    chosen = np.random.default_rng(int.from_bytes(files_of(dataset).names(), "little"))
    return set(chosen.integers(0, count, 16).tolist())


def change(dataset: Any, index: int, kind: str = "JPEG") -> None:
    """Rewrite one picture."""
    before = seneca.ImageFolder(dataset.root).fingerprint()
    rewrite(dataset.samples[index][0], encoded(index + 100, kind=kind))
    assert seneca.ImageFolder(dataset.root).fingerprint() == before, "else it shows nothing"


def load(dataset: Any, **options: Any) -> Any:
    return seneca.DataLoader(dataset, **({"batch_size": 4, "shuffle": True, "cache_bytes": "8MiB"} | options))


def levels(batches: Any) -> dict[int, int]:
    """What an epoch delivers: the level of each picture, by its index. Levels are the index, or 100 above."""
    found = []
    for pictures, _ in batches:
        scale = 255 if pictures.dim() == 4 else 1
        found += (pictures * scale).reshape(len(pictures), -1).mean(1).round().int().tolist()
    by_index = {one % 100: one for one in found}
    assert len(by_index) == len(found), "each sample once"
    return by_index


def kept(loader: Any) -> int:
    served = loader.stats()["served"]
    return served["encoded"] + served["recoded"] + served["decoded"]


AS_IT_WAS = {index: index for index in range(SAMPLES)}


def with_new(*changed: int) -> dict[int, int]:
    return AS_IT_WAS | {index: index + 100 for index in changed}


# One job


@pytest.mark.small(1)
@SPLITS
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", list(KINDS))
def test_a_picture_that_is_rewritten_is_new_in_the_next_epoch(kind, workers, persistent, split, tmp_path):
    dataset = seneca.ImageFolder(painted(tmp_path), KINDS[kind])
    changed = unseen(dataset)
    loader = load(dataset, num_workers=workers, split=split, persistent_workers=persistent and workers > 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for epoch in range(6):
            if epoch == 2:
                change(dataset, changed)
            before = kept(loader)
            assert levels(loader) == (AS_IT_WAS if epoch < 2 else with_new(changed)), epoch
            served = kept(loader) - before
            assert served == SAMPLES if epoch in (1, 4, 5) else served < SAMPLES, (epoch, served)
        assert loader.stats()["different"] == 0, "nobody was served the old one"
        assert "no longer share" not in loader.explain()
    del loader
    gc.collect()


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", list(KINDS))
def test_a_job_that_has_made_every_sample_itself_shares_again_too(kind, workers, tmp_path):
    dataset = seneca.ImageFolder(painted(tmp_path), KINDS[kind])
    changed = unseen(dataset)
    loader = load(dataset, num_workers=workers, split="0-100-0", check_every="first")
    for epoch in range(5):
        if epoch == 2:
            change(dataset, changed)
        before = kept(loader)
        assert levels(loader) == (AS_IT_WAS if epoch < 2 else with_new(changed)), epoch
        assert (kept(loader) - before == SAMPLES) is (epoch in (1, 4)), epoch
    del loader
    gc.collect()


@pytest.mark.small(1)
@pytest.mark.parametrize("split", ["100-0-0", "0-100-0"])
def test_a_picture_that_pillow_decodes_is_compared_too(split, tmp_path):
    dataset = seneca.ImageFolder(painted(tmp_path, ".bmp"), NATIVE)
    changed = unseen(dataset)
    loader = load(dataset, split=split, num_workers=1)
    for _ in range(2):
        assert levels(loader) == AS_IT_WAS
    touch(dataset)
    before = kept(loader)
    for _ in range(2):
        assert levels(loader) == AS_IT_WAS
    # What Pillow has to decode is decoded again, and compared, before it is served.
    assert kept(loader) - before == (2 if split == "100-0-0" else 1) * SAMPLES
    assert not loader._session.cache.segment.distrusted
    change(dataset, changed, "BMP")
    assert levels(loader) == with_new(changed)
    assert loader._session.cache.segment.distrusted
    del loader
    gc.collect()


def touch(dataset: Any) -> None:
    """Move the ctimes of all files, and change nothing of them."""
    for path, _ in dataset.samples:
        os.chmod(path, 0o640)
    os.link(dataset.samples[0][0], Path(dataset.root).parent / f"another of {secrets.token_hex(4)}")


@pytest.mark.small(1)
@SPLITS
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", list(KINDS))
def test_ctimes_that_move_for_other_reasons_cost_one_comparison(kind, workers, split, tmp_path):
    dataset = seneca.ImageFolder(painted(tmp_path), KINDS[kind])
    loader = load(dataset, num_workers=workers, split=split, check_every=None)
    for epoch in range(5):
        if epoch == 2:
            touch(dataset)
        before, checked = kept(loader), loader.stats()["checked"]
        assert levels(loader) == AS_IT_WAS
        if epoch:
            assert kept(loader) - before == SAMPLES, epoch
            assert loader.stats()["checked"] - checked == (SAMPLES if epoch == 2 else 0), epoch
    assert loader.stats()["different"] == 0
    if split == RECODED and kind == "native":
        assert loader.stats()["served"]["recoded"] == 4 * SAMPLES
    del loader
    gc.collect()


def test_a_cache_made_by_hand_is_begun_again_at_its_size(tmp_path):
    dataset = seneca.ImageFolder(painted(tmp_path), NATIVE)
    changed, name = unseen(dataset), f"in-place-{secrets.token_hex(4)}"
    with seneca.SampleCache.create(name, dataset, cache_bytes="4MiB", split="0-100-0") as cache:
        loader = load(dataset, cache=cache, split="0-100-0")
        for epoch in range(5):
            if epoch == 2:
                change(dataset, changed)
            assert levels(loader) == (AS_IT_WAS if epoch < 2 else with_new(changed)), epoch
        assert loader._session.cache is not cache
        assert loader.stats()["cache"]["payload_bytes"] == 4 << 20
        assert kept(loader) >= 2 * SAMPLES
        del loader
        gc.collect()


def test_a_mask_that_is_rewritten_is_new_in_the_next_epoch(tmp_path):
    name = secrets.token_hex(8)
    for index in range(SAMPLES):
        for kind, picture in ("images", encoded(index)), ("masks", mask(index)):
            path = tmp_path / kind / name / f"{index:02}{'.jpg' if kind == 'images' else '.png'}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(picture)
            os.utime(path, (1, 1))
    steps = [
        v2.CenterCrop(16),
        v2.RandomHorizontalFlip(),
        v2.ToImage(),
        v2.ToDtype(torch.float32, scale=True),
    ]
    dataset = seneca.SegmentationFolder(tmp_path / "images", tmp_path / "masks", v2.Compose(steps))
    changed = max(set(range(1, 2 * SAMPLES, 2)) - with_ends(dataset, 2 * SAMPLES)) // 2
    loader = load(dataset, num_workers=1, split="0-100-0")
    assert loader.explain().startswith("native")
    for epoch in range(5):
        if epoch == 2:
            rewrite(dataset.samples[changed][1], mask(changed + 100))
        before = kept(loader)
        found = {int(mask.max()) for _, masks in loader for mask in masks}
        assert found == set((AS_IT_WAS if epoch < 2 else with_new(changed)).values()), epoch
        assert (kept(loader) - before == SAMPLES) is (epoch in (1, 4)), epoch
    del loader
    gc.collect()


def mask(level: int) -> bytes:
    data = io.BytesIO()
    Image.new("L", (24, 24), level).save(data, "PNG", compress_level=0)
    return data.getvalue()


def test_why_another_cache_is_begun_is_in_the_log_once(tmp_path, caplog):
    dataset = seneca.ImageFolder(painted(tmp_path), NATIVE)
    loader = load(dataset, split="0-100-0")
    with caplog.at_level(logging.INFO):
        for epoch in range(4):
            if epoch == 2:
                change(dataset, unseen(dataset))
            levels(loader)
    logged = [one for one in caplog.records if "before its file changed" in one.getMessage()]
    assert [one.levelno for one in logged] == [logging.INFO]
    del loader
    gc.collect()


# Several jobs


class Job:
    """A job in a process of its own, which goes on as far as the test says."""

    def __init__(self, folder: Path, kind: str = "native", **options: Any) -> None:
        self._process = Process(_serve, folder, kind, options)

    def deliver(self, batches: int | None = None) -> dict[int, int]:
        """Take some batches of the epoch under way, or of a new one; None: to its end."""
        self._process.send(batches)
        return self._process.receive()

    def stats(self) -> dict[str, Any]:
        self._process.send("stats")
        return self._process.receive()

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *raised: Any) -> None:
        self._process.send("end")
        if raised[0] is None:
            warned = self._process.receive()
            assert warned == [], warned
            assert self._process.join() == 0
        self._process.kill()


def _serve(pipe: Process, folder: Path, kind: str, options: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    if options.get("share") == "exact":
        options["generator"] = torch.Generator().manual_seed(5)
    torch.manual_seed(os.getpid())
    loader = load(seneca.ImageFolder(folder, KINDS[kind]), **options)
    iterator: Any = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        while (what := pipe.receive()) != "end":
            if what == "stats":
                pipe.send(loader.stats())
                continue
            iterator = iter(loader) if iterator is None else iterator
            batches = []
            for batch in iterator:
                batches.append(batch)
                if len(batches) == what:
                    break
            else:
                iterator = None
            pipe.send(levels(batches))
        iterator = None
        del loader
        gc.collect()
    pipe.send([str(one.message) for one in caught])


@pytest.mark.small(1)
@SPLITS
@pytest.mark.parametrize("kind", list(KINDS))
def test_a_job_that_begins_after_a_change_is_not_served_what_was_kept_before(kind, split, tmp_path):
    folder = painted(tmp_path)
    changed = unseen(seneca.ImageFolder(folder))
    with Job(folder, kind, split=split) as first:
        assert first.deliver() == AS_IT_WAS
        begun = first.deliver(2)
        change(seneca.ImageFolder(folder), changed)
        with Job(folder, kind, split=split) as second:
            assert second.deliver() == with_new(changed), "the first job is still in its epoch"
            rest = first.deliver()
            assert {one % 100 for one in (*begun.values(), *rest.values())} == set(AS_IT_WAS)
            assert first.deliver() == second.deliver() == with_new(changed)
            made = [job.stats()["served"]["storage"] for job in (first, second)]
            assert first.deliver() == second.deliver() == with_new(changed)
            assert [job.stats()["served"]["storage"] for job in (first, second)] == made, "shared again"


@pytest.mark.small(1)
@pytest.mark.parametrize("share", ["augmented", "exact"])
@pytest.mark.parametrize("kind", list(KINDS))
def test_a_job_that_begins_after_a_change_uses_no_copy_of_the_time_before(kind, share, tmp_path):
    """Two jobs are in an epoch, and one has left copies for the other. A third comes."""
    folder = painted(tmp_path)
    options = {"split": "0-0-100", "check_every": None, "share": share}
    with Job(folder, kind, **options) as ahead, Job(folder, kind, **options) as behind:
        lacks = set(AS_IT_WAS) - set(behind.deliver(1))
        ahead.deliver(4)  # of exact copies, those of the first batches are not left
        changed = unseen(seneca.ImageFolder(folder), lacks & set(ahead.deliver(4)))
        change(seneca.ImageFolder(folder), changed)
        with Job(folder, kind, **options) as third:
            assert third.deliver() == with_new(changed)
            if kind == "native":  # in Python, comparing items may end the cache before
                assert copies_used(third) > 0, "it uses those of files that have not changed"
            ahead.deliver()
            behind.deliver()
            assert ahead.deliver() == behind.deliver() == third.deliver() == with_new(changed)


def test_jobs_that_meet_a_change_in_mid_epoch_are_not_said_to_disagree(tmp_path):
    """What one made before the other makes again to check it, in Python."""
    folder = painted(tmp_path)
    options = {"split": "0-0-100", "check_every": 1}
    with Job(folder, "staged", **options) as ahead, Job(folder, "staged", **options) as behind:
        lacks = set(AS_IT_WAS) - set(behind.deliver(1))
        changed = unseen(seneca.ImageFolder(folder), lacks & set(ahead.deliver(8)))
        change(seneca.ImageFolder(folder), changed)
        assert changed + 100 in behind.deliver().values()
        ahead.deliver()
        for _ in range(2):
            assert ahead.deliver() == behind.deliver() == with_new(changed)
        assert [job.stats()["different"] for job in (ahead, behind)] == [0, 0]


def copies_used(job: Job) -> int:
    return job.stats()["served"]["augmented"]


@pytest.mark.small(1)
@pytest.mark.parametrize("kind", list(KINDS))
def test_copies_are_shared_on_by_jobs_that_have_seen_the_same_ctimes(kind, tmp_path):
    """Nothing is kept with which a file could be compared."""
    folder = painted(tmp_path)
    options = {"split": "0-0-100", "check_every": None}
    with Job(folder, kind, **options) as one, Job(folder, kind, **options) as other:
        for epoch in range(3):
            if epoch == 1:
                touch(seneca.ImageFolder(folder))
            before = copies_used(one) + copies_used(other)
            got: list[dict[int, int]] = [{}, {}]
            while any(len(levels) < SAMPLES for levels in got):
                for job, levels_of in zip((one, other), got, strict=True):
                    if len(levels_of) < SAMPLES:
                        levels_of |= job.deliver(1)
            assert got == [AS_IT_WAS] * 2
            used = copies_used(one) + copies_used(other) - before
            assert used >= SAMPLES // 2, epoch


@pytest.mark.small(1)
@SPLITS
@pytest.mark.parametrize("kind", list(KINDS))
def test_a_copy_of_the_dataset_with_its_times_shares_with_the_original(kind, split, tmp_path):
    folder = painted(tmp_path)
    shutil.copytree(folder, tmp_path / "copy" / "pictures")
    with Job(folder, kind, split=split) as original:
        assert original.deliver() == AS_IT_WAS
        with Job(tmp_path / "copy" / "pictures", kind, split=split, check_every=None) as copy:
            for epoch in range(3):
                assert copy.deliver() == AS_IT_WAS
                stats = copy.stats()
                assert stats["served"]["storage"] == 0 and stats["checked"] == SAMPLES, epoch
            assert original.deliver() == AS_IT_WAS
            assert original.stats()["served"]["storage"] == SAMPLES, "of its first epoch"


@needs_redis
@pytest.mark.small(1)
@pytest.mark.parametrize("split", ["0-0-100", "0-100-0"])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", list(KINDS))
def test_servers_of_other_hosts_are_not_asked_for_a_file_that_has_changed(kind, workers, split, tmp_path):
    dataset = seneca.ImageFolder(painted(tmp_path), KINDS[kind])
    changed = unseen(dataset)
    with RedisServer(tmp_path / "redis") as server:
        loader = load(dataset, split=split, remote=server.url, num_workers=workers)
        for epoch in range(5):
            if epoch == 2:
                change(dataset, changed)
            before = loader.stats()["read_bytes"]
            assert levels(loader) == (AS_IT_WAS if epoch < 2 else with_new(changed)), epoch
            # Threads read for the next epoch already, and are not awaited.
            if split == "0-0-100" and (workers == 0 or epoch < 2):
                read = loader.stats()["read_bytes"] - before
                assert read == (SAMPLES, 0, 1, 1, 1)[epoch] * FILE_BYTES, (epoch, read)
        del loader
        gc.collect()
        # A job that begins now cannot see that the file was once another. The server has the new one.
        dataset = seneca.ImageFolder(dataset.root, KINDS[kind])
        later = load(
            dataset, split="0-0-100", remote=server.url, num_workers=workers, cache=secrets.token_hex(6)
        )
        assert levels(later) == with_new(changed) and later.stats()["read_bytes"] == 0
        del later
        gc.collect()


# Archives


def archive(path: Path, folder: str, *, changed: int | None = None, swapped: bool = False) -> bytes:
    """An archive of pictures of two sizes; its bytes. Swapped, two of them lie in each other's places."""
    order = list(range(SAMPLES))
    if swapped:
        order[20], order[21] = 21, 20
    with tarfile.open(path, "w") if path.suffix == ".tar" else zipfile.ZipFile(path, "w") as file:
        for index in order:
            size = MEMBER_BYTES + 512 * (index % 2)
            data = encoded(index + 100 * (index == changed), size)
            name = f"{folder}/{index:02}.jpg"
            if isinstance(file, tarfile.TarFile):
                member = tarfile.TarInfo(name)
                member.size = size
                file.addfile(member, io.BytesIO(data))
            else:
                file.writestr(zipfile.ZipInfo(name), data)
    return path.read_bytes()


@pytest.fixture(params=["tar", "zip"])
def archived(request, tmp_path, monkeypatch):
    """An archive, and a function that makes the bytes of another one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "indexes"))
    folder = secrets.token_hex(50)  # with long names, the list at the end of a zip is longer than its end
    path = tmp_path / f"pictures.{request.param}"
    archive(path, folder)
    os.utime(path, (1, 1))
    return path, lambda **how: archive(tmp_path / f"another.{request.param}", folder, **how)


def levels_by_name(dataset: Any) -> dict[int, int]:
    found = {}
    for index, (path, _) in enumerate(dataset.samples):
        picture = Image.open(io.BytesIO(dataset.read(index)))
        found[int(Path(path).stem)] = round(float(np.asarray(picture).mean()))
    return found


@pytest.mark.small(1)
@SPLITS
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", list(KINDS))
def test_an_archive_that_is_rewritten_with_its_layout_has_its_new_pictures(kind, workers, split, archived):
    path, another = archived
    dataset = seneca.open(path, KINDS[kind])
    loader, fingerprint = load(dataset, num_workers=workers, split=split), dataset.fingerprint()
    for epoch in range(6):
        if epoch == 2:
            rewrite(path, another(changed=5))
            assert seneca.open(path).fingerprint() == fingerprint, "else it shows nothing"
        before = kept(loader)
        assert levels(loader) == (AS_IT_WAS if epoch < 2 else with_new(5)), epoch
        served = kept(loader) - before
        assert served == SAMPLES if epoch in (1, 4, 5) else served < SAMPLES, (epoch, served)
    assert levels_by_name(seneca.open(path)) == with_new(5)
    del loader
    gc.collect()


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", list(KINDS))
def test_an_archive_that_is_rewritten_with_another_layout_is_to_be_opened_again(kind, workers, archived):
    path, another = archived
    dataset = seneca.open(path, KINDS[kind])
    loader = load(dataset, num_workers=workers, split="0-100-0")
    assert levels(loader) == AS_IT_WAS
    rewrite(path, another(swapped=True))
    with pytest.raises(OSError, match=r"changed since it was opened; open it again with seneca\.open"):
        levels(loader)
    again = seneca.open(path, KINDS[kind])
    assert levels_by_name(again) == AS_IT_WAS, "what was listed before is of another archive"
    assert levels(load(again, num_workers=workers, split="0-100-0")) == AS_IT_WAS
    del loader
    gc.collect()


@pytest.mark.small(1)
def test_an_archive_whose_mode_changes_is_compared_once(archived):
    path, _ = archived
    loader = load(seneca.open(path, NATIVE), split="0-100-0", check_every=None)
    for epoch in range(4):
        if epoch == 2:
            path.chmod(0o640)
        before = kept(loader)
        assert levels(loader) == AS_IT_WAS
        assert kept(loader) - before == (SAMPLES if epoch else 0)
        assert loader.stats()["checked"] == (SAMPLES if epoch >= 2 else 0)
    del loader
    gc.collect()
