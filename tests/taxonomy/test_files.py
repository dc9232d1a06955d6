# ruff: noqa: E501 - a table of broken files reads best with one case a line
import gzip
import json
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from slow_trees import Rows, trees

from labeltree.errors import WriteError
from labeltree.taxonomy import Taxonomy, TaxonomyError, load_taxonomy
from labeltree.taxonomy.files.edge_tables import is_edge_table
from labeltree.taxonomy.forms import read_form

SUFFIXES = [".json", ".yaml", ".yml", ".csv", ".tsv", ".txt"]
KEEPS_THE_ROOT = [".json", ".csv", ".tsv"]


@given(rows=trees())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_saved_is_read_back(tmp_path: Path, rows: Rows) -> None:
    tree = Taxonomy(rows.names, rows.parents)
    for suffix in SUFFIXES:
        file = tmp_path / f"tree{suffix}"
        tree.save(file)
        root_name = "root" if suffix in KEEPS_THE_ROOT else tree.names[0]
        assert Taxonomy.from_file(file, root_name=root_name) == tree
    assert sorted(os.listdir(tmp_path)) == sorted(f"tree{suffix}" for suffix in SUFFIXES)


def test_what_people_write(tmp_path: Path) -> None:
    expected = Taxonomy.from_paths(["animal/mammal/dog", "animal/mammal/cat", "animal/fish", "plant"])
    edges = "root,animal\nanimal,mammal\nmammal,dog\nmammal,cat\nanimal,fish\nroot,plant\n"
    depths = "animal,mammal,dog\r\nanimal, mammal ,cat\r\nanimal,fish,\r\nplant\r\n"
    written = {
        "nested.yaml": "animal:\n  mammal: [dog, cat]\n  fish:\nplant: ~\n",
        "list.yml": "- animal:\n  - mammal:\n    - dog\n    - cat\n  - fish\n- plant  # green\n",
        "nested.json": '{"animal": {"mammal": ["dog", "cat"], "fish": null}, "plant": []}',
        "edges.csv": "Parent,Child\n" + edges,
        "edges.tsv": "\nPARENT\tCHILD\n\n" + edges.replace(",", "\t"),
        "named.csv": "child,parent,name\n9,,root\n1,9,animal\n2,1,mammal\n3,2,dog\n4,2,cat\n5,1,fish\n6,9,plant",
        "depths.csv": "\ufeffkingdom, class, species\r\n" + depths,
        "depths.TSV": "kingdom;class;species;\n" + depths.replace(",", ";"),
        "paths.txt": "\ufeffanimal/mammal/dog\r\n\r\nanimal/mammal/cat\r\n/animal/fish\r\nplant",
    }
    for name, text in written.items():
        (tmp_path / name).write_text(text, encoding="utf-8", newline="")
        assert Taxonomy.from_file(tmp_path / name) == expected, name


def test_names_stay_as_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text('no: [1.0, 007, 2024-01-01, "null", yes]\n"~": 0x10\n')
    tree = Taxonomy.from_file(tmp_path / "t.yaml")
    assert tree.names == ["root", "no", "1.0", "007", "2024-01-01", "null", "yes", "~", "0x10"]


def test_the_outermost_name_as_the_root(tmp_path: Path) -> None:
    expected = Taxonomy.from_paths(["dog", "cat"], root_name="animal")
    for name, text in {
        "t.yaml": "animal: [dog, cat]",
        "t.txt": "animal/dog\nanimal/cat",
        "t.csv": "a,b\nanimal,dog\nanimal,cat",
    }.items():
        (tmp_path / name).write_text(text)
        assert Taxonomy.from_file(tmp_path / name, root_name=None) == expected
    (tmp_path / "e.csv").write_text(
        "child,parent\ndog,animal\ncat,animal\n"
    )  # a table of edges has its own root
    assert Taxonomy.from_file(tmp_path / "e.csv", root_name=None) == expected


