"""What training sees of the labels: a coarser taxonomy, another one, or some labels cut to an ancestor."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from labeltree.data import Source
from labeltree.errors import TaxonomyError
from labeltree.taxonomy import Taxonomy
from labeltree.training.recipe import Recipe
from labeltree.training.registry import objective_terms

if TYPE_CHECKING:
    from labeltree.taxonomy import TaxonomyDAG

__all__ = ["TrainingLabels", "training_labels"]


@dataclass(frozen=True, eq=False)
class TrainingLabels:
    """The taxonomy that training sees, and how labels get there from the data's own, and back.

    Attributes:
        taxonomy: of training.
        to_training: ``(N,)`` node of training for each node of the data's taxonomy; −1 = not in it.
        from_training: ``(M,)`` the coarsest node of the data's taxonomy that is this node of training; −1 =
            none is.
    """

    taxonomy: Taxonomy
    to_training: Tensor
    from_training: Tensor

    def source(self, source: Source, recipe: Recipe) -> Source:
        """The training samples, labelled as training sees them."""
        nodes = torch.where(source.nodes >= 0, self.to_training[source.nodes], -1)
        if not bool((nodes >= 0).any()) and bool((source.nodes >= 0).any()):
            raise TaxonomyError(
                f"no training label of '{recipe.data}' is in the taxonomy of training; its leaves are "
                f"{', '.join(self.taxonomy.path_name(n) for n in self.taxonomy.leaves[:3].tolist())} …"
            )
        labelled = dataclasses.replace(source, taxonomy=self.taxonomy, nodes=nodes)
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


def training_labels(recipe: Recipe, taxonomy: Taxonomy) -> TrainingLabels:
    """What the recipe lets training see of labels of this taxonomy.

    Raises:
        ValueError: if the labels have no depth to be coarsened to, or some terms train on the finest labels.
        TaxonomyError: if the taxonomy of training cannot be read.
    """
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
        return _by_name(recipe, taxonomy)
    same = torch.arange(taxonomy.num_nodes)
    return TrainingLabels(taxonomy, same, same)


def _by_name(recipe: Recipe, taxonomy: Taxonomy) -> TrainingLabels:
    from labeltree.taxonomy import TaxonomyDAG

    dag = TaxonomyDAG.from_file(str(recipe.train_taxonomy))
    tree, to_tree = dag.project(recipe.projection)
    known = [_namesake(dag, taxonomy, node) for node in range(taxonomy.num_nodes)]
    nodes = [-1 if node is None else int(to_tree[node]) for node in known]
    mapping = torch.tensor(nodes)
    missing = [n for n in taxonomy.leaves.tolist() if nodes[n] < 0]
    if missing:
        raise TaxonomyError(
            f"{len(missing)} leaves are not in the taxonomy of training '{recipe.train_taxonomy}', such as "
            f"'{taxonomy.path_name(missing[0])}'; add them, or train on the data's own taxonomy"
        )
    return TrainingLabels(tree, mapping, _first_of_each(mapping, tree.num_nodes))


def _namesake(dag: TaxonomyDAG, taxonomy: Taxonomy, node: int) -> int | None:
    """The node of ``dag`` with the same path or, where only one node is called so in each, the same name."""
    labels: list[str | tuple[str, ...]] = [taxonomy.path(node)]
    try:
        taxonomy.find(taxonomy.names[node])
        labels.append(taxonomy.names[node])
    except TaxonomyError:  # several are called so: which one a single node stands for cannot be told
        pass
    for label in labels:
        try:
            return dag.find(label)
        except TaxonomyError:
            continue
    return None


def _first_of_each(mapping: Tensor, size: int) -> Tensor:
    """For each value below ``size`` the first position that has it; −1 where none has."""
    first = torch.full((size,), len(mapping))
    known = mapping >= 0
    first.scatter_reduce_(0, mapping[known], torch.arange(len(mapping))[known], "amin")
    return torch.where(first < len(mapping), first, -1)


def _random_ancestors(taxonomy: Taxonomy, nodes: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Replace this share of the labels by an ancestor, each proper one below the root being as likely.

    Returns:
        The labels, and which of them changed. Labels at depth 1 and missing ones have no such ancestor and
        are never drawn.
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
