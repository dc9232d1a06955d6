"""The model's own answers, where the table has them: what its classifier said, with nothing learned here."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from labeltree.evaluation.classification import classification_scores
from labeltree.evaluation.ground import Ground
from labeltree.evaluation.samples import Samples

__all__ = ["OwnAnswers", "own_answers"]


@dataclass(frozen=True)
class OwnAnswers:
    """Scores of the model's own answers.

    Attributes:
        scores: by name, each beginning with ``own_``.
        by_depth: accuracy at depth 1 … L.
        silent: how many test samples it gave no answer for; they count as wrong.
        predicted: ``(m,)`` the answer for each test sample, −1 where there is none.
    """

    scores: dict[str, float]
    by_depth: list[float]
    silent: int
    predicted: Tensor


def own_answers(
    predictions: Tensor | None, nodes: Tensor, samples: Samples, ground: Ground
) -> OwnAnswers | None:
    """Score the answers for the test samples; None where there are none.

    A sample without an answer is as wrong as can be: it counts as answered with the root. An inner node as
    an answer is right at the depths that it has.

    Args:
        predictions: ``(n,)`` nodes of all rows of the table, −1 for no answer; or None.
        nodes: ``(n,)`` labels.
        samples: which rows are tested.
        ground: of the nodes.
    """
    if predictions is None or not bool((predictions[samples.test] >= 0).any()):
        return None
    predicted, target = predictions[samples.test], nodes[samples.test]
    decided = samples.finest[target]
    scores, by_depth = classification_scores(predicted.clamp(min=0), target, decided, ground)
    found = {f"own_{name}": value for name, value in scores.items()}
    return OwnAnswers(found, by_depth, int((predicted < 0).sum()), predicted)
