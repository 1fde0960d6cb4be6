"""Compiling: which pipelines run, where the head ends, and whose payloads are interchangeable."""

import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seneca import transforms as T
from seneca._core import codec
from seneca.errors import PlanError
from seneca.transforms._pipeline import MAX_STEPS, compile_transform, runs_natively

NORMALIZE = T.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD)
TRAIN = T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), NORMALIZE])
EVALUATION = T.Compose([T.Resize(256), T.CenterCrop((224, 192)), NORMALIZE])


def test_the_head_is_the_leading_deterministic_steps():
    assert (compile_transform(TRAIN).n_head, compile_transform(TRAIN).deterministic) == (0, False)
    assert (compile_transform(EVALUATION).n_head, compile_transform(EVALUATION).deterministic) == (2, True)
    mixed = compile_transform(T.Compose([T.Resize((64, 64)), T.RandomHorizontalFlip(), T.CenterCrop(32)]))
    assert (mixed.n_head, mixed.deterministic) == (1, False)


def test_without_normalize_the_batch_is_in_0_to_1():
    pipeline = compile_transform(T.CenterCrop(8))
    assert (pipeline.mean, pipeline.std) == ((0, 0, 0), (1, 1, 1))
    assert compile_transform(EVALUATION).mean == T.IMAGENET_MEAN


@pytest.mark.parametrize(
    ("transforms", "size"),
    [
        ([T.Resize((32, 48))], (32, 48)),
        ([T.Resize(64), T.CenterCrop((32, 48))], (32, 48)),
        ([T.CenterCrop((32, 48)), T.RandomHorizontalFlip()], (32, 48)),
        ([T.RandomResizedCrop(40), T.RandomHorizontalFlip()], (40, 40)),
        ([T.CenterCrop((32, 48)), T.Resize(16)], (16, 24)),
        ([T.CenterCrop((50, 33)), T.Resize(16)], (24, 16)),
        ([T.CenterCrop((32, 48)), T.Resize(16, max_size=20)], (13, 20)),
        ([T.CenterCrop((48, 32)), T.Resize(16, max_size=30)], (24, 16)),
        ([T.Pad(3), T.CenterCrop((32, 48)), T.Pad((1, 2, 3, 4))], (38, 52)),
        ([T.RandomCrop((32, 48), padding=4), T.RandomVerticalFlip(), T.ColorJitter(1)], (32, 48)),
    ],
)
def test_the_size_of_the_result_is_known_before_any_picture(transforms, size):
    assert compile_transform(T.Compose(transforms)).output_size == size


@pytest.mark.parametrize(
    "transform", [None, T.Resize(64), T.Pad(4), T.RandomHorizontalFlip(), T.Compose([]), NORMALIZE]
)
def test_pictures_of_different_sizes_are_refused_with_the_remedy(transform):
    with pytest.raises(PlanError, match=r"cannot be stacked; add T\.Resize\(\(h, w\)\) or a crop"):
        compile_transform(transform)


HALF = (0.5, 0.5, 0.5)
QUARTERS = T.Normalize(HALF, (0.25, 0.25, -0.25))
U8, F16, BF16, F32 = "uint8", "float16", "bfloat16", "float32"


def ending(*transforms):
    pipeline = compile_transform(T.Compose([T.CenterCrop(8), *transforms]))
    return pipeline.dtype, pipeline.scale, pipeline.mean, pipeline.erase


