"""Datasets of sounds: a folder of class folders, and a list of paths."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, MutableSequence, Sequence
from typing import Any

from seneca.data.files import files_of
from seneca.data.folder import find_classes, find_samples
from seneca.data.picture_list import check_files, common_folder, samples_of
from seneca.transforms._base import Compose
from seneca.transforms._pipeline import NativeTransform, Pipeline, compile_sound
from seneca.transforms._sound import Mono, Resample

__all__ = ["SOUND_EXTENSIONS", "SoundFolder", "SoundList"]

MOST_CHANNELS = 64  # SN_MAX_CHANNELS in csrc/codec/sn_plan.h
SOUND_EXTENSIONS = (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aif", ".aiff", ".au", ".caf", ".w64")
"""The default endings of sound files, in lower case."""


class SoundDataset:
    """Sounds with labels, which the native core reads, decodes and transforms.

    It holds paths and labels, and nothing that is open. Therefore it pickles and forks. See
    :class:`seneca.SoundFolder` for the arguments.
    """

    root: str
    samples: Sequence[tuple[str, Any]]
    targets: MutableSequence[Any]
    target_transform: Callable[[Any], Any] | None = None

    def __init__(
        self, transform: Callable[..., Any] | None, *, rate: int | None, mono: bool, channels: int | None
    ) -> None:
        if channels is not None and not 1 <= channels <= MOST_CHANNELS:
            raise ValueError(f"channels is from 1 to {MOST_CHANNELS} or None, but got {channels!r}")
        self.transform = transform
        self.rate = None if rate is None else Resample(rate).rate  # which checks it
        self.mono = mono
        self.channels = channels

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Read, decode and transform one sound in this process.

        Args:
            index: Place in ``samples``.

        Returns:
            ``(waveform, target)``. Without a transform, or with one of Seneca's, ``waveform`` is a float32
            tensor of shape (channels, frames). Random numbers are drawn from torch's global generator.

        Raises:
            DecodeError: The file is damaged. The message names it.
            OSError: The file cannot be read.
        """
        # Imported here only, as in PictureDataset.
        from seneca.transforms._apply import augment_encoded

        path, target = self.samples[index]
        made: Any = augment_encoded(self.pipeline(), self.read(index), path, None)
        if self.transform is not None and not isinstance(self.transform, NativeTransform):
            made = self.transform(made)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return made, target

    def pipeline(self) -> Pipeline:
        """What runs natively: all of the transform, or if it is not Seneca's, what comes before it."""
        transform = self.transform if isinstance(self.transform, NativeTransform) else None
        return _compiled(transform, self.rate, self.mono, self.channels)

    def read(self, index: int) -> bytes:
        """The bytes of one sound."""
        return files_of(self).read(index)

    def fingerprint(self) -> bytes:
        """16 bytes that distinguish this dataset from others; see :class:`seneca.data.files.PictureFiles`."""
        return files_of(self).fingerprint()

    def total_bytes(self) -> int:
        """The size of all files together, as :meth:`fingerprint` found them."""
        return files_of(self).total_bytes()


@functools.lru_cache(maxsize=64)
def _compiled(
    transform: NativeTransform | None, rate: int | None, mono: bool, channels: int | None
) -> Pipeline:
    steps: list[Any] = [Mono()] if mono else []
    steps += [] if rate is None else [Resample(rate)]
    steps += [] if transform is None else [transform]
    return compile_sound(Compose(steps), channels=channels)