SAVED = '{"format": "labeltree taxonomy", "version": %s, "names": %s, "parents": %s}'
BROKEN = {
    "twice.yaml": ("a:\n- b\n- b\n", "line 3: 'a' has two children named 'b'; names may repeat, but not under one parent"),
    "key.yaml": ("a: x\nb: y\na: z\n", "line 3: the root has two children named 'a'; names may repeat, but not under one parent"),
    "open.yaml": ("a: [b\nc: d\n", "line 2: not readable as YAML: did not find expected ',' or ']'"),
    "tab.yaml": ("a:\n\tb:\n", "line 2: not readable as YAML: found character that cannot start any token"),
    "bell.yaml": ("a: \x07\n", "not readable as YAML: control characters are not allowed"),
    "alias.yaml": ("a: &x [b]\nc: *x\n", "line 2: the alias *x stands for a subtree; write it out"),
    "documents.yaml": ("a: b\n---\nc: d\n", "line 2: a second document begins; a taxonomy is one"),
    "list.yaml": ("a:\n- [b]\n", "line 2: a list stands within a list (below 'a'): its node has no name"),
    "key of keys.yaml": ("? {a: b}\n: c\n", "line 1: a mapping or list cannot be a name (below the root)"),
    "empty item.yaml": ("- a\n-\n- b\n", "line 2: a node below the root has an empty name; every node needs one"),
    "scalar.yaml": ("a\n", "line 1: expected nested names, a mapping or a list, found only 'a'"),
    "comment.yaml": ("# to do\n", "there are no names; give at least one"),
    "broken.json": ('{"a":\n ["b",]}', "line 2: not readable as JSON: {json}"),
    "key.json": ('{"a": 1, "a": 2}', "the root has two children named 'a'; names may repeat, but not under one parent"),
    "bool.json": ('{"a": true}', "True is of type bool, expected a name; put it in quotes"),
    "deep.json": ("[" * 100_000 + "]" * 100_000, "nested too deeply for JSON; write the tree as edges, a .csv of child,parent"),
    "newer.json": (SAVED % (2, "[]", "[]"), "the taxonomy was saved in version 2 of the format, this labeltree reads up to 1; install a newer one"),
    "version.json": (SAVED % ('"x"', "[]", "[]"), "the saved taxonomy has version='x', expected an integer from 1 to 1"),
    "names.json": (SAVED % (1, "[1]", "[-1]"), "the saved taxonomy is damaged: 'names' is not a list of strings"),
    "parents.json": (SAVED % (1, '["a"]', "[null]"), "the saved taxonomy is damaged: 'parents' is not a list of integers"),
    "lengths.json": (SAVED % (1, '["a"]', "[-1, 0]"), "there are 1 names for 2 parents; every node needs one entry of each"),
    "cycle.json": (SAVED % (1, '["a", "b"]', "[1, 0]"), "the parents form a cycle, 'a' -> 'b' -> 'a'; remove one of these edges"),
    "parent.json": (SAVED % (1, '["a", "b"]', "[-1, 5]"), "node 'b' has the unknown parent 5: there are 2 nodes"),
    "cycle.csv": ("child,parent\na,b\nb,a\n", "the parents form a cycle, 'a' -> 'b' -> 'a'; remove one of these edges"),
    "parents.csv": ("child,parent\n\na,b\na,c\n", "node 'a' has two parents, 'b' (line 3) and 'c' (line 4); a tree has one path to each node: remove one of the edges, or let 'labeltree taxonomy project' (TaxonomyDAG.project) choose"),
    "edge.csv": ("child,parent\na,b\na,b\n", "the edge from 'a' to its parent 'b' is given twice, by line 2 and line 3; remove one"),
    "unknown.csv": ("child,parent\nroot,\na,rot\n", "line 3 has the unknown parent 'rot': nothing says what is above it (nearest: 'root')"),
    "child.csv": ("child,parent\n,b\n", "line 2, ('', 'b'), has an empty name; every node needs one"),
    "columns.csv": ("child,parent,count\na,b,3\n", "a table of edges has the columns child, parent and perhaps name, not child, parent, count"),
    "unnamed.csv": ("child,parent,name\n1,0,a\n", "the node '0' has no name: names has no entry for it"),
    "gap.csv": ("order,species\n,dog\n", "line 2, (None, 'dog'), has a gap at depth 1; only the finest names may be missing"),
    "cells.csv": ("order,species\na,b\na,b,c\n", "line 3 has 3 cells for 2 columns"),
    "header.csv": ("animal,dog\nanimal,cat\nanimal,dog\n", "line 1 reads like data: 'animal' stands below it again; name the columns in line 1"),
    "one line.csv": ("order,species\n", "there is only one line; the first names the columns, the tree follows below"),
    "quote.csv": ('order,species\n"a,b\n', "line 2: not readable as a table: unexpected end of data"),
    "blank.txt": (" \n", "the file is empty"),
    "hole.txt": ("a/b\na//b\n", "line 2, 'a//b', has an empty name; every node needs one"),
    "root.txt": ("a\n\n/\n", "line 3 is empty; a path holds the names from depth 1 down to a node"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_name_the_file_the_line_and_the_reason(tmp_path: Path, name: str) -> None:
    text, sentence = BROKEN[name]
    if "{json}" in sentence:  # Python's own words, which differ between its versions
        with pytest.raises(json.JSONDecodeError) as unreadable:
            json.loads(text)
        sentence = sentence.format(json=unreadable.value.msg)
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(TaxonomyError) as caught:
        Taxonomy.from_file(tmp_path / name)
    assert str(caught.value) == f"{tmp_path / name}: {sentence}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id,shop,label\n1,A,x\n2,B,x\n3,A,y\n", "'id' is different in every row while 'shop' repeats"),
        (
            "id,label\n1,a > b > c\n2,a > b > d\n3,a > b > d\n",
            "'label' holds whole paths, .* say --column 'label'",
        ),
        (
            "nr,Dateiname,group,who\n1,a/1.jpg,A > B > x,K\n2,a/2.JPG,A > C > y,K\n3,a/3.jpg,A > B > x,K\n",
            "'group' holds whole paths, such as 'A > B > x': say --column 'group'",
        ),
    ],
)
def test_tables_of_samples_are_not_read_as_depths(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "samples.csv").write_text(text, encoding="utf-8")
    with pytest.raises(TaxonomyError, match=said):
        Taxonomy.from_file(tmp_path / "samples.csv")
    if "column 'label'" in said:
        found = read_form(tmp_path / "samples.csv", "breadcrumbs", column="label")
        assert found == Taxonomy.from_paths([("a", "b", "c"), ("a", "b", "d")])


