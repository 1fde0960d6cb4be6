"""Libraries behind which sharing was lost: compiled functions, seeded generators, configurations.

As in tests/identity/test_lost_sharing.py, jobs that differ in what no item depends on share, and each has a
twin in which it matters.
"""

import pytest
from rows import Row, compare_jobs, dataset

ALBUMENTED = "return self.t(image=np.full((8, 8, 3), i, np.uint8))['image']"
OMEGA = "self.c = OmegaConf.create({'lr': LR, 'data': {'size': SIZE, 'other': LR}})"
FLAGS = """
    from absl import flags
    flags.DEFINE_integer('lr', LR, '')
    flags.DEFINE_integer('size', SIZE, '')
    flags.FLAGS(['x'])
    FLAGS = flags.FLAGS
"""

# name, package, source, how people learn that the size differs
TWINS = [
    (
        "numba",
        "numba",
        dataset("return f(i)", before="import numba\n@numba.njit\ndef f(x): return x * SIZE"),
        "SIZE",
    ),
    (
        "numba, compiled in one job",
        "numba",
        dataset(
            "return f(i)",
            "if LR == 1: f(3)",
            before="import numba\n@numba.njit\ndef f(x): return x * SIZE",
        ),
        "SIZE",
    ),
    (
        "numba, vectorized",
        "numba",
        dataset("return f(i)", before="import numba\n@numba.vectorize\ndef f(x): return x * SIZE"),
        "SIZE",
    ),
    (
        "albumentations, fixed",
        "albumentations",
        dataset(
            ALBUMENTED, "import albumentations as A\nself.t = A.Compose([A.Resize(SIZE, 4), A.Normalize()])"
        ),
        "t",
    ),
    (
        "albumentations, random",
        "albumentations",
        dataset(
            ALBUMENTED,
            "import albumentations as A\nself.t = A.Compose([A.RandomCrop(SIZE, 4), A.HorizontalFlip()])",
        ),
        "t",
    ),
    (
        "monai",
        "monai",
        dataset(
            "return self.t(np.full((1, 8, 8), i, np.float32))",
            "from monai.transforms import Compose, RandFlip, Resize\n"
            "self.t = Compose([Resize((4, SIZE)), RandFlip(prob=0.5)])",
        ),
        "t",
    ),
    (
        "OmegaConf",
        "omegaconf",
        dataset("return i * self.c.data.size", OMEGA, before="from omegaconf import OmegaConf"),
        "c.data.size",
    ),
    (
        "OmegaConf, a global",
        "omegaconf",
        dataset(
            "return i * c.data.size", before=f"from omegaconf import OmegaConf\n{OMEGA.removeprefix('self.')}"
        ),
        "c.data.size",
    ),
    (
        "EasyDict",
        "easydict",
        dataset(
            "return i * self.c.size",
            "from easydict import EasyDict\nself.c = EasyDict({'lr': LR, 'size': SIZE})",
        ),
        "c.size",
    ),
    (
        "ml_collections",
        "ml_collections",
        dataset(
            "return i * self.c.size",
            "import ml_collections\nself.c = ml_collections.ConfigDict({'lr': LR, 'size': SIZE})",
        ),
        "c.size",
    ),
    ("absl", "absl", dataset("return i * FLAGS.size", before=FLAGS), "FLAGS.size"),
]
IDS = [name for name, *_ in TWINS]


@pytest.mark.parametrize("name, package, source, named", TWINS, ids=IDS)
def test_what_no_item_depends_on_parts_no_jobs(name, package, source, named, tmp_path):
    pytest.importorskip(package)
    row = Row(name, source, "LR = 1; SIZE = 3", "LR = 2; SIZE = 3")
    shared, differ, _ = compare_jobs(row, tmp_path)
    assert shared, differ


@pytest.mark.parametrize("name, package, source, named", TWINS, ids=IDS)
def test_its_twin_parts_them_and_says_why(name, package, source, named, tmp_path):
    pytest.importorskip(package)
    row = Row(name, source, "LR = 1; SIZE = 3", "LR = 1; SIZE = 4")
    shared, differ, _ = compare_jobs(row, tmp_path)
    assert not shared
    assert any(named in part for part in differ) and not any("lr" in part for part in differ), differ


def a_file(side):
    (side.both / "f.txt").write_text(side.pick("1", "22"))


# Rows that part, because what the library holds decides the items.
PART = [
    Row(
        "OmegaConf, from the environment",
        dataset(
            "return i * int(self.c.size)",
            "from omegaconf import OmegaConf\nself.c = OmegaConf.create({'size': '${oc.env:QQ}'})",
        ),
        "os.environ['QQ'] = '1'",
        "os.environ['QQ'] = '2'",
        "c.size",
    ),
    Row(
        "gin",
        dataset(
            "return f(i)",
            "gin.parse_config(f'f.k={K}')",
            before="import gin\n@gin.configurable\ndef f(i, k=1): return i * k",
        ),
        "K = 1",
        "K = 2",
        "gin",
    ),
    Row(
        "paths in pyarrow",
        dataset(
            "return open(self.t[0].as_py()).read()", "import pyarrow as pa\nself.t = pa.array([FILE] * 3)"
        ),
        named="f.txt",
        prepare=a_file,
    ),
    Row(
        "paths in polars",
        dataset(
            "return open(self.f['p'][0]).read()",
            "import polars\nself.f = polars.DataFrame({'p': [FILE] * 3})",
        ),
        named="f.txt",
        prepare=a_file,
    ),
    *(
        Row(
            f"paths in pandas, {kind}",
            dataset(
                "return open(self.f['p'][0]).read()",
                f"import pandas as pd\nself.f = pd.DataFrame({{'p': [FILE] * 3}}).astype('{kind}')",
            ),
            named="f.txt",
            prepare=a_file,
        )
        for kind in ("object", "string", "string[pyarrow]")
    ),
]


@pytest.mark.parametrize("row", PART, ids=str)
def test_what_a_library_holds_parts_jobs(row, tmp_path):
    for package in ("omegaconf", "gin", "pyarrow", "pandas", "polars"):
        pytest.importorskip(package)
    shared, differ, _ = compare_jobs(row, tmp_path)
    assert not shared
    assert any(row.named in part for part in differ), differ


def test_equal_configurations_of_gin_share(tmp_path):
    pytest.importorskip("gin")
    shared, differ, _ = compare_jobs(Row("gin", PART[1].source, "K = 1", "K = 1"), tmp_path)
    assert shared, differ
