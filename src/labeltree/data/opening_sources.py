"""Open the data given by `--data`: a named data set, a folder of images, a table, vectors, or shards."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from labeltree.counted_nouns import say_count
from labeltree.data.biology.rank_gaps import Gaps
from labeltree.data.correction_rounds import CorrectionFiles, CorrectionRounds
from labeltree.data.folders import open_folder
from labeltree.data.images.image_files import ImageSettings, check_image_settings
from labeltree.data.named_data import get_dataset, list_datasets, require_files
from labeltree.data.names.cleaning import Names
from labeltree.data.object_stores import is_remote, local_copy
from labeltree.data.shards.shard_files import find_shards
from labeltree.data.source import Source
from labeltree.data.tables.multi_label import LabelEvidence
from labeltree.data.tables.table_source import open_shards, open_table
from labeltree.data.unused_rows import UnusedRows
from labeltree.data.vectors.vectors_of_others import is_clip_folder
from labeltree.errors import DataError
from labeltree.file_kinds import TABLE_SUFFIXES, VECTOR_SUFFIXES, is_table_file, near_path
from labeltree.lazy import torch
from labeltree.taxonomy import Taxonomy, TaxonomyMapping
from labeltree.taxonomy.naming import some
from labeltree.taxonomy.placeholders import MissingNames
from labeltree.taxonomy.versions.between_versions import (
    LabelsOfBoth,
    VersionChange,
    check_version,
    why_coarser,
)
from labeltree.taxonomy.versions.label_reader import LabelReader
from labeltree.taxonomy.versions.mapping_file import described_versions, lines_about_none

_PICKLES = (".pkl", ".pickle", ".joblib")
__all__ = ["check_named", "data_exist", "open_source", "with_missing_labels"]


def open_source(
    spec: str | Path,
    *,
    taxonomy: Taxonomy | str | Path | None = None,
    mapping: TaxonomyMapping | str | Path | None = None,
    corrections: CorrectionFiles | None = None,
    data_path: str | Path | None = None,
    missing_labels: Sequence[str] | str | None = None,
    image_column: Sequence[str] | str | None = None,
    text_column: Sequence[str] | str | None = None,
    label_columns: Sequence[str] | str | None = None,
    aspect_columns: Sequence[str] | str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    keep_columns: Sequence[str] | str | None = None,
    gaps: Gaps | None = None,
    fill_down: Sequence[str] | str | None = None,
    image_folder: str | Path | None = None,
    image_name: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    names: Names | None = None,
    synonyms: str | Path | None = None,
    separator: str | None = None,
    evidence: LabelEvidence | None = None,
    either: bool = False,
    vector_column: Sequence[str] | str | None = None,
    label_file: str | Path | None = None,
    id_column: str | None = None,
    table: Mapping[str, Any] | None = None,
    **images: Unpack[ImageSettings],
) -> Source:
    """Open a named data set, a folder of nested folders, a table, a file of vectors, or shards.

    Args:
        spec: A name from `list_datasets()`; or the path of a folder or of a `.csv`, `.tsv`,
            `.parquet` or `.zip` file; or of vectors, `.npz`, `.npy` or `.h5ad`; or shards: `.tar`
            files as WebDataset writes them, or `.parquet` files with the bytes of images, as a file, a
            folder of them, or a pattern `name-{000..099}.tar`. Write `./NAME` for a folder with the name
            of a data set.
        taxonomy: A taxonomy, or its file, for folders and tables.
        mapping: What became of the nodes of an older version of `taxonomy`, or its file: labels of the
            older version are read as nodes of `taxonomy`, and labels that only `taxonomy` has as they
            are. Of a named data set, the older version is the taxonomy that it brings.
        corrections: A table of corrected labels, see `Corrections.load`: the accepted ones are applied, and
            `Source.notes` says how many could not be. Several are applied in order, each to the labels that
            those before it have left.
        data_path: Folder of a named data set; None = in the cache folder.
        missing_labels: Names of classes that stand for missing labels, such as `unknown`, at any depth:
            their samples have the label above, or none.
        image_column: Tables: column of the image files, or several columns with one image each. Shards: the
            extension of the images in tar files, or the column of their bytes.
        text_column: Tables and shards, like all columns below: column of texts, or several
            that are one text together.
        label_columns: One column, or one per depth, coarse to fine.
        aspect_columns: Columns of further labels of the same samples, each with its own taxonomy.
        group_column: Column of groups; rows with equal values stay in one split.
        split_column: Column of the split.
        keep_columns: Columns to keep with the samples, such as the lesion or the hospital; see `open_table`.
        gaps: What becomes of a label whose coarser name is missing; see `open_table`.
        fill_down: Columns in which an empty cell means the value above it; see `open_table`.
        image_folder: Folder of the images, if it is not that of the table.
        image_name: Names of the files there, from the cells of a row: `{gbifID}.jpg`.
        encoding: Encoding of text that is not UTF-8, such as `cp1252`; None = found.
        sheet: Sheet of a workbook; None = the first that is not empty.
        names: What a name in the label columns is: `exact`, `plain` or `scientific`; see `open_table`.
        synonyms: A table of synonyms and accepted names; see `open_table`.
        separator: What separates the names of paths in a column of labels, or `none`; see `open_table`.
        evidence: Tables and shards: how labels follow from cells with several labels, votes of annotators, or
            doubtful labels.
        either: Tables and shards: read images and texts, and also rows that have only one of them.
        vector_column: Tables and files of vectors: the array, or the columns of numbers; see `open_table`.
        label_file: Vectors: a table with their labels; see `open_table`.
        id_column: Vectors: column of their ids; see `open_table`.
        table: Settings of a table as one mapping, as in a recipe: `{"text_column": "Title"}`.
        **images: How images are read: `image_size`, `channels`, `on_error`, `cache` and `progress`;
            see `ImageSettings`.

    Raises:
        DataError: If the data are missing or unreadable.
        TaxonomyError: If a label is not in the taxonomy, or a mapping was made for another one.
        ValueError: If there is a mapping without a taxonomy.
    """
    given = dict(locals())
    del given["table"]
    if table is not None:
        return open_source(**_merge_table(given, table))
    check_image_settings(images)
    if isinstance(taxonomy, (str, Path)):
        taxonomy = Taxonomy.from_file(taxonomy)
    name = local_copy(spec)
    path = Path(name).expanduser()
    missing = missing_labels or ()
    columns = {
        "image_column": image_column,
        "text_column": text_column,
        "label_columns": label_columns,
        "aspect_columns": aspect_columns,
        "group_column": group_column,
        "split_column": split_column,
        "keep_columns": keep_columns,
        "gaps": gaps,
        "fill_down": fill_down,
        "image_folder": image_folder,
        "image_name": image_name,
        "encoding": encoding,
        "sheet": sheet,
        "names": names,
        "synonyms": synonyms,
        "separator": separator,
        "evidence": evidence,
        "vector_column": vector_column,
        "label_file": label_file,
        "id_column": id_column,
    }
    chosen: dict[str, Any] = {column: value for column, value in columns.items() if value is not None}
    is_named = name in list_datasets()
    both: dict[str, Any] = {"either": True} if either else {}
    if mapping is not None:
        check_version(taxonomy, mapping)
        assert taxonomy is not None
        options = {"data_path": data_path, "missing_labels": missing_labels, **chosen, **both, **images}
        source = (_open_named_on if is_named else _open_both_versions)(spec, taxonomy, mapping, options)
        return _correct(source, corrections)
    vectors = not is_named and (path.suffix.lower() in VECTOR_SUFFIXES or is_clip_folder(path))
    shards = None if is_named or vectors else find_shards(name, image_column)
    if chosen and (is_named or (path.is_dir() and shards is None and not vectors)):
        what = "data set" if is_named else "folder"
        first = next(iter(chosen))
        if first == "evidence" and evidence is not None:
            first = next(iter(evidence.given), first)
        raise DataError(f"'{name}' is a {what} and has no columns; leave {first} out, or name a table")
    if is_named:
        if taxonomy is not None:
            raise DataError(f"data set '{name}' brings its own taxonomy; leave taxonomy out")
        entry = get_dataset(name)
        folder = entry.folder if data_path is None else Path(data_path).expanduser()
        require_files(entry, folder)
        source = entry.open(path=folder, **images)
    elif data_path is not None:
        raise DataError(
            f"data_path says where a named data set lies, but '{name}' is not one; leave data_path out, or "
            "take a name of 'labeltree data list'"
        )
    elif shards is not None:
        if encoding is not None or sheet is not None:
            what = "encoding" if encoding is not None else "sheet"
            raise DataError(f"'{name}' are shards, which have no {what}; leave table.{what} out")
        source = open_shards(shards, taxonomy=taxonomy, missing_labels=missing, **both, **images, **chosen)
    elif vectors:
        source = open_table(path, taxonomy=taxonomy, missing_labels=missing, **both, **images, **chosen)
    elif path.is_dir():
        source = open_folder(path, taxonomy=taxonomy, missing_labels=missing, **images)
    elif is_table_file(path):
        source = open_table(path, taxonomy=taxonomy, missing_labels=missing, **both, **images, **chosen)
    elif path.suffix.lower() in _PICKLES and path.exists():
        raise DataError(
            f"'{name}' is a pickle, which may run any code and is not read; write its arrays with "
            "np.savez('features.npz', vectors=array, label=labels)"
        )
    elif path.suffix.lower() in (".xls", ".xlsb", ".ods", ".numbers") and path.exists():
        raise DataError(f"'{name}' is a workbook of another kind; save it as .xlsx or .csv")
    elif path.exists():
        raise DataError(
            f"'{name}' is neither a folder nor a table ({', '.join((*TABLE_SUFFIXES, *VECTOR_SUFFIXES))}); "
            "name a folder or a table, or take 'labeltree predict RUN FILE' for single files"
        )
    else:
        near = near_path(path) or next(iter(difflib.get_close_matches(name, list_datasets(), 1)), None)
        hint = f"did you mean '{near}'?" if near else "'labeltree data list' names the data sets"
        raise DataError(f"'{name}' is neither a folder, nor a table, nor shards, nor a data set; {hint}")
    return _correct(with_missing_labels(source, missing), corrections)


def _merge_table(given: dict[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `open_source`, with the settings of a table as arguments.

    Raises:
        TypeError: If it is no mapping, or names what is not a setting of a table.
        ValueError: If a setting is given both ways.
    """
    if not isinstance(table, Mapping):
        raise TypeError(
            f"table is {table!r}; expected the settings of the table, such as {{'text_column': 'Title'}}"
        )
    labels = [field.name for field in dataclasses.fields(LabelEvidence)]
    not_of_tables = ("spec", "taxonomy", "mapping", "corrections", "data_path", "missing_labels", "images")
    known = [*labels, *(name for name in given if name not in (*not_of_tables, "evidence", "either"))]
    for name in table:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(known)}"
            raise TypeError(f"unknown setting '{name}' of table; {hint}")
        if given.get(name) is not None:
            raise ValueError(f"{name} is given both in table and beside it; leave one out")
    evidence = {name: table[name] for name in labels if table.get(name) is not None}
    if evidence and given["evidence"] is not None:
        raise ValueError(f"{', '.join(evidence)} and evidence say the same; leave one out")
    columns = {name: value for name, value in table.items() if name not in labels}
    if evidence:
        columns["evidence"] = LabelEvidence(**evidence)
    images = given.pop("images")
    return {**given, **images, **columns}


