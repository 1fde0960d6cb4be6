"""Plain values are the same when they are written the same."""

import pickle

from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import size

from seneca.identity import fingerprint

plain = st.recursive(
    st.one_of(
        *(st.none(), st.booleans(), st.integers(), st.floats(), st.complex_numbers(), st.text(), st.binary()),
        st.text(st.characters(categories=["Cs", "Lu"])),
    ),
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.dictionaries(st.one_of(st.text(), st.integers()), inner),
    ),
    max_leaves=20,
)


@given(plain, plain)
@settings(deadline=None, max_examples=size(20, 150))
def test_plain_values_are_the_same_when_they_are_written_the_same(first, second):
    # complex numbers are no exception: repr shows signed zeros and what is not a number
    assert (fingerprint(first) == fingerprint(second)) == (repr(first) == repr(second))
    assert fingerprint(first) == fingerprint(pickle.loads(pickle.dumps(first)))


@given(plain, plain)
@settings(deadline=None, max_examples=size(15, 100))
def test_values_beside_what_is_not_plain_are_walked_to_the_same_end(first, second):
    one, two = fingerprint([first, len]), fingerprint([second, len])
    assert (one == two) == (repr(first) == repr(second))
    assert one == fingerprint(pickle.loads(pickle.dumps([first, len]))) != fingerprint([first, abs])
