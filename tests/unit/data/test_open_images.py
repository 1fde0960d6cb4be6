"""Pictures of OpenImages with their boxes: what is read, what is refused, and that they run natively."""

import csv
import pickle

import numpy as np
import pytest
import torch
from box_folders import white_of
from open_images_files import CLASSES, HEAD, make_open_images, write_rows
from PIL import Image
from sizes import size
from torchvision_here import torchvision, v2

import seneca
from seneca.data import open_images
from seneca.errors import DecodeError

tv = torchvision.tv_tensors
FIXED = [v2.Resize((24, 30)), v2.ToImage(), v2.SanitizeBoundingBoxes()]
SSD = [
    v2.RandomPhotometricDistort(),
    v2.RandomZoomOut(fill=[123.0, 117.0, 104.0], side_range=(1.0, 2.0)),
    v2.RandomIoUCrop(),
    v2.RandomHorizontalFlip(),
    v2.Resize((60, 60)),
    v2.ToImage(),
]
ALL = ("image_id", "boxes", "labels", "iscrowd")


def rows_in(dataset, folder):
    with (folder / "boxes.csv").open() as file:
        return list(csv.DictReader(file))


def loader_of(dataset, batch_size=4, **options):
    return seneca.DataLoader(dataset, batch_size, **({"cache": None, "collate_fn": list} | options))


def assert_same(mine, theirs):
    assert list(mine) == list(theirs)
    for key, value in theirs.items():
        assert type(mine[key]) is type(value)
        assert torch.equal(mine[key], value) if isinstance(value, torch.Tensor) else mine[key] == value


def test_targets_are_the_rows_of_the_file_in_pixels(tmp_path):
    dataset = make_open_images(tmp_path, 9, target_keys=ALL)
    rows = rows_in(dataset, tmp_path)
    assert len(dataset) == 9 and dataset.classes == ["__background__", *CLASSES.values()]
    assert repr(dataset) == f"OpenImagesDetection(9 pictures, {len(rows)} boxes)"
    for picture, target in (dataset[k] for k in range(9)):
        mine = [row for row in rows if row["ImageID"] == target["image_id"]]
        boxes, (width, height) = target["boxes"], picture.size
        assert boxes.dtype == torch.float32 and boxes.canvas_size == (height, width)
        assert boxes.format == tv.BoundingBoxFormat.XYXY and target["labels"].dtype == torch.int64
        for row, box in zip(mine, boxes.tolist(), strict=True):
            shares = [float(row[name]) for name in ("XMin", "YMin", "XMax", "YMax")]
            assert box == pytest.approx(np.array(shares) * (width, height, width, height), abs=1e-4)
        assert [list(CLASSES)[label - 1] for label in target["labels"]] == [r["LabelName"] for r in mine]
        assert target["iscrowd"].tolist() == [int(row["IsGroupOf"] == "1") for row in mine]


def test_without_descriptions_classes_are_the_label_names(tmp_path):
    dataset = make_open_images(tmp_path, 9, classes=None)
    rows = rows_in(dataset, tmp_path)
    assert dataset.classes == ["__background__", *sorted({row["LabelName"] for row in rows})]
    labels = torch.cat([dataset[k][1]["labels"] for k in range(9)])
    assert [dataset.classes[label] for label in labels] == [row["LabelName"] for row in rows]
    assert list(dataset[0][1]) == ["image_id", "boxes", "labels"]


def test_columns_may_have_any_order_and_quotes(tmp_path):
    dataset = make_open_images(tmp_path, 3)
    with (tmp_path / "boxes.csv").open() as file:
        rows = list(csv.DictReader(file))
    few = ["YMax", "XMin", "Extra", "ImageID", "YMin", "XMax", "LabelName"]
    with (tmp_path / "other.csv").open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerows([few, *([row.get(name, "é, #") for name in few] for row in rows)])
    other = seneca.OpenImagesDetection(
        tmp_path / "images", tmp_path / "other.csv", classes=tmp_path / "classes.csv"
    )
    for k in range(3):
        assert_same(other[k][1], dataset[k][1])


