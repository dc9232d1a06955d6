"""A tree above class names, from WordNet; what is ambiguous is the user's to decide."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.build import Entries
from labeltree.taxonomy.graph import TaxonomyDAG
from labeltree.taxonomy.projection import ProjectionRule
from labeltree.taxonomy.suggest import nearest_hint
from labeltree.taxonomy.wordnet import WordNetNouns, wordnet_entries
from labeltree.taxonomy.wordnet_names import find_meanings, gloss_of

__all__ = ["graph_of_synsets", "tree_from_wordnet", "tree_of_synsets"]

GLOSS = 60  # characters of a gloss in a message


def tree_from_wordnet(
    names: Iterable[str],
    folder: str | os.PathLike[str],
    senses: Mapping[str, str] | None = None,
    rule: ProjectionRule = "yolo9000",
) -> Entries:
    """Collect the tree of classes and of what is above them; see `Taxonomy.from_wordnet`."""
    nouns = WordNetNouns(folder)
    return tree_of_synsets(nouns, _choose(nouns, list(names), dict(senses or {})), rule)


def graph_of_synsets(nouns: WordNetNouns, synsets: Mapping[str, int]) -> tuple[TaxonomyDAG, Tensor]:
    """The DAG of chosen synsets and of what is above them.

    Args:
        nouns: WordNet's.
        synsets: the name that a class shall have → the offset of its synset, all different.

    Returns:
        The DAG, and the node of each class, (C,).
    """
    kept = set(synsets.values())
    waiting = list(kept)
    while waiting:
        for above in nouns.hypernyms(waiting.pop()):
            if above not in kept:
                kept.add(above)
                waiting.append(above)
    tops = [offset for offset in nouns.synsets if offset in kept and not nouns.hypernyms(offset)]
    if not tops:
        raise TaxonomyError(
            f"{str(nouns.folder / 'data.noun')!r}: above the classes hypernyms go in a circle"
        )
    root = tops[0]
    dag = TaxonomyDAG(*wordnet_entries(nouns, kept, root, instances=True))
    place = {name: node for node, name in enumerate(dag.names)}
    classes = [place[nouns.name(offset)] for offset in synsets.values()]
    renamed = dag.entries()  # in the DAG's own order, so that a node keeps its number
    for name, node in zip(synsets, classes, strict=True):
        renamed.names[node] = name
    return TaxonomyDAG(*renamed), torch.tensor(classes)


def tree_of_synsets(
    nouns: WordNetNouns, synsets: Mapping[str, int], rule: ProjectionRule = "yolo9000"
) -> Entries:
    """The tree that a rule makes of `graph_of_synsets`; see `TaxonomyDAG.project`."""
    dag, classes = graph_of_synsets(nouns, synsets)
    tree, _ = dag.project(rule, classes=classes) if rule == "yolo9000" else dag.project(rule)
    return tree.entries()


def _choose(nouns: WordNetNouns, names: list[str], senses: dict[str, str]) -> dict[str, int]:
    """The synset of each name; all that is unknown or ambiguous in one message."""
    chosen, unclear, wrong = find_meanings(nouns, names, senses)
    sentences = [
        f"{name}: senses says {sense!r}, which is not one synset of WordNet" for name, sense in wrong.items()
    ]
    for name, found in unclear.items():
        if found:
            meanings = [f"{nouns.name(offset)} ({gloss_of(nouns, offset, GLOSS)})" for offset in found]
            sentences.append(f"{name}: " + ", ".join(meanings))
        else:
            hint = nearest_hint(name.replace(" ", "_"), nouns.senses)
            sentences.append(f"{name}: no noun of WordNet ({hint})")
    if sentences:
        raise TaxonomyError(
            f"{len(sentences)} of {len(set(names))} names are unknown to WordNet or have several senses; "
            "choose with senses={name: synset}:\n" + "\n".join(sentences)
        )
    return chosen
