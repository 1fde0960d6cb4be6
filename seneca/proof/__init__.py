"""Jobs prove to each other that they mean the same by their samples.

Jobs find each other by fingerprints, and a fingerprint is a guess about code. Therefore each also shows what
it means::

    before it shares     it makes a few samples itself  --> equal to those that the first job left?
    while it shares      it makes one in 4,096 of what it is served again --> equal to what it was served?

The samples are chosen by the dataset's fingerprint, and made with the generators of random numbers in fixed
states, which are put back. Two kinds of datasets can show nothing: those that make something else each time,
and those that keep a state (``state_dict``), which making samples would change. There sharing rests on the
fingerprint alone.
"""

from seneca.proof.board import Board, Verdict
from seneca.proof.examples import compare_served, may_be_made_again
from seneca.proof.prove import Proof

__all__ = ["Board", "Proof", "Verdict", "compare_served", "may_be_made_again"]
