"""kept_caches: DLCache's workload, and the rules by which caches are given up."""

import random

import numpy as np
import pytest
from papers import kept_caches
from papers.kept_caches import ARCHIVES, of_archives, of_caches, prepared_s, rules, schedules
from papers.policies.clrfu import CLRFU, LRFU
from papers.setup import SEED
from sizes import size

COSTS = {"a": 1.0, "b": 5.0, "c": 3.0}
SIZES = {"a": 1.0, "b": 1.0, "c": 1.0}


def one_by_one(letters):
    return [[(letter, 1)] for letter in letters]


def cost_of(name, letters, room=2.0, gap_s=600.0):
    rule = rules(one_by_one(letters), SIZES, COSTS, gap_s, 0)[name]
    return prepared_s(one_by_one(letters), rule, SIZES, room)


def test_the_workload_is_that_of_the_papers_artifact():
    gigabytes = [round(sum(size for size, _ in each) / 1000) for each in ARCHIVES.values()]
    assert gigabytes == [146, 89, 7, 98]
    made = list(schedules(1, 0))
    assert len(made) == 240 and {room for room, _ in made} == {160e3, 180e3, 200e3, 220e3, 240e3}
    _, jobs = made[-1]
    days = [part for name, part, _ in jobs if name == "IDS2018"]
    assert days == [range(0, 8), range(1, 9), range(2, 10)], "days come in their order"
    together = [times for name, _, times in jobs if name == "LibriSpeech"]
    assert together == [7] * 7 and sum(name == "ImageNet" for name, *_ in jobs) == 5
    schedule, sizes, costs = of_archives(jobs)
    assert len(sizes) == len(costs) == sum(map(len, ARCHIVES.values())) and len(schedule) == len(jobs)
    assert sum(costs.values()) == pytest.approx(4067, abs=2), "what the artifact's results begin with"
    assert len(of_caches(jobs)[1]) == 3 + len(days)


def test_each_rule_gives_up_what_its_name_says():
    assert cost_of("LRU", "abcab") == 1 + 5 + 3 + 1 + 5
    assert cost_of("LFU", "abaca") == 1 + 5 + 3, "a was used most often"
    assert cost_of("LFU", "abca") == 1 + 5 + 3 + 1, "among equals the one that came first goes"
    assert cost_of("Greedy", "bcacb") == 5 + 3 + 1 + 3, "b costs most"
    assert cost_of("CLRFU", "abcb") == 1 + 5 + 3, "a is older than b"
    assert cost_of("Belady", "abcab") == 1 + 5 + 3 + 1, "of a and b, b saves more until its next use"
    assert cost_of("seneca", "abcb") == 1 + 5 + 3
    assert cost_of("seneca", "bacb", gap_s=1) == 5 + 1 + 3, "b costs five times as much, and is as young"


def test_among_equals_chance_may_decide():
    schedule = one_by_one("abca")
    found = {
        prepared_s(schedule, rules(schedule, SIZES, COSTS, 600.0, 0)["LFU"], SIZES, 2.0, random.Random(seed))
        for seed in range(20)
    }
    assert found == {1 + 5 + 3, 1 + 5 + 3 + 1}, "b goes, or a"


def test_among_equals_in_lrfu_the_cheaper_one_goes():
    for rule, first in ((LRFU(COSTS), (1.0,)), (CLRFU(COSTS), (1.0, 5.0))):
        rule.use("b", 0)
        rule.use("b", 2)
        assert rule.score("b", 2)[0] == 1.5 and rule.score("b", 4)[0] == 0.75
        rule.use("b", 4, times=3)
        assert rule.score("b", 4) == (3.75, *first[1:])


def test_clrfu_costs_at_most_what_lrfu_costs_and_knowing_all_costs_least(monkeypatch):
    """DLCache, Figure 7."""
    monkeypatch.setattr(kept_caches, "CAPACITIES_GB", size((240,), kept_caches.CAPACITIES_GB))
    made = kept_caches.rows(orders=1, seed=3)
    archives, caches = ({name: row["peers"][name] for name in row["peers"]} for row in (made[0], made[3]))
    assert archives["CLRFU"] < archives["LRFU"] and caches["CLRFU"] <= caches["LRFU"]
    for values, ours in ((archives, made[0]["ours"]), (caches, made[3]["ours"])):
        assert values["Belady"] < min([ours, *(v for name, v in values.items() if name != "Belady")])
        assert ours < values["LRU"]
    assert made[0]["ours"] < archives["CLRFU"]


def test_it_prints_its_seed_and_a_table_of_each_kind(capsys, monkeypatch):
    monkeypatch.setattr(kept_caches, "CAPACITIES_GB", (160,))
    kept_caches.main(["--orders", "1", "--seed", "7"])
    printed = capsys.readouterr().out
    assert "seed 7" in printed and "Kept: archives" in printed and "Kept: caches" in printed
    assert all(name in printed for name in ("seneca", "CLRFU", "Belady"))
    assert np.isfinite([row["ours"] for row in kept_caches.rows(orders=1, seed=7)]).all()


def test_the_page_has_its_numbers(monkeypatch):
    monkeypatch.setattr(kept_caches, "CAPACITIES_GB", (240,))
    result = kept_caches.run(None, orders=1)
    assert {row.name for row in result.rows} >= {"Seneca", "CLRFU", "LRFU", "Belady"}
    assert len(result.measures()) == 6 and len(result.goals) == 2
    assert str(SEED) in result.conditions[1]


def test_what_cannot_be_is_refused(capsys):
    for wrong in (["--orders", "0"], ["--gap", "0"]):
        with pytest.raises(SystemExit):
            kept_caches.main(wrong)
        assert "--orders is at least 1, and --gap above 0" in capsys.readouterr().err
