"""Carrying out a study: what is done stays done, what fails loses nothing else, and processes are bounded."""

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from labeltree.cli.main import main
from labeltree.studies import execute as execute_module
from labeltree.studies import study_processes as worker_module
from labeltree.studies.baselines import baseline_digests, measure_baselines
from labeltree.studies.execute import execute, rewrite
from labeltree.studies.run import Task, run_tasks_of
from labeltree.studies.study_file import read_study
from labeltree.studies.study_plan import StudyError
from labeltree.studies.study_results import Book, list_study
from labeltree.training.callbacks.stop_after_step import TrainingInterrupted

pytestmark = pytest.mark.slow


def write(path: Path, **changes: Any) -> Path:
    content: dict[str, Any] = {
        "title": "Fast",
        "shared": {"data": "nowhere", "epochs": 1},
        "baselines": [],
        "seeds": [0, 1],
        "trial_seed": 9,
        "select": "val_ahp",
        "methods": {
            "A": {"settings": {"objective": "supcon"}, "trials": [{}, {"supcon.temperature": 0.5}]},
            "B": {"settings": {"objective": "simclr"}, "trials": [{}, {"simclr.temperature": 0.5}]},
        },
        **changes,
    }
    file = path / "study.yaml"
    file.write_text(yaml.safe_dump(content), "utf-8")
    return file


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Runs take no time: their names are kept, and those in ``fails`` raise what stands there."""
    record: dict[str, Any] = {"names": [], "fails": {}}

    def perform(study: Any, task: Task, runs: Path, **_: Any) -> None:
        record["names"].append(task.name)
        if task.name in record["fails"]:
            raise record["fails"][task.name]

    def collect(study: Any, task: Task, runs: Path) -> dict[str, Any]:
        if not task.measured:
            return {"value": 0.1 * task.trial}
        scores = {"features/top1": 0.5 + 0.1 * task.seed}
        return {"settings": task.digest(study), "scores": scores, "train_seconds": 2.0, "train_loss": [1.0]}

    monkeypatch.setattr(worker_module, "perform", perform)
    monkeypatch.setattr(execute_module, "collect", collect)
    return record


def test_what_is_done_is_not_done_again(tmp_path: Path, done: dict[str, Any]) -> None:
    file = write(tmp_path)
    done["fails"]["b-seed1"] = KeyboardInterrupt()
    names = ["a-trial0", "a-trial1", "b-trial0", "b-trial1", "a-seed0", "a-seed1", "b-seed0", "b-seed1"]
    with pytest.raises(KeyboardInterrupt):
        execute(file, jobs=1)
    assert done["names"] == names
    listing = list_study(file)
    assert [listing.states[name] for name in names] == ["done"] * 7 + ["to do"]
    assert listing.seconds == pytest.approx(2.0)  # one run of four is left; those of the others took two
    assert "8 runs: 7 done, 1 to do; about 2 seconds left" in listing.lines()[-1]
    done["names"].clear()
    done["fails"].clear()
    page = execute(file, jobs=1).tables.read_text("utf-8")
    assert done["names"] == ["b-seed1"]
    execute(file, jobs=1)
    assert done["names"] == ["b-seed1"]
    (tmp_path / "README.md").unlink()
    assert rewrite(file).read_text("utf-8") == page
    # Other settings are another run; the results of what stays the same are kept.
    write(
        tmp_path,
        methods={"A": {"settings": {"objective": "simclr"}, "trials": [{}, {"simclr.temperature": 0.5}]}},
    )
    done["names"].clear()
    execute(file, jobs=1)
    assert done["names"] == [
        "a-seed0",
        "a-seed1",
    ]  # its trials are those that B had
    write(tmp_path, seeds=[0, 1, 2])
    done["names"].clear()
    execute(file, jobs=1, only=["B"])
    assert done["names"] == ["b-seed0", "b-seed1", "b-seed2"]


def test_baselines_that_the_study_has_no_more_leave_the_tables(
    tmp_path: Path, done: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(study: Any, runs: Path, book: Any) -> list[dict[str, Any]]:
        return [
            {
                "method": f"{kind} of nowhere",
                "seed": seed,
                "settings": digest,
                "scores": {"features/top1": 0.1},
            }
            for seed in study.seeds
            for kind, digest in baseline_digests(study, seed).items()
            if not book.has_result(digest, {})
        ]

    monkeypatch.setattr(execute_module, "measure_baselines", measured)
    page = execute(write(tmp_path, baselines=["raw", "start"]), jobs=1).tables.read_text("utf-8")
    assert "| raw of nowhere |" in page
    assert "| start of nowhere |" in page
    page = execute(write(tmp_path, baselines=["raw"]), jobs=1).tables.read_text("utf-8")
    assert "| raw of nowhere |" in page
    assert "start of nowhere" not in page
    assert "start of nowhere" not in (tmp_path / "results.json").read_text("utf-8")


def test_a_failure_loses_nothing_else(tmp_path: Path, done: dict[str, Any]) -> None:
    file = write(tmp_path)
    done["fails"] = {"a-seed0": ValueError("no\n disk"), "b-trial1": RuntimeError("bad")}
    result = execute(file, jobs=1)
    # B had a trial less than A, so it is not reported at all.
    assert done["names"] == ["a-trial0", "a-trial1", "b-trial0", "b-trial1", "a-seed0", "a-seed1"]
    errors = {failure["run"]: failure["error"] for failure in result.failures}
    assert errors == {"b-trial1": "RuntimeError: bad", "a-seed0": "ValueError: no disk"}
    page = result.tables.read_text("utf-8")
    assert "| a-seed0 | ValueError: no disk |" in page
    assert "Not finished: 1 of 4 runs" in page
    done["fails"] = {}
    done["names"].clear()
    assert execute(file, jobs=1).failures == []
    assert done["names"] == ["b-trial1", "a-seed0", "b-seed0", "b-seed1"]
    assert "failures" not in json.loads((tmp_path / "results.json").read_text("utf-8"))


def test_the_command(tmp_path: Path, done: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    file = str(write(tmp_path))
    assert main(["study", file, "--dry-run"]) == 0
    assert "8 runs: 8 to do; the remaining time" in capsys.readouterr().out
    assert done["names"] == []
    assert main(["study", file, "--tables"]) == 2
    assert "has no results yet" in capsys.readouterr().err
    done["fails"]["a-seed0"] = ValueError("bad")
    assert main(["study", file, "--jobs", "1", "--only", "A", "--quiet"]) == 2
    assert "1 runs failed (a-seed0)" in capsys.readouterr().err
    assert main(["study", file, "--jobs", "0"]) == 2
    assert main(["study", file, "--only", "C", "--dry-run"]) == 2
    assert "no method is called 'C'" in capsys.readouterr().err


def test_results_that_are_none_are_refused(tmp_path: Path) -> None:
    file = write(tmp_path)
    (tmp_path / "results.json").write_text("[1]", "utf-8")
    with pytest.raises(StudyError, match="move it away to begin anew"):
        execute(file, jobs=1)


def test_results_of_before_digests_stay_until_done_again(tmp_path: Path, done: dict[str, Any]) -> None:
    file = write(tmp_path)
    old = [{"method": m, "seed": s, "scores": {"features/top1": 0.9}} for m in "AB" for s in (0, 1)]
    (tmp_path / "results.json").write_text(json.dumps({"results": old, "choices": {}}), "utf-8")
    assert "| A | 0.9000 ± 0.0000 |" in rewrite(file).read_text("utf-8")
    page = execute(file, jobs=1, only=["A"]).tables.read_text("utf-8")
    assert "| A | 0.5500 ± 0.0707" in page
    assert "| B | **0.9000 ± 0.0000** |" in page


def tasks_of(file: Path, count: int) -> list[Task]:
    study = read_study(file)
    return [task for method in study.methods for task in run_tasks_of(study, method, 0)][:count]


def test_processes_are_bounded_and_their_ends_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path)
    scripts = {
        "a-seed0": "import time; time.sleep(0.3)",
        "a-seed1": "import sys; print('one'); sys.exit('ValueError: two')",
        "b-seed0": f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})",
        "b-seed1": "import os, sys; sys.exit(0 if os.environ['OMP_NUM_THREADS'] == '3' else 'threads')",
    }
    alive: list[int] = []
    popen = worker_module.subprocess.Popen
    started: list[Any] = []

    def watched(*args: Any, **kwargs: Any) -> Any:
        alive.append(sum(process.poll() is None for process in started))
        started.append(popen(*args, **kwargs))
        return started[-1]

    monkeypatch.setattr(worker_module.subprocess, "Popen", watched)
    monkeypatch.setattr(worker_module, "_command", lambda _, task: [sys.executable, "-c", scripts[task.name]])
    monkeypatch.setattr(worker_module, "available_cores", lambda: 6)
    assert worker_module.default_jobs() == 1
    tasks = tasks_of(file, 4)
    study = read_study(file)
    ends = {task.name: error for task, error in worker_module.do_tasks(file, study, tasks, 2)}
    assert ends == {
        "a-seed0": None,
        "a-seed1": "ValueError: two",
        "b-seed0": "killed by signal 9: it wrote no error message",
        "b-seed1": None,
    }
    assert max(alive) <= 1  # beside the one that begins


def test_an_interruption_ends_all_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path)
    ready, saved = tmp_path / "ready", tmp_path / "saved"
    waits = f"""
