"""The parts of bench/ that are not speed: links, rows, ratios, the command line, how jobs end."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import bench_accuracy
import bench_decode
import bench_drop_in
import bench_files
import bench_jobs
import bench_telemetry
import compiled
import decode_peers
import job_loaders
import jobs
import links
import pytest
import scale_loop
import sharing
from sizes import size

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "bench"
MEASURED = ["--seconds", "0.2", "--warm", "0.05"]


def test_links_keep_the_class_and_take_turns(picture_folder, tmp_path):
    assert links.make_links(picture_folder, tmp_path / "links", 100) == 100
    made = sorted((tmp_path / "links").glob("*/*"))
    assert len(made) == 100
    targets: dict[Path, int] = {}
    for link in made:
        assert link.is_symlink() and link.resolve().is_file()
        assert link.resolve().parent.name == link.parent.name
        targets[link.resolve()] = targets.get(link.resolve(), 0) + 1
    assert len(targets) == 48 and set(targets.values()) == {2, 3}


def test_fewer_links_than_pictures(picture_folder, tmp_path):
    assert links.make_links(picture_folder, tmp_path / "links", 5) == 5
    assert len(list((tmp_path / "links").glob("*/*"))) == 5


def test_links_to_a_relative_folder_lead_somewhere(picture_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(picture_folder.parent)
    links.make_links(Path(picture_folder.name), tmp_path / "links", 3)
    assert all(link.resolve().is_file() for link in (tmp_path / "links").glob("*/*"))


def test_the_folder_of_links_is_gone_afterwards_and_the_pictures_are_not(picture_folder):
    with pytest.raises(KeyError), links.linked(picture_folder, 10) as (folder, samples):
        assert samples == 10 and folder.is_dir()
        raise KeyError
    assert not folder.exists()
    assert len(links.pictures_of(picture_folder)) == 48


def test_no_links_is_the_folder_itself(picture_folder):
    with links.linked(picture_folder, 0) as (folder, samples):
        assert (folder, samples) == (picture_folder, 48)
    assert picture_folder.is_dir()


def test_links_to_nothing_are_refused(tmp_path, picture_folder):
    with pytest.raises(FileNotFoundError, match="no pictures"):
        links.make_links(picture_folder / "class_0", tmp_path / "links", 1)
    with pytest.raises(FileNotFoundError, match="no such folder"):
        links.make_links(tmp_path / "nowhere", tmp_path / "links", 1)
    with pytest.raises(ValueError, match="at least 1"):
        links.make_links(picture_folder, tmp_path / "links", 0)


def test_links_to_chosen_pictures_only(picture_folder, tmp_path):
    chosen = links.pictures_of(picture_folder)[7:9]
    links.make_links(picture_folder, tmp_path / "links", 6, chosen)
    assert {link.resolve() for link in (tmp_path / "links").glob("*/*")} == set(chosen)


def test_a_row_adds_up_the_rates_of_its_jobs():
    results = [
        {"samples": 100, "elapsed_s": 2.0, "cpu_s": 0.1, "stats": {}},
        {"samples": 90, "elapsed_s": 3.0, "cpu_s": 0.28, "stats": {}},
    ]
    expected = {"loader": "torch", "jobs": 2, "per_s": 80.0, "cpu_ms": 2.0}
    assert bench_jobs.row_of("torch", results) == expected


def test_a_row_of_seneca_says_how_much_was_shared():
    result = {"samples": 100, "elapsed_s": 1.0, "cpu_s": 0.1, "stats": {"delivered": 200, "prepared": 110}}
    assert bench_jobs.row_of("seneca", [result] * 2)["prepared_per_delivered"] == 0.55


def test_ratios_are_to_torch_with_as_many_jobs():
    rows = [
        {"loader": "seneca", "jobs": 1, "per_s": 300.0},
        {"loader": "torch", "jobs": 1, "per_s": 200.0},
        {"loader": "torch", "jobs": 2, "per_s": 100.0},
        {"loader": "seneca", "jobs": 2, "per_s": 400.0},
        {"loader": "seneca", "jobs": 4, "per_s": 500.0},
    ]
    assert [row["vs_torch"] for row in bench_jobs.with_ratios(rows)] == [1.5, 1.0, 1.0, 4.0, None]


def test_the_best_round_of_each_row_is_kept():
    rows = [
        {"loader": name, "jobs": count, "per_s": per_s}
        for name, count, per_s in [("a", 1, 5.0), ("b", 1, 9.0), ("a", 1, 7.0), ("a", 2, 1.0), ("b", 1, 8.0)]
    ]
    assert [(row["loader"], row["jobs"], row["per_s"]) for row in bench_jobs.best_of(rows)] == [
        ("a", 1, 7.0),
        ("b", 1, 9.0),
        ("a", 2, 1.0),
    ]


def test_the_stage_is_a_twentieth_of_the_dataset_in_whole_pages(tmp_path):
    setup = job_loaders.Setup(tmp_path, samples=10_000, batch=64, workers=2, cache="x")
    assert setup.cache_bytes == 500 * 37 * 4096


def test_the_bound_of_jobs_that_start_apart():
    assert sharing.lower_bound(3) == pytest.approx(3.2 / 3)
    assert sharing.lower_bound(3, jobs=1) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "/nowhere"], "no such folder: /nowhere"),
        (["--jobs", "1,x"], "--jobs takes numbers"),
        (["--jobs", "0"], "at least 1"),
        (["--loaders", "seneca,tf"], "no loader tf"),
        (["--seconds", "0"], "nor --seconds 0"),
        (["--links", "-1"], "cannot be negative"),
    ],
)
def test_a_mistake_on_the_command_line_ends_with_status_2(arguments, message, capsys):
    with pytest.raises(SystemExit) as ended:
        bench_jobs.parse(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_the_plain_table_needs_no_rich(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    bench_jobs.show(
        [{"loader": "torch", "jobs": 4, "per_s": 1234.5, "cpu_ms": 2.345, "vs_torch": 1.0}], "title"
    )
    title, head, row = capsys.readouterr().out.splitlines()
    assert title == "title" and head.split()[:2] == ["loader", "jobs"]
    assert row.split() == ["torch", "4", "1,234", "1.00", "x", "2.35"]


def add(voice: jobs.Voice, number: int, more: int) -> int:
    voice.say("ready")
    voice.wait()
    return number + more


def stumble(voice: jobs.Voice, number: int) -> None:
    voice.say("ready")
    voice.wait()
    if number == 1:
        raise ValueError("what went wrong")
    if number == 2:
        os._exit(7)


def linger(voice: jobs.Voice, number: int) -> None:
    voice.say("ready", os.getpid())
    time.sleep(600)


def test_results_come_in_the_order_of_the_jobs():
    assert jobs.together(3, add, 10) == [10, 11, 12]


def test_a_job_that_fails_says_why():
    with pytest.raises(jobs.JobFailed, match=r"job 1 failed:(.|\n)*what went wrong"):
        jobs.together(2, stumble)


def test_a_job_that_dies_is_named_with_its_status():
    with jobs.started([(stumble, ())] * 3) as running:
        for job in running:
            job.hear("ready")
        running[2].go()
        with pytest.raises(jobs.JobFailed, match="job 2 ended with status 7"):
            running[2].hear("done")


def test_no_job_outlives_the_block():
    with pytest.raises(KeyError), jobs.started([(linger, ())] * 2) as running:
        pids = [job.hear("ready") for job in running]
        raise KeyError
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_it_opens_with_its_question():
    ran = subprocess.run(
        [sys.executable, BENCH / "bench_jobs.py", "--help"], capture_output=True, text=True, check=True
    )
    assert "How many samples a second" in ran.stdout


@pytest.fixture(scope="module")
def decode_loop(tmp_path_factory):
    """The program with the C loops, compiled in a third of the time."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SENECA_CFLAGS", "-O0")
        return compiled.compile_program("decode_loop", tmp_path_factory.mktemp("decode_loop"))


