"""The forms that taxonomy files have: how each is recognised by its content, and read.

A file has the first form of `FORMS` whose suffixes include its own, and whose test its content passes. The
last form of a suffix takes all that no other one does.
"""

from collections.abc import Callable
from dataclasses import dataclass

from labeltree.errors import TaxonomyError
from labeltree.options.choices import Form
from labeltree.taxonomy.files.breadcrumbs import breadcrumb_lists, breadcrumbs_of, is_google
from labeltree.taxonomy.files.edge_tables import (
    edge_columns,
    edges_from_table,
    entries_from_own_edges,
    is_rf2,
    rf2_edges,
)
from labeltree.taxonomy.files.entries import Entries, entries_from_paths
from labeltree.taxonomy.files.level_tables import entries_from_levels
from labeltree.taxonomy.files.nested import entries_from_nested, entries_from_yaml
from labeltree.taxonomy.files.newick import entries_from_newick
from labeltree.taxonomy.files.obo import entries_from_obo
from labeltree.taxonomy.files.ontologies.ontology_forms import ONTOLOGY_FORMS
from labeltree.taxonomy.files.opened_file import OpenedFile
from labeltree.taxonomy.files.path_lines import entries_from_google, entries_from_lines, has_only_rooted_paths
from labeltree.taxonomy.files.saved_document import is_saved, read_saved

__all__ = ["FORMS", "FileForm", "entries_of_form", "find_form"]

_TABLES = (".csv", ".tsv")
_YAML = (".yaml", ".yml")
_NEWICK = (".nwk", ".newick", ".tree")
_JSON = (".json", ".jsonld")


@dataclass(frozen=True)
class FileForm:
    """A form of taxonomy files.

    Attributes:
        name: What `--form` calls it.
        example: What such files hold, in a few words.
        suffixes: Suffixes under which it is sought.
        is_form: Whether a file with such a suffix has this form.
        read: Reads it.
    """

    name: Form
    example: str
    suffixes: tuple[str, ...]
    is_form: Callable[[OpenedFile], bool]
    read: Callable[[OpenedFile], Entries]


def find_form(file: OpenedFile) -> FileForm:
    """The form of a file, by its content.

    Raises:
        TaxonomyError: If no form has its suffix, or the file cannot be read.
    """
    sought = [form for form in FORMS if file.suffix in form.suffixes]
    if not sought:
        suffixes = dict.fromkeys(suffix for form in FORMS for suffix in form.suffixes)
        raise TaxonomyError(
            f"the suffix is {file.suffix!r}, expected one of {', '.join(suffixes)}; --form says what another "
            "file holds"
        )
    form = next((form for form in sought if form.is_form(file)), None)
    if form is None:
        raise TaxonomyError(
            f"it looks like none of the forms of {file.suffix} files: "
            f"{'; '.join(form.example for form in sought)}. --form says what it holds"
        )
    return form


def entries_of_form(file: OpenedFile, name: Form | None = None) -> Entries:
    """Read a file.

    Args:
        file: The file.
        name: Its form; by default recognised.

    Raises:
        TaxonomyError: If it cannot be read as this form.
    """
    entries = (find_form(file) if name is None else _form_of_name(file, name)).read(file)
    return entries._replace(notes=tuple(dict.fromkeys([*file.notes, *entries.notes])))


def _form_of_name(file: OpenedFile, name: Form) -> FileForm:
    """The form of that name that recognises the file, or else the last one of that name."""
    of_name = [form for form in FORMS if form.name == name]
    known = (form for form in of_name if file.suffix in form.suffixes and form.is_form(file))
    return next(known, of_name[-1])


def _always(file: OpenedFile) -> bool:
    return True


def _is_rf2(file: OpenedFile) -> bool:
    return is_rf2([name.strip() for name in file.start.split("\n", 1)[0].split("\t")])


def _has_own_edges(file: OpenedFile) -> bool:
    return {"child", "parent"} <= {name.casefold() for name in file.table.header}


def _read_edges(file: OpenedFile) -> Entries:
    header, rows, _ = table = file.table
    return edges_from_table(
        header, rows, table.where, several_parents=file.several_parents, root_name=file.root_name
    )


def _has_breadcrumbs(file: OpenedFile) -> bool:
    header, rows, _ = file.table
    return len(header) == 1 and breadcrumbs_of([cells[0] for cells in rows]) is not None


def _read_breadcrumbs(file: OpenedFile) -> Entries:
    breadcrumbs = breadcrumbs_of([cells[0] for cells in file.table.rows], certain=True)
    assert breadcrumbs is not None
    return entries_from_paths(breadcrumbs.paths, file.root_name, file.table.where)


def _read_breadcrumb_lists(file: OpenedFile) -> Entries:
    paths = breadcrumb_lists(file.json)
    return entries_from_paths(paths, file.root_name, lambda row: f"BreadcrumbList {row + 1}")


FORMS = (
    FileForm(
        "saved",
        "what labeltree saved as .json",
        _JSON,
        lambda file: is_saved(file.json),
        lambda file: read_saved(file.json, file.several_parents),
    ),
    FileForm(
        "breadcrumb-list",
        "schema.org's BreadcrumbList, one or many",
        _JSON,
        lambda file: bool(breadcrumb_lists(file.json)),
        _read_breadcrumb_lists,
    ),
    *(FileForm(*row) for row in ONTOLOGY_FORMS),
    FileForm(
        "nested",
        "nested names",
        _JSON,
        _always,
        lambda file: entries_from_nested(file.json, file.root_name),
    ),
    FileForm(
        "nested", "nested names", _YAML, _always, lambda file: entries_from_yaml(file.text, file.root_name)
    ),
    FileForm(
        "rf2",
        "SNOMED CT's relationship file",
        (".txt", *_TABLES),
        _is_rf2,
        lambda file: rf2_edges(file.text, None, file.several_parents),
    ),
    FileForm(
        "edges", "columns child and parent, perhaps name", _TABLES, _has_own_edges, entries_from_own_edges
    ),
    FileForm(
        "edges",
        "columns such as id, parent_id and name",
        _TABLES,
        lambda file: edge_columns(file.table.header) is not None,
        _read_edges,
    ),
    FileForm("breadcrumbs", "a column of A > B > C", _TABLES, _has_breadcrumbs, _read_breadcrumbs),
    FileForm("levels", "a column per depth, coarse to fine", _TABLES, _always, entries_from_levels),
    FileForm("paths", "lines a/b/c or A > B > C", (".txt",), has_only_rooted_paths, entries_from_lines),
    FileForm(
        "google",
        "Google's product taxonomy",
        (".txt",),
        lambda file: is_google(file.start),
        entries_from_google,
    ),
    FileForm("paths", "lines a/b/c or A > B > C", (".txt",), _always, entries_from_lines),
    FileForm(
        "newick",
        "one Newick tree",
        _NEWICK,
        _always,
        lambda file: entries_from_newick(file.text, file.root_name),
    ),
    FileForm(
        "obo",
        "an ontology by is_a, such as the Cell Ontology",
        (".obo",),
        _always,
        lambda file: entries_from_obo(file.text, file.root_name, file.several_parents),
    ),
)
"""The forms in the order in which they are sought."""
