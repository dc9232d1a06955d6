"""All subjects of an evaluation go one way: each stage stands once."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from report_inputs import SMALL, random_table

import labeltree
from labeltree.evaluation import EvaluationSettings, compare
from labeltree.report import compare_answers
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
