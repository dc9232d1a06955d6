"""Calibrators are optima and change what they should; calibration by depth equals a slow loop."""

import dataclasses
import math

import pytest
import torch
from decision_cases import cases, diamond, is_above, ragged, random_probabilities, random_tree

from labeltree.decisions import (
    CALIBRATIONS,
    Calibrator,
    ClassNodes,
    DecisionRule,
    calibration_by_depth,
    expected_calibration_error,
    fit_calibrator,
    fit_rule,
)
from labeltree.decisions.calibration_check import check_calibration
from labeltree.errors import TaxonomyError
from labeltree.inference.calibration_text import calibration_text
from labeltree.taxonomy import Taxonomy
from sweeps import some_now

pytestmark = pytest.mark.slow

CASES = cases()
TREES = [classes for classes in CASES if isinstance(classes.taxonomy, Taxonomy)]


def nll(log_p: torch.Tensor, labels: torch.Tensor, classes: ClassNodes) -> float:
    total = 0.0
    for row, label in zip(log_p.exp(), labels.tolist(), strict=True):
        below = [i for i, c in enumerate(classes.nodes.tolist()) if is_above(classes.taxonomy, label, c)]
        total -= math.log(float(row[below].sum()))
    return total / len(labels)


def too_sure(classes: ClassNodes, factor: float, n: int = 300) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores `factor` times too sharp, and labels from what they should have been; every sixth is coarse."""
    p = random_probabilities(n, len(classes), 3)
    places = torch.multinomial(p, 1, generator=torch.Generator().manual_seed(4))[:, 0]
    labels = classes.nodes[places]
    for row in range(0, n, 6):
        above = classes.taxonomy.ancestors_of(int(labels[row]))
        labels[row] = above[len(above) // 2] if above else labels[row]
    return factor * p.log(), labels


@pytest.mark.parametrize("classes", CASES)
@pytest.mark.parametrize("kind", CALIBRATIONS)
def test_calibrated_rows_are_distributions_and_fit_better(classes: ClassNodes, kind: str) -> None:
    if kind == "depth" and not isinstance(classes.taxonomy, Taxonomy):
        pytest.skip("needs a tree")
    scores, labels = too_sure(classes, 3.0)
    fitted = fit_calibrator(scores, labels, classes, kind)  # type: ignore[arg-type]
    found = fitted(scores, classes)
    torch.testing.assert_close(found.logsumexp(1), torch.zeros(300, dtype=torch.float64), atol=1e-12, rtol=0)
    before = nll(torch.log_softmax(scores, 1), labels, classes)
    assert nll(found, labels, classes) <= before - (0.0 if kind == "none" else 0.05)
    assert fit_calibrator(scores, labels, classes, kind) == fitted  # type: ignore[arg-type]
    moved = scores + torch.linspace(-5, 5, 300)[:, None]
    torch.testing.assert_close(fitted(moved, classes), found, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("classes", CASES)
def test_the_temperature_is_the_most_likely_one(classes: ClassNodes) -> None:
    scores, labels = too_sure(classes, 3.0)
    (best,) = fit_calibrator(scores, labels, classes, "temperature").temperatures
    assert 2.0 < best < 4.5
    at = {t: nll(torch.log_softmax(scores / t, 1), labels, classes) for t in (best / 1.01, best, best * 1.01)}
    assert min(at, key=lambda t: at[t]) == best


@pytest.mark.parametrize("kind", ["temperature", "depth"])
@pytest.mark.parametrize("sharpness", [0.1, 3.0, 300.0])
def test_samples_that_are_all_right_do_not_prove_certainty(kind: str, sharpness: float) -> None:
    """36 of 36 say that some 37 of 38 are; one wrong answer, and the likeliest temperature counts again."""
    tree = Taxonomy.from_paths([(a, a + b) for a in "xyz" for b in "12"])
    classes = ClassNodes(tree.leaves, tree)
    places = torch.arange(36) % 6
    generator = torch.Generator().manual_seed(0)
    noise = torch.rand(36, 6, generator=generator, dtype=torch.float64)
    scores = sharpness * (2.0 * torch.nn.functional.one_hot(places, 6) + noise)
    assert bool((scores.argmax(1) == places).all())
    fitted = fit_calibrator(scores, classes.nodes[places], classes, kind)  # type: ignore[arg-type]
    p = fitted(scores, classes).exp()
    assert 0.93 < float(p.gather(1, places[:, None]).mean()) < 0.99
    places[0] = (places[0] + 3) % 6
    wrong = fit_calibrator(scores, classes.nodes[places], classes, kind)  # type: ignore[arg-type]
    assert 0.9 < float(wrong(scores, classes).exp().amax(1).mean()) < 0.99


@pytest.mark.parametrize("kind", ["temperature", "depth"])
@pytest.mark.parametrize("far", [20.0, 1000.0, torch.inf])
def test_classes_that_are_far_off_do_not_make_right_answers_unsure(kind: str, far: float) -> None:
    """Nor do they where all of them are beyond doubt but a sibling."""
    tree = Taxonomy.from_paths([(a, a + b) for a in "vwxyz" for b in "12"])
    classes = ClassNodes(tree.leaves, tree)
    places = torch.arange(50) % 10
    scores = torch.full((50, 10), -far, dtype=torch.float64)
    scores.scatter_(1, (places ^ 1)[:, None], -10.0).scatter_(1, places[:, None], 0.0)
    fitted = fit_calibrator(scores, classes.nodes[places], classes, kind)  # type: ignore[arg-type]
    assert 0.95 < float(fitted(scores, classes).exp().gather(1, places[:, None]).mean()) < 0.999


@pytest.mark.parametrize("classes", TREES)
def test_temperatures_by_depth_change_the_steps_of_their_depth_alone(classes: ClassNodes) -> None:
    tree = classes.taxonomy
    p = random_probabilities(20, len(classes), 6)
    for depth in range(1, tree.max_depth + 1):
        temperatures = [1.0] * (tree.max_depth + 1)
        temperatures[depth - 1] = 2.0
        found = Calibrator("depth", tuple(temperatures))(p.log(), classes).exp()
        for row in range(0, 20, 7):
            assert found[row].tolist() == pytest.approx(slowly_tempered(p[row], temperatures, classes))
    ones = Calibrator("depth", (1.0,) * (tree.max_depth + 1))(p.log(), classes)
    torch.testing.assert_close(ones, p.log(), rtol=1e-10, atol=1e-10)


def slowly_tempered(p: torch.Tensor, temperatures: list[float], classes: ClassNodes) -> list[float]:
    """The product of the tempered steps on the way to each class; staying at an inner class is a step too."""
    tree = classes.taxonomy
    found = []
    for place, node in enumerate(classes.nodes.tolist()):
        total = 1.0
        way = [*tree.ancestors_of(node), node]
        for at, v in enumerate(way):
            options = {
                child: sum(
                    float(p[i]) for i, c in enumerate(classes.nodes.tolist()) if is_above(tree, child, c)
                )
                for child in tree.children(v)
            }
            if v in classes.nodes.tolist():
                options[-1] = float(p[classes.nodes.tolist().index(v)])
            options = {key: value for key, value in options.items() if value > 0}
            taken = way[at + 1] if at + 1 < len(way) else -1
            if v == node and list(options) == [-1]:
                continue
            powers = {k: (m / sum(options.values())) ** (1 / temperatures[at]) for k, m in options.items()}
            total *= powers[taken] / sum(powers.values())
        found.append(total)
        assert place < len(classes)
    return found


def test_temperatures_by_depth_are_the_most_likely_ones() -> None:
    """A coarse depth that is too sure and a fine one that is not sure enough are told apart."""
    tree = Taxonomy.from_paths([(a, b) for a in "abcd" for b in "wxyz"])
    classes = ClassNodes(tree.leaves, tree)
    p = random_probabilities(3000, 16, 1, 1.5)
    labels = classes.nodes[torch.multinomial(p, 1, generator=torch.Generator().manual_seed(2))[:, 0]]
    wrong = Calibrator("depth", (1 / 3, 2.0, 1.0))(p.log(), classes)
    fitted = fit_calibrator(wrong, labels, classes, "depth")
    assert fitted.temperatures[0] == pytest.approx(3.0, rel=0.15)
    assert fitted.temperatures[1] == pytest.approx(0.5, rel=0.15)
    assert fitted.temperatures[2] == 1.0
    one = fit_calibrator(wrong, labels, classes, "temperature")
    assert nll(fitted(wrong, classes), labels, classes) < nll(one(wrong, classes), labels, classes)


def test_vectors_mend_single_classes() -> None:
    tree = Taxonomy.from_paths(list("abcde"))
    classes = ClassNodes(tree.leaves, tree)
    p = random_probabilities(2000, 5, 1)
    labels = classes.nodes[torch.multinomial(p, 1, generator=torch.Generator().manual_seed(2))[:, 0]]
    tilted = p.log() + torch.tensor([2.0, 0, 0, 0, -2.0])
    fitted = fit_calibrator(tilted, labels, classes, "vector")
    assert fitted.offsets[0] - fitted.offsets[4] == pytest.approx(-4.0, abs=0.5)
    one = fit_calibrator(tilted, labels, classes, "temperature")
    assert nll(fitted(tilted, classes), labels, classes) < nll(one(tilted, classes), labels, classes) - 0.1


def test_samples_that_say_nothing() -> None:
    classes = ClassNodes(ragged().leaves[:2], ragged())
    nothing = torch.tensor([-1, -1, ragged().find("g")])
    scores = random_probabilities(3, 2, 1).log()
    for kind in ("temperature", "vector"):
        assert fit_calibrator(scores, nothing, classes, kind) == Calibrator()  # type: ignore[arg-type]
    assert set(fit_calibrator(scores, nothing, classes, "depth").temperatures) == {1.0}
    with pytest.raises(ValueError, match="one of 'none', 'temperature'"):
        fit_calibrator(scores, nothing, classes, "platt")  # type: ignore[arg-type]
    with pytest.raises(TaxonomyError, match="need a tree"):
        fit_calibrator(
            torch.zeros(1, 5), torch.tensor([1]), ClassNodes(diamond().leaves[:5], diamond()), "depth"
        )


@pytest.mark.parametrize("classes", TREES)
def test_calibration_by_depth_equals_a_slow_loop(classes: ClassNodes) -> None:
    tree = classes.taxonomy
    assert isinstance(tree, Taxonomy)
    scores, labels = too_sure(classes, 2.0, 60)
    labels[::7] = -1
    of_nodes = classes.node_probabilities(torch.softmax(scores, 1))
    found = calibration_by_depth(of_nodes, labels, tree, bins=4)
    assert len(found) == tree.max_depth
    for depth, here in enumerate(found, start=1):
        nodes = [v for v in range(1, len(tree)) if at_depth(tree, v, depth)]
        confidence, right, brier, loss = [], [], [], []
        for p, label in zip(of_nodes, labels.tolist(), strict=True):
            truth = [v for v in nodes if label >= 0 and is_above(tree, v, label)]
            if not truth:
                continue
            best = max(nodes, key=lambda v: (float(p[v]), -v))
            confidence.append(float(p[best]))
            right.append(best == truth[0])
            brier.append(sum((float(p[v]) - (v == truth[0])) ** 2 for v in nodes))
            loss.append(-math.log(max(float(p[truth[0]]), 1e-300)))
        assert here.samples == len(right)
        assert here.accuracy == pytest.approx(sum(right) / len(right))
        assert here.confidence == pytest.approx(sum(confidence) / len(right))
        assert here.brier == pytest.approx(sum(brier) / len(right), rel=1e-12)
        assert here.nll == pytest.approx(sum(loss) / len(right), rel=1e-12)
        assert here.error == pytest.approx(slow_error(confidence, right, 4), abs=1e-12)
        assert int(here.curve.count.sum()) == len(right)


def at_depth(tree: Taxonomy, node: int, depth: int) -> bool:
    return int(tree.depth[node]) == depth or (bool(tree.is_leaf[node]) and int(tree.depth[node]) < depth)


def slow_error(confidence: list[float], right: list[bool], bins: int) -> float:
    order = sorted(range(len(right)), key=lambda i: confidence[i])
    members: dict[int, list[int]] = {}
    for i in order:
        first = min(place for place, j in enumerate(order) if confidence[j] == confidence[i])
        members.setdefault(first * min(bins, len(right)) // len(right), []).append(i)
    gaps = [abs(sum(right[i] - confidence[i] for i in rows)) for rows in members.values()]
    return sum(gaps) / len(right)


@pytest.mark.parametrize(("n", "bins"), some_now([(30, 15), (400, 15), (50, 4)]))
def test_the_error_by_chance_is_that_of_perfectly_calibrated_answers(n: int, bins: int) -> None:
    """0.2 on 30 samples in 15 bins: that error says nothing against a classifier."""
    generator = torch.Generator().manual_seed(0)
    confidence = torch.rand(n, generator=generator).double().sqrt()
    curve = expected_calibration_error(confidence, confidence > 0, bins)
    errors = [
        expected_calibration_error(confidence, torch.rand(n, generator=generator) < confidence, bins).error
        for _ in range(2000)
    ]
    drawn = sum(errors) / len(errors)
    assert curve.by_chance == pytest.approx(drawn, rel=0.03 if n > 30 else 0.05)
    if n == 30:
        assert 0.15 < drawn < 0.3


def test_the_error_by_chance_at_its_ends() -> None:
    sure = torch.ones(5, dtype=torch.float64)
    assert expected_calibration_error(sure, sure.bool(), 3).by_chance == 0
    assert expected_calibration_error(0 * sure, sure.bool(), 3).by_chance == 0
    half = expected_calibration_error(sure[:1] / 2, sure[:1].bool(), 3)
    assert half.by_chance == pytest.approx(0.5)
    assert math.isnan(expected_calibration_error(sure[:0], sure[:0].bool()).by_chance)


def test_ties_and_order_do_not_matter_to_the_error() -> None:
    confidence = torch.tensor([0.5, 0.7, 0.7, 0.7, 0.9, 0.9], dtype=torch.float64)
    correct = torch.tensor([1, 0, 1, 1, 1, 0]).bool()
    found = expected_calibration_error(confidence, correct, bins=3)
    assert found.count.tolist() == [4, 2], "the tie of three begins in the first of three bins"
    assert found.error == pytest.approx((abs(3 - 2.6) + abs(1 - 1.8)) / 6)
    shuffled = torch.randperm(6, generator=torch.Generator().manual_seed(0))
    again = expected_calibration_error(confidence[shuffled], correct[shuffled], bins=3)
    assert again.error == pytest.approx(found.error, rel=1e-15)
    sizes = expected_calibration_error(torch.linspace(0.1, 0.9, 23), torch.ones(23).bool(), 5).count
    assert int(sizes.max() - sizes.min()) <= 1
    assert math.isnan(
        calibration_by_depth(torch.ones(1, len(ragged())), torch.tensor([-1]), ragged())[0].error
    )


def test_a_classifier_that_knows_is_calibrated_at_every_depth() -> None:
    tree = random_tree(40, 1)
    classes = ClassNodes(tree.leaves, tree)
    p = random_probabilities(20_000, len(classes), 5)
    labels = classes.nodes[torch.multinomial(p, 1, generator=torch.Generator().manual_seed(6))[:, 0]]
    for here in calibration_by_depth(classes.node_probabilities(p), labels, tree):
        assert here.error < 0.02
    worse = torch.softmax(3 * p.log(), 1)
    assert calibration_by_depth(classes.node_probabilities(worse), labels, tree)[-1].error > 0.1


def one_branch(extra: bool) -> ClassNodes:
    """Classes below one node of depth 1, which is the only one there is, or one of two."""
    paths = [("life", "cat", "tabby"), ("life", "cat", "manx"), ("life", "dog", "pug")]
    tree = Taxonomy.from_paths([*paths, ("stone", "flint", "grey")] if extra else paths)
    return ClassNodes(tree.encode(["tabby", "manx", "pug"]), tree)


@pytest.mark.parametrize("extra", [False, True])
def test_nothing_is_defined_where_all_classes_share_one_node(extra: bool) -> None:
    classes = one_branch(extra)
    scores, labels = too_sure(classes, 2.0, 300)
    of_nodes = classes.node_probabilities(torch.softmax(scores, 1))
    assert isinstance(classes.taxonomy, Taxonomy)
    first, second, third = calibration_by_depth(of_nodes, labels, classes.taxonomy, classes=classes.nodes)
    numbers = [first.accuracy, first.confidence, first.error, first.brier, first.nll, first.curve.error]
    assert all(math.isnan(number) for number in numbers)
    assert first.samples == 300
    assert len(first.curve.count) == 0
    assert 0 < second.error < 1
    assert 0 < third.error < 1
    check = check_calibration(scores, labels, classes, "temperature")
    assert math.isnan(check.before[0].error)
    assert check.errors[0] == pytest.approx((check.before[1].error + check.before[2].error) / 2)
    if not extra:  # then the tree says it, also to whoever does not name the classes
        assert math.isnan(calibration_by_depth(of_nodes, labels, classes.taxonomy)[0].error)


def summary(rule: DecisionRule) -> str:
    """What a calibration prints."""
    assert rule.check is not None
    columns = {
        name: {key: [getattr(here, key) for here in depths] for key in ("accuracy", "error")}
        for name, depths in (("before", rule.check.before), ("after", rule.check.after))
    }
    record = {
        "classifier_choice": {"sentence": ""},
        "calibration_check": {"sentence": ""},
        "calibrated_on": "val",
        "calibration_by_depth": columns,
    }
    return calibration_text(rule, record, "Promises rest on something.")


def test_a_calibration_shows_why_a_depth_has_no_number() -> None:
    classes = one_branch(True)
    scores, labels = too_sure(classes, 2.0, 300)
    text = summary(fit_rule(scores, labels, classes))
    row = next(line for line in text.splitlines() if line.startswith("1 "))
    assert row.split() == ["1", "–", "–", "–", "–"]
    assert "All classes lie at or below 'life'" in text
    assert "at depth 1 are not defined, for nothing can be wrong there" in text


def test_what_is_not_applied_is_not_shown_as_done() -> None:
    classes = CASES[0]
    scores, labels = too_sure(classes, 2.0, 300)
    rule = fit_rule(scores, labels, classes)
    assert rule.check is not None
    for applied, head in ((True, "before       after"), (False, "before  if applied")):
        check = dataclasses.replace(rule.check, applied=applied)
        assert head in summary(dataclasses.replace(rule, check=check))


def test_one_class_is_calibrated_by_nothing() -> None:
    tree = one_branch(True).taxonomy
    only = ClassNodes(tree.leaves[:1], tree)
    check = check_calibration(torch.randn(60, 1), only.nodes.repeat(60), only, "temperature")
    assert not check.applied
    assert "all samples are of one class or group" in check.sentence
    assert "fewer than" not in check.sentence
