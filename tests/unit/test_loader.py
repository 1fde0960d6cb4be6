"""The loader alone on the host: torch's rules, and what the native path adds."""

import builtins
import os
import pickle
import threading

import numpy as np
import pytest
import simplejpeg
import torch
from PIL import Image, ImageFile
from torchvision_here import torchvision, v1

import seneca
from seneca import transforms as T
from seneca.errors import DecodeError, PictureTooLargeError
from seneca.transforms._apply import transform_picture

NORMALIZE = T.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD)
TRAIN = T.Compose([T.RandomResizedCrop(32), T.RandomHorizontalFlip(), NORMALIZE])
EVALUATE = T.Compose([T.Resize(40), T.CenterCrop(32)])


def load(dataset, **options):
    return seneca.DataLoader(dataset, **{"batch_size": 8, "cache_bytes": "2MiB", "cache": None, **options})


def epoch_of(loader):
    """Images and ids of one epoch."""
    images, ids = [], []
    for batch, labels in loader:
        images.append(batch.clone())
        ids.append(loader.last_indices)
        assert labels.tolist() == [loader.dataset.targets[i] for i in loader.last_indices]
    return torch.cat(images), np.concatenate(ids)


def test_it_is_a_torch_loader(picture_folder):
    loader = load(seneca.ImageFolder(picture_folder, TRAIN), shuffle=True, drop_last=True)
    assert isinstance(loader, torch.utils.data.DataLoader)
    assert len(loader) == 6 and loader.drop_last and loader.cache is None and loader.share == "augmented"
    with pytest.raises(ValueError, match="batch_size attribute should not be set"):
        loader.batch_size = 4
    assert len(pickle.loads(pickle.dumps(loader))) == 6


def test_the_constructor_leaves_no_trace(picture_folder, name):
    state = torch.random.get_rng_state()
    load(seneca.ImageFolder(picture_folder, TRAIN), shuffle=True, cache=name)
    assert torch.equal(torch.random.get_rng_state(), state)
    with pytest.raises(FileNotFoundError):
        seneca.SampleCache.attach(name)


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 1, 3])
def test_alone_order_and_pixels_depend_on_the_seed_only(picture_folder, workers, name):
    dataset = seneca.ImageFolder(picture_folder, TRAIN)
    torch.manual_seed(5)
    images, ids = epoch_of(load(dataset, shuffle=True))
    in_order = images[np.argsort(ids)]
    orders = {}
    for options in ({}, {"share": "none"}, {"share": "decoded"}, {"split": "0-100-0"}):
        torch.manual_seed(5)
        again, ids_again = epoch_of(load(dataset, shuffle=True, num_workers=workers, cache=name, **options))
        assert torch.equal(again[np.argsort(ids_again)], in_order)
        orders[str(options)] = ids_again.tolist()
    own, none, decoded, other_split = orders.values()
    assert none == decoded == ids.tolist(), "torch's, as without a cache"
    assert own == other_split != none, "Seneca's, where another job's copies may take a sample's place"


def test_a_generator_names_the_order(picture_folder):
    dataset = seneca.ImageFolder(picture_folder, TRAIN)
    orders = [
        epoch_of(load(dataset, shuffle=True, generator=torch.Generator().manual_seed(seed)))[1].tolist()
        for seed in (1, 1, 2)
    ]
    assert orders[0] == orders[1] != orders[2]


def test_epochs_differ_in_order_and_in_crops(picture_folder):
    loader = load(seneca.ImageFolder(picture_folder, TRAIN), shuffle=True)
    (images, ids), (images_next, ids_next) = epoch_of(loader), epoch_of(loader)
    assert not np.array_equal(ids, ids_next)
    assert not torch.equal(images[np.argsort(ids)], images_next[np.argsort(ids_next)])


def test_without_shuffle_the_order_is_kept_and_equals_the_dataset_s_own_items(picture_folder, name):
    dataset = seneca.ImageFolder(picture_folder, EVALUATE)
    for _ in range(2):  # the second time from what was kept
        loader = load(dataset, cache=name, split="0-100-0", num_workers=2)
        images, ids = epoch_of(loader)
        assert ids.tolist() == list(range(len(dataset)))
        assert torch.equal(images, torch.stack([dataset[i][0] for i in range(len(dataset))]))


