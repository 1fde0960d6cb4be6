"""Parquet: pictures are read where they lie in the file, and are those of the folder."""

import json
import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not here; `make test-frameworks` installs it")

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from made_pages import varint

import seneca
from seneca import transforms as T
from seneca.data.archive import PictureArchive
from seneca.data.sources import parquet
from seneca.errors import SourceError

CROP = T.Compose([T.RandomResizedCrop(32), T.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD)])
IN_PLACE = {"compression": "none", "use_dictionary": False}


@pytest.fixture(autouse=True)
def cache_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def folder(imagenet_sample):
    return seneca.ImageFolder(imagenet_sample, CROP)


def features(classes):
    kinds = {"image": {"_type": "Image"}, "label": {"names": classes, "_type": "ClassLabel"}}
    return {b"huggingface": json.dumps({"info": {"features": kinds}}).encode()}


def table_of(folder, of_datasets=True, named=True):
    """The pictures as Hugging Face ``datasets`` writes them into Parquet, or as plain bytes."""
    pictures = [folder.read(i) for i in range(len(folder))]
    if of_datasets:
        names = [os.path.basename(path) if named else None for path, _ in folder.samples]
        kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
        pairs = zip(pictures, names, strict=True)
        column = pa.array([{"bytes": picture, "path": name} for picture, name in pairs], kind)
    else:
        column = pa.array(pictures, pa.binary())
    metadata = features(folder.classes) if of_datasets else None
    columns = {"image": column, "size": pa.array(map(len, pictures)), "label": pa.array(folder.targets)}
    return pa.table(columns, metadata=metadata)


def write(table, path, **options):
    pq.write_table(table, path, **(IN_PLACE | options))
    return str(path)


def epoch(dataset, **options):
    options = {"cache": None, "num_workers": 2} | options
    loader = seneca.DataLoader(
        dataset, 8, shuffle=True, generator=torch.Generator().manual_seed(3), **options
    )
    assert loader.explain().startswith("native")
    return [(images.clone(), labels.clone()) for images, labels in loader]


def assert_equal(some, others):
    for one, other in zip(some, others, strict=True):
        assert torch.equal(one[0], other[0]) and torch.equal(one[1], other[1])


LAYOUTS = [
    {},
    {"row_group_size": 25},
    {"data_page_version": "2.0", "write_page_index": True, "write_page_checksum": True},
    {"data_page_size": 1 << 14, "write_batch_size": 4, "row_group_size": 70},
    {"compression": {"size": "snappy", "label": "zstd"}, "use_dictionary": ["size", "label"]},
]


