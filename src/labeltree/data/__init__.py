"""Sources of images or texts with labels of a taxonomy: named data sets, folders, tables; splits; views."""

from labeltree.data.adapters import from_dataset
from labeltree.data.beeradvocate import read_beers
from labeltree.data.breakhis import breakhis_taxonomy, read_breakhis
from labeltree.data.cars import cars_taxonomy, read_cars
from labeltree.data.cifar import (
    cifar_10_taxonomy,
    cifar_100_deep_taxonomy,
    cifar_100_taxonomy,
    cifar_toy_taxonomy,
)
from labeltree.data.cub import cub_taxonomy, read_cub
from labeltree.data.debtags import debtags_taxonomy
from labeltree.data.deepfashion import read_deepfashion
from labeltree.data.downloads import data_home
from labeltree.data.emoji import fetch_emoji
from labeltree.data.fashion_mnist import fashion_mnist_taxonomy
from labeltree.data.folders import folder_taxonomy
from labeltree.data.ham10000 import ham10000_taxonomy, read_ham10000
from labeltree.data.icd10cm import read_icd10cm
from labeltree.data.imagenet import imagenet_32_taxonomy, imagenet_graph, imagenet_taxonomy
from labeltree.data.inaturalist import read_inaturalist
from labeltree.data.inshop import read_inshop
from labeltree.data.layout import Inventory, check_layout
from labeltree.data.listed import open_listed
from labeltree.data.modelnet import read_modelnet40
from labeltree.data.nabirds import read_nabirds
from labeltree.data.odir import odir_graph, odir_taxonomy, read_odir
from labeltree.data.opening import open_source
from labeltree.data.pretrained import fetch_weights
from labeltree.data.progress import ProgressLine
from labeltree.data.readers import ListedImages, register_reader
from labeltree.data.registry import (
    DatasetEntry,
    Needed,
    Published,
    fetch,
    get_dataset,
    list_datasets,
    register_dataset,
)
from labeltree.data.sop import read_sop_split1, read_sop_split2
from labeltree.data.source import ImageStore, Source
from labeltree.data.splits import make_splits, split_by_group
from labeltree.data.statistics import channel_statistics
from labeltree.data.stores import ArrayStore, MappedStore
from labeltree.data.tokens import TokenStore
from labeltree.data.tripadvisor import read_hotel
from labeltree.data.views import TextViews, ViewGenerator
from labeltree.data.word_vectors import glove_file
from labeltree.data.wordnet_base import fetch_wordnet, wordnet_folder
from labeltree.data.wordnet_glosses import read_glosses

__all__ = [
    "ArrayStore",
    "DatasetEntry",
    "ImageStore",
    "Inventory",
    "ListedImages",
    "MappedStore",
    "Needed",
    "ProgressLine",
    "Published",
    "Source",
    "TextViews",
    "TokenStore",
    "ViewGenerator",
    "breakhis_taxonomy",
    "cars_taxonomy",
    "channel_statistics",
    "check_layout",
    "cifar_10_taxonomy",
    "cifar_100_deep_taxonomy",
    "cifar_100_taxonomy",
    "cifar_toy_taxonomy",
    "cub_taxonomy",
    "data_home",
    "debtags_taxonomy",
    "fashion_mnist_taxonomy",
    "fetch",
    "fetch_emoji",
    "fetch_weights",
    "fetch_wordnet",
    "folder_taxonomy",
    "from_dataset",
    "get_dataset",
    "glove_file",
    "ham10000_taxonomy",
    "imagenet_32_taxonomy",
    "imagenet_graph",
    "imagenet_taxonomy",
    "list_datasets",
    "make_splits",
    "odir_graph",
    "odir_taxonomy",
    "open_listed",
    "open_source",
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
    "register_dataset",
    "register_reader",
    "split_by_group",
    "wordnet_folder",
]
