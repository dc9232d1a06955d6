"""The posterior space of a table: what the classifier that answers makes of its samples, as points."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.decisions.calibrators import smoothed_temperature
from labeltree.decisions.choose_classifier import classifier_words
from labeltree.decisions.class_nodes import ClassNodes
from labeltree.decisions.classifiers import Classifiers
from labeltree.decisions.posterior_space import posterior_embeddings
from labeltree.evaluation.representations import POSTERIOR, Reading, Representation
from labeltree.geometry import Sphere
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

__all__ = ["MOST_CLASSES", "read_posterior"]

MOST_CLASSES = 2_000
"""With more, a probability of every class for every sample takes too much memory to be usual."""

_AT_ONCE = 2**23  # probabilities


def read_posterior(
    table: EmbeddingTable,
    classifiers: Classifiers,
    taxonomy: Taxonomy,
    *,
    held: Tensor,
    rows: Tensor,
    most_classes: int | None = MOST_CLASSES,
) -> tuple[Reading | None, str]:
    """Place samples at Σ p(c | x)·φ_c, see `posterior_embeddings`, and say by which probabilities.

    They are those of the classifier that answers or, if it gives answers alone, of the best that has scores,
    with the temperature that the validation samples support (`smoothed_temperature`).

    Args:
        table: As the classifiers read it.
        classifiers: Of the table.
        taxonomy: Of the labels.
        held: `(h,)` validation rows, with finest labels, from which the classifiers have not learned.
        rows: `(m,)` rows to place; the points of the others are 0.
        most_classes: With more classes nothing is read; None = any number.

    Returns:
        The reading of all rows, None if there is none, and a sentence.
    """
    name = classifiers.with_scores
    scorer = classifiers.scores(name)
    count = len(scorer.classes)
    missing = "Nothing is measured in the posterior space"
    if most_classes is not None and count > most_classes:
        return None, (
            f"{missing}: a probability of each of {count:,} classes for every sample takes much memory; "
            f"'--protocols {POSTERIOR}' asks for it."
        )
    if not len(held):
        return None, f"{missing}: there are no validation samples to calibrate probabilities on."
    labels, classes = table.nodes[held], ClassNodes(scorer.classes, taxonomy)
    temperature = smoothed_temperature(scorer(table.rows(held)), labels, classes)
    points = torch.zeros(len(table), count)
    for part in torch.split(rows, max(1, _AT_ONCE // count)):
        probabilities = (scorer(table.rows(part)) / temperature).softmax(1)
        points[part] = posterior_embeddings(probabilities, scorer.classes, taxonomy).float()
    words = classifier_words(name, features=table.features is not None)
    return Reading(points, points, Sphere(), Representation(POSTERIOR, count, "sphere")), (
        "In the posterior space a sample is the mean of the classes' embeddings (tree 0.5) by the "
        f"probabilities of {words}, calibrated on {len(held):,} validation samples. Numbers of it have no "
        "intervals and are not tested."
    )