@pytest.mark.parametrize(
    ("transforms", "dtype", "scale", "mean"),
    [
        ([], F32, True, 0),
        ([T.ToTensor()], F32, True, 0),
        ([T.ToTensor(), QUARTERS], F32, True, 0.5),
        ([T.PILToTensor()], U8, True, 0),
        ([T.ToDtype(U8)], U8, True, 0),
        ([T.PILToTensor(), T.ToDtype(F16, scale=True)], F16, True, 0),
        ([T.ToDtype(BF16, scale=True), QUARTERS], BF16, True, 0.5),
        ([T.ConvertImageDtype(F16), QUARTERS], F16, True, 0.5),
        ([QUARTERS, T.ToDtype(F16)], F16, True, 0.5),
        ([QUARTERS, T.ToDtype(F16, scale=True)], F16, True, 0.5),
        ([T.ToTensor(), T.ToDtype(F16)], F16, True, 0),
        ([T.ToDtype(F32), QUARTERS], F32, False, 0.5),
        ([T.PILToTensor(), T.ToDtype(F32), T.ToDtype(F16, scale=True)], F16, False, 0),
        ([T.ToTensor(), T.ToDtype(U8, scale=True)], U8, True, 0),
        ([T.ToDtype(F32), T.ToDtype(U8)], U8, True, 0),
        ([T.ToDtype(F32), T.ToDtype(U8), T.ToDtype(F16, scale=True)], F16, True, 0),
    ],
)
def test_the_tensor_is_what_torchvision_makes_of_such_a_list(transforms, dtype, scale, mean):
    assert ending(*transforms) == (dtype, scale, (mean, mean, mean), None)


@pytest.mark.parametrize(
    ("transforms", "value", "deviation"),
    [
        ([T.RandomErasing(value=0.75)], (0.75, 0.75, 0.75), None),
        ([T.RandomErasing(value=0.75), QUARTERS], (1, 1, -1), None),
        ([QUARTERS, T.RandomErasing(value=(1, 2, 3))], (1, 2, 3), None),
        ([T.RandomErasing(value="random"), QUARTERS], (-2, -2, 2), (4, 4, 4)),
        ([QUARTERS, T.RandomErasing(value="random")], (0, 0, 0), (1, 1, 1)),
        ([T.PILToTensor(), T.RandomErasing(value=51)], (51, 51, 51), None),
        ([T.PILToTensor(), T.RandomErasing(value=51), T.ToDtype(F32)], (51, 51, 51), None),
        ([T.PILToTensor(), T.RandomErasing(value=51), T.ToDtype(F32, True)], (0.2, 0.2, 0.2), None),
        (
            [T.PILToTensor(), T.RandomErasing(value=255), T.ToDtype(F16, True), QUARTERS],
            (2, 2, -2),
            None,
        ),
        ([T.ToDtype(F32), T.RandomErasing(value="random"), QUARTERS], (-2, -2, 2), (4, 4, 4)),
    ],
)
def test_what_is_erased_goes_through_what_follows(transforms, value, deviation):
    """``(value - mean) / std`` and so on: the units of its place in the list, then of the result."""
    erase = ending(*transforms)[3]
    assert erase["value"] == pytest.approx(value) and erase.get("deviation") == deviation
    assert (erase["p"], erase["scale"], erase["ratio"]) == (0.5, (0.02, 0.33), (0.3, 3.3))


@pytest.mark.parametrize(
    ("transforms", "message"),
    [
        ([NORMALIZE, T.RandomVerticalFlip()], "RandomVerticalFlip works on pixels: move it in front of Norm"),
        ([T.RandomErasing(), T.ColorJitter(1)], "ColorJitter works on pixels: move it in front of RandomEr"),
        ([T.PILToTensor(), T.Pad(1)], "Pad works on pixels: move it in front of PILToTensor"),
        ([NORMALIZE, NORMALIZE], "Normalize is there twice"),
        ([T.RandomErasing(), T.RandomErasing()], "RandomErasing is there twice"),
        (
            [T.PILToTensor(), NORMALIZE],
            r"Normalize takes floats, .* put ToDtype\(torch.float32, scale=True\)",
        ),
        ([T.ToDtype(U8), NORMALIZE], "Normalize takes floats"),
        ([T.PILToTensor(), T.ToTensor()], "leave ToTensor out"),
        ([NORMALIZE, T.ToTensor()], "leave ToTensor out"),
        ([T.ToTensor(), T.PILToTensor()], "PILToTensor takes a picture"),
        ([NORMALIZE, T.ToDtype(U8)], "what Normalize made does not fit into uint8"),
        ([T.ToTensor(), T.ToDtype(U8)], r"floats in \[0, 1\] loses them: use scale=True"),
        ([T.ToDtype(F32), T.ToDtype(U8, True)], r"floats in \[0, 255\] loses them: use scale=False"),
        ([T.RandomErasing(), T.ToDtype(U8, True)], "move RandomErasing behind it"),
        ([T.PILToTensor(), T.RandomErasing(value="random")], "'random' is no uint8"),
        ([T.PILToTensor(), T.RandomErasing(value=0.5)], "is no uint8"),
        ([T.PILToTensor(), T.RandomErasing(value=256)], "is no uint8"),
    ],
)
def test_a_list_that_contradicts_itself_is_refused_with_what_to_change(transforms, message):
    with pytest.raises(PlanError, match=message):
        ending(*transforms)


