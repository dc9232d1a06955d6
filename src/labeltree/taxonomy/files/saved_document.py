"""The library's own JSON of a taxonomy, which keeps everything."""

import json
from collections.abc import Mapping
from typing import Any

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.files.entries import Entries, entries_of_dag, entries_of_tree
from labeltree.taxonomy.files.nested import Pairs
from labeltree.taxonomy.version_history import checked_release, history_document, history_from

__all__ = ["document_from", "document_text", "entries_from_document", "is_saved", "read_saved"]

TREE_FORMAT, DAG_FORMAT = "labeltree taxonomy", "labeltree DAG"
VERSION = 1


def document_from(entries: Entries, several_parents: bool) -> dict[str, Any]:
    """The saved form: `names` and `parents` of the nodes in their own order; -1 for the root of a tree."""
    document = {
        "format": DAG_FORMAT if several_parents else TREE_FORMAT,
        "version": VERSION,
        "names": entries.names,
        "parents": _lists_of_parents(entries) if several_parents else entries.parent(),
    }
    if entries.release is not None:
        document["release"] = entries.release
    if entries.history:
        document["history"] = history_document(entries.history)
    if any(entries.aliases):
        document["aliases"] = [list(texts) for texts in entries.aliases]
    if entries.considered:
        document["considered"] = {id: list(instead) for id, instead in entries.considered.items()}
    return document


def _lists_of_parents(entries: Entries) -> list[list[int]]:
    lists: list[list[int]] = [[] for _ in entries.names]
    for child, parent in zip(entries.children, entries.parents, strict=True):
        lists[child].append(parent)
    return lists


def entries_from_document(document: Mapping[str, Any], several_parents: bool) -> Entries:
    """Read the saved form.

    Raises:
        TaxonomyError: If it is not the saved form, is damaged, or was written by a newer version.
    """
    what, form = ("DAG", DAG_FORMAT) if several_parents else ("taxonomy", TREE_FORMAT)
    if not isinstance(document, Mapping) or document.get("format") != form:
        raise TaxonomyError(f"this is not a saved {what}: its 'format' is not {form!r}")
    version = document.get("version")
    if not isinstance(version, int) or version < 1:
        raise TaxonomyError(
            f"the saved {what} has version={version!r}, expected an integer from 1 to {VERSION}"
        )
    if version > VERSION:
        raise TaxonomyError(
            f"the {what} was saved in version {version} of the format, this labeltree reads up to {VERSION}; "
            "install a newer one"
        )
    names: Any = document.get("names")
    parents: Any = document.get("parents")
    if not _is_list_of(str, names):
        raise TaxonomyError(f"the saved {what} is damaged: 'names' is not a list of strings")
    if several_parents:
        if not _is_list_of(list, parents) or not all(_is_list_of(int, row) for row in parents):
            raise TaxonomyError(f"the saved {what} is damaged: 'parents' is not a list of lists of integers")
        return _set_version(entries_of_dag(names, parents), document)
    if not _is_list_of(int, parents):
        raise TaxonomyError(f"the saved {what} is damaged: 'parents' is not a list of integers")
    return _set_version(entries_of_tree(names, parents), document)


def _set_version(entries: Entries, document: Mapping[str, Any]) -> Entries:
    """The entries with the release, the history and the aliases that a file may have."""
    release, history = document.get("release"), _make_dicts(document.get("history", []))
    aliases: Any = document.get("aliases", [])
    each = isinstance(aliases, list) and all(_is_list_of(str, texts) for texts in aliases)
    if not each or len(aliases) not in (0, len(entries.names)):
        raise TaxonomyError("the saved taxonomy is damaged: 'aliases' is not a list of strings for each node")
    considered: Any = _make_dicts(document.get("considered", {}))
    if not isinstance(considered, Mapping) or not all(_is_list_of(str, ids) for ids in considered.values()):
        raise TaxonomyError("the saved taxonomy is damaged: 'considered' is not a list of ids for each id")
    return entries._replace(
        considered=considered,
        release=None if release is None else checked_release(release),
        history=history_from(history),
        aliases=aliases,
    )


def _make_dicts(value: Any, depth: int = 3) -> Any:
    """Plain data in which mappings that were read as pairs are dictionaries, down to a depth."""
    if isinstance(value, Pairs):
        value = dict(value)
        return {key: _make_dicts(inner, depth - 1) for key, inner in value.items()} if depth else value
    return [_make_dicts(inner, depth - 1) for inner in value] if isinstance(value, list) and depth else value


def _is_list_of(kind: type, values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is kind for value in values)


def document_text(document: dict[str, Any]) -> str:
    """JSON text with one field per line."""
    fields = [
        f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in document.items()
    ]
    return "{\n" + ",\n".join(fields) + "\n}\n"


def is_saved(data: Any) -> bool:
    """Whether what was read from JSON is a taxonomy that this library saved."""
    return isinstance(data, Pairs) and any(("format", form) in data for form in (TREE_FORMAT, DAG_FORMAT))


def read_saved(data: Pairs, several_parents: bool) -> Entries:
    """The entries of a saved taxonomy.

    Raises:
        TaxonomyError: If it is damaged, was written by a newer version, or is a DAG where a tree is expected.
    """
    if ("format", TREE_FORMAT) in data:
        return entries_from_document(dict(data), several_parents=False)
    if not several_parents:
        raise TaxonomyError(
            "this is a DAG, not a tree: 'labeltree taxonomy project' (TaxonomyDAG.project) makes a tree of it"
        )
    return entries_from_document(dict(data), several_parents=True)
