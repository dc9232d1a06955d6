"""Helpers of all metrics: checks of arguments, and the reduction of values per sample.

A message names the argument, its value and what was expected.
"""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.taxonomy import AnyTaxonomy
from labeltree.taxonomy.check_nodes import warn_of_class_numbers

__all__ = [
    "check_embeddings",
    "check_labels",
    "check_nodes",
    "check_positive",
    "check_reduction",
    "check_same_length",
    "mean_of_counted",
    "spread",
]


def check_embeddings(name: str, embeddings: Tensor) -> None:
    """Raise `ValueError` unless `embeddings` is a finite floating-point tensor of shape (n, d)."""
    if embeddings.ndim != 2 or not embeddings.is_floating_point():
        raise ValueError(
            f"{name} has shape {tuple(embeddings.shape)} and dtype {embeddings.dtype}; "
            "expected floating-point embeddings of shape (n, d)"
        )
    if bool(embeddings.detach().sum().isfinite()):
        return  # far faster than to look at each number, and with no copies
    finite = torch.isfinite(embeddings).all(dim=1)
    if not bool(finite.all()):
        row = int((~finite).nonzero()[0])
        raise ValueError(f"{name} holds NaN or infinity in row {row}; expected finite embeddings")


def check_labels(name: str, labels: Tensor) -> None:
    """Raise `ValueError` unless `labels` is an integer tensor of shape (n,) with entries of at least -1."""
    if labels.ndim != 1:
        raise ValueError(
            f"{name} has shape {tuple(labels.shape)}; expected one integer label a row, shape (n,)"
        )
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise ValueError(
            f"{name} has dtype {labels.dtype}; expected integers: float32 cannot tell ids above 2**24 apart"
        )
    if labels.numel() and int(labels.min()) < -1:
        row = int((labels < -1).nonzero()[0])
        raise ValueError(
            f"{name} holds {int(labels[row])} in row {row}; expected ids of at least 0, or -1 (missing)"
        )


def check_nodes(name: str, nodes: Tensor, taxonomy: AnyTaxonomy) -> None:
    """Raise `ValueError` unless `nodes` (n,) holds nodes of `taxonomy`, or -1 for a missing label.

    Warns if labels (not predictions) look like class numbers, see `warn_of_class_numbers`.
    """
    check_labels(name, nodes)
    if nodes.numel() and int(nodes.max()) >= taxonomy.num_nodes:
        row = int((nodes >= taxonomy.num_nodes).nonzero()[0])
        raise ValueError(
            f"{name} holds {int(nodes[row])} in row {row}; "
            f"expected nodes of the taxonomy, 0 to {taxonomy.num_nodes - 1}, or -1 (missing); class numbers "
            "of a data set are not nodes, taxonomy.nodes_of(class_names)[class_numbers] are"
        )
    if not name.startswith("predicted"):
        warn_of_class_numbers(taxonomy, name, nodes)


def check_same_length(first_name: str, first: Tensor, second_name: str, second: Tensor) -> None:
    """Raise `ValueError` unless both tensors have the same number of rows."""
    if first.shape[0] != second.shape[0]:
        raise ValueError(
            f"{first_name} has {first.shape[0]} rows, {second_name} {second.shape[0]}; expected equal numbers"
        )


def check_positive(name: str, value: int) -> None:
    """Raise `ValueError` unless `value` is an integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} is {value!r}; expected an integer of at least 1")


def check_reduction(reduction: str) -> None:
    """Raise `ValueError` unless `reduction` is "mean" or "none"."""
    check_choice("reduction", reduction, ("mean", "none"))


def mean_of_counted(values: Tensor) -> Tensor:
    """Mean of the entries that are not NaN, float64; NaN if there are none."""
    return torch.nanmean(values.double())


def spread(values: Tensor, takes_part: Tensor) -> Tensor:
    """Scatter `values` to the rows where `takes_part` (n,) is true, in order: (n,) float64, NaN elsewhere.

    The result is on the device of `takes_part`.
    """
    everywhere = torch.full(takes_part.shape, torch.nan, dtype=torch.float64, device=takes_part.device)
    everywhere[takes_part] = values.double().to(takes_part.device)
    return everywhere
