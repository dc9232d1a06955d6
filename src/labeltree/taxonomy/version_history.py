"""Which version of a taxonomy this is, and which versions came before it."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.naming import clean_name

__all__ = ["Revision", "checked_release", "history_document", "history_from"]


@dataclass(frozen=True)
class Revision:
    """One version of a taxonomy, and what changed since the version before it.

    Attributes:
        release: What people call the version, such as `2024`; None if nobody said.
        digest: `Taxonomy.digest` of the version.
        date: The day on which the changes were applied, as `2024-05-31`; None for a version that was there
            before the history began.
        changes: How many changes of each kind, such as `{"rename": 3, "add": 1}`.
    """

    release: str | None
    digest: str
    date: str | None = None
    changes: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {kind}" for kind, count in self.changes.items())
        told = [self.release or "without a release", self.date, counts, f"digest {self.digest[:16]}"]
        return ", ".join(part for part in told if part)

    def __hash__(self) -> int:
        return hash((self.release, self.digest, self.date))


def checked_release(release: object) -> str:
    """A release as text, on one line.

    Raises:
        TaxonomyError: If it is not text or empty.
    """
    if not isinstance(release, str):
        raise TaxonomyError(f"release is {release!r}, expected text such as '2024'")
    return clean_name(release, "the release")


def history_document(history: Sequence[Revision]) -> list[dict[str, Any]]:
    """The history as plain data, as `.json` files hold it."""
    return [
        {
            "release": entry.release,
            "digest": entry.digest,
            "date": entry.date,
            "changes": dict(entry.changes),
        }
        for entry in history
    ]


def history_from(document: Any) -> tuple[Revision, ...]:
    """The history from plain data.

    Raises:
        TaxonomyError: If it is damaged.
    """
    if not isinstance(document, list) or not all(isinstance(entry, Mapping) for entry in document):
        raise TaxonomyError("the saved taxonomy is damaged: 'history' is not a list of versions")
    return tuple(_revision(dict(entry)) for entry in document)


def _revision(entry: dict[str, Any]) -> Revision:
    release, digest, date = entry.get("release"), entry.get("digest"), entry.get("date")
    changes = entry.get("changes", {})
    if not isinstance(digest, str) or not isinstance(changes, Mapping):
        raise TaxonomyError("the saved taxonomy is damaged: a version in 'history' lacks digest or changes")
    changes = dict(changes)
    if not all(isinstance(kind, str) and type(count) is int for kind, count in changes.items()):
        raise TaxonomyError("the saved taxonomy is damaged: 'history' does not count changes by kind")
    if date is not None:
        try:
            date = datetime.date.fromisoformat(date).isoformat()
        except (TypeError, ValueError):
            raise TaxonomyError(f"the saved taxonomy is damaged: its history has the date {date!r}") from None
    return Revision(None if release is None else checked_release(release), digest, date, changes)
