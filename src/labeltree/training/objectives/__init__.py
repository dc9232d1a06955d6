"""The objectives that come with the library, one file per family; importing this registers them."""

from labeltree.training.objectives import contrastive

__all__ = ["contrastive"]
