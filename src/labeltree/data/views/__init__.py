"""Views of images and texts: augmentation in batches, reproducible sample by sample."""

from labeltree.data.views.text import TEXT_RECIPES, TextViews
from labeltree.data.views.view_recipes import RECIPES, ViewGenerator

__all__ = ["RECIPES", "TEXT_RECIPES", "TextViews", "ViewGenerator"]
