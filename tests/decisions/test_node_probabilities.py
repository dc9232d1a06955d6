"""Probabilities of nodes, the paths on which samples are answered, and the answers of least cost."""

from functools import cache
from itertools import pairwise

import pytest
import torch
from decision_cases import cases, diamond, is_above, ragged, random_probabilities, random_tree

from labeltree.decisions import (
    METRIC_COSTS,
    ClassNodes,
    TreeCost,
    cheapest,
    cost_matrix,
    expected_costs,
    find_paths,
    finest_classes,
    holds_truth,
    information,
    node_probabilities,
)
from labeltree.metrics.functional import hierarchical_f1
from labeltree.ridge.solution import class_targets
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.label_sets import finest_labels

pytestmark = pytest.mark.slow

CASES = cases()


@pytest.mark.parametrize("classes", CASES)
def test_nodes_sum_the_distinct_classes_below(classes: ClassNodes) -> None:
    p = random_probabilities(7, len(classes), 3)
    found = classes.node_probabilities(p)
    for node in range(classes.taxonomy.num_nodes):
        below = [i for i, c in enumerate(classes.nodes.tolist()) if is_above(classes.taxonomy, node, c)]
        torch.testing.assert_close(found[:, node], p[:, below].sum(1), rtol=1e-13, atol=1e-15)
        assert int(classes.counts[node]) == len(below)
    torch.testing.assert_close(found[:, 0], torch.ones(7, dtype=torch.float64))
    assert torch.equal(found, node_probabilities(p, classes.nodes, classes.taxonomy))


@pytest.mark.parametrize("classes", CASES)
@pytest.mark.parametrize("descent", ["child", "leaf"])
def test_paths_go_down_edges_and_never_rise(classes: ClassNodes, descent: str) -> None:
    taxonomy, p = classes.taxonomy, random_probabilities(30, len(classes), 5)
    paths = find_paths(p, classes, descent)  # type: ignore[arg-type]
    of_nodes = classes.node_probabilities(p)
    for row, (nodes, probabilities) in enumerate(zip(paths.nodes.tolist(), paths.probabilities, strict=True)):
        chain = [node for node in nodes if node >= 0]
        assert chain[0] == 0
        assert nodes[len(chain) :] == [-1] * (len(nodes) - len(chain))
        for above, node in pairwise(chain):
            assert node in taxonomy.children(above)
        assert (probabilities.diff() <= 0).all()
        torch.testing.assert_close(probabilities[: len(chain)], of_nodes[row, chain])
        assert int(classes.place[chain[-1]]) >= 0, "the end of a path is a class"
        if descent == "leaf":
            assert chain[-1] == int(classes.nodes[p[row].argmax()])
            continue
        for above, node in pairwise(chain):
            best = max(float(of_nodes[row, child]) for child in taxonomy.children(above))
            assert float(of_nodes[row, node]) == best
            own = int(classes.place[above])
            assert own < 0 or float(p[row, own]) < best


def test_a_path_stays_at_a_class_that_is_likelier_than_its_children() -> None:
    taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish",)])
    classes = ClassNodes(taxonomy.encode(["mammal", "dog", "cat", "fish"]), taxonomy)
    paths = find_paths(torch.tensor([[0.5, 0.2, 0.1, 0.2], [0.2, 0.3, 0.2, 0.3]]), classes)
    assert taxonomy.decode(paths.ends) == ["mammal", "mammal/dog"]


def test_cutting_is_the_deepest_node_that_is_likely_enough() -> None:
    taxonomy = random_tree(60, 4)
    classes = ClassNodes(taxonomy.leaves, taxonomy)
    p = random_probabilities(50, len(classes), 6, 3.0)
    of_nodes = classes.node_probabilities(p)
    bars = torch.full((taxonomy.num_nodes,), 0.6, dtype=torch.float64)
    nodes, certain = find_paths(p, classes).cut(bars)
    for row in range(50):
        likely = [v for v in range(taxonomy.num_nodes) if v == 0 or float(of_nodes[row, v]) > 0.6]
        deepest = max(likely, key=lambda v: int(taxonomy.depth[v]))
        assert int(nodes[row]) == deepest
        assert float(certain[row]) == pytest.approx(float(of_nodes[row, deepest]))


@cache
def compared(classes: ClassNodes) -> dict[tuple[int, int], tuple[dict[str, float], bool]]:
    """Of every answer and class, by place: how far apart they are, and whether the answer holds the class."""
    taxonomy, found = classes.taxonomy, {}
    for answer in range(taxonomy.num_nodes):
        for place, truth in enumerate(classes.nodes.tolist()):
            height = int(taxonomy.height[int(taxonomy.lca(answer, truth))]) / taxonomy.max_height
            distances = {"height": height, "edges": float(taxonomy.path_length(answer, truth))}
            sets = [{*taxonomy.ancestors_of(node), node} for node in (answer, truth)]
            common, both = len(sets[0] & sets[1]), len(sets[0]) + len(sets[1])
            distances["top1"] = float(answer != truth)
            distances["hierarchical_f1"] = 1 - 2 * (common - 1) / (both - 2)
            distances["wu_palmer"] = 1 - 2 * common / both
            found[answer, place] = distances, is_above(taxonomy, answer, truth)
    return found


