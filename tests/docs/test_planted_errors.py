"""The figures of planted label errors in the findings are those of the benchmark."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_figures_are_in_the_results() -> None:
    section = (ROOT / "docs" / "findings.md").read_text("utf-8").split("\n## Planted label errors")[1]
    section = section.split("\n## ")[0]
    kept = json.loads((ROOT / "benchmarks" / "results" / "suspects.json").read_text("utf-8"))
    known = {str(cell) for table in kept["tables"] for row in table["rows"] for cell in row}
    found = re.findall(r"\d+(?:\.\d+)? ± \d+(?:\.\d+)?", section)
    assert len(found) > 60
    assert set(found) <= known
