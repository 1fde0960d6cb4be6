"""The public classes have the options of one record, and the same members with Seneca and without."""

import inspect
import re
import sys
import types
from dataclasses import dataclass
from pathlib import Path

import option_faces
import pytest
import torch

import seneca
from seneca import faces, fallback, loader
from seneca.options import Options, option
from seneca.workers import dataset, sampler

REAL = {"DataLoader": loader, "SharedDataset": dataset, "OpportunisticBatchSampler": sampler}
ROWS = torch.utils.data.TensorDataset(torch.arange(8))


def parameters(function):
    """The names, kinds and defaults of a function's parameters."""
    return [(one.name, one.kind, one.default) for one in inspect.signature(function).parameters.values()]


def test_what_is_written_is_what_the_record_says():
    hint = "after a change of the record: make generated"
    assert option_faces.FACES.read_text() == option_faces.faces(), hint
    assert option_faces.README.read_text() == option_faces.readme(), hint


@pytest.mark.parametrize("name", REAL)
def test_members_that_the_pages_list_are_those_of_the_plain_class(name):
    page = (Path(__file__).parents[2] / "docs/api.md").read_text()
    listed = re.search(rf"autoclass:: {name}\n(?:   .*\n)*?   :members: (.*)", page)[1].split(", ")
    real, off = getattr(REAL[name], name), getattr(fallback, name)
    for member in ["__init__", *listed]:
        assert hasattr(off, member), member
        if callable(getattr(real, member)):
            assert parameters(getattr(off, member)) == parameters(getattr(real, member)), member


@pytest.mark.parametrize("name", ["DataLoader", "SharedDataset"])
def test_a_class_without_a_member_cannot_be_used(name):
    """Each class has the constructor of its face, and all that is abstract there."""
    face = getattr(faces, name)
    for module in (REAL[name], fallback):
        assert "__init__" not in vars(getattr(module, name))
    if name == "DataLoader":
        own = {member for member in vars(loader.DataLoader) if member[0] != "_"}
        assert own <= {*dir(face)}, "the fallback lacks them"
    members = {one: vars(getattr(fallback, name))[one] for one in face.__abstractmethods__ - {"explain"}}
    with pytest.raises(TypeError, match="explain"):
        type("Lacking", (face,), members)(ROWS)


# docs/contributing/add-an-option.md: one field, and `make generated`


def check_colour(value):
    if value not in (None, "red"):
        raise ValueError(f"colour is red or None, but got {value!r}")


@dataclass(frozen=True)
class Coloured(Options):
    colour: str | None = option(
        None, doc="The colour of it.", row="its colour", check=check_colour, of_dataset=True
    )


@pytest.fixture
def coloured(monkeypatch):
    """seneca.loader, .workers.dataset and .fallback, with one option more in the record."""
    monkeypatch.setattr("seneca.options.Options", Coloured)

    def executed(name, source=None):
        module = types.ModuleType(name)
        source = source or Path(sys.modules[name].__file__).read_text()
        monkeypatch.setitem(sys.modules, name, module)
        exec(compile(source, name, "exec"), vars(module))
        return module

    monkeypatch.setattr(seneca, "faces", executed("seneca.faces", option_faces.faces(Coloured)))
    return {name: executed(name) for name in ("seneca.workers.dataset", "seneca.loader", "seneca.fallback")}


CLASSES = [
    ("seneca.loader", "DataLoader"),
    ("seneca.workers.dataset", "SharedDataset"),
    ("seneca.fallback", "DataLoader"),
    ("seneca.fallback", "SharedDataset"),
]


@pytest.mark.filterwarnings("ignore:.*nothing is shared")
@pytest.mark.parametrize(("module", "name"), CLASSES)
def test_an_option_that_is_added_to_the_record_is_everywhere(module, name, coloured):
    cls = getattr(coloured[module], name)
    assert inspect.signature(cls).parameters["colour"].default is None
    assert inspect.signature(cls).parameters["colour"].annotation == "str | None"
    assert "colour: " in cls.__init__.__doc__ or ", colour: " in cls.__init__.__doc__
    one = cls(ROWS, colour="red", cache=None)
    assert one.colour == "red" and one._options.colour == "red" and cls(ROWS).colour is None
    with pytest.raises(ValueError, match="colour is red"):
        cls(ROWS, colour="blue")
    assert "| `colour` | `None` | its colour |\n" in option_faces.readme(Coloured)


def test_a_loader_hands_it_on_to_the_dataset_that_its_workers_share(coloured):
    of_workers = coloured["seneca.loader"].DataLoader(ROWS, cache=None, colour="red")._shared_dataset()
    assert type(of_workers) is coloured["seneca.workers.dataset"].SharedDataset
    assert of_workers.colour == "red" and not hasattr(ROWS, "colour")
