"""Fixtures of the tests of the audit."""

import pytest
from audited_jobs import small_pictures

from seneca.audit.log import _Audit


@pytest.fixture(autouse=True)
def audit_of_a_new_process(monkeypatch):
    """No log was made or has failed yet."""
    monkeypatch.setattr(_Audit, "has_begun", False)
    monkeypatch.setattr(_Audit, "has_ended", False)


@pytest.fixture
def cache(name):
    """A cache of this test's own; nothing of it may be left."""
    return name


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where ``SENECA_AUDIT`` has the logs written; it does not exist yet."""
    monkeypatch.setenv("SENECA_AUDIT", str(tmp_path / "logs" / "of jobs"))
    return tmp_path / "logs" / "of jobs"


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """240 small pictures, not to be written to."""
    return small_pictures(tmp_path_factory.mktemp("pictures"), 240)
