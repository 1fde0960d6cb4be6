"""torchvision's transforms of a picture and its mask are recognised, or refused in words."""

import re

import numpy as np
import PIL.Image
import pytest
import torch
from torchvision_here import torchvision, v1, v2

from seneca import transforms as T
from seneca.transforms._base import BY_NAME, NOT_OF_V2
from seneca.transforms._pipeline import compile_transform
from seneca.transforms._recognise import PairTransform, recognise, recognise_boxes, recognise_pair

Image, Mask = torchvision.tv_tensors.Image, torchvision.tv_tensors.Mask
CROP = v2.CenterCrop(20)

pytestmark = pytest.mark.filterwarnings("ignore:.*ToTensor", "ignore:.*ConvertImageDtype")


def recognised(*steps):
    known = recognise_pair(v2.Compose(list(steps)))
    assert isinstance(known, PairTransform), known
    return known


def steps_of(*steps):
    return compile_transform(recognised(*steps).transform).steps


def test_the_usual_recipe_is_the_pictures_with_a_type_for_the_mask():
    to_floats = v2.ToDtype({Image: torch.float32, Mask: torch.int64, "others": None}, scale=True)
    normalize = v2.Normalize((0.5, 0.4, 0.3), (0.1, 0.2, 0.3))
    known = recognised(
        v2.ToImage(), v2.RandomResizedCrop(20), v2.RandomHorizontalFlip(), to_floats, normalize
    )
    ours = T.Compose(
        [
            T.RandomResizedCrop(20),
            T.RandomHorizontalFlip(),
            T.ToTensor(),
            T.Normalize((0.5, 0.4, 0.3), (0.1, 0.2, 0.3)),
        ]
    )
    assert compile_transform(known.transform) == compile_transform(ours)
    assert known.mask == "int64"


@pytest.mark.parametrize(
    "steps, mask",
    [
        ([v2.ToImage()], "uint8"),
        ([v2.PILToTensor()], "uint8"),
        ([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)], "uint8"),
        ([v2.ToImage(), v2.ToDtype({Mask: torch.int64, "others": None})], "int64"),
        ([v2.ToDtype({"others": torch.int64, "PIL": None}), v2.ToImage()], None),
        ([v2.ToImage(), v2.ToDtype({Image: torch.float16, "others": torch.int64}, scale=True)], "int64"),
        (
            [
                v2.ToImage(),
                v2.ToDtype({Image: None, Mask: torch.int64}),
                v2.ToDtype({Mask: torch.uint8, "others": None}),
            ],
            "uint8",
        ),
        ([v2.ToImage(), v2.ToPureTensor(), v2.ToDtype({torch.Tensor: torch.float32}, scale=True)], "uint8"),
    ],
)
def test_a_mask_has_the_type_that_torchvision_gives_it(steps, mask):
    known = recognise_pair(v2.Compose([CROP, *steps]))
    if mask is None:  # it would make a PIL image a tensor of int64
        assert isinstance(known, str)
        return
    assert isinstance(known, PairTransform), known
    assert known.mask == mask
    picture = v2.ToImage()(torch.zeros(3, 30, 30, dtype=torch.uint8))
    theirs = v2.Compose(steps)(
        v2.functional.to_pil_image(picture), Mask(torch.zeros(1, 30, 30, dtype=torch.uint8))
    )
    assert str(theirs[1].dtype) == f"torch.{mask}"
    assert str(theirs[0].dtype) == f"torch.{compile_transform(known.transform).dtype}"


@pytest.mark.parametrize(
    "make", [lambda fill: v2.Pad(3, fill=fill), lambda fill: v2.RandomCrop(20, 3, fill=fill)]
)
@pytest.mark.parametrize(
    "fill, picture, mask",
    [
        (0, None, None),
        (5, (5, 5, 5), 5),
        (None, None, None),
        ({Mask: 255, "others": 0}, None, 255),
        ({Mask: 0, "others": 9}, (9, 9, 9), None),
        ({Image: 7, Mask: 255}, (7, 7, 7), 255),
        ({Image: (1, 2, 3), "others": 4}, (1, 2, 3), 4),
    ],
)
def test_margins_have_a_fill_of_their_own_in_masks(make, fill, picture, mask):
    args = steps_of(v2.ToImage(), make(fill), CROP)[0].args
    assert args.get("fill") == picture and args.get("mask_fill") == mask


def test_a_dict_of_fills_is_read_by_the_type_that_the_picture_has_there():
    import PIL.Image

    step = v2.Pad(3, fill={PIL.Image.Image: 1, Image: 2, torch.Tensor: 3, "others": 4})
    for before, expected in ([], 1), ([v2.ToImage()], 2), ([v2.PILToTensor()], 3):
        args = steps_of(*before, step, *([] if before else [v2.ToImage()]), CROP)[0].args
        assert args["fill"] == (expected,) * 3 and args["mask_fill"] == 4


