"""The experiments of five papers about shared loading, with real jobs: the papers' figures beside ours.

::

    __main__: options --> Setup (setup.py: folders, slow storage, peers)
                            |
              one module an experiment: run(setup) --> Result (result.py) --> printed.py, page.py

An experiment's jobs are real processes (``training.py``) with loaders of ``bench/job_loaders.py``, on
storage that is really slow (``slow_storage.py``). Policies of other systems run under one virtual clock
(``policies/``, ``simulate/``).
"""
