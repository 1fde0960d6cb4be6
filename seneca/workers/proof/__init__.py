"""Jobs prove to each other that they make the same of their samples.

Jobs find each other by fingerprints, and a fingerprint is a guess about code. Therefore each job also shows
what it makes::

    before it shares     it makes a few samples itself           --> equal to those that the first job left?
    while it shares      it makes one in 4,096 that it is served --> equal to what it was served?

The dataset's fingerprint chooses the samples. They are made with random generators in fixed states, which are
put back afterwards.

Two kinds of datasets can prove nothing, and sharing then rests on the fingerprint alone:

* A dataset that makes something else of a sample each time.
* A dataset that keeps a state (``state_dict``), or a random generator of its own. Making samples would change
  it.
"""

from seneca.epochs.generators import drawing
from seneca.workers.proof.board import Board, Verdict
from seneca.workers.proof.examples import compare_served, example_of, may_be_made_again, stays_the_same
from seneca.workers.proof.prove import Proof

__all__ = [
    "Board",
    "Proof",
    "Verdict",
    "compare_served",
    "drawing",
    "example_of",
    "may_be_made_again",
    "stays_the_same",
]
