"""The forms that taxonomy files have: how each is recognised by its content, and read.

A file has the first form of `FORMS` whose suffixes include its own, and whose test its content passes. The
last form of a suffix takes all that no other one does.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from labeltree.errors import TaxonomyError
from labeltree.options.choices import Form
from labeltree.taxonomy.files.breadcrumbs import breadcrumb_lists, breadcrumbs_of, is_google
from labeltree.taxonomy.files.checklist_archives import (
    entries_from_checklist_archive,
    is_checklist_archive,
)
from labeltree.taxonomy.files.edge_tables import (
    edges_from_table,
    entries_from_own_edges,
    entries_from_triples,
    find_ends,
)
from labeltree.taxonomy.files.entries import Entries, entries_from_paths, merge_twins
from labeltree.taxonomy.files.json_objects import (
    entries_from_categories,
    entries_from_class_index,
    entries_from_code_names,
    entries_from_label_map,
    entries_from_objects,
    has_items,
)
from labeltree.taxonomy.files.json_records import (
    entries_from_adjacency,
    entries_from_records,
)
from labeltree.taxonomy.files.level_numbers import entries_from_level_numbers
from labeltree.taxonomy.files.level_tables import (
    entries_from_code_column,
    entries_from_id_paths,
    entries_from_levels,
)
from labeltree.taxonomy.files.line_forms import (
    entries_from_described_codes,
    entries_from_ids_and_paths,
    entries_from_is_a,
    entries_from_numbered_names,
    entries_from_pairs,
    entries_from_parent_numbers,
    entries_from_tight_paths,
    entries_from_tree_numbers,
    has_numbered_names,
)
from labeltree.taxonomy.files.nested import entries_from_nested, entries_from_yaml
from labeltree.taxonomy.files.newick import entries_from_newick
from labeltree.taxonomy.files.obo import entries_from_obo
from labeltree.taxonomy.files.ontologies.ontology_forms import ONTOLOGY_FORMS
from labeltree.taxonomy.files.opened_file import LINES_OF_JSON, START, WORKBOOKS, OpenedFile
from labeltree.taxonomy.files.outlines import entries_from_outline, has_outline
from labeltree.taxonomy.files.path_lines import (
    entries_from_google,
    entries_from_lines,
    entries_from_path_lists,
    has_only_rooted_paths,
)
from labeltree.taxonomy.files.ranked_names import entries_from_kraken_report, entries_from_ranked_names
from labeltree.taxonomy.files.rf2 import is_rf2, rf2_edges
from labeltree.taxonomy.files.saved_document import is_saved, read_saved
from labeltree.taxonomy.files.taxon_tables import (
    entries_from_checklist,
    entries_from_ranks,
    has_ranks,
    is_checklist,
)

__all__ = ["FORMS", "FileForm", "entries_of_form", "find_form", "other_form"]

_TABLES = (".csv", ".tsv", *WORKBOOKS)
_TAXA = (*_TABLES, ".txt", ".tab", ".taxonomy")  # whose first line may name columns as Darwin Core does
_LINES = (".txt", ".names")
_MARKS = (">", "|", ";", "\t", ":", ",", " - ", ".", "_")
_FIRST = 20  # lines
_MANY = 100  # classes
_MOST = 0.9
_YAML = (".yaml", ".yml")
_NEWICK = (".nwk", ".newick", ".tree", ".tre", ".trees", ".treefile")
_JSON = (".json", ".jsonld")
_DATA = (*_JSON, *_YAML, *LINES_OF_JSON)


def _always(file: OpenedFile) -> bool:
    return True


@dataclass(frozen=True)
class FileForm:
    """A form of taxonomy files.

    Attributes:
        name: What `--form` calls it.
        example: What such files hold, in a few words.
        suffixes: Suffixes under which it is sought.
        read: Reads it; None if a file holds something else.
        can_be: Whether a file with such a suffix may have this form, at a first look.
    """

    name: Form
    example: str
    suffixes: tuple[str, ...]
    read: Callable[[OpenedFile], Entries | None]
    can_be: Callable[[OpenedFile], bool] = _always


def find_form(file: OpenedFile) -> tuple[FileForm, Entries]:
    """The form of a file, by its content, and what it holds.

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
    for form in sought:
        if form.can_be(file) and (entries := form.read(file)) is not None:
            return form, entries
    known = ", ".join(f"{form.name} ({form.example})" for form in sought)
    raise TaxonomyError(f"no form of a {file.suffix} is in it: {known}; --form says what it holds")