import pathlib, signal, time
signal.signal(signal.SIGTERM, signal.default_int_handler)
try:
    pathlib.Path({str(ready)!r}).touch()
    time.sleep(600)
except KeyboardInterrupt:
    pathlib.Path({str(saved)!r}).touch()
"""
    stops = f"""
import pathlib, sys, time
while not pathlib.Path({str(ready)!r}).exists():
    time.sleep(0.05)
sys.exit(130)
"""
    scripts = {"a-seed0": waits, "a-seed1": stops}
    monkeypatch.setattr(worker_module, "_command", lambda _, task: [sys.executable, "-c", scripts[task.name]])
    with pytest.raises(TrainingInterrupted):
        list(worker_module.do_tasks(file, read_study(file), tasks_of(file, 2), 2))
    assert saved.exists()


def test_a_baseline_is_complete_once_it_has_metrics(
    tmp_path: Path, image_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill between its two files loses neither: the metrics, by which it is known to be done, come last."""
    shared = {"data": str(image_folder), "val": 0.2, "image_size": 16, "accelerator": "cpu"}
    study = read_study(write(tmp_path, shared=shared, baselines=["raw"], seeds=[0]))
    runs, recipe = tmp_path / "runs", tmp_path / "runs" / "raw-pixels-seed0" / "recipe.yaml"

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("labeltree.runs.RunFolder.write_json", killed)
        with pytest.raises(KeyboardInterrupt):
            measure_baselines(study, runs, Book(tmp_path / "study.yaml", study))
    assert recipe.is_file()
    assert len(measure_baselines(study, runs, Book(tmp_path / "study.yaml", study))) == 1
    recipe.unlink()  # as an earlier version could leave it
    assert len(measure_baselines(study, runs, Book(tmp_path / "study.yaml", study))) == 1
    assert recipe.is_file()