@pytest.mark.parametrize("rows_at_a_time", [1, 2, 5])
def test_boxes_of_a_picture_need_not_be_neighbours(tmp_path, monkeypatch, rows_at_a_time):
    dataset = make_open_images(tmp_path, 6, target_keys=ALL)
    with (tmp_path / "boxes.csv").open() as file:
        _, *rows = csv.reader(file)
    shuffled = [rows[k] for k in np.random.default_rng(3).permutation(len(rows))]
    path = write_rows(tmp_path / "other.csv", shuffled)
    monkeypatch.setattr(open_images, "ROWS", rows_at_a_time)
    options = {"classes": tmp_path / "classes.csv", "target_keys": ALL}
    again = seneca.OpenImagesDetection(tmp_path / "images", tmp_path / "boxes.csv", **options)
    for k in range(6):
        assert_same(again[k][1], dataset[k][1])
    other = seneca.OpenImagesDetection(tmp_path / "images", path, **options)
    assert [one["image_id"] for _, one in map(other.__getitem__, range(6))] == list(
        dict.fromkeys(row[0] for row in shuffled)
    )
    for k in range(6):
        target = other[k][1]
        number = [one[0].endswith(f"{target['image_id']}.jpg") for one in dataset.samples].index(True)
        mine = sorted(zip(target["boxes"].tolist(), target["labels"].tolist(), strict=True))
        theirs = dataset[number][1]
        assert mine == sorted(zip(theirs["boxes"].tolist(), theirs["labels"].tolist(), strict=True))


@pytest.mark.parametrize("workers", [0, 2])
def test_they_run_natively_and_give_what_torchs_loader_gives(tmp_path, workers):
    dataset = make_open_images(tmp_path, 9, v2.Compose(FIXED), target_keys=("boxes", "labels"))
    loader = loader_of(dataset, num_workers=workers)
    assert loader.explain().startswith(
        "native: OpenImagesDetection and its transforms run in the native core, and torchvision moves the"
    )
    ours = [item for batch in loader for item in batch]
    for (picture, target), (other, theirs) in zip(ours, (dataset[k] for k in range(9)), strict=True):
        assert type(picture) is type(other) is tv.Image
        assert (picture.float() - other.float()).abs().mean() <= 0.3
        assert_same(target, theirs)


@pytest.mark.small(1)
@pytest.mark.parametrize("split", ["100-0-0", "0-100-0", "0-0-100"])
def test_ssds_crops_read_shares_and_show_the_boxes_from_each_form(tmp_path, name, split):
    dataset = make_open_images(tmp_path, 24, v2.Compose(SSD[1:]))
    options = {"cache": name, "cache_bytes": "8MiB", "split": split, "shuffle": True, "num_workers": 1}
    jobs = [loader_of(dataset, job=job, **options) for job in "ab"]
    shown = 0
    for _ in range(3):
        for batches in zip(*jobs, strict=True):
            for picture, target in (item for batch in batches for item in batch):
                left, top, right, bottom = target["boxes"][0].tolist()
                white = white_of(picture)
                levels = picture.as_subclass(torch.Tensor).float().mean(0)
                if right - left < 4 or bottom - top < 4 or white is None:
                    continue
                inside = levels[int(top) + 2 : int(bottom) - 2, int(left) + 2 : int(right) - 2]
                assert (inside > 200).float().mean() > 0.9 if inside.numel() else True
                shown += 1
    assert shown > 60


