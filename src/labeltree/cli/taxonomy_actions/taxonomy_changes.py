"""``labeltree taxonomy diff``, ``map``, ``apply`` and ``compose``: what changes between versions."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeltree.api.taxonomies import open_taxonomy, open_tree
from labeltree.options.taxonomies import ApplyOptions, ComposeOptions, DiffOptions, MapOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from labeltree.taxonomy import Change, Guess, Taxonomy, TaxonomyMapping

__all__ = ["Touched", "apply", "check_unedited", "compose", "diff", "map_changes", "refuse_inputs"]

_DONE = {
    "rename": "renamed",
    "move": "moved",
    "merge": "merged",
    "split": "split",
    "remove": "removed",
    "add": "added",
}


def _between(synonyms_file: Path | None, old: Taxonomy, new: Taxonomy) -> tuple[TaxonomyMapping, list[Guess]]:
    from labeltree.taxonomy import TaxonomyMapping

    synonyms = None if synonyms_file is None else _synonyms(synonyms_file, old, new)
    return TaxonomyMapping.between(old, new, synonyms)


def diff(options: DiffOptions) -> None:
    """Say what changed between two versions."""
    from labeltree.errors import TaxonomyError
    from labeltree.taxonomy import TaxonomyMapping

    old, new = open_tree(options.old), open_tree(options.new)
    if options.mapping is None:
        mapping, guesses = _between(options.synonyms, old, new)
    elif options.synonyms is not None:
        raise TaxonomyError("--mapping says what changed, so --synonyms has no use; leave one of them out")
    else:
        mapping, guesses = TaxonomyMapping.load(options.mapping, old=old, new=new), []
    touched = None if options.data is None else Touched(options.data, old)
    if options.format == "json":
        print(json.dumps(_changes_json(mapping, guesses, touched), ensure_ascii=False, indent=1))
        return
    print(f"old: {_version(old)}\nnew: {_version(new)}")
    if old.names[0] != new.names[0]:
        print(f"the root is called {new.names[0]!r}, before {old.names[0]!r}")
    changes = mapping.changes()
    for line in _rows(changes, touched):
        print(line)
    print(_counted(changes) + ("" if touched is None else f"; {touched.sentence(changes)}"))
    if guesses:
        print(
            "guesses, of which none is used ('labeltree taxonomy map' writes them as comments, for you to "
            "confirm):"
        )
        for guess in guesses:
            print(f"  {guess.change}  ({guess.reason})")


def map_changes(options: MapOptions) -> None:
    """Write down what changed, to be edited by hand."""
    check_unedited(options.out, replace=options.replace)
    old, new = open_tree(options.old), open_tree(options.new)
    mapping, guesses = _between(options.synonyms, old, new)
    if options.accept:
        mapping = mapping.with_guesses([guess for guess in guesses if not guess.by_place])
        guesses = [guess for guess in guesses if guess.by_place]
    mapping.save(options.out, guesses)
    print(f"{_counted(mapping.changes())}: {options.out}")
    if guesses:
        many = f"{len(guesses):,} guess{'es' * (len(guesses) > 1)}"
        print(f"{many}, as comments at its end: remove the '#' of those that are right")


def apply(options: ApplyOptions) -> None:
    """Make the new version of a taxonomy from the changes."""
    from labeltree.errors import TaxonomyError

    if options.release is not None and Path(options.out).suffix.casefold() != ".json":
        raise TaxonomyError(f"only a .json file keeps a release, and --out is '{options.out}'")
    refuse_inputs(options.out, options.changes, options.old)
    _refuse_mapping(options.out)
    old = open_tree(options.old)
    mapping = _load(options.changes, old)
    new = mapping.revised(options.release)
    new.save(options.out)
    print(f"{_counted(mapping.changes())}; {_version(new)}: {options.out}")


def compose(options: ComposeOptions) -> None:
    """Join the changes of two steps."""
    check_unedited(options.out, replace=options.replace)
    refuse_inputs(options.out, options.first, options.second, options.old)
    first = _load(options.first, open_tree(options.old))
    joined = first.then(_load(options.second, first.new))
    joined.save(options.out)
    print(f"{_counted(joined.changes())}: {options.out}")


def _refuse_mapping(out: str | Path) -> None:
    """Raise an error if a taxonomy would replace a mapping."""
    from labeltree.errors import TaxonomyError
    from labeltree.taxonomy.versions.mapping_file import described_versions

    try:
        described_versions(out)
    except (TaxonomyError, OSError):
        return
    raise TaxonomyError(f"--out '{out}' is a mapping, and would become a taxonomy; name another file")


def refuse_inputs(out: str | Path, *inputs: str | Path) -> None:
    """Raise an error if what is written would replace what is read."""
    from labeltree.errors import TaxonomyError

    for one in inputs:
        if Path(out).resolve() == Path(one).resolve():
            raise TaxonomyError(f"--out '{out}' is what is read; name another file")


def _load(path: Path, old: Taxonomy) -> TaxonomyMapping:
    """The mapping of a file; a note says if it was written for another version."""
    from labeltree.taxonomy import TaxonomyMapping
    from labeltree.taxonomy.versions.mapping_file import described_versions

    mapping = TaxonomyMapping.load(path, old=old)
    described = described_versions(path).get("old", {})
    if not old.digest.startswith(str(described.get("digest", ""))):
        release = f"release {described['release']}" if "release" in described else "a version"
        print(
            f"labeltree: '{path}' was made for {release} with the digest {described['digest']}; it was "
            f"applied to {_version(old)}",
            file=sys.stderr,
        )
    return mapping


def check_unedited(out: Path, *, replace: bool) -> None:
    """Raise an error if ``--out`` is a file that a person has written or edited, and not to be replaced."""
    from labeltree.errors import TaxonomyError
    from labeltree.taxonomy.versions.mapping_file import is_edited

    if not replace and out.exists() and is_edited(out):
        raise TaxonomyError(
            f"'{out}' was written or edited by a person; --replace overwrites it, --out FILE names "
            "another file"
        )


def _version(taxonomy: Taxonomy) -> str:
    release = "" if taxonomy.release is None else f"release {taxonomy.release}, "
    return f"{release}{taxonomy.num_nodes} nodes, digest {taxonomy.digest[:16]}"


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


class Touched:
    """The samples of data that are labelled with the old version, to be counted by change."""

    def __init__(self, data: str, old: Taxonomy) -> None:
        import torch

        from labeltree.errors import DataError
        from labeltree.taxonomy import match_nodes

        taxonomy, nodes = open_taxonomy(data)
        if nodes is None:
            raise DataError(
                f"--data '{data}' is a taxonomy without samples; name a folder, a table, a run or a data set"
            )
        labels = nodes[nodes >= 0]
        places = match_nodes(taxonomy, old).nodes[labels]
        self._old, self.samples = old, len(nodes)
        self.elsewhere: list[str] = [taxonomy.path_name(n) for n in torch.unique(labels[places < 0]).tolist()]
        self.unmatched = int((places < 0).sum())
        self._own: Tensor = torch.bincount(places[places >= 0], minlength=old.num_nodes)
        self._before = torch.cat([torch.zeros(1, dtype=torch.int64), self._own.cumsum(0)])

    def _below(self, change: Change) -> tuple[int, int]:
        node = self._old.follow(change.old)
        assert node is not None
        return node, int(self._old.subtree_end[node])

    def by(self, change: Change) -> int:
        """The number of samples at or below the old node of a change."""
        if not change.old:
            return 0
        start, end = self._below(change)
        return int(self._before[end] - self._before[start])

    def at_or_below(self) -> list[int]:
        """The number of samples at or below each node of the old version."""
        ends = self._old.subtree_end
        return [int(n) for n in self._before[ends] - self._before[:-1]]

    def all_of(self, changes: Sequence[Change]) -> int:
        """The number of samples that at least one change touches."""
        touched = self._own.new_zeros(len(self._own)).bool()
        for change in changes:
            if change.old:
                start, end = self._below(change)
                touched[start:end] = True
        return int(self._own[touched].sum())

    def sentence(self, changes: Sequence[Change]) -> str:
        """How many samples the changes touch, and how many have labels that the old version lacks."""
        from labeltree.taxonomy.naming import some

        text = f"{self.all_of(changes):,} of {self.samples:,} samples touched"
        if self.unmatched:
            text += f"; {self.unmatched:,} have labels that OLD has not: {some(self.elsewhere, 3)}"
        return text


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
        {**of(guess.change), "reason": guess.reason, "by_place": guess.by_place} for guess in guesses
    ]
    return content


def _synonyms(path: Path, old: Taxonomy, new: Taxonomy) -> dict[str, str]:
    """The path in the new version of each old node whose name a table calls a synonym."""
    from labeltree.data.names.synonyms import SynonymTable
    from labeltree.taxonomy.naming import join_path

    table = SynonymTable.load(path)
    named: dict[str, list[int]] = {}
    for node in range(1, new.num_nodes):
        named.setdefault(new.names[node], []).append(node)
    synonyms: dict[str, str] = {}
    for node in range(1, old.num_nodes):
        here = old.path(node)
        entry = table.accepted(here)
        if entry is None or new.follow(here) is not None:
            continue
        accepted = entry[1]
        places = [
            place
            for place in named.get(accepted[-1], [])
            if new.path(place)[-len(accepted) :] == tuple(accepted)
        ]
        if places:  # of several, the name alone says that it is ambiguous
            known = new.path_name(places[0]) if len(places) == 1 else join_path(accepted)
            synonyms[old.path_name(node)] = known
    return synonyms
