"""Who a dataset, a transform or a function is: two with equal identities make equal items.

::

    an object --walk--> state and code ---------------------------------+--> Identity
                  |                                                     |
                  +--> paths, packages, environment: what they lead to -+

Nothing that goes in depends on addresses, hash seeds, line numbers, docstrings or the name of the main
module. Python's own release always goes in, torch's default dtype, and whether Pillow takes truncated
pictures. Beyond that:

* **Data** by content: numbers, strings, bytes, containers (dicts in their order), tensors, arrays.
* **Paths** in it that lead to something: by device and inode; files by size and time of change too. A
  relative path counts with the folder that it is relative to.
* **Functions of the user's own**: bytecode, constants, defaults, attributes, what the closure holds, and each
  global and import that the code names, wherever that leads.
* **Classes of the user's own**: everything in the body, and the bases. Annotations too, because some are read
  as a schema; those of functions are not.
* **Modules of the user's own**: the attribute that is used, as it is now; used as a whole, all that they
  hold. A module that is imported only as items are made counts by its file, and by the files of all that it
  imports.
* **What is installed**, or the standard library's: by name, release, and the hashes of the files of the
  package and of those that it requires, as its installer has recorded them.
* **Environment variables** whose names stand in code that asks for the environment.
* **Other objects**: class and state, as pickling would take them (``__getstate__``, ``__reduce_ex__``), but
  nothing is made anew. So values of ``cached_property``, and other caches that an object keeps in attributes,
  are state like any other. ``lru_cache`` is seen through.

An object may say for itself what it stands for::

    class Dataset:
        def __fingerprint__(self):  # instead of its state; the class goes in all the same
            return self.root, self.version

In a class derived from that one, what it says counts beside the state.

What is not seen: the content of files, what a network answers, a random state, and what code reaches in ways
that its names do not show (``globals()["X"]``, ``eval``). Jobs find such differences by examples, see
:mod:`seneca.proof`.
"""

from seneca.code.modules import release_of
from seneca.identity.look import Identity, Look, MadeOf, fingerprint
from seneca.identity.plain import Memory
from seneca.identity.watch import Watch

__all__ = ["Identity", "Look", "MadeOf", "Memory", "Watch", "fingerprint", "release_of"]
