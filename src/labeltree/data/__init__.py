"""Sources of images or texts with labels of a taxonomy: named data sets, folders, tables; splits; views."""

from labeltree.cache import data_home
from labeltree.data.datasets import (
    ListedImages,
    breakhis_taxonomy,
    cars_taxonomy,
    cifar_10_taxonomy,
    cifar_100_deep_taxonomy,
    cifar_100_taxonomy,
    cifar_toy_taxonomy,
    cub_taxonomy,
    debtags_taxonomy,
    fashion_mnist_taxonomy,
    fetch_emoji,
    ham10000_taxonomy,
    imagenet_32_taxonomy,
    imagenet_graph,
    imagenet_taxonomy,
    odir_graph,
    odir_taxonomy,
    read_beers,
    read_breakhis,
    read_cars,
    read_cub,
    read_deepfashion,
    read_glosses,
    read_ham10000,
    read_hotel,
    read_icd10cm,
    read_inaturalist,
    read_inshop,
    read_modelnet40,
    read_nabirds,
    read_odir,
    read_sop_split1,
    read_sop_split2,
    register_reader,
)
from labeltree.data.fetching.pretrained import fetch_weights
from labeltree.data.fetching.word_vectors import glove_file
from labeltree.data.fetching.wordnet import fetch_wordnet, wordnet_folder
from labeltree.data.folds import hold_out_fold, make_folds
from labeltree.data.images.kept import read_again
from labeltree.data.layout import Inventory, check_layout
from labeltree.data.opening import open_source, with_missing_labels
from labeltree.data.progress import ProgressLine
from labeltree.data.registry import (
    DatasetEntry,
    Needed,
    Published,
    fetch,
    get_dataset,
    list_datasets,
    register_dataset,
    register_download,
)
from labeltree.data.source import ImageStore, Source
from labeltree.data.sources.adapters import from_dataset
from labeltree.data.sources.folders import folder_labels, folder_taxonomy
from labeltree.data.sources.listed import open_listed
from labeltree.data.sources.tables import column_names, is_data_table, table_labels
from labeltree.data.splits import make_splits, split_by_group
from labeltree.data.statistics import channel_statistics
from labeltree.data.stores import ArrayStore, MappedStore
from labeltree.data.summary import DataSummary, SplitSummary, summarize
from labeltree.data.tokens import TokenStore
from labeltree.data.views import TextViews, ViewGenerator
from labeltree.data.wordnet_trees import wordnet_dag, wordnet_taxonomy

__all__ = [
    "ArrayStore",
    "DataSummary",
    "DatasetEntry",
    "ImageStore",
    "Inventory",
    "ListedImages",
    "MappedStore",
    "Needed",
    "ProgressLine",
    "Published",
    "Source",
    "SplitSummary",
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
    "column_names",
    "cub_taxonomy",
    "data_home",
    "debtags_taxonomy",
    "fashion_mnist_taxonomy",
    "fetch",
    "fetch_emoji",
    "fetch_weights",
    "fetch_wordnet",
    "folder_labels",
    "folder_taxonomy",
    "from_dataset",
    "get_dataset",
    "glove_file",
    "ham10000_taxonomy",
    "hold_out_fold",
    "imagenet_32_taxonomy",
    "imagenet_graph",
    "imagenet_taxonomy",
    "is_data_table",
    "list_datasets",
    "make_folds",
    "make_splits",
    "odir_graph",
    "odir_taxonomy",
    "open_listed",
    "open_source",
    "read_again",
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
    "register_download",
    "register_reader",
    "split_by_group",
    "summarize",
    "table_labels",
    "with_missing_labels",
    "wordnet_dag",
    "wordnet_folder",
    "wordnet_taxonomy",
]
