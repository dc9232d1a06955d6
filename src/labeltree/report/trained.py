"""With which versions and on what a run was trained, for the end of the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["trained_with"]

_WORDS = {"samples": "fingerprint of the samples", "threads": "threads of the CPU"}
_WHERE = ("began", "epoch", "step")


def trained_with(entries: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[tuple[str, str]]]]:
    """A heading and pairs of name and value for the beginning of training and each time that it went on.

    What goes on tells only what was different from the time before.

    Args:
        entries: as `labeltree.runs.RunFolder.read_versions` gives them.
    """
    found = []
    before: Mapping[str, Any] = {}
    for number, entry in enumerate(entries):
        what = {key: value for key, value in entry.items() if key not in _WHERE}
        new = {key: value for key, value in what.items() if before.get(key) != value}
        pairs = [(_WORDS.get(key, key), str(value)) for key, value in new.items()]
        pairs += [(_WORDS.get(key, key), "not said any more") for key in before if key not in what]
        when = f", {entry['began']}" if entry.get("began") else ""
        title = f"From the start{when}"
        if number:
            same = "" if pairs else ", with the same versions"
            title = f"Continued after {int(entry.get('step', 0)):,} steps{when}{same}"
        found.append((title, pairs))
        before = what
    return found
