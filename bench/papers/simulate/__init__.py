"""Jobs that share one cache, under a virtual clock: what sharing costs and gains, without decoding
anything.

::

    scenario: jobs --(pace, start, end)--> clock --draw, commit--> policy: the engine, or one to compare with
              host --(its pace)-----------^  |
                                             +--> outcome: preparations, forms, bound, efficiency

:func:`simulate` runs the loader's own core: the C draw over a segment in shared memory, not a copy of it.
Payloads are never written. Time is virtual: a job of speed 1 takes one unit of time for ``n_samples``
samples.
"""

from papers.simulate.clock import Batch, Delivered, Policy, run
from papers.simulate.engine import Engine, simulate
from papers.simulate.jobs import Job
from papers.simulate.outcome import Outcome
from papers.simulate.scenario import Scenario

__all__ = ["Batch", "Delivered", "Engine", "Job", "Outcome", "Policy", "Scenario", "run", "simulate"]
