"""The texts of nodes, and names that say nothing."""

from pathlib import Path

import pytest

from labeltree.errors import TaxonomyError
from labeltree.taxonomy import Taxonomy, load_taxonomy
from labeltree.taxonomy.name_texts import IMAGE_TEMPLATE, check_words, is_code, name_texts

TREE = Taxonomy.from_paths(["animal/water_bird.n.01/tufted  duck", "stone"])


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{name}: {path}", ["tufted duck: animal, water bird", "stone"]),
        (IMAGE_TEMPLATE, ["a photo of a tufted duck, a kind of water bird", "a photo of a stone"]),
        ("{path}: {name}", ["animal, water bird: tufted duck", ": stone"]),
        ("only {name}!", ["only tufted duck!", "only stone"]),
    ],
)
def test_templates(template: str, expected: list[str]) -> None:
    assert name_texts(TREE, TREE.leaves.tolist(), template) == [(text,) for text in expected]


@pytest.mark.parametrize("template", ["", "a photo", "{name} {colour}", "{}"])
def test_templates_without_a_name_or_with_other_words_are_refused(template: str) -> None:
    with pytest.raises(ValueError, match=r"it holds \{name\}"):
        name_texts(TREE, TREE.leaves.tolist(), template)


def test_aliases_that_are_words_are_read_and_ids_are_not(tmp_path: Path) -> None:
    terms = [
        "id: CL:0000000\nname: cell",
        'id: CL:0000236\nname: B cell\nsynonym: "B lymphocyte" EXACT []\nis_a: CL:0000000',
    ]
    (tmp_path / "cells.obo").write_text("".join(f"[Term]\n{term}\n\n" for term in terms))
    tree = load_taxonomy(tmp_path / "cells.obo")
    assert name_texts(tree, [tree.find("B cell")], "{name}") == [("B cell", "B lymphocyte")]


def test_codes_and_too_few_classes_are_refused() -> None:
    assert [is_code(each) for each in ("A00.1", "n02084071", "-", "R2 D2", "水牛", "E. coli", "Type 2")] == [
        True, True, True, True, False, False, False,
    ]  # fmt: skip
    codes = Taxonomy.from_paths(["A00/A00.1", "A00/A00.2", "words"])
    with pytest.raises(TaxonomyError, match=r"2 of 3 classes have codes for names, such as 'A00\.1'"):
        check_words(codes, codes.leaves.tolist())
    check_words(TREE, TREE.leaves.tolist())
    for few, said in (([], "no class"), ([1], "one class")):
        with pytest.raises(TaxonomyError, match=said):
            check_words(TREE, few)
