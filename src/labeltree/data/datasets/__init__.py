"""The data sets that have a name: a file or a package each. Importing this registers them all."""

from labeltree.data.datasets.birds.cub import cub_taxonomy, read_cub
from labeltree.data.datasets.birds.nabirds import read_nabirds
from labeltree.data.datasets.breakhis import breakhis_taxonomy, read_breakhis
from labeltree.data.datasets.cars import cars_taxonomy, read_cars
from labeltree.data.datasets.cifar import (
    cifar_10_taxonomy,
    cifar_100_deep_taxonomy,
    cifar_100_taxonomy,
    cifar_toy_taxonomy,
)
from labeltree.data.datasets.debtags.packages import debtags_taxonomy
from labeltree.data.datasets.deepfashion.attributes import read_deepfashion
from labeltree.data.datasets.deepfashion.inshop import read_inshop
from labeltree.data.datasets.emoji import fetch_emoji
from labeltree.data.datasets.fashion_mnist import fashion_mnist_taxonomy
from labeltree.data.datasets.ham10000 import ham10000_taxonomy, read_ham10000
from labeltree.data.datasets.icd10cm import read_icd10cm
from labeltree.data.datasets.imagenet import imagenet_32_taxonomy, imagenet_graph, imagenet_taxonomy
from labeltree.data.datasets.inaturalist.images import read_inaturalist
from labeltree.data.datasets.modelnet import read_modelnet40
from labeltree.data.datasets.odir import odir_graph, odir_taxonomy, read_odir
from labeltree.data.datasets.readers import ListedImages, register_reader
from labeltree.data.datasets.reviews.beeradvocate import read_beers
from labeltree.data.datasets.reviews.tripadvisor import read_hotel
from labeltree.data.datasets.sop import read_sop_split1, read_sop_split2
from labeltree.data.datasets.wordnet_animals import read_glosses

__all__ = [
    "ListedImages",
    "breakhis_taxonomy",
    "cars_taxonomy",
    "cifar_10_taxonomy",
    "cifar_100_deep_taxonomy",
    "cifar_100_taxonomy",
    "cifar_toy_taxonomy",
    "cub_taxonomy",
    "debtags_taxonomy",
    "fashion_mnist_taxonomy",
    "fetch_emoji",
    "ham10000_taxonomy",
    "imagenet_32_taxonomy",
    "imagenet_graph",
    "imagenet_taxonomy",
    "odir_graph",
    "odir_taxonomy",
    "read_beers",
    "read_breakhis",
    "read_cars",
    "read_cub",
    "read_deepfashion",
    "read_glosses",
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
    "register_reader",
]
