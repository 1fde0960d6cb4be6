"""Sounds with labels: natively, or item by item where they differ in length or a Python transform comes
behind."""

from __future__ import annotations

from typing import Any

from seneca.data.archive import SoundArchive
from seneca.data.joined import JoinedSounds
from seneca.data.kinds.fingerprints import fingerprint_init
from seneca.data.kinds.kind import Request, Support, class_name
from seneca.data.sounds import SoundFolder, SoundList
from seneca.data.stages import Sounds
from seneca.epochs.dataset_state import has_state
from seneca.errors import PlanError
from seneca.transforms._pipeline import NativeTransform

__all__ = ["matches", "support"]


def matches(dataset: Any) -> bool:
    """Whether this is one of Seneca's datasets of sounds."""
    return type(dataset) in (SoundFolder, SoundList, SoundArchive, JoinedSounds)


def support(request: Request) -> Support:
    """Support for sounds with labels: all is native, or the part that is alike in all items is shared."""
    if request.channels_last:
        raise PlanError(
            "memory_format=torch.channels_last is of pictures, and these are sounds: leave it out"
        )
    base = request.base
    files, source, total_bytes = request.files_of(base), b"", 0
    if request.shares:
        source, total_bytes = files.fingerprint(), files.total_bytes()
    pipeline, name = base.pipeline(), class_name(base)
    found: dict[str, Any] = {"files": files, "total_bytes": total_bytes}
    if base.transform is not None and not isinstance(base.transform, NativeTransform):
        why = f"the transform of {name} runs as Python; sounds are decoded natively"
        if not request.shares:
            return request.support("unshared", why, "cache=None", files=files)
        code = request.fingerprinter.identify(base.transform, "the transform", part="transform")
        init, made_of = fingerprint_init(request, code)
        found |= {"made_of": made_of, "watch": request.fingerprinter.watch}
        stages = Sounds(
            files,
            source,
            pipeline,
            then=base.transform,
            keys=(b"", code.here + init),
            target_transform=base.target_transform,
        )
        return request.support("staged", why, stages=stages, **found)
    stages = Sounds(
        files, source, pipeline, same=pipeline.deterministic, target_transform=base.target_transform
    )
    if pipeline.output_size == (0, 0):
        needed = (
            "a crop to a number of frames" if pipeline.channels or base.mono else "mono=True or channels="
        )
        why = (
            f"sounds of {name} come out in different shapes, therefore workers make items: {needed} makes "
            "them equal"
        )
    elif has_state(base):
        why = f"{name} keeps a state"
    else:
        why = f"{name} and its transform run in the native core"
        return request.support("native", why, stages=stages, pipeline=pipeline, **found)
    return request.support("staged", why, stages=stages, **found)
