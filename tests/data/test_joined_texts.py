"""Several columns of texts, as a title and a description, are one text together."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import labeltree as lt
from labeltree.data.streaming import stream_samples
from labeltree.errors import DataError

ROWS = pd.DataFrame(
    {
        "title": ["Claw hammer", "Rose", None, None],
        "description": ["steel head", None, "green fronds", None],
        "label": ["tools/hammer", "plants/rose", "plants/fern", "tools/saw"],
    }
)
JOINED = ["Claw hammer steel head", "Rose", "green fronds"]


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".xlsx"])
def test_the_texts_of_a_row_are_joined_by_a_blank(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"rows{suffix}"
    write = {".csv": ROWS.to_csv, ".parquet": ROWS.to_parquet, ".xlsx": ROWS.to_excel}[suffix]
    write(file, index=False)
    columns = ["title", "description"]
    source = lt.open_data(file, text_column=columns, on_error="skip")
    assert source.texts == JOINED
    assert source.columns["texts"] == ("title", "description")
    streamed = list(stream_samples(file, text_column=columns, on_error="skip"))
    assert [sample.text() for sample in streamed[:3]] == JOINED
    with pytest.raises(DataError, match=r"its 'title' and 'description' are empty"):
        streamed[3].text()


def test_rows_without_any_of_the_texts_are_named(tmp_path: Path) -> None:
    ROWS.to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(DataError, match=r"1 of 4 rows have no text in 'title' and 'description': line 5"):
        lt.open_data(tmp_path / "rows.csv", text_column=["title", "description"])
    with pytest.raises(DataError, match="text_column is empty"):
        lt.open_data(tmp_path / "rows.csv", text_column=[])


def test_a_note_says_how_both_are_read(tmp_path: Path) -> None:
    ROWS.rename(columns={"title": "text"})[:1].to_csv(tmp_path / "rows.csv", index=False)
    notes = lt.open_data(tmp_path / "rows.csv").notes
    assert any("set --table.text_column '[text, description]'" in note for note in notes)


def test_a_second_text_is_known_by_its_words_and_placeholders_are_left_out(tmp_path: Path) -> None:
    rows = ROWS.assign(
        **{"Product title": [f"{name} of a kind" for name in "abcd"], "description": ["n/a", "b c", "", "d"]}
    )
    rows.to_csv(tmp_path / "rows.csv", index=False)
    both = lt.open_data(tmp_path / "rows.csv", on_error="skip")
    assert any("'description' and 'Product title' together" in note for note in both.notes)
    alone = lt.open_data(tmp_path / "rows.csv", text_column="description", on_error="skip")
    assert alone.columns["texts"] == ("description",)
    source = lt.open_data(tmp_path / "rows.csv", text_column=["description", "Product title"])
    assert both.texts == source.texts
    assert source.texts == ["a of a kind", "b c b of a kind", "c of a kind", "d d of a kind"]