def test_names_of_image_files_are_no_level(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = "Art,Dateiname\nA,a/x.jpg\nB,a/y.JPG\nA,b/z.jpg\nB,q.jpg\n"
    (tmp_path / "pictures.csv").write_text(text, encoding="utf-8")
    assert Taxonomy.from_file(tmp_path / "pictures.csv") == Taxonomy.from_paths(["A", "B"])
    assert "left out: 'Dateiname', whose cells name image files" in caplog.text


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "cyrillic.txt").write_bytes("собака\nкошка\n".encode("koi8-r"))
    with pytest.raises(
        TaxonomyError, match=r"cyrillic.txt: line 1 is not UTF-8 \(byte 0xd3\), .* save it as"
    ):
        Taxonomy.from_file(tmp_path / "cyrillic.txt")
    with pytest.raises(TaxonomyError, match=r"none.json: there is no such file"):
        Taxonomy.from_file(tmp_path / "none.json")
    Taxonomy.from_paths(["a/x", "a/y"]).save(tmp_path / "taxonomy.json")
    assert load_taxonomy(tmp_path).num_nodes == 4, "the folder of a run"
    (tmp_path / "taxonomy.json").unlink()
    with pytest.raises(TaxonomyError, match=r"is a folder, not a file; Taxonomy.from_folders"):
        Taxonomy.from_file(tmp_path)
    with pytest.raises(
        TaxonomyError, match=r"the suffix is '.xyz', expected one of .json, .jsonld, .dmp, .zip"
    ):
        Taxonomy.from_file(tmp_path / "tree.xyz")


