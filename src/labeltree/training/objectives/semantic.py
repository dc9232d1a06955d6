"""Objectives whose targets are vectors of the classes: by the tree (Barz & Denzler), or by their names."""

from labeltree import losses
from labeltree.training.registry import register_objective

__all__ = ["DeViSE"]

register_objective(
    "corr",
    summary="each class has a fixed place by the tree, and its samples are drawn there",
    source="Barz & Denzler 2019, Hierarchy-based Image Embeddings, Eq. 8",
    sampler="random",
    geometry="sphere",
)(losses.CorrelationLoss)


@register_objective(
    "devise",
    summary="features are mapped to the word vectors of their classes' names",
    source="Frome et al. 2013, DeViSE, Eq. 1",
    sampler="random",
    geometry="euclidean",
)
class DeViSE(losses.DeViSELoss):
    """`DeViSELoss` that reads the vectors in the cache folder where no others are named."""

    @staticmethod
    def default_vectors() -> str:
        """The GloVe vectors that `labeltree data get glove-50d` has brought."""
        from labeltree.datasets import glove_file  # which loads all readers

        return str(glove_file())
