"""Columns that are kept with the samples, and not read as labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from labeltree.data import make_splits, open_source, summarize
from labeltree.data.tables.table_source import RESERVED
from labeltree.errors import DataError
from labeltree.runs.embedding_table import _KNOWN


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = ["text,label,patient,lesion,site"]
    rows += [f"text {i},class {i % 3},p{i // 4},{i // 2 % 2},{('Graz', '')[i % 2]}" for i in range(24)]
    file = tmp_path / "patients.csv"
    file.write_text("\n".join(rows))
    return file


def test_kept_columns_are_texts_of_each_sample(table: Path) -> None:
    source = open_source(table, group_column="patient", keep_columns=["lesion", "site"])
    assert source.attributes["lesion"].tolist() == [str(i // 2 % 2) for i in range(24)]
    assert source.attributes["site"].tolist() == ["Graz", ""] * 12
    part = source.subset([3, 1])
    assert part.attributes["lesion"].tolist() == ["1", "0"]
    assert "kept = lesion, site" in str(summarize(make_splits(source)))


def test_a_kept_column_is_no_label(tmp_path: Path) -> None:
    file = tmp_path / "nested.csv"
    rows = [f"text {i},{'ab'[i % 2]}{i % 4},{'ab'[i % 2]}" for i in range(40)]
    file.write_text("\n".join(["text,label,family", *rows]))
    assert open_source(file).taxonomy.max_depth == 2  # a column that nests with the labels is a coarser rank
    assert open_source(file, keep_columns="family").taxonomy.max_depth == 1
    both = open_source(file, keep_columns="family", label_columns=["family", "label"])
    assert both.taxonomy.max_depth == 2
    assert both.attributes["family"].tolist()[:2] == ["a", "b"]


def test_names_with_a_meaning_of_their_own_are_refused(table: Path) -> None:
    assert _KNOWN <= RESERVED
    with pytest.raises(DataError, match="no column 'sites'; did you mean 'site'"):
        open_source(table, keep_columns=["sites"])
    table.write_text(table.read_text().replace("site", "split", 1).replace("Graz", "train"))
    with pytest.raises(DataError, match="keep_columns names 'split', which has a meaning of its own"):
        open_source(table, keep_columns=["split"])
