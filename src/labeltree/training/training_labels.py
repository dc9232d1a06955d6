"""Training labels: those of a coarser or another taxonomy, some replaced by ancestors or wrong labels."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.data import Source
from labeltree.errors import TaxonomyError
from labeltree.taxonomy import Taxonomy, load_taxonomy
from labeltree.taxonomy.check_nodes import moved_nodes
from labeltree.taxonomy.versions.matching import match_labels
from labeltree.taxonomy.wrong_trees import perturb
from labeltree.training.recipe import Recipe
from labeltree.training.registry import objective_terms

__all__ = ["TrainingLabels", "training_labels", "with_label_noise"]


@dataclass(frozen=True, eq=False)
class TrainingLabels:
    """The training taxonomy, and the mappings between it and the data's own taxonomy.

    Attributes:
        taxonomy: The training taxonomy.
        to_training: `(N,)` training node of each node of the data's taxonomy; −1 = none.
        from_training: `(M,)` for each training node the coarsest node of the data's taxonomy that maps to
            it; −1 = none.
    """

    taxonomy: Taxonomy
    to_training: Tensor
    from_training: Tensor

    def source(self, source: Source, recipe: Recipe) -> Source:
        """The training samples with their training labels."""
        nodes = moved_nodes(source.nodes, self.to_training)
        if not bool((nodes >= 0).any()) and bool((source.nodes >= 0).any()):
            raise TaxonomyError(
                f"no training label of '{recipe.data}' is in the taxonomy of training; its leaves are "
                f"{', '.join(self.taxonomy.path_name(n) for n in self.taxonomy.leaves[:3].tolist())} …"
            )
        labelled = source.on_taxonomy(self.taxonomy, nodes, self.to_training)
        nodes = labelled.nodes
        if recipe.label_noise:
            labelled = with_label_noise(labelled, recipe.label_noise, recipe.seed)
            nodes = labelled.nodes
        if recipe.inner_share == 0:
            return labelled
        ancestors, changed = _random_ancestors(self.taxonomy, nodes, recipe.inner_share, recipe.seed)
        if not bool(changed.any()):
            raise ValueError(
                f"inner_share is {recipe.inner_share}, but no label of training could be cut to an ancestor: "
                "none has one below the root, or there are too few labels"
            )
        if recipe.inner == "drop":
            return labelled.subset((~changed).nonzero()[:, 0])
        return dataclasses.replace(labelled, nodes=ancestors)


def training_labels(recipe: Recipe, taxonomy: Taxonomy, nodes: Tensor | None = None) -> TrainingLabels:
    """The training labels by the recipe, for data labelled with this taxonomy.

    Mistakes in the taxonomy (`taxonomy_noise`) are introduced last, in the resulting training tree.

    Args:
        recipe: The recipe.
        taxonomy: Taxonomy of the data.
        nodes: Labels of the training samples `(n,)`; the projection of `odir` prefers frequent branches.

    Raises:
        ValueError: If the labels cannot be coarsened to the depth, or some terms train on the finest labels.
        TaxonomyError: If the training taxonomy cannot be read.
    """
    labels = _without_mistakes(recipe, taxonomy, nodes)
    if not recipe.taxonomy_noise:
        return labels
    wrong, mapping = perturb(labels.taxonomy, recipe.taxonomy_noise, recipe.seed)
    to_wrong = moved_nodes(labels.to_training, mapping)
    return TrainingLabels(wrong, to_wrong, labels.from_training[mapping.argsort()])


def _without_mistakes(recipe: Recipe, taxonomy: Taxonomy, nodes: Tensor | None) -> TrainingLabels:
    """The training labels before `taxonomy_noise`."""
    entries = objective_terms(recipe.objective)
    finest = [entry.name for entry in entries if entry.finest]
    if recipe.coarsen is not None and 0 < len(finest) < len(entries):
        raise ValueError(
            f"coarsen is {recipe.coarsen}, but '{finest[0]}' trains on the finest labels, and all terms of "
            f"'{recipe.objective}' train on the same; leave one of the two out"
        )
    if recipe.coarsen is not None and not finest:
        if recipe.coarsen >= taxonomy.max_depth:
            raise ValueError(
                f"coarsen is {recipe.coarsen}, but the labels of '{recipe.data}' end at depth "
                f"{taxonomy.max_depth}: nothing would be hidden; it must be 1 to {taxonomy.max_depth - 1}"
            )
        coarse, mapping = taxonomy.cut(recipe.coarsen)
        return TrainingLabels(coarse, mapping, _first_of_each(mapping, coarse.num_nodes))
    if recipe.train_taxonomy is not None:
        return _match_leaves(recipe, taxonomy, nodes)
    same = torch.arange(taxonomy.num_nodes)
    return TrainingLabels(taxonomy, same, same)


def _match_leaves(recipe: Recipe, taxonomy: Taxonomy, nodes: Tensor | None) -> TrainingLabels:
    target = load_taxonomy(str(recipe.train_taxonomy))
    matched = match_labels(taxonomy, target).nodes
    missing = [node for node in taxonomy.leaves.tolist() if int(matched[node]) < 0]
    if missing:
        raise TaxonomyError(
            f"leaves of the data are not in the taxonomy of training '{recipe.train_taxonomy}', or not for "
            f"certain: {len(missing)}, such as '{taxonomy.path_name(missing[0])}'; add them, or leave it out"
        )
    _check_one_each(recipe, taxonomy, matched)
    if isinstance(target, Taxonomy):
        return TrainingLabels(target, matched, _first_of_each(matched, target.num_nodes))
    if recipe.projection == "odir":
        counts = None
        if nodes is not None:
            seen = matched[nodes[nodes >= 0]]
            counts = seen[seen >= 0].bincount(minlength=len(target))
        tree, to_tree = target.project("odir", frequencies=counts)
    else:
        tree, to_tree = target.project("yolo9000", classes=matched[taxonomy.leaves])
    mapping = moved_nodes(matched, to_tree)
    return TrainingLabels(tree, mapping, _first_of_each(mapping, tree.num_nodes))


def _check_one_each(recipe: Recipe, taxonomy: Taxonomy, matched: Tensor) -> None:
    """Refuse two leaves of the data that are one node, such as its name and its id: they are one class."""
    leaves = taxonomy.leaves
    order = matched[leaves].argsort(stable=True)
    first, second = leaves[order[:-1]], leaves[order[1:]]
    twins = (matched[first] == matched[second]).nonzero()[:, 0]
    if not len(twins):
        return
    one, other = (taxonomy.path_name(int(leaf[twins[0]])) for leaf in (first, second))
    raise TaxonomyError(
        f"'{one}' and '{other}' of the data are one node of the taxonomy of training "
        f"'{recipe.train_taxonomy}'{f', and {len(twins) - 1} more likewise' if len(twins) > 1 else ''}: they "
        "would be trained as one class and tested as two. Read the labels by it: --taxonomy FILE, of several "
        "parents after 'labeltree taxonomy project'"
    )


def _first_of_each(mapping: Tensor, size: int) -> Tensor:
    """First position of each value below `size`; −1 for values that do not occur."""
    first = torch.full((size,), len(mapping))
    known = mapping >= 0
    first.scatter_reduce_(0, mapping[known], torch.arange(len(mapping))[known], "amin")
    return torch.where(first < len(mapping), first, -1)


def _random_ancestors(taxonomy: Taxonomy, nodes: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Replace this share of the labels by an ancestor, drawn evenly from the proper ones below the root.

    Returns:
        The labels, and a mask of those that changed. Labels at depth 1 and missing labels have no such
        ancestor and are never drawn.
    """
    generator = torch.Generator().manual_seed(seed)
    depth = torch.where(nodes >= 0, taxonomy.depth[nodes], 0)
    able = (depth >= 2).nonzero()[:, 0]
    count = min(round(share * len(nodes)), len(able))
    drawn = able[torch.randperm(len(able), generator=generator)[:count]]
    to = 1 + (torch.rand(count, generator=generator) * (depth[drawn] - 1)).long()
    ancestors = nodes.clone()
    ancestors[drawn] = taxonomy.ancestors[nodes[drawn], to]
    return ancestors, ancestors != nodes


