"""Orders are as random with sharing as without: the real draw in many simulated runs, against chance.

Jobs share one cache under the virtual clock of ``bench/papers/simulate``. A run gives each job's order of
each epoch, and orders are asked questions: is a sample's place uniform, do labels come in clusters, do
samples that others have too come earlier, does an order depend on that of the epoch before, are two
neighbours neighbours again? Each answer is a number, held against that of thousands of permutations that
NumPy shuffled, which makes it a p-value. Over 100 runs of other
seeds (30 at the small size) p-values are uniform (Kolmogorov and Smirnov) if nothing is wrong; the last
tests plant what may go wrong, and see it found.

One dependence is left out, because sharing is made of it: a job that is half an epoch behind another
shares all that both take meanwhile, so what it takes in the first half of an epoch is what the other takes
in the second half of its own, and both take it in that half again. Within the halves orders are asked.

SENECA_TEST_SEED=7 gives other runs.
"""

import os
from itertools import pairwise

import numpy as np
import pytest
from engine import AUGMENTED
from papers.simulate import Job, Scenario, simulate
from scipy.stats import kstest
from sizes import size

from seneca._core.member import Member

SEED = int(os.environ.get("SENECA_TEST_SEED") or 0)
RUNS = size(30, 100)
PLANTED = 100  # orders of chance with a plant in them
PERMUTATIONS = size(2000, 4000)
LEAST_P = 0.001
BATCH = 8
LABELS = 5  # sorted, as a folder's are: a fifth of the indices each
BINS = 8
N = 240
EPOCHS = 4
STAGE = 2 * 2 * 3 * BATCH  # twice what two jobs have in flight


def table_of(rows, columns, n_rows, n_columns):
    """How far (chi-square) rows and columns are from independent, for each order of ``(orders, samples)``."""
    count, n = rows.shape
    cell = rows * n_columns + columns + np.arange(count)[:, None] * n_rows * n_columns
    counts = np.bincount(cell.ravel(), minlength=count * n_rows * n_columns)
    counts = counts.reshape(count, n_rows, n_columns).astype(float)
    expected = counts.sum(2, keepdims=True) * counts.sum(1, keepdims=True) / n
    return ((counts - expected) ** 2 / np.maximum(expected, 1e-9)).sum((1, 2))


def places_of(orders):
    """The inverse: where each sample came."""
    return np.argsort(orders, -1)


def binned(things):
    return things * BINS // things.shape[-1]


# Answers about one order: of ``(orders, samples)``, a number an order, the larger the less random.


def place_and_index(orders):
    """Whether what has a low index comes earlier, or later, or in the middle."""
    return table_of(
        binned(orders), np.broadcast_to(binned(np.arange(orders.shape[1])), orders.shape), BINS, BINS
    )


