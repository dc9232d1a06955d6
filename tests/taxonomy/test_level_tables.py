"""Tables with a level a column: which columns are levels, in which order, and what notes say."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labeltree as lt
from labeltree.api.taxonomies import open_taxonomy
from labeltree.errors import TaxonomyError
from labeltree.taxonomy import AnyTaxonomy, load_taxonomy
from labeltree.taxonomy.files.file_forms import entries_of_form
from labeltree.taxonomy.files.opened_file import OpenedFile

ANIMALS = ["Animals", "Animals/Cat", "Animals/Dog", "Plants", "Plants/Oak"]


def read(folder: Path, text: str, name: str = "levels.csv") -> AnyTaxonomy:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return load_taxonomy(path)


def paths(taxonomy: AnyTaxonomy) -> list[str]:
    return sorted(taxonomy.path_name(node) for node in range(1, taxonomy.num_nodes))


TABLES = {
    "descriptions": (
        "Category,Subcategory,Description",
        "Animals,Cat,small; Animals,Dog,big; Plants,Oak,tall",
        "left out: 'Description'",
    ),
    "links": (
        "category,subcategory,url",
        "Animals,Cat,http://x/1; Animals,Dog,http://x/2; Plants,Oak,http://x/3",
        "left out: 'url'",
    ),
    "codes and titles": (
        "SegmentCode,SegmentTitle,BrickCode,BrickTitle",
        "50,Animals,501,Cat; 50,Animals,502,Dog; 60,Plants,601,Oak",
        "'SegmentCode' and 'BrickCode' as further names",
    ),
    "titles behind": (
        "Segment,Segment Title,Class,Class Title",
        "50,Animals,501,Cat; 50,Animals,502,Dog; 60,Plants,601,Oak",
        "Segment Title > Class Title are read",
    ),
    "ids of each": (
        "cat_id,category,sub_id,subcategory",
        "1,Animals,11,Cat; 1,Animals,12,Dog; 2,Plants,21,Oak",
        "'cat_id' and 'sub_id' as further names",
    ),
    "languages": (
        "category,subcategory,subcategory_de",
        "Animals,Cat,Katze; Animals,Dog,Hund; Plants,Oak,Eiche",
        "'subcategory_de' as further names",
    ),
    "no header": (
        "Animals,Cat",
        "Animals,Dog; Plants,Oak",
        "line 1 names no columns",
    ),
    "fine to coarse": (
        "fine,coarse",
        "Cat,Animals; Dog,Animals; Oak,Plants",
        "levels stand from fine to coarse",
    ),
    "ids, fine to coarse": (
        "id,name,category",
        "1,Cat,Animals; 2,Dog,Animals; 3,Oak,Plants",
        "levels stand from fine to coarse",
    ),
    "flags and colours": (
        "name,id,category,catId,hasInstances,color",
        "Cat,7,Animals,1,True,128; Dog,8,Animals,1,False,3; Oak,11,Plants,2,True,5",
        "left out: 'hasInstances' and 'color'",
    ),
    "merged cells": (
        "category,subcategory",
        "Animals,Cat; ,Dog; Plants,Oak",
        "empty cells at the beginning of a row repeat",
    ),
    "numbers of levels": (
        "level,name",
        "1,Animals; 2,Cat; 2,Dog; 1,Plants; 2,Oak",
        "'level' says the level of each row",
    ),
    "levels, codes, texts": (
        "Level,ISCO 08 Code,Title EN,Definition",
        "1,1,Animals,x; 2,11,Cat,y; 2,12,Dog,z; 1,2,Plants,v; 2,21,Oak,w",
        "further names are 'ISCO 08 Code'",
    ),
    "tiers": (
        "Code,Tier,Category",
        "A,Tier 1,Animals; A1,Tier 2,Cat; A2,Tier 2,Dog; B,Tier 1,Plants; B1,Tier 2,Oak",
        "'Tier' says the level",
    ),
    "dashes": (
        "Code,Title,DepthInKind",
        ",Animals,1; 1A,- Cat,1; 1B,- Dog,1; ,Plants,1; 2A,- Oak,1",
        "the dashes before names in 'Title' say the level",
    ),
}


@pytest.mark.parametrize(("header", "rows", "note"), TABLES.values(), ids=TABLES)
def test_columns_are_what_they_are(
    tmp_path: Path, header: str, rows: str, note: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert paths(read(tmp_path, "\n".join([header, *rows.split("; "), ""]))) == ANIMALS
    assert note in caplog.text


def test_dashes_within_titles_are_kept(tmp_path: Path) -> None:
    text = "code,title\n,Animals - all\n1,- Cat - house\n2,- Dog\n"
    tree = read(tmp_path, text)
    assert [tree.names[0], *paths(tree)] == ["Animals - all", "Cat - house", "Dog"]


def test_codes_are_further_names_of_each_level(tmp_path: Path) -> None:
    header, rows, _ = TABLES["codes and titles"]
    tree = read(tmp_path, "\n".join([header, *rows.split("; "), ""]))
    assert tree.decode(tree.encode(["50", "502", "Oak"])) == ["Animals", "Animals/Dog", "Plants/Oak"]
    text = "FamilyCode,FamilyTitle,BrickCode,BrickTitle\n1,Food,11,Other\n1,Food,12,Other\n2,Toys,21,Other\n"
    assert paths(read(tmp_path, text)) == [
        "Food",
        "Food/Other (11)",
        "Food/Other (12)",
        "Toys",
        "Toys/Other",
    ]


def test_what_order_is_not_certain(tmp_path: Path) -> None:
    assert "circle/red" in paths(read(tmp_path, "shape,colour\ncircle,red\nsquare,red\ncircle,blue\n"))
    with pytest.raises(TaxonomyError, match="'level1' is different in every row"):  # the names say the order
        read(tmp_path, "level1,level2\na,x\nb,x\nc,y\n")
    with pytest.raises(TaxonomyError, match="'sku' is different in every row"):
        read(tmp_path, "sku,kind\nit hoots,bird\nit sings,bird\nit swims,fish\n")
    with pytest.raises(TaxonomyError, match="rows are sorted by their level"):
        read(tmp_path, "level,name\n1,Animals\n1,Plants\n2,Cat\n2,Oak\n")
    with pytest.raises(
        TaxonomyError, match=r"line 3 has level 3 by the column 'level', after a row of level 1"
    ):
        read(tmp_path, "level,name\n1,Animals\n3,Cat\n")
    with pytest.raises(TaxonomyError, match="one names parents; read edges"):
        read(tmp_path, "id,name,parent_name\n1,Men,Clothing\n2,Shoes,Men\n3,Shoes,Women\n4,Women,Clothing\n")


@pytest.mark.parametrize(
    "table",
    [
        "text|label\nhoots|bird/owl\nquacks|bird/duck\nglides|fish\n",
        "text,label\nit hoots,bird\nit sings,bird\nit swims,fish\n",
        "picture,site,Class\nx/1.JPG,a,owl\nx/2.JPG,b,owl\nx/3.JPG,b,duck\n",
        "path,category\n1.png,owl\n2.png,owl\n3.png,duck\n",
    ],
)
def test_columns_of_samples_are_no_levels(tmp_path: Path, table: str) -> None:
    with pytest.raises(TaxonomyError, match=r"the labels by labeltree\.open_taxonomy\(FILE\)"):
        read(tmp_path, table)
    names = open_taxonomy(tmp_path / "levels.csv").names
    assert {"owl", "duck", "bird"} & {*names}


def test_class_beside_cls_names_the_species(tmp_path: Path) -> None:
    header = "kingdom,cls,order,genus,species,filepath,class"
    rows = ["Animalia,Aves,Passeriformes,Parus,major,1.jpg,Parus major"]
    rows += [row.replace("major", "minor").replace("1.jpg", "2.jpg") for row in rows]
    tree = read(tmp_path, "\n".join([header, *rows]))
    assert paths(tree)[-2:] == [
        f"Animalia/Aves/Passeriformes/Parus/Parus {name}" for name in ("major", "minor")
    ]


def test_edges_by_what_columns_are_called(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = "cat,animal\ndog,animal\nanimal,thing\n"
    for header in ("term,hypernym", "subject,object", "class,superclass"):
        tree = read(tmp_path, f"{header}\n{rows}")
        assert [tree.names[0], *paths(tree)] == ["thing", "animal", "animal/cat", "animal/dog"], header
    assert "each row is an edge: 'class' is below 'superclass'" in caplog.text
    labels = (
        "item,itemLabel,superclass,superclassLabel\nQ1,cat,Q2,animal\nQ3,dog,Q2,animal\nQ2,animal,Q9,thing\n"
    )
    tree = read(tmp_path, labels)
    assert [tree.names[0], *paths(tree)] == ["thing", "animal", "animal/cat", "animal/dog"]
    assert tree.decode(tree.encode(["Q3"])) == ["animal/dog"]
    triples = "start,relation,end\ncat,IsA,animal\ndog,IsA,animal\nleg,PartOf,dog\nanimal,IsA,thing\n"
    tree = read(tmp_path, triples)
    assert [tree.names[0], *paths(tree)] == ["thing", "animal", "animal/cat", "animal/dog"]
    assert "1 rows of other relations are left out" in caplog.text
    tree = read(tmp_path, "cat\tP279\tanimal\ndog\tP279\tanimal\nanimal\tP279\tthing\n", "triples.tsv")
    assert [tree.names[0], *paths(tree)] == ["thing", "animal", "animal/cat", "animal/dog"]


NAMES = st.text("abcdefgh", min_size=1, max_size=3)


@settings(max_examples=100)
@given(
    names=st.lists(
        st.sampled_from(("kind", "sort", "code", "sort code", "sort title", "description", "level", "url")),
        min_size=2,
        max_size=4,
        unique=True,
    ),
    data=st.data(),
)
def test_no_level_is_invented(names: list[str], data: st.DataObject) -> None:
    """A table is no deeper than the levels that its notes name, and each name is a cell of one row."""
    rows = data.draw(
        st.lists(st.tuples(*[NAMES] * len(names)), min_size=1, max_size=8, unique_by=lambda row: row)
    )
    text = "\n".join(",".join(row) for row in [tuple(names), *rows]) + "\n"
    try:
        entries = entries_of_form(OpenedFile.from_text(text, ".csv"))
    except TaxonomyError:
        return
    parents = entries.parent()
    told = [note for note in entries.notes if "left out" not in note]
    assert told
    for node in range(len(parents)):
        path: list[str] = []
        above = node
        while parents[above] != -1:
            path.append(entries.names[above].split(" (")[0])
            above = parents[above]
        if "edge" in " ".join(told):
            continue
        cells = [*rows, tuple(names)] if any("names no columns" in note for note in told) else rows
        assert not path or any(set(path) <= set(row) for row in cells)
        named = max(note.count(" > ") + 1 for note in told)
        assert len(path) <= named


def test_codes_are_told_within_what_is_above_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [
        ("Animals", "1", "Cat"),
        ("Animals", "2", "Dog"),
        ("Animals", "3", "Cow"),
        ("Animals", "4", "Ewe"),
    ]
    rows += [("Plants", "1", "Oak"), ("Plants", "2", "Ash"), ("Plants", "3", "Elm"), ("Plants", "4", "Yew")]
    text = "Realm,ItemCode,ItemName,ItemType\n" + "".join(f"{','.join(row)},species\n" for row in rows)
    taxonomy = read(tmp_path, text)
    assert paths(taxonomy) == sorted(["Animals", "Plants", *(f"{realm}/{name}" for realm, _, name in rows)])
    assert "left out: 'ItemType'" in caplog.text
    assert "and 'ItemCode' as further names" in caplog.text


def test_types_of_which_some_have_several_stay_levels(tmp_path: Path) -> None:
    assert "Cat/tame" in paths(read(tmp_path, "name,type\nCat,tame\nCat,wild\nDog,tame\nDog,wild\n"))


def test_a_column_that_repeats_codes_is_no_level(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = ["Animals,Cat,AC,A,AC", "Animals,Dog,AD,A,AD", "Plants,Oak,PO,P,PO"]
    text = "\n".join(["realm,kind,code,realm_code,kind_code", *rows])
    assert paths(read(tmp_path, text)) == ANIMALS
    assert "realm > kind are read" in caplog.text


def test_few_names_of_two_groups_are_finer_than_these(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kinds = [f"kind {first}{second}" for first in "abcdef" for second in "abcdef"]
    rows = [(kind, f"group{number % 3}") for number, kind in enumerate(kinds)] + [("kind aa", "group2")]
    text = "name,group\n" + "".join(f"{name},{group}\n" for name, group in rows)
    assert {path.split("/")[0] for path in paths(read(tmp_path, text))} == {"group0", "group1", "group2"}
    assert "nearly each 'name' has one 'group'" in caplog.text


def test_lists_in_brackets_are_paths(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = ["a; [Animals]", "c; [Animals,Cat]", "d; [Animals,Dog]", "p; [Plants]", "o; [Plants,Oak]"]
    taxonomy = read(tmp_path, "\n".join(["code; place", *rows]))
    assert paths(taxonomy) == ANIMALS
    assert taxonomy.find("o") == taxonomy.find("Oak")
    assert "'place' holds whole paths with ','" in caplog.text


def test_lists_of_synonyms_are_no_paths(tmp_path: Path) -> None:
    rows = ["Cat,\"['cat', 'tom']\",tame", "Dog,\"['dog', 'cur']\",tame", "Oak,\"['oak', 'tree']\",wild"]
    with pytest.raises(TaxonomyError, match="say --column for each column of a depth"):
        read(tmp_path, "\n".join(["name,words,sort", *rows, "Elm,\"['elm', 'wych']\",wild"]))


def test_blanks_between_numbers_of_codes(tmp_path: Path) -> None:
    text = "00,Office\n00 00,Rules\n00 00 01,Votes\n00 01,Plans\n01,Staff\n01 00,Pay\n"
    expected = ["00", "00/00 00", "00/00 00/00 00 01", "00/00 01", "01", "01/01 00"]
    assert paths(read(tmp_path, text)) == expected
    assert paths(read(tmp_path, "code,name\n" + text)) == expected


def test_one_code_above_is_told_as_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    read(tmp_path, "code,title\nA00,Cholera\nA00.1,El Tor\nA01.0,Typhoid\n")
    assert "; 1 code above them is not in the file" in caplog.text


def test_the_taxonomy_alone_is_opened(tmp_path: Path) -> None:
    """A path or its text; the labels of samples are what `open_data` gives."""
    (tmp_path / "notes.csv").write_text("text,label\nbarks,a/dog\npurrs,a/cat\n")
    for name in (tmp_path / "notes.csv", str(tmp_path / "notes.csv")):
        assert isinstance(lt.open_taxonomy(name), lt.Taxonomy)
