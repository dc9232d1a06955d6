"""The figures of docs/findings.md are made from the results of the studies, and so are its charts.

Every figure of docs/choose.md is in the results of the studies linked beside it.
"""

import importlib.util
import json
import re
import sys
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from statistics import mean, stdev
from typing import Any

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


@dataclass(frozen=True)
class Row:
    """A row of choose.md: what is claimed, what is said of it, its studies."""

    claim: str
    said: str
    seeds: str
    studies: tuple[str, ...]


def linked_studies(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\]\(\.\./studies/([\w-]+)/README\.md\)", text))


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


ROWS = rows()


def test_all_rows_are_read() -> None:
    assert len(ROWS) >= 9
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


SPEC = importlib.util.spec_from_file_location("findings_script", ROOT / "studies" / "findings.py")
assert SPEC is not None
assert SPEC.loader is not None
findings: Any = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = findings
SPEC.loader.exec_module(findings)
CONTENT = findings.read_findings()
ENTRIES = [entry for part in ("claims", "questions", "objectives") for entry in CONTENT[part]]


def test_page_and_charts_are_made_from_the_results() -> None:
    for path, text in findings.made().items():
        assert (ROOT / path).read_text("utf-8") == text, f"{path}: run python studies/findings.py"


def test_nothing_is_left_out() -> None:
    assert len(CONTENT["claims"]) >= 34
    assert len(ENTRIES) >= 53
    assert sum(len(entry["evidence"]) for entry in ENTRIES) >= 200
    assert len(CONTENT["charts"]) == 6
    assert {claim["verdict"] for claim in CONTENT["claims"]} == set(findings.VERDICTS)


def test_prose_has_no_figure_of_its_own() -> None:
    """What stands between the marks is made; planted errors are compared with their benchmark elsewhere."""
    page = (ROOT / findings.PAGE).read_text("utf-8")
    assert page.count("<!-- made by studies/findings.py: ") == page.count("<!-- end -->") == 6
    page = findings._MARK.sub("", page)
    page = page.split("\n## Planted label errors")[0]
    assert not re.findall(r"(?<![\w-])[-−+]?\d*\.\d+", SETTING.sub("", page))


def test_the_page_is_short() -> None:
    page = re.sub(
        r"<details>.*?</details>|<!--.*?-->", "", (ROOT / findings.PAGE).read_text("utf-8"), flags=re.DOTALL
    )
    words = [word for word in re.sub(r"\]\([^)]*\)", "]", page).split() if re.search(r"\w", word)]
    assert len(words) <= 2500


@pytest.mark.parametrize("claim", CONTENT["claims"], ids=lambda claim: claim["claim"][:40])
def test_verdicts_are_what_the_seeds_say(claim: dict[str, Any]) -> None:
    first = claim["evidence"][0]
    better, worse = first.decided and first.lead.mean > 0, first.decided and first.lead.mean < 0
    if claim.get("level"):  # the claim is that there is no difference
        fits = {"held": not first.decided, "did not hold": worse, "cannot tell": not first.decided}
    else:
        fits = {"held": better, "did not hold": not better, "cannot tell": not first.decided}
    assert fits[claim["verdict"]]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["claim"][:40])
def test_a_claim_is_measured_of_the_methods_that_it_names(entry: dict[str, Any]) -> None:
    measured = [name for one in entry["evidence"] for name in (one.method, one.other or "")]
    for name, pattern in METHODS.items():
        if re.search(pattern, entry["claim"]) and not (name == "LAM" and "HWC+LAM" in entry["claim"]):
            assert any(re.search(pattern, method) for method in measured), name


def test_what_is_said_above_the_charts() -> None:
    rows = {score: list(findings.chart_rows(CONTENT["charts"], score)) for score in findings.CHARTS}
    beyond = {
        score: [leads[1].mean for _, _, leads in each if leads[1] is not None] for score, each in rows.items()
    }
    assert [len(each) for each in beyond.values()] == [24] * 4
    assert min(beyond["embeddings/ahp"]) > 0
    assert min(beyond["embeddings/parent_violations"]) > 0
    assert sum(lead > 0 for lead in beyond["embeddings/map_at_r"]) == 23
    for data, _, leads in rows["features/top1"]:
        assert data.startswith("Drawings") or leads[0] is None or abs(leads[0].mean) < 0.02
    gains = sorted(leads[0].mean for _, _, leads in rows["embeddings/ahp"] if leads[0] is not None)
    assert (round(gains[-1], 2), round(gains[-2], 2)) == (0.12, 0.03)
    packages = [leads[1].mean for data, _, leads in rows["features/top1"] if "Debian" in data]
    assert max(packages) < 0


@pytest.mark.parametrize("metric", ["hierarchical_f1", "ahp"])
def test_the_confirmation_is_drawn_as_its_page_says(metric: str) -> None:
    page = (ROOT / "docs" / "confirmation.md").read_text("utf-8")
    column = {"hierarchical_f1": 1, "ahp": 4}[metric]
    drawn = list(findings.confirmed(metric))
    assert len(drawn) == 7
    for name, (candidate, features) in drawn:
        cells = re.search(rf"^\| {name} \|(.*[+−]\.\d+ to .*)\|$", page, re.MULTILINE)
        assert cells is not None
        shown = [cell.strip().replace("−", "-") for cell in f"{name}|{cells[1]}".split("|")]
        assert float(shown[column]) == candidate.mean
        assert [float(end) for end in shown[column + 1].split(" to ")] == [candidate.low, candidate.high]
        assert features.low != features.low  # no interval


NUMBERS = ("confirmation", "photographs", "ridge-head")


def test_figures_beside_the_rows_are_those_of_their_pages() -> None:
    pages = [(ROOT / "docs" / f"{name}.md").read_text("utf-8") for name in NUMBERS]
    prose = re.sub(r"(?m)^\|.*$", "", (ROOT / "docs" / "choose.md").read_text("utf-8"))
    said = re.findall(r"(?<![\d:])\.\d{3}", prose)
    assert len(said) >= 7
    assert all(any(figure in page for page in pages) for figure in said)
