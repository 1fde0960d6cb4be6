"""``seneca analyze``: why a training script waits for its samples, and what would change it.

::

    command: starts the script ──PYTHONPATH──> inject/: hooks in torch's loader, in each process of the script
                                                   │ a trace: each step, each batch
    report <── stalls: causes, remedies <── rates <┘ trace: reads it ──> deep: a profile, predictions (--deep)
      └──> timeline: the page of --html

The definitions are those of DS-Analyzer (Mohan et al., VLDB '21): a stall is the time of an epoch that the
training step alone would not have taken.
"""
