"""A quick measurement of a host."""

from __future__ import annotations

import pytest

import seneca
from seneca import transforms as T
from seneca.data.files import files_of
from seneca.transforms._pipeline import compile_transform
from seneca.tuning import host, storage, work
from seneca.tuning import profile as measure
from seneca.tuning import quick as quick_module
from seneca.tuning.quick import quick


@pytest.fixture(autouse=True)
def short(tmp_path, monkeypatch):
    """Measurements of a moment, kept in a folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("STORAGE_S", "ALONE_S", "TOGETHER_S", "STEP_S"):
        monkeypatch.setattr(measure, name, 0.2)
    monkeypatch.setattr(measure, "MEMORY_S", 0.02)


@pytest.mark.small(1)
@pytest.mark.parametrize("cores", [1, 6, 64])
def test_a_quick_look_measures_memory_once_without_taking_much(picture_folder, monkeypatch, request, cores):
    host.first_memory_bytes_per_s.cache_clear()
    request.addfinalizer(host.first_memory_bytes_per_s.cache_clear)
    real, asked = host.memory_bytes_per_s, []

    def measured(threads, seconds, bytes_each):
        asked.append((threads, seconds, bytes_each))
        real(threads, seconds, 1 << 10)
        return 123e9

    monkeypatch.setattr(host, "cores", lambda: cores)
    monkeypatch.setattr(host, "memory_bytes_per_s", measured)
    dataset = seneca.ImageFolder(picture_folder, T.Compose([T.RandomCrop(32)]))
    for _ in range(2):
        found = quick(files_of(dataset), compile_transform(dataset.transform), None, 1 << 20)
        assert found.memory_bytes_per_s == 123e9
    [(threads, seconds, bytes_each)] = asked
    assert threads == min(cores, 8) and seconds == 0.0  # each copies once
    assert 0.9 * host.COPIED_BYTES < threads * bytes_each <= host.COPIED_BYTES


def test_both_looks_say_the_same_of_what_they_both_know(picture_folder):
    dataset = seneca.ImageFolder(picture_folder, T.Compose([T.Resize((40, 48)), T.RandomCrop(32)]))
    quickly = quick(files_of(dataset), compile_transform(dataset.transform), None, 1 << 20)
    whole = seneca.profile(dataset, cache_bytes="1MiB")
    for name in ("host", "dataset", "samples", "cores", "cache_bytes", "decoded", "augmented", "batch_bytes"):
        assert getattr(quickly, name) == getattr(whole, name), name
    assert quickly.encoded.mean_bytes == whole.encoded.mean_bytes
    for stage in (*work.STAGES, *work.RECODED_STAGES):
        assert getattr(quickly, stage).all_s > 0
    assert 0 < quickly.measured_samples <= 48


def test_storage_is_asked_for_more_than_it_gives_at_once(picture_folder, monkeypatch):
    """Some storage gives megabytes at once after a pause: 16 photographs would say nothing of it."""
    read = []
    monkeypatch.setattr(storage, "_read_whole", lambda piece, buffer: read.append(piece.path) or 100_000)
    monkeypatch.setattr(quick_module, "STORAGE_S", 60.0)
    first = sorted((picture_folder / "class_0").glob("*.jpg"))[0]
    for number in range(150):
        (picture_folder / "class_0" / f"more-{number}.jpg").write_bytes(first.read_bytes())
    files = files_of(seneca.ImageFolder(picture_folder, T.Compose([T.RandomCrop(32)])))
    quick(files, compile_transform(T.Compose([T.RandomCrop(32)])), None, 1 << 20)
    assert len(read) == len(set(read)) == 128
