"""Search among embeddings: an index of samples with their vectors and labels, filtered by the taxonomy.

    index = lt.Index.create("runs/photos/index", rows, taxonomy=taxonomy)
    hits = index.search(vectors, k=20, within="animal/mammal")

The rows lie in a store, by default a table of LanceDB in a folder. It was taken because what an index must
not get wrong is its work and not ours: every change is one commit, which a killed process leaves either done
or undone; readers keep the version that they opened while others write; filters are exact beside vectors;
approximate indexes are part of the table. It needs no server, and a folder can be copied. Its own exact scan
reads all vectors for each query, so exact search is a matrix product here, over a file that is made from the
table and belongs to one version of it.
"""

from labeltree.index.filters import Filter
from labeltree.index.hits import Hits
from labeltree.index.index import Index
from labeltree.index.index_rows import IndexRows
from labeltree.index.opened_tables import open_table
from labeltree.index.store import IndexSettings, Store

__all__ = ["Filter", "Hits", "Index", "IndexRows", "IndexSettings", "Store", "open_table"]