def entries_of_form(file: OpenedFile, name: Form | None = None) -> Entries:
    """Read a file.

    Args:
        file: The file.
        name: Its form; by default recognised.

    Raises:
        TaxonomyError: If it cannot be read as this form.
    """
    if name is None:
        form, entries = find_form(file)
        name = form.name
    else:
        entries = _read_as(file, name)
    entries = entries if name == "saved" else merge_twins(entries)
    if len(entries.names) == len(entries.parents) + 1 and not any(entries.parents):
        _note_common_mark(file, entries.names[1:])
    return entries._replace(notes=tuple(dict.fromkeys([*file.notes, *entries.notes])))


def _read_as(file: OpenedFile, name: Form) -> Entries:
    """Read a file as the form of that name that recognises it, or else as one that its suffix may have.

    Raises:
        TaxonomyError: If it holds something else, or cannot be read.
    """
    fitting = _fitting(file, name)
    for form in fitting or _named_forms(name):
        if _recognises(form, file) and (entries := form.read(file)) is not None:
            return entries
    why, tried = None, fitting[-1:] or _named_forms(name)
    for form in tried:
        try:
            if (entries := form.read(file)) is not None:
                return entries
        except TaxonomyError as error:
            why = error if len(tried) == 1 else None
    raise TaxonomyError(other_form(file, name, why))


def other_form(file: OpenedFile, name: Form, why: TaxonomyError | None) -> str:
    """A sentence on a file that that form does not read: what it looks like, and what to do.

    Of a file that has the form, only the reason.
    """
    if why is not None and any(
        form.can_be is not _always and _recognises(form, file) for form in _fitting(file, name)
    ):
        return str(why)
    example = " or ".join(dict.fromkeys(form.example for form in _fitting(file, name) or _named_forms(name)))
    said = f"this is not what --form {name} reads ({example})" + (f": {why}" if why else "")
    try:
        form, _ = find_form(file)
    except TaxonomyError:
        return f"{said}; say what it holds, or leave --form out to be told what can be read"
    if form.name == name:
        return f"{said}; leave --form out"
    return f"{said}; it looks like {form.name} ({form.example}): leave --form out to read it so"


def _named_forms(name: Form) -> list[FileForm]:
    return [form for form in FORMS if form.name == name]


def _fitting(file: OpenedFile, name: Form) -> list[FileForm]:
    """The forms of that name that a file with this suffix may have."""
    return [form for form in _named_forms(name) if file.suffix in form.suffixes]


def _recognises(form: FileForm, file: OpenedFile) -> bool:
    """Whether a file may have a form at a first look, which with another suffix must be at its content."""
    if file.suffix in form.suffixes:
        return form.can_be(file)
    try:
        return form.can_be is not _always and form.can_be(file)
    except TaxonomyError:
        return False


def _note_common_mark(file: OpenedFile, names: Sequence[str]) -> None:
    """Note that many names without a level above share a mark, which may separate levels."""
    for mark in _MARKS if len(names) >= _MANY else ():
        if sum(mark in name for name in names) >= _MOST * len(names):
            file.note(
                f"{len(names)} classes without a level above, and most contain {mark!r}: if it separates "
                f"levels, say --form breadcrumbs --separator {mark!r}"
            )
            return


