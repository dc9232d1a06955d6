"""Promises are kept: scores equal loops, coverage is what was asked for, answers are no coarser than that."""

import math
from itertools import pairwise

import pytest
import torch
from decision_cases import cases, diamond, is_above, ragged, random_probabilities, random_tree
from scipy.stats import beta, betabinom, binom

from labeltree.decisions import (
    ClassNodes,
    Promise,
    conformal_scores,
    find_paths,
    holds_truth,
    samples_needed,
    threshold,
)
from labeltree.decisions.conformal import (
    advised_coverage,
    bars_of,
    categories_of,
    check_enough,
    thresholds_by_category,
)
from labeltree.errors import DataError, TaxonomyError
from labeltree.taxonomy import AnyTaxonomy
from sweeps import some_now

pytestmark = pytest.mark.slow

CASES = cases()


def drawn(p: torch.Tensor, classes: ClassNodes, seed: int, noise: float = 0.0) -> torch.Tensor:
    """Labels drawn from the probabilities, a share of them at random."""
    generator = torch.Generator().manual_seed(seed)
    places = torch.multinomial(p, 1, generator=generator)[:, 0]
    other = torch.randint(0, len(classes), (len(p),), generator=generator)
    return classes.nodes[torch.where(torch.rand(len(p), generator=generator) < noise, other, places)]


def flat(value: float, taxonomy: AnyTaxonomy) -> torch.Tensor:
    return torch.full((taxonomy.num_nodes,), value, dtype=torch.float64)


@pytest.mark.parametrize("classes", CASES)
@pytest.mark.parametrize("descent", ["child", "leaf"])
def test_an_answer_holds_the_truth_exactly_if_the_threshold_reaches_the_score(
    classes: ClassNodes, descent: str
) -> None:
    taxonomy, p = classes.taxonomy, random_probabilities(40, len(classes), 1)
    labels = drawn(p, classes, 2, 0.3)
    paths = find_paths(p, classes, descent)  # type: ignore[arg-type]
    scores = conformal_scores(paths, labels, taxonomy)
    for row, label in enumerate(labels.tolist()):
        chain = [v for v in paths.nodes[row].tolist() if v >= 0]
        wrong = [i for i, v in enumerate(chain) if not is_above(taxonomy, v, label)]
        assert float(scores[row]) == (float(paths.probabilities[row, wrong[0]]) if wrong else 0.0)
    for t in [0.0, *scores.tolist(), 1.0]:
        answers, _ = paths.cut(flat(t, taxonomy))
        assert torch.equal(holds_truth(answers, labels, taxonomy), scores <= t)


def test_answers_at_rising_thresholds_are_nested() -> None:
    taxonomy = random_tree(40, 3)
    classes = ClassNodes(taxonomy.leaves, taxonomy)
    paths = find_paths(random_probabilities(30, len(classes), 4), classes)
    answers = [paths.cut(flat(t, taxonomy))[0] for t in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)]
    for fine, coarse in pairwise(answers):
        assert bool(holds_truth(coarse, fine, taxonomy).all())
    assert bool((answers[-1] == 0).all())


