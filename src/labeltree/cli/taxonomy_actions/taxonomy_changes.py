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

_DONE = {
    "rename": "renamed",
    "move": "moved",
    "merge": "merged",
    "split": "split",
    "remove": "removed",
    "add": "added",
}


def diff(options: DiffOptions) -> None:
    """Say what changed between two versions."""
    from labeltree.api.taxonomy_versions import diff_taxonomies, version_text

    done = diff_taxonomies(options)
    mapping, touched = done.mapping, done.touched
    if options.format == "json":
        print(json.dumps(_changes_json(mapping, done.guesses, touched), ensure_ascii=False, indent=1))
        return
    old, new = mapping.old, mapping.new
    print(f"old: {version_text(old)}\nnew: {version_text(new)}")
    if old.names[0] != new.names[0]:
        print(f"the root is called {new.names[0]!r}, before {old.names[0]!r}")
    changes = mapping.changes()
    for line in _rows(changes, touched):
        print(line)
    print(_counted(changes) + ("" if touched is None else f"; {touched.sentence(changes)}"))
    if done.guesses:
        print(
            "guesses, of which none is used ('labeltree taxonomy map' writes them as comments, for you to "
            "confirm):"
        )
        for guess in done.guesses:
            print(f"  {guess.change}  ({guess.reason})")


def map_changes(options: MapOptions) -> None:
    """Write down what changed, to be edited by hand."""
    from labeltree.api.taxonomy_versions import map_taxonomies

    done = map_taxonomies(options)
    print(f"{_counted(done.mapping.changes())}: {options.out}")
    if count := len(done.guesses):
        many = f"{count:,} guess{'es' * (count > 1)}"
        print(f"{many}, as comments at its end: remove the '#' of those that are right")


def apply(options: ApplyOptions) -> None:
    """Make the new version of a taxonomy from the changes, or a table with its labels."""
    from labeltree.api.taxonomy_versions import apply_changes, version_text

    done = apply_changes(options)
    if done.table is not None:
        print(f"{done.table}: {options.out}")
        return
    print(f"{_counted(done.mapping.changes())}; {version_text(done.taxonomy)}: {options.out}")


def compose(options: ComposeOptions) -> None:
    """Join the changes of two steps."""
    from labeltree.api.taxonomy_versions import compose_changes

    print(f"{_counted(compose_changes(options).changes())}: {options.out}")


def _counts(changes: Sequence[Change]) -> dict[str, int]:
    return {
        kind: count
        for kind in ("add", "remove", "rename", "move", "merge", "split")
        if (count := sum(change.kind == kind for change in changes))
    }


def _counted(changes: Sequence[Change]) -> str:
    counts = _counts(changes)
    said = [f"{count:,} {_DONE[kind]}" + _into(changes, kind, count) for kind, count in counts.items()]
    return ", ".join(said) or "nothing changed"


def _into(changes: Sequence[Change], kind: str, count: int) -> str:
    """How many classes the merged ones became, where that says more than their number."""
    became = len({change.new for change in changes if change.kind == kind}) if kind == "merge" else count
    return f" into {became:,}" if became < count else ""


def _rows(changes: Sequence[Change], touched: Touched | None) -> list[str]:
    """A line for each change; the numbers of samples stand in a column before the paths."""
    counts = [""] * len(changes)
    if touched is not None:
        counts = [f"{touched.by(change):>7,}  " if change.old else " " * 9 for change in changes]
    rows = [] if touched is None or not changes else ["          samples"]
    for change, count in zip(changes, counts, strict=True):
        kind, paths = str(change).split(": ", 1)
        rows.append(f"  {kind:<6}  {count}{paths}")
    return rows


def _changes_json(
    mapping: TaxonomyMapping, guesses: Sequence[Guess], touched: Touched | None
) -> dict[str, Any]:
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
    content["counts"] = _counts(changes)
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
