"""Write the charts and tables of docs/findings.md from the results of the studies and findings.yaml.

    python studies/findings.py           # docs/images/*.svg, and what stands between the marks in the pages
    python studies/findings.py --check   # only says which of these would change

A number is a difference of two means over the seeds, above 0 where the method named first is better, with its
95 % interval by Welch; with fewer than three seeds there is no interval.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import yaml

from labeltree.report.charts.interval_chart import IntervalDot, IntervalRow, interval_chart
from labeltree.report.pages.template import svg_file
from labeltree.studies.study_statistics import (
    Difference,
    difference,
    is_larger_better_in,
    metric_title,
    welch,
)

ROOT = Path(__file__).parents[1]
STUDIES = ROOT / "studies"
PAGE = "docs/findings.md"
CONFIRMED = ROOT / "benchmarks" / "results" / "confirmation.md"
CHARTS = {
    "features/top1": "top-1 of a probe",
    "embeddings/map_at_r": "MAP@R",
    "embeddings/ahp": "AHP, the order of results",
    "embeddings/parent_violations": "parent violations avoided",
}
PRIMARY = {"hierarchical_f1": "hierarchical F1 of answers", "ahp": "AHP of the space searched"}
VERDICTS = ("held", "did not hold", "cannot tell")
_SHORT = {
    "top-1 accuracy": "top-1",
    "hierarchical F1": "HF1",
    "new top1 probe 20": "top-1 of new classes",
    "answers that hold a label at 0.05": "right answers",
}
_MARK = re.compile(r"(<!-- made by studies/findings\.py: ([\w-]+) -->\n).*?(?=<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class Evidence:
    """A number: a method's score in a study, and the other method that it is compared with, if any.

    Raises:
        ValueError: if the study has no such method or score.
    """

    study: str
    score: str
    method: str
    other: str | None = None
    other_score: str | None = None

    @property
    def ours(self) -> list[float]:
        """The values of the method, over the seeds."""
        return values(self.study, self.method, self.score)

    @property
    def theirs(self) -> list[float]:
        """The values of the other method, over the seeds; empty without one."""
        return values(self.study, self.other, self.other_score or self.score) if self.other else []

    @property
    def p(self) -> float:
        """Welch's two-sided p-value, uncorrected; NaN without a comparison."""
        return welch(self.ours, self.theirs) if self.other else math.nan

    @property
    def lead(self) -> Difference:
        """By how much the method is ahead; as it is where neither direction is better."""
        sign = -1.0 if is_larger_better_in(self.score) is False else 1.0
        ours, theirs = ([sign * value for value in side] for side in (self.ours, self.theirs))
        return difference(ours, theirs, self.p)

    @property
    def decided(self) -> bool:
        """Whether the seeds say which one is better."""
        return self.p < 0.05

    @property
    def name(self) -> str:
        """The score in a few words."""
        title = metric_title(self.score).rstrip(" ↑↓")
        for long, short in _SHORT.items():
            title = title.replace(long, short)
        return title


@cache
def _scores(study: str) -> dict[str, dict[str, list[float]]]:
    known: dict[str, dict[str, list[float]]] = {}
    for row in json.loads((STUDIES / study / "results.json").read_text("utf-8"))["results"]:
        for name, value in row["scores"].items():
            if value is not None:
                known.setdefault(row["method"], {}).setdefault(name, []).append(value)
    return known


def values(study: str, method: str, score: str) -> list[float]:
    """The values of a method over the seeds of a study.

    Raises:
        ValueError: if the study has no such method or score.
    """
    own = _scores(study)
    if score not in own.get(method, {}):
        raise ValueError(f"{study} has no '{score}' of '{method}'; its methods are {', '.join(own)}")
    return own[method][score]


def read_findings() -> dict[str, Any]:
    """The content of findings.yaml, with `Evidence` for its lists."""
    content: dict[str, Any] = yaml.safe_load((STUDIES / "findings.yaml").read_text("utf-8"))
    for part in ("claims", "questions", "objectives"):
        for entry in content[part]:
            entry["evidence"] = [Evidence(*line) for line in entry["evidence"]]
    return content


