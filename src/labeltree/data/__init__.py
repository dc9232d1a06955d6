"""Sources of images or texts with labels of a taxonomy: named data sets, folders, tables; splits; views."""

from labeltree.data.cifar import (
    cifar_10_taxonomy,
    cifar_100_deep_taxonomy,
    cifar_100_taxonomy,
    cifar_toy_taxonomy,
)
from labeltree.data.debtags import debtags_taxonomy
from labeltree.data.downloads import data_home
from labeltree.data.emoji import fetch_emoji
from labeltree.data.fashion_mnist import fashion_mnist_taxonomy
from labeltree.data.folders import folder_taxonomy
from labeltree.data.layout import Inventory, check_layout
from labeltree.data.listed import open_listed
from labeltree.data.opening import open_source
from labeltree.data.pretrained import fetch_weights
from labeltree.data.progress import ProgressLine
from labeltree.data.registry import (
    DatasetEntry,
    Needed,
    Published,
    fetch,
    get_dataset,
    list_datasets,
    register_dataset,
)
from labeltree.data.source import ImageStore, Source
from labeltree.data.splits import make_splits, split_by_group
from labeltree.data.statistics import channel_statistics
from labeltree.data.stores import ArrayStore, MappedStore
from labeltree.data.tokens import TokenStore
from labeltree.data.views import TextViews, ViewGenerator
from labeltree.data.word_vectors import glove_file
from labeltree.data.wordnet_base import fetch_wordnet, wordnet_folder
from labeltree.data.wordnet_glosses import read_glosses

__all__ = [
    "ArrayStore",
    "DatasetEntry",
    "ImageStore",
    "Inventory",
    "MappedStore",
    "Needed",
    "ProgressLine",
    "Published",
    "Source",
    "TextViews",
    "TokenStore",
    "ViewGenerator",
    "channel_statistics",
    "check_layout",
    "cifar_10_taxonomy",
    "cifar_100_deep_taxonomy",
    "cifar_100_taxonomy",
    "cifar_toy_taxonomy",
    "data_home",
    "debtags_taxonomy",
    "fashion_mnist_taxonomy",
    "fetch",
    "fetch_emoji",
    "fetch_weights",
    "fetch_wordnet",
    "folder_taxonomy",
    "get_dataset",
    "glove_file",
    "list_datasets",
    "make_splits",
    "open_listed",
    "open_source",
    "read_glosses",
    "register_dataset",
    "split_by_group",
    "wordnet_folder",
]
