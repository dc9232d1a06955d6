"""Classes that an extension of a run adds by their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from labeltree.decisions.prototypes_from_names import NamedClasses, name_prototypes, weigh_names
from labeltree.errors import DataError
from labeltree.inference.load_run import TrainedRun
from labeltree.inference.named_samples import open_texts
from labeltree.inference.run_embeddings import embed_source
from labeltree.runs import EmbeddingTable
from labeltree.safe_files import Reader, read_text
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.name_texts import check_words, fill_template, is_code, name_texts
from labeltree.taxonomy.naming import split_path

__all__ = [
    "NamedAccuracy",
    "check_reads_names",
    "named_accuracy",
    "prototypes_of_names",
    "read_names",
    "with_names",
    "worth_text",
]


_NAMES = Reader("a list of names", "write a path of the taxonomy on each line", DataError)


def read_names(given: Sequence[str]) -> dict[tuple[str, ...], tuple[str, ...]]:
    """The classes that are named: paths, or `.txt` files with a path in each line, and synonyms after tabs.

    Raises:
        DataError: If a file cannot be read, or names nothing.
    """
    lines: list[str] = []
    for each in given:
        if not each.endswith(".txt"):
            lines.append(each)
            continue
        lines += read_text(each, _NAMES).splitlines()
    named: dict[tuple[str, ...], tuple[str, ...]] = {}
    for line in filter(str.strip, lines):
        path, *synonyms = line.split("\t")
        if not (names := split_path(path)):
            raise DataError(f"'{line}' names no class")
        if is_code(names[-1]):
            raise DataError(f"'{path}' is a code, which says nothing to an encoder; give the name in words")
        named[names] = tuple(filter(None, map(str.strip, synonyms)))
    if not named:
        raise DataError("no class is named; give paths such as animal/bird/hoopoe, or a file of them")
    return named


def check_reads_names(run: TrainedRun) -> None:
    """Raise a DataError unless the run places texts in the space of its samples, and that is no ball."""
    encoder = run.network.encoder
    if encoder.modality not in ("text", "both"):
        raise DataError(
            f"the run's encoder '{run.recipe.encoder}' reads {encoder.modality}s, so a name says nothing to "
            "it; give samples of the new classes (--data)"
        )
    if run.network.objective.geometry.name == "poincare":
        raise DataError("the run's embeddings lie in the Poincaré ball, where names are not weighed yet")


def prototypes_of_names(
    run: TrainedRun, taxonomy: Taxonomy, named: Mapping[int, Sequence[str]], table: EmbeddingTable
) -> tuple[NamedClasses, NamedClasses]:
    """What the names of classes say, and how much that is worth.

    Args:
        run: The run.
        taxonomy: The taxonomy with the named classes.
        named: Node and further names of each.
        table: Embeddings of samples to learn from; those of classes that are not named say what names are
            worth.

    Returns:
        The named classes, and those with samples, with the vectors of their names.

    Raises:
        DataError: If too few classes have samples; see `weigh_names`.
        TaxonomyError: If the names are codes.
    """
    nodes = torch.tensor(sorted(named))
    rows = table.rows((table.nodes > 0) & ~torch.isin(table.nodes, nodes))
    known, labels = torch.unique(rows.nodes, return_inverse=True)
    every = [*nodes.tolist(), *known.tolist()]
    check_words(taxonomy, every)
    unit = table.geometry == "sphere"
    texts = [
        (*of_node, *(fill_template(taxonomy, node, name) for name in named.get(node, ())))
        for node, of_node in zip(every, name_texts(taxonomy, every), strict=True)
    ]

    def embed(lines: list[str]) -> Tensor:
        source = open_texts(run, lines).source
        assert source is not None
        return embed_source(run.network, source, keep=False).embeddings

    vectors = name_prototypes(texts, embed, unit=unit)
    points = rows.embeddings.double()
    names = vectors[len(nodes) :]
    evidence = weigh_names(names, normalize(points, dim=1) if unit else points, labels)
    return (
        NamedClasses(nodes, vectors[: len(nodes)], evidence, unit),
        NamedClasses(known, names, evidence, unit),
    )


@dataclass(frozen=True)
class NamedAccuracy:
    """The share of held-out samples of known classes that are named right if their class has a name alone.

    Attributes:
        samples: Their number.
        by_name: The share.
        by_samples: The share by the means of samples.
    """

    samples: int
    by_name: float
    by_samples: float


def named_accuracy(
    known: NamedClasses, learned: EmbeddingTable, held: EmbeddingTable
) -> NamedAccuracy | None:
    """How well names alone do, each class in turn without its samples; None without held-out samples.

    Args:
        known: The classes with samples, C, and their names.
        learned: Their samples.
        held: Labelled samples that these have not learned from.
    """
    held = held.rows(torch.isin(held.nodes, known.nodes))
    if not len(held):
        return None
    count, evidence = known.evidence.classes, known.evidence
    means = known.means(learned.embeddings, learned.nodes)
    others = (count * evidence.shift - (means - known.names)) / (count - 1)
    alone = known.names + others
    points, own = held.embeddings.double(), torch.searchsorted(known.nodes, held.nodes)
    if known.unit:
        points, means, alone = (normalize(each, dim=1) for each in (points, means, alone))
    near = -torch.cdist(points, means)
    by_samples = near.argmax(1) == own
    mine = -(points - alone[own]).norm(dim=1)
    near[torch.arange(len(own)), own] = -torch.inf
    by_name = mine > near.amax(1)
    return NamedAccuracy(len(held), float(by_name.double().mean()), float(by_samples.double().mean()))


def worth_text(names: NamedClasses, accuracy: NamedAccuracy | None) -> str:
    """How much names are worth, in words."""
    evidence = names.evidence
    said = f"A name is worth {evidence.weight:.1f} samples, as {evidence.classes:,} classes with samples say"
    if accuracy is None:
        return f"{said}."
    return (
        f"{said}: known by its name alone, a class of theirs would be found for {accuracy.by_name:.1%} of "
        f"{accuracy.samples:,} held-out samples, by its samples for {accuracy.by_samples:.1%}."
    )


def with_names(
    added: list[dict[str, Any]], taxonomy: Taxonomy, asked: Sequence[int], named: Mapping[int, Sequence[str]]
) -> list[dict[str, Any]]:
    """What was learned, with the classes that have names."""
    paths = {taxonomy.path_name(node) for node in named}
    said = [{**each, "name": True} if each["class"] in paths else each for each in added]
    there = {each["class"] for each in said}
    nothing = {"new": True, "samples": 0, "groups": None, "held": 0, "why": "", "name": True}
    alone = [taxonomy.path_name(node) for node in sorted(asked)]
    return [*said, *({"class": path, **nothing} for path in alone if path not in there)]