@pytest.mark.parametrize("of_datasets", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_batches_are_those_of_the_folder(folder, tmp_path, of_datasets, layout):
    path = write(table_of(folder, of_datasets), tmp_path / "train.parquet", **layout)
    opened = seneca.open(path, CROP, image="image", label="label")
    assert type(opened) is PictureArchive and opened.targets == folder.targets
    assert opened.classes == (folder.classes if of_datasets else [])
    assert [opened.read(i) for i in range(len(folder))] == [folder.read(i) for i in range(len(folder))]
    assert_equal(epoch(opened), epoch(folder))


def test_columns_that_cannot_be_null(folder, tmp_path):
    table = table_of(folder, of_datasets=False)
    schema = pa.schema([field.with_nullable(False) for field in table.schema])
    opened = seneca.open(write(table.cast(schema), tmp_path / "all.parquet"), CROP, label="label")
    assert [opened.read(i) for i in (0, 7, 39)] == [folder.read(i) for i in (0, 7, 39)]


@pytest.mark.parametrize("pattern", ["train-*.parquet", "train-{0..2}.parquet", None])
def test_several_files_are_one_dataset(folder, tmp_path, pattern, segment_folder):
    table = table_of(folder)
    rows = -(-len(folder) // 3)
    paths = [
        write(table.slice(rows * n, rows), tmp_path / f"train-{n}.parquet", row_group_size=11)
        for n in range(3)
    ]
    opened = seneca.open(str(tmp_path / pattern) if pattern else paths, CROP)
    assert opened.targets == folder.targets and opened.classes == folder.classes
    assert_equal(epoch(opened), epoch(folder))
    options = {"cache_bytes": "256MB", "split": "100-0-0", "share": "none", "check_every": None}
    loader = seneca.DataLoader(opened, 8, num_workers=1, cache="auto", **options)
    list(loader)
    list(loader)
    assert loader.stats()["served"]["storage"] == len(folder), "in the second epoch from the cache"


@pytest.mark.parametrize("named", [True, False])
def test_a_function_gives_labels_by_the_path_or_the_number_of_the_row(folder, tmp_path, named):
    table = table_of(folder, named=named).drop_columns("label")
    names = [os.path.basename(path) if named else str(row) for row, (path, _) in enumerate(folder.samples)]
    path = write(table, tmp_path / "train.parquet")
    opened = seneca.open(path, CROP, labels=names.index)
    assert opened.samples[7] == (f"{path}/{names[7]}", names.index(names[7])) and opened.classes == []
    with pytest.raises(ValueError, match="give label= or labels=, not both"):
        seneca.open(path, CROP, label="size", labels=names.index)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"compression": "snappy"}, "compression is SNAPPY, and its encoding PLAIN"),
        ({"use_dictionary": True}, "compression is UNCOMPRESSED, and its encoding RLE_DICTIONARY"),
        ({"column_encoding": {"image.bytes": "DELTA_LENGTH_BYTE_ARRAY"}}, "encoding DELTA_LENGTH_BYTE_ARRAY"),
    ],
)
def test_the_remedy_that_the_error_names_works(folder, tmp_path, options, says):
    path = write(table_of(folder), tmp_path / "train.parquet", **options)
    with pytest.raises(SourceError, match=f"train.parquet: the column 'image' cannot be .*{says}") as error:
        seneca.open(path, CROP)
    _, _, remedy = str(error.value).partition("; write the file again with ")
    new = str(tmp_path / "new.parquet")
    import pyarrow.parquet

    eval(remedy, {"pyarrow": pyarrow, "NEW_PATH": new})
    opened = seneca.open(new, CROP)
    assert (opened.targets, opened.classes) == (folder.targets, folder.classes)
    assert_equal(epoch(opened), epoch(folder))


def test_a_file_that_is_written_again_is_named(folder, tmp_path):
    path = write(table_of(folder), tmp_path / "train.parquet")
    opened = seneca.open(path, CROP)
    epoch(opened)
    write(table_of(folder).slice(1), path)
    with pytest.raises(OSError, match=r"has changed since it was opened.*train\.parquet"):
        epoch(opened)
    assert len(seneca.open(path, CROP)) == len(folder) - 1, "the list that was kept is of the earlier file"


def test_what_was_listed_is_kept(folder, tmp_path, monkeypatch):
    """Of each column, until the file has another time of modification."""
    table = table_of(folder)
    path = write(table.append_column("other", pictures(*[b"7"] * len(folder))), tmp_path / "train.parquet")
    listed, real = [], parquet.values_of_chunk
    monkeypatch.setattr(parquet, "values_of_chunk", lambda *args: listed.append(1) or real(*args))
    first, again = (seneca.open(path, CROP) for _ in range(2))
    assert again.samples == first.samples and again.fingerprint() == first.fingerprint()
    assert len(listed) == 1
    assert seneca.open(path, CROP, image="other").read(3) == b"7" and len(listed) == 2
    os.utime(path, ns=(1, 1))
    assert seneca.open(path, CROP).read(3) == folder.read(3) and len(listed) == 3


def test_a_path_need_not_be_a_text(tmp_path):
    """Some file systems have names that are not UTF-8, and a writer of Parquet checks nothing."""
    paths = pa.array([b"\xff.jpg", b"2.jpg", None], pa.binary())
    paths = pa.Array.from_buffers(pa.string(), 3, paths.buffers())
    column = pa.StructArray.from_arrays([pictures(b"1", b"2", b"3"), paths], ["bytes", "path"])
    path = write(pa.table({"image": column, "label": [0, 1, 2]}), tmp_path / "a.parquet")
    for _ in "listed", "kept":
        assert [name for name, _ in seneca.open(path).samples] == [
            f"{path}/{name}" for name in ("\udcff.jpg", "2.jpg", "2")
        ]


