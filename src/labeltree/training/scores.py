"""What gives classes their scores: the classifier that was trained with the encoder, or one learned on it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import Tensor

from labeltree.decisions.class_nodes import finest_classes
from labeltree.decisions.classifier import LinearScores, PrototypeScores, fit_linear, fit_prototypes
from labeltree.errors import RunError
from labeltree.runs import EmbeddingTable
from labeltree.training.embed import run_tables
from labeltree.training.objective import Objective
from labeltree.training.term import Term
from labeltree.training.trainee import Trainee

__all__ = ["CLASSIFIERS", "ClassifierChoice", "OwnScores", "Scores", "choose_classifier", "own_scores"]

ClassifierChoice = Literal["auto", "own", "probe", "prototypes"]
CLASSIFIERS: tuple[ClassifierChoice, ...] = get_args(ClassifierChoice)

_ROWS = 4096


@dataclass(frozen=True)
class OwnScores:
    """The logits of the classifier that was trained with the encoder.

    Attributes:
        trainee: the run.
        classes: (C,) nodes of the data's taxonomy.
    """

    trainee: Trainee
    classes: Tensor

    def __call__(self, table: EmbeddingTable) -> Tensor:
        """(n, C) scores of a table of the same encoder."""
        assert table.features is not None
        objective = self.trainee.module.objective.eval()
        device = next(self.trainee.module.parameters()).device
        parts = []
        with torch.inference_mode():
            for part in torch.split(table.features, _ROWS):
                found = _class_scores(objective, part.to(device))
                assert found is not None
                parts.append(found[1].double().cpu())
        return torch.cat(parts).clone()  # a tensor made in inference mode takes part in no gradient


Scores = OwnScores | LinearScores | PrototypeScores


def choose_classifier(
    path: str | Path, trainee: Trainee, choice: ClassifierChoice = "auto"
) -> tuple[Scores, str]:
    """What gives the classes of a run their scores, and its kind; see `calibrate_run` for the choices.

    Raises:
        RunError: if its own classifier is asked for and there is none.
        DataError: if no training sample has a label to learn.
    """
    if choice not in CLASSIFIERS:
        raise ValueError(f"classifier is {choice!r}; expected one of {', '.join(CLASSIFIERS)}")
    if choice in ("auto", "own"):
        own = own_scores(trainee)
        if own is not None:
            return own, "own"
        if choice == "own":
            raise RunError(
                f"the objective '{trainee.module.recipe.objective}' of '{path}' has no classifier with a "
                "softmax over classes; take --classifier probe"
            )
    table = run_tables(path, ["trained"])[1]["trained"]
    labels = table.nodes.clone()
    if table.split is not None:
        labels[torch.from_numpy(table.split != "train")] = -1
    finest = finest_classes(labels, trainee.source.taxonomy)
    labels[~torch.isin(labels, finest)] = -1
    if choice == "prototypes":
        return fit_prototypes(table, labels, trainee.source.taxonomy), "prototypes"
    return fit_linear(table, labels), "probe"


def own_scores(trainee: Trainee) -> OwnScores | None:
    """The run's own classifier, if its answers are a softmax over distinct nodes of the data's taxonomy."""
    module = trainee.module.eval()
    device = next(module.parameters()).device
    width = module.encoder.feature_dim
    with torch.inference_mode():
        found = _class_scores(module.objective, torch.zeros(1, width, device=device))
    if found is None:
        return None
    nodes = trainee.labels.from_training[found[0].cpu()].clone()
    if bool((nodes < 0).any()) or len(torch.unique(nodes)) < len(nodes):
        return None
    return OwnScores(trainee, nodes)


def _class_scores(objective: Objective, features: Tensor) -> tuple[Tensor, Tensor] | None:
    """Classes and scores of the loss whose answers are the model's: the last one that has answers."""
    terms = [term for term in objective.terms.values() if isinstance(term, Term) and term.answers]
    if not terms:
        return None
    return terms[-1].class_scores({"features": features, "embeddings": objective.embed(features)})
