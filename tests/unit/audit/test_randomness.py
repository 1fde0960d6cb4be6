"""What comes by chance, and what jobs on a small dataset do to each other's orders."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from papers.simulate import Engine, Job, Scenario, run
from papers.simulate.clock import AUGMENTED
from sizes import size

from seneca.audit.randomness import Orders

SAMPLES = 300


class Counting(Engine):
    """Notes what each job was given, how much of it as copies of others, and how much of it out of turn."""

    def __init__(self, scenario, **options):
        super().__init__(scenario, **options)
        self.given = defaultdict(list)  # by job and epoch
        self.copies, self.out_of_turn = defaultdict(int), defaultdict(int)
        self._epoch = {}

    def begin(self, job, epoch):
        self._epoch[job] = epoch
        super().begin(job, epoch)

    def draw(self, job, wanted):
        batch = super().draw(job, wanted)
        if batch is not None:
            self.given[job, self._epoch[job]].append(batch.indices)
            self.copies[job, self._epoch[job]] += int((batch.forms == AUGMENTED).sum())
            self.out_of_turn[job, self._epoch[job]] = self._members[job].out_of_turn
        return batch


@pytest.mark.small(1)
@pytest.mark.parametrize("counted", ["out_of_turn", "copies"])
def test_jobs_on_a_small_dataset_are_judged_by_what_came_out_of_turn(counted):
    """A fast job prepares early what a slow one lacks. Its orders are alike, with few copies or none."""
    least = 1.0
    for seed in range(size(20, 60)):
        rng = np.random.default_rng(seed)
        jobs = [
            Job(speed=speed, start=rng.uniform(0, 1), epochs=4, jitter=rng.choice([0, 0.5, 1]))
            for speed in (2, 1)
        ]
        scenario = Scenario(jobs, SAMPLES, batch=16, ahead=4, preparing=1, seed=seed)
        with Counting(scenario, stage=10) as engine:
            run(scenario, engine)
        for job in range(len(jobs)):
            orders = Orders(SAMPLES)
            for epoch in range(4):
                indices = np.concatenate(engine.given[job, epoch])
                places = (np.arange(SAMPLES) + 0.5) / SAMPLES
                out_of_turn = getattr(engine, counted)[job, epoch]
                least = min(least, *(test.p for test in orders.judge(epoch, indices, places, out_of_turn)))
    assert least > 1e-7 if counted == "out_of_turn" else least < 1e-9


def test_neighbours_by_chance_are_as_many_as_they_should_be():
    """Of permutations; the mean shows it, and what a test gives for it is no rarer than it is."""
    rng = np.random.default_rng(0)
    orders = Orders(300)
    places = (np.arange(300) + 0.5) / 300
    counts, least = [], 1.0
    for turn in range(400):
        for test in orders.judge(turn, rng.permutation(300), places):
            least = min(least, test.p)
            if "pairs are neighbours" in test.what:
                counts.append(int(test.what.split()[0]))
    assert len(counts) == 399 and abs(np.mean(counts) - 2 * (1 - 1 / 300)) < 4 * np.sqrt(2 / 399)
    assert least > 1e-6