def _correct(source: Source, corrections: CorrectionFiles | None) -> Source:
    return source if corrections is None else CorrectionRounds.load(corrections).apply(source)[0]


def _open_both_versions(
    spec: str | Path, new: Taxonomy, mapping: TaxonomyMapping | str | Path, options: dict[str, Any]
) -> Source:
    """Samples with labels of two versions of a taxonomy, as nodes of the new one."""
    file = None if isinstance(mapping, TaxonomyMapping) else mapping
    if not isinstance(mapping, TaxonomyMapping):
        mapping = TaxonomyMapping.load(mapping, new=new)
    labels = LabelsOfBoth(mapping)
    source = open_source(spec, taxonomy=labels.taxonomy, **options)
    nothing = source.nodes == 0
    if source.label_sets is not None:  # several labels that share nothing below the root are labels
        nothing &= source.label_sets[:, 1] < 0
    notes = [*source.notes, labels.sentence(), *labels.say_contested()]
    if file is not None and (unused := _lines_of_no_label(file, labels)):
        notes.append(
            f"{file} says what became of {some(unused, 3)}, and no label is at or below "
            f"{'it' if len(unused) == 1 else 'them'}: correct the path, if another class is meant"
        )
    if bool(nothing.any()):
        notes.append(
            f"{say_count(int(nothing.sum()), 'sample has', 'samples have')} no label any more, because the "
            f"mapping removes their classes and nothing but the root is left above: {some(labels.lost(), 3)}"
        )
    tree = new if source.taxonomy == new else source.taxonomy
    return dataclasses.replace(
        source,
        taxonomy=tree,
        nodes=torch.where(nothing, -1, source.nodes),
        notes=tuple(notes),
        label_reader=source.read_labels,
    )


