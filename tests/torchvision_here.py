"""torchvision, which the tests compare with: imported here, wherever its operators do not load.

Its wheels are built for one build of torch each. Beside another one (of the same version, for CPUs
only) its compiled operators stay out, and its import fails, because nobody has declared the two that it
decorates. Declared, they are never called: transforms need none of them.

It imports torch's compiler, to keep it from some functions. That takes half of the time, and a third of the
memory, which each forked child of a test would map again. Therefore a stand-in says what it is asked.
"""

from __future__ import annotations

import importlib
import sys
import types

import torch

__all__ = ["F", "torchvision", "v1", "v2"]


def _imported() -> types.ModuleType:
    try:
        import torchvision
    except RuntimeError:
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "DEF")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        import torchvision

        torchvision.declared = library  # a declaration ends with its library
    importlib.import_module("torchvision.transforms.v2")
    return torchvision


_compiler = types.ModuleType("torch._dynamo")
_compiler.disable = lambda function, *_, **__: function
_utils = types.ModuleType("torch._dynamo.utils")
_utils.is_compile_supported = lambda device: False
_stand_in = {one.__name__: one for one in (_compiler, _utils)} if "torch._dynamo" not in sys.modules else {}

sys.modules.update(_stand_in)
torchvision = _imported()
for _name in _stand_in:
    del sys.modules[_name]

v1 = torchvision.transforms
v2 = v1.v2
F = v1.functional