@pytest.mark.whole_size(shown_by="test_what_the_compiler_says_is_passed_on")
def test_every_step_from_a_jpeg_to_a_batch_is_measured(
    picture_folder, tmp_path, decode_loop, monkeypatch, capfd
):
    whole = links.pictures_of(picture_folder)[3].read_bytes()
    (picture_folder / "class_0" / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    (picture_folder / "class_0" / "text.jpg").write_text("no picture at all")
    monkeypatch.setattr(bench_decode, "compile_program", lambda name, folder: decode_loop)
    monkeypatch.setattr(bench_decode.signal, "signal", lambda *_: None)
    names = [*bench_decode.LOOPS, "seneca"]
    file = tmp_path / "decode.json"
    arguments = [*MEASURED, "--rounds", "1", "--links", "96", "--batch", "8"]
    arguments += ["--data", str(picture_folder), "--json", str(file), "--only", ",".join(names)]
    before = os.sched_getaffinity(0)
    assert bench_decode.main([*arguments, "--cores", "1"]) == 0
    assert os.sched_getaffinity(0) == before
    rows = json.loads(file.read_text())
    assert [(row["what"], row["cores"]) for row in rows] == [(name, 1) for name in names]
    assert all(row["per_s"] > 0 and row["cpu_ms"] > 0 and len(row["rounds"]) == 1 for row in rows)
    printed, complaints = capfd.readouterr()
    assert "48 pictures" in printed
    assert len(re.findall(r"left out: .*/(cut|text)\.jpg: ", complaints)) == 2


@pytest.mark.whole_size(shown_by="test_a_measurement_is_held_to_its_cores")
def test_all_cores_count_together(picture_folder, tmp_path, decode_loop, monkeypatch):
    monkeypatch.setattr(bench_decode, "compile_program", lambda name, folder: decode_loop)
    monkeypatch.setattr(bench_decode.signal, "signal", lambda *_: None)
    file = tmp_path / "decode.json"
    arguments = [*MEASURED, "--rounds", "2", "--links", "8", "--only", "fill"]
    assert bench_decode.main([*arguments, "--data", str(picture_folder), "--json", str(file)]) == 0
    rows = json.loads(file.read_text())
    assert [row["cores"] for row in rows] == sorted({1, len(os.sched_getaffinity(0))})
    assert all(len(row["rounds"]) == 2 for row in rows)


@pytest.mark.whole_size(shown_by="test_what_the_compiler_says_is_passed_on")
def test_others_are_given_where_the_c_loops_crop(picture_folder, tmp_path, decode_loop):
    from PIL import Image

    from seneca._core.plan import Plan

    crop = {"size": (40, 30), "scale": (0.08, 1.0), "ratio": (3 / 4, 4 / 3)}
    ops = [("random_resized_crop", crop), ("random_hflip", {"p": 0.5})]
    plan = Plan(ops, 0, "float32", False, (0, 0, 0), (1, 1, 1))
    (tmp_path / "files").write_text("".join(f"{path}\n" for path in links.pictures_of(picture_folder)))
    command = [decode_loop, "boxes", "2", tmp_path / "files"]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    (tmp_path / "boxes").write_text(said.stdout)
    crops = decode_peers.read_boxes(tmp_path / "boxes")
    assert len(crops) == 2 * 48
    for number, crop in enumerate(crops):
        with Image.open(crop.path) as image:
            (step,) = plan.route(image.height, image.width, seed=7, epoch=number // 48, index=number % 48)
        assert (crop.top, crop.left, crop.height, crop.width) == tuple(step["box"])
        assert crop.flip == step["flip"]
    assert len({crop.flip for crop in crops}) == 2


def test_the_loops_are_compiled_as_the_core_is():
    tree = ast.parse((ROOT / "setup.py").read_text())
    (flags,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "CFLAGS"
    )
    assert list(compiled.CFLAGS) == [flag for flag in flags if not flag.startswith("-W")]


def test_a_missing_compiler_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler -m64")
    with pytest.raises(compiled.CompileError, match=r"no C compiler \(no-such-compiler\)"):
        compiled.compile_program("decode_loop", tmp_path)


def test_what_the_compiler_says_is_passed_on(tmp_path, monkeypatch):
    monkeypatch.setenv("SENECA_CFLAGS", "-no-such-option")
    with pytest.raises(compiled.CompileError, match="no-such-option"):
        compiled.compile_program("decode_loop", tmp_path)


def test_a_row_shows_the_median_of_its_rounds():
    rounds = [
        {"per_s": per_s, "cpu_ms": cpu_ms} for per_s, cpu_ms in [(90.0, 3.0), (100.0, 1.0), (40.0, 2.0)]
    ]
    assert bench_decode.median_row("exact", 2, rounds) == {
        "what": "exact",
        "cores": 2,
        "per_s": 90.0,
        "cpu_ms": 2.0,
        "spread": 0.667,
        "rounds": [90.0, 100.0, 40.0],
    }


def test_ratios_are_to_the_limit_or_to_memcpy_on_as_many_cores():
    per_s = {
        ("limit", 1): 100.0,
        ("exact", 1): 90.0,
        ("tf", 1): 30.0,
        ("decoded", 1): 400.0,
        ("copy-decoded", 1): 800.0,
        ("limit", 2): 200.0,
        ("exact", 2): 160.0,
        ("augmented", 2): 900.0,
    }
    rows = [
        {"what": what, "cores": cores, "per_s": value, "spread": 0.0, "cpu_ms": value**-2}
        for (what, cores), value in per_s.items()
    ]
    ratios = [tuple(line[4:7]) for line in bench_decode.lines_of(rows)]
    assert ratios == [
        *[("", "", ""), ("0.900", "0.810", ""), ("0.300", "0.090", ""), ("", "", "0.500"), ("", "", "")],
        *[("", "", ""), ("0.800", "0.640", ""), ("", "", "")],
    ]
    assert bench_decode.duels(rows, 1) == (["against", "exact"], [["tf", "3.00 x"]])


def test_pictures_are_chosen_from_all_over_the_folder_and_alike_each_time(picture_folder):
    chosen = bench_decode.choose(picture_folder, 16)
    assert len(set(chosen)) == 16 and chosen == bench_decode.choose(picture_folder, 16)
    assert {path.parent.name for path in chosen} == {f"class_{label}" for label in range(4)}
    assert sorted(bench_decode.choose(picture_folder, 1000)) == links.pictures_of(picture_folder)
    assert bench_decode.choose(picture_folder, 1000) != links.pictures_of(picture_folder)


def test_a_folder_without_jpegs_is_named(tmp_path):
    (tmp_path / "class_0").mkdir()
    (tmp_path / "class_0" / "a.png").write_bytes(b"a")
    with pytest.raises(FileNotFoundError, match=f"no JPEGs in the class folders of {tmp_path}"):
        bench_decode.choose(tmp_path, 10)


def test_a_peer_says_what_it_lacks():
    lacking = decode_peers.Peer("", dict, ("os", "no_such_module"), ())
    assert lacking.missing() == "no_such_module"
    assert decode_peers.Peer("", dict, ("os",), ()).missing() is None


def test_a_peer_that_is_not_installed_is_left_out(monkeypatch, capsys):
    answers = {name: {"missing": None, "versions": [f"{name} 1"]} for name in decode_peers.PEERS}
    answers["dali"]["missing"] = "nvidia"
    monkeypatch.setattr(bench_decode, "last_line", lambda command, cpus: answers)
    options = bench_decode.parse([])
    assert bench_decode.present(["limit", "dali", "tf"], options) == ["limit", "tf"]
    printed = capsys.readouterr().out
    assert "dali is left out: it needs nvidia" in printed and "(tf 1)" in printed


def test_a_measurement_that_fails_says_its_last_words():
    command = [sys.executable, "-c", "print('{}'); raise ValueError('out of paint')"]
    with pytest.raises(bench_decode.MeasurementFailed, match="ValueError: out of paint"):
        bench_decode.last_line(command, sorted(os.sched_getaffinity(0)))


def test_a_measurement_is_held_to_its_cores():
    one = min(os.sched_getaffinity(0))
    command = [sys.executable, "-c", "import os; print('noise'); print(sorted(os.sched_getaffinity(0)))"]
    assert bench_decode.last_line(command, [one]) == [one]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "/nowhere"], "no such folder: /nowhere"),
        (["--only", "limit,best"], "no row best"),
        (["--cores", "one"], "--cores takes all"),
        (["--cores", "0"], "this process may use 1 to"),
        (["--seconds", "0"], "--seconds must be positive"),
        (["--rounds", "0"], "at least 1"),
        (["--peer-python", "/nowhere/python"], "no such interpreter: /nowhere/python"),
    ],
)
def test_a_mistake_in_measuring_the_decoder_ends_with_status_2(arguments, message, capsys):
    with pytest.raises(SystemExit) as ended:
        bench_decode.parse(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("command", [["bench/bench_decode.py"], ["-m", "bench.bench_decode"]])
def test_it_runs_as_a_file_and_as_a_module(command):
    ran = subprocess.run(
        [sys.executable, *command, "--help"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert "How fast is the way from a JPEG" in ran.stdout


@pytest.mark.whole_size(shown_by="test_a_measurement_is_held_to_its_cores")
def test_every_stage_of_the_c_program_is_measured(tmp_path):
    file = tmp_path / "micro.json"
    command = [sys.executable, "-m", "pytest", BENCH / "micro", "-q", "-rs", "-p", "no:cacheprovider"]
    command += ["--rounds", "2", "--round-ms", "0.2", f"--benchmark-json={file}", f"--rootdir={ROOT}"]
    command += ["--benchmark-max-time=0.02", "--benchmark-min-rounds=2"]  # of those that are in Python
    command += size(["-k", "not 000000"], [])  # without datasets of millions
    # pytest-benchmark measures nothing where it finds itself beside other workers of pytest-xdist.
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    ran = subprocess.run(command, env=alone, capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout
    of_stages = [each for each in json.loads(file.read_text())["benchmarks"] if "stage" in each["extra_info"]]
    measured = {each["extra_info"]["stage"]: each for each in of_stages}
    assert all(each["stats"]["min"] > 0 and each["stats"]["rounds"] == 2 for each in measured.values())
    skipped = set(re.findall(r"the core has no stage ([\w-]+)", ran.stdout))
    stages = set(re.findall(r'^    \{"([\w-]+)", ', (BENCH / "native" / "stage_loop.c").read_text(), re.M))
    assert {"probe", "decode", "write-float32-chw", "philox", "draw-shared", "commit"} <= set(measured)
    assert measured.keys() | skipped == stages and not measured.keys() & skipped


def test_benchmarks_of_stages_are_no_tests():
    settings = (ROOT / "pyproject.toml").read_text()
    assert re.search(r'^testpaths = \["tests"\]$', settings, re.M)


def test_the_drop_in_benchmark_compares_the_same_samples(picture_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(bench_drop_in, "PAIR_LINKS", 48)
    monkeypatch.setattr(bench_drop_in, "ROWS", 600)
    bench_drop_in.make_voc(picture_folder, tmp_path / "pairs")
    for ours, theirs in bench_drop_in.COMPARED.items():
        if ours.startswith(bench_drop_in.TIMM) and importlib.util.find_spec("timm") is None:
            continue
        folder = tmp_path / "pairs" if bench_drop_in.kind_of(ours) == "pairs" else picture_folder
        loaders = [bench_drop_in.loader_of(row, str(folder)) for row in (ours, theirs)]
        assert len(loaders[0]) == len(loaders[1])
        grade = "opaque" if bench_drop_in.is_opaque(ours) else "native"
        assert loaders[0].explain().startswith(f"{grade}: ")


def test_accuracy_is_compared_seed_by_seed():
    rows = [
        {"loader": loader, "seed": seed, "job": job, "accuracy": 0.5 + 0.1 * seed + gain + 0.01 * job}
        for loader, gain in (("torch", 0.0), ("seneca", 0.02))
        for seed in range(3)
        for job in range(2)
    ]
    summary = bench_accuracy.summary_of(rows)
    assert summary["seneca"]["difference"] == pytest.approx(0.02)
    assert summary["seneca"]["difference_error"] == pytest.approx(0.0, abs=1e-12)
    assert "seneca apart" not in summary
    assert summary["torch"]["accuracy"] == pytest.approx(0.605)
    assert summary["seneca"]["error"] == pytest.approx(0.1 / 3**0.5)
    assert bench_accuracy.mean_and_error([0.5])[0] == 0.5


@pytest.mark.whole_size(shown_by="test_a_job_that_dies_is_named_with_its_status")
def test_scale_is_measured_in_processes_that_leave_nothing_behind(tmp_path):
    with scale_loop.ScaleJobs(scale_loop.compile_loop(tmp_path), 5_000, 2, 2_000, 64) as jobs:
        assert len(jobs.open(0)) == 2
        jobs.warm(10)
        for took in (jobs.draw(20, 0.0), jobs.draw(5, 0.001), jobs.draw_in_turn(3)):
            assert took.shape[1] == 2 and (took[:, 1] <= took[:, 0]).all() and (took > 0).all()
        assert len(jobs.close()) == 2
        assert jobs.reserved_bytes > 2_000 * 4096
    assert not list(Path("/dev/shm").glob("seneca-*-bench-scale-*"))


def test_a_benchmark_of_files_ends_where_its_job_fails(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["bench_files.py", "--folders", "0"])
    assert bench_files.main() == 1 and "job 0 failed" in capsys.readouterr().err


def test_windows_that_are_too_short_to_compare_are_reported(picture_folder, capsys):
    arguments = ["--data", str(picture_folder), "--links", "256"]
    assert bench_telemetry.main([*arguments, "--jobs", "1", "--rounds", "3", "--window", "0.0005"]) == 1
    assert capsys.readouterr().err == "too few whole rounds with --jobs 1; give a longer --window\n"
