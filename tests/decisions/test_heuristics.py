"""Rules of answering that others use, by loops; their areas under the risk–coverage curve as published."""

import math

import numpy as np
import pytest
import torch
from decision_cases import cases, diamond, is_above, random_probabilities, random_tree
from torch import Tensor

from labeltree.decisions import ClassNodes, Paths, find_paths, holds_truth, information
from labeltree.decisions.heuristics import (
    jumping_paths,
    most_informative_paths,
    plurality,
    rewarded,
    selective_paths,
)
from labeltree.metrics.functional import h_aurc, risk_coverage_curve
from labeltree.metrics.functional.risk_coverage import ThresholdedAnswers, thresholded
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["a/b/1", "a/b/2", "a/b/3", "a/c/4", "a/c/5", "d/e/6", "d/e/7", "d/f/8", "g"])
LEAVES = ClassNodes(TREE.leaves, TREE)
RULES = {
    "selective": selective_paths,
    "climbing": lambda p, classes: find_paths(p, classes, "leaf"),
    "jumping": jumping_paths,
    "most informative": most_informative_paths,
    "child": find_paths,
}
# of the rules in the code of Goren et al., run once on `published_case` with its thresholds unrounded
PUBLISHED = {
    "selective": 0.05163194378,
    "climbing": 0.13487950621,
    "jumping": 0.22165781023,
    "most informative": 0.20980308527,
}


def published_case() -> tuple[Tensor, Tensor]:
    rows, columns = torch.arange(120)[:, None], torch.arange(9)[None]
    truth = torch.arange(120) * 4 % 9
    weight = ((rows * 7 + columns * 5 + rows * columns * 3) % 23 + 1).double()
    weight += 30 * (columns == truth[:, None]) * (rows % 3 > 0)
    p = torch.floor(weight / weight.sum(1, keepdim=True) * 1024)
    p[:, 0] += 1024 - p.sum(1)
    return p / 1024, TREE.leaves[truth]


@pytest.mark.parametrize("rule", PUBLISHED)
def test_areas_are_the_published_ones(rule: str) -> None:
    p, truth = published_case()
    paths = RULES[rule](p, LEAVES)
    assert float(h_aurc(paths.nodes, paths.probabilities, truth, TREE)) == pytest.approx(
        PUBLISHED[rule], abs=1e-6
    )


def answer_at(paths: Paths, threshold: float) -> Tensor:
    """The last answer of each sample whose probability reaches the threshold, by a loop."""
    answers = []
    for nodes, probabilities in zip(paths.nodes.tolist(), paths.probabilities.tolist(), strict=True):
        answer = nodes[0]
        for node, p in zip(nodes, probabilities, strict=True):
            if node >= 0 and p >= threshold:
                answer = node
        answers.append(answer)
    return torch.tensor(answers)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("classes", [LEAVES, ClassNodes(random_tree(30, 3).leaves, random_tree(30, 3))])
def test_curves_are_those_of_a_loop(rule: str, classes: ClassNodes) -> None:
    tree = classes.taxonomy
    p = random_probabilities(40, len(classes), 1)
    truth = classes.nodes[torch.multinomial(p, 1, generator=torch.Generator().manual_seed(0))[:, 0]]
    paths = RULES[rule](p, classes)
    curve = risk_coverage_curve(paths.nodes, paths.probabilities, truth, tree)
    points = []
    for threshold in curve["threshold"].tolist():
        answers = answer_at(paths, threshold)
        points.append(
            (information(answers, tree).mean(), 1 - holds_truth(answers, truth, tree).double().mean())
        )
    coverage, risk = (torch.stack(part) for part in zip(*points, strict=True))
    torch.testing.assert_close(curve["coverage"], coverage)
    torch.testing.assert_close(curve["risk"], risk)
    order = np.argsort(coverage.numpy(), kind="stable")
    widths, heights = np.diff(coverage.numpy()[order]), risk.numpy()[order]
    area = (widths * (heights[1:] + heights[:-1]) / 2).sum()
    assert float(h_aurc(paths.nodes, paths.probabilities, truth, tree)) == pytest.approx(float(area))
    # a count of a sample is as many copies of it
    counts = torch.randint(0, 3, (40,), generator=torch.Generator().manual_seed(5))
    copies = torch.arange(40).repeat_interleave(counts)
    answers = ThresholdedAnswers(**thresholded(paths.nodes, paths.probabilities, truth, tree))
    area_of_counts = answers.area(counts.double().numpy()[:, None])
    of_copies = h_aurc(paths.nodes[copies], paths.probabilities[copies], truth[copies], tree)
    assert float(area_of_counts[0]) == pytest.approx(float(of_copies))


@pytest.mark.parametrize("classes", cases())
def test_the_most_informative_node_by_a_loop(classes: ClassNodes) -> None:
    p = random_probabilities(15, len(classes), 4)
    of_nodes, said = (
        classes.node_probabilities(p),
        information(torch.arange(classes.taxonomy.num_nodes), classes.taxonomy),
    )
    paths = most_informative_paths(p, classes)
    for threshold in (0.9, 0.5, 0.2, 0.0):
        for row, answer in enumerate(answer_at(paths, threshold).tolist()):
            known = (classes.counts > 0) & (of_nodes[row] >= threshold)
            if not bool(known.any()):
                continue  # probabilities that round to less than 1
            best = float(said[known].max())
            assert float(said[answer]) == pytest.approx(best)
            likely = of_nodes[row][known & (said >= best - 1e-12)].max()
            assert float(of_nodes[row, answer]) == pytest.approx(float(likely))


@pytest.mark.parametrize("classes", [case for case in cases() if isinstance(case.taxonomy, Taxonomy)])
def test_plurality_by_a_loop(classes: ClassNodes) -> None:
    tree = classes.taxonomy
    p = random_probabilities(25, len(classes), 6)
    of_nodes = classes.node_probabilities(p)
    for row, answer in enumerate(plurality(p, classes).tolist()):
        finest = 0
        for node in range(tree.num_nodes):
            beside = [
                float(of_nodes[row, other])
                for other in range(tree.num_nodes)
                if not is_above(tree, node, other) and not is_above(tree, other, node)
            ]
            if classes.counts[node] and float(of_nodes[row, node]) >= max(beside, default=0.0):
                finest = max(finest, int(tree.depth[node]))
        assert int(tree.depth[answer]) == finest


def test_a_reward_makes_answers_coarser() -> None:
    p = random_probabilities(50, 9, 3)
    said = [float(information(rewarded(p, LEAVES, extra), TREE).mean()) for extra in (0, 0.5, 2, 1e6)]
    assert said == sorted(said, reverse=True)
    assert said[-1] == 0
    of_nodes, each = LEAVES.node_probabilities(p), information(torch.arange(len(TREE)), TREE)
    assert torch.equal(rewarded(p, LEAVES), (of_nodes * each).argmax(1))


def test_bad_input_to_curves() -> None:
    nodes, rising = torch.tensor([[0, 1]]), torch.tensor([[0.5, 0.75]])
    with pytest.raises(ValueError, match="must not rise"):
        h_aurc(nodes, rising, torch.tensor([2]), TREE)
    with pytest.raises(ValueError, match="expected \\(n, D\\) of both"):
        h_aurc(nodes, rising[:, :1], torch.tensor([2]), TREE)
    assert math.isnan(h_aurc(nodes, rising.flip(1), torch.tensor([-1]), TREE))
    with pytest.raises(Exception, match="tree"):
        jumping_paths(torch.full((1, len(diamond().leaves)), 0.1), ClassNodes(diamond().leaves, diamond()))
