"""What may be unintended in a valid DAG, said in sentences for its author."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from labeltree.taxonomy.placeholders import placeholder_sentences
from labeltree.taxonomy.review import count_of, leaf_count, places, ragged, repeated

if TYPE_CHECKING:
    from labeltree.taxonomy.graph import TaxonomyDAG

__all__ = ["review_graph"]


def review_graph(dag: TaxonomyDAG) -> list[str]:
    """All warnings, one sentence per kind of finding; see `TaxonomyDAG.check`."""
    findings = (
        leaf_count(dag), _several_parents(dag), _needless_edges(dag), _single_children(dag), ragged(dag),
        repeated(dag),
    )  # fmt: skip
    return [*(sentence for sentence in findings if sentence), *placeholder_sentences(dag)]


def _several_parents(dag: TaxonomyDAG) -> str:
    several = [node for node in range(len(dag)) if len(dag.parents(node)) > 1]
    if not several:
        return "every node has one parent: this is a tree, and Taxonomy can read it"
    return (
        f"{count_of(len(several), 'node has', 'nodes have')} several parents: {places(dag, several)}; losses "
        "need a tree, which project() makes"
    )


def _needless_edges(dag: TaxonomyDAG) -> str:
    found = []
    for node in range(len(dag)):
        above = dag.parents(node)
        if len(above) > 1:
            beyond = {a for parent in above for a in dag.ancestors_of(parent)}
            found += [(node, parent) for parent in above if parent in beyond]
    if not found:
        return ""
    node, parent = found[0]
    edges = count_of(len(found), "edge repeats", "edges repeat")
    return (
        f"{edges} what a longer path says, as that from {dag.path_name(node)!r} to "
        f"{dag.path_name(parent)!r}, which is above another of its parents"
    )


def _single_children(dag: TaxonomyDAG) -> str:
    count = torch.tensor([len(dag.children(node)) for node in range(len(dag))])
    single = [node for node in torch.nonzero(count == 1).flatten().tolist() if node]
    if not single:
        return ""
    return f"{count_of(len(single), 'node has', 'nodes have')} a single child: {places(dag, single)}"
