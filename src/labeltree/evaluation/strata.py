"""Parts of the samples on which metrics are looked at by themselves: subtrees, depths, class frequencies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeltree.evaluation.outcomes import Outcomes

__all__ = ["Stratum", "frequency_bands", "strata"]

BANDS = ("head", "middle", "tail")


@dataclass(frozen=True)
class Stratum:
    """Some of the samples.

    Attributes:
        kind: ``subtree``, ``depth`` or ``frequency``.
        name: what it is called: a path name, ``depth 2``, ``head``.
        node: of the subtree, −1 for other kinds.
        rows: ``(n,)`` bool.
    """

    kind: str
    name: str
    node: int
    rows: NDArray[np.bool_]


def strata(outcomes: Outcomes, *, min_samples: int = 20, most: int = 200) -> list[Stratum]:
    """All parts of the samples that have enough of them.

    - ``subtree``: the samples labelled at or below a node, for every node but the root; if there are too
      many, those with the most samples.
    - ``depth``: the samples whose label lies at a depth, where there are several.
    - ``frequency``: see `frequency_bands`.

    Args:
        outcomes: of one method.
        min_samples: a part with fewer is left out.
        most: how many subtrees at most.
    """
    taxonomy = outcomes.taxonomy
    nodes, ancestors = outcomes.nodes, taxonomy.ancestors.numpy()
    above = ancestors[nodes]
    sizes = np.bincount(above[above > 0], minlength=taxonomy.num_nodes)
    enough = np.flatnonzero(sizes >= max(min_samples, 1))
    kept = np.sort(enough[np.argsort(-sizes[enough], kind="stable")[:most]])
    ends = taxonomy.subtree_end.numpy()
    found = [
        Stratum("subtree", taxonomy.path_name(node), node, (nodes >= node) & (nodes < int(ends[node])))
        for node in kept.tolist()
    ]
    depths = taxonomy.depth.numpy()[nodes]
    by_depth = [
        Stratum("depth", f"depth {depth}", -1, depths == depth) for depth in np.unique(depths).tolist()
    ]
    if len(by_depth) > 1:
        found += [stratum for stratum in by_depth if stratum.rows.sum() >= min_samples]
    bands = [] if outcomes.frequency is None else frequency_bands(outcomes.nodes, outcomes.frequency)
    return found + [band for band in bands if band.rows.sum() >= min_samples]


def frequency_bands(nodes: NDArray[Any], frequency: NDArray[Any]) -> list[Stratum]:
    """Samples of classes with many (``head``), medium (``middle``) and few (``tail``) training samples.

    A third of the classes is in each, ordered by their training samples; classes with equally many stay
    together, in the band of the first of them. Without three bands that differ there are none.

    Args:
        nodes: ``(n,)`` classes of the samples.
        frequency: ``(n,)`` how many training samples each one's class has.
    """
    classes, first = np.unique(nodes, return_index=True)
    counts = -frequency[first]
    rank = np.searchsorted(np.sort(counts), counts, side="left")  # equal counts share the first one's rank
    band_of_class = np.minimum(rank * len(BANDS) // max(len(classes), 1), len(BANDS) - 1)
    if len(np.unique(band_of_class)) < len(BANDS):
        return []
    band = band_of_class[np.searchsorted(classes, nodes)]
    return [Stratum("frequency", name, -1, band == number) for number, name in enumerate(BANDS)]
