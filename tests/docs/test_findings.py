"""Every figure of docs/findings.md and docs/choose.md is in the results of the studies linked beside it."""

import json
import re
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from statistics import mean, stdev

import pytest
from scipy.stats import ttest_ind

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
VERDICT = re.compile(r"\*\*|cannot tell")
MEASURED = re.compile(r"(\d+\.\d+) ± (\d+\.\d+)")
P_VALUE = re.compile(r"\bp (<|)\s?(\d+\.\d+)")
SETTING = re.compile(r"[αγτw] = \d+(\.\d+)?")
METHODS = {
    "HWC": r"HWC(?!\+)",
    "HWC+LAM": r"HWC\+LAM",
    "LAM": r"LAM",
    "Poincaré": r"Poincaré",
    "SupCon": r"SupCon",
    "HiMulConE": r"HiMulConE",
    "HiMulCon": r"HiMulCon(?!E)",
    "HiConE": r"(?<!Mul)HiConE",
    "CORR": r"CORR",
    "MaskCon": r"MaskCon",
    "MLCL": r"MLCL",
}
Scores = dict[str, dict[str, list[float]]]


PARTS = ("What should I use?", "Claims of the papers", "Our own questions")
END = re.compile(r"\*\*How sure:\*\* (.+?)\*\*Seeds:\*\* ([^.]+)\. \*\*Stud(?:y|ies):\*\* (.+)")


@dataclass(frozen=True)
class Row:
    """A section of findings.md or a row of choose.md: what is claimed, what is said of it, its studies."""

    claim: str
    said: str
    seeds: str
    studies: tuple[str, ...]


def linked_studies(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\]\(\.\./studies/([\w-]+)/README\.md\)", text))


def sections() -> list[Row]:
    text = (ROOT / "docs" / "findings.md").read_text("utf-8")
    found = []
    for part in PARTS:
        _, *rest = text.split(f"\n## {part}\n")[1].split("\n## ")[0].split("\n### ")
        for section in rest:
            claim, *paragraphs = section.split("\n\n")
            said = " ".join(" ".join(p.split()) for p in paragraphs if not p.startswith("*Source:*"))
            end = END.search(said)
            assert end, f"{claim}: no end with how sure, seeds and studies"
            sure, seeds, studies = end.groups()
            found.append(Row(claim, f"{said[: end.start()]} {sure}", seeds, linked_studies(studies)))
    return found


def rows() -> list[Row]:
    found = []
    for line in (ROOT / "docs" / "choose.md").read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) < 5 or cells[0] in ("you have", "you know that") or set(cells[0]) <= {"-"}:
            continue
        *front, seeds, sure, study = cells
        found.append(Row(front[0], f"{front[-1]} {sure}", seeds, linked_studies(study)))
    return found


@cache
def scores(study: str) -> Scores:
    found: Scores = {}
    for row in json.loads((ROOT / "studies" / study / "results.json").read_text("utf-8"))["results"]:
        for name, value in row["scores"].items():
            if value is not None:
                found.setdefault(row["method"], {}).setdefault(name, []).append(value)
    return found


@cache
def spreads(study: str) -> dict[tuple[str, str], tuple[float, float]]:
    """Mean and standard deviation of what was measured more than once, by score and method."""
    return {
        (name, method): (mean(values), stdev(values))
        for method, by_name in scores(study).items()
        for name, values in by_name.items()
        if len(values) > 1
    }


def shown(value: float, text: str) -> bool:
    """Whether a value rounds to the text, as it is or in per cent."""
    decimals = len(text.partition(".")[2])
    return any(abs(scale * value - float(text)) <= 0.5 * 10**-decimals + 1e-9 for scale in (1, 100))


def sources(row: Row, average: str, spread: str) -> set[tuple[str, str, str]]:
    """The (study, score, method) of a row's studies that have this mean and standard deviation."""
    return {
        (study, name, method)
        for study in row.studies
        for (name, method), (middle, deviation) in spreads(study).items()
        if shown(middle, average) and shown(deviation, spread)
    }


ROWS = sections() + rows()


def test_all_rows_are_read() -> None:
    assert len(sections()) >= 37
    assert len(rows()) >= 9
    assert all(row.studies and VERDICT.search(row.said) for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.claim[:40])
def test_every_figure_is_in_the_studies(row: Row) -> None:
    pairs = MEASURED.findall(row.said)
    assert pairs, "no figure with its spread"
    known = [sources(row, *pair) for pair in pairs]
    for pair, places in zip(pairs, known, strict=True):
        assert places, f"{' ± '.join(pair)} is in none of {', '.join(row.studies)}"
    tests = p_values(set().union(*known))
    for sign, text in P_VALUE.findall(row.said):
        decimals = len(text.partition(".")[2])
        near = 0.5 * 10**-decimals + 1e-9
        fits = [p < float(text) if sign else abs(p - float(text)) <= near for p in tests]
        assert any(fits), f"no two of the figures beside it differ with p {sign}{text}"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.claim[:40])
def test_no_figure_stands_without_its_spread(row: Row) -> None:
    rest = row.said
    for pattern in (MEASURED, P_VALUE, SETTING):
        rest = pattern.sub("", rest)
    assert not re.findall(r"\d+\.\d+", rest)


def p_values(places: set[tuple[str, str, str]]) -> list[float]:
    """Of Welch's tests between any two methods on one score of one study."""
    return [
        float(ttest_ind(scores(a[0])[a[2]][a[1]], scores(b[0])[b[2]][b[1]], equal_var=False).pvalue)
        for a, b in combinations(sorted(places), 2)
        if a[:2] == b[:2] and stdev(scores(a[0])[a[2]][a[1]]) + stdev(scores(b[0])[b[2]][b[1]]) > 0
    ]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.claim[:40])
def test_seeds_are_counted(row: Row) -> None:
    counts = [max(len(v) for by_name in scores(s).values() for v in by_name.values()) for s in row.studies]
    said = [int(number) for number in re.findall(r"\d+", row.seeds)]
    assert counts == (said * len(counts) if len(said) == 1 else said)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.claim[:40])
def test_every_study_has_the_methods_of_the_claim(row: Row) -> None:
    claimed = row.claim
    for name, pattern in METHODS.items():
        if name == "LAM" and "HWC+LAM" in claimed:
            continue
        if re.search(pattern, claimed):
            for study in row.studies:
                assert any(re.search(pattern, method) for method in scores(study)), f"{study} has no {name}"
