"""Places where a taxonomy does not fit its samples: nodes to move, to dissolve, to merge and to split."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from labeltree.curation.leaf_suspects import leaves_to_merge, leaves_to_split
from labeltree.curation.misplaced_nodes import nodes_to_dissolve, nodes_to_move
from labeltree.curation.tree_samples import KINDS, Kind, TreeSamples, TreeSuspect
from labeltree.errors import DataError
from labeltree.metrics.metric_checks import check_embeddings, check_nodes, check_same_length
from labeltree.options.schema import describes
from labeltree.options.taxonomy_options import TreeSuspectsOptions
from labeltree.progress import Progress, silent
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.versions.change_entries import Change, Guess
from labeltree.taxonomy.versions.mapping_file import write_mapping

__all__ = ["KINDS", "Kind", "TreeSuspect", "TreeSuspects", "find_tree_suspects"]


@dataclass(frozen=True, eq=False)
class TreeSuspects:
    """What does not fit in a tree.

    Attributes:
        taxonomy: The tree.
        found: The suspects, by kind, the clearest first (`move` by p, the others by effect).
        tested: Number of nodes (pairs for `merge`) of each kind that could be tested.
        notes: Sentences on what could not be tested.
    """

    taxonomy: Taxonomy
    found: tuple[TreeSuspect, ...]
    tested: dict[str, int]
    notes: tuple[str, ...]

    def of(self, kind: Kind) -> tuple[TreeSuspect, ...]:
        """The suspects of one kind."""
        return tuple(one for one in self.found if one.kind == kind)

    def sentence(self) -> str:
        """How many there are of each kind, in words."""
        parts = []
        for kind in KINDS:
            some = self.of(kind)
            sure = sum(one.significant for one in some)
            if self.tested.get(kind):
                parts.append(f"{kind}: {sure} significant, {len(some) - sure} more, of {self.tested[kind]:,}")
        return "; ".join(parts) or "nothing could be tested"

    def save_mapping(self, path: str | Path, *, only_significant: bool = False) -> int:
        """Write the changes that would mend the tree as guesses, for a person to accept; see `write_mapping`.

        Returns:
            The number of changes written.
        """
        guesses = self.guesses(only_significant=only_significant)
        write_mapping(path, self.taxonomy, self.taxonomy, [], guesses)
        return len(guesses)

    def guesses(self, *, only_significant: bool = False) -> list[Guess]:
        """The changes that would mend the tree."""
        some = [one for one in self.found if one.significant or not only_significant]
        return [guess for one in some if (guess := _guess(self.taxonomy, one)) is not None]


@describes(TreeSuspectsOptions)
def find_tree_suspects(
    vectors: Tensor,
    nodes: Tensor,
    taxonomy: Taxonomy,
    *,
    groups: Tensor | None = None,
    kinds: tuple[Kind, ...] = KINDS,
    level: float = 0.05,
    apart: float = 0.7,
    seed: int = 0,
    progress: Progress | None = None,
) -> TreeSuspects:
    """Hold a taxonomy against the samples of its nodes.

    Columns are standardised and rows brought to length 1. A unit is a sample or, with groups, the mean of the
    samples that a group has in a node. An encoder that was trained with this tree has put its nodes where
    the tree says, so take one that was trained without it, or samples that it has not learned from.

    - `move`: for each node from depth 2 on with a sibling, its distance to the mean of its siblings' means
      and to those of the children of every other parent of its depth, without what the number of children
      adds to a distance. Suspects lie nearer to another one than happens by chance among nodes and among
      units (see `misplaced_nodes.nodes_to_move`): p before correction is at most the level, and for those
      that are significant after Benjamini & Hochberg.
    - `dissolve`: for each inner node with three children or more, the mean cosine of the means of its
      children, about the mean of their depth, beside that of as many random nodes of their depth: permutation
      test. Suspects are nodes whose children are no more alike than random ones (p after Benjamini & Hochberg
      above the level), significant those that are less alike (other side, after Holm). Where the depth
      has too few nodes for a p below the level, nothing is said.
    - `merge`: for each leaf and its five nearest leaves, the AUC within folds of the out-of-fold log odds
      of the two, over units. Suspects have an AUC below `apart`; the p value is that of an AUC of `apart`
      or more (Hanley & McNeil's standard error, after Holm over all pairs of leaves).
    - `split`: two clusters (k-means) of a leaf's units with a silhouette of 0.25 or more, beside Gaussian
      samples of the leaf's covariance (SigClust, Liu et al. 2008, with its normal p value), after Benjamini
      & Hochberg.

    Args:
        vectors: `(n, d)` finite features or embeddings.
        nodes: `(n,)` int64 labels, leaves or inner nodes; −1 where missing.
        taxonomy: The tree.
        groups: `(n,)` int64 group of each sample, −1 for none.
        progress: Called as `progress(message, done, total)`.

    Raises:
        DataError: If no sample has a label.
        ValueError: For wrong shapes or a setting out of range.
    """
    check_embeddings("vectors", vectors)
    check_same_length("vectors", vectors, "nodes", nodes)
    check_nodes("nodes", nodes, taxonomy)
    if not 0 < level < 1 or not 0.5 < apart < 1:
        raise ValueError(f"level {level} must lie between 0 and 1, apart {apart} between 0.5 and 1")
    if wrong := [kind for kind in kinds if kind not in KINDS]:
        raise ValueError(f"{wrong[0]!r} is not a kind of suspect; there are {', '.join(KINDS)}")
    known = (nodes > 0).nonzero()[:, 0]
    if not len(known):
        raise DataError("no sample has a label, so nothing can be said about the tree")
    samples = TreeSamples(vectors[known], nodes[known], taxonomy, None if groups is None else groups[known])
    suspects: list[TreeSuspect] = []
    tested: dict[str, int] = {}
    notes: list[str] = []
    for step, kind in enumerate(kinds):
        (progress or silent)(f"looking for nodes to {kind}", step, len(kinds))
        note = ""
        if kind == "move":
            some, count = nodes_to_move(samples, level, seed)
        elif kind == "dissolve":
            some, count, note = nodes_to_dissolve(samples, level, seed)
        elif kind == "split":
            some, count = leaves_to_split(samples, level, seed)
        else:
            some, count, note = leaves_to_merge(samples, level, apart, seed)
        notes += [note] if note else []
        suspects += some
        tested[kind] = count
    return TreeSuspects(taxonomy, tuple(suspects), tested, tuple(notes))


def _guess(taxonomy: Taxonomy, one: TreeSuspect) -> Guess | None:
    """The change that would mend the tree, as a person may accept it; None if names stand in its way."""
    here = taxonomy.path(one.node)
    if one.kind == "move":
        there = (*taxonomy.path(one.other), here[-1])
        target = taxonomy.follow(there)
        if target is not None and not bool(taxonomy.is_leaf[one.node]):
            return None
        change = Change("move" if target is None else "merge", here, (there,))
        return Guess(one.node, (), change, one.reason)
    if one.kind == "merge":
        return Guess(one.node, (one.other,), Change("merge", here, (taxonomy.path(one.other),)), one.reason)
    if one.kind == "split":
        parts = tuple((*here, f"{here[-1]} {number}") for number in (1, 2))
        return Guess(one.node, (), Change("split", here, parts), one.reason)
    above = here[:-1]
    children = (taxonomy.parent == one.node).nonzero()[:, 0].tolist()
    moves = tuple(
        Change("move", taxonomy.path(child), ((*above, taxonomy.names[child]),)) for child in children
    )
    if any(taxonomy.follow(move.new[0]) is not None for move in moves):
        return None
    return Guess(one.node, (), Change("remove", here), one.reason, moves)
