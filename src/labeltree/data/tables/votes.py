"""One label from the votes of several annotators: the finest node that enough of them agree on."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from labeltree.errors import DataError
from labeltree.lazy import torch
from labeltree.taxonomy import Taxonomy

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["agreed_nodes", "check_agreement", "vote_note"]


def check_agreement(agreement: float) -> None:
    """Check the share of votes that must agree.

    Raises:
        DataError: If it is not from 0.5 to 1.
    """
    if not 0.5 <= agreement <= 1:
        raise DataError(
            f"agreement is {agreement:g}; it must be from 0.5 to 1: with less than half of the votes, two "
            "different labels could both be agreed on"
        )


def agreed_nodes(votes: Tensor, tree: Taxonomy, agreement: float = 0.5) -> Tensor:
    """The finest node that more than a share of the votes lie at or below.

    A vote for a node is a vote for everything above it, and says nothing about what is below. As more than
    half of the votes are asked for, the agreed nodes lie on one path, and a tie ends at the common ancestor.

    Args:
        votes: `(n, v)` votes on each sample, nodes; −1 where there is none.
        tree: Taxonomy of the votes.
        agreement: The share, from 0.5 to 1, which must be exceeded; 1 asks for all votes. The votes that were
            given count.

    Returns:
        `(n,)` nodes; −1 for a sample without votes, or whose votes have only the root in common.

    Raises:
        DataError: If `agreement` is out of range.

    Example:
        >>> tree = Taxonomy.from_paths([("naevus", "blue"), ("naevus", "Spitz"), ("melanoma",)])
        >>> votes = [["blue", "blue", "Spitz"], ["blue", "Spitz", None], ["blue", "melanoma", None]]
        >>> nodes = torch.stack([tree.encode(row) for row in votes])
        >>> tree.decode(agreed_nodes(nodes, tree))
        ['naevus/blue', 'naevus', None]
        >>> tree.decode(agreed_nodes(nodes, tree, agreement=1))
        ['naevus', 'naevus', None]
    """
    check_agreement(agreement)
    share = Fraction(str(float(agreement)))  # 0.7 · 10 is 7, which floats get wrong for other shares
    given = (votes >= 0).sum(1)
    agreed = torch.full((len(votes),), -1)
    above = tree.ancestors
    for depth in range(1, tree.max_depth + 1):
        at = torch.where(votes >= 0, above[votes.clamp_min(0), depth], -1)
        for column in at.unbind(1):
            support = ((at == column[:, None]) & (at >= 0)).sum(1)
            enough = (support * share.denominator > given * share.numerator) | (support == given)
            agreed = torch.where(enough & (column >= 0), column, agreed)
    return agreed


def vote_note(votes: Tensor, agreed: Tensor, agreement: float, columns: Sequence[str] | None) -> str:
    """A sentence on how many samples got the label that all voted for, and what was lost for the others.

    Args:
        votes: `(n, v)`, as for `agreed_nodes`.
        agreed: `(n,)` its result.
        agreement: The share that was asked for.
        columns: The columns of the votes; None = each row was a vote.
    """
    given = (votes >= 0).sum(1)
    finest = votes.amax(1) if votes.shape[1] else torch.full_like(agreed, -1)
    alike = ((votes == finest[:, None]) | (votes < 0)).all(1)
    voted, lost = given > 0, (agreed < 0) & (given > 0)
    unanimous = voted & (given > 1) & alike & (agreed == finest)
    single = given == 1
    stood = voted & ~single & ~unanimous & ~lost & (votes == agreed[:, None]).any(1)
    coarser = voted & ~single & ~unanimous & ~lost & ~stood
    asked = "all votes" if agreement == 1 else f"more than {100 * agreement:g} % of the votes"
    where = f" in {', '.join(columns)}" if columns is not None else ""
    said = (
        f"labels are the finest nodes that {asked}{where} agree on: of {int(voted.sum()):,} samples with "
        f"votes, all votes are equal for {int(unanimous.sum()):,}, one of several labels is agreed on for "
        f"{int(stood.sum()):,}, and only a coarser node for {int(coarser.sum()):,}"
    )
    if bool(lost.any()):
        said += f"; {int(lost.sum()):,} agree on nothing below the root and have no label"
    if bool(single.any()):
        said += f"; {int(single.sum()):,} have a single vote, which is their label"
    return said
