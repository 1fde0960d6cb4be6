"""Forms of a sample: their numbers are those in shared memory."""

from engine import AUGMENTED, DECODED, ENCODED, RECODED, STORAGE

from seneca.forms import Form


def test_forms_have_the_numbers_of_the_records():
    assert [*Form] == [STORAGE, ENCODED, RECODED, DECODED, AUGMENTED]
