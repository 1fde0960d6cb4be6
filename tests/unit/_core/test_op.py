"""The table of operations, csrc/codec/ops.def, and what the classes of transforms say of the same."""

import pytest
from seneca._core.op import described_kinds, packed

from seneca import transforms as T
from seneca.errors import PlanError
from seneca.transforms._base import BY_KIND, DEFAULTS

KINDS = described_kinds()
OF_TENSORS = {"to_tensor", "pil_to_tensor", "to_dtype", "normalize", "random_erasing"}


def test_each_kind_has_a_class_and_each_class_a_kind():
    assert KINDS.keys() - {"branch"} == BY_KIND.keys() - OF_TENSORS
    alone = {kind.__name__ for kind in BY_KIND.values() if not kind.needs_boxes}
    assert alone <= {*T.__all__}


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"branch"}))
def test_a_class_says_of_its_kind_what_the_core_says(kind):
    ours, core = BY_KIND[kind], KINDS[kind]
    assert (kind in ours.fixed_kinds, ours.keeps_size, ours.any_size, ours.needs_boxes, ours.sound) == (
        core["is_fixed"],
        core["keeps_size"],
        core["any_size"],
        core["reads_boxes"],
        core["is_sound"],
    )


def test_an_argument_that_a_step_leaves_out_is_what_the_core_assumes():
    compared = set()
    for kind, core in KINDS.items():
        for name in core["arguments"] & DEFAULTS.keys():
            if DEFAULTS[name] is not None and (kind, name) != ("aug_mix", "fill"):
                compared.add(name)
                assert packed(kind, {name: DEFAULTS[name]}) == packed(kind, {}), (kind, name)
    assert compared >= {"interpolation", "fill", "padding", "padding_mode", "pad_if_needed", "antialias"}
    none = {name for name, value in DEFAULTS.items() if value is None}
    assert packed("color_jitter", {"brightness": (1, 1), "hue": (0, 0)}) == packed("color_jitter", {})
    assert packed("random_affine", {"scale": (1, 1), "translate": (0, 0), "shear": (0, 0, 0, 0)}) == packed(
        "random_affine", {}
    )
    assert none == {"max_size", "brightness", "contrast", "saturation", "hue"} | {
        "center",
        "translate",
        "scale",
        "shear",
    }


def test_an_argument_of_another_kind_is_refused():
    with pytest.raises(PlanError, match="random_hflip has no argument 'bits'"):
        packed("random_hflip", {"p": 0.5, "bits": 3})
