"""Loaders of pictures with boxes: boxes are where the picture shows them, whichever form it came from."""

import copy

import pytest
import torch
from box_folders import make_coco, make_voc_boxes, white_of, wrapped
from PIL import Image
from torch.utils.data import BatchSampler, RandomSampler, Subset
from torchvision_here import torchvision, v2

import seneca
from seneca.errors import DecodeError

tv = torchvision.tv_tensors
COUNT = 24
FLIPS = [v2.RandomHorizontalFlip(), v2.RandomVerticalFlip()]
TO_FLOATS = v2.ToDtype({tv.Image: torch.float32, "others": None}, scale=True)
RANDOM = [
    v2.ColorJitter(0.1),
    v2.ToImage(),
    v2.RandomZoomOut(side_range=(1.0, 1.5)),
    v2.RandomCrop((70, 80), padding=3, pad_if_needed=True),
    *FLIPS,
    v2.RandomResizedCrop((48, 40), scale=(0.5, 1)),
    TO_FLOATS,
]
FIXED = [v2.Resize((24, 30)), v2.ToImage(), v2.SanitizeBoundingBoxes(), TO_FLOATS]
RECIPES = {
    "usual": FIXED,
    "bytes": [v2.ToImage(), v2.Resize((24, 30))],
    "pure": [v2.Resize(40), v2.CenterCrop((50, 44)), v2.PILToTensor(), v2.ClampBoundingBoxes()],
    "other format": [
        v2.ToImage(),
        v2.Pad((3, 4)),
        v2.ConvertBoundingBoxFormat("CXCYWH"),
        v2.Resize((33, 60)),
        v2.ToDtype({tv.BoundingBoxes: torch.float64, tv.Image: torch.float32}, scale=True),
        v2.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4)),
        v2.ToPureTensor(),
    ],
    "clamping": [v2.SetClampingMode("hard"), v2.CenterCrop((20, 20)), v2.ToImage(), v2.ClampBoundingBoxes()],
}  # fmt: skip


def collate(items):
    return tuple(zip(*items, strict=True))


@pytest.fixture(scope="module")
def coco(tmp_path_factory):
    return make_coco(tmp_path_factory.mktemp("coco"), COUNT)


def dataset_of(coco, steps=RANDOM, **options):
    dataset = copy.copy(coco)
    dataset.transforms = v2.Compose(list(steps))
    return wrapped(dataset, **options)


def loader_of(dataset, batch_size=5, **options):
    options = {"cache": None, "collate_fn": collate} | options
    loader = seneca.DataLoader(dataset, batch_size, **options)
    assert loader.explain().startswith("native"), loader.explain()
    return loader


def items_of(loader):
    """Each item of an epoch, with its index."""
    for batch in loader:
        yield from zip(loader.last_indices.tolist(), *batch, strict=True)


def assert_same(mine, theirs):
    """Two targets are equal, with their types."""
    assert list(mine) == list(theirs)
    for key, value in theirs.items():
        assert type(mine[key]) is type(value)
        assert torch.equal(mine[key], value) if isinstance(value, torch.Tensor) else mine[key] == value
    ours, other = mine["boxes"], theirs["boxes"]
    assert ours.dtype == other.dtype
    if isinstance(other, tv.BoundingBoxes):
        assert (ours.format, ours.canvas_size) == (other.format, other.canvas_size)
        assert ours.clamping_mode == other.clamping_mode


def assert_shown(picture, target):
    """The first box is where the picture is white, but for what a filter smears."""
    left, top, right, bottom = target["boxes"][0].tolist()
    assert target["boxes"].canvas_size == tuple(picture.shape[-2:])
    white = white_of(picture)
    if white is None:
        assert right - left < 2 or bottom - top < 2
        return
    assert all(abs(a - b) <= 1.6 for a, b in zip(white, (left, top, right, bottom), strict=True))


@pytest.mark.small(2)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("make", [make_coco, make_voc_boxes])
def test_a_loader_yields_what_torchs_yields(make, recipe, workers, tmp_path):
    dataset = wrapped(make(tmp_path, 7, v2.Compose(RECIPES[recipe])))
    theirs = torch.utils.data.DataLoader(dataset, 3, collate_fn=collate)
    for ours, other in zip(loader_of(dataset, 3, num_workers=workers), theirs, strict=True):
        assert [type(part) for part in ours] == [type(part) for part in other]
        for mine, their in zip(ours[0], other[0], strict=True):
            assert type(mine) is type(their) and mine.dtype == their.dtype
            unit = 1 if mine.dtype == torch.uint8 else 1 / 255 / 0.2
            assert (mine.float() - their.float()).abs().mean() <= 0.3 * unit
        for mine, their in zip(ours[1], other[1], strict=True):
            assert_same(mine, their)


