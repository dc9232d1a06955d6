"""OBO graphs, the JSON that ROBOT and the OBO Foundry write: nodes with labels, and edges by is_a."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labeltree.taxonomy.files.entries import Entries
from labeltree.taxonomy.files.nested import Pairs
from labeltree.taxonomy.files.ontologies.ontology_terms import Term, entries_from_terms, plain_text
from labeltree.taxonomy.files.ontologies.statements import short_id

if TYPE_CHECKING:
    from labeltree.taxonomy.files.opened_file import OpenedFile

__all__ = ["entries_from_obo_graphs", "is_obo_graphs"]

_IS_A = ("is_a", "subClassOf", "http://www.w3.org/2000/01/rdf-schema#subClassOf")
_REPLACED = "IAO_0100001"


def is_obo_graphs(data: Any) -> bool:
    """Whether what was read from JSON has graphs of nodes and edges."""
    graphs = _get(data, "graphs")
    return isinstance(graphs, list) and any(isinstance(_get(graph, "nodes"), list) for graph in graphs)


def entries_from_obo_graphs(file: OpenedFile) -> Entries:
    """Read OBO graphs by is_a: a node has the label of its class, its aliases are ids and exact synonyms.

    Deprecated classes are left out; the id of one that another replaces becomes an alias of that.
    """
    terms: dict[str, Term] = {}
    replaced: list[tuple[str, str]] = []
    deprecated: set[str] = set()
    graphs = _dicts(_get(file.json, "graphs"))
    for graph in graphs:
        for node in _dicts(graph.get("nodes")):
            id, meta = node.get("id"), _dict(node.get("meta"))
            if not isinstance(id, str) or node.get("type", "CLASS") != "CLASS":
                continue
            if meta.get("deprecated") is True:
                deprecated.add(id)
                replaced += [
                    (id, str(value.get("val")))
                    for value in _dicts(meta.get("basicPropertyValues"))
                    if str(value.get("pred")).endswith(_REPLACED)
                ]
                continue
            synonyms = [
                plain_text(str(synonym.get("val")))
                for synonym in _dicts(meta.get("synonyms"))
                if synonym.get("pred") == "hasExactSynonym"
            ]
            name = plain_text(str(node.get("lbl") or "")) or short_id(id)
            terms[id] = Term(name, [], [short_id(id), *synonyms, id], f"the class {short_id(id)!r}")
    by_short = {short_id(id): id for id in terms}
    for id, other in replaced:
        if (term := terms.get(by_short.get(other, other))) is not None:
            term.aliases.append(short_id(id))
    for graph in graphs:
        for edge in _dicts(graph.get("edges")):
            child, parent = edge.get("sub"), edge.get("obj")
            if (
                edge.get("pred") in _IS_A
                and child in terms
                and isinstance(parent, str)
                and parent not in deprecated
            ):
                terms[child].parents.append(parent)
    if deprecated:
        file.note(f"what is deprecated is left out: {len(deprecated):,}")
    return entries_from_terms(terms, file)


def _get(data: Any, key: str) -> Any:
    return dict(data).get(key) if isinstance(data, Pairs) else None


def _dict(data: Any) -> dict[str, Any]:
    return dict(data) if isinstance(data, Pairs) else {}


def _dicts(data: Any) -> list[dict[str, Any]]:
    return [dict(one) for one in data if isinstance(one, Pairs)] if isinstance(data, list) else []
