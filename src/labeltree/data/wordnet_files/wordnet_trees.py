"""Taxonomies from WordNet: all nouns below a synset, or the synsets above class names."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from labeltree.data.wordnet_files.wordnet_files import WordNetNouns
from labeltree.data.wordnet_files.wordnet_names import find_meanings, gloss_of
from labeltree.errors import TaxonomyError
from labeltree.lazy import torch
from labeltree.taxonomy import Taxonomy, TaxonomyDAG
from labeltree.taxonomy.naming import nearest_hint
from labeltree.taxonomy.project_dag import ProjectionRule

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["synset_dag", "synset_tree", "synsets_below", "wordnet_dag", "wordnet_taxonomy"]

GLOSS = 60  # characters of a gloss in a message


def wordnet_dag(
    folder: str | os.PathLike[str], root: str = "entity.n.01", instances: bool = True
) -> TaxonomyDAG:
    """Read the nouns of WordNet as a DAG of synsets with names such as `dog.n.01` (word, noun, sense number).

    Args:
        folder: Folder with `data.noun` and `index.noun` of WordNet 3.x; see `wordnet_folder`.
        root: The synset whose hyponyms are read, by name or ImageNet id (`n00001740`). Hypernyms outside
            this subgraph are left out.
        instances: Whether to include instances, such as `paris.n.01` of `national_capital.n.01`.

    Raises:
        TaxonomyError: If a file is missing or damaged, or there is no such synset.
    """
    nouns = WordNetNouns(folder)
    synsets = nouns.find(root)
    if len(synsets) != 1:
        senses = ", ".join(map(nouns.name, synsets))
        hint = f"it may be {senses}" if synsets else nearest_hint(root.split(".")[0], nouns.senses)
        raise TaxonomyError(
            f"root={root!r} is {'ambiguous' if synsets else 'not a noun of WordNet'} ({hint})"
        )
    offsets = synsets_below(nouns, synsets[0], instances)
    names = [nouns.name(offset) for offset in offsets]
    return TaxonomyDAG(names, _parents(nouns, offsets, synsets[0], instances))


def wordnet_taxonomy(
    names: Iterable[str],
    folder: str | os.PathLike[str],
    senses: Mapping[str, str] | None = None,
    rule: ProjectionRule = "yolo9000",
) -> Taxonomy:
    """Build a taxonomy of class names from their hypernyms in WordNet.

    Every class is a node with the given name; the nodes above are synsets with names such as
    `carnivore.n.01`.

    Args:
        names: Names of the classes: nouns of WordNet or their plurals (`_` and `-` may stand for a space),
            synsets such as `crane.n.04`, or ImageNet ids such as `n02012849`.
        folder: Folder with `data.noun` and `index.noun` of WordNet 3.x; see `wordnet_folder`.
        senses: Name → synset, for names with several senses or with another name in WordNet.
        rule: Rule by which the DAG of the classes and their hypernyms becomes a tree; see
            `TaxonomyDAG.project`.

    Raises:
        TaxonomyError: If names are unknown or ambiguous (the message lists them with their senses), two names
            share a synset, or a file is missing or damaged.
    """
    nouns = WordNetNouns(folder)
    return synset_tree(nouns, _choose(nouns, list(names), dict(senses or {})), rule)


def synsets_below(nouns: WordNetNouns, root: int, instances: bool = True) -> list[int]:
    """The offsets of the synsets at or below one, in the order of the file.

    Args:
        nouns: Nouns of WordNet.
        root: Offset of the synset.
        instances: Whether instances count as below their class.
    """
    below: dict[int, list[int]] = {}
    for offset in nouns.synsets:
        for above in nouns.hypernyms(offset, instances):
            below.setdefault(above, []).append(offset)
    reached, waiting = {root}, [root]
    while waiting:
        new = [offset for offset in below.get(waiting.pop(), []) if offset not in reached]
        reached.update(new)
        waiting += new
    return [offset for offset in nouns.synsets if offset in reached]


def _parents(
    nouns: WordNetNouns, offsets: Sequence[int], root: int, instances: bool = True
) -> list[list[int]]:
    """For each of the given synsets, the positions of its hypernyms among them; empty for the root."""
    index = {offset: i for i, offset in enumerate(offsets)}
    return [
        [index[a] for a in dict.fromkeys(nouns.hypernyms(offset, instances)) if a in index]
        if offset != root
        else []
        for offset in offsets
    ]


def _add_all_above(nouns: WordNetNouns, offsets: Collection[int]) -> list[int]:
    """The given synsets and all synsets above them, in the order of the file."""
    kept, waiting = set(offsets), list(offsets)
    while waiting:
        for above in nouns.hypernyms(waiting.pop()):
            if above not in kept:
                kept.add(above)
                waiting.append(above)
    return [offset for offset in nouns.synsets if offset in kept]


def synset_dag(nouns: WordNetNouns, synsets: Mapping[str, int]) -> tuple[TaxonomyDAG, Tensor]:
    """The DAG of the given synsets and all synsets above them.

    Args:
        nouns: Nouns of WordNet.
        synsets: Class name → offset of its synset, all different.

    Returns:
        The DAG, and the node of each class `(C,)`.
    """
    offsets = _add_all_above(nouns, synsets.values())
    root = next((offset for offset in offsets if not nouns.hypernyms(offset)), None)
    if root is None:
        raise TaxonomyError(
            f"{str(nouns.folder / 'data.noun')!r}: above the classes hypernyms go in a circle"
        )
    dag = TaxonomyDAG([nouns.name(offset) for offset in offsets], _parents(nouns, offsets, root))
    place = {name: node for node, name in enumerate(dag.names)}
    classes = [place[nouns.name(offset)] for offset in synsets.values()]
    renamed = list(dag.names)
    for name, node in zip(synsets, classes, strict=True):
        renamed[node] = name
    # in the DAG's order, so that nodes keep their numbers
    return TaxonomyDAG(renamed, [dag.parents(node) for node in range(len(dag))]), torch.tensor(classes)


def synset_tree(
    nouns: WordNetNouns, synsets: Mapping[str, int], rule: ProjectionRule = "yolo9000"
) -> Taxonomy:
    """Project `synset_dag` to a tree by a rule; see `TaxonomyDAG.project`."""
    dag, classes = synset_dag(nouns, synsets)
    tree, _ = dag.project(rule, classes=classes) if rule == "yolo9000" else dag.project(rule)
    return tree


def _choose(nouns: WordNetNouns, names: list[str], senses: dict[str, str]) -> dict[str, int]:
    """The synset of each name; one error lists all unknown or ambiguous names."""
    chosen, unclear, wrong = find_meanings(nouns, names, senses)
    sentences = [
        f"{name}: senses says {sense!r}, which is not one synset of WordNet" for name, sense in wrong.items()
    ]
    for name, offsets in unclear.items():
        if offsets:
            meanings = [f"{nouns.name(offset)} ({gloss_of(nouns, offset, GLOSS)})" for offset in offsets]
            sentences.append(f"{name}: " + ", ".join(meanings))
        else:
            hint = nearest_hint(name.replace(" ", "_"), nouns.senses)
            sentences.append(f"{name}: no noun of WordNet ({hint})")
    if sentences:
        raise TaxonomyError(
            f"{len(sentences)} of {len(set(names))} names are unknown to WordNet or have several senses; "
            "choose with senses={name: synset}: " + "; ".join(sentences)
        )
    return chosen
