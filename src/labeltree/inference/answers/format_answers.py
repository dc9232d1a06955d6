"""Answers as an aligned text table, as CSV or as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from labeltree.decisions.answers import Answers, truth_told
from labeltree.inference.answers.answer_table import NO_ANSWER, AnswerTable
from labeltree.options.choices import Format
from labeltree.taxonomy import AnyTaxonomy

__all__ = [
    "ROW_NAMES",
    "Format",
    "answer_cells",
    "answer_rows",
    "show_rows",
    "skipped_row",
]


_COLUMNS = ("sample", "answer", "probability", "cut", "guesses", "problem")
ROW_NAMES = frozenset(
    (*_COLUMNS, "unknown", "p_known", "expected_cost", "label", "holds", "why", "input", "unreadable")
)
"""What a row of an answer may say, by name."""
_WIDEST = 60


def answer_rows(
    answers: Answers,
    samples: Sequence[str],
    taxonomy: AnyTaxonomy,
    labels: Tensor | None = None,
    judged: Tensor | None = None,
) -> list[dict[str, Any]]:
    """One dictionary per sample: `sample`, `answer` (a path; `/` is the root), `probability`, `cut`,
    `guesses` and `problem`, which is None here; see `skipped_row`. With a reference also `unknown`, whether
    the sample fits no known class, and `p_known`, its p-value.

    Args:
        answers: Answers for n samples.
        samples: Names of the samples.
        taxonomy: Taxonomy of the nodes.
        labels: (n,) true nodes, -1 where missing; adds the keys `label` and `holds`.
        judged: (n,) bool, where the sample is new and its label fine enough to say whether any answer is
            right (`ClassNodes.judges`): elsewhere `holds` is None. None = everywhere.
    """
    rows: list[dict[str, Any]] = []
    held = [] if labels is None else truth_told(answers.nodes, labels.clamp_min(0), taxonomy)
    for place, sample in enumerate(samples):
        row: dict[str, Any] = {
            "sample": sample,
            "answer": taxonomy.path_name(int(answers.nodes[place])),
            "probability": round(float(answers.probabilities[place]), 6),
            "cut": bool(answers.cut[place]),
            "guesses": [
                {"class": taxonomy.path_name(int(node)), "probability": round(float(p), 6)}
                for node, p in zip(answers.guesses[place], answers.guess_probabilities[place], strict=True)
            ],
            "problem": None,
        }
        if answers.p_known is not None and answers.unknown is not None:
            row["unknown"] = bool(answers.unknown[place])
            row["p_known"] = round(float(answers.p_known[place]), 6)
        if answers.costs is not None:
            row["expected_cost"] = round(float(answers.costs[place]), 6)
        if labels is not None:
            known = int(labels[place]) >= 0
            row["label"] = taxonomy.path_name(int(labels[place])) if known else None
            row["holds"] = held[place] if known and (judged is None or bool(judged[place])) else None
        rows.append(row)
    return rows


def skipped_row(
    sample: str, problem: str, others: Sequence[Mapping[str, Any]], *, compared: bool = False
) -> dict[str, Any]:
    """The row of a sample without an answer: `problem` gives the reason, all other values are None.

    Args:
        sample: Name of the sample.
        problem: The reason why there is no answer.
        others: Rows from `answer_rows`; the new row has the same keys.
        compared: Whether answers say how well their sample fits the known classes, if there are no others.
    """
    usual = (*_COLUMNS, "unknown", "p_known") if compared else _COLUMNS
    known: Mapping[str, Any] = others[0] if others else dict.fromkeys(usual)
    return dict.fromkeys(known) | {"sample": sample, "guesses": [], "problem": problem}


def show_rows(
    rows: Sequence[dict[str, Any]],
    form: Format,
    about: Mapping[str, Any] | None = None,
    questions: Sequence[str] = (),
) -> str:
    """The rows as an aligned table, CSV or JSON, ending in a line break.

    Args:
        rows: Rows from `answer_rows`.
        form: `table`, `csv` or `json`.
        about: Values that hold for all rows: in JSON under `about`, beside the rows under `answers`; in a
            CSV the last columns of each row. A table leaves them out. None: in JSON, the rows alone.
        questions: Names of the questions whose scores rows have.
    """
    if form == "json":
        content = list(rows) if about is None else {"about": dict(about), "answers": list(rows)}
        return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if form == "csv":
        return AnswerTable(rows).text(about or {})
    return _aligned(rows, questions)


def answer_cells(rows: Sequence[Mapping[str, Any]], questions: Sequence[str] = ()) -> list[list[str]]:
    """Sample, answer, probability, and scores of questions and guesses of each row, as a person reads them.

    A cut answer ends in `/…`, that of an unknown class in `/?`. The latter has no p: probabilities are those
    of known classes, and it is none of them. The root says nothing: it is `no answer`, without a p.
    """
    lines = []
    for row in rows:
        if row["problem"] is not None:
            lines.append([_short(row["sample"]), "–", "–", f"no answer: {row['problem']}"])
            continue
        below = "?" if row.get("unknown") else "…" if row["cut"] else ""
        nothing = row["answer"] == NO_ANSWER
        answer = f"{row['answer']}/{below}" if below else row["answer"]
        if nothing:
            answer = "no answer (?)" if row.get("unknown") else "no answer"
        said = ", ".join(f"{guess['class']} {guess['probability']:.2f}" for guess in row["guesses"])
        p = "–" if row.get("unknown") or nothing else f"{row['probability']:.3f}"
        asked = [f"{name} {row[name]:.3f}" for name in questions]
        lacking = [row["unreadable"]] if row.get("unreadable") else []
        lines.append([_short(row["sample"]), answer, p, "; ".join([*asked, said, *lacking])])
    return lines


def _aligned(rows: Sequence[Mapping[str, Any]], questions: Sequence[str] = ()) -> str:
    """Columns padded to the same width."""
    lines = [["sample", "answer", "p", "guesses"], *answer_cells(rows, questions)]
    widths = [max(len(line[column]) for line in lines) for column in range(3)]
    shown = (
        "  ".join([*(text.ljust(width) for text, width in zip(line, widths, strict=False)), line[3]]).rstrip()
        for line in lines
    )
    return "\n".join(shown) + "\n"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _WIDEST else f"…{text[1 - _WIDEST :]}"