def test_members_of_groups_have_fills_too():
    step = v2.RandomApply([v2.RandomRotation(10, fill={Mask: 255, "others": 0}), v2.ColorJitter(0.4)], 0.3)
    group = steps_of(step, CROP, v2.ToImage())[0]
    assert [inner.args.get("mask_fill") for inner in group.args["steps"]] == [255, None]


@pytest.mark.parametrize(
    "steps, words",
    [
        ([CROP], "the result is a PIL image"),
        ([v1.CenterCrop(20), v2.ToImage()], "takes no mask and no boxes: use torchvision.transforms.v2"),
        ([T.CenterCrop(20), v2.ToImage()], "Seneca's CenterCrop takes no mask"),
        ([v2.RandAugment(), CROP, v2.ToImage()], "RandAugment takes no masks, and torchvision refuses"),
        ([v2.ElasticTransform(), CROP, v2.ToImage()], "ElasticTransform is not written for masks yet"),
        ([v2.RandomPerspective(), CROP, v2.ToImage()], "RandomPerspective is not written for masks yet"),
        ([v2.RandomApply([v2.AugMix()]), CROP, v2.ToImage()], "AugMix takes no masks"),
        ([v2.RandomZoomOut([1, 2, 3]), CROP, v2.ToImage()], "RandomZoomOut fills masks with [1.0, 2.0, 3.0]"),
        ([v2.AutoAugment(), CROP, v2.ToImage()], "AutoAugment takes no masks"),
        ([v2.RandomApply([v2.TrivialAugmentWide()]), CROP, v2.ToImage()], "Wide takes no masks"),
        ([v2.RandomApply([v1.RandomRotation(3)]), CROP, v2.ToImage()], "takes no mask and no boxes: use"),
        ([v2.ToImage(), v2.ToPureTensor(), CROP], "the mask alone behind ToPureTensor: put it in front"),
        ([v2.ToImage(), CROP, v2.ToDtype({Mask: torch.float32, "others": None})], "masks of float32: only"),
        ([v2.ToImage(), CROP, v2.ConvertImageDtype(torch.float32)], "masks of float32: only uint8 and int64"),
        ([v2.ToImage(), CROP, v2.ToDtype({Image: torch.float32})], "ToDtype names no dtype for a Mask"),
        ([v2.ToImage(), CROP, v2.ToDtype({Mask: torch.int64})], "ToDtype names no dtype for a Image"),
        ([v2.Pad(2, fill=[1, 2, 3]), CROP, v2.ToImage()], "Pad fills masks with [1.0, 2.0, 3.0]"),
        ([v2.Pad(2, fill={Mask: 256, "others": 0}), CROP, v2.ToImage()], "Pad fills masks with 256"),
        ([v2.ToImage(), v2.RandomIoUCrop(), CROP], "RandomIoUCrop needs boxes, and torchvision refuses"),
        ([v2.ToImage(), v2.RandomHorizontalFlip()], "sizes"),
        ([v2.Resize((20, 20), interpolation=0), v2.ToImage()], "Resize has interpolation"),
    ],
)  # fmt: skip
def test_what_does_not_run_natively_is_named(steps, words):
    found = recognise_pair(v2.Compose(steps))
    assert isinstance(found, str), found
    assert words in found


def test_other_callables_are_not_recognised():
    assert recognise_pair(None) == "there is no transform, so that the picture is a PIL image"
    assert "is not one that the native path knows" in recognise_pair(print)
    assert "use torchvision.transforms.v2" in recognise_pair(v1.Compose([CROP, v2.ToImage()]))
    assert "takes no mask" in recognise_pair(T.Compose([T.CenterCrop(20)]))


def test_masks_that_stay_tv_tensors_are_not_native(monkeypatch):
    tv_tensors = torchvision.tv_tensors
    with tv_tensors.set_return_type("TVTensor"):
        assert "put ToPureTensor at the end" in recognise_pair(v2.Compose([CROP, v2.PILToTensor()]))
        assert isinstance(recognise_pair(v2.Compose([CROP, v2.ToImage(), v2.ToPureTensor()])), PairTransform)


def test_a_replaced_function_is_reported(monkeypatch):
    import torchvision.transforms.v2.functional._geometry as geometry

    monkeypatch.setattr(geometry, "resize_mask", lambda *args, **given: None)
    assert "resize_mask was replaced" in recognise_pair(v2.Compose([CROP, v2.ToImage()]))


