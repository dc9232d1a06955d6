"""Coverage beside the promise: by group and by site, against loops, and what chance explains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import beta, betabinom

from labeltree.decisions import Promise, holds_truth
from labeltree.decisions.kept_promises import (
    calibrated_units,
    group_coverage,
    is_kept,
    may_be_kept,
    say_kept,
)
from labeltree.inference.coverage import count_called_unknown, measure_coverage
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([("a", "a1"), ("a", "a2"), ("b", "b1"), ("b", "b2")])


def test_chance_of_test_and_calibration_samples_is_allowed_for() -> None:
    assert may_be_kept(0.9, 0.95, math.nan, 0)
    assert not may_be_kept(0.9, 0.89, math.nan, 0)
    assert may_be_kept(0.9, 0.89, 0.905, 0), "the interval holds the promise"
    assert may_be_kept(0.9, 0.87, 0.88, 250)  # 1.96·√(0.09 / 252) = 0.037
    assert not may_be_kept(0.9, 0.87, 0.88, 1000)
    assert may_be_kept(0.9, 0.705, math.nan, 7)  # 1.96·√(0.09 / 9) = 0.196
    assert not may_be_kept(0.9, 0.703, math.nan, 7)
    assert may_be_kept(0.9, 0.654, 0.804, 7)  # √(0.196² + 0.15²) = 0.2468
    assert not may_be_kept(0.9, 0.652, 0.802, 7)


def test_few_answers_or_groups_say_nothing() -> None:
    assert is_kept(0.9, 0.1, 0.2, 100, samples=19) is None
    assert is_kept(0.9, 0.1, 0.2, 100, samples=20) is False
    assert is_kept(0.9, 0.1, 0.2, 100, samples=500, groups=5) is None
    assert is_kept(0.9, 0.1, 0.2, 100, samples=500, groups=6) is False
    assert is_kept(0.9, 0.9, 0.95, 100, samples=20, groups=None) is True
    assert calibrated_units({"for the thresholds": 70}) == 70
    assert calibrated_units({"for the thresholds": 70, "groups for the thresholds": 9}) == 9


def test_only_what_the_samples_support_is_called_kept() -> None:
    """Of 37 answers 91.9 % [78.1 %, 98.3 %] may be a coverage of 0.9, or of 0.8: that is not "kept"."""
    assert say_kept(None, 0.9, 0.95, 0.94) == "too few to tell"
    assert say_kept(False, 0.9, 0.95, 0.94) == "not kept"
    assert say_kept(True, 0.9, 0.956, 0.879) == "kept"
    assert say_kept(True, 0.9, 0.95, 0.8) == "kept"
    assert say_kept(True, 0.9, 0.9, 0.85) == "kept", "as much as was promised"
    for share, low in ((0.919, 0.781), (0.909, 0.749), (0.95, 0.799), (0.899, 0.89), (0.95, math.nan)):
        assert say_kept(True, 0.9, share, low) == "not clearly below it"
    assert say_kept(True, 0.99, 1.0, 0.97) == "not clearly below it"
    assert say_kept(True, 0.95, 0.94, 0.92, beyond="above") == "not clearly above it"


@pytest.mark.parametrize("promised", [0.8, 0.9, 0.95, 0.99])
def test_of_kept_promises_one_in_twenty_at_most_is_called_not_kept(promised: float) -> None:
    """The exact chance, summed over what may come out; known samples called unknown are judged alike."""
    for calibrated in (20, 50, 100, 500, 2000):
        beyond = math.floor((1 - promised) * (calibrated + 1) + 1e-9)  # so many held-out ones lie beyond
        if not beyond:
            continue
        for tested in (20, 30, 100, 300, 1000):
            misses = np.arange(tested + 1)
            chance = betabinom.pmf(misses, tested, beyond, calibrated + 1 - beyond)
            ends = 1 - np.append(beta.ppf(0.025, misses[1:], tested - misses[1:] + 1)[::-1], 0.0)[::-1]
            kept = [
                is_kept(promised, 1 - missed / tested, high, calibrated, samples=tested)
                for missed, high in zip(misses.tolist(), ends.tolist(), strict=True)
            ]
            assert chance[np.logical_not(kept)].sum() <= 0.05, (calibrated, tested)


def test_shares_of_groups_equal_a_loop() -> None:
    draw = torch.Generator().manual_seed(0)
    groups = torch.randint(-1, 12, (80,), generator=draw)
    holds = torch.rand(80, generator=draw) < 0.7
    shares, last = group_coverage(holds, groups)
    members: dict[int, list[int]] = {}
    for row, group in enumerate(groups.tolist()):
        members.setdefault(group if group >= 0 else 100 + row, []).append(row)
    expected = {rows[-1]: holds[rows].double().mean().item() for rows in members.values()}
    assert dict(zip(last.tolist(), shares.tolist(), strict=True)) == pytest.approx(expected)
    assert len(group_coverage(holds[:0], groups[:0])[0]) == 0


def two_sites() -> tuple[torch.Tensor, EmbeddingTable]:
    """Answers for 60 patients with 1 to 4 samples each; in Wien most are wrong, in Linz there are few."""
    draw = np.random.default_rng(0)
    groups = np.repeat(np.arange(60), np.arange(60) % 4 + 1)
    site = np.array(["Graz", "Wien"])[groups % 2]
    site[groups == 59] = "Linz"
    nodes = TREE.leaves[torch.from_numpy(draw.integers(0, 4, len(groups)))]
    wrong = torch.from_numpy(draw.random(len(groups)) < np.where(site == "Wien", 0.6, 0.02))
    answers = torch.where(wrong, TREE.leaves[3], TREE.ancestors[nodes, 1])
    answers = torch.where(wrong & holds_truth(answers, nodes, TREE), TREE.leaves[0], answers)
    table = EmbeddingTable(
        torch.zeros(len(groups), 2),
        nodes,
        groups=torch.from_numpy(groups),
        group_names=groups.astype(str),
        attributes={
            "site": site,
            "file": np.arange(len(groups)).astype(str),
            "empty": np.full(len(groups), ""),
        },
    )
    return answers, table


@pytest.mark.parametrize("counted", ["sample", "group"])
def test_coverage_of_all_of_groups_and_by_site(counted: str) -> None:
    answers, table = two_sites()
    assert table.groups is not None
    judged = torch.arange(len(table)) % 7 > 0
    promise = Promise(0.9, counted=counted)  # type: ignore[arg-type]
    found = measure_coverage(answers, table, judged, TREE, promise, 500)
    assert found is not None
    holds = holds_truth(answers, table.nodes, TREE).numpy()
    site, groups = np.asarray(table.attributes["site"]), table.groups.numpy()

    def expected(mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> tuple[float, list[float]]:
        shares = [float(holds[mask & (groups == g)].mean()) for g in np.unique(groups[mask])]
        whole = float(holds[mask].mean()) if counted == "sample" else float(np.mean(np.equal(shares, 1)))
        return whole, shares

    told = judged.numpy()
    share, shares = expected(told)
    assert found.whole.share == pytest.approx(share)
    assert found.whole.low < share < found.whole.high
    assert found.groups == len(shares) == found.whole.groups
    assert found.mean_of_groups == pytest.approx(np.mean(shares))
    assert found.all_held == pytest.approx(np.mean(np.equal(shares, 1)))
    assert [part.name for part in found.parts] == ["site = Graz", "site = Linz", "site = Wien"]
    assert [part.kept for part in found.parts] == [True, None, False]
    for part in found.parts:
        mask = told & (site == part.name.rpartition(" ")[2])
        assert (part.samples, part.groups) == (mask.sum(), len(np.unique(groups[mask])))
        assert part.share == pytest.approx(expected(mask)[0])
    assert found.left_out == (("file", int(told.sum())),)
    lines = found.text().splitlines()
    assert ("groups have answers that all hold the truth; promised 90%: " in lines[0]) == (counted == "group")
    assert f"of {len(shares)} groups" in lines[1]
    assert "too few to tell" in lines[3]
    assert lines[4].endswith("not kept")
    assert "file: " in lines[5]
    equal = measure_coverage(answers, table, judged, TREE, promise, 500, answers)
    assert equal is not None
    assert math.isnan(equal.plain), "calling samples unknown changed nothing"
    assert equal.text() == found.text()
    coarser = measure_coverage(torch.zeros_like(answers), table, judged, TREE, promise, 500, answers)
    assert coarser is not None
    assert (coarser.whole.share, coarser.plain) == (1.0, pytest.approx(found.whole.share))


def test_answers_for_a_patient_are_drawn_together() -> None:
    """Twenty patients, for whom all answers are right or wrong, tell what twenty samples do."""
    groups = torch.arange(20).repeat_interleave(50)
    nodes = TREE.leaves[[0] * 1000]
    answers = torch.where(groups % 10 > 0, nodes, TREE.leaves[3])
    site = np.where(groups.numpy() < 10, "Graz", "Wien")
    table = EmbeddingTable(torch.zeros(1000, 2), nodes, groups=groups, attributes={"site": site})
    every = torch.ones(1000, dtype=torch.bool)
    for given, least, most in ((table, 0.15, 0.5), (replace(table, groups=None), 0.01, 0.07)):
        found = measure_coverage(answers, given, every, TREE, Promise(0.9), 500)
        assert found is not None
        for part in (found.whole, *found.parts):
            assert part.share == pytest.approx(0.9)
            assert least < part.high - part.low < most, part.name


def parts_by(values: Sequence[object], groups: Sequence[object]) -> tuple[list[str], tuple[str, ...]]:
    """By which values coverage is broken down, and the attributes that number within groups."""
    nodes, names = TREE.leaves[torch.zeros(len(groups), dtype=torch.int64)], np.array(groups, dtype=str)
    table = EmbeddingTable(
        torch.zeros(len(nodes), 2),
        nodes,
        groups=torch.from_numpy(np.unique(names, return_inverse=True)[1]),
        group_names=names,
        attributes={"it": np.array(values, dtype=str)},
    )
    measured = measure_coverage(nodes, table, torch.ones(len(nodes)).bool(), TREE, Promise(0.9), 50)
    assert measured is not None
    assert all(name in measured.text() for name in measured.within_groups)
    return [part.name for part in measured.parts], measured.within_groups


def test_coverage_is_not_broken_down_by_numbers_within_groups() -> None:
    """Lesion 1 of one patient has nothing in common with lesion 1 of another."""
    patients = np.repeat(np.arange(60), np.arange(60) % 4 + 1)
    lesion = np.concatenate([np.arange(number % 4 + 1) for number in range(60)])
    for values in (lesion, lesion + 1, [f"lesion {number + 1}" for number in lesion]):
        assert parts_by(values, patients) == ([], ("it",))
    some = np.array([*map(str, lesion[:-2]), "", ""])  # missing ones; and a patient that lost its first
    some[1] = "2"
    assert parts_by(some, patients) == ([], ("it",))
    pictures = np.repeat(np.arange(len(lesion)), 2)  # two of each lesion
    assert parts_by(lesion[pictures], patients[pictures]) == ([], ("it",))
    assert parts_by([*"aabbccdd"], [*"11112222"]) == ([], ("it",)), "each lesion has a name of its own"

    draw = np.random.default_rng(0)
    grades = draw.integers(1, 4, len(patients))
    assert parts_by(grades, patients) == (["it = 1", "it = 2", "it = 3"], ())
    mostly = 1 + (draw.random(len(patients)) < 0.05)
    assert parts_by(mostly, patients) == (["it = 1", "it = 2"], ())
    assert parts_by(lesion % 2, patients) == (["it = 0", "it = 1"], ()), "no and yes"
    assert parts_by(patients % 3, patients)[1] == (), "a number of the patient, not of its lesion"
    assert parts_by(draw.choice(["left", "right"], len(patients)), patients)[1] == ()
    assert parts_by(lesion, np.full(len(lesion), ""))[1] == (), "nothing says who belongs together"


def test_two_samples_of_a_patient_are_numbered_and_two_words_number_nothing() -> None:
    patients = np.repeat(np.arange(30), 2)
    assert parts_by([1, 2] * 30, patients) == ([], ("it",))
    assert parts_by(["mole 1", "mole 2"] * 30, patients) == ([], ("it",))
    assert parts_by(["mole 1", "spot 2"] * 30, patients) == (["it = mole 1", "it = spot 2"], ())


def test_without_labels_or_groups() -> None:
    answers, table = two_sites()
    assert measure_coverage(answers, table, torch.zeros(len(table)).bool(), TREE, Promise(0.9), 50) is None
    plain = EmbeddingTable(table.embeddings, table.nodes)
    found = measure_coverage(
        answers, plain, torch.ones(len(table)).bool(), TREE, Promise(0.9, counted="group"), 50
    )
    assert found is not None
    assert found.groups is None
    assert "group" not in found.text()


def test_known_samples_called_unknown_are_counted_beside_the_promise() -> None:
    tree = Taxonomy.from_paths([("dog", "terrier"), ("dog", "husky"), ("fern",)])
    classes = tree.encode(["terrier", "fern"])
    labels = tree.encode(15 * ["terrier"] + 5 * ["fern"] + ["husky", "dog", None])  # 20 of known classes
    unknown = torch.tensor([True, *19 * [False], True, True, True])
    found = count_called_unknown(unknown, labels, classes, tree, 0.05)
    assert found is not None
    assert (found.called, found.samples, found.groups) == (1, 20, None)
    assert (found.low, found.high) == pytest.approx((beta.ppf(0.025, 1, 20), beta.ppf(0.975, 2, 19)))
    said = (
        "1 of 20 known samples is called unknown, 5.0% [0.1%, 24.9%]; promised at most 5%: not clearly above"
    )
    assert found.text() == f"{said} it"
    few = count_called_unknown(unknown[:4], labels[:4], classes, tree, 0.1)
    assert few is not None
    assert few.text().endswith("unknown, 25.0% [0.6%, 80.6%]; promised at most 10%: too few to tell")
    assert count_called_unknown(unknown[20:], labels[20:], classes, tree, 0.05) is None


@pytest.mark.parametrize(
    ("called", "calibrated", "verdict"),
    [
        (5, 400, "kept"),
        (0, 400, "kept"),
        (9, 400, "not clearly above it"),
        (17, 400, "not kept"),
        (17, 20, "not clearly above it (thresholds from the 20 held out may miss by as much by chance)"),
    ],
)
def test_chance_explains_some_of_the_known_samples_called_unknown(
    called: int, calibrated: int, verdict: str
) -> None:
    unknown, labels = torch.arange(120) < called, TREE.leaves.repeat(30)
    found = count_called_unknown(unknown, labels, TREE.leaves, TREE, 0.05, calibrated)
    assert found is not None
    assert found.text().partition("promised at most 5%: ")[2] == verdict
    ends = (
        0.0 if called == 0 else beta.ppf(0.025, called, 121 - called),
        beta.ppf(0.975, called + 1, 120 - called),
    )
    assert (found.low, found.high) == pytest.approx(ends)


def test_known_samples_of_a_group_are_drawn_together() -> None:
    """Four pictures of each of 30 patients: all of a patient are called unknown, or none."""
    unknown, labels = torch.arange(120) < 16, TREE.leaves.repeat(30)
    alone = count_called_unknown(unknown, labels, TREE.leaves, TREE, 0.05, 400)
    patients = count_called_unknown(unknown, labels, TREE.leaves, TREE, 0.05, 400, torch.arange(120) // 4)
    assert alone is not None
    assert patients is not None
    assert alone.kept is False
    assert patients.kept is True
    assert patients.text().startswith("16 of 120 known samples of 30 groups are called unknown, 13.3% [")
    assert patients.high - patients.low > 1.5 * (alone.high - alone.low)
    few = count_called_unknown(unknown, labels, TREE.leaves, TREE, 0.05, 400, torch.arange(120) // 24)
    assert few is not None
    assert few.text().endswith("too few to tell"), "five groups"