def _lines_of_no_label(file: str | Path, labels: LabelsOfBoth) -> list[str]:
    """The old classes of a mapping that no label is at or below, if it does not say what it was made for."""
    return [] if "old" in described_versions(file) else lines_about_none(file, labels.mapped_paths())


def _open_named_on(
    spec: str | Path, new: Taxonomy, mapping: TaxonomyMapping | str | Path, options: dict[str, Any]
) -> Source:
    """The samples of a named data set on another version of its taxonomy."""
    source = open_source(spec, **options)
    change = (
        VersionChange(mapping)
        if isinstance(mapping, TaxonomyMapping)
        else VersionChange.of(source.taxonomy, new, mapping)
    )
    said = change.sentence(source.nodes, "the new taxonomy").removesuffix(".")
    nodes = change.to_new(source.nodes)
    unused = source.unused or UnusedRows.none()
    for node in torch.unique(source.nodes[source.nodes > 0]).tolist():
        if why := why_coarser(change.mapping, node):
            unused += UnusedRows.because(source.instances[source.nodes == node].numpy(), ["label"], why)
    nodes = torch.where((nodes == 0) & (source.nodes > 0), -1, nodes)
    return dataclasses.replace(
        source.on_taxonomy(new, nodes, change.places),
        notes=(*source.notes, said),
        unused=unused,
        label_reader=LabelReader(LabelsOfBoth(change.mapping).taxonomy),
    )


