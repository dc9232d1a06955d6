"""Looking for suspects while the explorer runs: in the background, with progress, and an error in words."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from labeltree.curation.judged_samples import open_judged
from labeltree.curation.table_suspects import find_table_suspects
from labeltree.errors import DataError, LabeltreeError
from labeltree.index import Index
from labeltree.options.curation import SuspectsOptions
from labeltree.progress import Progress
from labeltree.runs import RunFolder
from labeltree.serving.explorer.collection import Collection
from labeltree.serving.explorer.review_decisions import Suspect

__all__ = ["SearchState", "SuspectSearch", "index_suspects"]

_LOG = logging.getLogger("labeltree.serving")


@dataclass(frozen=True)
class SearchState:
    """How far the search is.

    Attributes:
        state: `absent` before it is started.
        message: What is being done.
        share: How much of that is done, 0 to 1; None = not known.
        problem: Why it failed, in words.
    """

    state: Literal["absent", "computing", "ready", "failed"]
    message: str = ""
    share: float | None = None
    problem: str = ""


class SuspectSearch:
    """A search for suspects in a thread of its own; while it goes on, no second one begins.

    Args:
        find: Finds them, and tells its progress.
        take: Is given what was found.
    """

    def __init__(
        self, find: Callable[[Progress], list[Suspect]], take: Callable[[list[Suspect]], None]
    ) -> None:
        self._find = find
        self._take = take
        self._lock = threading.Lock()
        self.state = SearchState("absent")

    def start(self) -> SearchState:
        """Begin, unless it goes on already."""
        with self._lock:
            if self.state.state != "computing":
                self.state = SearchState("computing", "opening the index")
                threading.Thread(target=self._run, name="suspects", daemon=True).start()
        return self.state

    def _run(self) -> None:
        try:
            self._take(self._find(self._tell))
            self.state = SearchState("ready")
        except (LabeltreeError, OSError, ValueError) as error:
            self.state = SearchState("failed", problem=str(error))
        except Exception:
            _LOG.exception("the search for suspects failed")
            self.state = SearchState("failed", problem="it failed; the log of the explorer says where")

    def _tell(self, message: str, done: int, total: int) -> None:
        self.state = SearchState("computing", message, min(done / total, 1.0) if total > 0 else None)


def index_suspects(index: Index, collection: Collection, progress: Progress) -> list[Suspect]:
    """The suspects of an index among the samples of a collection, as `labeltree suspects INDEX` finds them.

    Raises:
        DataError: If its embeddings know the labels, or there are too few labels.
    """
    judged = open_judged(index.where, progress=progress)
    solved = index.model is not None and RunFolder(index.model).ridge.is_file()
    if solved and judged.space == "embeddings":
        raise DataError(
            "the embeddings of this index are solved from its labels, wrong ones, too, and its run cannot "
            "give the features of all its samples; --suspects FILE shows a table of 'labeltree suspects'"
        )
    suspected = find_table_suspects(judged, SuspectsOptions(index.where, progress=progress))
    tree = collection.taxonomy
    return [
        Suspect(
            collection.row_of[one.sample],
            tree.find(one.suggested) if one.suggested else -1,
            one.reason,
            one.score,
        )
        for one in suspected.found
        if one.sample in collection.row_of
    ]
