"""ImageNet (Russakovsky et al. 2015), ImageNet-32 (Chrabaszcz et al. 2017), and their trees."""

from labeltree.datasets.imagenet.classes import ImagenetClass, imagenet_32_taxonomy, imagenet_classes
from labeltree.datasets.imagenet.datasets import read_imagenet, read_imagenet_robustness
from labeltree.datasets.imagenet.downsampled import open_imagenet_32
from labeltree.datasets.imagenet.trees import imagenet_graph, imagenet_taxonomy

__all__ = [
    "ImagenetClass",
    "imagenet_32_taxonomy",
    "imagenet_classes",
    "imagenet_graph",
    "imagenet_taxonomy",
    "open_imagenet_32",
    "read_imagenet",
    "read_imagenet_robustness",
]
