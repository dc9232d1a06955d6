"""Views of images: augmentation in batches, reproducible sample by sample."""

from labeltree.data.views.generator import RECIPES, ViewGenerator

__all__ = ["RECIPES", "ViewGenerator"]
