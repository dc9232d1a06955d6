"""The options of `suspects` and `label-next`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, cast, get_args

from labeltree.options.choices import DepthRule, Ranking, Strategy
from labeltree.options.schema import Option, OptionError, Options, Place, RunPlace, argument
from labeltree.options.shared import OfSplit, Seed, ShownProgress

__all__ = ["LabelNextOptions", "SuspectsOptions"]


@dataclass(frozen=True)
class SuspectsOptions(Options):
    """Where to look for labels that look wrong, and what looks wrong."""

    what: Annotated[
        RunPlace | None,
        Option("a trained run, or an index (folder or URL)", metavar="RUN|INDEX", positional=True),
    ] = None
    taxonomy: Annotated[
        Place | None,
        Option(
            "the taxonomy of those labels; default: the one beside FILE, or the tree of the labels",
            "None = the one that `labeltree embed` has written beside",
            metavar="FILE",
        ),
    ] = None
    _: KW_ONLY
    embeddings: Annotated[
        Place | None, Option("embeddings of any model with labels, instead", metavar="FILE")
    ] = None
    out: Annotated[
        Place | None,
        Option(
            "where to write (.csv; the .json lies beside it); default: suspects.csv in the run, or in the "
            "current folder",
            "In Python by default nothing is written",
            metavar="FILE",
        ),
    ] = None
    split: Annotated[str | None, Option("list only samples of this split; all are learned from")] = None
    within: Annotated[str | None, Option("list only labels at or below this node", metavar="NODE")] = None
    ranking: Annotated[
        Ranking,
        Option(
            "what comes first: labels that lose against a rival at their own depth (the default), or labels "
            "that lose at the coarser depths, too: wrong branches rather than wrong leaves",
            flag="--rank",
        ),
    ] = "labels"
    least_score: Annotated[
        float,
        Option(
            "list labels with a higher score: the weight of the strongest rival over that of rival and label "
            "together; at 0.5, the default, the rival is as likely as the label",
            metavar="S",
        ),
    ] = 0.5
    k: Annotated[int, Option("nearest samples", flag="--neighbours", metavar="K")] = 20
    folds: Annotated[int, Option("folds of the cross-validation")] = 5
    fewest: Annotated[
        int, Option("labels with fewer samples (or groups) are judged at a coarser node", metavar="N")
    ] = 3
    seed: Annotated[int, Option("seed of the folds", least=0, most=2**32 - 1)] = 0
    verify: Annotated[bool, argument("read all files of a run's samples again")] = False
    progress: ShownProgress = None

    def check(self) -> None:
        if (self.what is None) == (self.embeddings is None):
            raise self.refusal("name either a run or an index, or `embeddings` FILE")


def _depth(text: str) -> DepthRule | int:
    for rule in get_args(DepthRule):
        if text == rule:
            return cast(DepthRule, text)
    try:
        return int(text)
    except ValueError:
        raise OptionError(f"`depth` is {text!r}; expected finest, gain or a number") from None


def _shares(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise OptionError(f"`reliability` is {text!r}; expected numbers such as 1,.98,.9") from None


@dataclass(frozen=True)
class LabelNextOptions(Options):
    """What may be labelled next, at what cost, and how it is chosen."""

    what: Annotated[
        RunPlace,
        Option("a run, an index, or a table of embeddings", metavar="RUN|INDEX|FILE", positional=True),
    ]
    taxonomy: Annotated[Place | None, Option("of the labels of FILE", metavar="FILE")] = None
    _: KW_ONLY
    budget: Annotated[float, Option("sum of the expected costs of the answers")] = 100.0
    costs: Annotated[
        str | Sequence[float],
        Option(
            "of an answer: levels (1 for each choice between children; default), children (log2(k + 1) for a "
            "choice among k), or the cost at depth 1, 2 …, such as 1,1.5,4",
            read=str,
        ),
    ] = "levels"
    reliability: Annotated[
        Sequence[float] | None,
        Option("share of right answers at depth 1, 2 …, such as 1,.98,.9 (default: all right)", read=_shares),
    ] = None
    depth: Annotated[
        DepthRule | int,
        Option(
            "how finely to ask: finest (default), gain (most expected information for its cost), or a depth",
            read=_depth,
        ),
    ] = "finest"
    strategy: Annotated[
        Strategy | None,
        Option("how samples are chosen (default margin+clusters; without any label typiclust)"),
    ] = None
    split: OfSplit = None
    within: Annotated[
        str | None, Option("only samples whose coarse label is this node or below", metavar="NODE")
    ] = None
    seed: Seed = 0
    out: Annotated[
        Place | None,
        Option(
            "where to write (default label-next.csv)",
            "The table for the annotator; None = nothing is written",
            metavar="FILE",
        ),
    ] = "label-next.csv"
