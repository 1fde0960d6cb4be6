"""The length of a dataset, if it has one."""

import pytest

from seneca.epochs.lengths import length_of


class Says:
    def __init__(self, error):
        self.error = error

    def __len__(self):
        raise self.error


@pytest.mark.parametrize("error", [TypeError(), NotImplementedError()])
def test_a_class_may_say_that_it_has_no_length(error):
    assert length_of(Says(error)) is None
    assert length_of(iter([])) is None and length_of(range(7)) == 7


def test_any_other_error_of_a_length_is_the_users():
    with pytest.raises(ValueError, match="broken"):
        length_of(Says(ValueError("broken")))