@pytest.mark.small(1)
@pytest.mark.parametrize("split", ["100-0-0", "0-100-0", "30-30-40"])
def test_boxes_are_where_the_picture_shows_them_from_each_form(coco, name, split):
    loader = loader_of(
        dataset_of(coco),
        7,
        cache=name,
        cache_bytes="8MiB",
        split=split,
        check_every=2,
        num_workers=1,
        shuffle=True,
    )
    for _ in range(3):
        for index, picture, target in items_of(loader):
            assert target["image_id"] == coco.ids[index]
            assert len(target["labels"]) == len(target["boxes"])
            assert_shown(picture, target)
    stats = loader.stats()
    form = "encoded" if split == "100-0-0" else "decoded"
    assert stats["served"][form] > 0 and stats["checked"] > 0 and stats["different"] == 0


def test_copies_of_another_job_come_with_how_they_were_moved(coco, name):
    """A copy has random numbers of the job that made it, which the other job does not know."""
    options = {"cache": name, "cache_bytes": "8MiB", "split": "0-0-100", "shuffle": True}
    jobs = [loader_of(dataset_of(coco), 4, job=job, **options) for job in ("a", "b")]
    for _ in range(3):
        epochs = [items_of(job) for job in jobs]
        seen = [set(), set()]
        for _ in range(COUNT):
            for number, epoch in enumerate(epochs):
                index, picture, target = next(epoch)
                seen[number].add(index)
                assert target["image_id"] == coco.ids[index]
                assert_shown(picture, target)
        assert all(len(one) == COUNT for one in seen)
    assert sum(job.stats()["served"]["augmented"] for job in jobs) > 10


def test_jobs_with_other_annotations_share_pictures_and_nothing_else(coco, name):
    options = {"cache": name, "cache_bytes": "8MiB", "split": "0-0-100", "shuffle": True}
    other = copy.copy(coco)
    other.coco = copy.deepcopy(coco.coco)
    for some in other.coco.boxes.values():
        for one in some:
            one["category_id"] += 1000
    jobs = [loader_of(dataset_of(one), 4, job=job, **options) for one, job in ((coco, "a"), (other, "b"))]
    for _ in range(2):
        epochs = [items_of(job) for job in jobs]
        for _ in range(COUNT):
            for number, epoch in enumerate(epochs):
                _, picture, target = next(epoch)
                assert_shown(picture, target)
                assert all((label > 1000) == bool(number) for label in target["labels"].tolist())
    assert sum(job.stats()["served"]["augmented"] for job in jobs) > 10


OVERLAPPING = [
    v2.RandomZoomOut(),
    v2.RandomIoUCrop(),
    v2.RandomHorizontalFlip(),
    v2.RandomCrop((70, 60), pad_if_needed=True),
    v2.ToImage(),
]


def assert_shown_if_kept(picture, target):
    """As :func:`assert_shown`, of a crop that may have left the first box out."""
    left, top, right, bottom = target["boxes"][0].tolist()
    if left < right and top < bottom:
        assert_shown(picture, target)


@pytest.mark.small(1)
@pytest.mark.parametrize(
    ("split", "form"), [("100-0-0", "encoded"), ("0-100-0", "decoded"), ("0-0-100", "augmented")]
)
def test_crops_that_read_boxes_are_where_the_picture_shows_them_from_each_form(coco, name, split, form):
    options = {"cache": name, "cache_bytes": "8MiB", "split": split, "shuffle": True, "num_workers": 1}
    jobs = [loader_of(dataset_of(coco, OVERLAPPING), 4, job=job, **options) for job in ("a", "b")]
    kept = 0
    for _ in range(3):
        for batches in zip(*map(items_of, jobs), strict=True):
            for _, picture, target in batches:
                assert_shown_if_kept(picture, target)
                kept += int(target["boxes"][0].any())
    assert kept > COUNT and sum(job.stats()["served"][form] for job in jobs) > 10


@pytest.mark.whole_size(shown_by="test_copies_of_another_job_come_with_how_they_were_moved")
def test_copies_cropped_by_boxes_are_shared_by_jobs_that_have_the_same_boxes(coco, name):
    options = {"cache": name, "cache_bytes": "8MiB", "split": "0-0-100", "shuffle": True}
    other = copy.copy(coco)
    other.coco = copy.deepcopy(coco.coco)
    for some in other.coco.boxes.values():
        some[0]["bbox"] = [0.0, 0.0, 12.0, 12.0]
    jobs = [
        loader_of(dataset_of(one, OVERLAPPING), 4, job=job, **options)
        for one, job in ((coco, "a"), (other, "b"))
    ]
    for _ in range(2):
        for batches in zip(*map(items_of, jobs), strict=True):
            assert_shown_if_kept(*batches[0][1:])
    assert sum(job.stats()["served"]["augmented"] for job in jobs) == 0