def pictures(*values):
    return pa.array(values, pa.binary())


def test_rows_without_a_picture_or_a_label_are_named(tmp_path):
    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    one = {"bytes": b"1", "path": None}
    for column in (
        pictures(b"1", b"2", None),
        pa.array([one, one, None], kind),
        pa.array([one, one, {"bytes": None, "path": "3.jpg"}], kind),
    ):
        path = write(
            pa.table({"image": column, "label": [0, 1, 2]}), tmp_path / "a.parquet", row_group_size=2
        )
        with pytest.raises(SourceError, match="the column 'image' has no picture in row 2; write the file"):
            seneca.open(path)
    path = write(pa.table({"image": pictures(b"1", b"2"), "label": [None, 1]}), tmp_path / "a.parquet")
    with pytest.raises(SourceError, match="1 rows have no 'label'; write the file again without such rows"):
        seneca.open(path)


def test_columns_that_do_not_fit_are_named(folder, tmp_path):
    table = pa.table({"one": pictures(b"1"), "two": pictures(b"2"), "text": ["a"], "list": [[b"1"]]})
    path = write(table, tmp_path / "a.parquet")
    which = "a.parquet: which column has the pictures"
    with pytest.raises(
        SourceError, match=rf"{which}\? 2 columns can be it; give image=, one of one, two, text"
    ):
        seneca.open(path)
    with pytest.raises(SourceError, match=rf"{which}\? there is no column 'three'; give image="):
        seneca.open(path, image="three")
    for name, kind in (("text", "string"), ("list", "list<.*>")):
        with pytest.raises(SourceError, match=f"'{name}' holds {kind}, and not the bytes of pictures"):
            seneca.open(path, image=name)
    with pytest.raises(SourceError, match=r"which column has the labels\? 0 columns can be it; give label="):
        seneca.open(path, image="two")
    with pytest.raises(SourceError, match=r"'text' holds string, and not whole numbers; give labels="):
        seneca.open(path, image="two", label="text")
    assert seneca.open(path, image="two", labels=int).read(0) == b"2"


def test_files_that_do_not_fit_together_are_named(tmp_path):
    for name, classes in (("a", ["cat", "dog"]), ("b", ["dog", "cat"])):
        table = pa.table({"image": pictures(b"1"), "label": [0]}, metadata=features(classes))
        write(table, tmp_path / f"{name}.parquet")
    with pytest.raises(SourceError, match=r"b.parquet names other classes than .*a.parquet"):
        seneca.open(str(tmp_path / "*.parquet"))
    with pytest.raises(ValueError, match="one dataset is either of Parquet files or of other containers"):
        seneca.open([str(tmp_path / "a.parquet"), str(tmp_path / "b.tar")])
    empty = write(table.slice(1), tmp_path / "c.parquet")
    with pytest.raises(FileNotFoundError, match=r"c.parquet: no rows"):
        seneca.open(empty)
    with pytest.raises(FileNotFoundError, match=r"none.parquet"):
        seneca.open(str(tmp_path / "none.parquet"))


def test_types_of_datasets_that_cannot_be_read_are_as_none(tmp_path):
    for said in (b"no json", b"[]", b'{"info": 7}', b'{"info": {"features": {"image": 3, "label": 4}}}'):
        table = pa.table({"image": pictures(b"1"), "label": [5]}, metadata={b"huggingface": said})
        opened = seneca.open(write(table, tmp_path / f"{len(said)}.parquet"))
        assert (opened.targets, opened.classes) == ([5], [])


