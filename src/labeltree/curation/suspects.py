"""Labels that look wrong, ranked, with a reason in words and the likelier node."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from labeltree.atomic import atomic_write
from labeltree.checks import check_choice
from labeltree.counted_nouns import say_count
from labeltree.curation.contradicted import Contradicted, count_contradicted
from labeltree.curation.neighbour_evidence import Evidence, Neighbours, nearest_labelled, weigh, winnable
from labeltree.curation.out_of_fold import out_of_fold
from labeltree.data.corrections import CONTENT, is_decided, shorten_text
from labeltree.data.source import text_begin
from labeltree.errors import DataError
from labeltree.geometry import Geometry
from labeltree.metrics.search.results_left_out import leaves_group_out
from labeltree.notebooks import html_sentences, html_table
from labeltree.options.choices import Ranking
from labeltree.options.curation import SuspectsOptions
from labeltree.options.schema import describes
from labeltree.progress import Progress
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.naming import last_names

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "COLUMNS",
    "JudgedSpace",
    "Ranking",
    "Suspect",
    "Suspects",
    "check_free",
    "find_suspects",
    "score_labels",
    "write_suspects",
]

COLUMNS = (
    "sample",
    "path",
    "text",
    "label",
    "suggested",
    "kind",
    "depth",
    "score",
    "reason",
    CONTENT,
    "decision",
)
Kind = Literal["wrong leaf", "wrong branch", "too fine"]
JudgedSpace = Literal["embeddings", "features", "untrained", "raw"]
_SHOWN = 20  # suspects in a notebook


@dataclass(frozen=True)
class Suspect:
    """A label that looks wrong.

    Attributes:
        row: Position of the sample.
        sample: Its id.
        path: Its file; empty if it has none.
        label: Its label, as a path name.
        suggested: The finest node with more than half of the weight, as a path name: perhaps a coarser node,
            if the evidence reaches no further; empty if not even a branch has.
        kind: `wrong leaf` (the suggested node has the label's parent), `wrong branch` (they part above),
            or `too fine` (nothing finer than an ancestor of the label is likely).
        depth: The depth at which label and evidence part: the depth of the first node on the label's path
            that is not the likeliest.
        score: Weight of the strongest rival over the sum of its weight and that of the label; above 0.5 the
            rival is likelier.
        reason: Why, in words.
        content: Fingerprint of the sample, if it is named by its row; see `sample_contents`.
        text: Its text; empty if it has none.
    """

    row: int
    sample: str
    path: str
    label: str
    suggested: str
    kind: Kind
    depth: int
    score: float
    reason: str
    content: str = ""
    text: str = ""


@dataclass(frozen=True, eq=False)
class Suspects:
    """The labels of n samples that look wrong.

    Attributes:
        found: The suspects, most suspicious first.
        scores: `(n,)` float64 score of every sample, NaN where nothing can be judged.
        suggested: `(n,)` int64 suggested node of every sample; 0 where no branch is likely.
        contradicted: How many labels classifier and neighbours contradict together.
        judged: Number of labels that could be judged, of those that were asked for.
        unlabelled: Number of samples without a label.
        ranking: What the score is about.
        notes: Sentences on where neighbours were sought, and on what could not be judged.
        space: What neighbours were sought among: `embeddings`, or the `features` of an encoder that these
            labels have not changed; or what judged instead of an encoder that was trained on them: `raw`
            samples, or the pretrained encoder before training, `untrained`.
    """

    found: tuple[Suspect, ...]
    scores: Tensor
    suggested: Tensor
    contradicted: Contradicted
    judged: int
    unlabelled: int
    ranking: Ranking
    notes: tuple[str, ...]
    space: JudgedSpace = "embeddings"

    def save_csv(self, path: str | Path) -> None:
        """Write the suspects for a person to decide, atomically; `Corrections.load` reads the result."""
        with atomic_write(Path(path)) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            for one in self.found:
                shown = [one.sample, one.path, shorten_text(one.text)]
                cells = [*shown, one.label, one.suggested, one.kind, one.depth]
                writer.writerow([*cells, f"{one.score:.4f}", one.reason, one.content, ""])

    def to_dict(self) -> dict[str, Any]:
        """The suspects as plain values, for JSON."""
        contradicted = {"count": self.contradicted.count, "reason": self.contradicted.reason or None}
        return {
            "ranking": self.ranking,
            "space": self.space,
            "judged": self.judged,
            "unlabelled": self.unlabelled,
            "contradicted": contradicted,
            "notes": list(self.notes),
            "suspects": [
                {name: value for name, value in vars(one).items() if name != "row"} for one in self.found
            ],
        }

    def to_pandas(self) -> pd.DataFrame:
        """A row for each suspect, as in the CSV."""
        import pandas as pd

        columns = [one.name for one in fields(Suspect) if one.name != "row"]
        return pd.DataFrame(self.to_dict()["suspects"], columns=columns)

    def __repr__(self) -> str:
        """What `labeltree suspects` prints: the verdict, and the first ones in a table."""
        return "\n".join([*self.verdict(), "", self.table()]).rstrip()

    def _repr_html_(self) -> str:
        rows = [
            [one.sample, one.label, one.suggested, f"{one.score:.2f}", one.reason]
            for one in self.found[:_SHOWN]
        ]
        more = f"and {len(self.found) - _SHOWN} more: to_pandas()" if len(self.found) > _SHOWN else ""
        table = html_table(["sample", "label", "suggested", "score", "why"], rows, (3,))
        return str(html_sentences(self.verdict()) + (table if rows else "") + html_sentences([more]))

    def summary(self) -> str:
        """For people: how many there are, by kind, and how many labels are contradicted."""
        lines = [
            self._count(),
            self.contradicted.sentence(self.judged),
            *self.notes,
        ]
        return "\n".join(lines)

    def verdict(self) -> list[str]:
        """How many labels look wrong, and which pair of classes most of them are, a sentence each."""
        said = [f"{self._count()}."]
        if count := self.contradicted.count:
            said.append(f"For {count:,}, classifier and neighbours confidently agree on another class.")
        named = [one for one in self.found if one.suggested and one.kind != "too fine"]
        pairs = Counter(tuple(sorted((one.label, one.suggested))) for one in named)
        if pairs and (most := min(pairs.items(), key=lambda item: (-item[1], item[0])))[1] > 1:
            first, second = last_names(*most[0])
            said.append(f"Most often it is {first} ↔ {second}: {most[1]:,} of {len(self.found):,}.")
        return said

    def _count(self) -> str:
        """How many labels look wrong, by kind."""
        kinds = Counter(one.kind for one in self.found).most_common()
        listed = ", ".join(f"{count:,} {kind}" for kind, count in kinds)
        said = f"{len(self.found):,} of {say_count(self.judged, 'label')}"
        said += " looks wrong" if len(self.found) == 1 else " look wrong"
        return f"{said} ({listed})" if listed else said

    def table(self, top: int = 20, *, reasons: bool = True) -> str:
        """The first suspects as text in columns; the reasons can be left out."""
        shown = self.found[:top]
        if not shown:
            return f"{len(self.found):,} are not shown" if self.found else ""
        named = any(one.text for one in shown)
        cells = [["score", "depth", "sample", "text" * named, "label", "suggested", "reason" * reasons]]
        cells += [
            [
                f"{s.score:.3f}",
                str(s.depth),
                _shorten(s.sample, 32),
                text_begin(s.text),
                _shorten(s.label, 36),
                _shorten(s.suggested or "?", 36),
                s.reason if reasons else "",
            ]
            for s in shown
        ]
        widths = [max(len(row[column]) for row in cells) for column in range(6)]
        places = [column for column in range(6) if widths[column]]
        lines = ["  ".join([*(row[c].ljust(widths[c]) for c in places), row[6]]) for row in cells]
        if len(self.found) > top:
            lines.append(f"… and {len(self.found) - top:,} more")
        return "\n".join(line.rstrip() for line in lines)


def write_suspects(suspects: Suspects, path: str | Path) -> None:
    """Write a table for a person, and a JSON file of the same name beside it.

    Raises:
        DataError: If there is a table in which somebody has decided already.
        ValueError: If the name does not end in `.csv`.
    """
    path = Path(path)
    check_free(path)
    suspects.save_csv(path)
    with atomic_write(path.with_suffix(".json")) as temporary:
        temporary.write_text(json.dumps(suspects.to_dict(), indent=2, ensure_ascii=False) + "\n", "utf-8")


def check_free(path: str | Path) -> None:
    """Refuse a file that cannot be written to; see `write_suspects`."""
    path = Path(path)
    if path.suffix.lower() != ".csv":
        raise ValueError(f"--out is '{path}'; it is a table, whose name ends in .csv")
    if path.is_file() and is_decided(path):
        raise DataError(
            f"somebody has decided in '{path}', which would be lost; move it, or name another file by --out"
        )


@describes(SuspectsOptions)
def find_suspects(
    features: Tensor,
    points: Tensor,
    nodes: Tensor,
    taxonomy: Taxonomy,
    *,
    geometry: Geometry,
    ids: Sequence[str],
    paths: Sequence[str] | None = None,
    contents: Sequence[str] | None = None,
    texts: Sequence[str] | None = None,
    groups: Tensor | None = None,
    ranking: Ranking = "labels",
    k: int = 20,
    folds: int = 5,
    fewest: int = 3,
    least_score: float = 0.5,
    within: int | None = None,
    split: Sequence[str] | np.ndarray[Any, Any] | None = None,
    only_split: str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Suspects:
    """Find the labels that look wrong.

    The weight of a node is the mean of its out-of-fold probability (`out_of_fold`, on the features) and of
    the share of the k nearest samples at or below it (`nearest_labelled`, on the points); neither knows the
    sample itself, nor others of its group. At each depth of the label's path the label's weight is held
    against that of its strongest rival. The score is r/(r + w), for the rival's weight r and the label's
    weight w at the label's own depth (`labels`), or with the geometric mean of r/w over all depths
    (`branches`), which prefers labels in a wrong branch and hardly sees wrong leaves. Listed are scores
    above `least_score`, if they are so by a vote that the label's class can win, too (`winnable`). Where
    groups and labels coincide, as with photographs of products, groups are ignored.

    Args:
        features: `(n, f)` what the classifier reads.
        points: `(n, d)` points of the geometry, for the neighbours.
        nodes: `(n,)` labels: leaves, inner nodes, or −1 where missing.
        taxonomy: Taxonomy of the labels.
        geometry: Geometry of the points.
        ids: Id of each sample.
        paths: File of each sample; None if there are none.
        contents: Fingerprint of each sample that is named by its row, see `sample_contents`; None if unknown.
        texts: Text of each sample; None if there are none.
        groups: `(n,)` groups, −1 for a sample without one.
        within: Only labels at or below this node are listed and counted; None = all.
        split: Split of each sample; None if there are none.
        only_split: Only samples of this split are listed and counted; None = all.

    Raises:
        DataError: If there are fewer than two classes with enough samples.
        ValueError: If a setting is out of range or columns differ in length.
    """
    check_choice("ranking", ranking, Ranking)
    if not 0 <= least_score < 1:
        raise ValueError(f"least_score is {least_score}; it must be 0 or more and below 1")
    if len(ids) != len(nodes) or (paths is not None and len(paths) != len(nodes)):
        raise ValueError(f"there are {len(nodes)} labels and {len(ids)} ids; there must be one for each")
    if only_split is not None and (split is None or only_split not in set(np.asarray(split).tolist())):
        splits = [] if split is None else sorted(set(np.asarray(split).tolist()) - {""})
        raise DataError(f"no sample is of split '{only_split}'; there are {', '.join(splits) or 'none'}")
    if not bool(torch.isfinite(points).all()):
        row = int((~torch.isfinite(points)).any(1).nonzero()[0])
        raise DataError(f"the embedding of sample '{ids[row]}' holds NaN or infinity; leave it out")
    notes = []
    if groups is not None and not leaves_group_out("auto", nodes, groups):
        known = groups[groups >= 0]
        if len(known.unique()) < len(known):  # type: ignore[no-untyped-call]
            notes.append("groups and labels coincide, so that samples of one group speak for each other")
        groups = None
    predictions = out_of_fold(
        features, nodes, taxonomy, groups=groups, folds=folds, fewest=fewest, seed=seed, progress=progress
    )
    neighbours = nearest_labelled(points, nodes, geometry, groups=groups, k=k, progress=progress)
    evidence = weigh(predictions, neighbours)
    scores = score_labels(evidence, ranking)
    fair = weigh(predictions, winnable(neighbours, predictions.judged, nodes, taxonomy, groups))
    rivalled = score_labels(fair, ranking) > least_score
    asked = _choose_asked(nodes, taxonomy, within, split, only_split)
    contradicted = count_contradicted(predictions, evidence, asked)
    if rare := predictions.sentence():
        notes.append(rare)
    listed = _choose_rows(scores.where(rivalled & asked, 0.0), evidence, taxonomy, least_score)
    judged = _Judged(nodes, ids, paths, contents, texts, neighbours, evidence, taxonomy)
    return Suspects(
        tuple(judged.suspect(row, float(scores[row])) for row in listed.tolist()),
        scores,
        evidence.suggested,
        contradicted,
        int(((predictions.judged > 0) & asked).sum()),
        int((nodes <= 0).sum()),
        ranking,
        tuple(notes),
    )


def _choose_asked(
    nodes: Tensor,
    taxonomy: Taxonomy,
    within: int | None,
    split: Sequence[str] | np.ndarray[Any, Any] | None,
    only_split: str | None,
) -> Tensor:
    """The samples whose labels are listed and counted, `(n,)` bool; see `find_suspects`."""
    asked = torch.ones(len(nodes), dtype=torch.bool)
    if within is not None:
        asked &= (nodes >= within) & (nodes < taxonomy.subtree_end[within])
    if only_split is not None:
        asked &= torch.from_numpy(np.asarray(split) == only_split)
    return asked


def score_labels(evidence: Evidence, ranking: Ranking) -> Tensor:
    """The score of each sample, `(n,)` float64; NaN where nothing is judged."""
    odds = evidence.log_odds().double()
    if ranking == "branches":
        return torch.sigmoid(odds.nanmean(1))
    return torch.sigmoid(evidence.at_label(odds))


def _choose_rows(scores: Tensor, evidence: Evidence, taxonomy: Taxonomy, least: float) -> Tensor:
    """The rows of the suspects, most suspicious first, equal ones in the order of the samples."""
    label = evidence.judged.clamp(min=0)
    confirmed = taxonomy.lca(evidence.suggested, label) == label
    chosen = (scores > least) & ~confirmed & (evidence.judged > 0)
    rows = chosen.nonzero()[:, 0]
    return rows[scores[rows].argsort(descending=True, stable=True)]


@dataclass(frozen=True, eq=False)
class _Judged:
    """The labels of n samples, and what speaks for and against them; see `find_suspects`."""

    nodes: Tensor
    ids: Sequence[str]
    paths: Sequence[str] | None
    contents: Sequence[str] | None
    texts: Sequence[str] | None
    neighbours: Neighbours
    evidence: Evidence
    taxonomy: Taxonomy

    def suspect(self, row: int, score: float) -> Suspect:
        """The suspect of a row."""
        taxonomy, evidence = self.taxonomy, self.evidence
        label, suggested = int(evidence.judged[row]), int(evidence.suggested[row])
        finest = int(taxonomy.depth[label])
        losing = np.flatnonzero(self._lead(row)[:finest] > 0)
        depth = int(losing[0]) + 1 if len(losing) else finest
        rival = int(evidence.rival[row, depth - 1])
        common = int(taxonomy.lca(label, suggested if suggested > 0 else rival))
        kind: Kind
        if common == suggested and suggested > 0:
            kind = "too fine"
        else:
            kind = "wrong leaf" if int(taxonomy.depth[common]) == finest - 1 else "wrong branch"
        reason = self._reason(row, depth)
        if label != int(self.nodes[row]):
            reason += f"; too few samples to judge more than '{taxonomy.path_name(label)}'"
        return Suspect(
            row,
            self.ids[row],
            "" if self.paths is None else str(self.paths[row]),
            taxonomy.path_name(int(self.nodes[row])),
            taxonomy.path_name(suggested) if suggested > 0 else "",
            kind,
            depth,
            score,
            reason,
            "" if self.contents is None else self.contents[row],
            "" if self.texts is None else self.texts[row],
        )

    def _lead(self, row: int) -> np.ndarray[Any, Any]:
        """By how much the rival leads at each depth."""
        evidence = self.evidence
        own = (evidence.probe[row] + evidence.votes[row]) / 2
        lead: np.ndarray[Any, Any] = np.nan_to_num((evidence.rival_weight[row] - own).numpy(), nan=-1.0)
        return lead

    def _reason(self, row: int, depth: int) -> str:
        """Why a label looks wrong: where it parts from the evidence, and what the evidence says."""
        taxonomy, evidence = self.taxonomy, self.evidence
        rival, suggested = int(evidence.rival[row, depth - 1]), int(evidence.suggested[row])
        near = self.neighbours.nodes[row]
        near = near[near > 0]
        label = int(taxonomy.ancestors[evidence.judged[row], depth])
        name = taxonomy.names[label]

        def below(node: int) -> int:
            return int(((near >= node) & (near < taxonomy.subtree_end[node])).sum())

        said = []
        if len(near):
            said.append(
                f"{below(rival)} of the {len(near)} nearest are '{taxonomy.names[rival]}' and {below(label)} "
                f"'{name}'"
            )
        own = float(evidence.probe[row, depth - 1])
        said.append(f"the classifier gives '{name}' {own:.2f}")
        if suggested > 0 and int(taxonomy.lca(suggested, label)) != suggested:
            said[-1] += f" and '{taxonomy.names[suggested]}' {float(evidence.suggested_probe[row]):.2f}"
        if depth > 1:
            above = int(taxonomy.parent[label])
            share = float((evidence.probe[row, depth - 2] + evidence.votes[row, depth - 2]) / 2)
            said.append(f"'{taxonomy.names[above]}' is likely right ({share:.2f})" if share > 0.5 else "")
        return "; ".join(part for part in said if part)


def _shorten(text: str, width: int) -> str:
    return text if len(text) <= width else f"…{text[1 - width :]}"
