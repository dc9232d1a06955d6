"""Taxonomies in JSON and YAML as programs write them: objects in objects, and siblings of one name."""

import json
from pathlib import Path

import pytest
from test_forms_by_content import PLACES, paths, read

from labeltree.api.taxonomies import open_labels
from labeltree.errors import TaxonomyError
from labeltree.taxonomy import Taxonomy, TaxonomyDAG, load_taxonomy

SAW = {"code": "s", "name": "saw", "children": {"b": {"code": "b", "name": "bow saw", "children": {}}}}
WRITTEN = {
    "children by their ids": {
        "t": {"code": "t", "name": "tool", "children": {"s": SAW}},
        "y": {"code": "y", "name": "toy", "children": {"k": {"code": "k", "name": "kite"}}},
    },
    "beside what is said of the file": {
        "metadata": {"version": 3},
        "content": [
            {"name": "tool", "type": 1, "children": [{"name": "saw", "children": [{"name": "bow saw"}]}]},
            {"name": "toy", "children": [{"name": "kite"}]},
        ],
    },
    "another word for each level": [
        {"name": "tool", "kinds": [{"name": "saw", "terms": ["bow saw"]}]},
        {"name": "toy", "kinds": [{"name": "kite"}]},
    ],
    "names in languages": {
        "data": [
            {"name": {"de": "Zeug", "en": "tool"}, "sorts": [{"name": {"en": "saw"}, "sorts": []}]},
            {"name": {"en": "toy"}, "sorts": [{"name": {"en": "kite"}}]},
        ]
    },
}


@pytest.mark.parametrize("suffix", [".json", ".yaml"])
@pytest.mark.parametrize("name", WRITTEN)
def test_fields_of_objects_are_no_classes(
    tmp_path: Path, name: str, suffix: str, caplog: pytest.LogCaptureFixture
) -> None:
    taxonomy = read(tmp_path, "tree" + suffix, json.dumps(WRITTEN[name]))
    assert paths(taxonomy) == [path for path in PLACES if "bow" not in path or "languages" not in name]
    assert "objects with 'name'" in caplog.text
    if "languages" in name:
        assert taxonomy.find("Zeug") == taxonomy.find("tool")
    if "ids" in name:
        assert taxonomy.find("b") == taxonomy.find("bow saw")


def test_synonyms_of_objects_are_no_children(tmp_path: Path) -> None:
    data = {"name": "tool", "children": [{"name": "saw", "translations": [{"name": "Säge"}]}]}
    assert paths(read(tmp_path, "tree.json", json.dumps(data))) == ["saw"]


@pytest.mark.parametrize(
    "data",
    [
        [{"name": "saw", "kind": "tool"}, {"name": "kite", "kind": "toy"}],
        {"nodes": [{"value": 1, "label": ["a"]}, {"value": 2, "label": ["b"]}]},
        {"edges": [{"from": 1, "to": 2}, {"from": 1, "to": 3}], "exact": True},
    ],
)
@pytest.mark.parametrize("suffix", [".json", ".yaml"])
def test_objects_of_which_nothing_says_what_is_below_what(tmp_path: Path, data: object, suffix: str) -> None:
    with pytest.raises(TaxonomyError, match=r"nothing says which are below which: .* each obj"):
        read(tmp_path, "tree" + suffix, json.dumps(data))


def test_numbers_below_names_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    read(tmp_path, "tree.json", json.dumps({"tool": {"saw": 12, "plane": 7}, "toy": {"kite": 3}}))
    assert "3 classes are numbers, such as '12' below 'saw'" in caplog.text
    caplog.clear()
    read(tmp_path, "years.json", json.dumps({"models": {"saw": ["2019", "2020"]}, "sizes": {"kite": "3"}}))
    assert "are numbers" not in caplog.text


TWINS = {
    "edges.csv": "id,parent_id,name\n1,,tool\n2,1,saw\n3,1,saw\n4,3,bow saw\n",
    "records.json": json.dumps(
        [
            {"id": 1, "name": "tool"},
            {"id": 2, "name": "saw", "parent_id": 1},
            {"id": 3, "name": "saw", "parent_id": 1},
            {"id": 4, "name": "bow saw", "parent_id": 3},
        ]
    ),
    "objects.json": json.dumps(
        {
            "name": "tool",
            "children": [
                {"id": 2, "name": "saw"},
                {"id": 3, "name": "saw", "children": [{"id": 4, "name": "bow saw"}]},
            ],
        }
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_siblings_of_one_name_have_their_ids(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    taxonomy = read(tmp_path, name, TWINS[name])
    assert paths(taxonomy) == ["saw (2)", "saw (3)", "saw (3)/bow saw"]
    assert "2 classes have the name of a sibling, and the id after it, such as 'saw (2)'" in caplog.text
    assert taxonomy.find("3") == taxonomy.find("saw (3)")


def test_siblings_of_one_name_without_ids_are_an_error(tmp_path: Path) -> None:
    data = {"name": "tool", "children": [{"name": "saw"}, {"name": "saw"}]}
    with pytest.raises(TaxonomyError, match="the root has two children named 'saw'"):
        read(tmp_path, "objects.json", json.dumps(data))


def test_numbers_of_taxa_are_no_vectors(tmp_path: Path) -> None:
    text = (
        "Taxon,Scientific name,Parent,Count\n10,Aves,1,4\n11,Parus,10,3\n12,Parus major,11,2\n1,Animalia,,4\n"
    )
    path = tmp_path / "taxa.csv"
    path.write_text(text, encoding="utf-8")
    taxonomy, nodes = open_labels(str(path))
    assert nodes is None
    assert paths(taxonomy) == ["Aves", "Aves/Parus", "Aves/Parus/Parus major"]
    assert isinstance(taxonomy, Taxonomy | TaxonomyDAG)
    assert paths(load_taxonomy(path)) == paths(taxonomy)
