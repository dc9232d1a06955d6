"""Sources of images or texts with labels of a taxonomy: folders, tables, registered names; splits; views."""

from labeltree.cache import data_home, ignore_cache
from labeltree.data.adapters import from_dataset
from labeltree.data.data_summary import DataSummary, SplitSummary, summarize
from labeltree.data.folders import folder_labels, folder_taxonomy
from labeltree.data.images.image_files import ImageSettings, usual_input
from labeltree.data.images.stores import ArrayStore, MappedStore
from labeltree.data.listed_images import ListedImages, open_listed, register_reader
from labeltree.data.named_data import (
    DatasetEntry,
    Inventory,
    Needed,
    Published,
    check_layout,
    fetch,
    get_dataset,
    list_datasets,
    register_dataset,
    register_download,
)
from labeltree.data.opening_sources import data_exist, open_source, with_missing_labels
from labeltree.data.source import ImageStore, Source
from labeltree.data.splits import hold_out_fold, make_splits
from labeltree.data.stratified import make_folds, split_by_group
from labeltree.data.streaming import StreamedSample, count_samples, stream_samples
from labeltree.data.tables.multi_label import LabelEvidence
from labeltree.data.tables.table_source import is_data_table, table_header, table_labels
from labeltree.data.views import TextViews, ViewGenerator
from labeltree.data.views.text import TokenStore
from labeltree.data.views.view_recipes import channel_statistics
from labeltree.data.wordnet_files.wordnet_trees import wordnet_dag, wordnet_taxonomy
from labeltree.progress import ProgressLine

__all__ = [
    "ArrayStore",
    "DataSummary",
    "DatasetEntry",
    "ImageSettings",
    "ImageStore",
    "Inventory",
    "LabelEvidence",
    "ListedImages",
    "MappedStore",
    "Needed",
    "ProgressLine",
    "Published",
    "Source",
    "SplitSummary",
    "StreamedSample",
    "TextViews",
    "TokenStore",
    "ViewGenerator",
    "channel_statistics",
    "check_layout",
    "count_samples",
    "data_exist",
    "data_home",
    "fetch",
    "folder_labels",
    "folder_taxonomy",
    "from_dataset",
    "get_dataset",
    "hold_out_fold",
    "ignore_cache",
    "is_data_table",
    "list_datasets",
    "make_folds",
    "make_splits",
    "open_listed",
    "open_source",
    "register_dataset",
    "register_download",
    "register_reader",
    "split_by_group",
    "stream_samples",
    "summarize",
    "table_header",
    "table_labels",
    "usual_input",
    "with_missing_labels",
    "wordnet_dag",
    "wordnet_taxonomy",
]
