"""The border to the native core, ``csrc/``: compiled modules, which are imported by their names.

Importing any of them raises :class:`seneca.errors.NotBuiltError` where they are not compiled.
"""

import importlib.util
import os
import sys

from seneca.errors import NotBuiltError

if importlib.util.find_spec(f"{__name__}.codes") is None:
    _HERE = os.path.dirname(__file__)
    raise NotBuiltError(
        f"the native core is not built for Python {sys.version_info.major}.{sys.version_info.minor}: {_HERE} "
        f"has no compiled modules. Run `make build` in {os.path.dirname(os.path.dirname(_HERE))}; or run "
        "`pip install .` there and start Python in another folder; or set SENECA_DISABLE=1 for plain torch",
        name=__name__,
        path=_HERE,
    )
