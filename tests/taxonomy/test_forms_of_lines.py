"""Lists of classes as they circulate: numbers and ids beside names, dots, confidences, label maps."""

import json
from pathlib import Path

import pytest
from test_forms_by_content import PLACES, paths, read

from labeltree.errors import TaxonomyError

FLAT = ["bow saw", "kite", "saw"]
NUMBERED = {
    "tight.txt": "1:saw\n2:bow saw\n4:kite\n",
    "lists.json": json.dumps(
        [[0, "n00000001", "saw"], [1, "n00000002", "bow saw"], [2, "n00000003", "kite"]]
    ),
    "pairs.json": json.dumps([[1, "saw"], [2, "bow saw"], [3, "kite"]]),
    "map.pbtxt.txt": 'item {\n  name: "saw"\n  id: 1\n}\nitem {\n  name: "bow saw"\n  id: 2\n}\n'
    'item {\n  name: "kite"\n  id: 4\n}\n',
    "label.txt": "# actions\n"
    + "".join(f'label {{ name: "{name}" label_id: {at} }}\n' for at, name in enumerate(FLAT, start=1)),
    "both.txt": "n00000001 saw 0\nn00000002 bow saw 1\nn00000003 kite 2\n",
}


@pytest.mark.parametrize("name", NUMBERED)
def test_numbers_and_ids_are_further_names(tmp_path: Path, name: str) -> None:
    taxonomy = read(tmp_path, name, NUMBERED[name])
    assert paths(taxonomy) == FLAT
    assert taxonomy.aliases


def test_ids_tell_classes_of_one_name_apart(tmp_path: Path) -> None:
    taxonomy = read(tmp_path, "both.txt", "n00000001 crane 0\nn00000002 crane 1\nn00000003 kite 2\n")
    assert paths(taxonomy) == ["crane (n00000001)", "crane (n00000002)", "kite"]


def test_numbers_that_are_part_of_names_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    read(tmp_path, "kinds.txt", "/a/abbey 1\n/a/alley 2\n/b/bog 1\n")
    assert "each line ends in a number, which is part of its name" in caplog.text


DOTTED = ["tool.saw.Bow", "tool.saw.Tenon", "toy.kite.Delta", "toy.kite.Box"]
DOTTED_PATHS = ["tool", "tool/saw", "tool/saw/Bow", "tool/saw/Tenon"]
DOTTED_PATHS += ["toy", "toy/kite", "toy/kite/Box", "toy/kite/Delta"]


def test_dots_between_words_separate_levels(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert paths(read(tmp_path, "tree.txt", "\n".join(DOTTED))) == DOTTED_PATHS
    assert "'.' separates" in caplog.text
    table = "code,path\n" + "".join(f"c{at},{path}\n" for at, path in enumerate(DOTTED))
    assert paths(read(tmp_path, "tree.csv", table)) == DOTTED_PATHS


@pytest.mark.parametrize(
    "lines",
    [
        ["www.saw.com", "www.kite.com", "shop.tool.com", "shop.toy.com"],
        ["bow.saw.jpg", "bow.kite.jpg", "tenon.saw.jpg", "tenon.kite.jpg"],
        ["E.coli", "E.albertii", "B.subtilis", "B.cereus"],
        ["dog.n.01", "dog.n.02", "cat.n.01", "cat.n.02"],
        ["v1.2", "v1.3", "v2.1", "v2.2"],
        ["saw.bow", "saw.tenon", "kite", "toy.box"],
    ],
    ids=["hosts", "files", "initials", "synsets", "versions", "a name alone"],
)
def test_dots_within_names_stay(tmp_path: Path, lines: list[str]) -> None:
    assert paths(read(tmp_path, "list.txt", "\n".join(lines))) == sorted(lines)


CONFIDENT = "OTU\tSize\tTaxonomy\n" + "".join(
    ['1\t9\ttool(100);"saw"(99);bow saw(98.5);\n', '2\t8\ttoy(100);"kite"(97);unclassified(97);\n']
)


@pytest.mark.parametrize("name", ["otus.cons.taxonomy", "otus.tsv", "otus.txt"])
def test_confidences_are_no_names(tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    assert paths(read(tmp_path, name, CONFIDENT)) == PLACES
    assert "confidences in brackets, quotes and 'unclassified' are no names" in caplog.text


def test_names_without_tabs(tmp_path: Path) -> None:
    with pytest.raises(TaxonomyError, match=r"line 2 has a tab, .*name the file \.tsv"):
        read(tmp_path, "list.txt", "saw\nbow saw\tx\nkite\n")


@pytest.mark.parametrize("name", ["words.tree", "words.txt"])
def test_numbers_of_the_lines_of_parents(tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    assert paths(read(tmp_path, name, "tool -1\nsaw 0\ntoy -1\nbow saw 1\nkite 2\n")) == PLACES
    assert "the number of its parent's line" in caplog.text
    assert paths(read(tmp_path, "list.txt", "saw 0\nkite 1\nbow saw 2\n")) == FLAT