def test_boxes_that_changed_between_two_epochs_count(coco):
    inner = copy.copy(coco)
    inner.coco = copy.deepcopy(coco.coco)
    crop = v2.RandomIoUCrop(0.1, sampler_options=[0.6], trials=200)
    dataset = dataset_of(inner, [crop, v2.Resize((24, 24)), v2.ToImage()])
    loader = loader_of(dataset)
    list(loader)
    for number, some in inner.coco.boxes.items():
        del some[1:]
        image = inner.coco.imgs[number]
        some[0]["bbox"] = [0.0, 0.0, 0.6 * image["width"], 0.6 * image["height"]]
    for _, _, target in items_of(loader):
        (box,) = target["boxes"].tolist()
        assert (box[2] - box[0]) * (box[3] - box[1]) >= 0.59 * 24 * 24, "the crop is about this box"


def test_a_crop_that_reads_boxes_refuses_a_picture_without_as_torchvision_does(tmp_path):
    dataset = dataset_of(make_coco(tmp_path, 3, empty=1), OVERLAPPING)
    with pytest.raises(TypeError) as theirs:
        dataset[2]
    with pytest.raises(TypeError) as ours:
        list(loader_of(dataset))
    assert str(ours.value) == str(theirs.value)


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_goes_on_to_the_bit(coco, name, workers):
    options = {"shuffle": True, "num_workers": workers, "cache": name, "cache_bytes": "4MiB"}
    torch.manual_seed(5)
    loader = loader_of(dataset_of(coco), 4, **options)
    epoch = iter(loader)
    for _ in range(3):
        next(epoch)
    state = loader.state_dict()
    rest = [copy.deepcopy(batch) for batch in epoch]
    torch.manual_seed(99)
    again = loader_of(dataset_of(coco), 4, **options)
    again.load_state_dict(state)
    assert len(rest) == 3
    for ours, theirs in zip(again, rest, strict=True):
        assert all(map(torch.equal, ours[0], theirs[0]))
        for mine, their in zip(ours[1], theirs[1], strict=True):
            assert_same(mine, their)


def test_copies_are_exact_where_that_is_wanted(coco, name):
    epochs = []
    for job in "ab":
        generator = torch.Generator().manual_seed(3)
        loader = loader_of(
            dataset_of(coco), 6, shuffle=True, generator=generator, share="exact", cache=name,
            cache_bytes="8MiB", job=job,
        )  # fmt: skip
        epochs.append([(index, picture.clone(), target) for index, picture, target in items_of(loader)])
    for (index, picture, target), (other, theirs, their_target) in zip(*epochs, strict=True):
        assert index == other and torch.equal(picture, theirs)
        assert_same(target, their_target)
        assert_shown(picture, target)


def test_pillow_decodes_what_the_core_does_not(tmp_path, name):
    coco = make_coco(tmp_path, 12)
    for image in list(coco.coco.imgs.values())[::3]:
        path = coco.root / image["file_name"]
        image["file_name"] = path.with_suffix(".bmp").name
        Image.open(path).save(path.with_suffix(".bmp"))
    loader = loader_of(dataset_of(coco), cache=name, cache_bytes="4MiB", split="30-70-0")
    for _ in range(3):
        for _, picture, target in items_of(loader):
            assert_shown(picture, target)
    assert loader.stats()["served"]["decoded"] + loader.stats()["served"]["encoded"] > 0


@pytest.mark.parametrize("end", [[], [v2.ToPureTensor()]], ids=["Image", "pure"])
def test_stacked_pictures_have_the_memory_format_of_the_loader(coco, end):
    def stacked(items):
        return torch.stack([picture for picture, _ in items]), [target for _, target in items]

    dataset = dataset_of(coco, [v2.Resize((24, 30)), v2.ToImage(), *end])
    loader = loader_of(dataset, 3, collate_fn=stacked, memory_format=torch.channels_last)
    plain = loader_of(dataset, 3, collate_fn=stacked)
    for (pictures, _), (same, _) in zip(loader, plain, strict=True):
        assert pictures.is_contiguous(memory_format=torch.channels_last) and torch.equal(pictures, same)


def test_a_damaged_picture_is_skipped_with_its_target(tmp_path):
    coco = make_coco(tmp_path, 9)
    bad = coco.root / coco.coco.imgs[coco.ids[4]]["file_name"]
    bad.write_bytes(b"no picture")
    with pytest.warns(seneca.SenecaWarning, match="skipped"):
        items = list(items_of(loader_of(dataset_of(coco), 3, on_error="skip")))
    assert [index for index, *_ in items] == [0, 1, 2, 3, 5, 6, 7, 8]
    for index, picture, target in items:
        assert target["image_id"] == coco.ids[index]
        assert_shown(picture, target)
    with pytest.raises(DecodeError, match=bad.name):
        list(loader_of(dataset_of(coco), 3))


