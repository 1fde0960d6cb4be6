"""What can go wrong, one class a cause, each with its remedy.

The native core answers with codes; ``seneca._core`` translates them into these, once. Every class
is also the built-in exception that fits (:class:`ValueError`, :class:`OSError`), so code that
knows nothing of Seneca catches what it expects. All of them pickle: a worker process can send one.
"""

from __future__ import annotations

import os

__all__ = [
    "DecodeError",
    "NoSpaceError",
    "NotASegmentError",
    "NotFingerprinted",
    "NotJpegError",
    "PictureTooLargeError",
    "PlanError",
    "SegmentCorruptError",
    "SegmentError",
    "SegmentMismatchError",
    "SegmentOwnerError",
    "SegmentVersionError",
    "SenecaError",
    "StateError",
    "TooManyJobsError",
    "TooManyMembersError",
]


class SenecaError(Exception):
    """Everything that Seneca raises on purpose."""


class PlanError(SenecaError, ValueError):
    """The transforms cannot be run natively as they stand, or do not fit the picture.

    Remedy: the message names the transform and what to change. Typical: the pictures come out in
    different sizes (add ``Resize((h, w))`` or a crop), or ``Normalize`` is not the last.
    """


class NotFingerprinted(SenecaError, TypeError):
    """An object holds what determines its items, but cannot be seen or does not stay the same.

    Remedy: make it where it is used (open files in ``__getitem__``), keep it out of the object's
    state with ``__getstate__`` or ``__fingerprint__``, or say what the items depend on with ``key=``.

    Args:
        where: The way to the value, as one would write it: ``dataset.transform``.
        why: The rest of the sentence.

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


class StateError(SenecaError, ValueError):
    """What ``load_state_dict`` was given cannot be gone on from here.

    Remedy: the message names what the state is of and what is here; give the loader the dataset,
    sampler and number of ranks of the run that saved it, or begin anew.
    """


class DecodeError(SenecaError, ValueError):
    """A picture's bytes are damaged.

    Remedy: replace or remove the file that is named, or pass ``on_error="skip"`` to the loader,
    which gives the place of a bad picture to another.

    Args:
        reason: What the decoder said.
        path: The file, where it is known. Set :attr:`path` later where it is known later.

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


class NotJpegError(DecodeError):
    """The bytes do not begin as a JPEG's do.

    Remedy: none is needed in a loader, where Pillow decodes such files. Who calls the native
    codec directly has to decode first.
    """


class PictureTooLargeError(DecodeError):
    """The header asks for more pixels or memory than the limit, so nothing was decoded.

    Remedy: shrink the picture, or keep it out of the dataset: nothing that size helps training,
    and a small file that claims such a size is usually an attack.
    """


class SegmentError(SenecaError, OSError):
    """The shared cache could not be used.

    Remedy: the message says which; ``seneca doctor`` examines the host. ``cache=None`` trains
    without sharing meanwhile.
    """


class NotASegmentError(SegmentError):
    """The shared memory or file of that name was not made by Seneca.

    Remedy: choose another ``cache`` name, or remove the object if nothing else uses it.
    """


class SegmentVersionError(SegmentError):
    """The segment has the layout of another version of Seneca; the message has both versions.

    Remedy: run all jobs of the host with one version. The old segment goes with its last job.
    """


class SegmentCorruptError(SegmentError):
    """The segment's header contradicts itself or the size of the file.

    Remedy: end the jobs that use it; the next to start makes a new one. Nothing is lost but what
    was cached.
    """


class SegmentOwnerError(SegmentError):
    """The segment belongs to another user, or others have been allowed to open it.

    Remedy: remove it, or have its owner, who is named, do so; or choose another ``cache`` name.
    """


class SegmentMismatchError(SegmentError):
    """The segment of that name holds another dataset, or was made with another size.

    Remedy: leave ``cache="auto"``, which names segments after the dataset, or give this dataset
    a name of its own.
    """


class TooManyMembersError(SegmentError):
    """Every row of the segment has a living owner: too many loaders and workers share it.

    Remedy: use fewer ``num_workers``, close iterators that are done with, or put some jobs under
    another ``cache`` name.
    """


class TooManyJobsError(SegmentError):
    """64 training jobs are attached, which is as many as one segment can tell apart.

    Remedy: start the next ones under another ``cache`` name.
    """


class NoSpaceError(SegmentError):
    """The shared memory or disk has no room for the segment.

    Remedy: a smaller ``cache_bytes``; more ``/dev/shm`` (in Docker ``--shm-size``); or a cache in
    a directory on a disk.
    """
