"""The answer, in a sentence and as JSON, and what could not be seen."""

import json

import pytest
from profiles import round_profile
from traced import TORCH, batches, epochs, steps

from seneca.cli.analyze import report
from seneca.cli.analyze.report import find, say
from seneca.cli.analyze.trace import Deep, Run


def found(*of_loaders, torch=(TORCH,), full=False, stolen=0.0):
    return find(Run(1, list(torch), list(of_loaders), full, stolen), cores=4)


def waits(wait=0.3, compute=0.1, count=11, made=None, **about):
    made = batches(10, 0.1, blocked=0.3) if made is None else made
    return epochs(steps([wait] * count, compute), made=made, **about)


def test_the_sentence_says_how_long_for_what_and_what_helps():
    assert found(waits()).sentence() == (
        "75% of the time the training step waits: 75% for storage. 4 workers instead of 1 would cut the wait "
        "from 75% to 0% of this time: 40 samples/s instead of 10."
    )


def test_where_a_core_lacks_it_is_said_first_that_others_have_it():
    busy = waits(made=batches(10, 0.1, delay=0.3))
    sentence = found(busy).sentence()
    assert sentence.startswith(
        "75% of the time the training step waits: 75% for a free core. Other processes take the cores: give "
        "this one more, or start fewer workers and threads in all."
    )
    assert "workers instead of" not in sentence
    busy.advice = "something general"
    assert "Something general" not in found(busy).sentence()


def prepares(**parts):
    one = waits(made=batches(10, 0.4))
    one.parts = parts
    return one


def test_the_functions_that_take_most_of_preparing_are_named(capsys):
    one = prepares(decoding=2.2, Lambda=7.1, collate_fn=0.3, Resize=0.4)
    answer = found(one)
    say(answer)
    assert "\n  Of preparing: Lambda 71%, decoding 22%.\n" in capsys.readouterr().err
    (loader,) = json.loads(answer.to_json(["python"], 0))["loaders"]
    assert list(loader["parts"].items()) == [
        ("Lambda", pytest.approx(0.71)),
        ("decoding", pytest.approx(0.22)),
        ("Resize", pytest.approx(0.04)),
        ("collate_fn", pytest.approx(0.03)),
    ]


def test_functions_are_not_named_where_nobody_waits_for_them():
    assert found(prepares()).loaders[0].of_preparing() == ""
    quick = waits(0.001, 1.0)
    stores = waits()
    for one in (quick, stores):
        one.parts = {"decoding": 1.0}
        assert found(one).loaders[0].of_preparing() == ""


def test_of_a_short_loop_it_is_said_how_short_it_was():
    (note,) = found(waits(0.006, 0.002)).notes
    assert note == (
        "more than 0.08 s of the loop over Rows of 40: "
        "shares of so short a time say little; let the script run longer"
    )
    assert found(waits(0.06, 0.05)).notes == []


def test_a_step_that_does_not_wait_is_the_limit():
    sentence = found(waits(0.001, 1.0)).sentence()
    assert sentence == "The training step is the limit: it waits 0% of the time for its samples."


def test_that_it_takes_long_to_get_batches_that_are_ready_is_said():
    assert found(waits(0.3, 0.7)).sentence() == (
        "30% of the time the training step waits: 30% for taking batches that are ready."
    )
    assert found(waits(0.06, 0.94)).sentence() == (
        "The training step is the limit: it waits 6% of the time for its samples."
    )


def test_the_answer_is_about_the_loader_that_took_most_of_the_time():
    answer = found(waits(count=5, dataset="Validation"), waits(count=50), waits(count=5, dataset="Test"))
    assert answer.loaders[0].name == "Rows of 40"
    assert "the step over Rows of 40 waits" in answer.sentence()
    assert "the training step waits" in found(waits(count=50)).sentence(), "one loader needs no name"
    assert json.loads(answer.to_json(["python"], 3))["bottleneck"] == "fetch"


def two_a_step(first_s, second_s):
    """Two loaders of which each step takes a batch: first of the one, then of the other."""
    one = epochs(steps([first_s] * 21, 1.0 - first_s), made=batches(10, 0.1, blocked=1.0))
    amid = steps([second_s] * 21, 1.0 - second_s, begin=100.0 + first_s)
    return one, epochs(amid, made=batches(10, 0.1, blocked=1.0), dataset="Unlabelled")


def test_what_the_step_waits_for_another_loader_too_is_said():
    answer = found(*two_a_step(0.3, 0.2))
    assert answer.sentence().startswith(
        "30% of the time the step over Rows of 40 waits: 30% for storage. "
        "It also waits 20% of the time for Unlabelled of 40."
    )
    content = json.loads(answer.to_json(["python"], 0))
    assert content["also_waits"] == {"Unlabelled of 40": pytest.approx(0.2)}
    assert json.loads(found(waits()).to_json(["python"], 0))["also_waits"] == {}


def test_of_loaders_that_each_step_uses_the_answer_is_about_the_one_that_is_waited_for():
    answer = found(*two_a_step(0.01, 0.5))
    assert answer.sentence().startswith("50% of the time the step over Unlabelled of 40 waits")
    assert answer.loaders[0].name == "Unlabelled of 40"


def test_a_loader_of_another_process_is_not_waited_for():
    one, other = two_a_step(0.3, 0.2)
    other.pid = 2
    assert found(one, other).also_waits == {}


