"""A public name or signature changes only together with the file that lists all of them."""

import public_surface


def test_public_names_and_signatures_are_those_agreed_to():
    hint = "if that is meant: make generated, and a line in CHANGELOG.md"
    assert public_surface.surface().split("\n") == public_surface.GOLDEN.read_text().split("\n"), hint
