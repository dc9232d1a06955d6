"""Tables with a column per depth, coarse to fine, below a line that names the columns."""

from collections.abc import Sequence

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.files.breadcrumbs import BETWEEN_SPACES, breadcrumbs_of
from labeltree.taxonomy.files.entries import Entries, entries_from_paths
from labeltree.taxonomy.files.opened_file import OpenedFile

__all__ = ["entries_from_levels"]


def entries_from_levels(file: OpenedFile) -> Entries:
    """Read a table with a column per depth.

    Raises:
        TaxonomyError: If its columns are no depths, or its first line names no columns.
    """
    header, rows, _ = table = file.table
    for row in rows:
        if row[0] == header[0]:
            raise TaxonomyError(
                f"line 1 reads like data: {header[0]!r} stands below it again; name the columns in line 1"
            )
    _check_depths(header, rows)
    return entries_from_paths(([cell or None for cell in row] for row in rows), file.root_name, table.where)


def _check_depths(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Refuse a table of samples, whose columns are not the depths of a tree.

    Raises:
        TaxonomyError: If a column beside others holds whole paths, or each row has a first name of its own
            while names in a finer column repeat.
    """
    if len(header) < 2:
        return
    columns = [[row[at] for row in rows if row[at]] for at in range(len(header))]
    for name, cells in zip(header, columns, strict=True):
        distinct = dict.fromkeys(cells)
        slashes = len(distinct) > 2 and all("/" in cell.strip("/") for cell in distinct)
        if slashes or breadcrumbs_of(distinct, marks=BETWEEN_SPACES) is not None:
            raise TaxonomyError(
                f"the columns {', '.join(header)} would be a column per depth, but {name!r} holds whole "
                f"paths, such as {cells[0]!r}: say --column {name!r} to 'labeltree taxonomy show', 'check' "
                f"and 'review', or --form breadcrumbs --column {name!r} to 'convert', which writes a file"
            )
    first = columns[0]
    repeats = [name for name, cells in zip(header, columns, strict=True) if len(set(cells)) < len(cells)]
    if len(rows) > 2 and len(first) == len(rows) == len(set(first)) and repeats:
        raise TaxonomyError(
            f"the columns {', '.join(header)} would be a column per depth, but {header[0]!r} is different "
            f"in every row while {repeats[0]!r} repeats, so it is no coarsest depth: keep only the columns "
            "of the depths, coarse to fine, or say --column NAME if one column holds whole paths"
        )
