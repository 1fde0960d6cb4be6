"""Tests lie where the code lies: those of seneca/epochs/plan.py are tests/unit/epochs/test_plan.py.

A module may have several files, ``test_plan_<subject>.py``. An underscore before a module's name is left out.
"""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_LINES = {".py": 600, ".pyx": 400}  # of a test, and of the border, which decides nothing

# Of no module, but of how all of them stand to each other and to the documentation.
OF_ALL = {
    *("test_architecture.py", "test_examples.py", "test_imports.py", "test_mirror.py"),
    *("test_crash_points.py", "test_public_surface.py"),
}

# Modules that the tests of those that use them show, and that show nothing by themselves.
WITHOUT = {
    "_core/codes": "what codes mean: the errors in _core/test_segment.py, test_codec_damage.py",
    "_core/early": "streams of epochs that have not begun: native/test_gap.py, tests/c/test_pool.c",
    "_core/participant": "what members and workers have in common: _core/test_worker.py",
    "_core/plan": "pipelines as C has them: all of _core/test_codec_*.py, transforms/test_pipeline.py",
    "_core/undecoded": "pictures that are left to Pillow: test_loader.py, native/test_fetchers.py",
    "cli/checks/finding": "what a check found: all of cli/checks/, cli/test_doctor.py",
    "cli/demo_job": "what the processes of the demo run: cli/test_demo.py",
    "cli/planning/command": "seneca plan as it is typed: cli/planning/test_plan.py",
    "data/file_lists": "where the bytes are, by PictureFiles: data/test_files.py, test_archive.py",
    "data/kinds/annotated": "pictures with masks or boxes: data/test_tv_pairs.py, test_tv_boxes.py",
    "data/kinds/boxes": "pictures with boxes: data/test_tv_boxes.py",
    "data/kinds/fingerprints": "names of samples and items: data/test_support.py, tests/identity",
    "data/kinds/items": "any dataset: data/test_support.py",
    "data/kinds/kind": "what each kind gets and returns: data/test_support.py",
    "data/kinds/pairs": "pictures with masks: data/test_tv_pairs.py",
    "data/kinds/pictures": "pictures with labels: data/test_support.py, test_joined.py",
    "data/kinds/sounds": "sounds with labels: data/test_sounds.py, test_loader_sounds.py",
    "data/kinds/staged": "stages: data/test_support.py, test_stages.py",
    "data/pictures": "datasets of pictures: data/test_folder.py, test_archive.py",
    "epochs/sampler_state": "samplers that keep their place: epochs/test_resumable_orders.py",
    "identity/fingerprinter": "fingerprint() itself: all of identity/, data/test_support.py",
    "identity/names": "what code names: the tables of identity/test_of_code.py",
    "identity/of_data": "data by content: the tables of identity/test_of_code.py, identity/test_plain.py",
    "native/explained": "what explain() says: data/test_support.py, test_loader_options.py",
    "native/iterator": "an epoch of threads: test_loader.py, tests/contract",
    "native/planned_order": "known orders: test_loader.py, test_loader_ranks.py, epochs/test_resumable_*.py",
    "native/prefetch": "batches made ahead: test_loader.py, test_loader_lifetime.py",
    "native/session": "what epochs have in common: test_loader.py, tuning/test_controller.py",
    "data/sources/arrow": "tables of Hugging Face datasets: tests/frameworks/test_datasets.py",
    "data/sources/source": "a row of data.sources.SOURCES: data/test_archive.py",
    "data/sources/parquet": "files of Parquet, which pyarrow writes: tests/frameworks/test_parquet.py",
    "data/tv_wrapper": "data/test_tv_pairs.py, test_tv_boxes.py",
    "transforms/_arguments": "transforms/test_base.py, test_geometry.py, test_colour.py, test_tensor.py",
    "tuning/whole": "a profile in full: tuning/test_profile.py, tuning/test_quick.py",
    "workers/batch": "one batch of a preparer: workers/test_prepare.py, test_prepare_items.py",
    "workers/explained": "what explain() says: data/test_support.py, tests/identity/test_proof.py",
    "workers/inspection": "datasets that change: workers/test_dataset.py, tests/identity/test_one_job.py",
    "workers/iterators": "torch's iterators, one by one: tests/contract",
    "workers/session": "what workers did: test_loader_telemetry.py, tuning/test_controller.py",
    "workers/proof/evidence": "tests/identity/test_rare_differences.py, test_proof.py, bench/bench_proof.py",
    "workers/proof/examples": "tests/identity/test_proof.py",
    "workers/proof/prove": "tests/identity/test_proof.py",
}


