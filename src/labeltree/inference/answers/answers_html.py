"""Answers as HTML for notebooks: a table with the pictures that were asked about."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from labeltree.data.images.decode import open_image
from labeltree.notebooks import html_sentences, html_table, image_tag

__all__ = ["MOST_SHOWN", "file_thumbnail", "html_answers"]

MOST_SHOWN = 20
"""Answers that are shown at once."""
_SIDE = 64  # pixels of a picture


def html_answers(
    rows: Sequence[Mapping[str, Any]], shown: Sequence[Sequence[str]], sentences: Sequence[str]
) -> str:
    """The first answers, each with the picture that it is of, where its file can be read.

    Args:
        rows: Rows of `answer_rows`.
        shown: For each row sample, answer, probability and guesses, as a person reads them.
        sentences: What is said of all of them.
    """
    pictures = [file_thumbnail(row["sample"]) for row in rows[:MOST_SHOWN]]
    cells = [[picture, *texts] for picture, texts in zip(pictures, shown[:MOST_SHOWN], strict=True)]
    table = html_table(["", "sample", "answer", "p", "guesses"], cells, numbers=[3])
    more = f"… {len(rows) - MOST_SHOWN:,} more" if len(rows) > MOST_SHOWN else None
    return str(table + html_sentences([more, *sentences]))


def file_thumbnail(sample: str) -> str:
    """The picture of a sample that is named by its file; empty where there is none to read."""
    try:
        place = Path(sample)
        if not place.is_file():
            return ""
        image = open_image(place).convert("RGB")
        image.thumbnail((_SIDE, _SIDE))
    except Exception:  # of any decoder; a text may name no file at all
        return ""
    content = BytesIO()
    image.save(content, "PNG")
    return image_tag(f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode('ascii')}")
