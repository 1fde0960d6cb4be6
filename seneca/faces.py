"""The public classes as users call them: constructors, attributes and members, which sharing does not change.

:mod:`seneca.loader` and :mod:`seneca.workers.dataset` make these classes share. :mod:`seneca.fallback` makes
them plain torch. ``make generated`` writes the parts of the constructors that list Seneca's options, from
:class:`seneca.options.Options`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import torch
import torch.utils.data

from seneca.epochs.resumable import ResumableLoader
from seneca.options import AutoWorkers, CheckEvery, Options, workers_of

__all__ = ["DataLoader", "SharedDataset"]

_T_co = TypeVar("_T_co", covariant=True)


class DataLoader(torch.utils.data.DataLoader[_T_co], ResumableLoader):
    """``torch.utils.data.DataLoader`` that also takes Seneca's options."""

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int | Literal["auto"] = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: torch.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        # Seneca's options
        cache: Any = "auto",
        cache_bytes: int | str = "auto",
        split: Any = "auto",
        share: Any = "augmented",
        on_error: Any = "raise",
        memory_format: torch.memory_format = torch.contiguous_format,
        key: str | None = None,
        job: str | None = None,
        device: str | torch.device | None = None,
        uint8_batches: bool | None = None,
        check_every: CheckEvery = 4096,
        keep: bool | float | str | None = None,
        verify_files: Any = "epoch",
        remote: Any = None,
        snapshot_every_n_steps: int | None = 1,
    ) -> None:
        """Store the arguments under their own names; those that are not listed here are torch's.

        An option of Seneca's that is set later, as an attribute, takes effect with the next epoch.

        Args:
            dataset: As torch's. A :class:`seneca.SharedDataset` is shared by its own arguments, not by these.
            num_workers: As torch's. On the native path it is the number of threads of this process that
                prepare. With 0, the calling thread prepares. ``"auto"``: as many as this job's share of the
                cores keeps busy, which changes while the jobs of the host change. The attribute is then the
                most that there can be.
            prefetch_factor: As torch's. On the native path it is the number of batches prepared ahead by all
                threads together.

        Keyword Args:
            cache: Which jobs share. ``"auto"``: all jobs on the same files. A name: the jobs that give the
                same name. A :class:`seneca.SampleCache`: the jobs of that cache. ``None``: nobody.
            cache_bytes: Memory for payloads if this job makes the cache, as ``"8GiB"`` or an int. ``"auto"``:
                half of the free memory, at most what the dataset can use.
            split: Shares of the forms if this job makes the cache. ``"58-42-0"``: percent for encoded,
                decoded and augmented samples. ``"20-38-42-0"``: the second number is for recoded JPEGs.
                ``"auto"``: Seneca measures and chooses.
            share: The latest form that jobs share. ``"augmented"``: augmented copies too. ``"decoded"``:
                every job augments for itself. ``"none"``: the seed alone fixes order and randomness; kept
                payloads still serve. ``"exact"``: as ``"none"``, but jobs of one seed share augmented copies.
                Give each of them ``generator=torch.Generator().manual_seed(seed)``, the same
                ``persistent_workers``, and samplers that draw the same.
            on_error: What happens if a file cannot be decoded. ``"raise"``: the loader raises an error that
                names the file, and iterating may go on with the next batch. ``"skip"``: the next sample takes
                its place, and one warning reports it.
            memory_format: ``torch.channels_last``: the three channels of a pixel lie together in memory,
                which convolutions on GPUs prefer. The shape stays ``(B, 3, height, width)``. If torch loads,
                batches are ``torch.contiguous_format``, and a warning says so.
            key: Stands for each part of the dataset that cannot be fingerprinted. Jobs share if they give the
                same key and their datasets are equal in all other parts. The user vouches that their items
                are interchangeable.
            job: Names the training run of this process. All processes of a run give the same name. None: the
                processes that meet by the environment of torchrun or torch.distributed are one run, and any
                other process is a run by itself. Each copy made for other jobs reaches a run once.
            device: Where batches go, for example ``"cuda"``. Each batch is copied while the one before is in
                use. None: batches stay where they are made.
            uint8_batches: Whether the native path makes uint8 batches, a quarter of float32's bytes, which
                are normalised later. With ``device`` this happens on the device, in the same numbers. Without
                it, :attr:`normalizer` does it in the training step. None: on a GPU, if the transform and
                ``collate_fn`` permit; :meth:`explain` says why not. True: always, or a ``ValueError``.
            check_every: One of so many samples served from the cache is made again and compared; more of them
                until enough samples have agreed. If one differs, the jobs of the cache stop sharing, and one
                warning names it. ``stats()`` counts checks and differences. ``"first"``: a sample is taken
                from the cache only after this job has made it itself once, and it agreed. None: no checks.
            keep: How long the cache outlives the last job that uses it: seconds, or a time such as
                ``"10min"``. A job that starts within that time finds it warm. True: until ``seneca rm``.
                None: as the environment variable ``SENECA_KEEP`` says, else not at all. The longest time that
                any of its jobs has asked for counts.
            verify_files: When the files of a folder of pictures are asked for their size and time, which
                shows whether they have changed. ``"epoch"``: as each epoch begins. ``"run"``: as the first
                epoch of this process begins, and again if the dataset's list of files has changed. The user
                vouches that no file is rewritten while the job runs. Use it if storage takes seconds to
                answer for all files.
            remote: Redis or Valkey servers that keep the files of pictures for several hosts:
                ``"redis://:password@host1,host2"`` or ``"unix:/path/of/socket"``. A sample that a server
                lacks comes from storage, and is left there for the others. With ``share="exact"`` the servers
                also pass augmented copies from host to host. None: as the environment variable
                ``SENECA_REMOTE`` says. False: none.
            snapshot_every_n_steps: No effect. torchdata's ``StatefulDataLoader`` has this argument. The state
                of this loader is exact after every batch.

        Raises:
            ValueError: torch or :class:`seneca.options.Options` refuses an argument.
        """
        # Seneca's options, as attributes
        self.cache = cache
        self.cache_bytes = cache_bytes
        self.split = split
        self.share = share
        self.on_error = on_error
        self.memory_format = memory_format
        self.key = key
        self.job = job
        self.device = device
        self.uint8_batches = uint8_batches
        self.check_every = check_every
        self.keep = keep
        self.verify_files = verify_files
        self.remote = remote
        self.snapshot_every_n_steps = snapshot_every_n_steps

        self._never_begun()
        self._set_up()
        super().__init__(
            dataset,
            batch_size,
            shuffle,
            sampler,
            batch_sampler,
            workers_of(num_workers),
            collate_fn,
            pin_memory,
            drop_last,
            timeout,
            worker_init_fn,
            multiprocessing_context,
            generator,
            prefetch_factor=prefetch_factor,
            persistent_workers=persistent_workers,
            pin_memory_device=pin_memory_device,
            in_order=in_order,
        )

    @abstractmethod
    def _set_up(self) -> None:
        """Refuse wrong options, and make what an instance needs besides. torch's part is not there yet."""

    @property
    def _options(self) -> Options:
        """Seneca's options as they are now. One that is set later takes effect with the next epoch."""
        return Options.of(self)

    @property
    def check_worker_number_rationality(self) -> Callable[[], None]:  # type: ignore[override]
        """Let torch itself warn of more workers than cores, so that users' filters of its text match.

        Nothing warns of ``num_workers="auto"``, which nobody has chosen too large.
        """
        is_auto = isinstance(self.num_workers, AutoWorkers)
        return _nothing if is_auto else super().check_worker_number_rationality

    def _users_dataset(self) -> Any:
        return self.dataset.dataset if isinstance(self.dataset, SharedDataset) else self.dataset

    @property
    @abstractmethod
    def last_indices(self) -> Any:
        """The indices of the samples in the native path's last batch; None: there was no batch."""

    @abstractmethod
    def explain(self) -> str:
        """Say in plain words what is shared, and why not more."""

    @abstractmethod
    def stats(self) -> dict[str, Any]:
        """Counters of this loader so far."""

    @property
    @abstractmethod
    def normalizer(self) -> torch.nn.Module:
        """What is left to do of a batch's pictures in the training step."""

    @abstractmethod
    def diagnose(self) -> Any:
        """Say why the training loop waits for samples."""


