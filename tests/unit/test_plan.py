"""Compiling: which pipelines run, where the head ends, and whose payloads are interchangeable."""

import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seneca import transforms as T
from seneca._pipeline.plan import MAX_STEPS, compile_transform, runs_natively
from seneca.errors import PlanError

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
    ],
)
def test_the_size_of_the_result_is_known_before_any_picture(transforms, size):
    assert compile_transform(T.Compose(transforms)).output_size == size


@pytest.mark.parametrize(
    "transform", [None, T.Resize(64), T.RandomHorizontalFlip(), T.Compose([]), NORMALIZE]
)
def test_pictures_of_different_sizes_are_refused_with_the_remedy(transform):
    with pytest.raises(PlanError, match=r"cannot be stacked; add T\.Resize\(\(h, w\)\) or a crop"):
        compile_transform(transform)


@pytest.mark.parametrize(
    "transforms", [[NORMALIZE, T.CenterCrop(8)], [T.CenterCrop(8), NORMALIZE, NORMALIZE]]
)
def test_normalize_comes_last_and_once(transforms):
    with pytest.raises(PlanError, match="Normalize must come last"):
        compile_transform(T.Compose(transforms))


def test_more_steps_than_the_native_core_takes_are_refused():
    flips = [T.RandomHorizontalFlip()] * (MAX_STEPS - 1)
    assert len(compile_transform(T.Compose([T.CenterCrop(8), *flips, NORMALIZE])).steps) == MAX_STEPS
    with pytest.raises(PlanError, match=f"more than the {MAX_STEPS}"):
        compile_transform(T.Compose([T.CenterCrop(8), *flips, T.RandomHorizontalFlip()]))


def test_a_python_callable_is_told_apart_from_what_runs_natively():
    assert runs_natively(TRAIN) and not runs_natively(abs) and not runs_natively(None)
    with pytest.raises(PlanError, match="does not run natively"):
        compile_transform(abs)


def test_jobs_with_the_same_head_share_decoded_and_with_the_same_tail_too_augmented():
    train, evaluation = compile_transform(TRAIN), compile_transform(EVALUATION)
    flip = compile_transform(T.Compose([T.RandomHorizontalFlip(), T.RandomResizedCrop(224)]))
    assert train.head_fingerprint == flip.head_fingerprint != evaluation.head_fingerprint
    assert train.augmented_fingerprint != flip.augmented_fingerprint
    assert evaluation.head_fingerprint != evaluation.augmented_fingerprint


def test_normalising_is_each_jobs_own_and_no_part_of_a_payload():
    bare, normalised = (
        compile_transform(T.CenterCrop(8)),
        compile_transform(T.Compose([T.CenterCrop(8), NORMALIZE])),
    )
    assert bare.augmented_fingerprint == normalised.augmented_fingerprint
    assert bare != normalised


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
        "from seneca import transforms as T; from seneca._pipeline.plan import compile_transform as c;"
        "p = c(T.Compose([T.Resize(256), T.CenterCrop((224, 192))]));"
        "print(p.head_fingerprint, p.augmented_fingerprint)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.split() == [str(pipeline.head_fingerprint), str(pipeline.augmented_fingerprint)]
    assert max(pipeline.head_fingerprint, pipeline.augmented_fingerprint) < 2**64


def test_fingerprints_are_what_they_were():
    """A change here orphans every payload kept by another version: raise PIXELS_VERSION with it."""
    assert f"{compile_transform(TRAIN).augmented_fingerprint:016x}" == "99b48244dd5a2869"


def test_equal_transforms_give_equal_pipelines_that_pickle():
    pipeline = compile_transform(TRAIN)
    assert pickle.loads(pickle.dumps(pipeline)) == pipeline == compile_transform(TRAIN)
    assert hash(pickle.loads(pickle.dumps(pipeline))) == hash(pipeline)


SIDE = st.integers(1, 300)
STEP = st.one_of(
    st.builds(T.Resize, SIDE),
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
