"""Versions with ids: what was renamed, moved or merged is matched by id; numbers of a list are no ids."""

from pathlib import Path

import pytest

from labeltree.taxonomy import Taxonomy, TaxonomyMapping

Term = tuple[str, str, str | None]  # id, name, id of the parent
TERMS: list[Term] = [
    ("T:00", "cell", None),
    *[(f"T:{i:02d}", f"family {i}", "T:00") for i in range(1, 5)],
    *[(f"T:{4 * i + j + 1:02d}", f"type {i}{j}", f"T:{i:02d}") for i in range(1, 5) for j in range(4)],
]


def ontology(path: Path, terms: list[Term], more: str = "") -> Taxonomy:
    parts = [
        f"[Term]\nid: {id}\nname: {name}\n" + (f"is_a: {parent}\n" if parent else "")
        for id, name, parent in terms
    ]
    path.write_text("\n".join(["format-version: 1.2\n", *parts, more]), "utf-8")
    return Taxonomy.from_file(path)


def changes(old: Taxonomy, new: Taxonomy) -> dict[str, str]:
    """The new path of each old class whose path is another, or that is gone."""
    mapping, guesses = TaxonomyMapping.between(old, new)
    assert not guesses
    paths = {
        old.path_name(node): ", ".join(new.path_name(target) for target in mapping.targets[node])
        for node in range(1, old.num_nodes)
    }
    return {before: after for before, after in paths.items() if before != after}


def test_names_places_and_former_ids(tmp_path: Path) -> None:
    old = ontology(tmp_path / "old.obo", TERMS)
    now: list[Term] = []
    for id, name, parent in TERMS:
        if name == "type 10":
            now.append((id, "renamed", parent))
        elif name == "type 21":
            now.append((id, "moved and renamed", "T:03"))
        elif name != "type 33":
            now.append((id, name, parent))
    merged = "[Term]\nid: T:16\nname: type 33\nis_obsolete: true\nreplaced_by: T:15\n"
    assert {id for id, name, _ in TERMS if name in ("type 32", "type 33")} == {"T:15", "T:16"}
    assert changes(old, ontology(tmp_path / "new.obo", now, merged)) == {
        "family 1/type 10": "family 1/renamed",
        "family 2/type 21": "family 3/moved and renamed",
        "family 3/type 33": "family 3/type 32",
    }


def test_an_id_is_surer_than_a_name_elsewhere(tmp_path: Path) -> None:
    """A term gets another name, and a term in another family gets the one it had."""
    old = ontology(tmp_path / "old.obo", TERMS)
    now = [(id, "other name" if name == "type 10" else name, parent) for id, name, parent in TERMS]
    new = ontology(tmp_path / "new.obo", [*now, ("T:90", "type 10", "T:02")])
    assert changes(old, new) == {"family 1/type 10": "family 1/other name"}


def test_an_id_is_surer_than_a_name_that_another_class_has_now(tmp_path: Path) -> None:
    """A term is renamed and a new one takes its name and place; the other ids go on being ids."""
    old = ontology(tmp_path / "old.obo", TERMS)
    name_of = {"type 10": "acute 10", "type 22": "renamed"}
    now: list[Term] = [(id, name_of.get(name, name), parent) for id, name, parent in TERMS]
    new = ontology(tmp_path / "new.obo", [*now, ("T:90", "type 10", "T:01")])
    assert changes(old, new) == {
        "family 1/type 10": "family 1/acute 10",
        "family 2/type 22": "family 2/renamed",
    }
    without = [term for term in now if term[1] != "acute 10"]  # the old id is gone: the class has another one
    again = ontology(tmp_path / "again.obo", [*without, ("T:90", "type 10", "T:01")])
    assert changes(old, again) == {"family 2/type 22": "family 2/renamed"}


@pytest.mark.parametrize("named", ["type 10", "type 42"])
def test_numbers_that_are_counted_anew_match_nothing(tmp_path: Path, named: str) -> None:
    """A class is gone and another one is new at the front, so that every number is another class's."""
    old = ontology(tmp_path / "old.obo", TERMS)
    kept = [(name, parent) for _, name, parent in TERMS[1:] if name != named]
    number = {id: f"T:{place + 2:02d}" for place, (id, *_) in enumerate(TERMS[1:])} | {"T:00": "T:00"}
    counted: list[Term] = [("T:00", "cell", None), ("T:01", "family 0", "T:00")]
    counted += [
        (f"T:{place:02d}", name, number[parent or ""]) for place, (name, parent) in enumerate(kept, 2)
    ]
    new = ontology(tmp_path / "new.obo", counted)
    path = next(old.path_name(int(node)) for node in old.leaves if old.names[int(node)] == named)
    assert changes(old, new) == {path: path.partition("/")[0]}  # it is gone


@pytest.mark.parametrize("shared", [0, 9])
def test_numbers_of_other_lists_match_nothing(tmp_path: Path, shared: int) -> None:
    """Two lists of classes that have few names in common, or none, and the same numbers."""
    lists = []
    for which in ("one", "other"):
        path = tmp_path / f"{which}.txt"
        names = [f"{'same' if place < shared else which} {place}x" for place in range(40)]
        path.write_text("".join(f"{place} {name}\n" for place, name in enumerate(names)), "utf-8")
        lists.append(Taxonomy.from_file(path))
    old, new = lists
    assert old.aliases[1] == ("0",)
    mapping, guesses = TaxonomyMapping.between(old, new)
    assert not guesses
    assert sum(bool(targets) and targets[0] > 0 for targets in mapping.targets) == shared


def test_numbers_that_are_kept_are_ids(tmp_path: Path) -> None:
    old, new = tmp_path / "old.txt", tmp_path / "new.txt"
    old.write_text("".join(f"{place} class {place}x\n" for place in range(40)), "utf-8")
    new.write_text(old.read_text("utf-8").replace("class 7x", "seventh"), "utf-8")
    assert changes(Taxonomy.from_file(old), Taxonomy.from_file(new)) == {"class 7x": "seventh"}


def test_a_reused_name_is_found_in_a_large_ontology(tmp_path: Path) -> None:
    """More classes than are asked whether ids are kept: the one whose name is another's is not among them."""
    terms = [*TERMS, *((f"T:{place}", f"type {place}", "T:02") for place in range(100, 1600))]
    old = ontology(tmp_path / "old.obo", terms)
    now: list[Term] = [(id, "renamed" if id == "T:105" else name, parent) for id, name, parent in terms]
    new = ontology(tmp_path / "new.obo", [*now, ("T:2000", "type 105", "T:02")])
    assert changes(old, new) == {"family 2/type 105": "family 2/renamed"}
