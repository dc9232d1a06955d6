"""Tables of images, texts, both, or vectors: CSV, Parquet or files of arrays, one row per item."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from labeltree.data.biology.rank_gaps import Gaps
from labeltree.data.column_roles import (
    NO_COLUMN,
    UNNAMED_ROLES,
    find_role,
    list_columns,
    named_columns,
    note_usual_columns,
)
from labeltree.data.copies import connected_groups
from labeltree.data.image_rules import ImageRule
from labeltree.data.images.image_files import ImageSettings
from labeltree.data.images.stores import SomeImages
from labeltree.data.listed_images import open_listed
from labeltree.data.names.cleaning import Names
from labeltree.data.names.label_names import LabelNames
from labeltree.data.shards.shard_files import Shards
from labeltree.data.shards.shard_table import ShardTable, read_shards
from labeltree.data.source import DIGEST_BYTES, Source, TableRows
from labeltree.data.table_columns import DataTable, read_header
from labeltree.data.tables.fill_down import fill_columns
from labeltree.data.tables.label_candidates import LabelColumns
from labeltree.data.tables.label_columns import find_label_columns, usual_label_columns
from labeltree.data.tables.multi_label import LabelEvidence, check_columns, read_labels
from labeltree.data.tables.row_labels import TableLabels, label_nodes, table_aspects
from labeltree.data.tables.sample_rows import SampleRows
from labeltree.data.tables.table_samples import (
    TableSamples,
    find_samples,
    has_ids,
    list_sample_columns,
    only_vectors,
    sample_columns,
)
from labeltree.data.unused_rows import UnusedRows
from labeltree.data.vectors.choose_vectors import TableVectors, find_vectors, usual_id_column
from labeltree.data.vectors.joined_labels import join_labels, label_file_beside
from labeltree.data.vectors.read_vector_files import VectorTable, read_vector_file
from labeltree.errors import DataError, TaxonomyError
from labeltree.file_kinds import VECTOR_SUFFIXES, is_table_file
from labeltree.lazy import torch
from labeltree.split_names import CALIB, SPLIT_NAMES, SPLITS
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.files.checklist_archives import is_checklist_archive
from labeltree.taxonomy.files.edge_tables import has_parents, is_edge_table
from labeltree.taxonomy.files.level_columns import code_columns
from labeltree.taxonomy.files.opened_file import OpenedFile
from labeltree.taxonomy.files.taxon_tables import is_checklist
from labeltree.taxonomy.naming import some
from labeltree.taxonomy.placeholders import MissingNames
from labeltree.taxonomy.ranks import Ranks
from labeltree.taxonomy.versions.label_reader import LabelReader
from labeltree.text_files import split_packed

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "is_data_table",
    "labels_by_settings",
    "named_table_labels",
    "open_data_table",
    "open_shards",
    "open_table",
    "shard_labels",
    "table_header",
    "table_labels",
]

Array = np.ndarray[Any, Any]
RESERVED = frozenset(
    (
        *("embeddings", "features", "image_embeddings", "text_embeddings", "geometry", "curvature"),
        *(
            "nodes",
            "labels",
            "label_sets",
            "predictions",
            "depth_predictions",
            "aspects",
            "aspect_predictions",
            "aspect_taxonomies",
        ),
        *(
            "ids",
            "contents",
            "instances",
            "paths",
            "split",
            "splits",
            "groups",
            "group_names",
            "group",
            "sample",
            "all",
        ),
        *("encoder_digest", "taxonomy_digest"),
    )
)
"""Names that columns to keep may not have: those of an embeddings table, and words for what is judged."""
_log = logging.getLogger("labeltree.data")


def open_table(
    path: str | Path,
    *,
    taxonomy: Taxonomy | None = None,
    image_column: Sequence[str] | str | None = None,
    text_column: Sequence[str] | str | None = None,
    label_columns: Sequence[str] | str | None = None,
    aspect_columns: Sequence[str] | str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    keep_columns: Sequence[str] | str | None = None,
    missing_labels: Sequence[str] | str = (),
    gaps: Gaps | None = None,
    fill_down: Sequence[str] | str | None = None,
    image_folder: str | Path | None = None,
    image_name: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    names: Names = "exact",
    synonyms: str | Path | None = None,
    separator: str | None = None,
    evidence: LabelEvidence | None = None,
    either: bool = False,
    vector_column: Sequence[str] | str | None = None,
    label_file: str | Path | None = None,
    id_column: str | None = None,
    **images: Unpack[ImageSettings],
) -> Source:
    """Open a table of images, of texts, of images with texts, or of vectors.

    If neither an image column nor a text column is named, the first column with a usual name for images, or
    else for texts, is read; if there is none, vectors are.

    Args:
        path: A `.csv`, `.tsv`, `.jsonl`, `.json`, `.xlsx` or `.parquet` file, see `DataTable.read`; or a
            `.zip` file: a Darwin Core archive, as GBIF's downloads, or one table; or an `.npz`, `.npy` or
            `.h5ad` file, see `read_vector_file`.
        taxonomy: Taxonomy of the labels; None = built from one column per depth (coarse to fine), or from
            paths `a/b/c` in one column.
        image_column: Column of the image files, relative to the table's folder or absolute; usually image,
            path, file, filename, … With several columns, each image of a row is a sample with the row's
            label; every row must have at least one image.
        text_column: Column of the texts; usually text, description, sentence, review, document,
            abstract, caption or txt. Several are one text together, in their order, with a blank between
            them; a row has a text if one of them has.
        label_columns: One column, or one per depth, coarse to fine; None = depth1, depth2, …, or label (or
            class, category, node) with the columns that nest with it, unless a `taxonomy` is given; see
            `find_label_columns`. An empty cell is a missing label; if only finer cells are empty, the label
            is an inner node. With a `taxonomy`, an empty list leaves all labels out.
        aspect_columns: Columns of further labels of the same samples, each with its own taxonomy: names, or
            paths `a/b/c`. If all of them end in whole numbers (`4`, `positive/4`), the numbers are also
            ratings.
        group_column: Column of groups; rows with equal values stay in one split. None = `group` if there is
            one that is not named for something else; `none` = none. The images of one row, rows with the
            same file and, in tables of texts without splits, rows with the same text also stay in one split.
        split_column: Column with `train`, `val` or `test`; None = `split` if there is one that is not named
            for something else; `none` = none.
        keep_columns: Columns to keep with the samples as texts, such as `lesion` or `site`
            (`Source.attributes`): samples can be judged together by them, and results broken down. They are
            not read as labels.
        missing_labels: Names that are not classes, such as `unknown`, in columns of labels and of aspects:
            a label ends before such a name, and is the node above or missing.
        gaps: Rule for a label whose coarser name is missing in one of several `label_columns`.
            `placeholder`: a node takes its place, named `Pomacentridae (order incertae sedis)` after the
            next finer name, so that depth stays rank; `skip`: the finer name hangs on the next coarser
            given one; both first take the name from other rows if these agree on it. `error`: an error
            lists the rows. None = `placeholder` if the columns are ranks of biological names, else an error
            for rows whose missing name other rows do not tell.
        fill_down: Columns, coarse to fine, in which an empty cell means the value above it, as where
            spreadsheets name a department once for a block of rows. Merged cells of a workbook are filled
            without it.
        image_folder: Folder of the images, if it is not that of the table.
        image_name: Names of the files there, from the cells of a row: `{gbifID}.jpg`, or with `*` for
            several: `{catalogNumber}_*.jpg`. Rows without such a file are not used.
        encoding: Encoding of text and JSON that is not UTF-8, such as `cp1252`; None = found.
        sheet: Sheet of a workbook; None = the first that is not empty.
        names: What a name in the `label_columns` is. `exact`: the text without spaces around it;
            `plain`: spellings that differ in case, spaces or the composition of Unicode are one name under
            the same parent; `scientific`: a scientific name without authorship, see `parse_scientific`;
            from a single column, genus and species become nodes above the species and subspecies.
        synonyms: A table with the columns `synonym` and `accepted`, names or paths, or Darwin Core's
            `scientificName` and `acceptedNameUsage`; see `SynonymTable.load`.
        separator: Text that separates the names of paths in one column of labels or of aspects, besides which
            `/` is part of a name; `none`: only `/` does. None = `/`, and `>`, `›` or `»`
            between spaces where a `taxonomy` has the path, or where nearly all labels look so, some begin
            with the same name, and a path has three names or a name above others is a label, too; beside
            these, other spaces and another of these signs mean the same. A note says so.
        evidence: How labels follow from cells with several labels, votes of annotators, or doubtful labels;
            None = each row has one label, but lists hold several.
        either: Read images and texts, both columns by their usual names unless they are named, and also rows
            that have only one of them, or whose image cannot be read.
        vector_column: Name of an array or of a column of lists of numbers, or of columns of numbers, in which
            `*` stands for any text: `f_*`; see `find_vectors`.
        label_file: Vectors: a table with their labels and other columns, see `join_labels`; None = for an
            `.npy` file, the `.csv`, `.tsv` or `.parquet` file of the same name.
        id_column: Vectors: column of their ids, which name the samples; None = `id` or `ids`, unless it is
            named for something else; `none` = none.
        **images: How images are read; see `ImageSettings`. `on_error="skip"` also skips rows without an
            image or a text.

    Raises:
        DataError: If the table, a column, an image or a text is missing or malformed.
        TaxonomyError: If a label is not in the taxonomy.
    """
    table, joined = _read_table(Path(path), label_file, id_column, encoding, sheet)
    source = open_data_table(
        table,
        taxonomy=taxonomy,
        image_column=image_column,
        text_column=text_column,
        label_columns=label_columns,
        aspect_columns=aspect_columns,
        group_column=group_column,
        split_column=split_column,
        keep_columns=keep_columns,
        missing_labels=missing_labels,
        gaps=gaps,
        fill_down=fill_down,
        image_folder=image_folder,
        image_name=image_name,
        names=names,
        synonyms=synonyms,
        separator=separator,
        evidence=evidence,
        either=either,
        vector_column=vector_column,
        id_column=id_column,
        **images,
    )
    if label_file is not None and source.vectors is None:
        raise DataError(f"label_file is for vectors, but the samples of {table} are {source.modalities[0]}s")
    return dataclasses.replace(source, notes=(*joined, *source.notes))


def _read_table(
    path: Path,
    label_file: str | Path | None = None,
    id_column: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
) -> tuple[DataTable, list[str]]:
    """A table, with the columns of a file of labels if there is one, and sentences on how they met."""
    if path.suffix.lower() in VECTOR_SUFFIXES or path.is_dir():
        if encoding is not None or sheet is not None:
            what = "encoding" if encoding is not None else "sheet"
            raise DataError(f"'{path}' is a file of vectors, which has no {what}; leave table.{what} out")
        table: DataTable = read_vector_file(path)
    else:
        table = DataTable.read(path, encoding, sheet)
    file = label_file_beside(path) if label_file is None else Path(label_file).expanduser()
    return (table, []) if file is None else join_labels(table, file, id_column)


def open_shards(
    shards: Shards, *, image_column: Sequence[str] | str | None = None, **settings: Any
) -> Source:
    """Open shards of images, of texts, or of images with texts.

    The texts of a sample (members `cls`, `txt` and the like of a tar file, the fields of its `json`,
    the other columns of a Parquet file) are read as the columns of a table.

    Args:
        shards: The shards; see `find_shards`.
        image_column: Tar files: the extension of the images, or several; None = the first image of each
            sample. Parquet: the column of the images.
        **settings: As for `open_table`. Without a column of splits, the names of the shards are the splits if
            all begin with one, or lie in a folder called like one.

    Raises:
        DataError: If a shard is damaged, a column or an image is missing or malformed.
        TaxonomyError: If a label is not in the taxonomy.
    """
    table = read_shards(shards, image_column, settings.get("on_error", "raise"), settings.get("progress"))
    return open_data_table(table, image_column=image_column, **settings)


def open_data_table(
    table: DataTable,
    *,
    taxonomy: Taxonomy | None = None,
    image_column: Sequence[str] | str | None = None,
    text_column: Sequence[str] | str | None = None,
    label_columns: Sequence[str] | str | None = None,
    aspect_columns: Sequence[str] | str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    keep_columns: Sequence[str] | str | None = None,
    missing_labels: Sequence[str] | str = (),
    gaps: Gaps | None = None,
    fill_down: Sequence[str] | str | None = None,
    image_folder: str | Path | None = None,
    image_name: str | None = None,
    names: Names = "exact",
    synonyms: str | Path | None = None,
    separator: str | None = None,
    evidence: LabelEvidence | None = None,
    either: bool = False,
    vector_column: Sequence[str] | str | None = None,
    id_column: str | None = None,
    **images: Unpack[ImageSettings],
) -> Source:
    """Open a table that has been read; for the arguments and errors see `open_table`."""
    if not table.num_rows:
        raise DataError(f"{table} has no rows")
    table, filled = fill_columns(table, list_columns(fill_down))
    evidence, whole, of_samples = evidence or LabelEvidence(), table, None
    if evidence.vote_columns and label_columns:
        check_columns(evidence.columns(table), label_columns)
        raise DataError("label_columns and vote_columns exclude each other: the votes give the label")
    if evidence.sample_column is not None:
        if isinstance(table, ShardTable | VectorTable):
            raise DataError(f"{table} holds one sample a row; sample_column is for other tables")
        of_samples = SampleRows(table, evidence.sample_column)
        table = of_samples.merged
    shards = isinstance(table, ShardTable)  # may have a column of splits by the names of its files
    files = None if image_folder is None and image_name is None else (image_folder, image_name)
    # What says which rows belong together may be the text or the image itself.
    named = named_columns(
        table,
        *(image_column, text_column, vector_column, label_columns, aspect_columns, split_column, id_column),
        *(columns for kind, columns in evidence.columns(whole).items() if kind != "samples"),
        absent=NO_COLUMN,
    )
    usual_id = usual_id_column(table, named) if id_column is None else None
    id_column = usual_id if id_column in (None, NO_COLUMN) else table.find(id_column, "id_column")
    samples = find_samples(
        table,
        image_column,
        text_column,
        images.get("on_error", "raise"),
        files,
        either=either,
        vector_column=vector_column,
        others=_named(
            [id_column, *usual_label_columns(table), *UNNAMED_ROLES],
            *(label_columns, aspect_columns, group_column, split_column, keep_columns),
            *evidence.columns(whole).values(),
        ),
        named=named,
    )
    missing = MissingNames(missing_labels)
    taken = {
        "images": samples.image_columns,
        "vectors": samples.vector_columns,
        "texts": samples.text_columns,
        "groups": find_role(table, group_column, "group", named),
        "split": find_role(table, split_column, "split", {*named, *list_columns(group_column)}),
        "aspects": tuple(table.find(column, "aspect_columns") for column in list_columns(aspect_columns)),
        "kept": _columns_to_keep(table, list_columns(keep_columns)),
    }
    columns_of_labels, of_names, given = (
        LabelColumns([]),
        LabelNames(names, synonyms),
        dict[str, tuple[str, ...]](),
    )
    if taxonomy is not None and label_columns is not None and not len(label_columns):
        labels = TableLabels(taxonomy, torch.full((table.num_rows,), -1))
    else:
        given = evidence.columns(whole)
        check_columns({**taken, **given}, label_columns)
        others = {column for columns in (*taken.values(), *given.values()) for column in columns}
        others -= set(taken["kept"]) & set(list_columns(label_columns))
        if evidence.vote_columns:
            columns_of_labels = LabelColumns(list(given["votes"]))
        else:
            columns_of_labels = find_label_columns(
                whole,
                label_columns,
                others,
                taken["groups"],
                nest=taxonomy is None,
                gaps=gaps,
                spare={*taken["kept"], *taken["groups"], *given.get("samples", ())},
                taxonomy=taxonomy,
            )
        if of_samples is not None:
            of_samples.check_alike(whole, {column for columns in taken.values() for column in columns})
        labels = read_labels(
            whole,
            columns_of_labels.columns,
            taxonomy,
            missing,
            gaps,
            of_names,
            separator,
            evidence,
            of_samples,
        )
    aspects = table_aspects(table, taken["aspects"], missing, separator)
    split = _split(table, taken["split"])
    groups, group_names = _groups(table, taken["groups"], samples, split is not None)
    rows = torch.from_numpy(samples.rows)
    in_file = samples.rows if of_samples is None else of_samples.first[samples.rows]
    columns: dict[str, Any] = {
        "nodes": labels.nodes[rows],
        "label_sets": None if labels.sets is None else labels.sets[rows],
        "taxonomy": labels.taxonomy,
        "instances": torch.from_numpy(samples.instances),
        "groups": groups,
        "group_names": group_names,
        "split": None if split is None else split[samples.rows],
        "attributes": {column: _texts(table, column)[samples.rows] for column in taken["kept"]},
        "aspect_taxonomies": aspects.taxonomies,
        "aspects": None if aspects.nodes is None else aspects.nodes[rows],
        "ratings": None if aspects.ratings is None else aspects.ratings[rows],
        "texts": samples.texts,
    }
    details: dict[str, Any] = {
        "columns": {
            kind: names
            for kind, names in {**taken, **given, "labels": tuple(columns_of_labels.columns)}.items()
            if names
        },
        "missing_labels": missing.found,
        "label_reader": LabelReader(
            labels.taxonomy,
            separator=separator,
            clean=partial(of_names.read_one, taxonomy=labels.taxonomy) if of_names.changes else None,
        ),
        "notes": (
            *table.notes,
            *filled,
            *samples.notes,
            *columns_of_labels.notes,
            *labels.notes,
            *aspects.notes,
            *_without_group(taken["groups"], group_names),
            *note_usual_columns(
                {
                    "group_column": None if group_column else next(iter(taken["groups"]), None),
                    "split_column": None if split_column or shards else next(iter(taken["split"]), None),
                    "id_column": None if samples.vectors is None else usual_id,
                }
            ),
        ),
    }
    if not isinstance(whole, ShardTable | VectorTable):
        first = None if of_samples is None else of_samples.first
        details["table_rows"] = TableRows(samples.per_row, first)
    used = {name for names in details["columns"].values() for name in names} | {id_column, ""}
    used |= set() if image_name is None else set(ImageRule(image_name).columns)
    used |= {Ranks(columns_of_labels.columns, table.columns).depth_column}
    details["notes"] += tuple(_unread(table, used, details["notes"]))
    unused = samples.unused
    empty: dict[int, tuple[str, str]] = {
        row * samples.per_row: (table.place(row), unused.reasons[why][1])
        for row, why in zip(unused.rows.tolist(), unused.why.tolist(), strict=True)
    }
    empty_units = _units_of_rows(table, unused.rows, samples.per_row, taken)
    if of_samples is not None:
        unused = dataclasses.replace(unused, rows=of_samples.first[unused.rows])
    unused += labels.unused
    ids = None if id_column is None else _texts(whole, id_column)

    def as_seen(rows: UnusedRows) -> UnusedRows:
        return rows.numbered(whole.numbers_of, ids)

    name = table.path.name if isinstance(table, ShardTable) else table.path.stem
    if samples.files is None:
        row_names = [table.place(row) for row in samples.rows.tolist()]
        if samples.vectors is not None and id_column is not None:
            row_names, told = _ids(table, id_column, samples.rows, row_names)
            details["notes"] = (*details["notes"], *told)
        if samples.vectors is not None:
            details |= {"vectors": samples.vectors, "digests": samples.vectors.digests()}
        places = torch.arange(len(rows))
        details |= {"unused": as_seen(unused), "unread": empty, "unread_units": empty_units}
        return Source(name=name, store=None, rows=places, names=row_names, **columns, **details)
    if samples.places is not None:
        source = _open_either(name, table, samples, in_file, columns, details, unused, images)
        assert source.unused is not None
        return dataclasses.replace(
            source,
            unused=as_seen(source.unused),
            unread={**empty, **source.unread},
            unread_units={**empty_units, **source.unread_units},
        )
    source = open_listed(name, table.path.parent, samples.files, **columns, **images)
    lost = ~np.isin(samples.instances, source.instances.numpy())
    why = [source.unread[row][1] for row in samples.instances[lost].tolist()]
    unreadable = _unreadable(in_file[lost], samples.image_columns, why)
    details["notes"] = (*details["notes"], *source.notes)
    details["unread"] = {**empty, **source.unread}
    details["unread_units"] = {**empty_units, **source.unread_units}
    return dataclasses.replace(source, unused=as_seen(unused + unreadable), **details)


def _unread(table: DataTable, used: Collection[str | None], notes: Sequence[str]) -> list[str]:
    """A note on columns that are not read, and which no other note names."""
    arrays = table.arrays if isinstance(table, VectorTable) else ()
    left = [
        name
        for name in table.columns
        if name not in used and name not in arrays and not any(f"'{name}'" in note for note in notes)
    ]
    return [f"columns that are not read: {some(left, 8)}"] if left else []


def _named(*columns: Sequence[str | None] | str | None) -> set[str]:
    """The names of columns that are given one by one or together."""
    given = [[one] if isinstance(one, str) else one or () for one in columns]
    return {name for names in given for name in names if name is not None}


def _ids(table: DataTable, column: str, rows: Array, names: list[str]) -> tuple[list[str], list[str]]:
    """The ids of samples, and a sentence if they cannot be their names."""
    cells = table.cells(column)
    codes = cells.codes[rows]
    given = np.flatnonzero(codes >= 0)
    _, first = np.unique(codes[given], return_index=True)
    again = np.setdiff1d(given, given[first])
    if len(again):
        text, before = cells.texts[codes[again[0]]], rows[np.flatnonzero(codes == codes[again[0]])[0]]
        both = f"{table.place(before)} and {table.place(rows[again[0]])}"
        return names, [
            f"{both} have the same id '{text}' in '{column}' "
            f"({len(again):,} such rows), so that samples are named by their rows; if it stands for what "
            f"samples were taken from, set --table.group_column {column}"
        ]
    return [
        cells.texts[code] if code >= 0 else name for code, name in zip(codes.tolist(), names, strict=True)
    ], []


def _open_either(
    name: str,
    table: DataTable,
    samples: TableSamples,
    in_file: Array,
    columns: dict[str, Any],
    details: dict[str, Any],
    unused: UnusedRows,
    images: ImageSettings,
) -> Source:
    """A table of images and texts in which a sample may lack either, or have an image that is unreadable."""
    assert samples.files is not None
    assert samples.places is not None
    shown = np.flatnonzero(samples.places >= 0)
    row_names = [table.place(row) for row in samples.rows.tolist()]
    pictures = open_listed(
        name,
        table.path.parent,
        samples.files,
        columns["nodes"][shown],
        columns["taxonomy"],
        instances=torch.from_numpy(shown),
        **images,
    )
    read = pictures.instances
    places = torch.full((len(samples.rows),), -1)
    places[read] = pictures.rows
    assert pictures.store is not None
    digests = np.zeros((len(places), DIGEST_BYTES), np.uint8)
    if len(read):
        digests[read.numpy()] = pictures.sample_digests()
    for row, file in zip(read.tolist(), pictures.sample_names(), strict=True):
        row_names[row] = file
    paths = np.full(len(places), "", dtype=object)
    if pictures.files is not None:
        paths[read.numpy()] = [pictures.files[place] for place in pictures.rows.tolist()]
    lost = np.setdiff1d(shown, read.numpy())
    why = [pictures.unread[row][1] for row in lost.tolist()]
    unread = _unreadable(in_file[lost], samples.image_columns, why)
    details = {**details, "notes": (*details["notes"], *pictures.notes)}
    source = Source(
        name=name,
        store=SomeImages(pictures.store, places),
        rows=torch.arange(len(places)),
        names=row_names,
        files=None if pictures.files is None else paths.tolist(),
        digests=digests,
        unused=unused + unread,
        **columns,
        **details,
    )
    something = source.present(source.rows).any(1)
    if bool(something.all()):
        return source
    nothing = "it has no image and no text"
    left_out = {
        int(source.instances[row]): pictures.unread.get(row, (table.place(int(samples.rows[row])), nothing))
        for row in (~something).nonzero()[:, 0].tolist()
    }
    lost_units = source.units_by_id((~something).nonzero()[:, 0])
    return dataclasses.replace(
        source.subset(something.nonzero()[:, 0]), unread=left_out, unread_units=lost_units
    )


def _unreadable(rows: Array, columns: Sequence[str], why: Sequence[str]) -> UnusedRows:
    """Rows `(n,)` of which an image cannot be read, with the n reasons."""
    reasons = {reason: number for number, reason in enumerate(dict.fromkeys(why))}
    return UnusedRows(
        np.asarray(rows, np.int64),
        np.array([reasons[reason] for reason in why], np.int64),
        tuple((", ".join(columns), f"an image cannot be read: {reason}") for reason in reasons),
    )


def table_header(path: Path, encoding: str | None = None, sheet: str | None = None) -> DataTable | None:
    """The columns of a table, with the notes on how it is read; None if the file is not a table."""
    if not path.is_file():
        return None
    if path.suffix.lower() in VECTOR_SUFFIXES:
        return _read_table(path)[0]
    return read_header(path, encoding, sheet) if is_table_file(path) else None


def is_data_table(path: Path) -> bool:
    """Whether a file is a table of images, texts or vectors with labels, and not a taxonomy table."""
    if not path.is_file() or not (is_table_file(path) or path.suffix.lower() in VECTOR_SUFFIXES):
        return False
    if path.suffix.lower() == ".zip" and is_checklist_archive(OpenedFile(path)):
        return False
    may_be_other = split_packed(path)[0] in (".txt", ".json")  # lists and trees of names
    try:
        table = _read_table(path)[0]
    except DataError:
        if may_be_other:
            return False
        raise
    if is_edge_table(table.columns) or is_checklist(table.columns) or (may_be_other and only_vectors(table)):
        return False
    if only_vectors(table) and _names_parents(path, table.columns):
        return False  # numbers of taxa
    try:
        vectors = _vectors_of(table) if only_vectors(table) else None
        if vectors is not None and set(vectors.columns) <= code_columns(table.columns):
            return False  # numbers of classes
        _labels_of(table)
    except (DataError, TaxonomyError):
        return False
    return True


def _names_parents(path: Path, columns: Sequence[str]) -> bool:
    """Whether a column refers to the parents of rows; files that are no text or workbook have none."""
    if not any("parent" in column.casefold() for column in columns):
        return False
    try:
        table = OpenedFile(path).table
    except TaxonomyError:
        return False
    return has_parents(table.header, table.rows)


def table_labels(path: Path) -> tuple[Taxonomy, Tensor]:
    """The taxonomy and the labels of the rows `(n,)` that `open_table` gives a table; no image is read.

    Raises:
        DataError: If there is no column of images or texts, or of labels.
        TaxonomyError: If the labels do not form a tree.
    """
    labels = named_table_labels(path)
    return labels.taxonomy, labels.nodes


def named_table_labels(
    path: Path,
    names: Names = "exact",
    synonyms: str | Path | None = None,
    columns: Sequence[str] = (),
    known: Taxonomy | None = None,
) -> TableLabels:
    """The same with `names` and `synonyms` as `open_table` reads them, and the notes that it gives.

    Of `columns`, if they are given, coarse to fine, or else those that `open_table` finds, also by the names
    of a `known` taxonomy.
    """
    return _labels_of(_read_table(path)[0], LabelNames(names, synonyms), columns, known)


def labels_by_settings(
    path: Path,
    *,
    missing_labels: Sequence[str] | str = (),
    label_columns: Sequence[str] | str | None = None,
    gaps: Gaps | None = None,
    fill_down: Sequence[str] | str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    names: Names = "exact",
    synonyms: str | Path | None = None,
    separator: str | None = None,
    evidence: LabelEvidence | None = None,
    known: Taxonomy | None = None,
) -> TableLabels:
    """The taxonomy and labels of a table as its settings say, see `open_table`; no image is read.

    With a `known` taxonomy of the labels, by whose names their columns are found, too, samples may lie
    elsewhere.

    Raises:
        DataError: As for `open_table`.
        TaxonomyError: If the labels do not form a tree.
    """
    whole, filled = fill_columns(DataTable.read(path, encoding, sheet), list_columns(fill_down))
    evidence = evidence or LabelEvidence()
    votes = evidence.columns(whole).get("votes", ())
    rows = None if evidence.sample_column is None else SampleRows(whole, evidence.sample_column)
    taken = [] if known is None else list_sample_columns(whole)
    if label_columns is None and not evidence.given and (known is None or taken):
        named = LabelNames(names, synonyms)
        missing = MissingNames(missing_labels)
        labels = _labels_of(whole, named, (), known, gaps=gaps, separator=separator, missing=missing)
        return dataclasses.replace(labels, notes=(*filled, *labels.notes))
    if votes:
        of_labels = LabelColumns(list(votes))
    else:
        of_labels = find_label_columns(whole, label_columns, taken, gaps=gaps, taxonomy=known)
    reading = LabelNames(names, synonyms), separator, evidence, rows
    labels = read_labels(whole, of_labels.columns, None, MissingNames(missing_labels), gaps, *reading)
    notes = (*whole.notes, *filled, *of_labels.notes, *labels.notes)
    return dataclasses.replace(labels, notes=notes)


def shard_labels(shards: Shards) -> tuple[Taxonomy, Tensor]:
    """The taxonomy and the labels `(n,)` that `open_shards` gives shards; no image is decoded.

    Raises:
        DataError: If a shard is damaged, or there is no column of images or texts, or of labels.
        TaxonomyError: If the labels do not form a tree.
    """
    labels = _labels_of(read_shards(shards))
    return labels.taxonomy, labels.nodes


def _labels_of(
    table: DataTable,
    names: LabelNames | None = None,
    columns: Sequence[str] = (),
    known: Taxonomy | None = None,
    *,
    gaps: Gaps | None = None,
    separator: str | None = None,
    missing: MissingNames | None = None,
) -> TableLabels:
    if columns:
        labels = label_nodes(table, [table.find(column) for column in columns], None, names=names)
        return dataclasses.replace(labels, notes=(*table.notes, *labels.notes))
    try:
        if only_vectors(table):
            vectors = _vectors_of(table)
            taken = set() if vectors is None else set(vectors.columns)
        if not only_vectors(table) or not taken:
            images, texts = sample_columns(table, None, None)
            taken = {*images, *texts}
    except DataError:
        if not has_ids(table):  # images of occurrences may be found by a rule
            raise
        taken = set()
    of_labels = find_label_columns(table, None, taken, gaps=gaps, taxonomy=known)
    reading = names or LabelNames(), separator, LabelEvidence()
    labels = read_labels(table, of_labels.columns, None, missing or MissingNames(()), gaps, *reading)
    notes = (*table.notes, *of_labels.notes, *labels.notes)
    unread = _unread(table, {*of_labels.columns, *UNNAMED_ROLES}, notes)
    return dataclasses.replace(labels, notes=(*notes, *unread))


def _vectors_of(table: DataTable) -> TableVectors | None:
    return find_vectors(table, None, _named([*usual_label_columns(table), *UNNAMED_ROLES]))


def _columns_to_keep(table: DataTable, names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if name in RESERVED:
            raise DataError(
                f"{table}: keep_columns names '{name}', which has a meaning of its own in labeltree; rename "
                "the column, or leave it out"
            )
    return tuple(dict.fromkeys(table.find(name, "keep_columns") for name in names))


def _texts(table: DataTable, column: str) -> Array:
    """The texts of a column `(rows,)`, empty where a cell is."""
    cells = table.cells(column)
    texts: Array = np.array([*cells.texts, ""], dtype=str)[cells.codes]
    return texts


def _groups(
    table: DataTable, columns: Sequence[str], samples: TableSamples, has_splits: bool
) -> tuple[Tensor | None, Array | None]:
    """Groups kept together by splits (given groups, images of a row, equal images or texts); their names."""
    keys, names = [samples.rows], np.full(len(samples.rows), "")
    # A short text may occur on both sides of a given split; a file should not.
    if samples.files is not None or (samples.texts is not None and not has_splits):
        keys.append(samples.alike)
    for column in columns:
        cells = table.cells(column)
        keys.append(cells.codes[samples.rows])
        texts = _texts(table, column)[samples.rows]
        names = np.where(names == "", texts, names)
    groups = connected_groups(*keys)
    if groups is None and not columns:
        return None, None
    return torch.full((len(names),), -1) if groups is None else torch.from_numpy(groups), names


def _units_of_rows(
    table: DataTable, rows: Array, per_row: int, columns: Mapping[str, Sequence[str]]
) -> dict[int, tuple[str, dict[str, str]]]:
    """The group and the attributes of rows that name no sample, by the id that it would have."""
    if not len(rows):
        return {}
    groups = np.full(len(rows), "")
    for column in columns["groups"]:
        groups = np.where(groups == "", _texts(table, column)[rows], groups)
    kept = {column: _texts(table, column)[rows] for column in columns["kept"]}
    return {
        row * per_row: (str(groups[place]), {name: str(values[place]) for name, values in kept.items()})
        for place, row in enumerate(rows.tolist())
    }


def _without_group(columns: Sequence[str], names: Array | None) -> list[str]:
    """A note if some samples have no value in the columns of groups."""
    count = 0 if names is None else int((names == "").sum())
    if names is None or not columns or not count:
        return []
    what = " and no ".join(f"'{column}'" for column in columns)
    return [
        f"{count:,} of {len(names):,} samples {'has' if count == 1 else 'have'} no {what}: a sample without "
        "is a group by itself, even if it belongs "
        "with others, which may be in another split"
    ]


def _split(table: DataTable, columns: Sequence[str]) -> Array | None:
    """The split of every row."""
    if not columns:
        return None
    cells = table.cells(columns[0])
    splits = [SPLIT_NAMES.get(text.lower(), text.lower()) for text in cells.texts]
    for split, text in zip(splits, cells.texts, strict=True):
        if split not in (*SPLITS, CALIB):
            raise DataError(
                f"{table}, {table.place(cells.rows_of(text)[0])}: the split is '{split}', not "
                f"{', '.join(SPLITS)} or empty; if '{columns[0]}' does not say the split, set "
                f"--table.split_column {NO_COLUMN}"
            )
    of_rows: Array = np.array([*splits, ""], dtype=str)[cells.codes]
    return of_rows
