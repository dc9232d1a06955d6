"""The taxonomy of a file, a folder, a run, a table or a data set."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeltree.errors import TaxonomyError, check_place
from labeltree.file_kinds import is_table_file, is_vector_file
from labeltree.options.schema import takes
from labeltree.options.taxonomy_options import ConvertOptions, TreeSuspectsOptions

if TYPE_CHECKING:
    from torch import Tensor

    from labeltree.curation.tree_suspects import TreeSuspects
    from labeltree.data.names.cleaning import Names
    from labeltree.options.choices import Form
    from labeltree.runs import EmbeddingTable
    from labeltree.taxonomy import AnyTaxonomy, Taxonomy

__all__ = [
    "as_tree",
    "convert_taxonomy",
    "labelled_table",
    "open_labels",
    "open_taxonomy",
    "open_tree",
    "read_tree",
    "taxonomy_suspects",
]


def open_taxonomy(
    name: str | Path,
    names: Names | None = None,
    synonyms: str | Path | None = None,
    column: Sequence[str] | str | None = None,
    form: Form | None = None,
) -> AnyTaxonomy:
    """The taxonomy of a file, a folder, a run, a table of samples or a named data set.

    How a table was read is said on stderr. `open_data` gives the labels of the samples, too, and
    `load_taxonomy` reads files of taxonomies alone.

    Args:
        name: Where it is, or the name of a data set.
        names: For a table, as in `open_data`.
        synonyms: For a table, as in `open_data`.
        column: The column of whole paths; several are the levels of a table, coarse to fine.
        form: What a file holds, as `--form` of `labeltree taxonomy convert`; None = found.

    Raises:
        DataError: If there is none, or it cannot be read.
        TaxonomyError: If the file holds no taxonomy.
    """
    check_place("name", name, TaxonomyError)
    given = None if synonyms is None else str(synonyms)
    return open_labels(str(name), names, given, column, form)[0]


def open_labels(
    name: str,
    names: Names | None = None,
    synonyms: str | None = None,
    column: Sequence[str] | str | None = None,
    form: Form | None = None,
    known: Taxonomy | None = None,
    table: Mapping[str, Any] | None = None,
) -> tuple[AnyTaxonomy, Tensor | None]:
    """The taxonomy, and the labels of the samples, `(n,)` nodes, -1 where missing, if there are any.

    For a table, `names` and `synonyms` are as in `open_data`, and how it was read is said on stderr.
    `column` and `form` are as in `read_form`, `column` alone is that of whole paths, with the labels of the
    samples if the table has any. Several columns are the levels of a table, coarse to fine. A `known`
    taxonomy of the labels tells which columns of a table they are, if none are named. `table` has settings
    of a table, as for training.
    """
    from labeltree.workbooks import choose_sheet

    settings = dict(table or {})
    with choose_sheet(settings.pop("sheet", None)):
        if settings:
            return _labels_by_settings(name, names, synonyms, column, form, settings)
        return _read_labels(name, names, synonyms, column, form, known)


def _labels_by_settings(
    name: str,
    names: Names | None,
    synonyms: str | None,
    column: Sequence[str] | str | None,
    form: Form | None,
    settings: Mapping[str, Any],
) -> tuple[Taxonomy, Tensor]:
    from labeltree.data.tables.table_source import labels_by_settings
    from labeltree.training.read_recipes import read_table_settings

    if column or form is not None:
        raise TaxonomyError(
            f"--table.{next(iter(settings))} does not go with --column or --form; name the columns of the "
            "labels with --table.label_columns"
        )
    given = read_table_settings(settings).columns
    read = labels_by_settings(Path(name), names=names or "exact", synonyms=synonyms, **given)
    for note in read.notes:
        print(f"labeltree: {note}", file=sys.stderr)
    return read.taxonomy, read.nodes


def _read_labels(
    name: str,
    names: Names | None,
    synonyms: str | None,
    column: Sequence[str] | str | None,
    form: Form | None,
    known: Taxonomy | None,
) -> tuple[AnyTaxonomy, Tensor | None]:
    columns = [column] if isinstance(column, str) else list(column or ())
    if len(columns) > 1 and form is None:
        return _named_labels(name, names or "exact", synonyms, columns)
    if columns or form is not None:
        from labeltree.data import is_data_table
        from labeltree.taxonomy.forms import read_column, read_form

        if names is not None or synonyms is not None:
            raise TaxonomyError(
                "--names and --synonyms do not go with --column or --form, whose names are read as they are"
            )
        if len(columns) > 1:
            raise TaxonomyError(f"--form {form} reads one column; leave out --form, or all columns but one")
        if form is None and is_data_table(Path(name)):
            return read_column(name, columns[0])
        return read_form(name, form or "breadcrumbs", column=next(iter(columns), None)), None
    if names is not None or synonyms is not None:
        return _named_labels(name, names or "exact", synonyms)

    from labeltree.data import folder_labels, is_data_table, list_datasets, open_source
    from labeltree.data.shards.shard_files import find_shards
    from labeltree.data.tables.table_source import shard_labels
    from labeltree.taxonomy import load_taxonomy
    from labeltree.taxonomy.files.ontologies.taxdump import is_taxdump

    path = Path(name)
    if is_taxdump(path):
        return load_taxonomy(path), None
    if path.is_dir():
        from labeltree.lazy import torch
        from labeltree.runs import RunFolder

        run = RunFolder(path)
        if run.taxonomy.is_file() and (run.recipe.is_file() or run.description.is_file()):
            nodes = torch.from_numpy(run.load_samples().nodes) if run.samples.is_file() else None
            return run.load_taxonomy(), nodes
    if (shards := find_shards(name)) is not None:
        return shard_labels(shards)
    if path.is_dir():
        return folder_labels(path)
    if not path.exists() and name in list_datasets():
        source = open_source(name)
        return source.taxonomy, source.nodes
    if is_data_table(path):
        return _named_labels(name, "exact", None, known=known)
    return load_taxonomy(path), None


def _named_labels(
    name: str,
    names: Names,
    synonyms: str | None,
    columns: Sequence[str] = (),
    known: Taxonomy | None = None,
) -> tuple[Taxonomy, Tensor]:
    from labeltree.data.tables.table_source import named_table_labels
    from labeltree.errors import DataError

    if not is_table_file(name) and not is_vector_file(name):
        setting = "column" if columns else "synonyms" if synonyms is not None else "names"
        raise DataError(f"--{setting} is for tables of samples, not for '{name}'; leave it out")
    labels = named_table_labels(Path(name), names, synonyms, columns, known)
    for note in labels.notes:
        print(f"labeltree: {note}", file=sys.stderr)
    return labels.taxonomy, labels.nodes


def open_tree(name: str, column: str | None = None) -> Taxonomy:
    """The taxonomy of that name; `column` as in `open_labels`.

    Raises:
        TaxonomyError: If it is a DAG.
    """
    return as_tree(name, open_labels(name, column=column)[0])


def as_tree(name: str, taxonomy: AnyTaxonomy) -> Taxonomy:
    """A taxonomy that was read; raises a TaxonomyError, with its name, if it is a DAG."""
    from labeltree.errors import TaxonomyError
    from labeltree.taxonomy import Taxonomy

    if not isinstance(taxonomy, Taxonomy):
        raise TaxonomyError(
            f"'{name}' is a DAG, and versions of taxonomies are compared as trees. Make a tree of each: "
            f"labeltree taxonomy project {shlex.quote(name)} --out {shlex.quote(Path(name).stem + '.json')}"
        )
    return taxonomy


@takes(ConvertOptions)
def convert_taxonomy(options: ConvertOptions) -> AnyTaxonomy:
    """Read a taxonomy, also of forms that a file alone does not tell, such as codes, and write it.

    Raises:
        TaxonomyError: If it cannot be read, or the file to write cannot hold it.
    """
    from labeltree.taxonomy.forms import read_form
    from labeltree.workbooks import choose_sheet

    if options.form is None:
        given = options.taxonomy, options.names, options.synonyms, options.column
        taxonomy = open_labels(*given, table=options.table)[0]
    else:
        with choose_sheet((options.table or {}).get("sheet")):
            taxonomy = read_form(options.taxonomy, options.form, **options.form_settings)
    if options.release is not None:
        taxonomy = taxonomy.with_release(options.release)
    taxonomy.save(options.out)
    return taxonomy


@takes(TreeSuspectsOptions)
def taxonomy_suspects(options: TreeSuspectsOptions) -> TreeSuspects:
    """Find nodes to move, dissolve, merge or split: where a taxonomy does not fit its samples.

    Raises:
        DataError: If the table cannot be read, or the file to write exists: somebody may have accepted
            changes in it.
    """
    from labeltree.curation.tree_suspects import find_tree_suspects
    from labeltree.errors import DataError

    out = options.out
    if out is not None and Path(out).exists():
        raise DataError(f"'{out}' exists, and somebody may have accepted changes in it; name another file")
    table, taxonomy = labelled_table(options.embeddings, options.taxonomy)
    if options.split is not None:
        table = table.select(options.split)
    suspected = find_tree_suspects(
        table.features if table.features is not None else table.embeddings,
        table.nodes,
        taxonomy,
        groups=table.groups,
        kinds=tuple(options.kinds),
        level=options.level,
        apart=options.apart,
        seed=options.seed,
    )
    if out is not None:
        suspected.save_mapping(out, only_significant=options.only_significant)
    return suspected


def labelled_table(name: str, taxonomy_file: str | None) -> tuple[EmbeddingTable, Taxonomy]:
    """The table of a run or a file, and the taxonomy of its labels."""
    from labeltree.inference.run_embeddings import OwnSamples
    from labeltree.runs import EmbeddingTable, RunFolder
    from labeltree.runs.table_taxonomies import taxonomy_of_tables

    path = Path(name)
    if path.is_dir() and RunFolder(path).taxonomy.is_file():
        return OwnSamples(path)(), RunFolder(path).load_taxonomy()
    taxonomy = (
        require_tree(taxonomy_of_tables(path), str(path))
        if taxonomy_file is None
        else read_tree(taxonomy_file)
    )
    return EmbeddingTable.load(path, taxonomy), taxonomy


def read_tree(name: str) -> Taxonomy:
    """The tree of a file.

    Raises:
        TaxonomyError: If it is a DAG.
    """
    from labeltree.taxonomy import load_taxonomy

    return require_tree(load_taxonomy(name), name)


def require_tree(taxonomy: AnyTaxonomy, name: str) -> Taxonomy:
    """A taxonomy that is a tree.

    Raises:
        TaxonomyError: If it is a DAG.
    """
    from labeltree.errors import TaxonomyError
    from labeltree.taxonomy import Taxonomy

    if not isinstance(taxonomy, Taxonomy):
        raise TaxonomyError(f"'{name}' is a DAG; 'labeltree taxonomy project' makes a tree of it")
    return taxonomy