def test_a_file_that_is_damaged_is_named(folder, tmp_path):
    path = write(table_of(folder), tmp_path / "train.parquet")
    with open(path, "r+b") as file:
        file.seek(4)
        file.write(b"\xff" * 40)
    with pytest.raises(
        SourceError, match=r"the column 'image' has a damaged page at byte 4: .*; copy the file"
    ):
        seneca.open(path)
    os.truncate(path, 1000)
    with pytest.raises(SourceError, match=r"train.parquet cannot be read as a Parquet file: "):
        seneca.open(path)


@pytest.mark.parametrize("column", ["image.path", "label"])
def test_columns_of_different_lengths_are_named(folder, tmp_path, monkeypatch, column):
    """As in a file whose list of columns is damaged."""
    path = write(table_of(folder), tmp_path / "train.parquet")
    real = pq.ParquetFile.read

    def shorter(self, columns):
        table = real(self, columns=columns)
        return table.slice(2) if columns == [column] else table

    monkeypatch.setattr(pq.ParquetFile, "read", shorter)
    n = len(folder)
    with pytest.raises(
        SourceError, match=rf"is damaged: .*'image' has {n} rows, and '{column}' has {n - 2}; copy"
    ):
        seneca.open(path)


def test_values_are_compared_with_those_that_pyarrow_reads(folder, tmp_path, monkeypatch):
    path = write(table_of(folder), tmp_path / "train.parquet")
    real = parquet.values_of_chunk

    def shifted(*arguments):
        offsets, lengths = real(*arguments)
        return offsets + 1, lengths

    monkeypatch.setattr(parquet, "values_of_chunk", shifted)
    with pytest.raises(
        SourceError, match="the column 'image' has other bytes in the file than pyarrow reads"
    ):
        seneca.open(path)


def test_without_pyarrow_it_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "a.parquet").touch()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SourceError, match=r"a.parquet needs the package pyarrow: pip install pyarrow"):
        seneca.open(str(tmp_path / "a.parquet"))


def test_what_datasets_writes_is_read_in_place(folder, tmp_path):
    """Where ``datasets`` writes pictures uncompressed, as it does today."""
    datasets = pytest.importorskip("datasets", reason="datasets is not here")
    kinds = {"image": datasets.Image(), "label": datasets.ClassLabel(names=folder.classes)}
    whole = {
        "image": [{"bytes": folder.read(i), "path": None} for i in range(len(folder))],
        "label": folder.targets,
    }
    datasets.Dataset.from_dict(whole, datasets.Features(kinds)).to_parquet(tmp_path / "train.parquet")
    opened = seneca.open(tmp_path / "train.parquet", CROP)
    assert opened.classes == folder.classes
    assert_equal(epoch(opened), epoch(folder))


def test_a_list_of_columns_that_leads_to_other_pictures_is_named(tmp_path):
    """The groups of rows are alike, and the footer says of the second one that it is where the first is."""
    values = [bytes([65 + number]) * 400 for number in range(12)]
    path = write(
        pa.table({"image": pictures(*values), "label": range(12)}), tmp_path / "a.parquet", row_group_size=4
    )
    assert [seneca.open(path).read(number) for number in range(12)] == values
    meta = pq.ParquetFile(path).metadata
    first, second = (meta.row_group(group).column(0).data_page_offset for group in (0, 1))
    data = bytearray(Path(path).read_bytes())
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    right, wrong = varint(second << 1), varint(first << 1)
    assert (len(wrong), len(right)) == (1, 2)
    changed = bytes(data[footer:]).replace(right, bytes([wrong[0] | 128, 0]))
    assert changed != data[footer:]
    Path(path).write_bytes(data[:footer] + changed)
    with pytest.raises(SourceError, match="'image' is not where the file says; copy the file again"):
        seneca.open(path)


def test_a_compression_that_nobody_knows_is_named(folder, tmp_path):
    """pyarrow ends the process when it is asked for its name."""
    path = write(table_of(folder), tmp_path / "train.parquet")
    data = Path(path).read_bytes()
    place = data.rindex(b"\x05bytes\x15\x00")
    Path(path).write_bytes(data[: place + 7] + b"\x66" + data[place + 8 :])
    with pytest.raises(SourceError, match=r"cannot be read in place: its compression is unknown \(51\)"):
        seneca.open(path)
