"""Aspects in an embeddings table: checks of names and taxonomies, and their form as text in the file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from labeltree.errors import DataError, TaxonomyError
from labeltree.safe_files import value_from_json
from labeltree.taxonomy import Taxonomy

__all__ = ["aspect_names", "aspects_from_text", "check_aspects", "text_of_aspects"]


def aspect_names(taxonomies: Sequence[Taxonomy], given: Sequence[str] = ()) -> tuple[str, ...]:
    """Names of the aspects: the given ones, or else the names of their taxonomies' roots.

    If a root has the default name (`root`) or shares its name with another, `aspect 1` … is used.

    Raises:
        DataError: If there is not one distinct name per aspect.
    """
    if given:
        if len(given) != len(taxonomies) or len(set(given)) != len(given):
            raise DataError(
                f"aspect_names must be one an aspect, all different; got {list(given)} for "
                f"{len(taxonomies)} aspects"
            )
        return tuple(given)
    roots = [taxonomy.names[0] for taxonomy in taxonomies]
    return tuple(
        f"aspect {number}" if root == "root" or roots.count(root) > 1 else root
        for number, root in enumerate(roots, 1)
    )


def check_aspects(what: str, nodes: Tensor, rows: int, taxonomies: Sequence[Taxonomy]) -> None:
    """Check that `nodes` is `(rows, A)` int64 and holds nodes of the A taxonomies, or −1.

    Raises:
        DataError: If the check fails; the message names the column `what`.
    """
    if not taxonomies:
        raise DataError(f"the table has {what} but no aspect_taxonomies; give a taxonomy for each column")
    if nodes.shape != (rows, len(taxonomies)) or nodes.is_floating_point():
        raise DataError(
            f"{what} must be integers of shape {(rows, len(taxonomies))}, a column for each of "
            f"{len(taxonomies)} aspect_taxonomies; got {str(nodes.dtype).removeprefix('torch.')} "
            f"{tuple(nodes.shape)}"
        )
    for number, taxonomy in enumerate(taxonomies):
        column = nodes[:, number]
        if len(column) and not -1 <= int(column.min()) <= int(column.max()) < taxonomy.num_nodes:
            raise DataError(
                f"{what}[:, {number}] run from {int(column.min())} to {int(column.max())}, but the "
                f"taxonomy's nodes are 0 to {taxonomy.num_nodes - 1} (-1 = missing)"
            )


def text_of_aspects(names: Sequence[str], taxonomies: Sequence[Taxonomy]) -> str:
    """Convert names and taxonomies to JSON."""
    entries = [
        {"name": name, "taxonomy": taxonomy.to_dict()}
        for name, taxonomy in zip(names, taxonomies, strict=True)
    ]
    return json.dumps(entries, ensure_ascii=False)


def aspects_from_text(path: Path, text: str) -> tuple[tuple[str, ...], tuple[Taxonomy, ...]]:
    """The inverse of `text_of_aspects`, from the file `path`.

    Raises:
        DataError: If the text is invalid.
    """
    try:
        entries = value_from_json(text)
        names = tuple(str(entry["name"]) for entry in entries)
        return names, tuple(Taxonomy.from_dict(entry["taxonomy"]) for entry in entries)
    except TaxonomyError as error:
        raise DataError(f"'aspect_taxonomies' in '{path}' cannot be read: {error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"'aspect_taxonomies' in '{path}' cannot be read: it must list objects with name and taxonomy"
        ) from error
