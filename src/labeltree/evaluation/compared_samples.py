"""The samples that a comparison is about: those that all runs have, and parts of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from labeltree.errors import DataError
from labeltree.evaluation.class_frequency import GROUPS
from labeltree.evaluation.outcomes import Outcomes

__all__ = ["Stratum", "common_samples", "strata"]

_Rows = dict[tuple[int, int], int]


def common_samples(
    methods: Mapping[str, Sequence[Outcomes]],
) -> tuple[dict[str, list[Outcomes]], dict[str, int]]:
    """Reduce the outcomes of all runs to the samples that all have, in the order of the first.

    Samples are the same if their ids are, several rows of one id by their order. Groups are those of the
    first run that has some.

    Args:
        methods: method → outcomes of its runs.

    Returns:
        the same with as many samples everywhere, and of each method how many were left out of the run that
        lost most.

    Raises:
        DataError: if the taxonomies differ, or no sample is common, or a common sample has different labels.
    """
    runs = [(name, run) for name, outcomes in methods.items() for run in outcomes]
    first_name, first = runs[0]
    rows = [_rows(run) for _, run in runs]
    for name, run in runs:
        if run.taxonomy != first.taxonomy:
            raise DataError(
                f"'{name}' and '{first_name}' were evaluated on different taxonomies: evaluate one of them "
                f"again with --taxonomy"
            )
    shared = [key for key in rows[0] if all(key in other for other in rows)]
    if not shared:
        raise DataError(
            f"the runs of {', '.join(map(repr, methods))} have no test sample in common (samples are told by "
            f"their instance ids): they cannot be compared"
        )
    places = [np.array([known[key] for key in shared], dtype=np.int64) for known in rows]
    reference = first.nodes[places[0]]
    for (name, run), place in zip(runs, places, strict=True):
        different = np.flatnonzero(run.nodes[place] != reference)
        if len(different):
            sample = shared[int(different[0])][0]
            raise DataError(
                f"{len(different)} samples have other labels in '{name}' than in '{first_name}', one of them "
                f"instance {sample}: these are not the same samples"
            )
    groups = None
    for (_, run), place in zip(runs, places, strict=True):
        if groups is None and run.groups is not None:
            groups = run.groups[place]
    found: dict[str, list[Outcomes]] = {name: [] for name in methods}
    left_out = dict.fromkeys(methods, 0)
    for (name, run), place in zip(runs, places, strict=True):
        found[name].append(replace(run.rows(place), groups=groups))
        left_out[name] = max(left_out[name], len(run) - len(shared))
    return found, left_out


def _rows(outcomes: Outcomes) -> _Rows:
    """(id, how many rows of that id came before) → row."""
    seen: dict[int, int] = {}
    rows: _Rows = {}
    for row, instance in enumerate(outcomes.instances.tolist()):
        number = seen.get(instance, 0)
        rows[instance, number] = row
        seen[instance] = number + 1
    return rows


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
