"""The files that a study writes: the page as Markdown and HTML, its figures, and a CSV table."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

from labeltree.atomic import write_text
from labeltree.report.pages.document import Figure, to_html, to_markdown
from labeltree.report.pages.template import svg_file
from labeltree.studies.study_page import study_blocks
from labeltree.studies.study_plan import Study
from labeltree.studies.study_results import Book
from labeltree.studies.study_statistics import Entry, Summary

__all__ = ["to_csv", "write_tables"]


def write_tables(path: Path, study: Study, book: Book) -> Path:
    """Write `README.md`, `table.csv`, `table.html` and `figures/*.svg` beside the study file.

    Returns:
        The path of the Markdown page.
    """
    for sentence in book.missing_scores():
        print(f"warning: {sentence}", flush=True)
    blocks = study_blocks(path, study, book.results, book.choices, book.failures)
    files = {
        "README.md": to_markdown(blocks),
        "table.csv": to_csv(study, Summary(book.results)),
        "table.html": to_html(blocks),
    }
    figures = [block for block in blocks if isinstance(block, Figure)]
    files |= {f"figures/{figure.name}.svg": svg_file(figure.svg) for figure in figures}
    for name, text in files.items():
        write_text(path.parent / name, text)
    return path.parent / "README.md"


def to_csv(study: Study, summary: Summary) -> str:
    """The table as CSV.

    Columns: `method`, `family`, one for each axis of the grid, `metric` (`role/name`), `seeds`,
    `mean`, `sd`, `best` (1 for the best mean of the metric over all methods), `p` (p-value of the
    difference from the best, Welch's test with Holm's correction) and `paper`, a paper's number for this
    method and metric.
    """
    methods = {method.name: method for method in study.methods}
    axes = [axis.name for axis in study.grid]
    papers = {(name, table.column): value for table in study.paper for name, value in table.rows.items()}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["method", "family", *axes, "metric", "seeds", "mean", "sd", "best", "p", "paper"])
    for column in summary.columns:
        for name, entry in summary.entries(column, summary.methods).items():
            method = methods.get(name)
            point = dict(method.point) if method else {}
            writer.writerow(
                [
                    name,
                    method.family if method else name,
                    *(point.get(axis, "") for axis in axes),
                    column,
                    *_numbers(entry),
                    papers.get((name, column), ""),
                ]
            )
    return text.getvalue()


def _numbers(entry: Entry) -> list[str]:
    spread = "" if entry.sd is None else f"{entry.sd:.6g}"
    p = "" if math.isnan(entry.p) else f"{entry.p:.4g}"
    return [str(entry.n), f"{entry.mean:.4f}", spread, str(int(entry.best)), p]
