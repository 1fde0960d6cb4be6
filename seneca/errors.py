"""The errors that Seneca raises: one class for each cause, each with its remedy.

The native core returns codes. ``seneca._core`` translates them into these classes, in one place. Each class
also derives from the built-in exception that fits (:class:`ValueError`, :class:`OSError`,
:class:`TypeError`, :class:`ImportError`). Therefore code that knows nothing of Seneca catches what it
expects. All of them pickle, because worker processes send them.
"""

from __future__ import annotations

import os

__all__ = [
    "DecodeError",
    "LeftToPillowError",
    "NoSpaceError",
    "NotASegmentError",
    "NotBuiltError",
    "NotFingerprinted",
    "PictureTooLargeError",
    "PlanError",
    "SegmentCorruptError",
    "SegmentError",
    "SegmentFolderError",
    "SegmentMismatchError",
    "SegmentOwnerError",
    "SegmentVersionError",
    "SenecaError",
    "SourceError",
    "StateError",
    "TooManyJobsError",
    "TooManyMembersError",
]


class SenecaError(Exception):
    """The base class of all errors that Seneca raises on purpose."""


class NotBuiltError(SenecaError, ImportError):
    """Seneca runs from a checkout whose native core is not compiled, or is compiled for another Python.

    Remedy: run ``make build`` in the checkout, or ``pip install .`` there. ``SENECA_DISABLE=1`` loads with
    plain torch, which needs no native core.
    """


class PlanError(SenecaError, ValueError):
    """The transforms cannot run natively as they stand, or they do not fit the picture.

    Remedy: the message names the transform and what to change. In most cases the pictures come out in
    different sizes (add ``Resize((h, w))`` or a crop), or ``Normalize`` is not the last transform.
    """


class NotFingerprinted(SenecaError, TypeError):
    """An object holds a value that determines its items, and this value cannot be fingerprinted.

    Either Seneca cannot see into the value, or the value changes while items are made.

    Remedy: there are three ways. Make the value where it is used (open files in ``__getitem__``). Keep it
    out of the object's state with ``__getstate__`` or ``__fingerprint__``. Or say what the items depend on
    with ``key=``.

    Args:
        where: The path to the value, written as code: ``dataset.transform``.
        why: The rest of the sentence that begins with ``where``.

    Example:
        >>> print(NotFingerprinted("dataset.file", "is an open file"))
        dataset.file is an open file; leave it out, or say what the items depend on with key=
    """

    def __init__(self, where: str, why: str = "") -> None:
        super().__init__(where, why)
        self.where = where
        self.why = why

    def __str__(self) -> str:
        if not self.why:
            return self.where
        return f"{self.where} {self.why}; leave it out, or say what the items depend on with key="


class SourceError(SenecaError, ValueError):
    """An archive or a table cannot be opened in place, or what is in it is not what a loader can read.

    Remedy: the message names the file and what to do. In most cases an archive is compressed: members that
    are compressed have no bytes of their own that could be read at random.
    """


class StateError(SenecaError, ValueError):
    """``load_state_dict`` was given a state that this loader cannot continue from.

    Remedy: the message names what the state was saved from and what is here. Give the loader the dataset,
    sampler and number of ranks of the run that saved it. Or start a new epoch without the state.
    """


class DecodeError(SenecaError, ValueError, OSError):
    """The bytes of a picture are damaged. It is an :class:`OSError`, as what Pillow raises then.

    Remedy: replace or remove the file that the message names. Or pass ``on_error="skip"`` to the loader:
    another sample then takes the place of the damaged picture.

    Args:
        reason: The decoder's message.
        path: The file, if it is known. If it becomes known later, set the attribute ``path``.

    Example:
        >>> print(DecodeError("premature end of file", "cats/1.jpg"))
        cats/1.jpg: premature end of file
    """

    def __init__(self, reason: str, path: str | os.PathLike[str] | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path

    def __str__(self) -> str:
        return self.reason if self.path is None else f"{os.fspath(self.path)}: {self.reason}"


class LeftToPillowError(DecodeError):
    """The native core does not decode this picture: it has another format, or is rare in its own.

    Remedy: a loader needs none, because Pillow decodes such pictures there, or says what is wrong with
    them. If you call the native codec yourself, decode the picture with Pillow first.
    """


class PictureTooLargeError(DecodeError):
    """The header asks for more pixels or memory than the limit. Nothing was decoded.

    Remedy: shrink the picture, or keep it out of the dataset. A picture of that size does not help
    training, and a small file that claims such a size is usually an attack.
    """


class SegmentError(SenecaError, OSError):
    """The shared cache could not be used.

    Remedy: the message names the cause. Until it is mended, ``cache=None`` trains without sharing.
    """


class NotASegmentError(SegmentError):
    """Seneca did not make the shared memory or file of that name.

    Remedy: choose another ``cache`` name, or remove the object if nothing else uses it.
    """


class SegmentVersionError(SegmentError):
    """The segment has the layout of another version of Seneca.

    Remedy: run all jobs of the host with one version. The old segment is removed when its last job leaves.
    """


class SegmentCorruptError(SegmentError):
    """The segment's header contradicts itself or the size of the file.

    Remedy: end the jobs that use it. The next job makes a new segment. Only the content of the cache is
    lost.
    """


class SegmentOwnerError(SegmentError):
    """The segment belongs to another user, or its permissions let other users open it.

    Remedy: remove it, or ask its owner, whom the message names, to remove it. Or choose another ``cache``
    name.
    """


class SegmentFolderError(SegmentError):
    """``SENECA_DIR`` names a folder in which no cache can lie.

    It is missing, may not be written, or lies on a file system that lacks what jobs need to share: NFS or
    FUSE, for example.

    Remedy: give a folder on tmpfs, ext4 or XFS. Or unset ``SENECA_DIR``; the cache then lies in ``/dev/shm``.
    """


class SegmentMismatchError(SegmentError):
    """The segment of that name holds another dataset, or was made with another size.

    Remedy: leave ``cache="auto"``, which names segments after the dataset. Or give this dataset a name of
    its own.
    """


class TooManyMembersError(SegmentError):
    """Every row of the segment has a living owner: too many loaders and workers share it.

    Remedy: use fewer ``num_workers``, close iterators that you no longer need, or give some jobs another
    ``cache`` name.
    """


class TooManyJobsError(SegmentError):
    """64 training jobs are attached. One segment cannot distinguish more jobs.

    Remedy: start further jobs under another ``cache`` name.
    """


class NoSpaceError(SegmentError):
    """The shared memory or disk has no room for the segment.

    Remedy: choose a smaller ``cache_bytes``. Or make ``/dev/shm`` larger (in Docker, set ``--shm-size``). Or
    let ``SENECA_DIR`` name a folder with more room.
    """
