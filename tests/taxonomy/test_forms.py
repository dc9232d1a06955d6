"""Further forms of taxonomy files: breadcrumbs, Google's, JSON-LD, codes, edges under any names, RF2."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeltree.cli.main import main
from labeltree.errors import TaxonomyError
from labeltree.taxonomy import Taxonomy, TaxonomyDAG, load_taxonomy
from labeltree.taxonomy.files.breadcrumbs import breadcrumbs_of
from labeltree.taxonomy.files.codes_of_classes import SCHEMES, entries_from_codes
from labeltree.taxonomy.forms import read_form

GOOGLE = """# Google_Product_Taxonomy_Version: 2021-09-21
Animals & Pet Supplies
Animals & Pet Supplies > Live Animals
Animals & Pet Supplies > Pet Supplies
Animals & Pet Supplies > Pet Supplies > Bird Supplies
Media
"""
WITH_IDS = """# Google_Product_Taxonomy_Version: 2021-09-21
1 - Animals & Pet Supplies
3237 - Animals & Pet Supplies > Live Animals
2 - Animals & Pet Supplies > Pet Supplies
3 - Animals & Pet Supplies > Pet Supplies > Bird Supplies
783 - Media
"""


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def paths(taxonomy: Taxonomy) -> list[str]:
    return [taxonomy.path_name(node) for node in range(1, taxonomy.num_nodes)]


def test_google_product_taxonomy(tmp_path: Path) -> None:
    plain = Taxonomy.from_file(written(tmp_path, "taxonomy.en-US.txt", GOOGLE.replace("\n", "\r\n")))
    with_ids = Taxonomy.from_file(written(tmp_path, "taxonomy-with-ids.en-US.txt", WITH_IDS))
    assert plain == with_ids
    assert with_ids.decode(with_ids.encode(["3237"])) == ["Animals & Pet Supplies/Live Animals"]
    assert plain.release == with_ids.release == "2021-09-21"
    assert "Animals & Pet Supplies/Pet Supplies/Bird Supplies" in paths(plain)
    assert "Media" in paths(plain)
    headless = written(tmp_path, "own.txt", GOOGLE.split("\n", 1)[1])
    assert read_form(headless, "google") == plain
    with pytest.raises(TaxonomyError, match=r"no.txt: line 2, .* has an empty name"):
        Taxonomy.from_file(written(tmp_path, "no.txt", "# Google_Product_Taxonomy_Version: 1\nA > > B\n"))
    with pytest.raises(TaxonomyError, match=r"there are no categories below the first line"):
        Taxonomy.from_file(written(tmp_path, "no.txt", "# Google_Product_Taxonomy_Version: 1\n"))


@pytest.mark.parametrize("mark", [" > ", " › ", "»", " | ", "::"])
def test_breadcrumbs_are_paths_in_any_file(mark: str, tmp_path: Path) -> None:
    lines = [mark.join(path) for path in (("a/b", "x"), ("a/b", "y", "z"), ("c", "x"))]
    wanted = Taxonomy.from_paths([("a/b", "x"), ("a/b", "y", "z"), ("c", "x")])
    if mark == " > ":
        assert Taxonomy.from_file(written(tmp_path, "tree.txt", "\n".join(lines))) == wanted
    table = written(tmp_path, "tree.csv", "category\n" + "\n".join(lines))
    assert Taxonomy.from_file(table) == wanted
    other = written(
        tmp_path, "more.csv", "n,path\n" + "\n".join(f"{i},{line}" for i, line in enumerate(lines))
    )
    assert read_form(other, "breadcrumbs", column="path") == wanted


def test_names_with_marks_stay_names() -> None:
    assert breadcrumbs_of(["5 > 3", "dog", "cat"]) is None
    assert breadcrumbs_of(["p > 0.05", "q > 0.05"]) is None  # nothing is shared
    assert breadcrumbs_of(["cat | dog", "cat | cow", "dog | cat"]) is None  # several labels of a sample
    assert breadcrumbs_of(["a>b", "a>c"]) is None
    assert breadcrumbs_of(["a > b", "a > c", *"defgh"]) is None
    found = breadcrumbs_of(["a>b", "a>c"], separator=">")
    assert found is not None
    assert found.paths == [("a", "b"), ("a", "c")]
    assert breadcrumbs_of([]) is None


@given(
    st.lists(
        st.lists(
            st.text("abcÄ&/ -.", min_size=1, max_size=5).map(str.strip).filter(bool), min_size=1, max_size=4
        ),
        min_size=1,
        max_size=8,
    )
)
def test_breadcrumbs_come_back(rows: list[list[str]]) -> None:
    texts = list(dict.fromkeys(" > ".join(row) for row in rows))
    found = breadcrumbs_of(texts, certain=True)
    if found is None:
        assert all(len(row) == 1 for row in rows)
    else:
        assert [" > ".join(path) for path in found.paths] == texts


def crumbs(*names: str) -> dict[str, object]:
    elements = [{"@type": "ListItem", "position": i, "name": name} for i, name in enumerate(names, start=1)]
    return {"@context": "https://schema.org", "@type": "BreadcrumbList", "itemListElement": elements[::-1]}


def test_breadcrumb_lists_of_pages(tmp_path: Path) -> None:
    wanted = Taxonomy.from_paths([("Books", "Crime"), ("Books", "Poems", "Odes")])
    lists = [crumbs("Books", "Crime"), crumbs("Books", "Poems", "Odes")]
    page = {"@context": "https://schema.org", "@graph": [{"@type": "Product"}, *lists]}
    for name, document in (("a.json", lists), ("b.jsonld", page)):
        assert Taxonomy.from_file(written(tmp_path, name, json.dumps(document))) == wanted
    inner = {"@type": "BreadcrumbList", "itemListElement": [{"position": "1", "item": {"name": "Books"}}]}
    assert paths(Taxonomy.from_file(written(tmp_path, "c.json", json.dumps(inner)))) == ["Books"]
    inner["itemListElement"] = [{"position": 1, "item": "https://example.org"}]
    with pytest.raises(TaxonomyError, match=r"element 1 of BreadcrumbList 1 has no name"):
        Taxonomy.from_file(written(tmp_path, "c.json", json.dumps(inner)))


def tree_of(codes: list[str], scheme: str | None = None, **more: str) -> list[str]:
    return paths(Taxonomy._of(entries_from_codes(codes, SCHEMES[scheme] if scheme else None, more or None)))


def test_codes_by_their_beginnings() -> None:
    assert tree_of(["A00.1", "A00.9", "B01"]) == ["A00", "A00/A00.1", "A00/A00.9", "B01"]
    assert tree_of(["A", "A01", "A01AB"]) == ["A", "A/A01", "A/A01/A01AB"]
    assert tree_of(["12.34.5", "12.9"]) == ["12", "12/12.34", "12/12.34/12.34.5", "12/12.9"]
    with pytest.raises(TaxonomyError, match=r"nothing in the codes says where a level ends"):
        tree_of(["4006381333931", "5901234123457"])
    with pytest.raises(TaxonomyError, match=r"the code '--' has no letter and no digit"):
        tree_of(["--"])
    with pytest.raises(TaxonomyError, match=r"there are no codes"):
        tree_of([])


def test_codes_with_marks_are_compared_by_segments() -> None:
    assert tree_of(["1.1.11.1", "1.11.1.1"]) == [
        *("1", "1/1.1", "1/1.1/1.1.11", "1/1.1/1.1.11/1.1.11.1"),
        *("1/1.11", "1/1.11/1.11.1", "1/1.11/1.11.1/1.11.1.1"),
    ]
    assert tree_of(["1.1", "11", "11.2"]) == ["1", "1/1.1", "11", "11/11.2"]
    with pytest.raises(TaxonomyError, match=r"the codes '1\.1' and '1-1' are the same"):
        tree_of(["1.1", "1-1"])
    with pytest.raises(TaxonomyError, match=r"the codes 'A001' and 'A00\.1' are the same"):
        tree_of(["A001", "A00.1"], "icd10")


def test_codes_of_known_schemes() -> None:
    assert tree_of(["S52.521A"], "icd10")[-1] == "S52/S52.5/S52.52/S52.521/S52.521A"
    chapters = tree_of(["A00.1", "A00-B99", "A00-A09", "A15"], "icd10")
    assert chapters == [
        "A00-B99",
        "A00-B99/A00-A09",
        "A00-B99/A00-A09/A00",
        "A00-B99/A00-A09/A00/A00.1",
        "A00-B99/A15",
    ]
    assert tree_of(["A10BA02"], "atc")[-1] == "A/A10/A10B/A10BA/A10BA02"
    assert tree_of(["31-33", "311", "3111"], "naics") == ["31-33", "31-33/311", "31-33/311/3111"]
    unspsc = ["10000000", "10100000", "10101500", "10101501"]
    assert tree_of(unspsc, "unspsc")[-1] == "/".join(unspsc)
    assert tree_of(["500", "510", "512", "512.6"], "dewey")[-1] == "500/510/512/512.6"
    assert tree_of(["10101501"], "unspsc")[-1] == "/".join(unspsc)


@given(
    st.sets(st.text("AB01", min_size=1, max_size=6), min_size=1, max_size=20), st.sampled_from([None, "isco"])
)
def test_every_code_has_a_node_below_its_beginnings(codes: set[str], scheme: str | None) -> None:
    try:
        tree = Taxonomy._of(entries_from_codes(sorted(codes), SCHEMES[scheme] if scheme else None))
    except TaxonomyError:
        assert scheme is None
        return
    for code in codes:
        path = tree.path(tree.find(code))
        assert path[-1] == code
        assert all(code.startswith(above) for above in path)


def test_files_of_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = written(tmp_path, "codes.csv", 'n,code,description\n1,A00,Cholera\n2,A00.1,"Cholera, eltor"\n')
    out = tmp_path / "tree.yaml"
    convert = ["taxonomy", "convert", str(table), str(out), "--form", "codes"]
    assert main(convert) == 0
    assert paths(Taxonomy.from_file(out)) == ["A00", "A00/A00.1"]
    assert main([*convert, "--describe"]) == 0
    assert paths(Taxonomy.from_file(out)) == ["A00 Cholera", "A00 Cholera/A00.1 Cholera, eltor"]
    assert main([*convert, "--descriptions", "n"]) == 0
    assert paths(Taxonomy.from_file(out)) == ["A00 1", "A00 1/A00.1 2"]
    lines = written(tmp_path, "codes.txt", "A000    Cholera due to …\nA0012   Other\n")
    assert main([*convert[:2], str(lines), *convert[3:], "--levels", "3,4"]) == 0
    assert paths(Taxonomy.from_file(out)) == ["A00", "A00/A000", "A00/A001", "A00/A001/A0012"]
    capsys.readouterr()
    assert main([*convert, "--levels", "x"]) == 2
    assert "--levels 'x' is neither lengths such as 1,3,4 nor one of icd10" in capsys.readouterr().err
    assert main([*convert[:4], "--levels", "1"]) == 2
    assert "--levels does not apply; say --form codes" in capsys.readouterr().err
    assert main([*convert, "--child", "n"]) == 2
    assert "--child does not apply to --form codes; say --form edges" in capsys.readouterr().err
    with pytest.raises(TaxonomyError, match=r"there is no column 'icd' \(there are 'n', 'code'"):
        read_form(table, "codes", column="icd")


def test_edges_under_their_usual_names(tmp_path: Path) -> None:
    table = written(tmp_path, "shop.csv", "id,parent_id,name,slug\n1,0,Shoes,s\n2,1,Boots,b\n3,,Hats,h\n")
    assert paths(Taxonomy.from_file(table)) == ["Shoes", "Shoes/Boots", "Hats"]
    taxa = "taxonID\tparentNameUsageID\tscientificName\n1\t1\tAves\n7\t1\tParus\n9\t7\tParus major\n"
    tree = Taxonomy.from_file(written(tmp_path, "taxa.tsv", taxa))
    assert (tree.names[0], *paths(tree)) == ("Aves", "Parus", "Parus/Parus major")
    links = written(tmp_path, "links.csv", "source,target\nanimal,dog\nanimal,cat\n")
    assert Taxonomy.from_file(links).names[0] == "animal"
    several = written(tmp_path, "dag.csv", "id,parent_id\nr,\na,r\nb,r\nc,a\nc,b\n")
    assert isinstance(load_taxonomy(several), TaxonomyDAG)
    with pytest.raises(TaxonomyError, match=r"line 3 has the unknown parent '9'"):
        Taxonomy.from_file(written(tmp_path, "bad.csv", "id,parent_id\n1,\n2,9\n"))
    unsure = written(tmp_path, "chain.csv", "source,target\na,b\nb,c\n")
    with pytest.raises(TaxonomyError, match=r"say --child source --parent target, or --child target"):
        Taxonomy.from_file(unsure)
    chain = read_form(unsure, "edges", child="source", parent="target")
    assert list(chain.names) == ["c", "b", "a"]
    own = written(tmp_path, "own.csv", "what,above,called\n1,,Shoes\n2,1,Boots\n")
    found = read_form(own, "edges", child="what", parent="above", descriptions="called")
    assert list(found.names) == ["Shoes", "Boots"]
    with pytest.raises(TaxonomyError, match=r"which columns hold a child and its parent"):
        read_form(own, "edges")


HEAD = "id\teffectiveTime\tactive\tmoduleId\tsourceId\tdestinationId\trelationshipGroup\ttypeId\n"


def relation(
    number: int, child: int, parent: int, active: int = 1, kind: int = 116680003, time: int = 2020
) -> str:
    return f"{number}\t{time}0131\t{active}\t9\t{child}\t{parent}\t0\t{kind}\n"


def test_relations_of_rf2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [relation(1, 10, 1), relation(2, 11, 1), relation(3, 12, 10), relation(4, 12, 11)]
    rows += [relation(5, 12, 77, kind=363698007), relation(6, 12, 88), relation(6, 12, 88, 0, time=2021)]
    rows += [relation(7, 12, 10)]  # the same edge under another id
    file = written(tmp_path, "sct2_Relationship_Full_X.txt", HEAD + "".join(rows))
    graph = load_taxonomy(file)
    assert isinstance(graph, TaxonomyDAG)
    assert sorted(graph.names) == ["1", "10", "11", "12"]
    with pytest.raises(TaxonomyError, match=r"node '12' has two parents, '10' \(line 4\)"):
        Taxonomy.from_file(file)
    terms = "id\teffectiveTime\tactive\tconceptId\ttypeId\tterm\n"
    terms += (
        '1\t2020\t1\t12\t900000000000013009\tsyn\n2\t2020\t1\t12\t900000000000003001\t5" wound (disorder)\n'
    )
    names = written(tmp_path, "sct2_Description_X.txt", terms)
    out = tmp_path / "dag.json"
    assert (
        main(["taxonomy", "convert", str(file), str(out), "--form", "rf2", "--descriptions", str(names)]) == 0
    )
    assert '5" wound (disorder)' in load_taxonomy(out).names
    assert (
        main(["taxonomy", "convert", str(file), str(out), "--form", "rf2", "--descriptions", str(file)]) == 2
    )
    assert "it has no column conceptid, term" in capsys.readouterr().err
    with pytest.raises(TaxonomyError, match=r"it has no active is-a relation"):
        load_taxonomy(written(tmp_path, "none.txt", HEAD + relation(1, 2, 3, 0)))
    with pytest.raises(TaxonomyError, match=r"line 2 has 1 cells for 8 columns"):
        load_taxonomy(written(tmp_path, "none.txt", HEAD + "1\n"))


def test_suggest_says_what_makes_a_tree_of_names_or_codes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = written(tmp_path, "names.txt", "dog\ntench\n")
    assert main(["taxonomy", "suggest", str(names)]) == 2
    said = capsys.readouterr().err
    assert f"labeltree taxonomy from-wordnet {names}" in said
    assert f"labeltree taxonomy convert {names} FILE --form codes" in said


@pytest.mark.parametrize("name", ["tree.txt", "tree.csv", "tree.json"])
def test_breadcrumbs_of_several_spellings_are_read_alike(name: str, tmp_path: Path) -> None:
    lines = ["a > b > c", "a > b > d", "a>b>c", "a › b › e", "a > f"]
    wanted = Taxonomy.from_paths(["a/b/c", "a/b/d", "a/b/e", "a/f"])
    text = "\n".join(lines) if name != "tree.csv" else "category\n" + "\n".join(lines)
    file = written(tmp_path, name, json.dumps(lines) if name == "tree.json" else text)
    assert Taxonomy.from_file(file) == wanted
    assert read_form(written(tmp_path, "t.txt", "\n".join(lines)), "breadcrumbs") == wanted


SHEET = [(1, "Garden", ""), (2, "Tool", 1), (3, "Spade", 2), (4, "Pan", 2), (5, "House", ""), (6, "Pan", 5)]
SAID = (
    "say --form edges --child Kat-Nr --parent 'Part of' to 'labeltree taxonomy convert', which writes a file"
)


def test_a_gap_in_a_table_of_ids_and_parents_names_what_reads_it(tmp_path: Path) -> None:
    lines = [f"{i},{name},{above},{'Ann' if i == 1 else ''}" for i, name, above in SHEET]
    file = written(tmp_path, "t.csv", "\n".join(["Kat-Nr,Name,Part of,Who", *lines]))
    with pytest.raises(TaxonomyError, match="has a gap at depth") as caught:
        Taxonomy.from_file(file)
    assert f"if 'Part of' holds the parents of 'Kat-Nr', {SAID}" in str(caught.value)
    with pytest.raises(TaxonomyError, match="which columns hold a child and its parent") as caught:
        read_form(file, "edges")
    assert SAID in str(caught.value)
    out = tmp_path / "tree.json"
    words = ["--form", "edges", "--child", "Kat-Nr", "--parent", "Part of"]
    assert main(["taxonomy", "convert", str(file), str(out), *words]) == 0
    wanted = Taxonomy.from_paths(["Garden/Tool/Spade", "Garden/Tool/Pan", "House/Pan"])
    assert Taxonomy.from_file(out) == wanted


def test_ids_and_parents_that_are_no_levels_are_told(tmp_path: Path) -> None:
    lines = [f"{i},{name},{above}" for i, name, above in SHEET]
    with pytest.raises(TaxonomyError, match="it is not the coarsest depth") as caught:
        Taxonomy.from_file(written(tmp_path, "t.csv", "\n".join(["Kat-Nr,Name,Part of", *lines])))
    assert SAID in str(caught.value)
    for places in ("123123", "611323"):  # a row is below itself, or rows are in a circle
        lines = [f"{i},{name},{place}" for i, name, place in zip("123456", "abacbc", places, strict=True)]
        with pytest.raises(TaxonomyError, match="it is not the coarsest depth") as caught:
            Taxonomy.from_file(written(tmp_path, "t.csv", "\n".join(["Kat-Nr,Name,Place", *lines])))
        assert "--form edges" not in str(caught.value)


def test_a_gap_in_other_tables_has_no_such_advice(tmp_path: Path) -> None:
    file = written(tmp_path, "t.csv", "a,b,c\nx,,y\nx,z,w\n")
    with pytest.raises(TaxonomyError, match=r"only the finest names may be missing$"):
        Taxonomy.from_file(file)
