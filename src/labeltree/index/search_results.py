"""Searches as people read them: hits with their place on the tree, as table, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from labeltree.data.source import printable, text_begin
from labeltree.index.hits import Hits
from labeltree.options.choices import Format
from labeltree.taxonomy import Taxonomy

__all__ = ["VOTERS", "Answer", "Place", "likely_label", "place_of", "results_text"]

VOTERS = 10
"""Nearest samples that vote for the label of a query."""
_WIDEST = 44


@dataclass(frozen=True)
class Answer:
    """A query and what was found for it.

    Attributes:
        query: Name of the query: a file, a text, an id or a node.
        kind: What it is.
        hits: What was found, nearest first; None if the query cannot be read.
        label: Node that the places of the hits are relative to; -1 if there is none.
        label_from: Where that label comes from: `query` (its own, or a node that was asked for) or
            `results` (see `likely_label`); `index` where these are some of the samples alone, as with
            `within`, and all samples of the index vote.
        problem: Why there are no hits.
    """

    query: str
    kind: Literal["image", "text", "vector", "id", "node"]
    hits: Hits | None
    label: int = -1
    label_from: Literal["query", "results", "index"] | None = None
    problem: str | None = None

    @property
    def likely(self) -> str:
        """That the label is only likely, and from what; empty if it is not."""
        if self.label_from == "index":
            return "likely, from the nearest of the whole index"
        return "likely, from the results" if self.label_from == "results" else ""


@dataclass(frozen=True)
class Place:
    """Where a hit lies on the tree, seen from the label of its query.

    Attributes:
        steps: Height of the lowest node that holds both labels, 0 for the same label or one below it; None
            if a label is missing or the hit's is an ancestor of the query's, so that finer ones may agree.
        meets: That node; -1 if a label is missing.
        words: The same in words.
    """

    steps: int | None
    meets: int
    words: str

    @property
    def sign(self) -> str:
        """The place in a few characters: `✓`, the number of steps up, or `?`."""
        return "?" if self.steps is None else "✓" if self.steps == 0 else f"{self.steps} ↑"


def place_of(taxonomy: Taxonomy, label: int, node: int) -> Place:
    """The place of a hit with label `node` relative to a query with `label`; -1 = missing."""
    if label < 0 or node < 0:
        missing = "the query has no label" if label < 0 else "no label"
        return Place(None, -1, missing)
    meets = int(taxonomy.lca(label, node))
    if meets == label:
        return Place(0, meets, "same label" if node == label else f"below {taxonomy.names[label]}")
    if meets == node:
        return Place(None, meets, "labelled more coarsely")
    where = "only the root in common" if meets == 0 else f"both are {taxonomy.path_name(meets)}"
    return Place(int(taxonomy.height[meets]), meets, where)


def likely_label(hits: Hits) -> int:
    """The label that stands in for that of a query without one: the vote of the ten nearest hits.

    The hit of rank r has the weight 1/r, so the nearest one decides unless several others agree. -1 if none
    of the ten has a label.
    """
    votes: dict[int, float] = {}
    for rank, node in enumerate(hits.nodes[:VOTERS].tolist()):
        if node >= 0:
            votes[node] = votes.get(node, 0.0) + 1.0 / (rank + 1)
    return max(votes, key=votes.__getitem__, default=-1)


def results_text(
    answers: Sequence[Answer],
    taxonomy: Taxonomy,
    form: Format = "table",
    about: Mapping[str, Any] | None = None,
) -> str:
    """The answers as an aligned table, CSV or JSON, ending in a line break.

    Args:
        answers: Queries with their hits.
        taxonomy: Of the labels.
        form: `table`; `csv`, a row for each hit and one for each query that cannot be read; or `json`.
        about: What holds for all queries, written to JSON.
    """
    if form == "json":
        document = {"about": dict(about or {}), "queries": [_query(answer, taxonomy) for answer in answers]}
        return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if form == "csv":
        return _csv([_query(answer, taxonomy) for answer in answers])
    return "\n".join(_table(answer, taxonomy) for answer in answers)


def _query(answer: Answer, taxonomy: Taxonomy) -> dict[str, Any]:
    return {
        "query": answer.query,
        "kind": answer.kind,
        "label": taxonomy.path_name(answer.label) if answer.label >= 0 else None,
        "label_from": answer.label_from,
        "problem": answer.problem,
        "hits": [] if answer.hits is None else _hits(answer.hits, answer.label, taxonomy),
    }


def _hits(hits: Hits, label: int, taxonomy: Taxonomy) -> list[dict[str, Any]]:
    rows = []
    for rank, (name, node) in enumerate(zip(hits.ids, hits.nodes.tolist(), strict=True)):
        place = place_of(taxonomy, label, node)
        further = {name: _plain(values[rank]) for name, values in hits.rows.items()}
        rows.append(
            {
                "rank": rank + 1,
                "id": name,
                "distance": float(hits.distances[rank]),
                "label": taxonomy.path_name(node) if node >= 0 else None,
                "meets_at": taxonomy.path_name(place.meets) if place.meets >= 0 else None,
                "steps_off": place.steps,
                **{key: value for key, value in further.items() if key not in ("id", "label")},
            }
        )
    return rows


def _plain(value: object) -> object:
    """A value that JSON knows."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _csv(queries: Sequence[dict[str, Any]]) -> str:
    rows = []
    for query in queries:
        hits = query.pop("hits")
        named = {
            "query": query["query"],
            "query_label": query["label"],
            "query_label_from": query["label_from"],
            "problem": query["problem"],
        }
        rows += [named | hit for hit in hits] if hits else [named]
    columns = dict.fromkeys(
        [
            "query",
            "query_label",
            "query_label_from",
            "rank",
            "id",
            "distance",
            "label",
            "meets_at",
            "steps_off",
        ]
    )
    for row in rows:
        columns |= dict.fromkeys(row)
    columns.pop("problem", None)
    out = io.StringIO()
    writer = csv.DictWriter(out, [*columns, "problem"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _table(answer: Answer, taxonomy: Taxonomy) -> str:
    if answer.hits is None:
        return f"{_short(answer.query)}: no answer: {answer.problem}\n"
    label = ""
    if answer.label >= 0:
        likely = f" ({answer.likely}: ✓ = the same)" if answer.likely else ""
        label = f"  {taxonomy.path_name(answer.label)}{likely}" if answer.kind != "node" else ""
    texts = answer.hits.rows.get("text", [None] * len(answer.hits))
    lines = [["", "distance", "off", "label", "id", "text" * any(texts), "split", "file"]]
    paths = answer.hits.rows.get("path", [None] * len(answer.hits))
    splits = answer.hits.rows.get("split", [None] * len(answer.hits))
    for rank, (name, node) in enumerate(zip(answer.hits.ids, answer.hits.nodes.tolist(), strict=True)):
        lines.append(
            [
                f"{rank + 1:>3}",
                f"{answer.hits.distances[rank]:.4f}",
                place_of(taxonomy, answer.label, node).sign,
                _short(taxonomy.path_name(node)) if node >= 0 else "–",
                _short(name),
                text_begin(str(texts[rank] or "")),
                str(splits[rank] or "–"),
                _short(str(paths[rank] or "")) if paths[rank] != name else "",
            ]
        )
    if not any(line[-1] for line in lines[1:]):
        lines = [line[:-1] for line in lines]
    if not any(texts):
        lines = [[*line[:5], *line[6:]] for line in lines]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    body = "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)
    listed = f"{body}\n" if len(answer.hits) else "nothing was found: no sample passes the conditions\n"
    return f"{_short(answer.query, 100)}{label}\n{listed}"


def _short(text: str, widest: int = _WIDEST) -> str:
    words = printable(" ".join(text.split()))
    return words if len(words) <= widest else f"…{words[1 - widest :]}"