def label_balance(orders):
    """Whether a batch has more of one label than chance gives it."""
    n = orders.shape[1]
    batches = np.broadcast_to(np.arange(n) // BATCH, orders.shape)
    return table_of(orders * LABELS // n, batches, LABELS, -(-n // BATCH))


def halves_apart(orders):
    """Whether the upper half of the indices comes earlier or later than the lower one."""
    places, half = places_of(orders), orders.shape[1] // 2
    return np.abs(places[:, half:].sum(1) - places[:, :half].sum(1)).astype(float)


ABOUT_ONE = [place_and_index, label_balance, halves_apart]

# Answers about two orders, one after the other: of ``(pairs, 2, samples)``.


def place_before(orders):
    """Whether places depend on those of the epoch before, in whatever way."""
    places = binned(places_of(orders))
    return table_of(places[:, 0], places[:, 1], BINS, BINS)


def rank_correlation(orders):
    """Whether they are those again, or the reverse."""
    places = places_of(orders) - (orders.shape[-1] - 1) / 2
    return np.abs((places[:, 0] * places[:, 1]).sum(1))


def neighbours_again(orders):
    """How many who follow each other in one do so in the other, whichever comes first."""
    low, high = np.minimum(orders[..., :-1], orders[..., 1:]), np.maximum(orders[..., :-1], orders[..., 1:])
    pairs = (low * orders.shape[-1] + high).reshape(len(orders), -1)
    pairs.sort(-1)
    return (pairs[:, 1:] == pairs[:, :-1]).sum(1).astype(float)


ABOUT_TWO = [place_before, rank_correlation, neighbours_again]


class Chance:
    """What orders of chance answer, for one number of samples."""

    def __init__(self, answers, shape, count=PERMUTATIONS):
        self.rng = np.random.default_rng([SEED, *shape])
        orders = self.rng.permuted(np.broadcast_to(np.arange(shape[-1]), (count, *shape)), axis=-1)
        self.answers = {answer: np.sort(answer(orders)) for answer in answers}

    def p_values(self, answer, orders):
        """How likely chance is to answer so much or more; among equal answers at random."""
        chance, given = self.answers[answer], answer(orders)
        less, not_more = (np.searchsorted(chance, given, side) for side in ("left", "right"))
        more = len(chance) - not_more
        return (more + self.rng.random(len(given)) * (not_more - less + 1)) / (len(chance) + 1)

    def judge(self, orders):
        """The p-value of the p-values of all orders, for each answer by name."""
        return {
            answer.__name__: float(kstest(self.p_values(answer, orders), "uniform").pvalue)
            for answer in self.answers
        }


def assert_random(found):
    assert min(found.values()) > LEAST_P, found


def own_of(job, n_samples):
    return np.arange(n_samples) if job.samples is None else job.samples


def runs_of(jobs, n_samples, *, epochs=EPOCHS, stage=STAGE, runs=RUNS):
    """Each job's orders in many runs, arrays ``(runs, epochs, samples)``; the share that copies served.

    A sample is its place in the job's own list. Each epoch has each once.
    """
    orders = [np.zeros((runs, epochs, len(own_of(job, n_samples))), np.int64) for job in jobs]
    copies = 0
    for run in range(runs):
        given = [[[] for _ in range(epochs)] for _ in jobs]

        def delivered(job, epoch, indices, time, given=given):
            given[job][epoch].append(indices)

        scenario = Scenario(jobs, n_samples, batch=BATCH, seed=SEED * 1000 + run)
        copies += simulate(scenario, stage=stage, delivered=delivered).served[AUGMENTED]
        for k, job in enumerate(jobs):
            lists = [np.concatenate(epoch) for epoch in given[k]]
            orders[k][run] = np.searchsorted(own_of(job, n_samples), lists)
    for each in orders:
        assert (np.sort(each, -1) == np.arange(each.shape[-1])).all()
    return orders, copies / sum(each.size for each in orders)


def of_two_epochs(orders, places, count):
    """Of samples that came at these places in an epoch and in the next, ``count`` in their two orders."""
    first, end = places
    pairs = []
    for run in orders:
        for before, after in pairwise(run):
            both = np.intersect1d(before[first:end], after[first:end])
            if len(both) >= count:
                chosen = both[:: len(both) // count][:count]
                pairs.append(
                    [np.searchsorted(chosen, order[np.isin(order, chosen)]) for order in (before, after)]
                )
    return np.array(pairs)


@pytest.fixture(scope="module")
def one():
    return Chance(ABOUT_ONE, (N,))


@pytest.fixture(scope="module")
def halves():
    """Two jobs, one half an epoch behind the other: their orders, and what copies served of them."""
    jobs = [Job(epochs=EPOCHS), Job(epochs=EPOCHS, start=0.5)]
    return runs_of(jobs, N)


def test_a_sample_that_is_shared_has_a_uniform_place(one, halves):
    orders, served = halves
    assert served > 0.2, "they share"
    for job in orders:
        for epoch in (1, EPOCHS - 1):
            assert_random(one.judge(job[:, epoch]))


@pytest.mark.whole_size(shown_by="test_a_sample_that_is_shared_has_a_uniform_place")
def test_so_it_has_for_jobs_of_unequal_speed(one):
    orders, served = runs_of([Job(epochs=EPOCHS), Job(0.7, epochs=EPOCHS)], N)
    assert served > 0.2, "they share"
    for job in orders:
        assert_random(one.judge(job[:, EPOCHS - 1]))


def test_jobs_whose_subsets_overlap_by_half_do_not_see_what_they_share_first(one):
    jobs = [
        Job(epochs=EPOCHS, samples=np.arange(N, dtype=np.uint32)),  # its upper half is shared
        Job(epochs=EPOCHS, start=0.11, samples=np.arange(N // 2, N // 2 + N, dtype=np.uint32)),  # its lower
    ]
    orders, served = runs_of(jobs, N + N // 2)
    assert served > 0.1, "they share"
    for job in orders:
        for epoch in (0, EPOCHS - 1):
            assert_random(one.judge(job[:, epoch]))


def test_the_next_order_does_not_depend_on_this_one(halves):
    two = Chance(ABOUT_TWO, (2, 40))
    for job in halves[0]:
        for half in ((0, N // 2 - STAGE // 4), (N // 2 + STAGE // 4, N)):
            pairs = of_two_epochs(job, half, 40)
            assert len(pairs) > RUNS
            assert_random(two.judge(pairs))


def test_another_job_does_not_get_samples_in_the_order_that_one_took_them(halves):
    first, second = halves[0]
    together = sum(
        neighbours_again(np.stack(meanwhile, 2).reshape(-1, 2, N)).mean() / (N - 1)
        for meanwhile in ((first, second), (first[:, 1:], second[:, :-1]))
    )
    assert together < 0.5, "a copy is chosen among those of some batches"


@pytest.mark.small(1)
@pytest.mark.parametrize("n", [N, 70_000], ids=["shuffled", "keyed"])
def test_alone_orders_are_those_of_chance(one, n):
    orders = np.zeros((RUNS, 2, N), np.int64)
    for run in range(RUNS):
        for epoch in range(2):
            order = alone(n, SEED * 1000 + run, epoch)
            orders[run, epoch] = order[order < N]  # of many, those whose indices are near each other
    assert_random(one.judge(orders[:, 1]))
    assert_random(Chance(ABOUT_TWO, (2, N)).judge(orders))


def alone(n, seed, epoch):
    """The order of a member that shares with nobody."""
    member = Member(
        None, n_samples=n, samples=None, places=n, seed=seed, epoch=epoch, fixed=False, decoded=1,
        augmented=2, height=8, width=8, in_flight=32, shares=False, keeps=False, substitutes=True,
    )  # fmt: skip
    try:
        return member.draw(n)[0]["sample"]
    finally:
        member.close()


# What may go wrong, planted in orders of chance.


def chance_orders(*shape):
    rng = np.random.default_rng([SEED, 99])
    return rng.permuted(np.broadcast_to(np.arange(N), (PLANTED, *shape, N)), axis=-1), rng


def sorted_by(keys):
    return np.argsort(keys, -1)


def low_first(rng):
    """A substitute is the lowest of two."""
    return sorted_by(rng.random((PLANTED, N)) + 0.15 * np.arange(N) / N)


def shared_first(rng):
    """The upper half comes at 0.48 in the mean, not at 0.5."""
    return sorted_by(rng.random((PLANTED, N)) - 0.08 * (np.arange(N) >= N // 2))


def in_clusters(rng):
    """Of two that follow each other one in five has the label of the other."""
    return sorted_by(rng.random((PLANTED, N)) + 0.35 * rng.random((PLANTED, LABELS)).repeat(N // LABELS, 1))


@pytest.mark.parametrize(
    ("plant", "finds"),
    [(low_first, place_and_index), (shared_first, halves_apart), (in_clusters, label_balance)],
)
def test_a_bias_of_one_order_is_found(one, plant, finds):
    orders = plant(np.random.default_rng([SEED, 5]))
    assert one.judge(orders)[finds.__name__] < LEAST_P


def again_a_little(rng, orders):
    """A tenth of the place is that of the epoch before."""
    orders[:, 1] = sorted_by(rng.random((PLANTED, N)) + 0.2 * places_of(orders[:, 0]) / N)


def middle_again(rng, orders):
    """What was in the middle is in the middle, which no rank correlation sees."""
    middle = np.abs(places_of(orders[:, 0]) / N - 0.5) < 0.25
    anywhere, there = rng.random((2, PLANTED, N))
    orders[:, 1] = sorted_by(np.where(middle, 0.15 + 0.7 * there, anywhere))


def pairs_again(rng, orders):
    """One pair in fifty stays together."""
    for before, after in orders:
        for at in range(0, N - 1, 50):
            where = int(np.flatnonzero(after == before[at])[0])
            rest = np.delete(after, np.flatnonzero(after == before[at + 1])[0])
            where -= int(np.flatnonzero(after == before[at + 1])[0] < where)
            after[:] = np.insert(rest, where + 1, before[at + 1])


@pytest.mark.parametrize(
    ("plant", "finds"),
    [(again_a_little, rank_correlation), (middle_again, place_before), (pairs_again, neighbours_again)],
)
def test_a_dependence_of_two_orders_is_found(plant, finds):
    orders, rng = chance_orders(2)
    plant(rng, orders)
    assert Chance(ABOUT_TWO, (2, N)).judge(orders)[finds.__name__] < LEAST_P


@pytest.mark.whole_size(shown_by="test_a_sample_that_is_shared_has_a_uniform_place")
@pytest.mark.slow
def test_four_jobs_of_many_epochs_see_random_orders(one):
    epochs, n = 7, N
    jobs = [Job(speed, start=k * 0.3, epochs=epochs) for k, speed in enumerate((1, 1, 1.3, 0.6))]
    orders, served = runs_of(jobs, n, epochs=epochs, stage=2 * 4 * 3 * BATCH)
    assert served > 0.4, "they share"
    for job in orders:
        for epoch in range(0, epochs, 3):
            assert_random(one.judge(job[:, epoch]))
