"""Taxonomy files whose form a person says: codes, breadcrumbs, edges of any columns, RF2 with names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from labeltree.errors import TaxonomyError
from labeltree.lazy import torch
from labeltree.options.choices import Form
from labeltree.taxonomy.dag import AnyTaxonomy, tree_or_dag
from labeltree.taxonomy.files.breadcrumbs import Breadcrumbs, breadcrumbs_of
from labeltree.taxonomy.files.codes_of_classes import SCHEMES, CodeScheme, entries_from_codes
from labeltree.taxonomy.files.edge_tables import column_place, edges_from_table
from labeltree.taxonomy.files.entries import Entries, entries_from_paths
from labeltree.taxonomy.files.file_forms import other_form
from labeltree.taxonomy.files.level_tables import CODE_COLUMNS, TITLE_COLUMNS
from labeltree.taxonomy.files.nested import Pairs
from labeltree.taxonomy.files.opened_file import WORKBOOKS, OpenedFile, read_text
from labeltree.taxonomy.files.rf2 import rf2_edges, rf2_names
from labeltree.taxonomy.files.taxonomy_files import read_taxonomy
from labeltree.taxonomy.placeholders import PLACEHOLDERS, plain_name

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Form", "code_scheme", "read_column", "read_form"]

_WITH_SETTINGS = ("breadcrumbs", "codes", "rf2", "edges")


def read_form(
    path: str | os.PathLike[str],
    form: Form,
    *,
    levels: str | None = None,
    describe: bool = False,
    separator: str | None = None,
    column: str | None = None,
    descriptions: str | os.PathLike[str] | None = None,
    child: str | None = None,
    parent: str | None = None,
) -> AnyTaxonomy:
    """Read a file of a form that the file alone does not tell.

    Args:
        path: The file.
        form: `breadcrumbs` (lines or a column of `A > B > C`), `codes` (lines or a column of codes, whose
            beginnings are their parents' codes), `rf2` (SNOMED CT's relationship file) or `edges` (a table
            with a column for a child and one for its parent), which have settings; or another one of `Form`.
        levels: Of `codes`, the lengths of each level (`1,3,4`, letters and digits), or the name of one of
            `SCHEMES`; by default found from the codes.
        describe: Of `codes`, whether descriptions follow the codes in the names of nodes.
        separator: Of `breadcrumbs`; by default found.
        column: Of `breadcrumbs` and `codes`, the column that holds them; by default found or the first.
        descriptions: Of `rf2`, the description file; of `edges`, the column of names; of `codes`, the column
            of descriptions, which turns `describe` on.
        child: Of `edges`, the column of the child; by default found.
        parent: Of `edges`, the column of the parent; by default found.

    Raises:
        TaxonomyError: If the file cannot be read as this form; all errors name the file.
    """
    file = OpenedFile(path)
    said = levels, describe or None, column, descriptions
    if form not in _WITH_SETTINGS or (form == "codes" and _is_data(file) and not any(said)):
        return read_taxonomy(path, "root", tree_or_dag, several_parents=True, form=form)
    try:
        if form == "breadcrumbs":
            return tree_or_dag(_breadcrumbs(_cells(file, column, ()), separator))
        if form == "codes":
            codes = _cells(file, column, CODE_COLUMNS)
            titles = (
                _titles(file, codes, column, descriptions) if describe or descriptions is not None else None
            )
            if not _is_table(file) and not _is_data(file):
                codes = [code.split(maxsplit=1)[0] for code in codes]
            return tree_or_dag(entries_from_codes(codes, code_scheme(levels), titles))
        if form == "rf2":
            terms = None if descriptions is None else _terms(descriptions)
            return tree_or_dag(rf2_edges(file.text, terms, several_parents=True))
        header, rows, *_ = table = file.table
        return tree_or_dag(
            edges_from_table(
                header,
                rows,
                table.where,
                several_parents=True,
                child=child,
                parent=parent,
                name=None if descriptions is None else str(descriptions),
            )
        )
    except TaxonomyError as error:
        usual = form != "rf2" and (_is_table(file) or file.suffix in (".txt", ".names"))
        raise TaxonomyError(f"{path}: {error if usual else other_form(file, form, error)}") from None


def read_column(path: str | os.PathLike[str], column: str) -> tuple[AnyTaxonomy, Tensor | None]:
    """Read a column of whole paths, as `read_form` does, and the node of every row `(n,)`, -1 without.

    There are no rows of a list of names.

    Raises:
        TaxonomyError: As for `read_form`.
    """
    taxonomy, file = read_form(path, "breadcrumbs", column=column), OpenedFile(path)
    if not _is_table(file):
        return taxonomy, None
    header, rows, *_ = file.table
    at = column_place(header, column)
    cells = list(dict.fromkeys(row[at] for row in rows if row[at]))
    nodes = {"": -1}
    for cell, names in zip(cells, _crumbs(cells, None).paths, strict=True):
        node = taxonomy.follow(names)
        nodes[cell] = -1 if node is None else node
    return taxonomy, torch.tensor([nodes[row[at]] for row in rows], dtype=torch.int64)


def code_scheme(levels: str | None) -> CodeScheme | None:
    """The scheme of a name or of lengths such as `1,3,4`; None for None.

    Raises:
        TaxonomyError: If it is neither.
    """
    if levels is None or levels.casefold() in SCHEMES:
        return None if levels is None else SCHEMES[levels.casefold()]
    parts = [part.strip() for part in levels.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part[:9]) > 0 for part in parts):
        raise TaxonomyError(
            f"--levels {levels!r} is neither lengths such as 1,3,4 nor one of {', '.join(SCHEMES)}"
        )
    return CodeScheme(tuple(sorted({int(part) for part in parts})))


def _terms(file: str | os.PathLike[str]) -> dict[str, str]:
    try:
        return rf2_names(read_text(file))
    except TaxonomyError as error:
        raise TaxonomyError(f"descriptions in {str(file)!r}: {error}") from None


def _is_table(file: OpenedFile) -> bool:
    return file.suffix in (".csv", ".tsv", *WORKBOOKS)


def _is_data(file: OpenedFile) -> bool:
    return file.suffix in (".json", ".yaml", ".yml")


def _column(header: list[str], column: str | None, usual: tuple[str, ...]) -> int | None:
    """The place of a column; None if none is asked for and there is no usual one."""
    if column is not None:
        return column_place(header, column)
    folded = [name.casefold() for name in header]
    return next((folded.index(name) for name in usual if name in folded), None)


def _cells(file: OpenedFile, column: str | None, usual: tuple[str, ...]) -> list[str]:
    """The distinct lines of a text, cells of a column of a table, or keys of an object."""
    if _is_data(file):
        return list(_described(file))
    if not _is_table(file):
        return list(dict.fromkeys(line for _, line in file.lines))
    header, rows, *_ = file.table
    at = _column(header, column, usual) or 0
    return list(dict.fromkeys(row[at] for row in rows if row[at]))


def _titles(
    file: OpenedFile,
    codes: list[str],
    column: str | None,
    descriptions: str | os.PathLike[str] | None,
) -> dict[str, str]:
    """What codes mean: the rest of their lines, another column, or the values of an object."""
    if _is_data(file):
        return _described(file)
    if not _is_table(file):
        return dict(pair for line in codes if len(pair := line.split(maxsplit=1)) == 2)
    header, rows, *_ = file.table
    at = _column(header, column, CODE_COLUMNS) or 0
    title = _column(header, None if descriptions is None else str(descriptions), TITLE_COLUMNS)
    if title is None or title == at:
        raise TaxonomyError(
            f"no column describes the codes: say --descriptions COLUMN; there are {', '.join(header)}"
        )
    return {row[at]: row[title] for row in rows}


def _described(file: OpenedFile) -> dict[str, str]:
    """The keys of an object with the text of each."""
    data = file.data
    if not isinstance(data, Pairs) or not all(isinstance(text, str) for _, text in data):
        raise TaxonomyError("it is not one object with a text for each key")
    return {str(key): text for key, text in data}


def _breadcrumbs(texts: list[str], separator: str | None) -> Entries:
    paths = _crumbs(texts, separator).paths
    return entries_from_paths(paths, "root", lambda row: f"the text {texts[row]!r}")


def _crumbs(texts: list[str], separator: str | None) -> Breadcrumbs:
    """Texts as paths; `n/a` and the like are one name where a slash is found to separate names."""
    breadcrumbs = breadcrumbs_of(texts, separator, certain=True)
    whole = {text for text in texts if plain_name(text) in PLACEHOLDERS}
    slashed = [text for text in texts if "/" in text and text not in whole]
    if breadcrumbs is None and slashed and (read := breadcrumbs_of(texts, "/")) is not None:
        paths = [(text,) if text in whole else path for text, path in zip(texts, read.paths, strict=True)]
        return Breadcrumbs(read.separator, paths)
    if breadcrumbs is None:
        raise TaxonomyError("no separator of breadcrumbs is in it: say --separator, such as --separator '>'")
    return breadcrumbs