@pytest.mark.parametrize("classes", CASES)
@pytest.mark.parametrize(
    "cost",
    [
        TreeCost(), TreeCost("height", 1), TreeCost("height", 0.2), TreeCost("edges"), TreeCost("edges", 0.3),
        TreeCost("top1"), TreeCost("top1", 0.4), TreeCost("hierarchical_f1"), TreeCost("wu_palmer"),
        TreeCost("hierarchical_f1", 0.7), TreeCost("wu_palmer", 0.7),
    ],
)  # fmt: skip
def test_expected_costs_equal_the_sum_over_classes(classes: ClassNodes, cost: TreeCost) -> None:
    p = random_probabilities(11, len(classes), 8)
    found = expected_costs(p, classes, cost)
    slow = torch.zeros_like(found)
    for (answer, place), (distances, above) in compared(classes).items():
        slow[:, answer] += p[:, place] * (distances[cost.distance] * (cost.share if above else 1))
    torch.testing.assert_close(found, slow, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(expected_costs(p, classes, cost_matrix(classes, cost)), slow)
    nodes, least = cheapest(p, classes, cost)
    answered = classes.counts > 0
    torch.testing.assert_close(least, slow[:, answered].min(1).values, rtol=1e-12, atol=1e-12)
    assert bool(answered[nodes].all())


@pytest.mark.parametrize("metric", METRIC_COSTS)
def test_no_answer_has_a_better_expected_metric(metric: str) -> None:
    """The metrics are those of `metrics.functional`, not of the costs."""
    taxonomy = random_tree(40, 1)
    classes = ClassNodes(taxonomy.leaves, taxonomy)
    p = random_probabilities(30, len(classes), 5)
    every = torch.arange(taxonomy.num_nodes).repeat_interleave(len(classes))
    truth = classes.nodes.repeat(taxonomy.num_nodes)
    values = {
        "top1": lambda: (every == truth).double(),
        "hierarchical_f1": lambda: hierarchical_f1(every, truth, taxonomy, reduction="none"),
        "tree_distance": lambda: -taxonomy.path_length(every, truth).double(),
        "wu_palmer": lambda: hierarchical_f1(every, truth, taxonomy, True, reduction="none"),
    }[metric]()
    expected = p @ values.reshape(taxonomy.num_nodes, len(classes)).T
    nodes, _ = cheapest(p, classes, METRIC_COSTS[metric])  # type: ignore[index]
    torch.testing.assert_close(expected.gather(1, nodes[:, None])[:, 0], expected.max(1).values)


def test_what_right_but_coarse_answers_cost_decides_how_fine_they_are() -> None:
    taxonomy = ragged()
    classes = ClassNodes(taxonomy.leaves, taxonomy)
    p = random_probabilities(40, len(classes), 2)
    assert bool((cheapest(p, classes, TreeCost("height", 0))[0] == 0).all())
    assert bool(taxonomy.is_leaf[cheapest(p, classes, TreeCost("height", 1))[0]].all())
    said = [
        float(information(cheapest(p, classes, TreeCost("height", w))[0], taxonomy).mean())
        for w in (0.2, 0.4, 0.6, 0.8)
    ]
    assert said == sorted(said)
    assert said[0] < said[-1]


def test_a_step_is_worth_an_edge_if_it_is_right_more_often_than_not() -> None:
    taxonomy = random_tree(50, 9)
    classes = ClassNodes(taxonomy.leaves, taxonomy)
    p = random_probabilities(60, len(classes), 1, 3.0)
    halves = torch.full((taxonomy.num_nodes,), 0.5, dtype=torch.float64)
    assert torch.equal(cheapest(p, classes, TreeCost("edges"))[0], find_paths(p, classes).cut(halves)[0])


def test_information_and_truth() -> None:
    taxonomy = ragged()
    nodes = taxonomy.encode(["/", "a", "a/b", "g"])
    expected = torch.tensor([0.0, 1 - torch.log(torch.tensor(3.0)) / torch.log(torch.tensor(7.0)), 0, 1])
    expected[2] = 1 - torch.log(torch.tensor(2.0)) / torch.log(torch.tensor(7.0))
    torch.testing.assert_close(information(nodes, taxonomy), expected.double(), rtol=1e-6, atol=1e-6)
    dag = diamond()
    for answer in range(len(dag)):
        for label in range(len(dag)):
            held = holds_truth(torch.tensor([answer]), torch.tensor([label]), dag)
            assert bool(held) == is_above(dag, answer, label)


def test_finest_classes() -> None:
    taxonomy = ragged()
    labels = taxonomy.encode(["a/b", "a/b/x", "d", "g", None, "/", "a/b/x"])
    assert taxonomy.decode(finest_classes(labels, taxonomy)) == ["a/b/x", "d", "g"]
    assert (
        finest_labels(labels, taxonomy).nonzero()[:, 0].tolist() == finest_classes(labels, taxonomy).tolist()
    )
    assert torch.equal(class_targets(labels[:, None], taxonomy)[0], finest_classes(labels, taxonomy))


@pytest.mark.parametrize(
    ("p", "what"), [([[0.5, 0.6]], "sum to 1"), ([[-0.1, 0.5]], "at least 0"), ([[1.0]], "a column")]
)
def test_what_is_no_probability(p: list[list[float]], what: str) -> None:
    taxonomy = Taxonomy.from_paths(["a", "b"])
    with pytest.raises(ValueError, match=what):
        ClassNodes(taxonomy.leaves, taxonomy).node_probabilities(torch.tensor(p))


@pytest.mark.parametrize("nodes", [[], [1, 1], [-1, 2], [1, 9]])
def test_what_is_no_class(nodes: list[int]) -> None:
    with pytest.raises(ValueError, match="classes"):
        ClassNodes(torch.tensor(nodes, dtype=torch.int64), Taxonomy.from_paths(["a", "b"]))