def test_what_is_kept_serves_the_next_epoch_with_the_same_pixels(picture_folder, name):
    dataset = seneca.ImageFolder(picture_folder, EVALUATE)
    loader = load(dataset, cache=name, split="0-100-0", num_workers=1)
    first, _ = epoch_of(loader)
    second, _ = epoch_of(loader)
    assert torch.equal(first, second)
    served = loader.stats()["served"]
    assert served["storage"] == served["decoded"] == 48
    assert loader.stats()["cache"]["payloads"]["decoded"] == 48


def test_encoded_payloads_spare_the_storage(picture_folder, name):
    loader = load(seneca.ImageFolder(picture_folder, TRAIN), shuffle=True, cache=name, split="100-0-0")
    for _ in range(3):
        epoch_of(loader)
    stats = loader.stats()
    assert stats["served"]["encoded"] == 96 and stats["cache"]["payloads"]["encoded"] == 48
    assert stats["read_bytes"] == loader.dataset.total_bytes()


@pytest.mark.parametrize(("drop_last", "sizes"), [(False, [20, 20, 8]), (True, [20, 20])])
def test_drop_last(picture_folder, drop_last, sizes):
    loader = load(seneca.ImageFolder(picture_folder, TRAIN), batch_size=20, shuffle=True, drop_last=drop_last)
    assert [len(images) for images, _ in loader] == sizes and len(loader) == len(sizes)


def test_a_break_is_followed_by_a_whole_epoch(picture_folder, name):
    loader = load(seneca.ImageFolder(picture_folder, TRAIN), shuffle=True, cache=name, num_workers=2)
    for _ in loader:
        break
    assert len(set(epoch_of(loader)[1].tolist())) == 48


def test_two_iterators_at_once_are_independent(picture_folder, name):
    loader = load(seneca.ImageFolder(picture_folder, TRAIN), shuffle=True, cache=name, num_workers=1)
    first, second = [], []
    for one, two in zip(iter(loader), iter(loader), strict=True):
        first.append(one[1])
        second.append(two[1])
    assert sum(map(len, first)) == sum(map(len, second)) == 48


def test_a_batch_that_is_held_is_not_written_over(picture_folder):
    loader = load(seneca.ImageFolder(picture_folder, TRAIN), shuffle=True, num_workers=2)
    held = [(images, images.clone()) for images, _ in loader]
    held += [(images[2:3].transpose(1, 2), images[2:3].transpose(1, 2).clone()) for images, _ in loader]
    for _ in range(3):
        epoch_of(loader)
    assert all(torch.equal(images, as_it_was) for images, as_it_was in held)


@pytest.mark.small(2)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_batches_have_the_type_and_the_layout_that_are_wanted(picture_folder, name, dtype, memory_format):
    ending = [NORMALIZE] if dtype.is_floating_point else []
    transform = T.Compose([T.Resize(40), T.CenterCrop((32, 24)), T.ToDtype(dtype, scale=True), *ending])
    dataset = seneca.ImageFolder(picture_folder, transform)
    loader = load(dataset, batch_size=20, memory_format=memory_format, cache=name, num_workers=2)
    assert loader.memory_format is memory_format
    held = [images for images, _ in loader] + [images for images, _ in loader]
    assert [tuple(images.shape) for images in held[:3]] == [(20, 3, 32, 24)] * 2 + [(8, 3, 32, 24)]
    for images in held:
        assert images.dtype == dtype and images.is_contiguous(memory_format=memory_format)
    wanted = torch.stack([dataset[i][0] for i in range(len(dataset))])
    assert torch.equal(torch.cat(held[:3]), wanted) and torch.equal(torch.cat(held[3:]), wanted)


