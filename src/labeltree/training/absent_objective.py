"""A run whose objective is not registered here: what it still does, and what is said of the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from labeltree.training.registry import AUTO_OBJECTIVE, ObjectiveEntry, get_sum, list_objectives

__all__ = ["AbsentEntry", "absent_objectives", "where_to_find"]


class _ReadsEmbeddings(nn.Module):
    """Stands for a loss of embeddings of some width, and cannot be trained with."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, embeddings: Tensor) -> Tensor:
        raise NotImplementedError("the loss of this objective is not here")


class _ReadsFeatures(_ReadsEmbeddings):
    """The same for a loss of features, which leaves a run without a head."""

    def forward(self, features: Tensor) -> Tensor:
        raise NotImplementedError("the loss of this objective is not here")


@dataclass(frozen=True)
class AbsentEntry(ObjectiveEntry):
    """Stands for an objective that is not registered: the head can be built, the loss cannot.

    Attributes:
        dim: Width of the embeddings; None if the run has no head.
    """

    dim: int | None = None

    @classmethod
    def of_run(cls, name: str, weights: Mapping[str, Tensor], geometry: Any) -> AbsentEntry:
        """The entry of a run's objective.

        Args:
            name: Its name.
            weights: Weights of the run's objective.
            geometry: The geometry that it prefers; None = any.
        """
        last = [value for key, value in weights.items() if key.startswith("head.") and value.ndim == 2]
        loss = _ReadsEmbeddings if last else _ReadsFeatures
        dim = len(last[-1]) if last else None
        return cls(name, loss, "not registered", "unknown", "random", geometry=geometry, dim=dim)

    def build(self, given: dict[str, Any], options: dict[str, Any]) -> nn.Module:
        """A module that cannot compute a loss; it has no options."""
        return self.loss(self.dim)


def absent_objectives(objective: str) -> list[str]:
    """The terms of an objective `a+b` that are not registered."""
    if objective == AUTO_OBJECTIVE or get_sum(objective) is not None:
        return []
    known = {entry.name for entry in list_objectives()}
    return [name for name in map(str.strip, objective.split("+")) if name not in known]


def where_to_find(name: str, origin: Mapping[str, str]) -> str:
    """What registers an objective, and what to do, as the end of a sentence.

    Args:
        name: Its name.
        origin: What the run recorded of it, see `Origin.to_dict`; empty if it recorded nothing.
    """
    module, package = origin.get("module"), origin.get("package")
    if module is None:
        return f"'{name}' is not registered here: import the module that registers it, or install its package"
    if package is not None:
        return f"'{name}' is not registered here: it is in '{module}' of package {package}; install that"
    if module.endswith(".py"):
        return (
            f"'{name}' is not registered here: the script '{module}' registers it; run that script in place "
            "of labeltree, or ask its author for a package"
        )
    return f"'{name}' is not registered here: import '{module}', which registers it, first"
