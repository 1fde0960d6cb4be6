"""Groups of transforms: all or none, one, or all in a random order; and torchvision's."""

import collections

import numpy as np
import pytest
from oracle import pictures as portable
from scipy.stats import binomtest, chisquare
from sizes import size
from torchvision_here import v1, v2

from seneca import transforms as T
from seneca._core.plan import Plan
from seneca.errors import PlanError
from seneca.transforms._pipeline import compile_transform
from seneca.transforms._recognise import recognise

BOTH = pytest.mark.parametrize("v", [pytest.param(v1, id="v1"), pytest.param(v2, id="v2")])
LUCK = 1e-3

pytestmark = pytest.mark.filterwarnings("ignore:.*ToTensor")

INVERT, BITS, MIRROR = T.RandomInvert(1), T.RandomPosterize(3, 1), T.RandomHorizontalFlip(1)
PICTURE = np.random.default_rng(1).integers(0, 256, (4, 5, 3), np.uint8)


@pytest.fixture(params=["native", "portable"])
def engine(request, monkeypatch):
    if request.param == "portable":
        portable.run_here(monkeypatch)


def results(transform, draws=300):
    """How often each result comes."""
    whole = T.Compose([T.CenterCrop((4, 5)), transform, T.PILToTensor()])
    return collections.Counter(whole(PICTURE).numpy().tobytes() for _ in range(draws))


def one(*transforms):
    (key,) = results(T.Compose(transforms), 1)
    return key


@pytest.mark.small(1)
def test_all_or_none_of_a_list_are_applied(engine):
    drawn = results(T.RandomApply([INVERT, MIRROR], 0.3))
    both = one(INVERT, MIRROR)
    assert drawn.keys() == {both, one()}
    assert binomtest(drawn[both], 300, 0.3).pvalue > LUCK


def test_one_of_several_is_applied_as_often_as_asked(engine):
    rounds = size(800, 2000)
    four = [INVERT, T.Compose([BITS, MIRROR]), T.Compose([]), MIRROR]
    drawn = results(T.RandomChoice(four, [1, 2, 3, 0]), rounds)
    wanted = {one(INVERT): 1 / 6, one(BITS, MIRROR): 2 / 6, one(): 3 / 6}
    assert drawn.keys() == wanted.keys()
    assert chisquare([drawn[key] for key in wanted], [rounds * p for p in wanted.values()]).pvalue > LUCK


def test_every_order_comes_equally_often(engine):
    dark, solar = T.ColorJitter(brightness=(0.5, 0.5)), T.RandomSolarize(100, 1)
    orders = [(dark, solar, INVERT), (dark, INVERT, solar), (solar, dark, INVERT)]
    orders += [(solar, INVERT, dark), (INVERT, dark, solar), (INVERT, solar, dark)]
    drawn = results(T.RandomOrder([dark, solar, INVERT]), size(300, 600))
    wanted = [one(*order) for order in orders]
    assert len(set(wanted)) == 6 and drawn.keys() == set(wanted)
    assert chisquare([drawn[key] for key in wanted]).pvalue > LUCK


@pytest.mark.small(1)
def test_groups_may_be_in_groups(engine):
    inner = T.RandomApply([T.RandomChoice([INVERT, BITS])], 0.5)
    drawn = results(T.RandomOrder([inner, MIRROR]))
    assert drawn.keys() == {one(INVERT, MIRROR), one(BITS, MIRROR), one(MIRROR)}
    assert binomtest(drawn[one(MIRROR)], 300, 0.5).pvalue > LUCK


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: T.RandomApply([]), ValueError, "transforms: there are none"),
        (lambda: T.RandomApply([INVERT], 2), ValueError, "p is a probability"),
        (lambda: T.RandomApply([len]), TypeError, "is not one of seneca.transforms"),
        (lambda: T.RandomApply([T.CenterCrop(3)]), ValueError, "CenterCrop changes the size"),
        (
            lambda: T.RandomOrder([T.ToTensor()]),
            ValueError,
            "ToTensor changes the size of a picture or works",
        ),
        (lambda: T.RandomChoice([INVERT], [1, 2]), ValueError, "p: a number for each transform"),
        (lambda: T.RandomChoice([INVERT, BITS], [1, -1]), ValueError, "p: numbers that are not negative"),
        (lambda: T.RandomChoice([INVERT, BITS], [0, 0]), ValueError, "p: numbers that are not negative"),
    ],
)
def test_what_makes_no_group_is_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_members_and_branches_count_among_the_transforms_that_a_list_may_have():
    eight = T.RandomApply([INVERT] * 14)
    assert compile_transform(T.Compose([T.CenterCrop(9), eight])).n_head == 1
    with pytest.raises(PlanError, match="17 transforms of pixels"):
        compile_transform(T.Compose([T.CenterCrop(9), eight, INVERT]))
    with pytest.raises(PlanError, match="18 transforms of pixels"):
        compile_transform(T.Compose([T.CenterCrop(9), T.RandomChoice([INVERT] * 8)]))