@pytest.mark.small(1)
@pytest.mark.filterwarnings("ignore:seneca. skipped")
@pytest.mark.parametrize("dtype", ["uint8", "bfloat16"])
def test_what_moves_up_for_a_skipped_sample_keeps_its_layout(picture_folder, dtype):
    transform = T.Compose([T.Resize((24, 16)), T.ToDtype(dtype)])
    dataset = seneca.ImageFolder(picture_folder, transform)
    wanted = {i: dataset[i][0] for i in range(len(dataset))}
    damage(picture_folder)
    images, ids = epoch_of(load(dataset, on_error="skip", memory_format=torch.channels_last, num_workers=1))
    assert sorted(ids.tolist()) == [i for i in range(48) if i != 10]
    assert torch.equal(images, torch.stack([wanted[i] for i in ids]))


def test_where_torch_loads_the_warning_says_that_the_layout_is_torchs(picture_folder):
    dataset = seneca.ImageFolder(picture_folder, lambda picture: torch.zeros(3, 4, 4))
    with pytest.warns(UserWarning, match="memory_format is the native path's; here batches are contiguous"):
        images, _ = next(iter(load(dataset, memory_format=torch.channels_last)))
    assert images.is_contiguous()


def test_what_is_erased_differs_from_epoch_to_epoch_over_kept_pixels(picture_folder, name):
    erased = T.Compose([T.Resize((32, 32)), T.RandomErasing(1, value=-1)])
    dataset = seneca.ImageFolder(picture_folder, erased)
    plain = torch.stack([T.Resize((32, 32))(Image.open(path)) for path, _ in dataset.samples])
    loader = load(dataset, cache=name, split="0-100-0", num_workers=2)
    torch.manual_seed(1)
    first, second = epoch_of(loader)[0], epoch_of(loader)[0]
    assert loader.stats()["served"]["decoded"] == 48
    for images in (first, second):
        holes = images == -1
        assert holes.any(1).flatten(1).any(1).all() and torch.equal(images[~holes], plain[~holes])
    assert not torch.equal(first, second)
    torch.manual_seed(1)
    assert torch.equal(epoch_of(load(dataset))[0], first)  # by the seed, whatever was kept


def save_sideways(folder):
    """One JPEG and one PNG that are to be turned; 20 high and 30 wide as they are stored."""
    pixels = np.asarray(Image.fromarray(np.arange(24, dtype=np.uint8).reshape(2, 4, 3) * 9).resize((30, 20)))
    data = Image.Exif()
    data[0x0112] = 6
    for number, suffix in enumerate(("jpg", "png")):
        Image.fromarray(pixels).save(folder / f"class_{number}" / f"zz.{suffix}", exif=data.tobytes())


@pytest.mark.small(1)
@pytest.mark.parametrize("decode", ["exact", "fast"])
@pytest.mark.parametrize("upright", [False, True])
def test_the_dataset_s_options_hold_on_the_native_path(picture_folder, name, decode, upright):
    save_sideways(picture_folder)
    options = {"decode": decode, "apply_exif_orientation": upright}
    dataset = seneca.ImageFolder(picture_folder, T.Compose([T.Resize(12), T.CenterCrop(12)]), **options)
    loader = load(dataset, cache=name, split="0-100-0", num_workers=1)
    expected = torch.stack([dataset[i][0] for i in range(len(dataset))])
    for _ in range(2):  # the second time from what was kept
        assert torch.equal(epoch_of(loader)[0], expected)


def test_jobs_that_decode_in_other_ways_do_not_serve_each_other(picture_folder, name):
    save_sideways(picture_folder)
    seen = []
    with seneca.SampleCache.create(
        name, seneca.ImageFolder(picture_folder), cache_bytes="2MiB", split="0-100-0"
    ):
        for options in ({}, {"apply_exif_orientation": True}, {"decode": "fast"}):
            transform = T.Compose([T.Resize(12), T.CenterCrop(12)])
            dataset = seneca.ImageFolder(picture_folder, transform, **options)
            seen.append(torch.stack([dataset[i][0] for i in range(len(dataset))]))
            assert torch.equal(epoch_of(load(dataset, cache=name))[0], seen[-1])
    assert not torch.equal(seen[0], seen[1]) and not torch.equal(seen[0], seen[2])


