"""Tables of corrections that are about an older version of the taxonomy than the data are read on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labeltree.data import Source, open_source
from labeltree.data.correction_rounds import CorrectionRounds
from labeltree.data.corrections import sample_ids
from labeltree.taxonomy import Taxonomy

CHANGES = "labeltree mapping: 1\nchanges:\n- {rename: A/Tool, to: A/Machines}\n"
OLD = ["A/Tool/Hammer", "A/Tool/Saw", "B/Food/Milk", "B/Food/Bread", "B/Food/Milk"]
NEW = [path.replace("Tool", "Machines") for path in OLD]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    rows = [f"text number {i},{label}\n" for i, label in enumerate(OLD)]
    (tmp_path / "t.csv").write_text("text,label\n" + "".join(rows))
    Taxonomy.from_paths(OLD[:4]).save(tmp_path / "old.yaml")
    Taxonomy.from_paths(NEW[:4]).save(tmp_path / "new.yaml")
    (tmp_path / "map.yaml").write_text(CHANGES)
    return tmp_path


def opened(folder: Path, rows: str, **settings: object) -> Source:
    corrections = folder / "c.csv"
    corrections.write_text("sample,label,suggested,decision\n" + rows)
    return open_source(
        folder / "t.csv",
        taxonomy=folder / "new.yaml",
        mapping=folder / "map.yaml",
        corrections=corrections,
        **settings,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("path", [str, lambda path: path.replace("Tool", "Machines")], ids=["old", "new"])
@pytest.mark.parametrize("missing", [None, ["nothing"]])
def test_corrections_of_either_version_are_applied(
    files: Path, path: Callable[[str], str], missing: list[str] | None
) -> None:
    rows = (
        "line 2,A/Tool/Hammer,A/Tool/Saw,x\nline 3,A/Tool/Saw,,remove\n"
        "line 4,B/Food/Milk,A/Tool,x\nline 5,B/Food/Bread,B/Food/Milk,x\n"
    )
    source = opened(files, path(rows), missing_labels=missing)
    assert source.taxonomy.decode(source.nodes) == [
        "A/Machines/Saw", "A/Machines", "B/Food/Milk", "B/Food/Milk",
    ]  # fmt: skip
    assert source.notes[-1] == "corrections of 'c.csv': 3 labels replaced, 1 sample removed"


def test_what_both_versions_have_for_another_class_is_of_the_version_of_the_table(tmp_path: Path) -> None:
    """Two classes have changed their names; a table of either version says the same of the same samples."""
    (tmp_path / "t.csv").write_text("text,label\nfirst,A/x\nsecond,A/y\nthird,A/z\nfourth,A/old\n")
    Taxonomy.from_paths(["A/x", "A/y", "A/z", "A/new"]).save(tmp_path / "new.yaml")
    changes = ("{rename: A/x, to: A/y}", "{rename: A/y, to: A/x}", "{rename: A/old, to: A/new}")
    (tmp_path / "map.yaml").write_text(
        "labeltree mapping: 1\nchanges:\n" + "".join(f"- {change}\n" for change in changes)
    )
    for rows in (
        "line 2,A/x,A/z,x\nline 4,A/z,A/y,x\n",  # old: only the label of line 2 tells it
        "line 2,A/y,A/z,x\nline 4,A/z,A/x,x\n",  # new
        "line 4,A/z,A/x,x\nline 5,A/new,A/new,x\nline 2,A/y,A/z,x\n",
        "line 2,A/x,A/z,x\nline 4,A/z,A/y,x\nline 5,A/old,A/old,x\n",
    ):
        source = opened(tmp_path, rows)
        assert source.taxonomy.decode(source.nodes) == ["A/z", "A/x", "A/x", "A/new"], rows


def test_a_class_that_the_mapping_removes(files: Path) -> None:
    (files / "map.yaml").write_text(
        "labeltree mapping: 1\nchanges:\n- {remove: A}\n- {remove: A/Tool}\n- {remove: A/Tool/Hammer}\n"
        "- {remove: A/Tool/Saw}\n"
    )
    Taxonomy.from_paths(OLD[2:4]).save(files / "new.yaml")
    source = opened(files, "line 2,A/Tool/Hammer,B/Food/Milk,x\nline 4,B/Food/Milk,A/Tool/Saw,x\n")
    assert source.taxonomy.decode(source.nodes[:3]) == ["B/Food/Milk", None, "B/Food/Milk"]
    assert "1 label replaced; not applied: 1 name a node that the taxonomy does not have" in source.notes[-1]


@pytest.mark.parametrize(
    ("row", "label"),
    [
        ("line 2,a/x,a/y,accept", "a/y"),  # both versions have the names: the newer one's
        ("line 5,a/z,a/y,accept", "a/y"),  # only the newer version has a/z
        ("line 5,a/y,a/x,accept", "a/x"),  # the label of then: the older version's
    ],
)
def test_a_name_that_means_another_class_now(row: str, label: str, tmp_path: Path) -> None:
    """`a/y` was renamed to `a/z`, and another class has its name now."""
    new = Taxonomy.from_paths(["a/x", "a/y", "a/z", "a/w"])
    (tmp_path / "m.yaml").write_text("labeltree mapping: 1\nchanges:\n- {rename: a/y, to: a/z}\n")
    (tmp_path / "t.csv").write_text("id,text,label\n1,one,x\n2,two,x\n3,three,w\n4,four,y\n")
    (tmp_path / "c.csv").write_text(f"sample,label,suggested,decision\n{row}\n")
    columns: dict[str, Any] = {"text_column": "text", "label_columns": ["label"], "id_column": "id"}
    data = open_source(tmp_path / "t.csv", taxonomy=new, mapping=tmp_path / "m.yaml", **columns)
    rounds = CorrectionRounds.load(tmp_path / "c.csv")
    corrected = rounds.apply(data)[0]
    assert new.path_name(int(corrected.nodes[int(row[5]) - 2])) == label
    assert rounds.corrected_in(sample_ids(corrected), corrected.nodes, corrected.read_labels) == 1
