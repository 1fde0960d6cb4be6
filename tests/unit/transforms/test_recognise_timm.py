"""timm is known by the names of its types: another type of such a name is not timm's."""

import sys
import types

import pytest

from seneca.transforms._recognise import recognise
from seneca.transforms._timm import FUNCTIONS, TIMM_OPERATIONS


class RandAugment:
    """Of no package."""

    __module__ = "timm.data.auto_augment"


def test_a_type_that_only_says_that_it_is_timms_is_refused():
    assert "RandAugment is not one that the native path knows" in recognise(RandAugment())


def test_a_class_of_the_users_in_timms_module_is_refused(monkeypatch):
    module = types.ModuleType("timm.data.auto_augment")
    module.RandAugment = RandAugment
    monkeypatch.setitem(sys.modules, module.__name__, module)
    RandAugment.__call__ = lambda self, picture: picture
    assert "RandAugment is not one that the native path knows" in recognise(RandAugment())


@pytest.mark.parametrize("name", TIMM_OPERATIONS)
def test_each_operation_says_which_functions_of_timms_it_is(name):
    function, _level = FUNCTIONS[name]
    assert function == function.lower()


def test_no_other_operation_is_known_and_names_say_whose_they_are():
    assert {*FUNCTIONS} == {*TIMM_OPERATIONS}
