"""Ontologies, thesauri, classifications, phylogenies and NCBI's dump: read as published, safe if hostile."""

import gzip
import socket
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labeltree import text_files
from labeltree.api.taxonomies import open_labels
from labeltree.taxonomy import Taxonomy, TaxonomyDAG, TaxonomyError, load_taxonomy
from labeltree.taxonomy.files.ontologies import xml_events
from labeltree.taxonomy.forms import read_form
from ontology_files import FILES, RDF, write_ontology_files


@pytest.fixture(autouse=True)
def _no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is read, no connection is opened."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a connection is opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with all files."""
    write_ontology_files(tmp_path)
    return tmp_path


NODES = {
    "food.ttl": ("Food", ["Fruit", "Fruit/Apple", "Fruit/Pear"]),
    "food.jsonld": ("Fruit", ["Apple"]),
    "food.nt": ("Früchte", ["Apfel"]),
    "cells.owl": ("cell", ["neuron", "glia"]),
    "cells.json": ("cell", ["neuron"]),
    "icd.xml": (
        "Ailments",
        ["I Infections", "I Infections/A00-A09 Of the gut", "I Infections/A00-A09 Of the gut/A00 Cholera"],
    ),
    "tabular.xml": (
        "ICD-10-CM",
        [
            "Infections (A00-B99)",
            "Infections (A00-B99)/Of the gut (A00-A09)",
            "Infections (A00-B99)/Of the gut (A00-A09)/A00 Cholera",
            "Infections (A00-B99)/Of the gut (A00-A09)/A00 Cholera/A00.0 Cholera, first kind",
        ],
    ),
    "d2025.bin": ("root", ["Body Regions", "Tissue", "Body Regions/Breast"]),
    "desc2025.xml": ("Body", ["Arm"]),
    "apes.nex": ("root", ["Hominidae", "Hominidae/Homo_sapiens", "Hominidae/Pan paniscus", "Mus"]),
    "apes.phyloxml": ("root", ["A", "A/Homo sapiens", "A/C", "B"]),
    "apes.nexml": ("root", ["Homo sapiens", "Mus"]),
    "ncbi/nodes.dmp": ("root", ["Aves", "Aves/Parus <tits>", "Aves/Parus <others>"]),
}


@pytest.mark.parametrize("name", NODES)
def test_nodes(name: str, folder: Path) -> None:
    root, paths = NODES[name]
    taxonomy = load_taxonomy(folder / name)
    assert taxonomy.names[0] == root
    nodes = range(1, taxonomy.num_nodes)
    assert sorted("/".join(taxonomy.path(node)) for node in nodes) == sorted(paths)


FURTHER = {
    "food.ttl": {
        "F1": "Fruit",
        "Pome": "Apple",
        "c2": "Apple",
        "http://example.org/food/c3": "Pear",
        "c4": "Pear",
    },
    "cells.owl": {"X:0002": "neuron", "nerve cell": "neuron", "X:0009": "neuron"},
    "cells.json": {"X:2": "neuron", "nerve cell": "neuron", "X:3": "neuron"},
    "icd.xml": {"A00": "A00 Cholera", "Cholera": "A00 Cholera", "blue death": "A00 Cholera"},
    "tabular.xml": {"A00.0": "A00.0 Cholera, first kind", "Old cholera": "A00.0 Cholera, first kind"},
    "d2025.bin": {"D002": "Breast", "A10.1": "Breast", "Mamma": "Breast"},
    "desc2025.xml": {"Bodies": "Body", "D2": "Arm"},
    "apes.nex": {"Homo sapiens": "Homo_sapiens"},
    "apes.phyloxml": {"human": "Homo sapiens", "9606": "Homo sapiens"},
    "ncbi/nodes.dmp": {"30": "Parus <tits>", "12": "Parus <others>", "birds": "Aves"},
}


@pytest.mark.parametrize("name", FURTHER)
def test_further_names(name: str, folder: Path) -> None:
    taxonomy = load_taxonomy(folder / name)
    assert {label: taxonomy.names[taxonomy.find(label)] for label in FURTHER[name]} == FURTHER[name]
    for label in ("Apfelfrucht", "Parus L., 1758", "no"):  # another language, a name with its author, others
        with pytest.raises(TaxonomyError, match="not in the taxonomy"):
            taxonomy.find(label)