def test_crops_that_read_shares_are_those_that_read_pixels():
    from seneca._core.codec import Codec
    from seneca.transforms._pipeline import compile_transform
    from seneca.transforms._recognise import recognise_boxes

    plan = compile_transform(recognise_boxes(v2.Compose(SSD)).transform, moves=True).plan
    rng, codec = np.random.default_rng(5), Codec()
    cropped = 0
    for index in range(size(100, 1000)):
        height, width = rng.integers(30, 130, 2).tolist()
        pixels = rng.integers(0, 256, (height, width, 3), np.uint8)
        corners = np.sort(rng.random((3, 2, 2), np.float32), axis=1).reshape(3, 4)
        moves = []
        for sides, are_shares in (
            (corners, True),
            (corners * np.array([width, height] * 2, np.float32), False),
        ):
            codec.set_boxes(np.ascontiguousarray(sides), are_shares)
            codec.augment_decoded(plan, pixels, 5, 0, 0, index)
            moves.append(codec.moves())
        assert np.array_equal(*moves)
        cropped += int(moves[0][2 + 4 : 2 + 8].any())
    assert cropped > 30


def test_some_of_the_samples_keep_their_boxes(tmp_path):
    dataset = make_open_images(tmp_path, 12, v2.Compose(SSD))
    whole, every = dataset.table(), list(dataset.samples)
    dataset.samples = every[9:2:-2]
    assert len(dataset) == 4
    table = dataset.table()
    for k, (path, number) in enumerate(dataset.samples):
        mine = table.sides[table.begins[k] : table.begins[k + 1]]
        assert np.array_equal(mine, whole.sides[whole.begins[number] : whole.begins[number + 1]])
        assert path.endswith(f"{dataset[k][1]['image_id']}.jpg")
    found = [target["image_id"] for batch in loader_of(dataset) for _, target in batch]
    assert found == [one[1]["image_id"] for one in map(dataset.__getitem__, range(4))]
    assert table.digest() != whole.digest()
    assert whole.digest() != whole._replace(are_shares=False).digest()


def test_a_state_names_the_samples(tmp_path):
    dataset = make_open_images(tmp_path, 12, v2.Compose(FIXED))
    loader, again = (loader_of(dataset, 2, shuffle=True) for _ in range(2))
    epoch = iter(loader)
    first = [target["image_id"] for _ in range(2) for _, target in next(epoch)]
    again.load_state_dict(loader.state_dict())
    rest = [target["image_id"] for batch in again for _, target in batch]
    assert sorted(first + rest) == sorted(dataset[k][1]["image_id"] for k in range(12))
    fewer = make_open_images(tmp_path / "other", 12, v2.Compose(FIXED), seed=1)
    fewer.samples = fewer.samples[:11]
    with pytest.raises(ValueError, match="sample"):
        other = loader_of(fewer, 2, shuffle=True)
        other.load_state_dict(loader.state_dict())
        next(iter(other))


def test_it_pickles(tmp_path):
    dataset = make_open_images(tmp_path, 5, v2.Compose(FIXED))
    copy = pickle.loads(pickle.dumps(dataset))
    for k in range(5):
        assert_same(copy[k][1], dataset[k][1])
    assert loader_of(copy).explain().startswith("native")


def test_what_is_not_native_runs_in_workers(tmp_path):
    dataset = make_open_images(tmp_path, 6, v2.Compose([v2.RandomRotation(9), *FIXED]))
    loader = loader_of(dataset, num_workers=1, multiprocessing_context="fork")
    assert "because RandomRotation is not written for boxes" in loader.explain()
    assert sum(len(batch) for batch in loader) == 6


def test_a_subclass_is_a_dataset_of_its_own(tmp_path):
    class Mine(seneca.OpenImagesDetection):
        def __getitem__(self, index):
            return index

    make_open_images(tmp_path, 3)
    dataset = Mine(tmp_path / "images", tmp_path / "boxes.csv", v2.Compose(FIXED))
    assert not loader_of(dataset).explain().startswith("native")
    assert [one for batch in loader_of(dataset) for one in batch] == [0, 1, 2]


GOOD = ["a", "xclick", "/m/0bt9lr", 1, 0.25, 0.5, 0, 1, 0, 0, 0, 0, 0]


