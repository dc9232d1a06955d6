"""Parts of the samples on which metrics are looked at by themselves: subtrees, depths, class frequencies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labeltree.evaluation.frequency import GROUPS
from labeltree.evaluation.outcomes import Outcomes

__all__ = ["Stratum", "strata"]


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
    - ``frequency``: the samples of frequent (``head``), less frequent and rare (``tail``) classes, where the
      outcomes tell them apart.

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
    if outcomes.bands is not None:
        bands = [
            Stratum("frequency", name, -1, outcomes.bands == number) for number, name in enumerate(GROUPS)
        ]
        found += [stratum for stratum in bands if stratum.rows.sum() >= min_samples]
    return found
