"""A walk over everything that an object is made of, which changes nothing."""

import sys
import types
from fractions import Fraction

from fingerprints import made

from seneca.data import ImageFolder
from seneca.identity import fingerprint
from seneca.identity.walk import title_of
from seneca.transforms import RandomCrop


def test_what_pillow_makes_of_truncated_pictures_counts(monkeypatch):
    from PIL import ImageFile

    before = fingerprint(len)
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    assert fingerprint(len) != before


def test_a_class_of_senecas_is_named_by_the_package_alone():
    """A state that was saved before the class moved to another module names the same dataset."""
    assert title_of(ImageFolder) == "seneca.ImageFolder"
    assert title_of(RandomCrop) == "seneca.RandomCrop"
    assert title_of(Fraction) == "fractions.Fraction"


def test_nothing_is_made_anew_and_nothing_changes():
    it = made(
        """
class A:
    made = []
    def __new__(cls, *a):
        cls.made.append(a)
        return super().__new__(cls)
    def __getnewargs__(self): return (1,)
    def __setstate__(self, state): self.made.append(state)
    @functools.cached_property
    def seen(self): return 1
it = A()
it.table = {"a": [torch.zeros(2)]}
"""
    )
    before = dict(vars(it))
    first = fingerprint(it)
    assert type(it).made == [()] and vars(it) == before
    assert fingerprint(it) == first
    assert it.seen == 1 and fingerprint(it) != first  # a cached property's value is state


def test_an_iterator_of_ones_own_class_is_an_object_like_any_other():
    source = "class A:\n  def __iter__(s): return s\n  def __next__(s): return s.a\nit = A(); it.a = {}"
    assert fingerprint(made(source.format(1))) != fingerprint(made(source.format(2)))


def test_a_move_of_senecas_classes_changes_no_identity(monkeypatch, picture_folder):
    dataset = ImageFolder(picture_folder, RandomCrop(8))
    before = fingerprint(dataset)
    moved = sys.modules["seneca.moved"] = types.ModuleType("seneca.moved")
    monkeypatch.setattr(moved, "ImageFolder", ImageFolder, raising=False)
    monkeypatch.setattr(ImageFolder, "__module__", "seneca.moved")
    assert fingerprint(dataset) == before
    del sys.modules["seneca.moved"]