@pytest.mark.small(1)
@pytest.mark.parametrize("suffix", ["jpg", "png"])
def test_a_picture_of_too_many_pixels_raises_its_name_and_the_remedy(picture_folder, suffix):
    path = picture_folder / "class_0" / f"large.{suffix}"
    Image.new("RGB", (100, 99)).save(path)
    dataset = seneca.ImageFolder(picture_folder, EVALUATE, max_pixels=97 * 97)
    with pytest.raises(
        PictureTooLargeError, match=rf"large.{suffix}: 99 x 100 .*max_pixels=9409.*allow more"
    ):
        list(load(dataset))
    with pytest.warns(UserWarning, match="skipped a sample that cannot be read"):
        assert len(epoch_of(load(dataset, on_error="skip"))[1]) == 48


def doubled(tensor):
    return tensor * 2


LIMITS = (None, 99 * 50 - 1, 99 * 100, 7, float("inf"), 99 * 50, 99 * 100 - 1)


@pytest.mark.small(1)
@pytest.mark.filterwarnings("ignore:.*decompression bomb")
@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "bmp"])
@pytest.mark.parametrize("is_native", [True, False])
def test_pillows_limit_counts_for_torchvisions_folder(picture_folder, name, monkeypatch, suffix, is_native):
    """Whatever a job with another limit has left in the cache."""
    path = picture_folder / "class_0" / f"large.{suffix}"
    Image.new("RGB", (100, 99)).save(path)
    steps = [v1.Resize(40), v1.CenterCrop(32), v1.ToTensor()]
    dataset = torchvision.datasets.ImageFolder(
        picture_folder, v1.Compose(steps if is_native else [*steps, doubled])
    )
    loaders = [load(dataset, cache=name, num_workers=int(not is_native))]
    assert ("native" if is_native else "staged") in loaders[0].explain()
    for limit in LIMITS:
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        loaders.append(load(dataset, cache=name, num_workers=int(not is_native)))
        is_refused = limit is not None and 2 * limit < 99 * 100
        for loader in (loaders[0], loaders[-1]):
            if is_refused:
                with pytest.raises(Image.DecompressionBombError):
                    list(torch.utils.data.DataLoader(dataset, 8))
                remedy = "MAX_IMAGE_PIXELS: raise it or set it to None, shrink the picture, or leave it out"
                with pytest.raises(PictureTooLargeError, match=rf"\.{suffix if limit > 7 else ''}.*{remedy}"):
                    list(loader)
            else:
                assert sum(len(labels) for _, labels in loader) == 49
    loaders.clear()


def test_pillow_warns_of_a_large_picture(picture_folder, monkeypatch):
    Image.new("RGB", (100, 99)).save(picture_folder / "class_0" / "large.jpg")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 99 * 99)
    dataset = torchvision.datasets.ImageFolder(picture_folder, v1.Compose([v1.Resize((9, 9)), v1.ToTensor()]))
    with pytest.warns(Image.DecompressionBombWarning, match="9900 pixels"):
        epoch_of(load(dataset))


def damage(folder):
    bad = sorted(folder.glob("*/*.jpg"))[10]
    bad.write_bytes(bad.read_bytes()[:200])
    return bad


@pytest.mark.parametrize("workers", [0, 2])
def test_a_damaged_file_raises_its_name_and_iterating_goes_on(picture_folder, workers):
    bad = damage(picture_folder)
    batches = iter(load(seneca.ImageFolder(picture_folder, TRAIN), shuffle=True, num_workers=workers))
    good = errors = 0
    while True:
        try:
            good += len(next(batches)[0])
        except DecodeError as error:
            assert str(bad) in str(error)
            errors += 1
        except StopIteration:
            break
    assert (good, errors) == (40, 1)


class Bad(ImageFile.ImageFile):
    """A plugin of Pillow's for files that begin with BAD and the name of the error that it raises."""

    format = "BAD"

    def _open(self):
        self._size, self._mode = (40, 40), "RGB"
        self.error = getattr(builtins, self.fp.read()[3:].decode())

    def load(self):
        raise self.error("of a plugin")


