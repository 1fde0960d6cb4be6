"""Belady's rule: the bound on what a cache finds of given draws."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from papers.policies import POLICIES
from papers.policies.belady import found
from papers.simulate import Job, Scenario, run
from sizes import size

OWN_ORDERS = ["page-cache", "minio", "nopfs"]  # whose draws are those of their jobs' seeds
ONE_ORDER = ["coordinated", "tensorsocket", "joader"]  # who choose the order, and substitute nothing


def best(draws, room):
    """Whatever is evicted, or not kept at all: the most hits, by trying everything."""
    states = {frozenset(): 0}
    for sample in draws.tolist():
        reached: dict[frozenset, int] = {}
        for kept, hits in states.items():
            after = hits + (sample in kept)
            for count in range(room + 1):
                for choice in itertools.combinations(kept | {sample}, count):
                    reached[frozenset(choice)] = max(after, reached.get(frozenset(choice), 0))
        states = reached
    return max(states.values())


@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_best_that_there_is(seed):
    draws = np.random.default_rng(seed).integers(0, 6, 16).astype(np.uint32)
    assert found(draws, 2).sum() == best(draws, 2)


@st.composite
def scenarios(draw, subsets):
    n = draw(st.integers(8, 120))
    jobs = []
    for _ in range(draw(st.integers(1, 4))):
        own = None
        if subsets and draw(st.booleans()):
            first, last = sorted(draw(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))))
            own = np.arange(first, last + 1, dtype=np.uint32)
        jobs.append(
            Job(
                speed=draw(st.sampled_from([0.5, 1.0, 1.0, 3.0])),
                start=draw(st.sampled_from([0.0, 0.0, 0.1, 0.7])),
                epochs=draw(st.integers(1, 4)),
                jitter=draw(st.sampled_from([0.0, 0.3])),
                samples=own,
            )
        )
    return Scenario(jobs, n, batch=draw(st.integers(1, 9)), seed=draw(st.integers(0, 2**32)))


def hits(policy, scenario, memory):
    """The number of samples that needed no read."""
    outcome = run(scenario, policy(scenario, memory))
    return sum(outcome.served) - outcome.reads


@settings(deadline=None, max_examples=size(40, 400))
@given(scenario=scenarios(subsets=True), memory=st.integers(0, 130))
def test_no_policy_that_delivers_once_in_the_jobs_own_orders_beats_it(scenario, memory):
    bound = hits(POLICIES["belady"], scenario, memory)
    for name in OWN_ORDERS:
        assert hits(POLICIES[name], scenario, memory) <= bound, name


@settings(deadline=None, max_examples=size(40, 400))
@given(scenario=scenarios(subsets=False), memory=st.integers(0, 130))
def test_no_policy_that_chooses_an_order_without_substitution_beats_it_on_that_order(scenario, memory):
    """Besides the cache there is what is under way: JOADER's queues, and the others' window."""
    for name in ONE_ORDER:
        drawn = []

        class Notes(POLICIES[name]):
            def draw(self, job, wanted, drawn=drawn):
                batch = super().draw(job, wanted)
                if batch is not None:
                    drawn.append(batch.indices)
                return batch

        outcome_hits = hits(Notes, scenario, memory)
        under_way = 2 * scenario.batch * len(scenario.jobs)
        bound = found(np.concatenate(drawn), memory + under_way).sum()
        assert outcome_hits <= bound, name
