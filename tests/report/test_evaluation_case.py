"""All subjects of an evaluation go one way: each stage stands once."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from report_inputs import SMALL, random_table

import labeltree
from labeltree.data.corrections import Applied
from labeltree.decisions.choose_classifier import ChosenClassifier
from labeltree.decisions.classifiers import Classifiers
from labeltree.evaluation import EvaluationSettings, compare
from labeltree.options.evaluation import EvaluateOptions
from labeltree.report import compare_answers, cross_validation, evaluation_case
from labeltree.report.corrected_labels import CorrectedLabels
from labeltree.report.evaluation_case import EvaluationCase, evaluate_case
from labeltree.report.pages.report_page import render_report
from labeltree.report.tables import main_numbers
from labeltree.runs import RunFolder
from labeltree.taxonomy import Taxonomy

ROOT = Path(labeltree.__file__).parent


@pytest.mark.parametrize(
    "stage",
    [
        "save_outcomes(folder",
        "write_json(folder.metrics, result",
        "write_report(result",
        "CorrectedLabels.of(",
    ],
)
def test_a_stage_stands_once(stage: str) -> None:
    rooms = ("api", "evaluation", "report")
    files = [path for room in rooms for path in sorted((ROOT / room).rglob("*.py"))]
    texts = {path.name: path.read_text("utf-8").replace(f"def {stage}", "") for path in files}
    assert [name for name, text in texts.items() for _ in range(text.count(stage))] == ["evaluation_case.py"]


def test_the_differences_to_references_are_drawn_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = Taxonomy.from_paths(SMALL)
    start = replace(random_table(tree, 10), features=None)
    case = EvaluationCase(
        name="mine",
        table=replace(start, embeddings=torch.eye(tree.num_nodes)[start.nodes]),
        taxonomy=tree,
        settings=EvaluationSettings(resamples=50),
        title="Mine",
        references={"pretrained encoder": start},
        shown={"projection": "PCA"},
    )
    calls = []

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return compare(*args, **kwargs)

    monkeypatch.setattr(compare_answers, "compare", counted)
    done = evaluate_case(lambda: case, RunFolder(tmp_path), None)
    assert len(calls) == 1
    assert "Training added" in done.headline
    assert done.headline == main_numbers.main_numbers_table(done.result)
    page = render_report(done.result, case.table, tree, title="Mine", projection="PCA", steps=done.steps)
    assert page == done.report.read_text("utf-8")


@pytest.mark.parametrize("learned", [True, False])
def test_corrections_say_whether_classifiers_had_learned_before(
    learned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a run have, and a reference learns from the labels as they were, too."""
    tree = Taxonomy.from_paths(SMALL)
    table = replace(random_table(tree, 4), features=None)
    done = Applied(table.nodes.clone(), torch.ones(len(table), dtype=torch.bool), {}, "Done")
    known, chosen = Classifiers({}, ChosenClassifier("own")), ChosenClassifier("probe")
    given: dict[str, Any] = {}
    fitted: list[Any] = []

    def measure(table: Any, taxonomy: Any, **named: Any) -> str:
        given.update(named)
        return "result"

    def remark(self: Any, result: Any, without: Any, **named: Any) -> Any:
        given.update(named, without=without)
        return result

    monkeypatch.setattr(evaluation_case, "evaluate", measure)
    monkeypatch.setattr(evaluation_case, "fit_to_table", lambda table, *_, **named: fitted.append(table))
    monkeypatch.setattr(CorrectedLabels, "remark", remark)
    case = EvaluationCase(
        name="mine",
        table=table,
        taxonomy=tree,
        settings=EvaluationSettings(),
        title="Mine",
        references={"start": table, "beside": table},
        classifiers={"mine": known if learned else chosen, "beside": known},
        corrections=done,
    )
    assert evaluation_case._measure(case, None)[0] == "result"
    assert (given["as_before"], given["without"]) == (learned, None)
    assert len(fitted) == learned, "of the reference that has none"
    assert set(given["baselines"]) == {"start", "beside"}


def test_the_run_of_each_fold_has_a_title_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def evaluate_one(options: Any) -> Any:
        asked.append(options)
        return SimpleNamespace(result=SimpleNamespace(outcomes={"m": len(asked)}, name="m"))

    class Stop(Exception):
        pass

    def pool(results: Any, outcomes: Any) -> Any:
        assert outcomes == [1, 2]
        raise Stop

    monkeypatch.setattr(cross_validation, "fold_runs", lambda place: [Path("f/fold-1"), Path("f/fold-2")])
    monkeypatch.setattr(cross_validation, "evaluate_run", evaluate_one)
    monkeypatch.setattr(cross_validation, "pool_folds", pool)
    with pytest.raises(Stop):
        cross_validation.evaluate_folds(EvaluateOptions("f", title="All"))
    assert [(each.place, each.title) for each in asked] == [
        (Path("f/fold-1"), None),
        (Path("f/fold-2"), None),
    ]
