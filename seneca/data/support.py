"""How much of a dataset can be shared, found by looking at it, and the reasons in plain words.

* **native**: pictures in folders, pairs of a picture and a mask, or pictures with boxes, with transforms that
  the native core runs. C threads prepare them.
* **staged**: ENCODED and DECODED are shared besides whole items. Python does the work.
* **opaque**: any other dataset. Its items are shared as they are.
* **unshared**: nothing of it can be shared. torch loads it.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from torch.utils.data import Dataset, IterableDataset, Subset

from seneca._runtime.packages import release_of
from seneca.data import ImageFolder, PictureList
from seneca.data.archive import PictureArchive
from seneca.data.files import PictureFiles, Seen, files_of
from seneca.data.joined import JoinedFolders, joined
from seneca.data.sources.arrow import is_table
from seneca.data.stages import ByStages, Opaque, Pictures, StagedDataset, Stages, number_of
from seneca.data.tv_boxes import Boxed, Targets
from seneca.data.tv_pairs import pairs_of
from seneca.epochs.dataset_state import has_state
from seneca.epochs.generators import fixed_generators
from seneca.epochs.lengths import length_of
from seneca.errors import NotFingerprinted
from seneca.identity import Attributes, Identity, Look, MadeOf, Memory, Watch
from seneca.options import VerifyFiles
from seneca.transforms._boxes import BoxTransform, recognise_boxes
from seneca.transforms._genuine import is_theirs, replaced_in_torchvision
from seneca.transforms._pairs import PairTransform, recognise_pair
from seneca.transforms._pipeline import (
    ONES,
    ZEROS,
    Decode,
    NativeTransform,
    Pipeline,
    Step,
    compile_transform,
)
from seneca.transforms._recognise import recognise, run_steps, split_static, steps_on_pictures

__all__ = ["Support", "inspect_dataset", "seeds_only"]

# The assumed size in storage of samples of unknown size. It decides how much memory "auto" is: some 64
# KiB a sample and 256 MiB for whole items, up to 1 MiB a sample if earlier forms are kept.
BYTES_OPAQUE = 16 * 2**20
BYTES_PER_STAGED = 64 * 2**10
OF_THE_TRANSFORM = ("transform", "target_transform", "transforms")  # attributes, by torchvision's convention

READS_PICTURES = frozenset({"decode_image", "default_loader", "imread", "loader", "pil_loader", "read_image"})

# These seed generators and do nothing else. Their arguments (a rank, for example) are no part of an item.
SEEDS_ONLY = frozenset(
    {
        "lightning.fabric.utilities.seed.pl_worker_init_function",
        "lightning_fabric.utilities.seed.pl_worker_init_function",
        "pytorch_lightning.utilities.seed.pl_worker_init_function",
        "timm.data.loader._worker_init",
        "transformers.trainer_utils.seed_worker",
    }
)


@dataclass(frozen=True)
class Support:
    """How a dataset can be loaded.

    Attributes:
        name: The support.
        why: The reasons, each a sentence without its full stop.
        base: The dataset beneath ``Subset``.
        own: The indices of ``base`` that belong to the dataset, uint32; None: all, in their order.
        files: The files of pictures; None for other datasets.
        pipeline: The compiled transform, if the whole transform is native.
        stages: The work of worker processes; None if nothing can be shared.
        total_bytes: The approximate size of all samples in storage.
        max_pixels: The most pixels that a picture may have. None: only Pillow's limit counts.
        samples: 16 bytes that name the samples beneath ``Subset`` by state and code alone, on any host;
            None: not known.
        made_of: What the names of a dataset that is not native were made of.
        watch: Tells whether any of that changes.
        attributes: Tells which attributes of ``base`` were bound to something else; None: all count.
        targets: Of native pictures with boxes: what makes their targets; None of others.
    """

    name: Literal["native", "staged", "opaque", "unshared"]
    why: tuple[str, ...]
    base: Any
    own: np.ndarray | None = None
    files: PictureFiles | None = None
    pipeline: Pipeline | None = None
    stages: Stages | None = None
    total_bytes: int = 0
    max_pixels: int | None = None
    samples: bytes | None = None
    made_of: MadeOf | None = None
    watch: Watch | None = None
    attributes: Attributes | None = None
    targets: Targets | None = None

    def told_by(self) -> str:
        """In plain words: what distinguishes the dataset from others, and what that does not see."""
        parts = []
        if self.files is not None:
            parts.append(self.files.told())
        if self.made_of is not None:
            parts.append(str(self.made_of))
        unseen = "what a network answers, and what code reaches without naming it"
        if self.files is None:
            unseen = f"the content of files, {unseen}"
        return f"told from other datasets by {'; '.join(parts)}. Not seen: {unseen}" if parts else ""

    def identity(self) -> str | None:
        """A name of the dataset's samples in their order, in hexadecimal; the same on another host.

        Pictures are named by their paths, other samples by what their items are made of. None: the samples
        cannot be named.
        """
        name = self.samples if self.files is None else self.files.names()
        if name is None:
            return None
        own = b"" if self.own is None else self.own.tobytes()
        return hashlib.blake2b(name + own, digest_size=16).hexdigest()


def inspect_dataset(
    dataset: Any,
    *,
    key: str | None = None,
    channels_last: bool = False,
    shares: bool = True,
    worker_init_fn: Callable[[int], None] | None = None,
    memory: Memory | None = None,
    files_found: Seen | None = None,
    verify_files: VerifyFiles = "epoch",
    for_workers: bool = True,
) -> Support:
    """Look at a dataset as it is now. Picture files are asked for their size and time of modification.

    Args:
        dataset: Any dataset.
        key: A text that stands for each part that cannot be fingerprinted.
        channels_last: Whether the pipeline will lay out its batches as channels last.
        shares: Whether anything is to be shared. If not, the look only finds out what can run natively.
        worker_init_fn: The function that worker processes run first. Items may depend on what it does.
        memory: What earlier looks have remembered. It makes this look faster.
        files_found: What another process has just found about the picture files. They are not asked then.
        verify_files: ``"run"``: files are not asked if this process has asked before.
        for_workers: Whether to find out what workers can share of pictures with masks or boxes, also if these
            run natively. That takes a walk over all annotations.

    Raises:
        OSError: A file of pictures has gone.
        PlanError: A transform of seneca.transforms cannot run as it stands.
    """
    if isinstance(dataset, IterableDataset):
        return Support("unshared", ("an IterableDataset has no indices by which jobs could share",), dataset)
    base, own = dataset, None
    while type(base) is Subset:
        indices = np.asarray(base.indices)
        base = base.dataset
        if indices.size and indices.dtype.kind not in "iu":
            return Support("unshared", ("the Subset's indices are not whole numbers",), base)
        own = indices.astype(np.int64, copy=False) if own is None else indices[own]
        count = length_of(base)
        if count is not None and not _are_samples(own, count):
            return Support(
                "unshared", ("the Subset's indices are not each once and within the dataset",), base
            )
    base = joined(base, _is_picture_folder) or base
    if length_of(base) is None:
        return Support("unshared", (f"{_name(base)} has no length",), base)
    if len(dataset) == 0:
        return Support("unshared", (f"{_name(dataset)} is empty",), base)
    if has_state(base) and key is None:
        why = f"{_name(base)} keeps a state, which its items may depend on; if they do not, say so with key="
        return Support("unshared", (why,), base)
    if own is not None:
        own = own.astype(np.uint32)
    look = Look(key, memory, reads_only=True)
    try:
        if _is_picture_folder(base):
            return _of_pictures(
                base, own, look, worker_init_fn, channels_last, shares, files_found, verify_files
            )
        pairs = pairs_of(base)
        if pairs is not None:
            return _of_pairs(
                base, pairs, own, look, worker_init_fn, channels_last, shares, verify_files, for_workers
            )
        if not shares:
            return Support("unshared", ("cache=None",), base, own)
        return _of_any(base, own, look, worker_init_fn)
    except NotFingerprinted as error:
        return Support("unshared", (f"{error}{_what_helps(base)}",), base, own)
    finally:
        look.end()


def _are_samples(indices: np.ndarray, count: int) -> bool:
    """Whether these are indices below ``count``, each at most once."""
    if indices.size == 0:
        return True
    if indices.min() < 0 or indices.max() >= count:
        return False
    met = np.zeros(count, bool)  # marking takes a twentieth of the time of sorting
    met[indices] = True
    return int(np.count_nonzero(met)) == len(indices)


def _is_picture_folder(dataset: Any) -> bool:
    """Whether this is Seneca's folder, or one of torchvision's that makes items as DatasetFolder does."""
    if type(dataset) in (ImageFolder, PictureList, PictureArchive, JoinedFolders):
        return True
    folder = sys.modules.get("torchvision.datasets.folder")
    return (
        folder is not None
        and isinstance(dataset, folder.DatasetFolder)
        and type(dataset).__getitem__ is folder.DatasetFolder.__getitem__
        and is_theirs(folder.DatasetFolder.__getitem__)
        and getattr(type(dataset), "__getitems__", None) is None
        and vars(dataset).get("loader") in (folder.default_loader, folder.pil_loader)
        and replaced_in_torchvision() is None
        and sys.modules["torchvision"].get_image_backend() == "PIL"
        and all(type(path) is str for path, _ in dataset.samples)
    )


def _of_pictures(
    base: Any,
    own: np.ndarray | None,
    look: Look,
    worker_init_fn: Callable[[int], None] | None,
    channels_last: bool,
    shares: bool,
    files_found: Seen | None,
    verify_files: VerifyFiles,
) -> Support:
    files, source, total_bytes = files_of(base), b"", 0
    if files_found is not None:
        files.take(files_found)
    elif shares and verify_files == "epoch":
        files.look()
    if shares:
        source, total_bytes = files.fingerprint(), files.total_bytes()
    # torchvision's ImageFolder has none of these attributes.
    decode: Decode = getattr(base, "decode", "exact")
    orientation = getattr(base, "apply_exif_orientation", False)
    max_pixels = getattr(base, "max_pixels", None)
    target_transform = getattr(base, "target_transform", None)

    known = recognise(base.transform)
    if isinstance(known, NativeTransform):
        pipeline = compile_transform(
            known,
            decode=decode,
            apply_orientation=orientation,
            channels_last=channels_last,
            max_pixels=max_pixels,
        )
        stages = Pictures(
            files,
            source,
            pipeline,
            same=pipeline.deterministic,
            target_transform=target_transform,
            max_pixels=max_pixels,
        )
        if has_state(base):
            why = f"{_name(base)} keeps a state"
        else:
            why = f"{_name(base)} and its transform run in the native core"
            return Support("native", (why,), base, own, files, pipeline, stages, total_bytes, max_pixels)
        return Support("staged", (why,), base, own, files, None, stages, total_bytes)

    head, tail = split_static(base.transform)
    steps: tuple[Step, ...] = ()
    while head and (step := steps_on_pictures(head[0])) is not None:
        steps += step
        head = head[1:]
    pipeline = Pipeline(
        *(steps, ZEROS, ONES, (0, 0), "uint8"),
        decode=decode,
        apply_orientation=orientation,
        max_pixels=max_pixels,
    )  # its results may have any size, because it only decodes and runs the head
    in_python = f"the transform runs as Python, because {known}"
    if not shares:
        return Support("unshared", (in_python, "cache=None"), base, own, files)
    code = [
        look.identify(transforms, "the transform", part=f"{which} transforms")
        for which, transforms in (("fixed", head), ("random", tail))
    ]
    init, made_of = _identity_of_init(look, worker_init_fn, code[1])
    stages = Pictures(
        files,
        source,
        pipeline,
        static=functools.partial(run_steps, head) if head else None,
        then=functools.partial(run_steps, tail),
        keys=(code[0].here + init, code[1].here + init),
        same=not tail,
        target_transform=target_transform,
        max_pixels=max_pixels,
    )
    kept = f", kept after {', '.join(map(_name, [*steps, *head]))}" if steps or head else ""
    why = f"{in_python}; pictures are decoded natively{kept}"
    seen: dict[str, Any] = {"made_of": made_of, "watch": look.watch}
    return Support("staged", (why,), base, own, files, None, stages, total_bytes, **seen)


def _of_pairs(
    base: Any,
    pairs: Any,
    own: np.ndarray | None,
    look: Look,
    worker_init_fn: Callable[[int], None] | None,
    channels_last: bool,
    shares: bool,
    verify_files: VerifyFiles,
    for_workers: bool,
) -> Support:
    """Of a dataset whose items are a picture and what belongs to it. ``pairs``: see :func:`pairs_of`."""
    known: PairTransform | BoxTransform | str = pairs
    if isinstance(pairs, Boxed):
        known = recognise_boxes(pairs.transforms)
    elif not isinstance(pairs, str):
        known = recognise_pair(pairs.transforms)
    others = Support("unshared", ("cache=None",), base, own)
    try:  # what torch's workers share, if they have to load it
        if shares and (for_workers or isinstance(known, str)):
            others = _of_any(base, own, look, worker_init_fn)
    except NotFingerprinted as error:
        others = Support("unshared", (str(error),), base, own)
    if isinstance(known, str):
        what = known if known is pairs else f"its transforms run as Python, because {known}"
        return dataclasses.replace(others, why=(what, *others.why))
    files = files_of(pairs)
    if shares and verify_files == "epoch":
        files.look()
    has_boxes = isinstance(known, BoxTransform)
    what = "for pictures and masks alike"
    if has_boxes:
        what = "and torchvision moves the boxes likewise, in this process"
    pipeline = compile_transform(
        known.transform,
        channels_last=channels_last,
        max_pixels=pairs.max_pixels,
        mask=known.mask if isinstance(known, PairTransform) else None,
        moves=has_boxes,
    )
    return dataclasses.replace(
        others,
        name="native",
        why=(f"{_name(base)} and its transforms run in the native core, {what}",),
        files=files,
        pipeline=pipeline,
        targets=Targets(pairs, pairs.keys, known) if isinstance(known, BoxTransform) else None,
        total_bytes=files.total_bytes() if shares else 0,
        max_pixels=pairs.max_pixels,
        made_of=None,
    )


def _of_any(
    base: Any, own: np.ndarray | None, look: Look, worker_init_fn: Callable[[int], None] | None
) -> Support:
    name = _name(base)
    is_staged = _offers_stages(base)
    without = _without_transform(base, is_staged)
    of_samples = None if without is None else look.identify_part(type(base), without, name)
    whole = look.identify(base, name)
    of_samples = of_samples or whole
    init, made_of = _identity_of_init(look, worker_init_fn, whole)
    # ``worker_init_fn`` is part of the source only for stages, whose code makes what is kept. Of whole
    # items the source only names the frame.
    source = _source(of_samples.here + (init if is_staged else b""), base)
    augmented = number_of(b"items", whole.here + init)
    seen: dict[str, Any] = {
        "samples": _source(of_samples.state, base), "made_of": made_of, "watch": look.watch,
        "attributes": look.attributes(base, _once_more),
    }  # fmt: skip
    if is_staged:
        why = f"{name} offers read, decode and augment"
        by_stages = ByStages(base, source, number_of(b"decoded", source), augmented)
        total_bytes = BYTES_PER_STAGED * len(base)
        return Support("staged", (why,), base, own, stages=by_stages, total_bytes=total_bytes, **seen)
    why = f"{name} is shared by whole items: what is in between is not known{_what_helps(base)}"
    if _has_stages(type(base)):
        why = (
            f"{name} is shared by whole items, as its __getitem__ makes them; if read, decode and augment "
            "make the same, derive it from seneca.StagedDataset"
        )
    stages = Opaque(base, source, augmented)
    return Support("opaque", (why,), base, own, stages=stages, total_bytes=BYTES_OPAQUE, **seen)


def _once_more(make: Callable[[], Any]) -> Any:
    """What a function returns that was called before; a new object if it draws random numbers."""
    with fixed_generators(1) as drawn:
        made = make()
        return object() if drawn() else made


def _what_helps(dataset: Any) -> str:
    """The one change by which pictures of this dataset would be prepared natively; "": none is known."""
    if is_table(dataset) and any(type(one).__name__ == "Image" for one in dataset.features.values()):
        return (
            "; seneca.open(dataset, transform) reads its pictures natively, in place of set_transform() and "
            "with_transform(); a collate_fn makes dicts of its items"
        )
    if _opens_pictures(type(dataset)):
        return (
            "; if an item is a picture opened by path, with its target, give "
            "seneca.PictureList([(path, target), ...], transform) instead, which runs natively; other items "
            "share more by seneca.StagedDataset"
        )
    return ""


def _opens_pictures(kind: type) -> bool:
    """Whether the code of ``__getitem__``, or of a method that it names, looks as if it opens pictures.

    This is a guess for a piece of advice, and decides nothing.
    """
    code = getattr(getattr(kind, "__getitem__", None), "__code__", None)
    if code is None:
        return False
    names = set(code.co_names)
    for name in code.co_names:
        method = getattr(getattr(kind, name, None), "__code__", None)
        names |= set(method.co_names) if method is not None else set()
    return {"open", "convert"} <= names or not names.isdisjoint(READS_PICTURES)


def seeds_only(function: Callable[[int], None] | None) -> bool:
    """Whether items do not depend on ``function``: it is None, or is known to only seed generators."""
    inner = function.func if isinstance(function, functools.partial) else function
    name = f"{getattr(inner, '__module__', '')}.{getattr(inner, '__qualname__', '')}"
    return inner is None or name in SEEDS_ONLY


def _identity_of_init(
    look: Look, worker_init_fn: Callable[[int], None] | None, before: Identity
) -> tuple[bytes, MadeOf]:
    """The identity of ``worker_init_fn``, empty if items do not depend on it; and what all is made of.

    ``before`` is what the look identified last.
    """
    if seeds_only(worker_init_fn):
        return b"", before.made_of
    init = look.identify(worker_init_fn, "worker_init_fn", part="worker_init_fn")
    return init.here, init.made_of


def _offers_stages(dataset: Any) -> bool:
    """Whether it is a :class:`StagedDataset`.

    The class is asked, because an object may answer for any name, or raise anything. torch does not ask
    objects either. A class with its own ``__getitem__`` defines its items there, whatever its other methods
    are called. Only deriving from :class:`StagedDataset` says otherwise.
    """
    kind = type(dataset)
    own = getattr(kind, "__getitem__", None) not in (None, Dataset.__getitem__)
    return _has_stages(kind) and (StagedDataset in kind.__mro__ or not own)


def _has_stages(kind: type) -> bool:
    return all(callable(getattr(kind, name, None)) for name in ("__len__", "read", "decode", "augment"))


def _without_transform(dataset: Any, is_staged: bool) -> dict[str, Any] | None:
    """The attributes without those of the transform: jobs with other transforms have these too.

    None: all attributes name the samples.
    """
    state = getattr(dataset, "__dict__", None)
    says_itself = any(
        {"__fingerprint__", "__getstate__", "__reduce__", "__reduce_ex__"} & vars(kind).keys()
        for kind in type(dataset).__mro__[:-1]
    )
    if not isinstance(state, dict) or says_itself or not any(name in state for name in OF_THE_TRANSFORM):
        return None
    if is_staged and _uses_transform_early(type(dataset)):
        return None
    return {k: v for k, v in state.items() if k not in OF_THE_TRANSFORM}


def _uses_transform_early(kind: type) -> bool:
    """Whether any code that may take part in reading or decoding names a transform.

    This code is all code of the class and all that it leads to, except ``augment``, ``label`` and methods
    with double underscores, which Python calls.
    """
    look = Look("what cannot be seen speaks of nothing")
    look.pass_over(*kind.__mro__)
    for base in kind.__mro__:
        if release_of(base.__module__) is not None:
            if "read" in vars(base) or "decode" in vars(base):
                return True  # this look does not go into installed code
            continue
        for name, member in vars(base).items():
            if not name.startswith("__") and name not in ("augment", "label"):
                look.identify(member)
    return not look.words.isdisjoint(OF_THE_TRANSFORM)


def _source(name: bytes, dataset: Any) -> bytes:
    return hashlib.blake2b(name + len(dataset).to_bytes(8, "little"), digest_size=16).digest()


def _name(thing: Any) -> str:
    return thing.kind if isinstance(thing, Step) else type(thing).__name__
