"""Where Seneca keeps what it found out."""

from pathlib import Path

import pytest

from seneca._runtime.user_cache import user_cache


@pytest.mark.parametrize(
    ("named", "where"), [("/named", "/named/seneca"), ("", "/home/of-mine/.cache/seneca")]
)
def test_it_is_the_users_cache_folder(named, where, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", named)
    monkeypatch.setenv("HOME", "/home/of-mine")
    assert user_cache() == Path(where)