def row(**changed):
    return [changed.get(name, value) for name, value in zip(HEAD, GOOD, strict=True)]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "has no boxes"),
        ([GOOD, row(XMin="x")], "line 3: XMin is 'x', which is no number"),
        ([GOOD, GOOD, row(YMax=1.5)], "line 4: YMax is 1.5, but it is a share of the picture's side"),
        ([row(XMin=-0.1)], "line 2: XMin is -0.1, but it is a share"),
        ([row(YMin="nan")], "line 2: YMin is nan, but it is a share"),
        ([row(XMin=0.9)], "line 2: XMin 0.9 is greater than XMax 0.5"),
        ([row(YMin=1, YMax=0.5)], "line 2: YMin 1 is greater than YMax 0.5"),
        ([row(ImageID="")], "line 2: ImageID is empty"),
        ([GOOD, GOOD[:6]], "line 3: it has 6 columns, but 8 are needed"),
        ([row(LabelName="/m/" + "0" * 200)], "line 2: LabelName is '/m/000"),
        ([row(ImageID="\u4e2d")], "line 2: ImageID is"),
        ([row(LabelName="/m/unknown")], "the LabelName '/m/unknown' is not in classes="),
    ],
)
def test_what_is_wrong_with_annotations_is_named_with_its_line(tmp_path, rows, words):
    Image.new("RGB", (9, 8)).save(tmp_path / "a.jpg")
    path = write_rows(tmp_path / "boxes.csv", rows)
    (tmp_path / "classes.csv").write_text("LabelName,DisplayName\n/m/0bt9lr,Dog\n")
    with pytest.raises(ValueError) as caught:
        seneca.OpenImagesDetection(tmp_path, path, classes=tmp_path / "classes.csv")
    assert words in str(caught.value) and str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["ImageID", "LabelName", "YMax", "IsGroupOf"])
def test_a_column_that_is_missing_is_named(tmp_path, name):
    head = [one for one in HEAD if one != name]
    path = write_rows(tmp_path / "boxes.csv", [GOOD[1:]], head)
    with pytest.raises(ValueError, match=f"has no column {name}, but .*give the CSV file"):
        seneca.OpenImagesDetection(tmp_path, path, target_keys=ALL)


def test_a_missing_picture_is_named_with_the_remedy(tmp_path):
    path = write_rows(tmp_path / "boxes.csv", [GOOD])
    with pytest.raises(FileNotFoundError, match=r"leave its rows out of the annotations.*a\.jpg"):
        seneca.OpenImagesDetection(tmp_path, path)
    (tmp_path / "a.jpg").mkdir()
    with pytest.raises(IsADirectoryError, match="is a folder"):
        seneca.OpenImagesDetection(tmp_path, path)


def test_descriptions_that_are_damaged_are_named(tmp_path):
    Image.new("RGB", (9, 8)).save(tmp_path / "a.jpg")
    path = write_rows(tmp_path / "boxes.csv", [GOOD])
    for text, words in (("/m/0bt9lr\n", "line 1: it is no"), ("/m/a,A\n/m/a,B\n", "line 2: /m/a is there")):
        (tmp_path / "classes.csv").write_text(text)
        with pytest.raises(ValueError, match=words):
            seneca.OpenImagesDetection(tmp_path, path, classes=tmp_path / "classes.csv")


def test_options_that_are_wrong_are_named(tmp_path):
    path = write_rows(tmp_path / "boxes.csv", [GOOD])
    for keys in ("boxes", ["boxes", "masks"]):
        with pytest.raises(ValueError, match="target_keys are of image_id, boxes, labels, iscrowd, but got"):
            seneca.OpenImagesDetection(tmp_path, path, target_keys=keys)
    with pytest.raises(ValueError, match="max_pixels is at least 1"):
        seneca.OpenImagesDetection(tmp_path, path, max_pixels=0)


def test_a_picture_that_is_too_large_or_damaged_is_named(tmp_path):
    dataset = make_open_images(tmp_path, 2, max_pixels=100)
    with pytest.raises(DecodeError, match=r"0000\.jpg.*max_pixels=100"):
        dataset[0]
    dataset.transforms = v2.Compose(FIXED)
    with pytest.raises(DecodeError, match=r"0000\.jpg"):
        list(loader_of(dataset))
