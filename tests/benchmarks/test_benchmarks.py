"""Every benchmark runs on a few rows, and what it leaves behind is well-formed; no time is asserted."""

import dataclasses
import importlib
import json
import re
from math import isfinite
from pathlib import Path

import pytest

from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import load_taxonomy

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[2] / "benchmarks"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py") if "\ndef measure(" in path.read_text("utf-8"))
# Those that start processes or build encoders have tests of their own, or are run by hand.
SLOW = {
    "bulk", "cold_start", "data", "engines", "evaluation", "explorer", "large_data", "memory", "metrics",
    "ranks", "serving", "text", "training_step",
}  # fmt: skip


def assert_well_formed(kept: dict, name: str) -> None:
    goals = importlib.import_module("goals").GOALS
    assert kept["command"].split()[:2] == ["python", f"benchmarks/{name}.py"]
    for table in kept["tables"]:
        assert table["rows"], table["title"]
        assert {len(row) for row in table["rows"]} == {len(table["columns"])}
    asked = {goal.key for goal in goals if goal.script == name}
    assert set(kept["measured"]) <= asked
    assert all(isfinite(figure) for figure in kept["measured"].values())
    assert {"processor", "torch", "commit", "date"} <= set(kept["machine"])


@pytest.mark.parametrize("name", sorted(set(SCRIPTS) - SLOW))
@pytest.mark.long
def test_runs(name: str, tmp_path: Path) -> None:
    script, kept = importlib.import_module(name), importlib.import_module("kept")
    written = kept.write(script.measure("tiny"), name, "tiny", folder=tmp_path)
    assert json.loads((tmp_path / f"{name}.json").read_text("utf-8")) == written
    assert (tmp_path / f"{name}.md").read_text("utf-8") == kept.markdown(written)
    assert_well_formed(written, name)


def test_tables_to_evaluate_are_as_asked_for(tmp_path: Path) -> None:
    script = importlib.import_module("evaluation")
    case = dataclasses.replace(script.TINY, in_groups=True)
    file, tree = case.save(tmp_path)
    taxonomy = load_taxonomy(tree)
    table = EmbeddingTable.load(file, taxonomy)
    assert taxonomy.num_leaves == case.classes
    assert table.features is not None
    assert table.groups is not None
    assert (table.embeddings.shape[1], table.features.shape[1]) == (case.embeddings, case.features)
    assert [len(table.select(split)) for split in ("train", "test")] == [case.train, case.test]
    assert not set(table.select("train").groups.tolist()) & set(table.select("test").groups.tolist())


def test_one_command_runs_all() -> None:
    every, goals = importlib.import_module("every"), importlib.import_module("goals")
    assert set(SCRIPTS) <= set(every.SCRIPTS)
    assert {goal.script for goal in goals.GOALS} <= set(every.SCRIPTS)
    assert len({goal.key for goal in goals.GOALS}) == len(goals.GOALS)
    assert {f"P{number}" for number in range(1, 17)} <= {goal.key.split()[0] for goal in goals.GOALS}


@pytest.mark.parametrize("path", sorted((FOLDER / "results").glob("*.json")), ids=lambda path: path.stem)
def test_committed_results(path: Path) -> None:
    kept = json.loads(path.read_text("utf-8"))
    assert kept["size"] in ("full", "short")
    script, words = Path(kept["command"].split()[1]).stem, kept["command"].split()[2:]
    assert path.stem == script or path.stem.startswith(f"{script}_")  # one script may leave several tables
    form = [] if kept["size"] == "full" else ["--short"]
    with_options = ("gpu", "taxonomy", "index", "shorter_vectors", "tree_suspects", "trained_suspects")
    assert words == form or script in with_options
    assert_well_formed(kept, script)
    assert path.with_suffix(".md").read_text("utf-8") == importlib.import_module("kept").markdown(kept)
    assert not re.search(r"/(home|root|tmp|work)\b", path.read_text("utf-8"))


def test_the_page_has_the_results() -> None:
    goals = importlib.import_module("goals")
    text = goals.PAGE.read_text("utf-8")
    assert goals.page(text, goals.table(goals.collect(FOLDER / "results"))) == text


def test_a_page_without_marks_is_told() -> None:
    with pytest.raises(ValueError, match="lacks the lines"):
        importlib.import_module("goals").page("# A page", "| a table |")


class Drifting:
    """A processor whose clock runs slower from call to call, at first by little."""

    def __init__(self) -> None:
        self.now, self.pace = 0.0, 1.0

    def work(self, seconds: float) -> None:
        self.now += seconds * self.pace

    def slow_down(self) -> None:
        self.pace *= 3


def test_ratios_survive_a_machine_that_drifts(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = importlib.import_module("harness")
    machine = Drifting()
    monkeypatch.setattr(harness.time, "process_time", lambda: machine.now)
    calls = {"baseline": lambda: machine.work(2), "half": lambda: machine.work(1), "end": machine.slow_down}
    found = harness.in_turn(calls, "baseline", rounds=5, warmup=2)
    assert found["half"].ratios == pytest.approx([0.5] * 5)
    assert found["half"].spread == "0.5–0.5"
    assert found["baseline"].seconds > 9  # in seconds, nothing is left to compare


def test_short_calls_are_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = importlib.import_module("harness")
    machine, count = Drifting(), 0

    def short() -> None:
        nonlocal count
        count += 1
        machine.work(0.001)

    monkeypatch.setattr(harness.time, "process_time", lambda: machine.now)
    found = harness.in_turn({"short": short}, "short", rounds=2, warmup=1)
    assert count > 2 * 40
    assert found["short"].seconds == pytest.approx(0.001)


def test_an_unknown_baseline_is_told() -> None:
    with pytest.raises(ValueError, match="baseline 'b' must be a candidate"):
        importlib.import_module("harness").in_turn({"a": int}, "b")


def test_figures_as_text() -> None:
    show = importlib.import_module("kept").show
    cells = [None, 0.0, 0.1234, 12.345, 1234.5, 2.5e-9, 65_536, "text"]
    assert [show(cell) for cell in cells] == ["–", "0", "0.123", "12.3", "1,234", "2.5e-09", "65,536", "text"]
