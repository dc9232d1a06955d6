"""`labeltree taxonomy diff`, `map`, `apply` and `compose`: what changes between versions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from labeltree.options.taxonomy_options import ApplyOptions, ComposeOptions, DiffOptions, MapOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from labeltree.api.taxonomy_versions import Touched
    from labeltree.taxonomy import Change, Guess, TaxonomyMapping

__all__ = ["apply", "compose", "diff", "map_changes"]


def diff(options: DiffOptions) -> None:
    """Say what changed between two versions."""
    from labeltree.api.taxonomy_versions import diff_taxonomies

    done = diff_taxonomies(options)
    mapping, touched = done.mapping, done.touched
    if options.format == "json":
        print(json.dumps(_changes_json(mapping, done.guesses, touched), ensure_ascii=False, indent=1))
        return
    print(done)


def map_changes(options: MapOptions) -> None:
    """Write down what changed, to be edited by hand."""
    from labeltree.api.taxonomy_versions import map_taxonomies, say_changes

    done = map_taxonomies(options)
    print(f"{say_changes(done.mapping.changes())}: {options.out}")
    if count := len(done.guesses):
        many = f"{count:,} guess{'es' * (count > 1)}"
        print(f"{many}, as comments at its end: remove the '#' of those that are right")


def apply(options: ApplyOptions) -> None:
    """Make the new version of a taxonomy from the changes, or a table with its labels."""
    from labeltree.api.retraining import training_command
    from labeltree.api.taxonomy_versions import apply_changes

    done = apply_changes(options)
    print(f"{done}: {options.out}")
    if done.table is None:
        print(f"next: {training_command(options.old, options.changes, options.out)}")


def compose(options: ComposeOptions) -> None:
    """Join the changes of two steps."""
    from labeltree.api.taxonomy_versions import compose_changes, say_changes

    print(f"{say_changes(compose_changes(options).changes())}: {options.out}")


def _changes_json(
    mapping: TaxonomyMapping, guesses: Sequence[Guess], touched: Touched | None
) -> dict[str, Any]:
    from labeltree.api.taxonomy_versions import count_changes
    from labeltree.taxonomy.naming import join_path

    def of(change: Change) -> dict[str, Any]:
        entry: dict[str, Any] = {"kind": change.kind, "old": join_path(change.old) if change.old else None}
        entry["new"] = [join_path(path) or "/" for path in change.new]
        return entry if touched is None else {**entry, "samples": touched.by(change)}

    changes = mapping.changes()
    content: dict[str, Any] = {
        name: {"release": tree.release, "digest": tree.digest, "nodes": tree.num_nodes}
        for name, tree in (("old", mapping.old), ("new", mapping.new))
    }
    content["counts"] = count_changes(changes)
    if touched is not None:
        content["samples"] = {
            "all": touched.samples,
            "touched": touched.all_of(changes),
            "not in OLD": touched.unmatched,
        }
    content["changes"] = [of(change) for change in changes]
    content["guesses"] = [
        {
            **of(guess.change),
            "reason": guess.reason,
            "by_place": guess.by_place,
            "suggested": guess.suggested,
        }
        for guess in guesses
    ]
    return content