def signed(value: float, digits: int = 2) -> str:
    """A number with its sign; no sign if it rounds to 0."""
    text = f"{value:+.{digits}f}"
    return (text[1:] if not text.strip("+-0.") else text).replace("-", "−")


def written(evidence: Evidence) -> str:
    """What a table shows of a comparison: the score, the difference and its interval, with two decimals."""
    if evidence.other is None:
        return f"{evidence.name} {mean(evidence.ours):.2f}"
    lead = evidence.lead
    if math.isnan(lead.low):
        return f"{evidence.name} {signed(lead.mean)} ({lead.fewest} seeds)"
    return f"{evidence.name} {signed(lead.mean)} [{signed(lead.low)}, {signed(lead.high)}]"


def _links(evidence: Sequence[Evidence]) -> str:
    studies = dict.fromkeys(one.study for one in evidence)
    return ", ".join(f"[{study}](../studies/{study}/README.md)" for study in studies)


def scoreboard(claims: Sequence[dict[str, Any]]) -> Iterator[str]:
    """How many claims held, and a line for each."""
    counts = Counter(claim["verdict"] for claim in claims)
    yield "**Of {} claims, {} held, {} did not, and of {} we cannot tell.**".format(
        len(claims), *(counts[verdict] for verdict in VERDICTS)
    )
    yield ""
    yield "| verdict | claim | ahead by | paper | studies |"
    yield "|---|---|---|---|---|"
    for verdict in VERDICTS:
        for claim in claims:
            if claim["verdict"] == verdict:
                cells = [verdict, claim["claim"], written(claim["evidence"][0]), claim["source"]]
                yield f"| {' | '.join(cells)} | {_links(claim['evidence'])} |"


def answers(questions: Sequence[dict[str, Any]]) -> Iterator[str]:
    """A line for each question, with its answer."""
    yield "| question | answer | ahead by | studies |"
    yield "|---|---|---|---|"
    for entry in questions:
        cells = [entry["claim"], entry["answer"], written(entry["evidence"][0])]
        yield f"| {' | '.join(cells)} | {_links(entry['evidence'])} |"


def numbers(entries: Sequence[dict[str, Any]]) -> Iterator[str]:
    """All numbers of a part: means and standard deviations over the seeds, and p."""
    yield "| claim or question | score | method | mean ± sd | beside | mean ± sd | p | seeds | study |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for entry in entries:
        sure = f" *How sure: {entry['sure']}.*"
        for place, one in enumerate(entry["evidence"]):
            title = entry["claim"] + sure if not place else ""
            beside = one.other or ""
            if one.other_score:
                beside = f"{one.other}, {one.other_score.replace('|', chr(92) + '|')}"
            sides = [_spread(one.ours), beside, _spread(one.theirs) if one.other else ""]
            p = "" if math.isnan(one.p) else "<0.001" if one.p < 0.001 else f"{one.p:.3f}"
            cells = [title, f"`{one.score}`", one.method, *sides, p, str(len(one.ours)), one.study]
            yield "| " + " | ".join(re.sub(r"(?<!\\)\|", r"\\|", cell) for cell in cells) + " |"


def _spread(side: Sequence[float]) -> str:
    return f"{mean(side):.3f} ± {stdev(side):.3f}"


def chart_rows(
    charts: Sequence[dict[str, Any]], score: str
) -> Iterator[tuple[str, str, list[Difference | None]]]:
    """Set, method, and its lead over SupCon and over no training, for every row of a chart.

    No training is the better, by the mean, of the samples as they are and of the encoder before training: of
    its features or its embeddings.
    """
    sign = -1.0 if is_larger_better_in(score) is False else 1.0
    for chart in charts:
        study, base = chart["study"], chart["base"]
        places = {score, score.replace("embeddings/", "features/")}
        plain = [
            [sign * value for value in _scores(study)[name][place]]
            for name in chart["untrained"]
            for place in sorted(places)
            if place in _scores(study)[name]
        ]
        untrained = max(plain, key=mean, default=None)
        for label, method in chart["methods"].items():
            ours = [sign * value for value in values(study, method, score)]
            theirs = [sign * value for value in values(study, base, score)]
            yield (
                chart["set"],
                label,
                [
                    None if method == base else difference(ours, theirs, math.nan),
                    None if untrained is None else difference(ours, untrained, math.nan),
                ],
            )


