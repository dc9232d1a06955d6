"""A taxonomy from the means of classes, and how well the confusions of classes follow a taxonomy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.data.stratified import make_folds
from labeltree.errors import DataError
from labeltree.geometry import Geometry, Sphere, get_geometry
from labeltree.metrics.functional import class_prototypes
from labeltree.options.choices import Linkage
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

__all__ = ["ClassPoints", "Linkage", "TreeFit", "class_points", "judge_tree", "suggest_tree"]

IntArray = NDArray[np.int64]

_MOST_CLASSES = 20_000  # the distances of all pairs of classes take 3 GB
_CHILDREN = 4  # of an inner node, about
_DEEPEST = 4
_AROUND = 1.6
_SHRINKS = 1.5  # a coarser depth has at most as many groups as the finer one, divided by this
_FEWEST_MISTAKES = 30
_FEWEST_CLASSES = 5
_PERMUTATIONS = 999
_ROWS = 4096


@dataclass(frozen=True)
class ClassPoints:
    """Samples of named classes as points of a geometry.

    Attributes:
        points: `(n, d)`.
        classes: `(n,)` int64, the class of each sample.
        names: Name of each class.
        geometry: Geometry of the points.
        groups: `(n,)` int64, samples of one group are not independent; −1 = a group by itself.
        learned: `(n,)` bool, samples that the encoder was trained on; None = unknown.
    """

    points: Tensor
    classes: Tensor
    names: tuple[str, ...]
    geometry: Geometry
    groups: Tensor | None = None
    learned: Tensor | None = None

    def rows(self, rows: Tensor) -> ClassPoints:
        """Some of the samples."""
        groups = None if self.groups is None else self.groups[rows]
        learned = None if self.learned is None else self.learned[rows]
        return ClassPoints(self.points[rows], self.classes[rows], self.names, self.geometry, groups, learned)

    def has_all_classes(self, rows: Tensor) -> bool:
        """Whether these samples `(n,)` bool have samples of every class."""
        return int(torch.bincount(self.classes[rows], minlength=len(self.names)).min()) > 0

    def means(self) -> Tensor:
        """`(C, d)` float64, the mean of each class in the geometry; NaN for a class without samples."""
        return class_prototypes(self.points, self.classes + 1, _flat(self.names), self.geometry)[1:]


def _flat(names: Sequence[str]) -> Taxonomy:
    """Class i is node i + 1."""
    return Taxonomy.from_paths([(name,) for name in names])


def class_points(
    table: EmbeddingTable, taxonomy: Taxonomy, column: Literal["features", "embeddings"] | None = None
) -> ClassPoints:
    """The labelled samples of a table; labels above others are left out.

    Args:
        table: The table; of its `split`, `train` are the samples that the encoder was trained on.
        taxonomy: Taxonomy of its labels; only their names matter.
        column: `features`, as points on the sphere, or `embeddings`; None = features if there are some.

    Raises:
        DataError: If there are fewer than three classes, or too many to compare all pairs.
    """
    from labeltree.taxonomy.label_sets import finest_labels

    labelled = table.nodes > 0
    finest = finest_labels(table.nodes, taxonomy)
    rows = (labelled & finest[table.nodes.clamp(min=0)]).nonzero()[:, 0]
    nodes, classes = torch.unique(table.nodes[rows], return_inverse=True)
    if not 3 <= len(nodes) <= _MOST_CLASSES:
        raise DataError(
            f"{len(nodes)} {'class has' if len(nodes) == 1 else 'classes have'} samples; "
            f"a tree of classes takes 3 to {_MOST_CLASSES:,}"
        )
    names = [taxonomy.names[node] for node in nodes.tolist()]
    if len(set(names)) < len(names):
        names = [taxonomy.path_name(node) for node in nodes.tolist()]
    column = column or ("features" if table.features is not None else "embeddings")
    if column == "features" and table.features is None:
        raise DataError("the table has no features; take its embeddings")
    points = table.features if column == "features" else table.embeddings
    assert points is not None
    geometry = Sphere() if column == "features" else get_geometry(table.geometry, table.curvature)
    if column == "features":
        points = torch.nn.functional.normalize(points.double(), dim=1)
    return ClassPoints(
        points[rows].double(),
        classes,
        tuple(names),
        geometry,
        None if table.groups is None else table.groups[rows],
        None if table.split is None else torch.from_numpy(np.asarray(table.split) == "train")[rows],
    )


def suggest_tree(samples: ClassPoints, linkage: Linkage = "complete", depth: int | None = None) -> Taxonomy:
    """Cluster the means of classes to a tree.

    Means are joined bottom up by their distance in the geometry (`scipy.cluster.hierarchy`). Of the tree
    of pairs that this gives, a few depths are kept: near numbers of groups that would give every node as many
    children, those with the widest gap between two joins, where a small change of the distances changes
    nothing. A group is called after its first and last class.

    Args:
        samples: At least one sample of each class.
        linkage: Distance of two groups: the largest of their pairs, the mean (UPGMA), or Ward's.
        depth: Depth of the tree, at least 2; None = that with about four children of a node, 2 to 4.

    Raises:
        DataError: If a class has no sample, or the depth does not suit the number of classes.
    """
    from scipy.cluster.hierarchy import leaves_list
    from scipy.cluster.hierarchy import linkage as join

    means = samples.means()
    if bool(means.isnan().any()):
        lost = samples.names[int(means.isnan().any(1).nonzero()[0])]
        raise DataError(f"class {lost!r} has no sample")
    count = len(means)
    distances = samples.geometry.pairwise_distance(means, means)
    upper = torch.triu_indices(count, count, 1)
    joins = join(distances[upper[0], upper[1]].numpy(), linkage)
    cuts = _cuts(joins[:, 2], count, depth)
    order = leaves_list(joins)
    groups = [_groups(joins, kept) for kept in cuts]  # coarse to fine, (count,) each
    paths = []
    for place in order.tolist():
        path: list[str] = []
        for group in groups:
            members = [other for other in order.tolist() if group[other] == group[place]]
            name = f"{samples.names[members[0]]} … {samples.names[members[-1]]}"
            if len(members) > 1 and (not path or path[-1] != name):
                path.append(name)
        paths.append((*path, samples.names[place]))
    return Taxonomy.from_paths(paths)


def _cuts(heights: NDArray[np.float64], count: int, depth: int | None) -> list[int]:
    """The numbers of groups of the inner depths, coarse to fine.

    A tree in which every node has as many children would have `count ** (k / depth)` nodes at depth k; of
    the numbers up to 1.6 times smaller or larger, the one with the widest gap between joins is taken.
    """
    depth = depth or min(max(2, round(math.log(count, _CHILDREN))), _DEEPEST)
    if depth < 2:
        raise DataError(f"depth is {depth}, expected at least 2")
    cuts: list[int] = []
    for level in range(1, depth):
        even = count ** (level / depth)
        least = max(2, math.ceil(even / _AROUND), math.ceil(_SHRINKS * cuts[-1]) if cuts else 2)
        most = min(math.floor(even * _AROUND), math.floor(count / _SHRINKS))
        if least > most:
            raise DataError(f"{count} classes are too few for a tree of depth {depth}; take a smaller depth")
        gaps = {
            groups: heights[count - groups] - heights[count - groups - 1] for groups in range(least, most + 1)
        }
        cuts.append(max(gaps, key=lambda groups: (gaps[groups], -groups)))
    return cuts


def _groups(joins: NDArray[np.float64], kept: int) -> IntArray:
    """The group of each class when so many groups are left."""
    count = len(joins) + 1
    group = list(range(2 * count - 1))
    members: dict[int, list[int]] = {leaf: [leaf] for leaf in range(count)}
    for step in range(count - kept):
        first, second = (int(node) for node in joins[step, :2])
        members[count + step] = members.pop(first) + members.pop(second)
    for number, leaves in enumerate(members.values()):
        for leaf in leaves:
            group[leaf] = number
    return np.array(group[:count])


@dataclass(frozen=True)
class TreeFit:
    """How well the confusions of classes follow a tree, beside trees of its shape with classes at random.

    Attributes:
        samples: Number of samples that were classified.
        mistakes: How many of them were given another class.
        within_parent: Share of mistakes between classes below the same parent.
        within_parent_at_random: The mean of that share over trees of the same shape.
        within_parent_p: Share of these trees in which it is as large, at least 0.001.
        height: Mean height of the lowest common ancestor of a mistake, divided by that of the root.
        height_at_random: Its mean over trees of the same shape.
        height_p: Share of these trees in which it is as small.
        unclear: Why nothing can be said; None if something can.
    """

    samples: int
    mistakes: int
    within_parent: float = float("nan")
    within_parent_at_random: float = float("nan")
    within_parent_p: float = float("nan")
    height: float = float("nan")
    height_at_random: float = float("nan")
    height_p: float = float("nan")
    unclear: str | None = None

    def sentence(self) -> str:
        """The judgement in words."""
        told = f"{self.mistakes:,} mistakes in {self.samples:,} samples"
        if self.unclear is not None:
            return f"{told}: cannot tell, {self.unclear}"
        verdict = (
            "follow this tree"
            if max(self.within_parent_p, self.height_p) <= 0.05
            else "do not clearly follow it"
        )
        return (
            f"{told} {verdict}: {self.within_parent:.0%} between classes of one parent (classes at random "
            f"{self.within_parent_at_random:.0%}, p {self.within_parent_p:.3f}), mean height "
            f"{self.height:.2f} of the root's ({self.height_at_random:.2f}, p {self.height_p:.3f})"
        )


def judge_tree(taxonomy: Taxonomy, samples: ClassPoints, seed: int = 0) -> TreeFit:
    """Classify samples by the nearest mean of a class, and compare the mistakes with the tree.

    Half of the samples gives the means by which the other half is classified, and the other way round;
    samples of a group stay together. A tree that was made of means must be judged on other samples than it
    was made of, see `halves`.

    Args:
        taxonomy: a tree with all classes; nodes are found by the classes' names, or paths.
        samples: At least two samples of most classes.
        seed: Of the halves and the trees at random.

    Raises:
        TaxonomyError: If a class is not in the tree, or not for certain.
    """
    nodes = _nodes_of(taxonomy, samples.names)
    first = halves(samples, seed)
    wrong: list[tuple[Tensor, Tensor]] = []
    judged = 0
    for learn, test in ((first, ~first), (~first, first)):
        means = samples.rows(learn.nonzero()[:, 0]).means()
        there = ~means.isnan().any(1)
        columns = there.nonzero()[:, 0]
        rows = (test & there[samples.classes]).nonzero()[:, 0]
        judged += len(rows)
        for part in torch.split(rows, _ROWS):
            near = samples.geometry.pairwise_distance(samples.points[part], means[columns]).argmin(1)
            answer = columns[near]
            mistaken = answer != samples.classes[part]
            wrong.append((samples.classes[part][mistaken], answer[mistaken]))
    truth, answers = (
        torch.cat([pair[side] for pair in wrong]) if wrong else torch.empty(0).long() for side in (0, 1)
    )
    unclear = _unclear(taxonomy, nodes, len(truth))
    if unclear is not None:
        return TreeFit(judged, len(truth), unclear=unclear)
    within, height = _agreement(taxonomy, nodes, truth, answers)
    draw = np.random.default_rng(seed)
    at_random = np.array(
        [
            _agreement(taxonomy, nodes[torch.from_numpy(draw.permutation(len(nodes)))], truth, answers)
            for _ in range(_PERMUTATIONS)
        ]
    )
    larger = (at_random[:, 0] >= within - 1e-12).sum()
    smaller = (at_random[:, 1] <= height + 1e-12).sum()
    return TreeFit(
        judged,
        len(truth),
        within,
        float(at_random[:, 0].mean()),
        float(larger + 1) / (_PERMUTATIONS + 1),
        height,
        float(at_random[:, 1].mean()),
        float(smaller + 1) / (_PERMUTATIONS + 1),
    )


def halves(samples: ClassPoints, seed: int = 0) -> Tensor:
    """`(n,)` bool: half of the samples of each class, whole groups."""
    folds = make_folds(samples.classes + 1, _flat(samples.names), 2, groups=samples.groups, seed=seed)
    return folds == 0


def _nodes_of(taxonomy: Taxonomy, names: Sequence[str]) -> Tensor:
    """The node of each class: a leaf of that name if there is one, else what `Taxonomy.nodes_of` finds."""
    leaves: dict[str, list[int]] = {}
    for leaf in taxonomy.leaves.tolist():
        leaves.setdefault(taxonomy.names[leaf], []).append(leaf)
    places_of = [leaves.get(name, []) for name in names]
    if all(len(places) == 1 for places in places_of):
        return torch.tensor([places[0] for places in places_of])
    return taxonomy.nodes_of(
        [
            taxonomy.path(places[0]) if len(places) == 1 else name
            for name, places in zip(names, places_of, strict=True)
        ]
    )


def _unclear(taxonomy: Taxonomy, nodes: Tensor, mistakes: int) -> str | None:
    if len(nodes) < _FEWEST_CLASSES:
        return f"{len(nodes)} classes are too few beside trees at random (at least {_FEWEST_CLASSES})"
    if len(torch.unique(taxonomy.parent[nodes])) == 1:
        return "all classes have the same parent"
    if mistakes < _FEWEST_MISTAKES:
        return f"at least {_FEWEST_MISTAKES} mistakes are needed"
    return None


def _agreement(taxonomy: Taxonomy, nodes: Tensor, truth: Tensor, answers: Tensor) -> tuple[float, float]:
    """Share of mistakes below one parent, and the mean height of their lowest common ancestors."""
    first, second = nodes[truth], nodes[answers]
    within = (taxonomy.parent[first] == taxonomy.parent[second]).double().mean()
    height = taxonomy.height[taxonomy.lca(first, second)].double().mean() / taxonomy.max_height
    return float(within), float(height)