def _is_rf2(file: OpenedFile) -> bool:
    return file.suffix not in WORKBOOKS and is_rf2(
        [name.strip() for name in file.start.split("\n", 1)[0].split("\t")]
    )


def _has_table(file: OpenedFile) -> bool:
    """Whether a file is a table: by its suffix, or because its first lines have as many cells."""
    if file.suffix in _TABLES:
        return True
    lines = [line for line in file.start.splitlines() if line.strip()][:_FIRST]
    lines = lines[:-1] if len(file.start) >= START else lines
    if len(lines) < 2 or not any(0 < lines[0].count(mark) == lines[-1].count(mark) for mark in "\t,;|"):
        return False
    try:
        return bool(file.table.rows)
    except TaxonomyError:
        return False


def _has_own_edges(file: OpenedFile) -> bool:
    return {"child", "parent"} <= {name.casefold() for name in file.table.header}


def _read_edges(file: OpenedFile) -> Entries | None:
    header, rows, *_ = table = file.table
    ends = find_ends(header, rows)
    if ends is None:
        return None
    file.note(f"each row is an edge: {ends[0]!r} is below {ends[1]!r}")
    return edges_from_table(
        header, rows, table.where, several_parents=file.several_parents, root_name=file.root_name
    )


def _read_breadcrumbs(file: OpenedFile) -> Entries | None:
    header, rows, *_ = table = file.table
    breadcrumbs = breadcrumbs_of([cells[0] for cells in rows]) if len(header) == 1 else None
    return breadcrumbs and entries_from_paths(breadcrumbs.paths, file.root_name, table.where)


def _refuse_json(file: OpenedFile) -> Entries:
    raise TaxonomyError("it holds JSON: name it .json, or .jsonl if each line is an object")


def _holds_json(file: OpenedFile) -> bool:
    """Whether a text is JSON, or each of its lines is."""
    text = file.text.strip() if file.start.lstrip()[:1] in ("{", "[") else ""
    for one in (text, text.partition("\n")[0]) if text[-1:] in ("}", "]") else ():
        try:
            if isinstance(json.loads(one), dict | list):
                return True
        except (ValueError, RecursionError):
            pass
    return False


def _read_saved(file: OpenedFile) -> Entries | None:
    return read_saved(file.json, file.several_parents) if is_saved(file.json) else None


def _read_breadcrumb_lists(file: OpenedFile) -> Entries | None:
    paths = breadcrumb_lists(file.json)
    if not paths:
        return None
    return entries_from_paths(paths, file.root_name, lambda row: f"BreadcrumbList {row + 1}")


