"""The files that a study's tables and figures go to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labeltree.atomic import atomic_write
from labeltree.studies.blocks import Figure
from labeltree.studies.book import Book
from labeltree.studies.csv_table import to_csv
from labeltree.studies.html_page import to_html
from labeltree.studies.markdown import to_markdown
from labeltree.studies.page import study_blocks
from labeltree.studies.plan import Study
from labeltree.studies.summary import Summary

__all__ = ["study_table", "write_tables"]


def study_table(path: Path, study: Study, results: Sequence[dict[str, Any]], choices: dict[str, Any]) -> str:
    """The study as a Markdown page; see `study_blocks`."""
    return to_markdown(study_blocks(path, study, results, choices))


def write_tables(path: Path, study: Study, book: Book) -> Path:
    """Write ``README.md``, ``table.csv``, ``table.html`` and ``figures/*.svg`` beside the study file.

    Returns:
        The path of the Markdown page.
    """
    blocks = study_blocks(path, study, book.results, book.choices, book.failures)
    files = {
        "README.md": to_markdown(blocks),
        "table.csv": to_csv(study, Summary(book.results)),
        "table.html": to_html(blocks),
    }
    figures = [block for block in blocks if isinstance(block, Figure)]
    files |= {f"figures/{figure.name}.svg": figure.svg for figure in figures}
    for name, text in files.items():
        target = path.parent / name
        target.parent.mkdir(exist_ok=True)
        with atomic_write(target) as temporary:
            temporary.write_text(text, "utf-8")
    return path.parent / "README.md"
