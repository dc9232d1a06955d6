"""A tree of classes from their embeddings, and trees judged by the mistakes between classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from labeltree.api.taxonomies import labelled_table, read_tree
from labeltree.atomic import refuse_inputs
from labeltree.options.schema import takes
from labeltree.options.taxonomy_options import SuggestOptions

if TYPE_CHECKING:
    from torch import Tensor

    from labeltree.evaluation.suggested_tree import ClassPoints, TreeFit
    from labeltree.taxonomy import Taxonomy

__all__ = ["SuggestedTree", "suggest_taxonomy"]


@dataclass(frozen=True)
class SuggestedTree:
    """A tree of classes, and how well mistakes follow it and others.

    Attributes:
        tree: The tree, made of all samples.
        how: Of which samples the judged tree is made.
        judged: How well mistakes follow a tree made of these samples; None if there are too few.
        others: The same for other trees, by name.
    """

    tree: Taxonomy
    how: str
    judged: TreeFit | None
    others: dict[str, TreeFit]


@takes(SuggestOptions)
def suggest_taxonomy(options: SuggestOptions) -> SuggestedTree:
    """Cluster the mean embeddings of classes to a tree, and say how well mistakes follow it and other trees.

    Raises:
        DataError: If the table cannot be read.
        TaxonomyError: If a tree that is judged has other classes.
    """
    from labeltree.evaluation.suggested_tree import class_points, halves, judge_tree, suggest_tree

    if options.out is not None:
        refuse_inputs(options.out, options.embeddings, *([options.taxonomy] if options.taxonomy else []))
    table, taxonomy = labelled_table(options.embeddings, options.taxonomy)
    samples = class_points(table, taxonomy, options.column)
    others = {name: read_tree(name) for name in options.judge}
    made, judged_on, how = _parts(samples, halves(samples, options.seed))
    tree = suggest_tree(samples, options.linkage, options.depth)
    judged = None
    if bool((made.classes.bincount(minlength=len(made.names)) > 0).all()):
        part = suggest_tree(made, options.linkage, options.depth)
        judged = judge_tree(part, judged_on, options.seed)
    if options.out is not None:
        tree.save(options.out)
    beside = {name: judge_tree(other, judged_on, options.seed) for name, other in others.items()}
    return SuggestedTree(tree, how, judged, beside)


def _parts(samples: ClassPoints, half: Tensor) -> tuple[ClassPoints, ClassPoints, str]:
    """The samples that the judged tree is made of, those it is judged on, and which these are."""
    learned = samples.learned
    how = "the training samples and judged on the others"
    if learned is None or learned.all() or not samples.has_all_classes(learned):
        learned, how = half, "half of the samples and judged on the other half"
    return samples.rows(learned.nonzero()[:, 0]), samples.rows((~learned).nonzero()[:, 0]), how
