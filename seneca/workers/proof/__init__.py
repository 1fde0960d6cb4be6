"""Jobs show each other that they make the same of their samples.

Jobs find each other by fingerprints, and a fingerprint is a guess about code. Therefore each job also
compares what it makes::

    before it shares     it makes a few samples itself           --> equal to what others have made of them?
    while it shares      it makes samples anyway                 --> likewise
                         it makes some that it is served again   --> equal to what it was served?

What each sample came to when it was first made is kept in the segment as a digest (csrc/store/sn_digests.h).
The more samples have agreed, the fewer are made again (:mod:`seneca.confidence`).

Examples are made with random generators in fixed states, which are put back afterwards. The dataset's
fingerprint chooses them.

Two kinds of datasets can show nothing, and sharing then rests on the fingerprint alone:

* A dataset that makes something else of a sample each time, with generators that nobody can set.
* A dataset that keeps a state (``state_dict``), or a random generator of its own. Making samples would change
  it.
"""

from seneca.epochs.generators import drawing
from seneca.workers.proof.evidence import Evidence, unstable_text
from seneca.workers.proof.examples import (
    compare_served,
    digest_of_payload,
    example_of,
    may_be_made_again,
    stays_the_same,
)
from seneca.workers.proof.marks import Marks
from seneca.workers.proof.prove import Proof
from seneca.workers.proof.table import ProofState, ProofTable

__all__ = [
    "Evidence",
    "Marks",
    "Proof",
    "ProofState",
    "ProofTable",
    "compare_served",
    "digest_of_payload",
    "drawing",
    "example_of",
    "may_be_made_again",
    "stays_the_same",
    "unstable_text",
]