def test_groups_that_differ_inside_have_copies_of_their_own():
    groups = [T.RandomApply([INVERT]), T.RandomApply([BITS]), T.RandomApply([INVERT], 0.2), INVERT]
    groups += [T.RandomChoice([INVERT, BITS]), T.RandomChoice([BITS, INVERT]), T.RandomOrder([INVERT, BITS])]
    made = [compile_transform(T.Compose([T.CenterCrop(9), group])) for group in groups]
    assert len({pipeline.augmented_fingerprint for pipeline in made}) == len(groups)
    assert len({pipeline.head_fingerprint for pipeline in made}) == 1


@pytest.mark.parametrize(
    "op",
    [
        ("branch", {"p": 1.0, "steps": [("random_invert", {"p": 1.0})]}),
        ("random_apply", {"p": 1.0, "steps": []}),
        ("random_apply", {"p": 1.0, "steps": [("center_crop", {"size": (3, 3)})]}),
        ("random_choice", {"branches": [(0.5, [])]}),
        ("random_apply", {"p": 1.0, "span": 3}),
        ("random_invert", {"p": 1.0, "span": 1}),
    ],
)
def test_the_core_refuses_groups_that_are_none(op):
    with pytest.raises(PlanError, match=r"out of range|has no argument .span."):
        Plan([op, ("random_invert", {"p": 1.0})], 0, "uint8", True, (0, 0, 0), (1, 1, 1))


def assert_means(ours, theirs):
    found = recognise(theirs)
    assert not isinstance(found, str), found
    assert compile_transform(found) == compile_transform(ours)


@BOTH
def test_torchvisions_groups_are_recognised(v):
    jitter = v.RandomApply([v.ColorJitter(0.8, 0.8, 0.8, 0.2)], p=0.8)
    blur = v.RandomApply([v.Compose([v.GaussianBlur(23), v.RandomSolarize(128, p=0.2)])])
    choice = v.RandomChoice([v.RandomGrayscale(1), blur], p=[1, 3])
    theirs = [v.RandomResizedCrop(20), jitter, choice], [v.CenterCrop(9), v.RandomOrder([jitter, blur])]
    jitter = T.RandomApply([T.ColorJitter(0.8, 0.8, 0.8, 0.2)], 0.8)
    blur = T.RandomApply([T.GaussianBlur(23), T.RandomSolarize(128, 0.2)])
    choice = T.RandomChoice([T.RandomGrayscale(1), blur], [1, 3])
    ours = [T.RandomResizedCrop(20), jitter, choice], [T.CenterCrop(9), T.RandomOrder([jitter, blur])]
    for mine, other in zip(ours, theirs, strict=True):
        assert_means(T.Compose(mine), v.Compose([*other, v.ToTensor()]))
    flips = [v.PILToTensor(), v.CenterCrop(9), v.RandomApply([v.RandomHorizontalFlip(1)])]
    assert_means(T.Compose([T.CenterCrop(9), T.RandomApply([MIRROR]), T.PILToTensor()]), v.Compose(flips))


@BOTH
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda v: v.RandomApply([v.RandomCrop(9)]), "RandomApply: transforms: RandomCrop changes the size"),
        (lambda v: v.RandomApply([len]), "RandomApply has len, which is not one that the native path knows"),
        (lambda v: v.RandomApply([v.FiveCrop(9)]), "RandomApply has FiveCrop, which is not"),
        (lambda v: v.RandomChoice([v.PILToTensor()]), "RandomChoice has PILToTensor, which is not"),
        (
            lambda v: v.RandomOrder([T.RandomInvert()]),
            "RandomOrder has seneca.transforms._colour.RandomInvert, which",
        ),
    ],
)
def test_what_is_refused_of_groups_says_which_member(v, make, words):
    found = recognise(v.Compose([v.CenterCrop(20), make(v), v.ToTensor()]))
    assert isinstance(found, str) and words in found


@BOTH
def test_a_member_on_a_tensor_is_refused_as_it_is_alone(v):
    steps = [v.CenterCrop(20), v.PILToTensor(), v.RandomApply([v.ColorJitter(0.1)])]
    assert "ColorJitter gives different pixels on a uint8 tensor" in recognise(v.Compose(steps))