def test_results_of_other_defaults_are_made_again(
    tmp_path: Path, done: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A result that was made by a default that has changed since is none of today's study."""
    plain = execute_module.collect

    def collect(study: Any, task: Task, runs: Path) -> dict[str, Any]:
        return plain(study, task, runs) | {"defaults": task.defaults(study)}

    monkeypatch.setattr(execute_module, "collect", collect)
    methods = {
        "HWC": {"settings": {"objective": "hwc"}, "trials": [{}, {"hwc.gamma": 1.0}]},
        "HWC, own": {
            "settings": {"objective": "hwc", "hwc.alpha": 0.0},
            "trials": [{}, {"hwc.gamma": 1.0}],
        },
    }
    file = write(tmp_path, methods=methods, evaluation={"resamples": 0})
    execute(file, jobs=1)
    done["names"].clear()
    execute(file, jobs=1)
    assert done["names"] == []
    content = json.loads((tmp_path / "results.json").read_text("utf-8"))
    kept = content["defaults"][content["made_with"][content["results"][0]["settings"]]]
    assert kept["hwc.alpha"] == 0.0
    assert kept["evaluation.confidence"] == 0.95
    assert kept["val"] == 0.1
    assert not {"epochs", "seed", "objective", "evaluation.resamples", "workers"} & set(kept)
    assert "defaults" not in content["results"][0]

    for entry in content["defaults"]:  # as if they had been made when alpha was 0.5
        if "hwc.alpha" in entry:
            entry["hwc.alpha"] = 0.5
        entry["a setting that is gone"] = 1
        entry.pop("ema")  # a setting that there was not
    (tmp_path / "results.json").write_text(json.dumps(content), "utf-8")
    before = rewrite(file).read_text("utf-8")
    assert "| HWC |" in before, "tables show what there is"
    assert main(["study", str(file), "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "defaults of labeltree have changed since results were made (hwc.alpha was 0.5 and is 0.0)" in said
    assert list_study(file).states["hwc--own-seed0"] == "done"
    assert list_study(file).states["hwc-seed0"] == "to do"
    done["names"].clear()
    execute(file, jobs=1)
    assert sorted(done["names"]) == ["hwc-seed0", "hwc-seed1", "hwc-trial0", "hwc-trial1"]
    done["names"].clear()
    execute(file, jobs=1)
    assert done["names"] == []


def test_results_of_before_defaults_were_kept_count(tmp_path: Path, done: dict[str, Any]) -> None:
    file = write(tmp_path)
    execute(file, jobs=1)  # these runs do not say what their defaults were
    done["names"].clear()
    execute(file, jobs=1)
    assert done["names"] == []
    assert "made_with" not in json.loads((tmp_path / "results.json").read_text("utf-8"))
    assert list_study(file).notes[0].startswith("4 of 4 results have no recorded defaults")
    assert "they count as made with today's" in list_study(file).lines()[-2]
