"""The review queue: suspects, what people decided about them, and the file of corrections."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from labeltree.atomic import wait_for_lock, writing
from labeltree.errors import DataError

__all__ = ["Action", "Conflict", "Decision", "Kept", "Review", "Suspect"]

Action = Literal["accept", "keep", "remove", "no label"]
"""What is decided: another node, the label as it is, that the sample be left out, or have no label."""


@dataclass(frozen=True)
class Suspect:
    """A sample whose label looks wrong.

    Attributes:
        row: Of the collection.
        suggested: The likelier node, −1 = none.
        reason: In words.
        score: Greater is more suspicious; None if there is none.
    """

    row: int
    suggested: int
    reason: str = ""
    score: float | None = None


@dataclass(frozen=True)
class Decision:
    """What was decided about a sample: the action, and the node that its label shall be (−1: none)."""

    action: Action
    node: int

    def __str__(self) -> str:
        return f"{self.action} {self.node}"


@dataclass(frozen=True)
class Kept:
    """What a file of decisions says.

    Attributes:
        decisions: By sample id.
        problems: What is wrong, by the sample id of the rows that cannot be understood.
    """

    decisions: dict[str, Decision]
    problems: dict[str, str] = field(default_factory=dict)


class Conflict(Exception):
    """Somebody else has decided about the sample since the page showed it."""


class DecisionFile(Protocol):
    """Where decisions are kept."""

    path: Path

    def read(self) -> Kept:
        """What the file says.

        Raises:
            DataError: If it cannot be read at all.
        """

    def write(self, decisions: Mapping[str, Decision]) -> None:
        """Replace the file, as a whole or not at all; rows that cannot be understood stay as they are."""


class Review:
    """Decisions about suspects, kept in a file; any number of browsers and processes may decide.

    Every decision is written at once, on top of what the file says at that moment and under a lock, so that
    nothing is lost that another process, or a person with an editor, has written before. A decision about a
    sample that somebody else has decided on since the page showed it is refused, and so is one about a sample
    whose row in the file cannot be understood.

    Args:
        suspects: The most suspicious first.
        kept: The file; None: nothing can be decided.
    """

    def __init__(self, suspects: Sequence[Suspect], kept: DecisionFile | None) -> None:
        self.suspects = list(suspects)
        self.kept = kept
        self._lock = threading.Lock()

    def read(self) -> Kept:
        """What the file says now.

        Raises:
            DataError: If it cannot be read at all.
        """
        return Kept({}) if self.kept is None else self.kept.read()

    def decide(self, sample: str, decision: Decision | None, seen: str) -> Decision | None:
        """Write a decision about a sample, or take it back (None).

        Args:
            sample: Its id.
            decision: What to write.
            seen: The decision that it is based on, as text; empty: there was none.

        Raises:
            Conflict: If the file has another decision by now.
            DataError: If there is no file, it cannot be read, or its row of the sample cannot be understood.
        """
        if self.kept is None:
            raise DataError("decisions are not kept; start the explorer with --corrections FILE")
        with self._lock, _hold_lock(self.kept.path):
            kept = self.kept.read()
            if sample in kept.problems:
                raise DataError(f"{kept.problems[sample]}; nothing is decided until then")
            decisions = kept.decisions
            now = decisions.get(sample)
            if now == decision:
                return now  # asked twice
            if seen != ("" if now is None else str(now)):
                raise Conflict("somebody else has decided about this sample meanwhile; look again")
            if decision is None:
                del decisions[sample]
            else:
                decisions[sample] = decision
            self.kept.write(decisions)
            return decision


@contextmanager
def _hold_lock(path: Path) -> Iterator[None]:
    """Hold the lock of a file against other processes; the lock is a file beside it, which stays."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_name(f".{path.name}.lock")
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        wait_for_lock(handle)
        yield
    finally:
        os.close(handle)
