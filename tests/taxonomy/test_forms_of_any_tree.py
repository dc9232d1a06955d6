"""Any tree in the forms that others write is read as that tree: no level is lost and none invented."""

import csv
import io
import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeltree.errors import TaxonomyError
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.files.file_forms import entries_of_form
from labeltree.taxonomy.files.opened_file import OpenedFile

NAMES = st.text("abcä >;/|,0.'\"", min_size=1, max_size=5).filter(lambda name: name == name.strip())
WORDS = st.text("abcdef", min_size=2, max_size=4)


@st.composite
def small_trees(draw: Any, names: st.SearchStrategy[str]) -> list[tuple[str, int]]:
    """Nodes after their parents, each a name and the place of its parent; 0 is the root."""
    count = draw(st.integers(3, 9))
    taken = draw(st.lists(names, min_size=count, max_size=count, unique=True))
    parents = [draw(st.integers(0, max(node - 1, 0))) for node in range(count)]
    return [("root", -1), *((name, parents[node]) for node, name in enumerate(taken))]


def shape(names: list[str], parents: list[int]) -> set[tuple[str, ...]]:
    """The paths of all nodes below the root."""
    paths = set()
    for node, above in enumerate(parents):
        path = []
        while above != -1:
            path.append(names[node])
            node, above = above, parents[above]
        paths.add(tuple(reversed(path)))
    return paths - {()}


def as_table(header: list[str], rows: list[list[object]]) -> str:
    out = io.StringIO(newline="")
    csv.writer(out).writerows([header, *rows])
    return out.getvalue()


def paths_of(tree: list[tuple[str, int]]) -> list[list[str]]:
    paths: list[list[str]] = []
    for name, above in tree:
        paths.append([] if above == -1 else [*paths[above], name])
    return paths


def in_preorder(tree: list[tuple[str, int]], node: int = 0) -> list[int]:
    """The nodes below one, each before what is below it."""
    below = [child for child, (_, above) in enumerate(tree) if above == node]
    return [one for child in below for one in (child, *in_preorder(tree, child))]


def objects(tree: list[tuple[str, int]], node: int = 0) -> dict[str, Any]:
    below = [objects(tree, child) for child, (_, above) in enumerate(tree) if above == node]
    return {"name": tree[node][0], **({"children": below} if below else {})}


FORMS: dict[str, tuple[str, Callable[[list[tuple[str, int]]], str]]] = {
    "edges": (
        ".csv",
        lambda tree: as_table(
            ["id", "parent_id", "name"],
            [
                [f"n{node}", "" if above <= 0 else f"n{above}", name]
                for node, (name, above) in enumerate(tree)
            ][1:],
        ),
    ),
    "checklist": (
        ".csv",
        lambda tree: as_table(
            ["dwc:taxonID", "dwc:parentNameUsageID", "dwc:scientificName", "dwc:taxonomicStatus"],
            [
                [f"n{node}", "" if above <= 0 else f"n{above}", name, "accepted"]
                for node, (name, above) in enumerate(tree)
            ][1:],
        ),
    ),
    "records by parents": (
        ".json",
        lambda tree: json.dumps(
            [
                {"id": node, "name": name, "parent_id": None if above <= 0 else above}
                for node, (name, above) in enumerate(tree)
            ][1:]
        ),
    ),
    "records by children": (
        ".json",
        lambda tree: json.dumps(
            [
                {
                    "id": f"/m/{node}",
                    "name": name,
                    "child_ids": [f"/m/{c}" for c, (_, a) in enumerate(tree) if a == node],
                }
                for node, (name, _) in enumerate(tree)
            ]
        ),
    ),
    "objects": (".json", lambda tree: json.dumps(objects(tree))),
    "levels": (
        ".csv",
        lambda tree: as_table(
            ["level", "code", "title"],
            [[len(paths_of(tree)[node]), f"c{node}", tree[node][0]] for node in in_preorder(tree)],
        ),
    ),
    "headings": (
        ".md",
        lambda tree: "".join(
            f"{'#' * len(path)} {path[-1]}\n" if len(path) < 3 else f"{'  ' * (len(path) - 3)}- {path[-1]}\n"
            for path in map(paths_of(tree).__getitem__, in_preorder(tree))
        ),
    ),
    "lists": (".json", lambda tree: json.dumps([path for path in paths_of(tree) if path])),
    "nodes and links": (
        ".json",
        lambda tree: json.dumps(
            {
                "nodes": [{"id": f"n{node}", "name": name} for node, (name, _) in enumerate(tree)],
                "links": [
                    {"source": f"n{above}", "target": f"n{node}"} for node, (_, above) in enumerate(tree)
                ][1:],
            }
        ),
    ),
}


