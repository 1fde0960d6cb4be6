"""The files of caches: names, and whose they are. test_sample_cache.py shows that the unused are swept."""

import os

import pytest
from engine import Place

from seneca.cache.objects import file_name_of, others, refused, user_name


def test_a_file_names_its_user_and_its_cache():
    assert file_name_of("my-cache_1.0") == f"seneca-{os.geteuid()}-my-cache_1.0"


@pytest.mark.parametrize("name", ["", "a/b", "a b", "ä", "x" * 201])
def test_other_names_are_refused(name):
    with pytest.raises(ValueError, match="a cache's name has letters"):
        file_name_of(name)


def test_others_are_all_but_the_named_one():
    with Place(100) as one, Place(100) as two:
        one.attach()
        two.attach()
        found = others(one.path)
        assert two.path in found and one.path not in found
        assert refused(one.path) is None
        os.chmod(one.path, 0o640)
        assert "its mode is 0640 and not 0600; remove it" in str(refused(one.path))
        os.chmod(one.path, 0o600)


def test_a_user_without_a_name_is_a_number():
    assert user_name(4_000_000_001) == "uid 4000000001"