def _dots(leads: Sequence[Difference | None]) -> list[IntervalDot]:
    return [
        IntervalDot(lead.mean, lead.low, lead.high, filled=not place, style=place)
        for place, lead in enumerate(leads)
        if lead is not None
    ]


def charts(content: dict[str, Any]) -> dict[str, str]:
    """The charts by the name of their file."""
    drawn = {}
    for score, title in CHARTS.items():
        rows: list[IntervalRow] = []
        before = None
        for data, label, leads in chart_rows(content["charts"], score):
            if data != before:
                rows.append(IntervalRow(data))
                before = data
            rows.append(IntervalRow(label, _dots(leads)))
        drawn[f"findings-{score.split('/')[1].replace('_', '-')}"] = interval_chart(rows, title=title)
    for metric, title in PRIMARY.items():
        rows = [IntervalRow(name, _dots(leads)) for name, leads in confirmed(metric)]
        drawn[f"confirmation-{metric.replace('_', '-')}"] = interval_chart(rows, title=title)
    return {f"docs/images/{name}.svg": svg_file(chart) for name, chart in drawn.items()}


def confirmed(metric: str) -> Iterator[tuple[str, list[Difference]]]:
    """The lead of `tree-ridge` over `pairs-proxies-means`, with its interval, and over the features alone.

    The results have means and standard deviations of each method, and the differences of these two alone: the
    lead over the features has no interval.
    """
    text = CONFIRMED.read_text("utf-8")
    for name, seen, mean_, low, high in re.findall(
        r"^\| (\w+) \| (\w+) \| ([-+.\d]+) \| ([-+.\d]+) to ([-+.\d]+) \|", text, re.MULTILINE
    ):
        if seen == metric:
            table = text.split(f"## {name}: ")[1].split("\n## ")[0].splitlines()
            split = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table if line[:1] == "|"]
            cells = {row[0]: row for row in split}
            place = cells[""].index(metric)
            own, plain = (float(cells[row][place].split(" ± ")[0]) for row in ("tree-ridge", "features"))
            yield (
                name,
                [
                    Difference(float(mean_), math.nan, math.nan, 5, float(low), float(high)),
                    Difference(own - plain, math.nan, math.nan, 5),
                ],
            )


def chart_table(content: dict[str, Any]) -> Iterator[str]:
    """What the charts show, as a table."""
    yield "| data | method | " + " | ".join(f"{title}: SupCon | none" for title in CHARTS.values()) + " |"
    yield "|---|---|" + "---|---|" * len(CHARTS)
    columns = [list(chart_rows(content["charts"], score)) for score in CHARTS]
    for rows in zip(*columns, strict=True):
        leads = [_lead(lead) for _, _, both in rows for lead in both]
        yield f"| {rows[0][0]} | {rows[0][1]} | {' | '.join(leads)} |"


def _lead(lead: Difference | None) -> str:
    if lead is None:
        return "–"
    if math.isnan(lead.low):
        return signed(lead.mean)
    return f"{signed(lead.mean)} [{signed(lead.low)}, {signed(lead.high)}]"


def made() -> dict[str, str]:
    """All files that this script writes, by their path in the repository."""
    content = read_findings()
    parts = {
        "scoreboard": scoreboard(content["claims"]),
        "questions": answers(content["questions"]),
        "objectives": answers(content["objectives"]),
        "chart": chart_table(content),
        "numbers-of-claims": numbers(content["claims"]),
        "numbers-of-questions": numbers([*content["objectives"], *content["questions"]]),
    }
    texts = {name: "\n".join(lines) for name, lines in parts.items()}
    page = (ROOT / PAGE).read_text("utf-8")
    page = _MARK.sub(lambda mark: f"{mark[1]}\n{texts[mark[2]]}\n\n", page)
    return {PAGE: page, **charts(content)}


def main() -> None:
    """Write the files, or say which ones would change."""
    changed = []
    for path, text in made().items():
        file = ROOT / path
        if not file.is_file() or file.read_text("utf-8") != text:
            changed.append(path)
            if "--check" not in sys.argv:
                file.write_text(text, "utf-8")
    print("\n".join(changed) or "nothing changes")
    if changed and "--check" in sys.argv:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