def check_named(spec: str, data_path: str | Path | None = None) -> None:
    """Check that the files of a named data set are there; anything else is checked when it is opened.

    Raises:
        DataError: With what is missing, and how to get it.
    """
    if spec in list_datasets():
        entry = get_dataset(spec)
        require_files(entry, entry.folder if data_path is None else Path(data_path).expanduser())


def data_exist(spec: str) -> bool:
    """Whether there are data, of whatever kind, where `spec` says; a named data set counts as present."""
    try:
        known = is_remote(spec) or spec in list_datasets() or Path(spec).expanduser().exists()
        return known or find_shards(spec) is not None
    except DataError:  # a shard of a pattern is missing
        return False


def with_missing_labels(source: Source, names: Sequence[str] | str) -> Source:
    """Make the labels of some classes missing.

    Args:
        source: The samples.
        names: Names of classes at any depth, case-insensitive (`unknown`), or paths of single classes
            (`mammal/other`). Their samples get the label of the node above, or none.

    Raises:
        TaxonomyError: If no class is left.
    """
    missing = MissingNames(names)
    tree, mapping, why = missing.without(source.taxonomy)
    for name in (why[node] for node in source.nodes.tolist() if node > 0):
        if name is not None:
            missing.found[name] += 1
    known = {name: source.missing_labels.get(name, 0) + count for name, count in missing.found.items()}
    aspects, trees = source.aspects, []
    for number, taxonomy in enumerate(source.aspect_taxonomies):
        kept, moved, _ = missing.without(taxonomy)
        trees.append(kept)
        if aspects is not None:
            column = torch.where(aspects[:, number] > 0, moved[aspects[:, number]], aspects[:, number])
            aspects = torch.cat([aspects[:, :number], column[:, None], aspects[:, number + 1 :]], dim=1)
    nodes = torch.where(source.nodes > 0, mapping[source.nodes], source.nodes)
    return dataclasses.replace(
        source.on_taxonomy(tree, nodes, mapping),
        aspect_taxonomies=tuple(trees),
        aspects=aspects,
        missing_labels={**source.missing_labels, **known},
    )