def with_label_noise(source: Source, share: float, seed: int) -> Source:
    """Replace labels at random (Ghanooni et al., section 8.1).

    With probability r a label is replaced by one drawn evenly from the N labels that occur; so it stays with
    probability 1 − r(N−1)/N. Missing labels stay missing. Each aspect is replaced independently. If there is
    one rating per aspect, it is replaced by that of a random sample with the new label; otherwise the whole
    row of ratings is replaced, with probability r, by that of a random sample.

    Args:
        source: The training samples.
        share: Probability r, in [0, 1].
        seed: Random seed.
    """
    generator = torch.Generator().manual_seed(seed)
    nodes, _ = _replace(source.nodes, share, generator)
    aspects, ratings = source.aspects, source.ratings
    if aspects is not None:
        drawn = [_replace(column, share, generator) for column in aspects.unbind(1)]
        aspects = torch.stack([column for column, _ in drawn], dim=1)
        if ratings is not None and ratings.shape == aspects.shape:
            columns = [column[donor] for column, (_, donor) in zip(ratings.unbind(1), drawn, strict=True)]
            return dataclasses.replace(
                source, nodes=nodes, aspects=aspects, ratings=torch.stack(columns, dim=1)
            )
    if ratings is not None and len(source):
        n = len(source)
        donor = torch.randint(n, (n,), generator=generator)
        ratings = torch.where((torch.rand(n, generator=generator) < share)[:, None], ratings[donor], ratings)
    return dataclasses.replace(source, nodes=nodes, aspects=aspects, ratings=ratings)


def _replace(nodes: Tensor, share: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The noisy labels, and for each row the position of the sample whose label it takes (or its own)."""
    n = len(nodes)
    order = nodes.argsort(stable=True)
    labels, counts = torch.unique(nodes[nodes >= 0], return_counts=True)
    donor = torch.arange(n)
    if not len(labels):
        return nodes, donor
    first = torch.searchsorted(nodes[order], labels)
    hit = (torch.rand(n, generator=generator) < share) & (nodes >= 0)
    which = torch.randint(len(labels), (n,), generator=generator)
    place = (torch.rand(n, generator=generator) * counts[which]).long()
    donor[hit] = order[first[which] + place][hit]
    return nodes[donor], donor
