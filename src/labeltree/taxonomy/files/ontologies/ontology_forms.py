"""The forms of published ontologies, thesauri, classifications and phylogenies, as rows of `FORMS`."""

from __future__ import annotations

import re
from collections.abc import Callable

from labeltree.errors import TaxonomyError
from labeltree.options.choices import Form
from labeltree.taxonomy.files.entries import Entries
from labeltree.taxonomy.files.ontologies.classifications import (
    entries_from_claml,
    entries_from_icd_tabular,
    entries_from_meddra,
)
from labeltree.taxonomy.files.ontologies.mesh import entries_from_mesh, entries_from_mesh_xml
from labeltree.taxonomy.files.ontologies.obo_graphs import entries_from_obo_graphs, is_obo_graphs
from labeltree.taxonomy.files.ontologies.phylogenies import (
    entries_from_nexml,
    entries_from_nexus,
    entries_from_phyloxml,
)
from labeltree.taxonomy.files.ontologies.rdf_files import (
    entries_from_json_ld,
    entries_from_n_triples,
    entries_from_rdf_xml,
    entries_from_turtle,
    is_json_ld,
)
from labeltree.taxonomy.files.ontologies.taxdump import entries_from_taxdump, is_taxdump
from labeltree.taxonomy.files.ontologies.xml_events import xml_root
from labeltree.taxonomy.files.opened_file import OpenedFile

__all__ = ["ONTOLOGY_FORMS"]

Row = tuple[Form, str, tuple[str, ...], Callable[[OpenedFile], Entries], Callable[[OpenedFile], bool]]
_XML = (".xml", ".owl", ".rdf", ".skos")
_JSON = (".json", ".jsonld")
_COMMENTS = re.compile(r"(?:\s+|#[^\n]*\n)*")
_TURTLE = re.compile(r"@?(?:prefix|base)\b", re.IGNORECASE)
_OTHER_OWL = re.compile(
    r"(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*(?:<(?:owl:)?Ontology\b|(?:Prefix|Ontology)\(|(?:Prefix|Ontology):)",
    re.DOTALL,
)
_STATEMENT = re.compile(r"(?:<[^<>\s]*>|_:\S+)\s+<[^<>\s]*>\s+\S.*\.\s*$", re.MULTILINE)


def _has_root(name: str) -> Callable[[OpenedFile], bool]:
    return lambda file: xml_root(file.start) == name


def _is_turtle(file: OpenedFile) -> bool:
    return file.suffix in (".ttl", ".n3") or bool(_TURTLE.match(file.start, _first(file)))


def _is_n_triples(file: OpenedFile) -> bool:
    return file.suffix in (".nt", ".nq") or bool(_STATEMENT.match(file.start, _first(file)))


def _first(file: OpenedFile) -> int:
    match = _COMMENTS.match(file.start)
    return match.end() if match else 0


def _is_other_owl(file: OpenedFile) -> bool:
    return file.suffix in (".owx", ".ofn", ".omn") or bool(_OTHER_OWL.match(file.start, _first(file)))


def _refuse_other_owl(file: OpenedFile) -> Entries:
    raise TaxonomyError(
        "OWL/XML, functional and Manchester syntax are not read: 'robot convert --input "
        f"{file.path.name} --output {file.path.stem}.obo' makes a file that is"
    )


ONTOLOGY_FORMS: tuple[Row, ...] = (
    (
        "ncbi",
        "NCBI's nodes.dmp and names.dmp, in a folder or an archive",
        (".dmp", ".zip", ".tar", ".tgz"),
        entries_from_taxdump,
        lambda file: is_taxdump(file.path),
    ),
    (
        "obo-graph",
        "an ontology as OBO graphs",
        _JSON,
        entries_from_obo_graphs,
        lambda file: is_obo_graphs(file.json),
    ),
    ("rdf", "OWL or SKOS as JSON-LD", _JSON, entries_from_json_ld, lambda file: is_json_ld(file.json)),
    ("rdf", "OWL or SKOS as RDF/XML", _XML, entries_from_rdf_xml, _has_root("RDF")),
    ("rdf", "OWL in other syntaxes", (".owx", ".ofn", ".omn", *_XML), _refuse_other_owl, _is_other_owl),
    ("rdf", "OWL or SKOS as Turtle", (".ttl", ".n3", *_XML), entries_from_turtle, _is_turtle),
    ("rdf", "OWL or SKOS as N-Triples", (".nt", ".nq", *_XML), entries_from_n_triples, _is_n_triples),
    ("claml", "a classification in ClaML, such as ICD-10", _XML, entries_from_claml, _has_root("ClaML")),
    (
        "icd-tabular",
        "ICD-10-CM's tabular list",
        _XML,
        entries_from_icd_tabular,
        _has_root("ICD10CM.tabular"),
    ),
    ("meddra", "MedDRA's mdhier.asc", (".asc",), entries_from_meddra, lambda file: "$" in file.start),
    ("mesh", "MeSH's descriptors as XML", _XML, entries_from_mesh_xml, _has_root("DescriptorRecordSet")),
    (
        "mesh",
        "MeSH's descriptors as ASCII, such as d2025.bin",
        (".bin", ".txt"),
        entries_from_mesh,
        lambda file: file.start.lstrip().startswith("*NEWRECORD"),
    ),
    ("phyloxml", "a tree in PhyloXML", (".phyloxml", *_XML), entries_from_phyloxml, _has_root("phyloxml")),
    ("nexml", "a tree in NeXML", (".nexml", *_XML), entries_from_nexml, _has_root("nexml")),
    (
        "nexus",
        "a tree in NEXUS",
        (".nex", ".nexus", ".nxs", ".tree", ".tre", ".trees"),
        entries_from_nexus,
        lambda file: file.start.lstrip()[:6].upper() == "#NEXUS",
    ),
)