def test_encodings_and_packings_are_read_with_a_note(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tree = Taxonomy.from_paths(["dog", "café"])
    (tmp_path / "latin.txt").write_bytes(b"dog\ncaf\xe9\n")
    assert Taxonomy.from_file(tmp_path / "latin.txt") == tree
    assert "latin.txt: it is not UTF-8 and was read as cp1252" in caplog.text
    (tmp_path / "utf16.csv.gz").write_bytes(gzip.compress("name\r\ndog\r\ncafé\r\n".encode("utf-16")))
    assert Taxonomy.from_file(tmp_path / "utf16.csv.gz") == tree


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_save_leaves_the_old_file(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tree.json"
    old, new = Taxonomy.from_paths(["a"]), Taxonomy.from_paths(["b"])
    old.save(file)

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, step, full)
        with pytest.raises(WriteError, match=r"cannot write '.*tree.json': no space left on device"):
            new.save(file)
    assert Taxonomy.from_file(file) == old
    assert os.listdir(tmp_path) == ["tree.json"]
    new.save(file)
    assert Taxonomy.from_file(file) == new


def test_places_that_cannot_be_saved_to(tmp_path: Path) -> None:
    tree = Taxonomy.from_paths(["a"])
    with pytest.raises(TaxonomyError, match=r"cannot save 'a.json': the folder '.*nowhere' does not exist"):
        tree.save(tmp_path / "nowhere" / "a.json")
    with pytest.raises(
        TaxonomyError, match=r"cannot save a taxonomy as 'a.xml': the suffix is '.xml', expected one of"
    ):
        tree.save(tmp_path / "a.xml")
    with pytest.raises(
        TaxonomyError, match=r"the name 'aaa.* is too long for YAML; save the taxonomy as .json"
    ):
        Taxonomy.from_paths(["a" * 2000]).save(tmp_path / "a.yaml")
    assert os.listdir(tmp_path) == []


def test_the_saved_form_is_plain_data() -> None:
    tree = Taxonomy.from_paths(["a/b", "c"])
    document = tree.to_dict()
    assert document == {
        "format": "labeltree taxonomy",
        "version": 1,
        "names": ["root", "a", "b", "c"],
        "parents": [-1, 0, 1, 0],
    }
    assert Taxonomy.from_dict(json.loads(json.dumps(document))) == tree
    document["names"].append("changed")
    assert tree.names == ["root", "a", "b", "c"]
    with pytest.raises(
        TaxonomyError, match="this is not a saved taxonomy: its 'format' is not 'labeltree taxonomy'"
    ):
        Taxonomy.from_dict({"names": ["a"]})


def test_saved_text_is_readable_by_people(tmp_path: Path) -> None:
    tree = Taxonomy.from_paths(["animal/dog", "animal/größer", "no"])
    for suffix in (".json", ".yaml", ".csv", ".txt"):
        tree.save(tmp_path / f"t{suffix}")
    assert (tmp_path / "t.yaml").read_text("utf-8") == 'animal:\n  dog:\n  "größer":\n"no":\n'
    assert (tmp_path / "t.csv").read_text(
        "utf-8"
    ) == "child,parent\nroot,\nanimal,root\ndog,animal\ngrößer,animal\nno,root\n"
    assert (tmp_path / "t.txt").read_text("utf-8") == "animal/dog\nanimal/größer\nno\n"
    assert "größer" in (tmp_path / "t.json").read_text("utf-8")


MARKED = st.text(st.sampled_from("ab5#>:|/\\› "), min_size=1, max_size=6).map(str.strip).filter(bool)


@given(st.lists(st.lists(MARKED, min_size=1, max_size=3).map(tuple), min_size=1, max_size=5))
@settings(max_examples=40)
@example([("a > 5",), ("a > 6",), ("a",)])
@example([("std::vector",), ("std::map",)])
@example([(">>5",)])
@example([("# Google_Product_Taxonomy_Version: 1",), ("a > b",)])
def test_lines_of_names_with_marks_read_back(paths: list[tuple[str, ...]]) -> None:
    tree = Taxonomy.from_paths(paths)
    with tempfile.TemporaryDirectory() as folder:
        tree.save(Path(folder) / "tree.txt")
        again = Taxonomy.from_file(Path(folder) / "tree.txt")
    assert again == tree


def test_tables_of_samples_are_no_edges() -> None:
    assert not is_edge_table(["id", "parent_id", "description", "label"])
    assert not is_edge_table(["child", "parent", "text", "label"])
    assert is_edge_table(["id", "parent_id", "name", "description"])
    assert is_edge_table(["category_id", "parent_category_id", "category", "description"])


@pytest.mark.parametrize("last", ["depth3", "Level 3"])
def test_numbers_are_names_in_columns_called_levels(tmp_path: Path, last: str) -> None:
    rows = [("animal", "cat", 1), ("animal", "cat", 2), ("animal", "dog", 3), ("plant", "tree", 4)]
    names = [last[:-1] + digit for digit in "123"]
    path = tmp_path / "levels.csv"
    path.write_text("\n".join(",".join(map(str, row)) for row in [names, *rows]), encoding="utf-8")
    assert Taxonomy.from_file(path).max_depth == 3


_PRODUCTS = [
    (department, category, f"{category} {number}", str(10_000 + number), f"{3 + 1.37 * number:.2f}")
    for number, (department, category) in enumerate(
        [("Clothing", "Shoes"), ("Clothing", "Shirts"), ("Kitchen", "Pots"), ("Kitchen", "Knives")] * 3
    )
]


@pytest.mark.parametrize(
    ("names", "depth", "said"),
    [
        (
            ["Division", "Group", "", "SKU", "Price"],
            2,
            "left out: 'SKU' and 'Price', whose cells are numbers",
        ),
        (["Division", "Group", "", "SKU", "Msrp"], 2, "Division > Group are levels"),
        (["Division", "Group", "Product", "SKU", "Price"], 3, "'SKU' as further names"),
        (["Division", "Group", "Product", "", "Price"], 3, "left out: 'Price'"),
    ],
)
def test_prices_and_article_numbers_are_no_levels(
    tmp_path: Path, names: list[str], depth: int, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Numbers of which each row has another, and quantities: what is left out is said."""
    places = [place for place, name in enumerate(names) if name]
    lines = [",".join(row[place] for place in places) for row in [tuple(names), *_PRODUCTS]]
    (tmp_path / "products.csv").write_text("\n".join(lines))
    with caplog.at_level("INFO", "labeltree"):
        assert Taxonomy.from_file(tmp_path / "products.csv").max_depth == depth
    assert said in caplog.text


def test_years_and_codes_are_levels(tmp_path: Path) -> None:
    """Whole numbers that repeat are names of classes, and codes with dots lie below one parent each."""
    (tmp_path / "cars.csv").write_text(
        "Make,Model,Year\n" + "\n".join(f"{m},{m}{k},{y}" for m in "AB" for k in "xy" for y in (2012, 2013))
    )
    assert Taxonomy.from_file(tmp_path / "cars.csv").max_depth == 3