FORMS = (
    FileForm("saved", "what labeltree saved as .json", _JSON, _read_saved),
    FileForm("breadcrumb-list", "schema.org's BreadcrumbList, one or many", _JSON, _read_breadcrumb_lists),
    *(FileForm(*row) for row in ONTOLOGY_FORMS),
    FileForm(
        "records",
        "objects with ids of their parents or children, or nodes and links",
        _DATA,
        entries_from_records,
    ),
    FileForm("categories", "COCO's, LVIS' and iNaturalist's categories", _DATA, entries_from_categories),
    FileForm("objects", "{name, children} within each other", _DATA, entries_from_objects),
    FileForm("class-index", "names by numbers, or numbers by names", _DATA, entries_from_class_index),
    FileForm(
        "class-index", "item { id: 1 name: 'person' }", (".pbtxt", ".txt"), entries_from_label_map, has_items
    ),
    FileForm("codes", "codes with what they mean", _DATA, entries_from_code_names),
    FileForm("adjacency", "{parent: [children]} or {child: parent}", _DATA, entries_from_adjacency),
    FileForm("paths", "a list of paths", _DATA, entries_from_path_lists),
    FileForm("nested", "nested names", _JSON, lambda file: entries_from_nested(file.json, file.root_name)),
    FileForm("nested", "nested names", _YAML, lambda file: entries_from_yaml(file.text, file.root_name)),
    FileForm(
        "rf2",
        "SNOMED CT's relationship file",
        (".txt", *_TABLES),
        lambda file: rf2_edges(file.text, None, file.several_parents),
        _is_rf2,
    ),
    FileForm(
        "edges", "columns child and parent, perhaps name", _TABLES, entries_from_own_edges, _has_own_edges
    ),
    FileForm("outline", "a report of Kraken", (*_TAXA, ".kreport", ".report"), entries_from_kraken_report),
    FileForm("ranks", "k__Bacteria; p__Firmicutes", _TAXA, entries_from_ranked_names),
    FileForm(
        "checklist",
        "taxa with parents and accepted names: Darwin Core, ColDP, ITIS, WoRMS",
        _TAXA,
        entries_from_checklist,
        lambda file: _has_table(file) and is_checklist(file.table.header),
    ),
    FileForm(
        "checklist",
        "zipped taxa: Darwin Core archives, ColDP",
        (".zip",),
        entries_from_checklist_archive,
        is_checklist_archive,
    ),
    FileForm("edges", "columns such as id, parent_id and name", _TAXA, _read_edges, _has_table),
    FileForm("edges", "cat, subclass of, animal", _TAXA, entries_from_triples, _has_table),
    FileForm("is-a", "two columns, names in both", _TABLES, entries_from_pairs, _has_table),
    FileForm("breadcrumbs", "a column of A > B > C", _TABLES, _read_breadcrumbs),
    FileForm("id-paths", "columns id and A > B > C", _TABLES, entries_from_id_paths),
    FileForm("outline", "columns level and name", _TAXA, entries_from_level_numbers, _has_table),
    FileForm("codes", "columns code and description", _TAXA, entries_from_code_column, _has_table),
    FileForm(
        "ranks",
        "columns kingdom … species",
        _TAXA,
        entries_from_ranks,
        lambda file: _has_table(file) and has_ranks(file),
    ),
    FileForm("levels", "a column per depth, coarse to fine", _TABLES, entries_from_levels),
    FileForm("paths", "lines a/b/c or A > B > C", _LINES, entries_from_lines, has_only_rooted_paths),
    FileForm(
        "google",
        "Google's product taxonomy",
        _LINES,
        entries_from_google,
        lambda file: is_google(file.start),
    ),
    FileForm(
        "outline", "indented lines, or a drawn tree", (".txt", ".md"), entries_from_outline, has_outline
    ),
    FileForm("id-paths", "3237 - Animals > Live Animals", _LINES, entries_from_ids_and_paths),
    FileForm("tree-numbers", "Breast;A01.236", _LINES, entries_from_tree_numbers),
    FileForm("is-a", "animal -1, bird 0", (*_LINES, ".tree"), entries_from_parent_numbers),
    FileForm("is-a", "lines of parent and child", _LINES, entries_from_is_a),
    FileForm(
        "class-index",
        "{0: 'person'}",
        (".txt",),
        entries_from_class_index,
        lambda file: file.start.lstrip()[:1] == "{" and file.text.rstrip()[-1:] == "}",
    ),
    FileForm("nested", "JSON, which needs the suffix .json", (".txt",), _refuse_json, _holds_json),
    FileForm("class-index", "1 person", _LINES, entries_from_numbered_names, has_numbered_names),
    FileForm("codes", "A00 Cholera", _LINES, entries_from_described_codes),
    FileForm("paths", "A>B>C", _LINES, entries_from_tight_paths),
    FileForm("paths", "lines a/b/c or A > B > C", _LINES, entries_from_lines),
    FileForm(
        "newick", "one Newick tree", _NEWICK, lambda file: entries_from_newick(file.text, file.root_name)
    ),
    FileForm(
        "obo",
        "an ontology by is_a, such as the Cell Ontology",
        (".obo",),
        lambda file: entries_from_obo(file.text, file.root_name, file.several_parents),
    ),
)
"""The forms in the order in which they are sought."""
