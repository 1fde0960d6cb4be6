"""What switches Seneca off."""

import sys

import pytest

from seneca._runtime import enabled as switch


@pytest.mark.parametrize(("value", "off"), [("1", True), ("yes", True), ("0", False), ("", False)])
def test_the_environment_switches_it_off(monkeypatch, value, off):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("SENECA_DISABLE", value)
    assert (switch.off_because() == "SENECA_DISABLE is set") is off


def test_any_system_but_linux_switches_it_off(monkeypatch):
    monkeypatch.delenv("SENECA_DISABLE", raising=False)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "darwin" in switch.off_because()
