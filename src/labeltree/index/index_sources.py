"""What an index is made from: a trained run, or a table of embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from labeltree.data.corrections import sample_ids
from labeltree.data.object_stores import is_remote, local_copy
from labeltree.decisions.classifiers import classify
from labeltree.decisions.searched_space import SpaceName
from labeltree.errors import DataError, TaxonomyError, typed
from labeltree.evaluation import translate
from labeltree.index.index import Index
from labeltree.index.index_rows import KNOWN_COLUMNS, RESERVED, IndexRows
from labeltree.inference.load_run import TrainedRun
from labeltree.inference.run_classifiers import run_classifiers
from labeltree.inference.run_embeddings import run_tables
from labeltree.options.choices import IndexGeometry
from labeltree.options.search import MakeIndexOptions
from labeltree.progress import Progress
from labeltree.runs import EmbeddingTable, PartFolder, RunFolder
from labeltree.runs.table_file_columns import as_texts, read_columns
from labeltree.runs.table_taxonomies import taxonomy_of_tables
from labeltree.runs.usual_columns import name_as_usual
from labeltree.taxonomy import AnyTaxonomy, Taxonomy, load_taxonomy

__all__ = ["index_embeddings", "index_run", "rows_of_embeddings", "rows_of_run", "rows_to_add"]

_NO_COLUMNS = {"sample", "problem", "geometry", "curvature", "id", "ids", "label", "labels", "prediction"}
"""Columns of an embeddings file that do not become columns of an index."""


def index_run(options: MakeIndexOptions) -> Index:
    """Make an index of all samples of a finished run, of all its splits; see `labeltree.make_index`."""
    folder = RunFolder(options.what or "").require()
    where = folder.path / "index" if options.out is None else options.out
    Index.check_free(where, overwrite=options.overwrite)
    rows, table, space = rows_of_run(folder.path, options.progress)
    return Index.create(
        where,
        rows,
        taxonomy=folder.load_taxonomy(),
        geometry=options.geometry or ("cosine" if space == "features" else _geometry(table)),
        curvature=table.curvature,
        model=folder.path,
        vectors=space,
        overwrite=options.overwrite,
    )


def index_embeddings(options: MakeIndexOptions) -> Index:
    """Make an index of embeddings of any model; see `labeltree.make_index`.

    Without an `out` it lies beside the file, and without a taxonomy the one is read that `labeltree embed`
    has written beside.

    Raises:
        TaxonomyError: If a label is not in the taxonomy.
    """
    if is_remote(options.table or "") and options.out is None:
        raise options.refusal("`embeddings` lie in an object store: say where the index is to be, by `out`")
    path = Path(options.table or "")
    where = path.absolute().with_suffix(".index") if options.out is None else options.out
    Index.check_free(where, overwrite=options.overwrite)
    path = Path(local_copy(path))
    tree = _tree_of_labels(path) if options.taxonomy is None else load_taxonomy(options.taxonomy)
    rows, table = rows_of_embeddings(path, tree)
    return Index.create(
        where,
        rows,
        taxonomy=tree,
        geometry=options.geometry or _geometry(table),
        curvature=table.curvature,
        overwrite=options.overwrite,
    )


def rows_of_run(
    run: str | Path, progress: Progress | None = None
) -> tuple[IndexRows, EmbeddingTable, SpaceName]:
    """All samples of a finished run, embedded by it, as rows of an index, and what their vectors are.

    Their ids are the names of the samples within the data set, such as files relative to its folder; column
    `instance` holds their numbers in it, and `prediction` the path of the node that the run answers, by
    the classifier that answers everywhere (`run_classifiers`).
    """
    trained, tables = run_tables(run, ("trained",), progress)
    table, source = tables["trained"], trained.source
    answers, space = _answers(trained, table)
    rows = IndexRows.from_table(table, sample_ids(source), space)
    columns: dict[str, Sequence[object]] = {"instance": source.instances.tolist()}
    if answers is not None:
        names = trained.taxonomy.path_name
        columns["prediction"] = [names(node) if node > 0 else None for node in answers.tolist()]
    everything = torch.arange(len(source))
    files = source.paths(everything)
    complete = IndexRows(
        rows.ids,
        rows.vectors,
        rows.nodes,
        paths=_places(files),
        texts=source.read(everything) if source.texts is not None else None,
        splits=rows.splits,
        groups=rows.groups,
        columns=columns,
    )
    return complete, table, space


def _answers(run: TrainedRun, table: EmbeddingTable) -> tuple[torch.Tensor | None, SpaceName]:
    """The node `(n,)` that a run answers for each sample, and the space that it searches.

    There are no answers if it has no classifier at all.
    """
    try:
        known = run_classifiers(run, own_samples=lambda: table)
    except DataError:  # no training sample has a label that a classifier could learn
        return table.predictions, "embeddings"
    space = known.chosen.space.name
    if known.chosen.name == "own" and known.own is None:  # it answers, without scores
        return table.predictions, space
    return classify(known.scores(), table), space


def _places(files: list[str]) -> list[str] | None:
    """Where files lie; names of samples within a larger file, which are no places, stay as they are."""
    if not files or not Path(files[0]).exists():
        return files or None
    return [str(Path(file).absolute()) for file in files]


def rows_of_embeddings(
    path: str | Path, taxonomy: AnyTaxonomy, space: SpaceName = "embeddings"
) -> tuple[IndexRows, EmbeddingTable]:
    """The samples of an embeddings file as rows of an index; see `EmbeddingTable.load`.

    Ids are its column `ids` (or `id`), else its paths if they are unique, else its instances. Further
    columns of one value a sample become columns of the index.

    Args:
        path: `.npz`, `.parquet` or a folder of parts.
        taxonomy: That the rows are labelled in. Labels are found there by path or by name if the file was
            written with another one, which lies in the folder or beside the file.
        space: `embeddings` or `features`, which become the vectors.

    Raises:
        DataError: If the file cannot be read, or a label is not in the taxonomy.
    """
    path = Path(path)
    parts = PartFolder(path)
    beside = parts.taxonomy if parts.exists() else path.with_suffix(".taxonomy.json")
    own = load_taxonomy(beside) if beside.is_file() else taxonomy
    if own == taxonomy:
        table = EmbeddingTable.load(path, taxonomy)
    else:
        table = translate(EmbeddingTable.load(path, own), own, taxonomy, "the taxonomy to read it in")
    raw = name_as_usual(parts.read_columns() if parts.exists() else read_columns(path))
    rows = IndexRows.from_table(table, space=space)
    texts = next(
        (as_texts(path, name, raw[name]).tolist() for name in ("texts", "text") if name in raw), None
    )
    columns = {name: _plain(values) for name, values in raw.items() if _is_further(name, values, len(table))}
    return IndexRows(
        rows.ids,
        rows.vectors,
        rows.nodes,
        paths=rows.paths,
        texts=texts,
        splits=rows.splits,
        groups=rows.groups,
        columns=columns,
    ), table


def rows_to_add(path: str | Path, index: Index) -> IndexRows:
    """The samples of an embeddings file as rows for an index that exists; see `rows_of_embeddings`.

    `instances`, numbers of the samples in their own data set, are left out if the index has no such column.

    Raises:
        DataError: If the file cannot be read, or the index has no place for a label; it says what to do.
    """
    try:
        rows = rows_of_embeddings(path, index.taxonomy, index.settings.vectors)[0]
        if "instances" not in rows.columns or "instances" in index.info().columns:
            return rows
        return replace(rows, columns={key: rows.columns[key] for key in rows.columns if key != "instances"})
    except (DataError, TaxonomyError) as error:
        if "labels are matched by" not in str(error):
            raise
        raise DataError(
            f"'{path}' has classes that the index does not have: {str(error).split(': ', 1)[1]}. For new "
            f"classes, move the index to a taxonomy that has them first, 'labeltree index "
            f"{typed(index.where)} --move-to FILE'"
        ) from error


def _is_further(name: str, values: Any, n: int) -> bool:
    known = {*RESERVED, *_NO_COLUMNS, *(f"{known}s" for known in KNOWN_COLUMNS), "embeddings", "embedding"}
    known |= {"nodes", "features", "feature", "group_names", "predictions", "aspect_taxonomies"}
    array = np.asarray(values)
    suits = name.isidentifier() and name.isascii() and not name.startswith("_")
    return suits and name.lower() not in known and array.ndim == 1 and len(array) == n


def _plain(values: Any) -> list[object]:
    return [None if value is None or value != value else value for value in np.asarray(values).tolist()]


def _geometry(table: EmbeddingTable) -> IndexGeometry:
    names: dict[str, IndexGeometry] = {"sphere": "cosine", "euclidean": "euclidean", "poincare": "poincare"}
    if table.geometry not in names:
        raise DataError(f"the embeddings have the geometry '{table.geometry}'; expected {', '.join(names)}")
    return names[table.geometry]


def _tree_of_labels(path: Path) -> Taxonomy:
    taxonomy = taxonomy_of_tables(path)
    if not isinstance(taxonomy, Taxonomy):
        raise DataError(f"the taxonomy of '{path}' is a DAG, and an index has a tree: name it, --taxonomy")
    return taxonomy
