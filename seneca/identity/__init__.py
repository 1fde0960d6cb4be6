"""The identity of a dataset, a transform or a function: two with equal identities make equal items.

::

    an object --walk--> state and code ---------------------------------+--> Identity
                  |                                                     |
                  +--> paths, packages, environment: what they lead to -+

No part of an identity depends on addresses, line numbers, docstrings or the name of the main module. The
hash seed counts only where code puts a set of texts in order. Some parts are always in it: Python's release,
the settings of the process that change what libraries compute (:mod:`seneca.identity.process`), functions of
libraries that the program has replaced (``patched``), and the files of a few packages such as torch, NumPy
and Pillow. The other parts are:

* **Attributes** that the items can depend on (``used``): those that methods read which ``__getitem__`` or
  another method of items can reach. All count if the object is passed on as a whole, or if code makes up a
  name as it runs.
* **Data**, by content: numbers, strings, bytes, containers (dicts in their order), tensors, arrays.
* **Paths** in data and code that exist: by device and inode, and files also by size, time of modification and
  ctime. A relative path counts with the current folder.
* **The user's own functions**: bytecode, constants, defaults, attributes, and the values in the closure.
  Also each global and import that the code names, and all that these lead to.
* **The user's own classes**: everything in the body, and the bases. Their annotations count, because some
  code reads them as a schema. Annotations of functions do not count.
* **The user's own modules**: the attribute that is used, as it is now. A module that is used as a whole
  counts with all that it holds. A module that is imported only while items are made counts by its file, and
  by the files of all that it imports.
* **Installed code**, and the standard library: by name and release. For packages, the hashes of their files
  also count, and those of the packages that they require, as the installer recorded them.
* **Environment variables** whose names stand in code that reads the environment, or in paths (``$HOME``).
* **Other objects**: class and state, as pickling would take them (``__getstate__``, ``__reduce_ex__``). No
  new object is made for that. Values of ``cached_property``, and other caches in attributes, are therefore
  state like any other. Of ``lru_cache`` only the function counts. A number to which code only adds
  (``self.calls += 1``) does not count.

An object may state its identity itself::

    class Dataset:
        def __fingerprint__(self):  # instead of its state; the class goes in all the same
            return self.root, self.version

In a class derived from that one, the result of ``__fingerprint__`` counts beside the state.

The identity does not see the content of files, the answers of a network, or a random state. It does not see
what code reaches by names that it makes up (``eval``). Therefore an identity only finds candidates, and jobs
compare what they make: see :mod:`seneca.workers.proof`.
"""

from seneca.identity.fingerprinter import Fingerprinter, Identity, MadeOf, fingerprint
from seneca.identity.plain import Memory
from seneca.identity.walk import title_of
from seneca.identity.watch import Attributes, Watch

__all__ = ["Attributes", "Fingerprinter", "Identity", "MadeOf", "Memory", "Watch", "fingerprint", "title_of"]