def modules(root):
    """Each module of seneca/ as its path without suffix, ``epochs/plan``; of Cython's too."""
    found = {
        path.relative_to(root / "seneca").with_suffix("").as_posix()
        for path in (root / "seneca").rglob("*.py*")
        if path.suffix in (".py", ".pyx")
    }
    return {module for module in found if module.split("/")[-1] not in ("__init__", "__main__")}


def test_files(root):
    return {
        path.relative_to(root / "tests" / "unit") for path in (root / "tests" / "unit").rglob("test_*.py")
    }


test_files.__test__ = False


def module_of(file, known):
    """Which module a test file is of, the one with the longest name; None: of none."""
    words = file.stem.removeprefix("test_").split("_")
    for count in range(len(words), 0, -1):
        for prefix in ("", "_"):
            module = (file.parent / (prefix + "_".join(words[:count]))).as_posix()
            if module in known:
                return module
    return None


def violations(root, without, of_all=()):
    """One line for everything that is not in its place."""
    known = modules(root)
    files = {file for file in test_files(root) if file.as_posix() not in of_all}
    tested = {module_of(file, known) for file in files}
    for module in sorted(known - tested - without.keys()):
        yield f"seneca/{module} has no test of its name, and test_mirror.py does not say why"
    for module in sorted(without.keys() & tested):
        yield f"seneca/{module} has a test of its name, and test_mirror.py says why it has none"
    for module in sorted(without.keys() - known):
        yield f"test_mirror.py says why seneca/{module} has no test, and there is no such module"
    for file in sorted(file for file in files if module_of(file, known) is None):
        yield f"tests/unit/{file.as_posix()} is named after no module"
    for path in sorted([*(root / "tests").rglob("*.py"), *(root / "seneca").rglob("*.pyx")]):
        if (lines := path.read_text().count("\n")) > MOST_LINES[path.suffix]:
            yield f"{path.relative_to(root)} has {lines} lines, more than {MOST_LINES[path.suffix]}"


def test_tests_lie_where_the_code_lies():
    found = list(violations(ROOT, WITHOUT, OF_ALL))
    assert not found, "\n".join(found)


def test_every_reason_is_given():
    assert all(WITHOUT.values())


@pytest.mark.parametrize(
    ("files", "without", "message"),
    [
        ({}, {}, None),
        ({"tests/unit/epochs/test_plan_of_ranks.py": ""}, {}, None),
        ({"seneca/epochs/_lengths.py": "", "tests/unit/epochs/test_lengths.py": ""}, {}, None),
        ({"seneca/_core/codec.pyx": "", "tests/unit/_core/test_codec.py": ""}, {}, None),
        ({"seneca/forms.py": ""}, {"forms": "names alone"}, None),
        ({"seneca/forms.py": ""}, {}, "seneca/forms has no test of its name"),
        ({"seneca/epochs/batches.py": ""}, {}, "seneca/epochs/batches has no test of its name"),
        (
            {"seneca/epochs/plan_state.py": "", "tests/unit/epochs/test_plan_state.py": ""},
            {"epochs/plan_state": "trivial"},
            "seneca/epochs/plan_state has a test of its name",
        ),
        ({}, {"gone": "trivial"}, "there is no such module"),
        (
            {"tests/unit/epochs/test_planning.py": ""},
            {},
            "tests/unit/epochs/test_planning.py is named after no",
        ),
        ({"tests/unit/test_plan.py": ""}, {}, "tests/unit/test_plan.py is named after no module"),
        ({"tests/stress/test_jobs.py": "#\n" * 601}, {}, "test_jobs.py has 601 lines"),
        ({"tests/engine.py": "#\n" * 601}, {}, "engine.py has 601 lines"),
        (
            {"seneca/_core/codec.pyx": "#\n" * 401, "tests/unit/_core/test_codec.py": ""},
            {},
            "codec.pyx has 401 lines, more than 400",
        ),
    ],
)
def test_the_check_sees(tmp_path, files, without, message):
    known = ["seneca/__init__.py", "seneca/epochs/plan.py", "tests/unit/epochs/test_plan.py"]
    for name, content in {**dict.fromkeys(known, ""), **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    found = list(violations(tmp_path, without))
    assert found == [] if message is None else len(found) == 1 and message in found[0], found
