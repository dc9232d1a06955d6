"""Views of images and texts: augmentation in batches, reproducible sample by sample."""

from labeltree.data.views.generator import RECIPES, ViewGenerator
from labeltree.data.views.text import TEXT_RECIPES, TextViews

__all__ = ["RECIPES", "TEXT_RECIPES", "TextViews", "ViewGenerator"]
