"""Python runs this as it starts, because ``seneca analyze`` puts its folder first on ``PYTHONPATH``.

It sets up the hooks, gives the place back, and runs the environment's own ``sitecustomize``, if there is one.
"""

import importlib.machinery
import importlib.util
import os
import sys


def _begin():
    here = os.path.dirname(os.path.abspath(__file__))
    import seneca_analyze_hooks

    seneca_analyze_hooks.begin(os.environ["SENECA_ANALYZE_TRACE"])
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
    spec = importlib.machinery.PathFinder.find_spec(__name__)
    if spec is not None and spec.loader is not None:
        own = sys.modules[__name__] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(own)


_begin()