def test_only_random_pixels_make_a_pipeline_random():
    """What is erased is drawn for each delivery, whatever is kept."""
    assert compile_transform(T.Compose([T.CenterCrop(8), T.Pad(1), T.RandomErasing()])).deterministic
    assert compile_transform(T.Compose([T.CenterCrop(8), T.ColorJitter()])).deterministic
    for transform in (T.RandomCrop(4), T.RandomVerticalFlip(), T.ColorJitter(0.1), T.RandomGrayscale()):
        pipeline = compile_transform(T.Compose([T.CenterCrop(8), T.Pad(1), transform]))
        assert (pipeline.n_head, pipeline.deterministic) == (2, False)


def test_a_resize_that_leaves_nothing_is_refused():
    with pytest.raises(PlanError, match="Resize leaves nothing of a picture: 0 x 60"):
        compile_transform(T.Compose([T.CenterCrop((2, 500)), T.Resize(50, max_size=60)]))


def test_more_steps_than_the_native_core_takes_are_refused():
    flips = [T.RandomHorizontalFlip()] * (MAX_STEPS - 1)
    assert len(compile_transform(T.Compose([T.CenterCrop(8), *flips, NORMALIZE])).steps) == MAX_STEPS
    with pytest.raises(PlanError, match=f"more than the {MAX_STEPS}"):
        compile_transform(T.Compose([T.CenterCrop(8), *flips, T.RandomHorizontalFlip()]))


def test_a_python_callable_is_distinguished_from_what_runs_natively():
    assert runs_natively(TRAIN) and not runs_natively(abs) and not runs_natively(None)
    with pytest.raises(PlanError, match="does not run natively"):
        compile_transform(abs)


def test_jobs_with_the_same_head_share_decoded_and_with_the_same_tail_too_augmented():
    train, evaluation = compile_transform(TRAIN), compile_transform(EVALUATION)
    flip = compile_transform(T.Compose([T.RandomHorizontalFlip(), T.RandomResizedCrop(224)]))
    assert train.head_fingerprint == flip.head_fingerprint != evaluation.head_fingerprint
    assert train.augmented_fingerprint != flip.augmented_fingerprint
    assert evaluation.head_fingerprint != evaluation.augmented_fingerprint


@pytest.mark.parametrize(
    "transform", [NORMALIZE, T.PILToTensor(), T.ToDtype(F16, True), T.ToDtype(F32), T.RandomErasing()]
)
def test_the_batch_is_each_jobs_own_and_no_part_of_a_payload(transform):
    bare = compile_transform(T.CenterCrop(8))
    other = compile_transform(T.Compose([T.CenterCrop(8), transform]), channels_last=True)
    assert bare.augmented_fingerprint == other.augmented_fingerprint
    assert bare.head_fingerprint == other.head_fingerprint
    assert bare != other


def test_how_files_are_decoded_is_a_part_of_every_payload():
    options = [
        {},
        {"decode": "fast"},
        {"apply_orientation": True},
        {"decode": "fast", "apply_orientation": True},
    ]
    pipelines = [compile_transform(TRAIN, **these) for these in options]
    for name in ("head_fingerprint", "augmented_fingerprint"):
        assert len({getattr(pipeline, name) for pipeline in pipelines}) == len(options)


