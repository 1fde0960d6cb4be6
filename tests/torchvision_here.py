"""torchvision, which the tests compare with: imported here, wherever its operators do not load.

Its wheels are built for one build of torch each. Beside another one (of the same version, for CPUs
only) its compiled operators stay out, and its import fails, because nobody has declared the two that it
decorates. Declared, they are never called: transforms need none of them.
"""

from __future__ import annotations

import sys

import torch

__all__ = ["F", "torchvision", "v1", "v2"]

try:
    import torchvision
except RuntimeError:
    for _name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[_name]
    # Held by this module: a declaration ends with its library.
    _library = torch.library.Library("torchvision", "DEF")
    _library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import torchvision

import torchvision.transforms as v1
import torchvision.transforms.functional as F
import torchvision.transforms.v2 as v2
