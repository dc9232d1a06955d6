"""Make, change and search indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labeltree.api.taxonomies import open_tree
from labeltree.atomic import refuse_inputs, write_text
from labeltree.options.schema import takes
from labeltree.options.search import ChangeIndexOptions, DuplicatesOptions, MakeIndexOptions, SearchOptions

if TYPE_CHECKING:
    from labeltree.curation.index_duplicates import IndexDuplicates
    from labeltree.index import Index
    from labeltree.index.make_index import ChangedIndex
    from labeltree.report.search_index import Searched

__all__ = ["change_index", "duplicates", "make_index", "search"]


@takes(MakeIndexOptions)
def make_index(options: MakeIndexOptions) -> Index:
    """Make an index of the embeddings of a run, or of any model, to search in.

    Raises:
        RunError: If the folder is no finished run, or its samples have changed.
        DataError: If the embeddings cannot be read, or there is an index already.
    """
    from labeltree.index.make_index import make_index as make

    return make(options)


@takes(ChangeIndexOptions)
def change_index(options: ChangeIndexOptions) -> ChangedIndex:
    """Change an index by files: add, replace or delete samples, or read all labels on another taxonomy.

    `Index` does the same with rows and taxonomies in memory.

    Raises:
        LabeltreeError: If there is no index, or the change cannot be made; nothing is changed then.
    """
    from labeltree.index.make_index import change_index as change

    return change(options, None if options.move_to is None else open_tree(str(options.move_to)))


@takes(SearchOptions)
def search(options: SearchOptions) -> Searched:
    """Find the samples of an index that are most like images, texts, samples of it, or nodes.

    Raises:
        LabeltreeError: If there is no index, node or column of that name.
    """
    from labeltree.report.search_index import search_index

    if options.out is not None:
        refuse_inputs(options.out, *options.places)
    searched = search_index(options)
    if options.out is not None:
        write_text(options.out, searched.text(options.format))
    return searched


@takes(DuplicatesOptions)
def duplicates(options: DuplicatesOptions) -> IndexDuplicates:
    """Find the near duplicates in an index, across splits, labels and groups.

    Raises:
        LabeltreeError: If there is no index.
        ValueError: If a cosine is given, and the index has another geometry.
    """
    from labeltree.curation.index_duplicates import index_duplicates

    near = index_duplicates(options)
    if options.out is not None:
        write_text(options.out, near.text(options.format))
    return near
