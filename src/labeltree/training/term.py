"""One term of an objective: a loss, fed by the names of what it asks for, and the heads that are its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

__all__ = ["Term"]

# What a loss or its `predict` may ask for, by the names of its parameters; `Objective` says what each is.
_BY_ROW = ("features", "embeddings", "nodes", "instances", "aspects", "ratings")
_OFFERED = (*_BY_ROW, "logits", "heads", "queries", "keys", "queue")


class Term(nn.Module):
    """A loss with its weight.

    Args:
        name: of the objective.
        loss: whatever the objective has registered.
        weight: factor in the sum.
        classifier: what a classifier of the loss reads, ``features`` or ``embeddings``.
        widths: of features and of embeddings.
        make_head: makes a projection head.
        of_aspects: whether its labels are the samples' aspects.

    Attributes:
        asks: the names of what the loss is called with.
        classifier: linear, from features or embeddings to ``loss.classes``; None unless the loss asks for
            ``logits``.
        of_aspects: as given.
        heads: ``loss.num_heads`` projection heads; empty unless the loss asks for ``heads``.

    Raises:
        ValueError: if the loss asks for something that is not offered, or does not say how many classes or
            heads it wants.
    """

    def __init__(
        self,
        name: str,
        loss: nn.Module,
        weight: float,
        classifier: str,
        widths: Mapping[str, int],
        make_head: Callable[[], nn.Module],
        *,
        of_aspects: bool = False,
    ) -> None:
        super().__init__()
        self.name = name
        self.loss = loss
        self.weight = weight
        self.asks = _asked(name, loss.forward)
        parameters = inspect.signature(loss.forward).parameters
        self._needs = frozenset(
            key for key in self.asks if parameters[key].default is inspect.Parameter.empty
        )
        self._reads = classifier
        self.of_aspects = of_aspects
        if of_aspects:
            self._needs |= {"aspects"}
        if getattr(loss, "needs_ratings", False):
            self._needs |= {"ratings"}
        self.classifier: nn.Linear | None = None
        if "logits" in self.asks:
            classes = _wish(name, loss, "logits", "classes")
            self.classifier = nn.Linear(widths[classifier], len(classes))
        count = int(_wish(name, loss, "heads", "num_heads")) if "heads" in self.asks else 0
        self.heads = nn.ModuleList(make_head() for _ in range(count))

    def check_samples(self, *, aspects: bool, ratings: bool) -> None:
        """Find out before training whether the samples have what the loss cannot do without.

        Raises:
            ValueError: if they do not.
        """
        for key, there in (("aspects", aspects), ("ratings", ratings)):
            if key in self._needs and not there:
                raise ValueError(
                    f"objective '{self.name}' needs {key}, which the samples do not have; in a table, "
                    "columns of whole numbers named in table.aspect_columns are both; or leave out what "
                    "needs them, such as mlcl.global_head"
                )

    @property
    def reads_embeddings(self) -> bool:
        """Whether the shared head takes part in this term."""
        classifies_them = "logits" in self.asks and self._reads == "embeddings"
        return classifies_them or bool(self.asks & {"embeddings", "queries"})

    def forward(self, offered: Mapping[str, Any], num_queries: int | None = None) -> Tensor:
        """The loss of a batch, from everything that is offered by name."""
        if "queries" in self.asks:
            rows = {key: offered[key][:num_queries] for key in _BY_ROW if offered.get(key) is not None}
            offered = {**offered, **rows, "queries": rows["embeddings"]}
        for key in ("keys", "queue", "aspects", "ratings"):
            if key in self._needs and offered.get(key) is None:
                raise ValueError(f"objective '{self.name}' needs {key}, which this batch does not have")
        if self.of_aspects:
            offered = {**offered, "nodes": offered["aspects"]}
        loss: Tensor = self.loss(**self._feed(self.asks, offered))
        if loss.ndim:
            raise ValueError(
                f"the loss of objective '{self.name}' has shape {tuple(loss.shape)}; expected one number"
            )
        return loss

    def predict(self, offered: Mapping[str, Any]) -> Tensor | None:
        """The nodes ``(n,)`` that the loss itself would answer; None if it does not answer."""
        return None if self.of_aspects else self._answer("predict", offered)

    def predict_aspects(self, offered: Mapping[str, Any]) -> Tensor | None:
        """The nodes ``(n, A)`` that the loss would answer for every aspect; None if it does not answer."""
        return self._answer("predict_aspects", offered) if self.of_aspects else None

    @property
    def answers(self) -> bool:
        """Whether the loss has answers of its own about the samples' labels."""
        return not self.of_aspects and getattr(self.loss, "predict", None) is not None

    def class_scores(self, offered: Mapping[str, Any]) -> tuple[Tensor, Tensor] | None:
        """The loss's classes ``(C,)`` and their logits ``(n, C)``; None if it answers without a softmax."""
        classes, logits = getattr(self.loss, "classes", None), getattr(self.loss, "logits", None)
        if not self.answers or not isinstance(classes, Tensor):
            return None
        if self.classifier is not None:
            return classes, self.classifier(offered[self._reads])
        if not callable(logits):
            return None
        return classes, logits(**self._feed(_asked(self.name, logits), offered))

    def _answer(self, method: str, offered: Mapping[str, Any]) -> Tensor | None:
        answer = getattr(self.loss, method, None)
        if answer is None:
            return None
        nodes: Tensor = answer(**self._feed(_asked(self.name, answer), offered))
        return nodes

    def _feed(self, asked: frozenset[str], offered: Mapping[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        if "logits" in asked and self.classifier is not None:
            made["logits"] = self.classifier(offered[self._reads])
        if "heads" in asked:
            made["heads"] = [head(offered["features"]) for head in self.heads]
        return {key: made[key] if key in made else offered[key] for key in asked}


def _wish(name: str, loss: nn.Module, asked: str, attribute: str) -> Any:
    if not hasattr(loss, attribute):
        raise ValueError(
            f"objective '{name}' asks for {asked}, so its loss {type(loss).__name__} must have an attribute "
            f"'{attribute}' that says how many"
        )
    return getattr(loss, attribute)


def _asked(name: str, function: Callable[..., Any]) -> frozenset[str]:
    parameters = inspect.signature(function).parameters
    unknown = [key for key, p in parameters.items() if key not in _OFFERED and p.default is p.empty]
    if unknown:
        raise ValueError(
            f"objective '{name}' asks for '{unknown[0]}'; what losses can ask for is {', '.join(_OFFERED)}"
        )
    return frozenset(parameters) & frozenset(_OFFERED)
