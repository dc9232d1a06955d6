"""What a query has to find: other samples of its label, and whether those of its own group count."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from labeltree.metrics.left_out import LeftOut

__all__ = ["LeaveGroupOut", "check_leave_group_out", "have_partner", "leaves_group_out"]

LeaveGroupOut = Literal["auto", "always", "never"]
"""Whether the samples of a query's own group are left out of its results; see `leaves_group_out`."""


def check_leave_group_out(choice: str) -> None:
    """Raise ``ValueError`` unless it is one of the choices."""
    if choice not in get_args(LeaveGroupOut):
        raise ValueError(
            f"leave_group_out is {choice!r}; expected one of {', '.join(map(repr, get_args(LeaveGroupOut)))}"
        )


def leaves_group_out(choice: LeaveGroupOut, nodes: Tensor, groups: Tensor | None) -> bool:
    """Whether a search leaves out the samples of the query's own group.

    ``auto`` leaves them out, except where every group is a label of its own: where all samples of a group
    have one label and no label is in two groups, as with the photographs of a product, nothing else could be
    found.

    Args:
        choice: ``auto``, ``always`` or ``never``.
        nodes: (n,) labels of all samples, not only of those that are searched; -1 where missing.
        groups: (n,) their groups, -1 for a sample that stands alone; None without groups.

    Raises:
        ValueError: for another choice.

    Example:
        >>> patients, items = torch.tensor([7, 7, 8, 8]), torch.tensor([3, 3, 5, 5])
        >>> leaves_group_out("auto", torch.tensor([1, 1, 1, 2]), patients)
        True
        >>> leaves_group_out("auto", torch.tensor([1, 1, 2, 2]), items)
        False

    """
    check_leave_group_out(choice)
    if groups is None or choice == "never":
        return False
    known = (nodes >= 0) & (groups >= 0)
    pairs = torch.unique(torch.stack([groups[known], nodes[known]]), dim=1)
    several = len(torch.unique(groups[known])) < int(known.sum())
    if not several or choice == "always":
        return several
    alone = torch.unique(nodes[(nodes >= 0) & (groups < 0)])
    own = [torch.unique(side, return_counts=True)[1] for side in pairs]
    label_of_its_own = all(bool((counts == 1).all()) for counts in own)
    return not label_of_its_own or bool(torch.isin(pairs[1], alone).any())


def have_partner(
    nodes: Tensor,
    groups: Tensor | None = None,
    key_nodes: Tensor | None = None,
    key_groups: Tensor | None = None,
) -> Tensor:
    """Which queries have a sample of their label to find.

    Args:
        nodes: (n,) labels of the queries, -1 where missing.
        groups: (n,) groups that are left out of each other's results, -1 for a sample that stands alone;
            None where none is.
        key_nodes: (m,) labels of a gallery; None where each query searches all others.
        key_groups: (m,) of the gallery, with `groups`.

    Returns:
        (n,) bool.

    Example:
        >>> have_partner(torch.tensor([4, 4, 5, 6, 6]), torch.tensor([0, 1, 1, 2, 2])).tolist()
        [True, True, False, False, False]

    """
    keys = nodes if key_nodes is None else key_nodes
    classes, places = torch.unique(torch.cat([nodes, keys]), return_inverse=True)
    mine, theirs = places[: len(nodes)].numpy(), places[len(nodes) :].numpy()
    found = np.bincount(theirs, minlength=len(classes))[mine] if len(classes) else mine
    if groups is not None:
        others = None if key_groups is None else key_groups.numpy()
        found = found - LeftOut.groups(groups.numpy(), others).of_class(mine, theirs)
    elif key_nodes is None:
        found = found - 1
    return torch.from_numpy(found > 0) & (nodes >= 0)