# Transforms of v2 with the arguments that they need. None: a class that is no transform by itself.
ARGUMENTS = {
    "AutoAugmentPolicy": None, "CenterCrop": (24,), "ColorJitter": (0.4,), "Compose": None,
    "ConvertBoundingBoxFormat": ("XYWH",), "ConvertImageDtype": (torch.float32,), "FiveCrop": (20,),
    "GaussianBlur": (3,), "InterpolationMode": None, "JPEG": (50,), "Lambda": (abs,),
    "LinearTransformation": (torch.eye(3 * 24 * 24), torch.zeros(3 * 24 * 24)),
    "Normalize": ((0.5,), (0.5,)), "Pad": (2,), "RandomAdjustSharpness": (2, 1.0), "RandomAffine": (10,),
    "RandomApply": None, "RandomChoice": None, "RandomCrop": (12,), "RandomErasing": (1.0,),
    "RandomOrder": None, "RandomPosterize": (4, 1.0), "RandomResize": (20, 30), "RandomResizedCrop": (24,),
    "RandomRotation": (10,), "RandomShortestSize": (24,), "RandomSolarize": (128, 1.0), "Resize": ((20, 22),),
    "ScaleJitter": ((24, 24),), "SetClampingMode": ("soft",), "TenCrop": (20,),
    "ToDtype": ({Mask: torch.int64, "others": torch.float32}, True), "Transform": None,
    "UniformTemporalSubsample": (2,),
}  # fmt: skip
NAMES = sorted(name for name in dir(v2) if isinstance(getattr(v2, name), type))
NAMES = [name for name in NAMES if ARGUMENTS.get(name, ()) is not None]
GROUPS = {
    "alone": lambda step: step,
    "RandomApply": lambda step: v2.RandomApply([step], 1.0),
    "RandomChoice": lambda step: v2.RandomChoice([step]),
    "RandomOrder": lambda step: v2.RandomOrder([step]),
}
FLOATS = v2.ToDtype({torchvision.tv_tensors.Image: torch.float32, "others": None}, scale=True)


def boxes():
    given = torchvision.tv_tensors.BoundingBoxes([[1.0, 2, 10, 12]], format="XYXY", canvas_size=(24, 24))
    return {"boxes": given, "labels": torch.tensor([1])}


BESIDES = {
    "nothing": (tuple, recognise),
    "mask": (lambda: (Mask(torch.zeros(1, 24, 24, dtype=torch.uint8)),), recognise_pair),
    "boxes": (lambda: (boxes(),), recognise_boxes),
}


def composes_with(name, group):
    """The step where a picture is one of Pillow's, bytes or floats."""

    def step():
        return GROUPS[group](getattr(v2, name)(*ARGUMENTS.get(name, ())))

    same_size = v2.RandomCrop(16, pad_if_needed=True)
    yield v2.Compose([step(), same_size, v2.ToImage(), v2.ToPureTensor()])
    yield v2.Compose([v2.ToImage(), step(), same_size, v2.ToPureTensor()])
    yield v2.Compose([v2.ToImage(), FLOATS, step(), same_size, v2.ToPureTensor()])
    yield v2.Compose([same_size, v2.ToImage(), FLOATS, step(), v2.ToPureTensor()])


def made_by_torchvision(compose, what):
    """What torchvision makes of a picture and what is beside it; None: it refuses that."""
    picture = PIL.Image.fromarray(np.random.default_rng(0).integers(0, 256, (24, 24, 3), dtype=np.uint8))
    try:
        for _ in range(3):  # those that draw a branch
            made = compose(picture, *BESIDES[what][0]())
    except (AttributeError, NotImplementedError, TypeError, ValueError, RuntimeError):
        return None
    return made if isinstance(made, tuple) else (made,)


def assert_kind_is_equal(native, made, what):
    pipeline = compile_transform(native if what == "nothing" else native.transform)
    assert tuple(made[0].shape[-2:]) == pipeline.output_size
    assert str(made[0].dtype) == f"torch.{pipeline.dtype}"
    if what == "mask":
        assert str(made[1].dtype) == f"torch.{native.mask}"
        assert tuple(made[1].shape[-2:]) == pipeline.output_size
    if what == "boxes":
        target = native.moved(boxes(), np.array([24, 24, *[0] * 200], np.uint32))
        assert type(target["boxes"]) is type(made[1]["boxes"])
        assert target["boxes"].dtype == made[1]["boxes"].dtype and target.keys() == made[1].keys()


@pytest.mark.small(20)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("what", ["mask", "boxes"])
@pytest.mark.parametrize("name", NAMES)
def test_what_runs_beside_a_picture_is_what_torchvision_runs_there(name, what, group):
    """The results are of one kind. What does not run has a reason, with torchvision's refusal or a remedy."""
    for compose in composes_with(name, group):
        alone, found = recognise(compose), BESIDES[what][1](compose)
        made = made_by_torchvision(compose, what)
        if not isinstance(found, str):
            assert made is not None
            assert_kind_is_equal(found, made, what)
        elif made is None:
            works_alone = made_by_torchvision(compose, "nothing") is not None
            assert not works_alone or "torchvision refuses it" in found
        elif not isinstance(alone, str):  # else the reason is about the picture
            assert "torchvision refuses" not in found
            assert re.search(
                r": (use|leave it out|put it|only uint8 and int64 run natively, as in)", found
            ), found
            for other in re.findall(r"\buse ([A-Z]\w+)", found):
                instead = next(composes_with(other, "alone"))
                assert not isinstance(BESIDES[what][1](instead), str)


def test_every_transform_of_a_picture_says_what_it_does_to_masks_and_boxes():
    ours = {name: kind for name, kind in BY_NAME.items() if not name.startswith("timm.")}
    assert not [name for name, kind in ours.items() if NOT_OF_V2 in (kind.masks, kind.boxes)]
