"""All subjects of an evaluation go one way: each stage stands once."""

from pathlib import Path

import pytest

import labeltree

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