def test_the_answer_is_about_the_rank_that_waits_most():
    quick, slow = waits(0.1, 1.0, rank=0), waits(0.6, 0.5, rank=1)
    slow.steps[0]["begin"] = quick.steps[0]["begin"]
    answer = found(quick, slow)
    assert answer.sentence().startswith("55% of the time the training step of rank 1 waits")
    assert answer.late == {0: 0.0, 1: 1.0}


def test_ranks_that_do_not_wait_for_each_other_are_not_late():
    """torchrun has started them, but the script joins them to no group."""
    ranks = waits(0.1, 1.0, rank=0), waits(0.6, 0.5, rank=1)
    for one in ranks:
        one.together = False
    answer = found(*ranks)
    assert answer.late == {}
    assert "the training step of rank 1 waits" in answer.sentence()


def test_the_steps_of_the_warm_up_do_not_count(monkeypatch):
    monkeypatch.setattr(report, "profile_of_run", lambda measured, name: round_profile())
    one = waits(0.3, 0.1)
    one.steps[0]["wall"][:5] = 20.0
    event = {"dataset": "Rows", "samples": 40, "dataset_number": 0, "warm_at": one.steps[0]["begin"][5]}
    answer = find(Run(1, [TORCH], [one, waits(dataset="Validation")], False, deep=Deep(event, [])), cores=4)
    assert (answer.loaders[0].rates.steps, answer.loaders[1].rates.steps) == (5, 10)
    assert answer.loaders[0].stalls.waited == pytest.approx(0.75)


def test_json_has_all_that_the_table_has():
    content = json.loads(found(waits()).to_json(["python", "train.py"], 3))
    assert (content["status"], content["command"]) == (3, ["python", "train.py"])
    shares = {"compute": 0.25, "fetch": 0.75, "prep": 0.0, "cores": 0.0, "handover": 0.0}
    assert content["shares"] == pytest.approx(shares)
    (one,) = content["loaders"]
    assert (one["dataset"], one["batch_size"], one["rates"]["steps"]) == ("Rows", 4, 10)
    assert one["remedies"][0]["what"] == "4 workers instead of 1"


def test_what_is_printed_goes_to_stderr(capsys):
    say(found(waits(), torch=[TORCH | {"missing": ["_MapDatasetFetcher.fetch"]}]))
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "seneca analyze: 75% of the time" in printed.err
    assert "Rows of 40" in printed.err and "blocked ms" in printed.err
    assert (
        "Not seen: torch 2.13 has no _MapDatasetFetcher.fetch: what workers do was not seen." in printed.err
    )


def test_a_name_is_no_markup(capsys):
    say(found(waits(dataset="[red]Rows[/red]")))
    assert "[red]Rows[/red] of 40" in capsys.readouterr().err


def test_a_loader_whose_batches_were_not_seen_has_no_rates(capsys):
    answer = found(waits(made=batches(0, 0.0)))
    say(answer)
    sentence, _, row, note = capsys.readouterr().err.strip().splitlines()
    assert sentence.endswith("75% of the time the training step waits; for what was not seen.")
    assert row.split()[-2:] == ["-", "-"]
    assert note.startswith("Not seen: the workers of Rows of 40: they have no hooks")
    content = json.loads(answer.to_json(["python"], 0))
    assert content["bottleneck"] is content["loaders"][0]["bottleneck"] is None


def test_a_loader_that_is_no_limit_needs_no_causes():
    answer = found(waits(0.001, 1.0, made=batches(0, 0.0)))
    assert answer.notes == []
    assert json.loads(answer.to_json(["python"], 0))["bottleneck"] == "compute"


def test_a_loader_of_one_batch_is_named_beside_the_others():
    answer = found(waits(), waits(count=1, batch_size=3))
    assert len(answer.loaders) == 1
    assert answer.notes == [
        "a loader of Rows of 40, 3 samples a batch, gave no second batch in an epoch: "
        "its steps were not timed"
    ]


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        ({"torch": [TORCH | {"schedstat": False}]}, "waiting for a core counts as storage"),
        ({"full": True}, "its end was not seen"),
        ({"stolen": 0.25}, "the hypervisor took 25% of the CPU time"),
    ],
)
def test_what_could_not_be_seen_is_said(seen, text):
    (note,) = found(waits(), **seen).notes
    assert text in note


@pytest.mark.parametrize(
    ("run", "text"),
    [
        (Run(0, [], [], False), "python -S, -E and -I"),
        (Run(1, [], [], False), "did not import torch.utils.data"),
        (Run(1, [TORCH], [], False), "iterated over no"),
        (Run(1, [TORCH], [epochs(steps([1.0], 1.0))], False), "let the script run longer"),
    ],
)
def test_why_there_is_nothing_is_said(run, text):
    answer = find(run, cores=4)
    assert answer.loaders == []
    assert text in answer.nothing


def test_senecas_advice_is_given_where_its_model_has_no_remedy():
    one = waits(made=batches(0, 0.0))
    one.advice = "more workers (num_workers) help"
    assert found(one).sentence().endswith(" More workers (num_workers) help.")
    one.remedies = [("two more threads", 0.4)]
    assert (
        found(one)
        .sentence()
        .endswith(
            " Two more threads would cut the wait from 75% to 35% of this time: 17 samples/s instead of 10."
        )
    )