@pytest.fixture
def bad_files(picture_folder, monkeypatch):
    monkeypatch.setattr(Image, "OPEN", dict(Image.OPEN))
    monkeypatch.setattr(Image, "ID", list(Image.ID))
    Image.register_open(Bad.format, Bad, lambda prefix: prefix.startswith(b"BAD"))
    raised = [
        "RuntimeError",
        "ImportError",
        "IndexError",
        "NotImplementedError",
        "AttributeError",
        "KeyError",
    ]
    paths = sorted(picture_folder.glob("*/*.jpg"))[3:33:5]
    for path, name in zip(paths, raised, strict=True):
        path.write_bytes(b"BAD" + name.encode())
    return dict(zip(map(str, paths), raised, strict=True))


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 2])
def test_whatever_pillow_raises_names_the_file_and_iterating_goes_on(picture_folder, bad_files, workers):
    dataset = seneca.ImageFolder(picture_folder, TRAIN)
    batches, seen, good = iter(load(dataset, batch_size=5, num_workers=workers)), [], 0
    while len(seen) <= len(bad_files):
        try:
            good += len(next(batches)[0])
        except OSError as error:  # as scripts catch what Pillow raises
            seen.append(str(error))
        except StopIteration:
            break
    assert good == 48 - 30 and len(seen) == 6  # each in a batch of its own
    for message, (path, name) in zip(seen, sorted(bad_files.items()), strict=True):
        assert path in message and name in message
    with pytest.warns(UserWarning, match="skipped a sample that cannot be read"):
        assert len(epoch_of(load(dataset, batch_size=5, num_workers=workers, on_error="skip"))[1]) == 42


