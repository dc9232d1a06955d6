"""What an index is, in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labeltree.decisions.searched_space import SpaceName
from labeltree.index.approximate import exact_up_to
from labeltree.index.filters import Filter
from labeltree.index.store import Store
from labeltree.index.stored_columns import shown_columns
from labeltree.notebooks import html_sentences, html_table
from labeltree.options.choices import IndexGeometry
from labeltree.taxonomy import Taxonomy

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["InNotebooks", "IndexInfo"]


@dataclass(frozen=True)
class IndexInfo:
    """What an index is.

    Attributes:
        where: Its folder or URL.
        size: Number of samples.
        labelled: Number of samples with a label.
        dim: Length of the vectors.
        geometry: `cosine`, `euclidean` or `poincare`.
        vectors: What they are of the run: its `embeddings`, or the `features` of its encoder.
        nodes: Number of nodes of the taxonomy, with the root.
        release: What people call this version of the taxonomy, or None.
        columns: Names of the columns that `Index.rows` gives.
        splits: Number of samples by split.
        model: The run that embeds queries, or None.
        version: Of the store.
        approximate: What the store has tuned for approximate search; empty if nothing.
        exact_up_to: Number of samples up to which search is exact unless asked otherwise.
    """

    where: str
    size: int
    labelled: int
    dim: int
    geometry: IndexGeometry
    vectors: SpaceName
    nodes: int
    release: str | None
    columns: tuple[str, ...]
    splits: Mapping[str, int]
    model: str | None
    version: int
    approximate: Mapping[str, Any]
    exact_up_to: int

    def say_splits(self) -> str:
        """The samples of each split, and those in none, in words; empty if no sample has a split."""
        named = {name: count for name, count in self.splits.items() if name}
        none = self.size - sum(named.values())
        parts = [f"{name} {count:,}" for name, count in named.items()]
        return ", ".join([*parts, f"in none {none:,}"] if parts and none else parts)

    @classmethod
    def of(cls, store: Store, model: str | None) -> IndexInfo:
        """What a store holds as it is now, with the path of its run."""
        settings = store.settings
        everywhere = Filter(within=((0, settings.taxonomy.num_nodes),))
        return cls(
            where=store.name,
            size=store.count(),
            labelled=store.count(everywhere),
            dim=settings.dim,
            geometry=settings.geometry,
            vectors=settings.vectors,
            nodes=settings.taxonomy.num_nodes,
            release=settings.taxonomy.release,
            columns=tuple(shown_columns(store)),
            splits=dict(sorted(store.count_texts("split").items())),
            model=model,
            exact_up_to=exact_up_to(settings.dim),
            version=store.version,
            approximate=dict(settings.approximate),
        )


class InNotebooks:
    """What notebooks show of an index, which has these."""

    if TYPE_CHECKING:

        @property
        def taxonomy(self) -> Taxonomy: ...

        @property
        def where(self) -> str: ...

        def info(self) -> IndexInfo: ...

        def rows(self) -> pa.Table: ...

    def __fspath__(self) -> str:
        if "://" in self.where:  # without its password
            raise TypeError(f"the index '{self.where}' lies in a database; name it by its URL")
        return self.where

    def to_pandas(self) -> pd.DataFrame:
        """A row for each sample: `id`, `label` as a path, and its other columns, without the vectors.

        The paths are in `node` if the index has a column `label` of its own.
        """
        read = self.rows()
        paths = [self.taxonomy.path_name(node) if node >= 0 else None for node in read["node"].to_pylist()]
        frame: pd.DataFrame = read.drop_columns(["node"]).to_pandas()
        frame.insert(1, "node" if "label" in frame else "label", paths)
        return frame

    def _repr_html_(self) -> str:
        info = self.info()
        rows = [
            ["samples", f"{info.size:,}, {info.labelled:,} with a label"],
            ["splits", info.say_splits()],
            ["taxonomy", f"{info.nodes:,} nodes" + (f", {info.release}" if info.release else "")],
            ["vectors", f"{info.vectors}, {info.dim} numbers, {info.geometry}"],
            ["columns", ", ".join(info.columns)],
            ["model", info.model or "unknown: search by vectors or ids"],
        ]
        table = html_table(["", ""], [row for row in rows if row[1]])
        return str(html_sentences([f"index {info.where}"]) + table)
