"""``labeltree taxonomy suggest``: a tree of classes from their embeddings, and trees judged by mistakes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labeltree.api.taxonomies import open_table, read_tree
from labeltree.cli.taxonomy_actions.taxonomy_changes import refuse_inputs
from labeltree.options.taxonomies import SuggestOptions

if TYPE_CHECKING:
    from torch import Tensor

    from labeltree.evaluation.suggested_tree import ClassPoints

__all__ = ["suggest"]


def suggest(options: SuggestOptions) -> None:
    """Print the suggested tree, judge it and other trees, and write it."""
    from labeltree.evaluation.suggested_tree import class_points, halves, judge_tree, suggest_tree

    if options.out is not None:
        refuse_inputs(options.out, options.embeddings, *([options.taxonomy] if options.taxonomy else []))
    table, taxonomy = open_table(options.embeddings, options.taxonomy)
    samples = class_points(table, taxonomy, options.column)
    others = [(name, read_tree(name)) for name in options.judge]
    made, judged, how = _parts(samples, halves(samples, options.seed))
    tree = suggest_tree(samples, options.linkage, options.depth)
    print(tree.render(max_children=20))
    if bool((made.classes.bincount(minlength=len(made.names)) > 0).all()):
        part = suggest_tree(made, options.linkage, options.depth)
        print(f"\nmade of {how}: {judge_tree(part, judged, options.seed).sentence()}")
    else:
        print(
            "\ncannot be judged: every class needs two samples, one to make a tree of and one to judge it on"
        )
    for name, other in others:
        print(f"{name}: {judge_tree(other, judged, options.seed).sentence()}")
    print("inner nodes are called after their first and last class; rename them in the file")
    if options.out is not None:
        tree.save(options.out)
        print(f"{tree.num_nodes} nodes, {tree.num_leaves} leaves, depth {tree.max_depth}: {options.out}")


def _parts(samples: ClassPoints, half: Tensor) -> tuple[ClassPoints, ClassPoints, str]:
    """The samples that the judged tree is made of, those it is judged on, and which these are."""
    learned = samples.learned
    how = "the training samples and judged on the others"
    if learned is None or learned.all() or not samples.has_all_classes(learned):
        learned, how = half, "half of the samples and judged on the other half"
    return samples.rows(learned.nonzero()[:, 0]), samples.rows((~learned).nonzero()[:, 0]), how
