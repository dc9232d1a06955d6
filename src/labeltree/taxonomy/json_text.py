"""JSON with a taxonomy: our own format, which keeps everything, or nested names."""

import json
from collections.abc import Mapping
from typing import Any

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.build import Entries
from labeltree.taxonomy.nested import Pairs, entries_from_nested

__all__ = [
    "GRAPH_FORMAT",
    "document_from_entries",
    "entries_from_document",
    "entries_from_json",
    "json_from_entries",
]

FORMAT = "labeltree taxonomy"
GRAPH_FORMAT = "labeltree DAG"
VERSION = 1


def document_from_entries(entries: Entries) -> dict[str, Any]:
    """The saved form: `names` and `parents` of the nodes in preorder, -1 above the root."""
    return {"format": FORMAT, "version": VERSION, "names": entries.names, "parents": entries.parents}


def json_from_entries(entries: Entries) -> str:
    """Our own format, one field a line."""
    fields = [
        f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
        for key, value in document_from_entries(entries).items()
    ]
    return "{\n" + ",\n".join(fields) + "\n}\n"


def entries_from_json(text: str, root_name: str | None = "root") -> Entries:
    """Read our own format, or nested names; `root_name` is that of nested names.

    Raises:
        TaxonomyError: if the text is neither; with the line where it is no JSON.
    """
    try:
        data = json.loads(text, object_pairs_hook=Pairs)
    except json.JSONDecodeError as error:
        raise TaxonomyError(f"line {error.lineno}: not readable as JSON: {error.msg}") from None
    except RecursionError:
        raise TaxonomyError(
            "nested too deeply for JSON; write the tree as edges, a .csv of child,parent"
        ) from None
    except ValueError:
        raise TaxonomyError("not readable as JSON: it has a whole number of more than 4,000 digits") from None
    if isinstance(data, Pairs) and ("format", FORMAT) in data:
        return entries_from_document(dict(data))
    if isinstance(data, Pairs) and ("format", GRAPH_FORMAT) in data:
        raise TaxonomyError(
            "this is a DAG, not a tree: 'labeltree taxonomy project' (TaxonomyDAG.project) makes a tree of it"
        )
    return entries_from_nested(data, root_name)


def entries_from_document(document: Mapping[str, Any]) -> Entries:
    """Read the saved form.

    Raises:
        TaxonomyError: if it is not the saved form, is damaged, or was written by a newer version.
    """
    if not isinstance(document, Mapping) or document.get("format") != FORMAT:
        raise TaxonomyError(f"this is no saved taxonomy: its 'format' is not {FORMAT!r}")
    version = document.get("version")
    if not isinstance(version, int) or version < 1:
        raise TaxonomyError(
            f"the saved taxonomy has version={version!r}, expected an integer from 1 to {VERSION}"
        )
    if version > VERSION:
        raise TaxonomyError(
            f"the taxonomy was saved in version {version} of the format, this labeltree reads up to {VERSION}"
            "; install a newer one"
        )
    names, parents = document.get("names"), document.get("parents")
    for key, values, kind, word in (("names", names, str, "strings"), ("parents", parents, int, "integers")):
        if not isinstance(values, list) or not all(type(value) is kind for value in values):
            raise TaxonomyError(f"the saved taxonomy is damaged: {key!r} is not a list of {word}")
    return Entries(names, parents)  # type: ignore[arg-type]