@pytest.mark.parametrize("n", [9, 10, 19, 50, 999])
@pytest.mark.parametrize("coverage", [0.1, 0.5, 0.8, 0.9, 0.95])
def test_the_rank_of_the_threshold_is_exact(n: int, coverage: float) -> None:
    scores = torch.randperm(n, generator=torch.Generator().manual_seed(n)).double()
    hundredths = round(coverage * 100)
    rank = -(-(n + 1) * hundredths // 100)  # in integers: 0.9·(n+1) in floats may exceed what it should be
    expected = float(rank - 1) if rank <= n else math.inf
    assert threshold(scores, Promise(coverage)) == expected
    assert (n >= samples_needed(Promise(coverage))) == math.isfinite(expected)
    assert threshold(scores, Promise(coverage, "threshold")) == -(-n * hundredths // 100) - 1


@pytest.mark.parametrize("coverage", [0.03, 0.3, 0.5, 0.8, 0.9, 0.99])
@pytest.mark.parametrize("confidence", [0.02, 0.5, 0.75, 0.9, 0.999])
def test_the_threshold_with_confidence_is_the_least_whose_coverage_is_sure_enough(
    coverage: float, confidence: float
) -> None:
    """Coverage at the score of rank r of n has the law Beta(r, n + 1 - r), whatever the scores."""
    promise = Promise(coverage, confidence=confidence)
    for n in (*range(1, 60), 250, 700):
        sure = [beta.sf(coverage, rank, n + 1 - rank) >= confidence - 1e-12 for rank in range(1, n + 1)]
        expected = float(sure.index(True)) if any(sure) else math.inf
        assert threshold(torch.arange(n).double(), promise) == expected, n
        assert (n >= samples_needed(promise)) == any(sure), n


def test_how_many_samples_a_promise_needs() -> None:
    assert [samples_needed(Promise(c)) for c in (0.5, 0.8, 0.9, 0.95, 0.99)] == [1, 4, 9, 19, 99]
    sure = Promise(0.9, confidence=0.95)
    assert samples_needed(sure) == 29  # 0.9²⁹ ≤ 0.05 < 0.9²⁸
    assert math.isinf(threshold(torch.rand(28), sure))
    assert math.isfinite(threshold(torch.rand(29), sure))
    with pytest.raises(
        DataError, match=r"0\.99 needs at least 99 calibration samples, and there are 50.*0\.98"
    ):
        check_enough(50, Promise(0.99))
    check_enough(50, Promise(0.9803))
    for count in range(1, 200):
        check_enough(count, Promise(advised_coverage(count)))


def test_coverage_has_the_exact_law_of_the_theory() -> None:
    """With scores that do not tie, the number covered of m new samples is beta-binomial, given n."""
    taxonomy = random_tree(60, 5)
    classes = ClassNodes(taxonomy.leaves, taxonomy)
    n, m, coverage, runs = 40, 50, 0.8, 300
    rank = math.ceil((n + 1) * coverage)
    counts = []
    for seed in range(runs):
        p = random_probabilities(n + m, len(classes), seed, 1.0)
        paths = find_paths(p, classes)
        scores = conformal_scores(paths, drawn(p, classes, 10_000 + seed, 0.5), taxonomy)
        assert float((scores[:n] == 0).double().mean()) < coverage - 0.2  # no tie at the threshold
        counts.append(int((scores[n:] <= threshold(scores[:n], Promise(coverage))).sum()))
    law = betabinom(m, rank, n + 1 - rank)
    # the mean, and three quantiles, each within what chance does once in 10,000
    assert abs(sum(counts) / runs - law.mean()) < 3.9 * law.std() / math.sqrt(runs)
    for at in (34, 40, 45):
        below = sum(count <= at for count in counts)
        assert binom.ppf(5e-5, runs, law.cdf(at)) <= below <= binom.ppf(1 - 5e-5, runs, law.cdf(at))


@pytest.mark.parametrize("kind", some_now(["tree", "inner", "dag"]))
def test_a_bad_classifier_keeps_the_promise_too(kind: str) -> None:
    taxonomy: AnyTaxonomy = diamond() if kind == "dag" else ragged()
    nodes = torch.nonzero(torch.arange(len(taxonomy)) > 0)[:, 0] if kind == "inner" else taxonomy.leaves
    classes = ClassNodes(nodes, taxonomy)
    n, m, runs, held = 25, 20, 200, 0
    for seed in range(runs):
        p = random_probabilities(n + m, len(classes), seed, 4.0)
        labels = drawn(p, classes, 20_000 + seed, 0.6)
        paths = find_paths(p, classes)
        t = threshold(conformal_scores(paths, labels, taxonomy)[:n], Promise(0.9))
        answers, _ = paths.cut(flat(t, taxonomy))
        held += int(holds_truth(answers[n:], labels[n:], taxonomy).sum())
    # at least beta-binomial in each run; their sum below this happens once in 10,000
    rank = math.ceil(26 * 0.9)
    law = betabinom(m, rank, n + 1 - rank)
    assert held >= runs * law.mean() - 3.8 * law.std() * math.sqrt(runs)


def test_answers_are_as_deep_as_the_promise_allows() -> None:
    """One smaller score as threshold, and the promise would be broken on the calibration samples already."""
    taxonomy = random_tree(60, 6)
    classes = ClassNodes(taxonomy.leaves, taxonomy)
    p = random_probabilities(400, len(classes), 7)
    labels = drawn(p, classes, 8, 0.2)
    scores = conformal_scores(find_paths(p, classes), labels, taxonomy)
    t = threshold(scores, Promise(0.8))
    assert float((scores <= t).double().mean()) >= 0.8
    assert float((scores < t).double().mean()) < 0.8 * 401 / 400
    sure = drawn(p, classes, 9)
    easy = conformal_scores(find_paths(torch.eye(len(classes))[classes.place[sure]], classes), sure, taxonomy)
    assert threshold(easy, Promise(0.99)) == 0.0, "where leaves are right often enough, leaves are answered"


def test_confidence_over_draws_of_calibration_samples() -> None:
    promise, runs, missed = Promise(0.8, confidence=0.9), 400, 0
    plain = 0
    for seed in range(runs):
        scores = torch.rand(60, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        missed += threshold(scores, promise) < 0.8  # a uniform score's coverage is the threshold itself
        plain += threshold(scores, Promise(0.8)) < 0.8
    assert missed <= binom.ppf(1 - 1e-4, runs, 0.1)
    assert plain > binom.ppf(1 - 1e-4, runs, 0.1), "which the promise on average does not give"


def grouped(seed: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores that agree within groups of 1 to 8, larger groups having larger scores."""
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(1, 9, (count,), generator=generator)
    centre = torch.rand(count, generator=generator, dtype=torch.float64) + sizes / 8
    groups = torch.repeat_interleave(torch.arange(count), sizes)
    return centre[groups] + 0.01 * torch.rand(len(groups), generator=generator, dtype=torch.float64), groups


@pytest.mark.parametrize("counted", ["sample", "group"])
def test_groups_are_exchangeable_and_their_samples_are_not(counted: str) -> None:
    promise = Promise(0.8, counted=counted)  # type: ignore[arg-type]
    runs, held = 400, 0.0
    for seed in range(runs):
        scores, groups = grouped(seed, 31)
        known, new = groups < 30, groups == 30
        within = scores[new] <= threshold(scores[known], promise, groups[known])
        held += float(within.all()) if counted == "group" else float(within.double().mean())
    assert held / runs >= 0.8 - 3.8 * 0.4 / math.sqrt(runs)
    assert held / runs <= 0.8 + 1 / 31 + 3.8 * 0.4 / math.sqrt(runs)


def test_group_weights_equal_a_slow_loop() -> None:
    scores, groups = grouped(5, 20)
    for coverage in (0.5, 0.8, 0.9, 0.95):
        found = threshold(scores, Promise(coverage), groups)
        slow = min(
            float(t)
            for t in scores
            if sum(float((scores[groups == g] <= t).double().mean()) for g in range(20)) / 21
            >= coverage - 1e-9
        )
        assert found == slow
        largest = sorted(float(scores[groups == g].max()) for g in range(20))
        whole = threshold(scores, Promise(coverage, counted="group"), groups)
        assert whole == largest[math.ceil(21 * coverage - 1e-9) - 1]
    assert threshold(scores, Promise(0.9), torch.full_like(groups, -1)) == threshold(scores, Promise(0.9))
    with pytest.raises(ValueError, match="no such bound"):
        threshold(scores, Promise(0.9, confidence=0.9), groups)


def test_a_promise_for_every_branch() -> None:
    """One branch is hard: the common threshold fails it, its own does not; nor does any label get lost."""
    taxonomy = ragged()
    classes = ClassNodes(taxonomy.leaves, taxonomy)
    hard = taxonomy.find("d")
    n, m, runs = 300, 100, 60
    held, common, total = 0, 0, 0
    for seed in range(runs):
        p = random_probabilities(n + m, len(classes), seed, 3.0)
        clean, noisy = drawn(p, classes, seed + 1), drawn(p, classes, seed + 2, 0.9)
        in_hard = categories_of(noisy, 1, taxonomy) == hard
        labels = torch.where(in_hard, noisy, clean)
        category = categories_of(labels, 1, taxonomy)
        paths = find_paths(p, classes)
        scores = conformal_scores(paths, labels, taxonomy)
        found, rest, pooled = thresholds_by_category(scores[:n], category[:n], Promise(0.8))
        assert not pooled
        bars = bars_of(found, rest, 1, taxonomy)
        answers, _ = paths.cut(bars)
        # no label whose score is within its category's threshold is lost, on any path
        for at, value in found.items():
            inside = (category == at) & (scores <= value)
            assert bool(holds_truth(answers[inside], labels[inside], taxonomy).all())
        rows = torch.arange(n + m) >= n
        rows &= category == hard
        held += int(holds_truth(answers[rows], labels[rows], taxonomy).sum())
        common += int((scores[rows] <= threshold(scores[:n], Promise(0.8))).sum())
        total += int(rows.sum())
    slack = 3.8 * math.sqrt(0.16 / total + 0.16 / (n / 3) / runs)
    assert held / total >= 0.8 - slack
    assert common / total < 0.8 - slack


def test_one_threshold_for_all_categories_is_the_common_one() -> None:
    taxonomy = random_tree(40, 8)
    classes = ClassNodes(taxonomy.leaves, taxonomy)
    paths = find_paths(random_probabilities(50, len(classes), 9), classes)
    for depth in (1, 2, 3):
        same = dict.fromkeys(categories_of(taxonomy.leaves, depth, taxonomy).tolist(), 0.4)
        found = paths.cut(bars_of(same, 0.4, depth, taxonomy))[0]
        assert bool(holds_truth(paths.cut(flat(0.4, taxonomy))[0], found, taxonomy).all())
        # only children are the one difference: a step to one loses no label
        inner = [v for v in range(len(taxonomy)) if len(taxonomy.children(v)) == 1]
        if not inner:
            assert torch.equal(found, paths.cut(flat(0.4, taxonomy))[0])


def test_small_categories_are_pooled() -> None:
    scores = torch.arange(40).double()
    categories = torch.tensor([1] * 3 + [2] * 4 + [3] * 13 + [4] * 20)
    found, rest, pooled = thresholds_by_category(scores, categories, Promise(0.9))
    assert pooled == [1, 2, 3], "1 and 2 together have 7 of the 9 samples that are needed"
    assert found[1] == found[2] == found[3] == rest == threshold(scores[:20], Promise(0.9))
    assert found[4] == threshold(scores[20:], Promise(0.9))


def test_categories_are_as_large_as_their_groups() -> None:
    """Thirty images of two patients promise no more than two patients do."""
    scores, categories = torch.arange(60).double(), torch.tensor([1] * 30 + [2] * 30)
    groups = torch.cat([torch.arange(2).repeat(15), torch.arange(2, 32)])
    found, rest, pooled = thresholds_by_category(scores, categories, Promise(0.9), groups)
    assert pooled == [1, 2]
    assert found[1] == found[2] == rest == threshold(scores, Promise(0.9), groups)
    categories = torch.tensor([1] * 5 + [2] * 5 + [3] * 50)
    same = torch.cat([torch.arange(5), torch.arange(5), torch.arange(5, 55)])
    pooled = thresholds_by_category(scores, categories, Promise(0.9), same)[2]
    assert pooled == [1, 2, 3], "the same five patients in two categories are five"


def test_errors() -> None:
    for wrong in (0.0, 1.0, 1.5, -1):
        with pytest.raises(ValueError, match="coverage"):
            Promise(wrong)
    with pytest.raises(ValueError, match="only the method"):
        Promise(0.9, "threshold", 0.9)
    with pytest.raises(ValueError, match="counted"):
        Promise(0.9, counted="patient")  # type: ignore[arg-type]
    with pytest.raises(TaxonomyError, match="need a tree"):
        categories_of(torch.tensor([1]), 1, diamond())
    assert math.isinf(threshold(torch.zeros(0), Promise(0.9)))
