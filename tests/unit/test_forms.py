"""Forms of a sample: their numbers are those in shared memory."""

from engine import AUGMENTED, DECODED, ENCODED, STORAGE

from seneca.forms import Form


def test_forms_have_the_numbers_of_the_records():
    assert [*Form] == [STORAGE, ENCODED, DECODED, AUGMENTED]


def test_a_later_form_is_a_larger_number():
    assert Form.STORAGE < Form.ENCODED < Form.DECODED < Form.AUGMENTED