def test_pictures_without_annotations_have_no_boxes(tmp_path):
    coco = make_coco(tmp_path, 4, empty=1)
    *_, (_, picture, target) = items_of(loader_of(dataset_of(coco)))
    assert target == {"image_id": coco.ids[3]} and picture.shape == (3, 48, 40)


def test_single_items_come_without_a_batch(coco):
    dataset = dataset_of(coco, FIXED)
    loader = loader_of(dataset, None, collate_fn=None)
    for index, (picture, target) in enumerate(loader):
        assert type(picture) is tv.Image and picture.shape == (3, 24, 30)
        assert_same(target, dataset[index][1])


def test_default_collate_makes_of_items_what_it_makes_of_torchs(coco):
    dataset = dataset_of(coco, FIXED)
    ours = seneca.DataLoader(dataset, 1, cache=None)
    assert ours.explain().startswith("native")
    for (picture, target), (other, their_target) in zip(
        ours, torch.utils.data.DataLoader(dataset, 1), strict=True
    ):
        assert type(picture) is type(other) and picture.shape == other.shape
        assert torch.equal(target["boxes"], their_target["boxes"])
        assert torch.equal(target["image_id"], their_target["image_id"])


def test_a_batch_sampler_and_a_subset_give_their_samples(coco):
    some = Subset(dataset_of(coco), [7, 3, 11, 2, 19])
    batches = BatchSampler(RandomSampler(some, replacement=True, num_samples=9), 4, drop_last=False)
    loader = seneca.DataLoader(some, batch_sampler=batches, cache=None, collate_fn=collate)
    assert loader.explain().startswith("native")
    items = list(items_of(loader))
    assert len(items) == 9
    for index, picture, target in items:
        assert target["image_id"] == coco.ids[index]
        assert_shown(picture, target)


def test_pictures_stack_without_a_copy_where_they_are_plain_tensors(coco):
    def stacked(items):
        pictures = torch.stack([picture for picture, _ in items])
        return pictures, pictures.data_ptr() == items[0][0].data_ptr()

    pure = loader_of(dataset_of(coco, [*RANDOM, v2.ToPureTensor()]), collate_fn=stacked)
    images = loader_of(dataset_of(coco), collate_fn=stacked)
    for loader in pure, images:
        pictures, is_same_memory = next(iter(loader))
        assert type(pictures) is torch.Tensor and pictures.shape == (5, 3, 48, 40)
        assert is_same_memory == (loader is pure)


def test_where_threads_cannot_torchs_workers_load_them(coco, name):
    seen = {}

    def init(worker):
        seen["dataset"] = torch.utils.data.get_worker_info().dataset

    dataset = dataset_of(coco, FIXED)
    options = {"worker_init_fn": init, "multiprocessing_context": "fork", "collate_fn": collate}
    loader = seneca.DataLoader(dataset, 6, num_workers=1, cache=name, **options)
    assert "loaded by torch's workers" in loader.explain()
    targets = [target for _, some in loader for target in some]
    assert len(targets) == COUNT
    for index, target in enumerate(targets):
        assert_same(target, dataset[index][1])


def test_torchs_own_loader_shares_whole_items(coco, name):
    dataset = dataset_of(coco, FIXED)
    shared = seneca.SharedDataset(dataset, cache=name, cache_bytes="8MiB")
    loader = torch.utils.data.DataLoader(shared, 6, num_workers=1, collate_fn=collate)
    for _ in range(2):
        targets = [target for _, some in loader for target in some]
        assert len(targets) == COUNT
        for index, target in enumerate(targets):
            assert_same(target, dataset[index][1])


def test_what_is_not_native_is_what_torch_gives(tmp_path):
    steps = [v2.RandomRotation(9), v2.Resize((20, 20)), v2.ToImage()]
    dataset = wrapped(make_voc_boxes(tmp_path, 4, v2.Compose(steps)))
    loader = seneca.DataLoader(dataset, 2, cache=None, collate_fn=list)
    assert not loader.explain().startswith("native")
    torch.manual_seed(3)
    ours = [item for batch in loader for item in batch]
    torch.manual_seed(3)
    theirs = [item for batch in torch.utils.data.DataLoader(dataset, 2, collate_fn=list) for item in batch]
    for (picture, target), (other, their_target) in zip(ours, theirs, strict=True):
        assert torch.equal(picture, other)
        assert_same(target, their_target)
