"""Ontologies in OBO format: terms, ids and synonyms that find them, and what is wrong with a file."""

import re
from pathlib import Path

import numpy as np
import pytest

import labeltree as lt
from labeltree.cli.main import main
from labeltree.errors import TaxonomyError
from labeltree.taxonomy import Taxonomy, TaxonomyDAG, TaxonomyMapping
from labeltree.taxonomy.files.obo import entries_from_obo
from labeltree.taxonomy.versions.between_versions import LabelsOfBoth

CELLS = r"""format-version: 1.2
data-version: releases/2026-01-31
synonymtypedef: PLURAL "plural: of a \"term\""

[Term]
id: CL:0000738
name: leukocyte
synonym: "white blood cell" EXACT []

[Term]
id: CL:0000542 ! a comment
name: lymphocyte
def: "A leukocyte." [GOC:add]
is_a: CL:0000738 {is_inferred="true"} ! leukocyte
is_a: CL:0000738 ! leukocyte
is_a: GO:0005737 ! in an ontology that is not here

[Term]
id: CL:0000084
name: T cell
alt_id: CL:0000804
synonym: "T lymphocyte" EXACT [GOC:add]
synonym: "T\-cell" RELATED []
is_a: CL:0000542 ! lymphocyte
relationship: part_of CL:0009999 ! ignored

[Term]
id: CL:0000624
name: CD4\-positive, alpha\:beta T cell {source="x"} ! the helper
is_a: CL:0000084

[Term]
id: CL:0000001
name: obsolete old T cell
alt_id: CL:0000002
is_obsolete: true
replaced_by: CL:0000003

[Term]
id: CL:0000003
name: obsolete T cell
is_obsolete: true
replaced_by: CL:0000084

[Typedef]
id: part_of
name: part of
is_transitive: true
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "cells.obo"
    path.write_text(text, encoding="utf-8")
    return path


def test_terms_make_a_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, CELLS.replace("\n", "\r\n"))
    tree = lt.load_taxonomy(file)
    names = ["leukocyte", "lymphocyte", "T cell", "CD4-positive, alpha:beta T cell"]
    assert isinstance(tree, lt.Taxonomy)
    assert (tree.names, tree.release) == (names, "releases/2026-01-31")
    assert tree == lt.Taxonomy.from_file(file)
    assert main(["taxonomy", "show", str(file)]) == 0
    assert "T cell" in capsys.readouterr().out


def test_ids_and_exact_synonyms_find_the_node(tmp_path: Path) -> None:
    tree = lt.Taxonomy.from_file(written(tmp_path, CELLS))
    called = ["T cell", "CL:0000084", "CL:0000804", "T lymphocyte", "CL:0000001", "CL:0000002", "CL:0000003"]
    assert tree.decode(tree.encode(called)) == ["lymphocyte/T cell"] * 7
    assert tree.find("white blood cell") == 0
    for label in ("T-cell", "GO:0005737", "part_of"):
        with pytest.raises(TaxonomyError, match="is not in the taxonomy"):
            tree.find(label)
    tree.save(tmp_path / "cells.json")
    again = lt.Taxonomy.from_file(tmp_path / "cells.json")
    assert (again, again.aliases, again.release) == (tree, tree.aliases, tree.release)
    part, _ = lt.TaxonomyDAG.from_tree(tree).below(tree.find("T cell"))
    assert part.names[part.find("CL:0000624")] == tree.names[3]
    mapping, _ = TaxonomyMapping.between(lt.Taxonomy(tree.names, tree.parent.tolist()), tree)
    assert LabelsOfBoth(mapping).taxonomy.find("CL:0000804") == tree.find("T cell")


def test_a_synonym_of_two_terms_is_ambiguous_and_a_name_is_not() -> None:
    terms = "".join(
        f'[Term]\nid: X:{n}\nname: {name}\nis_a: X:0\nsynonym: "same" EXACT []\nsynonym: "b" EXACT []\n'
        for n, name in ((1, "a"), (2, "b"))
    )
    tree = lt.TaxonomyDAG._of(entries_from_obo(f"[Term]\nid: X:0\nname: top\n{terms}", "root", True))
    assert tree.find("b") == tree.find("X:2")
    with pytest.raises(TaxonomyError, match="'same' is ambiguous, it may be 'a' and 'b'"):
        tree.find("same")


def test_several_parents_make_a_dag(tmp_path: Path) -> None:
    extra = "\n[Term]\nid: CL:9\nname: both\nis_a: CL:0000084\nis_a: CL:8\n\n[Term]\nid: CL:8\nname: other\n"
    file = written(tmp_path, CELLS + extra)
    dag = lt.load_taxonomy(file)
    assert isinstance(dag, lt.TaxonomyDAG)
    assert dag.names[0] == "root", "above several terms without a parent"
    assert {dag.names[parent] for parent in dag.parents(dag.find("CL:9"))} == {"T cell", "other"}
    sentence = r"cells.obo: node 'CL:9' has two parents, .*'labeltree taxonomy project'"
    with pytest.raises(TaxonomyError, match=sentence):
        lt.Taxonomy.from_file(file)
    assert main(["taxonomy", "project", str(file), "--out", str(tmp_path / "tree.json")]) == 0
    tree = lt.Taxonomy.from_file(tmp_path / "tree.json")
    assert tree.path_name(tree.find("CL:9")) == "other/both"
    assert tree.find("T lymphocyte") == tree.find("CL:0000804")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("id: CL:0000624", "id: CL:0000084", r"line 27: CL:0000084 is defined in line 18; remove"),
        (
            "is_a: CL:0000084\n",
            "is_a: CL:0000999\n",
            r"line 30: CL:0000624 is_a CL:0000999, which no",
        ),
        ("is_a: CL:0000084\n", "is_a: CL:0000003\n", r"which is obsolete; it is replaced by CL:0000084"),
        (
            "is_a: CL:0000084\n",
            "is_a: CL:0000084 CL:1\n",
            r"line 30: is_a is 'CL:0000084 CL:1', expected",
        ),
        ("is_a: CL:0000084\n", "is_a CL\n", r"line 30: 'is_a CL' is neither 'tag: value' nor a stanza"),
        ("id: CL:0000624\n", "", r"line 27: a \[Term\] has no id"),
        ("id: CL:0000624\n", "id: CL:0000624\nid: CL:5\n", r"line 29: a second id in a \[Term\]"),
        ('"T lymphocyte" EXACT', "T lymphocyte EXACT", r"line 22: synonym has no text in double quotes"),
        ("name: lymphocyte", "name: ", r"line 12 has an empty name"),
        ("name: leukocyte\n", "name: leukocyte\nis_a: CL:0000084\n", r"form a cycle, .*'T cell' -> 'lympho"),
        ("[Term]", "[Instance]", r"there is no stanza \[Term\] of a term that is not obsolete"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in CELLS
    with pytest.raises(TaxonomyError, match=message):
        lt.load_taxonomy(written(tmp_path, CELLS.replace(old, new)))


def test_replacements_in_a_circle_end() -> None:
    text = "[Term]\nid: X:{}\nis_obsolete: true\nreplaced_by: X:{}\n"
    entries = entries_from_obo(
        "[Term]\nid: X:0\n[Term]\nid: X:1\nis_a: X:0\n" + text.format(2, 3) + text.format(3, 2), "root", False
    )
    assert list(entries.names) == ["X:0", "X:1"]


def test_damaged_aliases_are_refused(tmp_path: Path) -> None:
    tree = lt.Taxonomy.from_file(written(tmp_path, CELLS))
    for aliases in ([["x"]], ["x"] * 4, {"x": 1}):
        with pytest.raises(TaxonomyError, match="'aliases' is not a list of strings for each node"):
            lt.Taxonomy.from_dict({**tree.to_dict(), "aliases": aliases})


def _term(id: str, name: str, *tags: str) -> str:
    return "\n".join(["[Term]", f"id: {id}", f"name: {name}", *tags, ""])


OLD = [
    _term("X:1", "cell"),
    _term("X:2", "big cell", "is_a: X:1"),
    _term("X:3", "round cell", "is_a: X:2"),
    _term("X:4", "flat cell", "is_a: X:2"),
]
NEW = [
    *OLD[:2],
    _term(
        "X:3", "obsolete round cell", "is_obsolete: true", *(f"consider: X:{n} ! a cell" for n in (5, 6, 7))
    ),
    _term("X:4", "obsolete flat cell", "is_obsolete: true", "replaced_by: X:6"),
    _term("X:5", "ball", "is_a: X:1"),
    _term("X:6", "disc", "is_a: X:2"),
    _term("X:7", "obsolete sphere", "is_obsolete: true", "replaced_by: X:5"),
]


@pytest.mark.parametrize("through_a_tree", [False, True])
def test_what_to_consider_is_suggested_and_never_taken(tmp_path: Path, through_a_tree: bool) -> None:
    """`consider` names alternatives, of which a person chooses; only `replaced_by` is certain."""
    old, new = tmp_path / "old.obo", tmp_path / "new.obo"
    old.write_text("\n".join(OLD))
    new.write_text("\n".join(NEW))
    if through_a_tree:  # most ontologies are DAGs, of which a tree is made first
        tree, _ = TaxonomyDAG.from_file(new).project("odir")
        new = tmp_path / "new.json"
        tree.save(new)
    guesses = lt.diff_taxonomies(str(old), str(new)).guesses
    assert [guess.change.kind for guess in guesses] == ["move", "merge", "split"]
    assert all(guess.suggested for guess in guesses)
    assert all("says to consider this one, or 1 other" in guess.reason for guess in guesses[:2])
    assert guesses[2].reason == "or these 2 divide its samples among them"
    shown = str(lt.diff_taxonomies(str(old), str(new)))
    assert shown.startswith("old: ")
    assert f"  {guesses[2].change}  ({guesses[2].reason})" in shown.splitlines()
    file = tmp_path / "changes.yaml"
    lt.map_taxonomies(str(old), str(new), out=file, accept=True)
    before = file.read_text()
    lines = [line for line in before.splitlines() if "to consider this one" in line]
    assert len(lines) == 2
    assert all(line.startswith("# - {") for line in lines), "not even --accept takes one"
    trees = Taxonomy.from_file(old), Taxonomy.from_file(new)

    def place(name: str) -> str:
        mapping = TaxonomyMapping.load(file, old=trees[0], new=trees[1])
        return trees[1].names[int(mapping.nodes[trees[0].find(name)])]

    assert place("flat cell") == "disc"
    assert place("round cell") == "big cell", "it is removed until somebody decides"
    for line, name in zip(lines, ("ball", "disc"), strict=True):
        file.write_text(before.replace(line, line.removeprefix("# ")))
        assert place("round cell") == name
    (divided,) = [line for line in before.splitlines() if "divide its samples" in line]
    file.write_text(before.replace(divided, divided.removeprefix("# ")))
    assert place("round cell") == "cell", "which of both is open, and they lie below two parents"
    with pytest.raises(TaxonomyError, match=r"a mapping is YAML.*name it 'changes.yaml'"):
        lt.map_taxonomies(str(old), str(new), out=file.with_suffix(".csv"))


@pytest.mark.parametrize("saved", [False, True])
def test_labels_of_obsolete_terms_are_told_what_to_consider(tmp_path: Path, saved: bool) -> None:
    file = tmp_path / "new.obo"
    file.write_text("\n".join(NEW))
    tree = lt.Taxonomy.from_file(file)
    if saved:
        tree.save(tmp_path / "new.json")
        tree = lt.Taxonomy.from_file(tmp_path / "new.json")
    assert tree.names[tree.find("X:4")] == "disc", "the id of a replaced term is its successor's"
    both = "obsolete: the taxonomy names 'ball' or 'big cell/disc' instead"
    for label, said in (
        ("X:3", both),
        ("round cell", both),
        ("flat cell", "obsolete: the taxonomy names 'big cell/disc' instead"),
    ):
        with pytest.raises(
            TaxonomyError, match=re.escape(f"label {label!r} is not in the taxonomy ({said})")
        ):
            tree.find(label)
    table = tmp_path / "cells.npz"
    np.savez(table, embeddings=np.eye(4), labels=np.array(["X:3", "ball", "disc", "ball"]))
    with pytest.raises(TaxonomyError, match=re.escape(f"'X:3' (1 sample; {both})")):
        lt.evaluate(embeddings=table, taxonomy=file)