class SoundFolder(SoundDataset):
    """A dataset of sounds arranged as ``root/class/.../sound.flac``, in the order of
    :class:`seneca.ImageFolder`.

    Args:
        root: The folder that holds a folder for each class.
        transform: A transform of ``seneca.transforms`` runs natively. Any other callable gets the waveform, a
            float32 tensor (channels, frames), and runs as Python in worker processes. The attribute may be
            set later.
        target_transform: A function that makes the target of an item from its class index.
        rate: The frames a second to which sounds are resampled, as ``T.Resample(rate)`` does it; None: they
            keep theirs.
        mono: Whether the channels are mixed into one, as ``T.Mono()`` does it, before that.
        channels: How many channels all files have. Without ``mono`` a loader needs it to stack sounds.
        extensions: Endings of the files that count as sounds, in lower case.
        allow_empty: Whether a class may have no sounds.

    Attributes:
        classes: Names of the classes, sorted.
        class_to_idx: Class name to class index.
        samples: ``(path, class index)`` of every sound.
        targets: The class index of every sound.

    If sounds come out with different lengths, torch's workers make items of them, and ``collate_fn`` puts
    these together. With a crop, such as ``T.RandomTimeCrop(frames)``, threads of the native core make whole
    batches.

    Raises:
        FileNotFoundError: ``root`` has no class folders, or a class has no sound.
        ValueError: ``rate`` or ``channels`` is not positive.

    Example:
        >>> import tempfile, seneca
        >>> from seneca import transforms as T
        >>> from seneca.testing import make_sounds
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = make_sounds(folder, count=4, classes=2)
        ...     dataset = seneca.SoundFolder(folder, T.RandomTimeCrop(4000), rate=8000, mono=True)
        ...     waveform, label = dataset[3]
        >>> len(dataset), tuple(waveform.shape), label
        (4, (1, 4000), 1)
    """

    samples: MutableSequence[tuple[str, int]]

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        *,
        rate: int | None = None,
        mono: bool = False,
        channels: int | None = None,
        extensions: str | Sequence[str] = SOUND_EXTENSIONS,
        allow_empty: bool = False,
    ) -> None:
        super().__init__(transform, rate=rate, mono=mono, channels=channels)
        self.target_transform = target_transform
        self.root = os.path.expanduser(os.fspath(root))
        self.extensions = (extensions,) if isinstance(extensions, str) else tuple(extensions)
        self.classes, self.class_to_idx = find_classes(self.root)
        self.samples, self.targets = find_samples(self.root, self.classes, self.extensions, allow_empty)

    def __repr__(self) -> str:
        return f"SoundFolder({len(self)} sounds in {self.root})"


class SoundList(SoundDataset):
    """A dataset of sounds that you list, each with its target. A loader prepares it as
    :class:`seneca.SoundFolder`.

    Args:
        entries: Pairs ``(path, target)``, as of :class:`seneca.PictureList`: a transcript, for example.
        transform, target_transform, rate, mono, channels: As in :class:`seneca.SoundFolder`.
        root: The folder to which relative paths belong. None: the current folder.
        allow_duplicates: Whether a path may be listed more than once.

    Attributes:
        samples: ``(path, target)`` of every sound; a relative path begins with ``root``.
        targets: The target of every sound.

    Raises:
        FileNotFoundError, IsADirectoryError: There is no file at a path. The message names the entry.
        OSError: The file system gives no answer about a path, or the path is no regular file.
        TypeError: An entry is no pair, or its path is no path.
        ValueError: There are no entries, a path is listed twice, or an option has a wrong value.

    Example:
        >>> import tempfile, seneca
        >>> from seneca.testing import make_sounds
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     paths = sorted(make_sounds(folder, count=2, classes=1).glob("*/*"))
        ...     dataset = seneca.SoundList([(path, "a text") for path in paths], rate=16000, mono=True)
        ...     waveform, text = dataset[1]
        >>> len(dataset), len(waveform), text
        (2, 1, 'a text')
    """

    samples: list[tuple[str, Any]]

    def __init__(
        self,
        entries: Iterable[tuple[str | os.PathLike[str], Any]],
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        *,
        root: str | os.PathLike[str] | None = None,
        allow_duplicates: bool = False,
        rate: int | None = None,
        mono: bool = False,
        channels: int | None = None,
    ) -> None:
        super().__init__(transform, rate=rate, mono=mono, channels=channels)
        self.target_transform = target_transform
        self.samples, below = samples_of(
            entries, root, allow_duplicates=allow_duplicates, what="sounds", name="seneca.SoundList"
        )
        self.targets = [target for _, target in self.samples]
        self.root = below or common_folder(self.samples)
        check_files(self, "seneca.SoundFolder")

    def __repr__(self) -> str:
        return f"SoundList({len(self)} sounds in {self.root or '.'})"
