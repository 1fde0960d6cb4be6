"""What Seneca warns of differs from what others warn of, and stands at the user's line."""

import logging
import re
import warnings
from pathlib import Path

import pytest
from torch.utils.data import IterableDataset

import seneca
from seneca._runtime import warn as notices


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(6))


def test_a_notice_has_a_category_of_its_own_and_the_users_line():
    with pytest.warns(seneca.SenecaWarning, match="seneca: less than it could be") as caught:
        notices.warn("less than it could be")
    assert issubclass(seneca.SenecaWarning, UserWarning)
    assert caught[0].filename == __file__


def test_every_warning_is_given_as_a_notice():
    package = Path(seneca.__file__).parent
    given = [
        path.name for path in package.rglob("*.py") if re.search(r"\bwarnings\.warn\(", path.read_text())
    ]
    assert given == ["warn.py"]


@pytest.mark.parametrize("cache", ["auto", None])
def test_an_iterable_dataset_is_noted_in_the_log_alone(cache, caplog):
    loader = seneca.DataLoader(Stream(), batch_size=3, cache=cache)
    with warnings.catch_warnings(), caplog.at_level(logging.INFO, "seneca"):
        warnings.simplefilter("error")
        for _ in range(2):
            assert [batch.tolist() for batch in loader] == [[0, 1, 2], [3, 4, 5]]
    lines = [record.getMessage() for record in caplog.records if record.name == "seneca.loader"]
    about = "torch loads this, without sharing: an IterableDataset has no indices by which jobs could share"
    assert lines == ([] if cache is None else [about]), "cache=None asks for nothing, so nothing is missed"