def test_releases_and_notes(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    releases = {name: load_taxonomy(folder / name).release for name in NODES}
    assert {name: release for name, release in releases.items() if release} == {
        "cells.owl": "2025-01-02",
        "icd.xml": "2019",
        "tabular.xml": "2026",
    }
    notes = [record.getMessage().removeprefix(f"labeltree: {folder}/") for record in caplog.records]
    assert notes == [
        "food.ttl: what is deprecated is left out: 1",
        "food.ttl: names are in 2 languages, of which 'en' is taken",
        "cells.owl: what is deprecated is left out: 1",
        "cells.owl: one parent is no classes of this file and left out, such as 'http://example.org/elsewhere'",
        "cells.json: what is deprecated is left out: 1",
        "tabular.xml: 1 blocks or chapters without codes of their own are left out",
        "d2025.bin: 1 descriptors without a tree number are left out",
        "ncbi/nodes.dmp: 2 siblings of one name are told apart by their unique names or numbers",
    ]


def test_a_thesaurus_in_another_language(tmp_path: Path) -> None:
    text = FILES["food.ttl"].replace("@en-GB", "@de").replace("@en", "@fr")
    (tmp_path / "food.ttl").write_text(text)
    assert load_taxonomy(tmp_path / "food.ttl").names == ["Food", "Obst", "Apfel", "Pear"]
    text = '<a:1> <{0}prefLabel> "Eins"@de .\n<a:2> <{0}prefLabel> "Zwei"@de .\n<a:2> <{0}broader> <a:1> .\n'
    text += '<a:1> <{0}prefLabel> "Un"@fr .\n<a:3> <{0}broader> <a:1> .\n<a:3> <{0}prefLabel> "Trois"@fr .\n'
    text += '<a:4> <{0}broader> <a:1> .\n<a:4> <{0}prefLabel> "Vier"@de .\n'
    text += '<a:5> <{0}broader> <a:1> .\n<a:5> <{0}prefLabel> "Vier"@de .\n'
    (tmp_path / "numbers.nt").write_text(text.format("http://www.w3.org/2004/02/skos/core#"))
    names = load_taxonomy(tmp_path / "numbers.nt").names
    assert names == ["Eins", "Zwei", "Trois", "Vier (a:4)", "Vier (a:5)"]


def test_schemes_are_nodes_if_there_are_several(tmp_path: Path) -> None:
    skos = "http://www.w3.org/2004/02/skos/core#"
    lines = [
        f'<a:{one}> <{skos}prefLabel> "{one}"@en .\n<a:{one}> <{skos}topConceptOf> <s:{one}> .'
        for one in "xy"
    ]
    lines += [f'<s:{one}> <http://purl.org/dc/terms/title> "Scheme {one}" .' for one in "xy"]
    (tmp_path / "two.nt").write_text("\n".join(lines))
    tree = load_taxonomy(tmp_path / "two.nt")
    assert [tree.path(node) for node in range(1, 5)] == [
        ("Scheme x",),
        ("Scheme x", "x"),
        ("Scheme y",),
        ("Scheme y", "y"),
    ]


def test_a_term_with_two_parents_needs_a_dag(tmp_path: Path) -> None:
    node = '<owl:Class rdf:about="http://e.org/{0}">{1}</owl:Class>'
    up = '<rdfs:subClassOf rdf:resource="http://e.org/{0}"/>'
    classes = [
        ("a", ""),
        ("b", up.format("a")),
        ("c", up.format("a")),
        ("d", up.format("b") + up.format("c")),
    ]
    (tmp_path / "dag.rdf").write_text(
        f"<rdf:RDF {RDF}>{''.join(node.format(*one) for one in classes)}</rdf:RDF>"
    )
    assert load_taxonomy(tmp_path / "dag.rdf").num_edges == 4
    with pytest.raises(TaxonomyError, match=r"dag.rdf: node 'http://e.org/d' has two parents"):
        Taxonomy.from_file(tmp_path / "dag.rdf")


def test_rdf_of_other_suffixes(folder: Path) -> None:
    for name, suffix in (
        ("cells.owl", ".xml"),
        ("food.nt", ".rdf"),
        ("food.ttl", ".owl"),
        ("food.jsonld", ".json"),
    ):
        (folder / f"other{suffix}").write_text(FILES[name])
        assert load_taxonomy(folder / f"other{suffix}") == load_taxonomy(folder / name)
    for name, text in (
        ("other.owx", '<?xml version="1.0"?>\n<Ontology/>'),
        ("other.owl", "Prefix(:=<a>)\nOntology(<b>)"),
    ):
        (folder / name).write_text(text)
        with pytest.raises(TaxonomyError, match=f"'robot convert --input {name} --output other.obo'"):
            load_taxonomy(folder / name)
    (folder / "unknown").write_text(FILES["icd.xml"])
    assert read_form(folder / "unknown", "claml") == load_taxonomy(folder / "icd.xml")
    (folder / "page.xml").write_text("<html/>")
    with pytest.raises(TaxonomyError, match=r"page.xml: no form of a .xml is in it: rdf .OWL or"):
        load_taxonomy(folder / "page.xml")


def test_without_rdflib(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rdflib", None)
    assert load_taxonomy(folder / "cells.owl").num_nodes == 3
    assert load_taxonomy(folder / "food.nt").num_nodes == 2
    for name in ("food.ttl", "food.jsonld"):
        with pytest.raises(TaxonomyError, match=r"pip install 'labeltree\[formats\]'"):
            load_taxonomy(folder / name)


def test_ncbi_in_a_folder_or_an_archive(folder: Path) -> None:
    expected = load_taxonomy(folder / "ncbi/nodes.dmp")
    files = sorted((folder / "ncbi").iterdir())
    with tarfile.open(folder / "taxdump.tar.gz", "w:gz") as tar:
        for file in files:
            tar.add(file, f"./{file.name}")
    with zipfile.ZipFile(folder / "taxdmp.zip", "w") as archive:
        for file in files:
            archive.write(file, f"../up/{file.name}")  # nothing is unpacked, wherever it would go
    (folder / "packed").mkdir()
    for file in files:
        (folder / "packed" / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
    for name in ("ncbi", "ncbi/names.dmp", "taxdump.tar.gz", "taxdmp.zip", "packed"):
        taxonomy, labels = open_labels(str(folder / name))
        assert taxonomy == expected == load_taxonomy(folder / name), name
        assert taxonomy.aliases == expected.aliases
        assert labels is None


DAMAGED: list[tuple[str, Callable[[str], str], str]] = [
    (
        "nodes",
        lambda text: text.replace("4\t|\t2", "4\t|\t7"),
        "nodes.dmp, line 4: 4 lies below 7, which has no",
    ),
    ("nodes", lambda text: text + "4\t|\t1\t|\tx\t|\t\t|\n", "nodes.dmp has the number 4 twice"),
    ("nodes", lambda text: text.replace("2\t|\t1", "2\t|\t4"), "the parents form a cycle"),
    (
        "nodes",
        lambda text: text.replace("1\t|\t1", "1\t|\tx", 1),
        "nodes.dmp is not readable as a file of NCBI",
    ),
    (
        "nodes",
        lambda text: text.replace("\t|\tno rank", "", 1),
        "nodes.dmp is not readable as a file of NCBI",
    ),
    ("nodes", lambda text: "", "nodes.dmp is not readable"),
    ("names", lambda text: text.replace("30", "", 1), "names.dmp has a line without a number"),
]


@pytest.mark.parametrize(("which", "change", "said"), DAMAGED)
def test_a_damaged_dump(which: str, change: Callable[[str], str], said: str, folder: Path) -> None:
    file = folder / f"ncbi/{which}.dmp"
    file.write_text(change(file.read_text()))
    with pytest.raises(TaxonomyError, match=said):
        load_taxonomy(folder / "ncbi")
    file.unlink()
    with pytest.raises(TaxonomyError, match=r"no names.dmp beside|is a folder, not a file"):
        load_taxonomy(folder / "ncbi")


def test_a_node_without_a_scientific_name(folder: Path) -> None:
    names = folder / "ncbi/names.dmp"
    names.write_text(
        "".join(line for line in names.read_text().splitlines(True) if not line.startswith("30"))
    )
    assert "30" in load_taxonomy(folder / "ncbi").names


TOP = f"<rdf:RDF {RDF}>"
CLASS = '<owl:Class rdf:about="http://e.org/x"><rdfs:label>{0}</rdfs:label></owl:Class></rdf:RDF>'
LAUGHS = "".join(
    f'<!ENTITY {one} "{value}">' for one, value in (("a", "ha"), ("b", "&a;&a;&a;&a;"), ("c", "&b;&b;&b;&b;"))
)
HOSTILE = {
    "laughs.owl": (
        f"<!DOCTYPE r [{LAUGHS}]>{TOP}{CLASS.format('&c;')}",
        "line 1: the entity 'b' stands for other entities",
    ),
    "long.owl": (
        f"<!DOCTYPE r [<!ENTITY a '{'a' * 2000}'>]>{TOP}{CLASS.format('&a;')}",
        "the entity 'a' stands for other entities or too much text",
    ),
    "external.owl": (
        f"<!DOCTYPE r [<!ENTITY a SYSTEM 'file:///etc/hostname'>]>{TOP}{CLASS.format('&a;')}",
        "the entity 'a' stands for another file",
    ),
    "parameter.owl": (
        f"<!DOCTYPE r [<!ENTITY % a SYSTEM 'http://e.org/a.dtd'> %a;]>{TOP}{CLASS.format('x')}",
        "the entity 'a' stands for another file",
    ),
    "dtd.owl": (
        f"<!DOCTYPE r SYSTEM 'http://e.org/a.dtd'>{TOP}{CLASS.format('&a;')}",
        "the entity &a; is defined in another file",
    ),
    "undefined.owl": (f"{TOP}{CLASS.format('&a;')}", "line 1: not readable as XML: undefined entity"),
    "cut.owl": (TOP, "line 1: not readable as XML: no element found"),
    "empty.owl": (f"{TOP}</rdf:RDF>", "it has neither classes .* nor concepts"),
    "encoding.owl": (
        f'<?xml version="1.0" encoding="x-none"?>{TOP}</rdf:RDF>',
        "its encoding is unknown|unknown enc",
    ),
    "cycle.ttl": (
        "@prefix s: <http://www.w3.org/2004/02/skos/core#> .\n<a> s:broader <b> . <b> s:broader <a> .",
        "cycle",
    ),
    "deep.ttl": (
        "@prefix s: <http://www.w3.org/2004/02/skos/core#> .\n"
        f"<a> s:broader {'[ s:broader ' * 9999}<b>{' ]' * 9999} .",
        "nested too deeply",
    ),
    "syntax.ttl": ("@prefix s: <http://e.org/> .\n<a> s:b ;; ] .", "line 2: not readable as Turtle"),
    "context.jsonld": ('{"@context": "http://e.org/c", "@graph": []}', "its context is at 'http://e.org/c'"),
    "inner.jsonld": (
        '{"@context": [{"a": {"@id": "x", "@context": "http://e.org/c"}}]}',
        "its context is at 'http",
    ),
    "import.jsonld": ('{"@context": {"@import": "http://e.org/c"}}', "its context is at 'http://e.org/c'"),
    "line.nt": ("<a> <b> .", "line 1: '<a> <b> .' is not a statement of N-Triples"),
    "two.nex": (
        "#NEXUS\nbegin trees;\ntree a = (x,y);\ntree b = (x,y);\nend;",
        "line 4: a second tree begins",
    ),
    "none.nex": ("#NEXUS\nbegin data; end;", "there is no tree in it"),
    "bad.nex": ("#NEXUS\nbegin trees;\n\ntree a = ((x,y);\nend;", "line 4: .*';' cannot stand here"),
    "translate.nex": ("#NEXUS\nbegin trees; translate 1, 2 b; tree a = (1,2);", "TRANSLATE has '1' where"),
    "two.phyloxml": (
        "<phyloxml><phylogeny><clade><name>x</name></clade></phylogeny><phylogeny/></phyloxml>",
        "second",
    ),
    "leaf.phyloxml": (
        "<phyloxml><phylogeny><clade><clade/></clade></phylogeny></phyloxml>",
        "a leaf has no name",
    ),
    "none.phyloxml": ("<phyloxml/>", "there is no tree in it"),
    "edge.nexml": (
        '<nexml><trees><tree><node id="a"/><edge source="a" target="b"/></tree></trees></nexml>',
        "'b'",
    ),
    "text.bin": ("*NEWRECORD\nMH = a\nMN\tA01 = b = \nx = y", "no classes"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files(name: str, tmp_path: Path) -> None:
    text, said = HOSTILE[name]
    (tmp_path / name).write_text(text)
    with pytest.raises(TaxonomyError, match=said):
        load_taxonomy(tmp_path / name)


MEDDRA = """1$11$12$13$Cough$Coughing$Respiratory signs$Respiratory disorders$Resp$$13$Y$
2$11$12$13$Croup$Coughing$Respiratory signs$Respiratory disorders$Resp$$23$N$
2$21$22$23$Croup$Viral$Viral disorders$Infections$Infec$$23$Y$
"""


def test_meddra(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "mdhier.asc").write_text(MEDDRA)
    dag = load_taxonomy(tmp_path / "mdhier.asc")
    assert isinstance(dag, TaxonomyDAG)
    assert {dag.names[node] for node in dag.parents(dag.find("Croup"))} == {"Coughing", "Viral"}
    assert dag.decode(dag.encode(["23", "Cough"])) == [
        "Infections",
        "Respiratory disorders/Respiratory signs/Coughing/Cough",
    ]
    tree = Taxonomy.from_file(tmp_path / "mdhier.asc")
    assert tree.path(tree.find("2")) == ("Infections", "Viral disorders", "Viral", "Croup")
    assert "left out: 1 of a class that is not primary" in caplog.text
    (tmp_path / "pt.asc").write_text("1$Cough$$13$$$$$$$$\n")
    with pytest.raises(TaxonomyError, match=r"line 1 .*mdhier.asc has its hierarchy"):
        load_taxonomy(tmp_path / "pt.asc")


def test_deep_trees_are_read(tmp_path: Path) -> None:
    clades = "<clade><name>x</name>" * 9999 + "</clade>" * 9999
    (tmp_path / "deep.phyloxml").write_text(f"<phyloxml><phylogeny>{clades}</phylogeny></phyloxml>")
    assert load_taxonomy(tmp_path / "deep.phyloxml").max_depth == 9998
    classes = "".join(
        f'<owl:Class rdf:about="#{node}"><rdfs:subClassOf rdf:resource="#{node + 1}"/></owl:Class>'
        for node in range(9999)
    )
    (tmp_path / "deep.owl").write_text(f'{TOP}{classes}<owl:Class rdf:about="#9999"/></rdf:RDF>')
    assert load_taxonomy(tmp_path / "deep.owl").max_depth == 9999


@pytest.mark.long
def test_bounds(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With small bounds in place of gigabytes."""
    monkeypatch.setattr(xml_events, "_DEEPEST", 3)
    with pytest.raises(TaxonomyError, match="nested more than 3 deep"):
        load_taxonomy(folder / "icd.xml")
    monkeypatch.undo()
    monkeypatch.setattr(xml_events, "_LONGEST", 5)
    with pytest.raises(TaxonomyError, match="a text is longer than 5 characters"):
        load_taxonomy(folder / "icd.xml")
    monkeypatch.setattr(text_files, "_LONGEST_LINE", 300_000)
    (folder / "long.txt").write_text(f"a/b\n{'x' * 600_000}")
    with pytest.raises(TaxonomyError, match="line 2 is longer than 300,000 bytes"):
        load_taxonomy(folder / "long.txt")
    (folder / "bomb.nt.gz").write_bytes(gzip.compress(b"#\n" * (33 << 20)))
    with pytest.raises(TaxonomyError, match="unpacked, it is more than 250 times as large"):
        load_taxonomy(folder / "bomb.nt.gz")