@pytest.mark.small(1)
@pytest.mark.parametrize("left", ["two bytes less", "half", "headers"])
@pytest.mark.parametrize("workers", [0, 2])
def test_truncated_pictures_are_read_if_pillow_is_set_to(picture_folder, name, monkeypatch, workers, left):
    dataset = seneca.ImageFolder(picture_folder, EVALUATE)
    cut = [path for path, _ in dataset.samples[5:40:7]]
    for path in cut:
        size = os.path.getsize(path)
        os.truncate(path, {"two bytes less": size - 2, "half": size // 2, "headers": 640}[left])
    with pytest.raises(DecodeError):
        epoch_of(load(dataset))
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    for cache in (None, name):
        loader = load(dataset, num_workers=workers, cache=cache)
        for _ in range(2):  # the second time from the cache
            images = epoch_of(loader)[0]
            for k, (path, _) in enumerate(dataset.samples):
                with Image.open(path) as file:
                    assert torch.equal(images[k], transform_picture(EVALUATE, file.convert("RGB")))
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", False)
    with pytest.raises(DecodeError):  # nor from what the other has left in the cache
        epoch_of(load(dataset, num_workers=workers, cache=name))


@pytest.mark.whole_size(shown_by="test_truncated_pictures_are_read_if_pillow_is_set_to")
def test_truncated_pictures_are_read_for_a_transform_in_python_too(picture_folder, name, monkeypatch):
    dataset = torchvision.datasets.ImageFolder(
        picture_folder, v1.Compose([v1.Resize((24, 24)), v1.ToTensor(), doubled])
    )
    ours = load(dataset, num_workers=1, cache=name)
    assert "staged" in ours.explain()
    os.truncate(dataset.samples[0][0], os.path.getsize(dataset.samples[0][0]) // 2)
    with pytest.raises(DecodeError):
        list(ours)
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    expected = torch.cat([images for images, _ in torch.utils.data.DataLoader(dataset, 8)])
    assert torch.allclose(torch.cat([images for images, _ in ours]), expected, atol=2 / 255)


@pytest.mark.small(1)
@pytest.mark.parametrize("batch_size", [1, 7, 48])
def test_a_damaged_file_can_be_skipped(picture_folder, name, batch_size):
    damage(picture_folder)
    damage(picture_folder.parent / "pictures")
    dataset = seneca.ImageFolder(picture_folder, TRAIN)
    loader = load(dataset, batch_size=batch_size, shuffle=True, cache=name, on_error="skip", num_workers=1)
    with pytest.warns(UserWarning, match="skipped a sample that cannot be read"):
        images, ids = epoch_of(loader)
    assert sorted(ids.tolist()) == [i for i in range(48) if i != 10] and len(images) == 47
    assert loader.stats()["skipped"] == 1 and loader.stats()["delivered"] == 47


@pytest.mark.small(1)
@pytest.mark.parametrize("drop_last", [False, True])
def test_skipping_leaves_no_batch_short_but_the_last(picture_folder, drop_last, name):
    """The bad ones come last in the order, when nothing is left to draw in their place."""
    dataset = seneca.ImageFolder(picture_folder, TRAIN)
    for path, _ in dataset.samples[30:45]:
        os.truncate(path, 100)
    loader = load(dataset, batch_size=10, num_workers=2, drop_last=drop_last, on_error="skip", cache=name)
    with pytest.warns(UserWarning, match="skipped"):
        sizes = [len(images) for images, _ in loader]
    assert sizes == ([10, 10, 10] if drop_last else [10, 10, 10, 3])


@pytest.mark.filterwarnings("ignore:seneca. skipped")
def test_skipping_keeps_batches_full_where_drop_last_leaves_some_over(picture_folder):
    damage(picture_folder)
    dataset = seneca.ImageFolder(picture_folder, TRAIN)
    loader = load(dataset, batch_size=10, shuffle=True, drop_last=True, on_error="skip")
    for _ in range(5):
        assert [len(images) for images, _ in loader] == [10, 10, 10, 10]


def test_a_file_that_is_gone_raises_its_name(picture_folder):
    dataset = seneca.ImageFolder(picture_folder, TRAIN)
    gone = dataset.samples[3][0]
    loader = load(dataset)
    os.remove(gone)
    with pytest.raises(FileNotFoundError) as raised:
        list(loader)
    assert raised.value.filename == gone


def test_pictures_of_other_kinds_are_decoded_by_pillow(picture_folder, name):
    rng = np.random.default_rng(1)
    pixels = rng.integers(0, 256, (40, 50, 3), np.uint8)
    Image.fromarray(pixels).save(picture_folder / "class_0" / "zz.png")
    (picture_folder / "class_1" / "zz.jpg").write_bytes((picture_folder / "class_0" / "zz.png").read_bytes())
    Image.fromarray(pixels).convert("CMYK").save(picture_folder / "class_2" / "zz.jpg", quality=95)
    Image.fromarray(pixels).convert("L").save(picture_folder / "class_3" / "zz.png")
    dataset = seneca.ImageFolder(picture_folder, EVALUATE)
    images, _ = epoch_of(load(dataset, cache=name, num_workers=2))
    expected = torch.stack([dataset[i][0] for i in range(len(dataset))])
    assert torch.equal(images, expected) and len(images) == 52


def test_files_that_pillow_decodes_are_kept_and_served_as_they_are(picture_folder, name):
    for path in picture_folder.rglob("*.jpg"):
        Image.open(path).save(path.with_suffix(".bmp"))
        path.unlink()
    dataset = seneca.ImageFolder(picture_folder, EVALUATE)
    loader = load(dataset, cache=name, split="100-0-0", verify_files="run", check_every=None)
    first, _ = epoch_of(loader)
    read_bytes = loader.stats()["read_bytes"]
    assert loader.stats()["cache"]["payloads"]["encoded"] == 48
    for path in picture_folder.rglob("*.bmp"):  # whoever reads one again will see
        status = path.stat()
        path.write_bytes(bytes(status.st_size))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    second, _ = epoch_of(loader)
    assert torch.equal(first, second)
    assert loader.stats()["read_bytes"] == read_bytes
    assert loader.stats()["served"]["encoded"] == 48


def test_what_the_native_path_does_not_know_is_loaded_by_torch_s_workers_and_explained(picture_folder, name):
    dataset = seneca.ImageFolder(picture_folder, T.Resize((8, 8)))
    loader = load(dataset, cache=name)
    first = loader.explain().split("\n")[0]
    assert first.startswith("native: ") and first.endswith("ENCODED, RECODED, DECODED")
    loader = load(seneca.ImageFolder(picture_folder, TRAIN), cache=name)
    assert loader.explain().split("\n")[0].endswith("ENCODED, RECODED, DECODED, AUGMENTED")
    loader = load(dataset, worker_init_fn=print, collate_fn=len, cache=name)
    assert "because its worker_init_fn may set up what items depend on" in loader.explain()
    assert list(loader) == list(loader) == [8] * 6
    sampler = torch.utils.data.SubsetRandomSampler([1, 2, 3])
    loader = load(dataset, sampler=sampler, cache=name, share="exact")
    assert "because exact copies need an order that Seneca knows" in loader.explain()
    assert sorted(next(iter(loader))[1].tolist()) == [dataset.targets[i] for i in (1, 2, 3)]


def test_what_cannot_be_shared_is_torch_s_with_one_warning(name):
    class Locked(torch.utils.data.Dataset):
        def __init__(self):
            self.lock = threading.Lock()

        def __len__(self):
            return 9

        def __getitem__(self, index):
            with self.lock:
                return index

    loader = load(Locked(), cache=name)
    with pytest.warns(UserWarning, match=r"torch loads this, without sharing: .*\.lock"):
        assert len(list(loader)) == 2
    assert len(list(loader)) == 2  # pytest makes a second warning an error where there is none expected
    assert loader.explain().startswith("not shared: ") and "key=" in loader.explain()
    loader = load(Locked(), cache=name, key="nine numbers")
    assert len(list(loader)) == 2 and "AUGMENTED" in loader.explain()


def test_a_transform_that_is_set_later_is_followed(picture_folder, name):
    dataset = seneca.ImageFolder(picture_folder, EVALUATE)
    loader = load(dataset, cache=name)
    assert next(iter(loader))[0].shape[-2:] == (32, 32)
    dataset.transform = T.Resize((24, 16))
    assert next(iter(loader))[0].shape[-2:] == (24, 16)


def test_an_empty_last_class_or_tiny_dataset_loads(tmp_path):
    (tmp_path / "only").mkdir()
    (tmp_path / "only" / "1.jpg").write_bytes(simplejpeg.encode_jpeg(np.zeros((1, 1, 3), np.uint8)))
    loader = load(seneca.ImageFolder(tmp_path, TRAIN), shuffle=True, num_workers=2)
    assert [tuple(images.shape) for images, _ in loader] == [(1, 3, 32, 32)]


def test_options_are_checked_at_construction(picture_folder):
    dataset = seneca.ImageFolder(picture_folder, TRAIN)
    with pytest.raises(ValueError, match="share"):
        load(dataset, share="all")
    with pytest.raises(ValueError, match="cache_bytes"):
        load(dataset, cache_bytes="much")


def test_a_cache_by_hand_serves_several_loaders(picture_folder, name):
    dataset = seneca.ImageFolder(picture_folder, TRAIN)
    with seneca.SampleCache.create(name, dataset, cache_bytes="2MiB", split="100-0-0") as cache:
        for _ in range(3):
            epoch_of(load(dataset, cache=cache, shuffle=True))
        assert cache.stats()["payloads"]["encoded"] == 48
        batches = iter(load(dataset, cache=cache, shuffle=True))
        next(batches)
        with pytest.raises(seneca.errors.SegmentError, match="still draw from it"):
            cache.close()
        del batches


def test_a_ctrl_c_while_pillow_decodes_forgets_no_picture_that_has_failed(picture_folder):
    for path in picture_folder.rglob("*.jpg"):
        Image.open(path).save(path.with_suffix(".bmp"))
        path.unlink()
    *_, broken, _ = sorted(picture_folder.rglob("*.bmp"))
    broken.write_bytes(broken.read_bytes()[:60])
    batches = iter(load(seneca.ImageFolder(picture_folder, EVALUATE), cache=None, shuffle=False))
    next(batches)
    real, interrupted = batches._prefetcher._decode, []

    def decode(index, data):
        if index == 47 and not interrupted:
            interrupted.append(index)
            raise KeyboardInterrupt
        return real(index, data)

    batches._prefetcher._decode = decode
    with pytest.raises(KeyboardInterrupt):
        list(batches)
    with pytest.raises(seneca.errors.DecodeError, match=broken.name):
        next(batches)
