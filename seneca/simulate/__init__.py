"""Jobs that share one cache, under a virtual clock: what sharing costs and gains, without decoding anything.

::

    jobs --(pace, start, end)--> clock --draw, commit--> policy: the real engine, or one to compare with
                                   |
                                   +--> host: how long preparing takes
                                   +--> outcome: preparations, forms, bound, efficiency

:func:`simulate` runs the loader's own core (the C draw over a segment in shared memory, never a copy of
it) with payloads that nobody writes. Time is virtual: one unit is what a job of speed 1 takes for
``n_samples`` samples.
"""

from seneca.simulate.clock import Batch, Delivered, Policy, run
from seneca.simulate.engine import Engine, simulate
from seneca.simulate.jobs import Job
from seneca.simulate.outcome import Outcome

__all__ = ["Batch", "Delivered", "Engine", "Job", "Outcome", "Policy", "run", "simulate"]