def test_every_argument_of_a_step_counts():
    crop = T.CenterCrop(8)
    variants = [
        *(T.Pad(1), T.Pad((1, 2)), T.Pad(1, 1), T.Pad(1, 0, "edge")),
        *(T.RandomCrop(4), T.RandomCrop(4, 1), T.RandomCrop(4, 0, True), T.RandomCrop(4, 1, False, 9)),
        *(T.RandomCrop(4, 1, False, 0, "reflect"), T.RandomVerticalFlip(), T.RandomVerticalFlip(0.1)),
        *(T.Resize(4), T.Resize(4, "bicubic"), T.Resize(4, max_size=5), T.Resize(4, antialias=False)),
        *(T.ColorJitter(0.1), T.ColorJitter(0, 0.1), T.ColorJitter(0, 0, 0.1), T.ColorJitter(0, 0, 0, 0.1)),
        *(T.RandomGrayscale(), T.RandomGrayscale(0.2), T.RandomResizedCrop(4), crop),
        *(T.RandomResizedCrop(4, interpolation="bicubic"), T.RandomResizedCrop(4, antialias=False)),
    ]
    prints = {compile_transform(T.Compose([crop, one])).augmented_fingerprint for one in variants}
    assert len(prints) == len(variants)


def test_every_argument_of_a_random_crop_counts():
    variants = [
        T.RandomResizedCrop(224),
        T.RandomResizedCrop((224, 223)),
        T.RandomResizedCrop((223, 224)),
        T.RandomResizedCrop(224, scale=(0.09, 1)),
        T.RandomResizedCrop(224, ratio=(0.75, 1.3)),
    ]
    assert len({compile_transform(variant).augmented_fingerprint for variant in variants}) == len(variants)


def test_fingerprints_are_the_same_in_another_process():
    pipeline = compile_transform(EVALUATION)
    code = (
        "from seneca import transforms as T; from seneca.transforms._pipeline import compile_transform as c;"
        "p = c(T.Compose([T.Resize(256), T.CenterCrop((224, 192))]));"
        "print(p.head_fingerprint, p.augmented_fingerprint)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.split() == [str(pipeline.head_fingerprint), str(pipeline.augmented_fingerprint)]
    assert max(pipeline.head_fingerprint, pipeline.augmented_fingerprint) < 2**64


def test_fingerprints_are_what_they_were(monkeypatch):
    """A change here orphans every payload kept by another version: raise PIXELS_VERSION with it."""
    monkeypatch.setattr(codec, "jpeg_library", lambda: "some libjpeg-turbo")
    assert f"{compile_transform(TRAIN).augmented_fingerprint:016x}" == "32c3c7977e9c9455"


def test_equal_transforms_give_equal_pipelines_that_pickle():
    train = T.Compose([T.RandomCrop(8), T.ToDtype("float16"), T.RandomErasing()])
    pipeline, again = (
        compile_transform(train, decode="fast", apply_orientation=True, channels_last=True) for _ in range(2)
    )
    assert pickle.loads(pickle.dumps(pipeline)) == pipeline == again
    assert hash(pickle.loads(pickle.dumps(pipeline))) == hash(pipeline)


SIDE = st.integers(1, 300)
STEP = st.one_of(
    st.builds(T.Resize, SIDE, max_size=st.one_of(st.none(), st.integers(301, 400))),
    st.builds(T.Pad, st.tuples(*[st.integers(0, 20)] * 4)),
    st.builds(T.RandomCrop, st.tuples(SIDE, SIDE), st.integers(0, 20)),
    st.builds(T.ColorJitter, st.floats(0, 2), hue=st.floats(0, 0.5)),
    st.builds(T.Resize, st.tuples(SIDE, SIDE)),
    st.builds(T.CenterCrop, st.tuples(SIDE, SIDE)),
    st.builds(T.RandomResizedCrop, st.tuples(SIDE, SIDE)),
    st.builds(T.RandomHorizontalFlip, st.floats(0, 1)),
)


@given(st.lists(STEP, min_size=1, max_size=5))
def test_the_native_core_agrees_about_the_size_of_the_result(transforms):
    pytest.importorskip("seneca._core.codec")
    try:
        pipeline = compile_transform(T.Compose(transforms))
    except PlanError:
        return
    assert tuple(pipeline.plan.output_size()) == pipeline.output_size
