"""Tables of synonyms: chains, cycles, homonyms, Darwin Core."""

from pathlib import Path

import pytest

from labeltree.data.names.cleaning import Cleaner
from labeltree.data.names.synonyms import SynonymTable
from labeltree.errors import DataError


def load(tmp_path: Path, text: str, names: str = "exact") -> SynonymTable:
    file = tmp_path / "synonyms.csv"
    file.write_text(text, encoding="utf-8")
    return SynonymTable.load(file, Cleaner(names))  # type: ignore[arg-type]


def accepted(table: SynonymTable, *path: str) -> tuple[str, ...] | None:
    found = table.accepted(path)
    return None if found is None else found[1]


def test_chains_are_followed(tmp_path: Path) -> None:
    table = load(tmp_path, "synonym,accepted\na,b\nb,c\nx,c\n")
    assert [accepted(table, name) for name in "abxc"] == [("c",), ("c",), ("c",), None]
    assert len(table) == 3


def test_a_cycle_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cycle: b > c > b \(line 4\)"):
        load(tmp_path, "synonym,accepted\na,b\nb,c\nc,b\n")


def test_several_accepted_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'a' is a synonym of 'b' in line 2, and of 'c' in line 3"):
        load(tmp_path, "synonym,accepted\na,b\na,c\n")
    assert len(load(tmp_path, "synonym,accepted\na,b\na,b\n")) == 1


def test_a_name_that_is_accepted_is_no_synonym_unless_a_path_tells(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'a' is an accepted name in line 3, but a synonym of 'b' in line 2"):
        load(tmp_path, "synonym,accepted\na,b\na,a\n")
    table = load(tmp_path, "synonym,accepted\np/a,b\na,a\n")
    assert accepted(table, "x", "p", "a") == ("b",)
    assert accepted(table, "x", "q", "a") is None


def test_homonyms_stay_apart_by_path(tmp_path: Path) -> None:
    table = load(tmp_path, "synonym,accepted\nbird/crane,bird/grus\nmachine/crane,machine/hoist\ncrane,x\n")
    assert accepted(table, "animal", "bird", "crane") == ("bird", "grus")
    assert accepted(table, "machine", "crane") == ("machine", "hoist")
    assert accepted(table, "crane") == ("x",)


def test_empty_cells_and_missing_columns_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="line 3: 'accepted' is empty"):
        load(tmp_path, "synonym,accepted\na,b\nc,\n")
    with pytest.raises(DataError, match="needs the columns synonym and accepted"):
        load(tmp_path, "old,new\na,b\n")
    assert len(load(tmp_path, "synonym,accepted\n")) == 0
    assert accepted(load(tmp_path, "synonym,accepted\n"), "a") is None


def test_names_are_compared_as_they_are_cleaned(tmp_path: Path) -> None:
    text = "synonym;accepted\nParus caeruleus L.;Cyanistes caeruleus (Linnaeus, 1758)\n"
    assert accepted(load(tmp_path, text), "Parus caeruleus") is None
    assert accepted(load(tmp_path, text, "scientific"), "PARUS CAERULEUS") == ("Cyanistes caeruleus",)
    plain = load(tmp_path, "synonym,accepted\nT-Shirt,Tee\n", "plain")
    assert accepted(plain, " t-shirt") == ("Tee",)


def test_darwin_core_has_the_accepted_name_in_the_row(tmp_path: Path) -> None:
    table = load(
        tmp_path,
        "gbifID\tscientificName\ttaxonomicStatus\tacceptedScientificName\n"
        "1\tParus caeruleus L.\tSYNONYM\tCyanistes caeruleus (Linnaeus, 1758)\n"
        "2\tParus caeruleus Linnaeus, 1758\tHOMOTYPIC_SYNONYM\tCyanistes caeruleus (Linnaeus, 1758)\n"
        "3\tParus major L.\tACCEPTED\tParus major L.\n"
        "4\tParus major Linnaeus\tSYNONYM\tParus major L.\n"
        "5\tParus\tDOUBTFUL\t\n",
        "scientific",
    )
    assert len(table) == 1
    assert accepted(table, "Parus caeruleus") == ("Cyanistes caeruleus",)


def test_accepted_names_by_their_ids(tmp_path: Path) -> None:
    text = "taxonID,scientificName,acceptedNameUsageID\n1,Cyanistes caeruleus,\n2,Parus caeruleus,1\n"
    assert accepted(load(tmp_path, text), "Parus caeruleus") == ("Cyanistes caeruleus",)
