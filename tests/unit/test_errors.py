"""Errors are caught as what they are, name the file, and travel between processes."""

import pickle
from pathlib import Path

import pytest

from seneca import errors

CLASSES = [getattr(errors, name) for name in errors.__all__]
SEGMENT = [cls for cls in CLASSES if issubclass(cls, errors.SegmentError)]


@pytest.mark.parametrize("cls", CLASSES)
def test_every_error_is_senecas_own_and_names_its_remedy(cls):
    assert issubclass(cls, errors.SenecaError)
    assert cls is errors.SenecaError or "Remedy:" in cls.__doc__


@pytest.mark.parametrize("cls", CLASSES)
def test_every_error_pickles(cls):
    copy = pickle.loads(pickle.dumps(cls("reason")))
    assert type(copy) is cls and str(copy) == "reason"


def test_pictures_raise_value_errors_and_segments_raise_os_errors():
    assert issubclass(errors.DecodeError, ValueError)
    assert issubclass(errors.PlanError, ValueError)
    assert len(SEGMENT) == 10
    assert all(issubclass(cls, OSError) for cls in SEGMENT)


def test_a_segment_error_keeps_the_systems_number():
    error = errors.NoSpaceError(28, "no room")
    assert error.errno == 28 and "no room" in str(error)


def test_a_decode_error_names_the_file_even_when_set_later():
    error = errors.LeftToPillowError("no marker")
    assert str(error) == "no marker"
    error.path = Path("cats/1.png")
    assert str(error) == "cats/1.png: no marker"
    assert str(pickle.loads(pickle.dumps(error))) == "cats/1.png: no marker"


def test_torch_workers_can_raise_a_decode_error_again_from_its_text_alone():
    assert str(errors.DecodeError("Caught DecodeError in worker 0")) == "Caught DecodeError in worker 0"