@pytest.mark.parametrize(("suffix", "write"), FORMS.values(), ids=FORMS)
@settings(max_examples=60)
@given(tree=small_trees(NAMES))
def test_any_names(
    suffix: str, write: Callable[[list[tuple[str, int]]], str], tree: list[tuple[str, int]]
) -> None:
    tops = sum(above == 0 for _, above in tree)
    has_links = any(above > 0 for _, above in tree)
    if tops == 1 or not has_links:  # one node is the root then, or there is nothing that refers to another
        return
    entries = entries_of_form(OpenedFile.from_text(write(tree), suffix))
    assert shape(list(entries.names), entries.parent()) == {tuple(path) for path in paths_of(tree)} - {()}
    assert entries.notes or suffix == ".csv"


LINES: dict[str, Callable[[list[tuple[str, int]]], str]] = {
    "is-a": lambda tree: "".join(f"{tree[above][0]} {name}\n" for name, above in tree[1:]),
    "is-a, child first": lambda tree: "".join(f"{name}\t{tree[above][0]}\n" for name, above in tree[1:]),
    "ids and paths": lambda tree: "".join(
        f"{node} - {' > '.join(path)}\n" for node, path in enumerate(paths_of(tree)) if path
    ),
    "arrows": lambda tree: "".join(f"{'>'.join(path)}\n" for path in paths_of(tree) if path),
    "adjacency": lambda tree: json.dumps(
        {name: below for node, (name, _) in enumerate(tree) if (below := [n for n, a in tree if a == node])}
    ),
    "child to parent": lambda tree: json.dumps({name: tree[above][0] for name, above in tree[1:]}),
}


@pytest.mark.parametrize("write", LINES.values(), ids=LINES)
@settings(max_examples=60)
@given(tree=small_trees(WORDS))
def test_words(write: Callable[[list[tuple[str, int]]], str], tree: list[tuple[str, int]]) -> None:
    """What is told from content alone is read as the tree, as something plainer, or refused."""
    text = write(tree)
    suffix = ".json" if text.startswith("{") else ".txt"
    expected = {tuple(path) for path in paths_of(tree)} - {()}
    try:
        entries = entries_of_form(OpenedFile.from_text(text, suffix))
    except TaxonomyError:
        return
    read = shape(list(entries.names), entries.parent())
    told = any("edge" in note or "key" in note or "path" in note for note in entries.notes)
    if told:
        assert read in (expected, {("root", *path) for path in expected} | {("root",)})
    else:  # lines as they stand, or keys above what they hold
        assert max(map(len, read)) <= (2 if suffix == ".json" else 9)


COMPOSED, DECOMPOSED = (unicodedata.normalize(form, "Bär") for form in ("NFC", "NFD"))
TWINS = {
    "lines.txt": f"{COMPOSED}/white\n{DECOMPOSED}/brown\n",
    "levels.csv": f"top,kind\n{COMPOSED},white\n{DECOMPOSED},brown\n",
    "edges.csv": f"child,parent\nroot,\n{COMPOSED},root\nwhite,{COMPOSED}\nbrown,{DECOMPOSED}\n",
    "rows.csv": "child,parent\n"
    + "".join(f"{name},root\n" for name in (COMPOSED, DECOMPOSED))
    + f"white,{COMPOSED}\nbrown,{DECOMPOSED}\n",
    "nested.json": f'{{"{COMPOSED}": ["white"], "{DECOMPOSED}": ["brown"]}}',
    "nested.yaml": f"{COMPOSED}: [white]\n{DECOMPOSED}: [brown]\n",
    "outline.txt": f"{COMPOSED}\n  white\n{DECOMPOSED}\n  brown\n",
}


@pytest.mark.parametrize("name", TWINS)
def test_accents_composed_and_decomposed_are_one_class(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / name).write_text(TWINS[name], encoding="utf-8")
    tree = Taxonomy.from_file(tmp_path / name)
    assert sorted(tree.names) == sorted(["root", COMPOSED, "white", "brown"])
    assert tree.encode([f"{DECOMPOSED}/white"]).tolist() == tree.encode([f"{COMPOSED}/white"]).tolist()
    assert "written in two ways that look the same" in caplog.text


def test_names_decomposed_throughout_stay_so_and_saved_twins_too(tmp_path: Path) -> None:
    tree = Taxonomy.from_paths([(DECOMPOSED, "white")])
    tree.save(tmp_path / "tree.txt")
    assert Taxonomy.from_file(tmp_path / "tree.txt") == tree
    twins = Taxonomy.from_paths([(COMPOSED, "white"), (DECOMPOSED, "brown")])
    twins.save(tmp_path / "twins.json")
    assert Taxonomy.from_file(tmp_path / "twins.json") == twins


def test_folders_composed_and_decomposed_are_one_class(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for folder in (f"{COMPOSED}/white", f"{DECOMPOSED}/brown"):
        (tmp_path / folder).mkdir(parents=True)
    if len(list(tmp_path.iterdir())) == 1:  # a file system that composes names itself
        return
    assert sorted(Taxonomy.from_folders(tmp_path).names) == sorted(["root", COMPOSED, "white", "brown"])
    assert "written in two ways that look the same" in caplog.text
