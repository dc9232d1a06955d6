"""`labeltree taxonomy review`: likely duplicates in a taxonomy, as changes for a person to accept."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from labeltree.counted_nouns import say_count
from labeltree.errors import typed
from labeltree.options.taxonomy_options import ReviewOptions

if TYPE_CHECKING:
    from labeltree.taxonomy import Taxonomy
    from labeltree.taxonomy.review_names import Review

__all__ = ["run_review"]

_TITLES = {
    "same name": "siblings with the same name but for its spelling",
    "one letter apart": "siblings whose names are one letter apart",
    "only child": "nodes with the name of their only child",
    "same name elsewhere": "the same name under several parents",
    "same children": "inner nodes with the same children",
    "placeholder": "names that stand for a missing label",
}
_SHOWN = 20  # findings of a kind


def run_review(options: ReviewOptions) -> None:
    """Print what was found, and where it was written."""
    from labeltree.api.retraining import say_plain_names, training_command
    from labeltree.api.taxonomy_versions import review_taxonomy

    done = review_taxonomy(options)
    _print(done.review, done.taxonomy, done.samples)
    if done.unknown:
        many = say_count(sum(done.unknown.values()), "sample")
        print(f"labels of '{options.data}' that the taxonomy lacks: {len(done.unknown):,}, of {many}")
        for label, count in sorted(done.unknown.items(), key=lambda each: (-each[1], each[0])):
            print(f"  {label} ({count:,})")
    changes = [finding.guess.change for finding in done.review.findings]
    if said := say_plain_names(options.taxonomy, changes):
        print(said)
    if options.out is not None and done.review.findings:
        print(f"written as comments: {options.out}; remove the '#' of those that are right, then")
        given = options.taxonomy
        settings, chosen = options.taxonomy_table, options.column or ()
        if chosen or settings:
            given = "OLD.json"
            form = " --form breadcrumbs" if len(chosen) == 1 else ""
            form += "".join(f" --column {shlex.quote(column)}" for column in chosen)
            form += _typed_settings(settings)
            print(f"  labeltree taxonomy convert {typed(options.taxonomy)} {given}{form}")
        print(f"  labeltree taxonomy apply {typed(options.out)} {given} --out NEW.json")
        data = options.data or (options.taxonomy if done.samples is not None else None)
        of_data = options.data_table if options.data is not None else settings
        columns = () if "label_columns" in of_data else chosen
        command = training_command(options.taxonomy, options.out, "NEW.json", data, columns)
        print(f"  {command}{_typed_settings(of_data)}")
        print("and review NEW.json: once these are carried out, there may be more to propose")
    elif done.review.findings:
        print("--out duplicates.yaml writes them down, to be accepted one by one")


def _typed_settings(table: Mapping[str, Any]) -> str:
    """Settings of a table as a shell reads them, each after a blank."""
    texts = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in table.items()
    }
    return "".join(f" --table.{name} {shlex.quote(text)}" for name, text in texts.items())


def _print(issues: Review, tree: Taxonomy, samples: list[int] | None) -> None:
    from labeltree.taxonomy.naming import join_path

    def shown(node: int) -> str:
        count = "" if samples is None else f" ({samples[node]:,})"
        return f"{join_path(tree.path(node)) or '/'}{count}"

    for subject, title in _TITLES.items():
        guesses = [finding.guess for finding in issues.findings if finding.subject == subject]
        if not guesses:
            continue
        print(f"{title}: {len(guesses):,}" + ("" if samples is None else "  (samples)"))
        for guess in guesses[:_SHOWN]:
            there = f" -> {shown(guess.targets[0])}" if guess.change.kind == "merge" else ""
            print(f"  {guess.change.kind}  {shown(guess.node)}{there}")
        if len(guesses) > _SHOWN:
            print(f"  and {len(guesses) - _SHOWN:,} more")
    if issues.later:
        print(f"{issues.later:,} more concern the same nodes: review again after these are decided")
    if not issues.findings:
        print("nothing found")
