"""Pictures with labels, in folders, lists and containers: natively, or staged with a Python transform."""

from __future__ import annotations

import functools
import sys
from typing import Any

from seneca.data import ImageFolder, PictureList
from seneca.data.archive import PictureArchive
from seneca.data.files import PictureFiles
from seneca.data.joined import JoinedFolders
from seneca.data.kinds.fingerprints import fingerprint_init
from seneca.data.kinds.kind import Request, Support, class_name
from seneca.data.stages import Pictures
from seneca.epochs.dataset_state import has_state
from seneca.transforms._genuine import is_library_code, replaced_in_torchvision
from seneca.transforms._pipeline import ONES, ZEROS, NativeTransform, Pipeline, compile_transform
from seneca.transforms._recognise import recognise, run_steps, split_static

__all__ = ["matches", "support"]


def matches(dataset: Any) -> bool:
    """Whether this is one of Seneca's, or one of torchvision's that makes items as DatasetFolder does."""
    if type(dataset) in (ImageFolder, PictureList, PictureArchive, JoinedFolders):
        return True
    folder = sys.modules.get("torchvision.datasets.folder")
    return (
        folder is not None
        and isinstance(dataset, folder.DatasetFolder)
        and type(dataset).__getitem__ is folder.DatasetFolder.__getitem__
        and is_library_code(folder.DatasetFolder.__getitem__)
        and getattr(type(dataset), "__getitems__", None) is None
        and vars(dataset).get("loader") in (folder.default_loader, folder.pil_loader)
        and replaced_in_torchvision() is None
        and sys.modules["torchvision"].get_image_backend() == "PIL"
        and all(type(path) is str for path, _ in dataset.samples)
    )


def support(request: Request) -> Support:
    """Support for pictures with labels: all is native, or the part before the Python transform is shared."""
    files, source, total_bytes = request.files_of(request.base), b"", 0
    if request.shares:
        source, total_bytes = files.fingerprint(), files.total_bytes()
    known = recognise(request.base.transform)
    if isinstance(known, NativeTransform):
        return _run_natively(request, files, source, total_bytes, known)
    return _run_in_python(request, files, source, total_bytes, known)


def _run_natively(
    request: Request, files: PictureFiles, source: bytes, total_bytes: int, transform: NativeTransform
) -> Support:
    """The support if the core knows the whole transform."""
    base, options = request.base, _decoding_of(request.base)
    pipeline = compile_transform(transform, channels_last=request.channels_last, **options)
    stages = Pictures(
        files,
        source,
        pipeline,
        same=pipeline.deterministic,
        target_transform=_target_transform_of(base),
        max_pixels=options["max_pixels"],
    )
    found: dict[str, Any] = {"files": files, "stages": stages, "total_bytes": total_bytes}
    if has_state(base):
        return request.support("staged", f"{class_name(base)} keeps a state", **found)
    return request.support(
        "native",
        f"{class_name(base)} and its transform run in the native core",
        pipeline=pipeline,
        max_pixels=options["max_pixels"],
        **found,
    )


def _run_in_python(
    request: Request, files: PictureFiles, source: bytes, total_bytes: int, reason: str
) -> Support:
    """The support if the transform, or its end, runs as Python. ``reason`` says why."""
    base, options = request.base, _decoding_of(request.base)
    split = split_static(base.transform)
    steps, head, tail = split.core, split.head[split.in_core :], split.tail
    # Its results may have any size, because it only decodes and runs the head.
    pipeline = Pipeline(steps, ZEROS, ONES, (0, 0), "uint8", **options)
    in_python = f"the transform runs as Python, because {reason}"
    if not request.shares:
        return request.support("unshared", in_python, "cache=None", files=files)
    code = [
        request.fingerprinter.identify(transforms, "the transform", part=f"{which} transforms")
        for which, transforms in (("fixed", head), ("random", tail))
    ]
    init, made_of = fingerprint_init(request, code[1])
    stages = Pictures(
        files,
        source,
        pipeline,
        static=functools.partial(run_steps, head) if head else None,
        then=functools.partial(run_steps, tail),
        keys=(code[0].here + init, code[1].here + init),
        same=not tail,
        target_transform=_target_transform_of(base),
        max_pixels=options["max_pixels"],
    )
    kept = f", kept after {', '.join(map(class_name, [*steps, *head]))}" if steps or head else ""
    return request.support(
        "staged",
        f"{in_python}; pictures are decoded natively{kept}",
        files=files,
        stages=stages,
        total_bytes=total_bytes,
        made_of=made_of,
        watch=request.fingerprinter.watch,
    )


def _decoding_of(dataset: Any) -> dict[str, Any]:
    """How pictures are decoded. torchvision's ImageFolder has none of these attributes."""
    return {
        "decode": getattr(dataset, "decode", "exact"),
        "apply_orientation": getattr(dataset, "apply_exif_orientation", False),
        "max_pixels": getattr(dataset, "max_pixels", None),
    }


def _target_transform_of(dataset: Any) -> Any:
    return getattr(dataset, "target_transform", None)