class SharedDataset(torch.utils.data.Dataset[Any], ABC):
    """The dataset itself, behind Seneca's options."""

    # Public attributes that belong to this class; all others are the dataset's.
    _own = frozenset({"dataset", *Options.of_dataset()})

    def __init__(
        self,
        dataset: Any,
        *,
        # Seneca's options
        cache: str | None = "auto",
        cache_bytes: int | str = "auto",
        split: Any = "auto",
        share: Any = "augmented",
        key: str | None = None,
        job: str | None = None,
        check_every: CheckEvery = 4096,
        keep: bool | float | str | None = None,
        verify_files: Any = "epoch",
        remote: str | Sequence[str] | Literal[False] | None = None,
    ) -> None:
        """Store the arguments under their own names.

        Args:
            dataset: Any map-style dataset. A ``torch.utils.data.Subset`` shares with the dataset beneath it.

        Keyword Args:
            cache, cache_bytes, split, share, key, job, check_every, keep, verify_files, remote: As in
                :class:`seneca.DataLoader`, but ``cache`` is a name or None.

        Raises:
            ValueError: :class:`seneca.options.Options` refuses an argument.
        """
        self.dataset = dataset
        # Seneca's options, as attributes
        self.cache = cache
        self.cache_bytes = cache_bytes
        self.split = split
        self.share = share
        self.key = key
        self.job = job
        self.check_every = check_every
        self.keep = keep
        self.verify_files = verify_files
        self.remote = remote

        self._set_up()

    @abstractmethod
    def _set_up(self) -> None:
        """Refuse wrong arguments, and make what an instance needs besides."""

    @property
    def _options(self) -> Options:
        return Options.of(self)

    def __len__(self) -> int:
        return len(self.dataset)

    @abstractmethod
    def __getitem__(self, index: Any) -> Any: ...

    @abstractmethod
    def __getitems__(self, indices: Sequence[Any]) -> list[Any]:
        """The items of a batch, in its order."""

    def __getattr__(self, name: str) -> Any:
        # The dataset's attributes (classes, targets, ...) are found here too. Private names are not; nor is
        # its state, because others would then take this for a dataset that keeps one.
        if name.startswith("_") or name in ("dataset", "state_dict", "load_state_dict"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.dataset, name)

    def __setattr__(self, name: str, value: Any) -> None:
        # They are set on the dataset too: timm makes a loader of a dataset and then sets its `transform`.
        if name.startswith("_") or name in self._own:
            super().__setattr__(name, value)
        else:
            setattr(self.dataset, name, value)

    @abstractmethod
    def join(
        self, *, batch_size: int | None = None, batches_ahead: int = 1, threads: int | None = None
    ) -> Any:
        """Join the cache; None: nothing is shared."""

    @abstractmethod
    def explain(self, support: Any = None) -> str:
        """Say in plain words what is shared, and why not more."""

    @abstractmethod
    def stats(self) -> dict[str, Any]:
        """Counters of this job's processes with this dataset so far."""


def _nothing() -> None:
    """Takes the place of a check that does not apply."""
