"""A run opens if its table has other lines above the same rows: these are the samples that it knows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import labeltree as lt
from labeltree.errors import RunError
from labeltree.inference.load_run import own_samples
from labeltree.runs import RunFolder

ROWS = [
    f"c{row % 4},{','.join(f'{number:.3f}' for number in numbers + row % 4)}"
    for row, numbers in enumerate(np.random.default_rng(0).normal(size=(80, 3)))
]


def write(path: Path, above: str, rows: list[str]) -> None:
    path.write_text("\n".join([f"{above}label,a,b,c", *rows]), encoding="utf-8")


@pytest.mark.slow
def test_a_title_may_go_and_a_row_may_not_change(tmp_path: Path) -> None:
    data = tmp_path / "table.csv"
    write(data, "Our plants and animals\n\n", ROWS)
    run = lt.train(data, "tree-ridge", out=tmp_path / "run", progress_bar=False).path
    before = own_samples(RunFolder(run), None).sample_names()
    assert before[0].startswith("line ")
    for above in ("", "Another title\n# and a comment\n\n"):
        write(data, above, ROWS)
        assert own_samples(RunFolder(run), None).sample_names() == before
    write(data, "", [*ROWS[:9], ROWS[10], ROWS[9], *ROWS[11:]])
    with pytest.raises(RunError, match="have changed since the run"):
        own_samples(RunFolder(run), None)
