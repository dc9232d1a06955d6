"""The options of `index`, `search` and `duplicates`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol

from labeltree.options.choices import Format, IndexGeometry, SearchFormat
from labeltree.options.schema import Option, Options, Place, RunPlace, argument
from labeltree.options.shared import ShownProgress, TableSettings, choose_form

__all__ = ["HOW_FAR_OFF", "ChangeIndexOptions", "DuplicatesOptions", "MakeIndexOptions", "SearchOptions"]

HOW_FAR_OFF = "the height of the smallest branch that holds both labels, in steps down to its farthest class"
"""How far off a result is on the tree, or a mistake: the words that help and pages share."""

_FORMATS: dict[str, SearchFormat] = {".csv": "csv", ".json": "json", ".html": "html", ".txt": "table"}
_PAIR_FORMATS: dict[str, Format] = {".csv": "csv", ".json": "json", ".txt": "table"}
_CHANGES = ("add", "replace", "delete", "move_to", "compact", "tune")

AnIndex = Annotated[
    RunPlace, Option("an index, or a run with one ('labeltree index RUN' makes it)", positional=True)
]


@dataclass(frozen=True)
class MakeIndexOptions(Options):
    """What to make an index of, and where."""

    what: Annotated[
        RunPlace | None,
        Option("a trained run, an index to change, or embeddings", metavar="RUN|INDEX|FILE", positional=True),
    ] = None
    _: KW_ONLY
    embeddings: Annotated[
        Place | None, Option("make an index of these instead: .npz, .parquet, or parts", metavar="FILE")
    ] = None
    taxonomy: Annotated[
        Place | None, Option("with `embeddings`: the tree of their labels", metavar="FILE")
    ] = None
    out: Annotated[
        Place | None,
        Option(
            "a new folder, postgresql://... or qdrant+http://...; default: RUN/index, or FILE.index",
            metavar="DIR|URL",
        ),
    ] = None
    geometry: Annotated[
        IndexGeometry | None,
        Option("distance by which samples are compared; default: that of the embeddings"),
    ] = None
    overwrite: Annotated[bool, Option("replace an existing index")] = False
    progress: ShownProgress = None

    def check(self) -> None:
        if (self.what is None) == (self.embeddings is None):
            raise self.refusal("name a run or an index, or `embeddings` FILE")
        if self.table is None:
            own = "is that of `embeddings`; a run has its own (`move_to` changes an index)"
            self.require("embeddings", own, "taxonomy")

    @property
    def table(self) -> Place | None:
        """The embeddings to make an index of, also if they are named as a run is; None = those of a run."""
        if self.what is not None and Path(self.what).is_file():
            return Path(self.what)
        return self.embeddings


@dataclass(frozen=True)
class ChangeIndexOptions(Options):
    """How to change an index: one change at a time, each of which is one transaction."""

    index: Annotated[RunPlace, argument("an index, or a run with one")]
    _: KW_ONLY
    mapping: Annotated[
        Place | None,
        Option(
            "with `move_to`: what became of each node, from 'labeltree taxonomy map' (default: what is "
            "certain)",
            metavar="FILE",
        ),
    ] = None
    add: Annotated[
        Place | None, Option("add samples, whose ids must be new", metavar="FILE", either="change")
    ] = None
    replace: Annotated[
        Place | None,
        Option("write samples over those of the same ids; others are added", metavar="FILE", either="change"),
    ] = None
    delete: Annotated[Sequence[str], Option("delete samples", metavar="ID", either="change")] = ()
    move_to: Annotated[
        Place | None,
        Option("read all labels on this version of the taxonomy", metavar="FILE", either="change"),
    ] = None
    compact: Annotated[bool, Option("tidy up after many changes", either="change")] = False
    tune: Annotated[
        bool, Option("rebuild the approximate index, and measure what it finds", either="change")
    ] = False
    progress: ShownProgress = None

    def check(self) -> None:
        self.require("move_to", "says how to get to another taxonomy; name that with `move_to`", "mapping")
        given = list(filter(self.is_given, _CHANGES))
        if len(given) > 1:
            raise self.refusal(f"`{given[0]}` and `{given[1]}` exclude each other; make one change at a time")

    @property
    def changes(self) -> bool:
        """Whether there is something to change."""
        return any(map(self.is_given, _CHANGES))


class Array(Protocol):
    """An array of numbers, of numpy, torch or another library."""

    @property
    def shape(self) -> Any:
        """Its size along each axis."""


@dataclass(frozen=True)
class SearchOptions(Options):
    """What to search for, where, and how to write what is found."""

    index: AnIndex
    queries: Annotated[
        Sequence[Place] | Array,
        Option(
            "images, folders of images, files of vectors, or tables with a column image, text, id or node",
            "In Python also an array `(d,)` or `(m, d)` of embeddings",
            metavar="IMAGE",
            positional=True,
        ),
    ] = ()
    _: KW_ONLY
    texts: Annotated[
        Sequence[str],
        Option("a text; may be given several times", flag="--text", metavar="TEXT", repeat=True),
    ] = ()
    ids: Annotated[
        Sequence[str], Option("a sample of the index, likewise", flag="--id", metavar="ID", repeat=True)
    ] = ()
    nodes: Annotated[
        Sequence[str], Option("a node by path or name, likewise", flag="--node", metavar="NODE", repeat=True)
    ] = ()
    table: TableSettings = None
    k: Annotated[int, Option("how many samples to find", flag="-k")] = 20
    within: Annotated[
        Sequence[str], Option("only samples labelled there or below", metavar="NODE", repeat=True)
    ] = ()
    not_within: Annotated[
        Sequence[str], Option("no samples labelled there or below", metavar="NODE", repeat=True)
    ] = ()
    where: Annotated[
        Sequence[str], Option("such as split=test or year>=2020", metavar="CONDITION", repeat=True)
    ] = ()
    diverse: Annotated[
        int | None, Option("at most one sample of each node at this depth", metavar="DEPTH")
    ] = None
    label: Annotated[
        str | None, Option("the label of the images or texts, if you know it", metavar="NODE")
    ] = None
    taxonomy: Annotated[
        Place | None, Option("show labels on another version of the taxonomy", metavar="FILE")
    ] = None
    mapping: Annotated[
        Place | None, Option("what became of each node in it (default: what is certain)", metavar="FILE")
    ] = None
    tree: Annotated[
        float | None,
        Option(
            "in a posterior space (objective tree-ridge, or space posterior): how much the taxonomy counts, "
            "from 0, the class alone, to 1; default: as the run has it",
            least=0,
            most=1,
        ),
    ] = None
    instance: Annotated[
        float | None,
        Option(
            "likewise, how much what tells samples of one class apart counts, from 0: more of it finds "
            "the same thing again",
            least=0,
        ),
    ] = None
    exact: Annotated[bool, Option("compare with every sample, however many")] = False
    form: Annotated[SearchFormat | None, Option("default: by `out`, or table", flag="--format")] = None
    out: Annotated[
        Place | None, Option("write there instead of printing; .html is a wall of pictures", metavar="FILE")
    ] = None

    @property
    def array(self) -> object | None:
        """The vectors that are searched for, if the queries are numbers rather than places."""
        given: object = self.queries
        if isinstance(given, str | os.PathLike):
            return None
        if not isinstance(given, tuple | list):
            return given
        return None if all(isinstance(one, str | os.PathLike) for one in given) else given

    @property
    def places(self) -> Sequence[Place]:
        """The images, folders and files that are searched for."""
        return self.queries if self.array is None and isinstance(self.queries, tuple | list) else ()

    def check(self) -> None:
        if not (self.array is not None or self.queries or self.texts or self.ids or self.nodes):
            raise self.refusal(
                "name what to search for: images, a folder or table of queries, `texts`, `ids` or `nodes`"
            )
        other = "leads to another version of the taxonomy; name that with `taxonomy`"
        self.require("taxonomy", other, "mapping")
        if self.format == "html" and self.out is None:
            raise self.refusal("a page needs a file: `out` wall.html")

    @property
    def format(self) -> SearchFormat:
        """The format of what is found: the given one, else that of the file's name, else a table."""
        return choose_form(self, self.out, self.form, _FORMATS) or "table"


@dataclass(frozen=True)
class DuplicatesOptions(Options):
    """What counts as a near duplicate, and where to write them."""

    index: AnIndex
    _: KW_ONLY
    threshold: Annotated[
        float | None,
        Option(
            "largest distance of a pair; for cosines the chord √(2 − 2·cosine) (default: 0.13 times the "
            "median distance to the nearest neighbour)",
            metavar="D",
        ),
    ] = None
    cosine: Annotated[
        float | None, Option("or the least cosine of a pair", metavar="C", least=-1, most=1)
    ] = None
    pairs: Annotated[
        int, Option("list at most this many, those across splits first (default 100,000)", metavar="N")
    ] = 100_000
    form: Annotated[Format | None, Option("default: by `out`, or table", flag="--format")] = None
    out: Annotated[Place | None, Option("write there instead of printing", metavar="FILE")] = None

    def check(self) -> None:
        if self.threshold is not None and self.cosine is not None:
            raise self.refusal("`threshold` and `cosine` both say what is near; give one")
        _ = self.format  # told before pairs are sought

    @property
    def format(self) -> Format:
        """The format of the pairs; see `SearchOptions.format`."""
        return choose_form(self, self.out, self.form, _PAIR_FORMATS) or "table"
