"""The forms of published ontologies, thesauri, classifications and phylogenies, as rows of `FORMS`."""

from __future__ import annotations

from collections.abc import Callable

from labeltree.options.choices import Form
from labeltree.taxonomy.files.entries import Entries
from labeltree.taxonomy.files.ontologies.taxdump import entries_from_taxdump, is_taxdump
from labeltree.taxonomy.files.opened_file import OpenedFile

__all__ = ["ONTOLOGY_FORMS"]

Row = tuple[Form, str, tuple[str, ...], Callable[[OpenedFile], bool], Callable[[OpenedFile], Entries]]

ONTOLOGY_FORMS: tuple[Row, ...] = (
    (
        "ncbi",
        "NCBI's nodes.dmp and names.dmp, in a folder or an archive",
        (".dmp", ".zip", ".tar", ".tgz"),
        lambda file: is_taxdump(file.path),
        entries_from_taxdump,
    ),
)
