"""A warning where labels may be the class numbers of a data set and not nodes: 0 is the root."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

__all__ = ["look_for_class_numbers"]

_CALLS = 10  # that are looked at: class 0 is hardly ever missing from ten batches
_SEEN = "_batches_seen_for_class_numbers"


def look_for_class_numbers(owner: object, name: str, nodes: Tensor) -> None:
    """Warn once where labels hold the root, which class numbers do: `torch.arange(4)` begins with it.

    The first calls alone are looked at, so that no step of training waits for its labels. What
    `torch.compile` traces is not looked at.

    Args:
        owner: whose calls are counted: a loss, or a taxonomy.
        name: of the argument.
        nodes: (n,) the labels, -1 where missing.
    """
    if torch.compiler.is_compiling():
        return
    seen: int = owner.__dict__.get(_SEEN, 0)
    if seen >= _CALLS:
        return
    owner.__dict__[_SEEN] = seen + 1
    if not bool((nodes == 0).any()):
        return
    owner.__dict__[_SEEN] = _CALLS
    distinct = nodes[nodes >= 0].unique()  # type: ignore[no-untyped-call]
    last = len(distinct) - 1
    alike = last > 0 and int(distinct[-1]) == last
    which = f"are exactly 0 to {last}, as class numbers are" if alike else "hold node 0"
    warnings.warn(
        f"{name} {which}, and node 0 is the root, which says nothing of a sample; if these are the class "
        "numbers of a data set, their nodes are taxonomy.nodes_of(class_names)[class_numbers], and those of "
        "names taxonomy.encode(names). Labels at the root are allowed; this is said once",
        stacklevel=3,
    )
