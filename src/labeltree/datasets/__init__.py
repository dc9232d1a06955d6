"""The named data sets and other downloads of `labeltree data get`. Importing this registers them all."""

from typing import Any

# Most data sets are registered by the imports below.
from labeltree.datasets import cifar, imagenet, imagenet_32  # noqa: F401
from labeltree.datasets.aircraft import read_aircraft
from labeltree.datasets.beeradvocate import read_beers
from labeltree.datasets.better_mistakes import read_benchmark
from labeltree.datasets.breakhis import breakhis_taxonomy, read_breakhis
from labeltree.datasets.cars import cars_taxonomy, read_cars
from labeltree.datasets.cifar_trees import (
    cifar_10_taxonomy,
    cifar_100_deep_taxonomy,
    cifar_100_five_level_taxonomy,
    cifar_100_taxonomy,
    cifar_toy_taxonomy,
)
from labeltree.datasets.cub import cub_taxonomy, read_cub
from labeltree.datasets.deepfashion import read_deepfashion
from labeltree.datasets.fashion_mnist import fashion_mnist_taxonomy
from labeltree.datasets.fetching.encoder_weights import fetch_weights
from labeltree.datasets.fetching.glove import glove_file
from labeltree.datasets.grocery_store import read_grocery_store
from labeltree.datasets.ham10000 import ham10000_taxonomy, read_ham10000
from labeltree.datasets.icd10cm import read_icd10cm
from labeltree.datasets.imagenet_trees import imagenet_32_taxonomy, imagenet_graph, imagenet_taxonomy
from labeltree.datasets.inaturalist import read_inaturalist
from labeltree.datasets.inshop import read_inshop
from labeltree.datasets.modelnet import read_modelnet40
from labeltree.datasets.nabirds import read_nabirds
from labeltree.datasets.odir import odir_graph, odir_taxonomy, read_odir
from labeltree.datasets.sop import read_sop_split1, read_sop_split2
from labeltree.datasets.tripadvisor import read_hotel
from labeltree.datasets.wordnet import fetch_wordnet, read_glosses, wordnet_folder
from labeltree.plugins import own_parts

__all__ = [
    "breakhis_taxonomy",
    "cars_taxonomy",
    "cifar_10_taxonomy",
    "cifar_100_deep_taxonomy",
    "cifar_100_five_level_taxonomy",
    "cifar_100_taxonomy",
    "cifar_toy_taxonomy",
    "cub_taxonomy",
    "fashion_mnist_taxonomy",
    "fetch_weights",
    "fetch_wordnet",
    "glove_file",
    "ham10000_taxonomy",
    "imagenet_32_taxonomy",
    "imagenet_graph",
    "imagenet_taxonomy",
    "odir_graph",
    "odir_taxonomy",
    "read_aircraft",
    "read_beers",
    "read_benchmark",
    "read_breakhis",
    "read_cars",
    "read_cub",
    "read_deepfashion",
    "read_glosses",
    "read_grocery_store",
    "read_ham10000",
    "read_hotel",
    "read_icd10cm",
    "read_inaturalist",
    "read_inshop",
    "read_modelnet40",
    "read_nabirds",
    "read_odir",
    "read_sop_split1",
    "read_sop_split2",
    "wordnet_folder",
]


def __getattr__(name: str) -> Any:
    """A name of another module of labeltree's own that declares data sets, such as those of its studies."""
    for entry in own_parts("datasets").values():
        if entry.value != __name__ and name in entry.load().__all__:
            return getattr(entry.load(), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
