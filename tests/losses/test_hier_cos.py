"""Hier-COS: published figures, a slow loop, labels of any depth, answers of every depth, a large tree."""

import json
from pathlib import Path

import pytest
import torch
from slow_classifiers import below, labelled_mean, line
from slow_classifiers import same_value_and_gradient as same
from slow_losses import even_tree, random_batch, random_tree

from labeltree.errors import TaxonomyError
from labeltree.losses import HierCOSLoss
from labeltree.taxonomy import Taxonomy, TaxonomyDAG

TREES = [random_tree(seed) for seed in range(5)] + [even_tree(2, 3), even_tree(3, 2, 2), even_tree(4)]
CASES = json.loads((Path(__file__).parent / "oracles" / "hier_cos.json").read_text())["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"alpha {case['inputs']['alpha']}")
def test_published_figures(case):
    inputs, expected = case["inputs"], case["expected"]
    paths = [tuple(path) for path in inputs["paths"]]
    tree = Taxonomy.from_paths(paths)
    nodes = tree.encode(paths)[inputs["labels"]]
    i = torch.tensor(inputs["rows"], dtype=torch.float64)[:, None]
    j = torch.arange(len(tree) - 1, dtype=torch.float64)
    x = (2 * torch.sin(1.7 * i + 2.3 * j + 0.4 * i * j)).requires_grad_()
    loss = HierCOSLoss(tree, alpha=inputs["alpha"])
    value = loss(x, nodes)
    value.backward()
    assert value.item() == pytest.approx(expected["loss"], rel=1e-10)
    torch.testing.assert_close(x.grad, torch.tensor(expected["grad"], dtype=torch.float64))
    scores = torch.tensor(expected["scores"], dtype=torch.float64)
    torch.testing.assert_close(loss.logits(x), scores[:, loss.classes - 1])
    answers = loss.predict_depths(x).T
    for depth, answer in enumerate(answers, start=1):
        at = ((tree.depth == depth) | (tree.is_leaf & (tree.depth < depth))).nonzero()[:, 0]
        assert torch.equal(answer, at[scores[:, at - 1].argmax(1)])


def slow_loss(tree, x, nodes, alpha):
    total = []
    for row, node in zip(x, nodes.tolist(), strict=True):
        path = line(tree, node)[1:] if node >= 0 else []
        weights = torch.exp(1 / torch.arange(len(path), 0, -1, dtype=torch.float64))
        q = (weights / weights.norm()) ** 2
        undecided = set(below(tree, node)) - {node} if node > 0 else set()
        counted = sum(row[v - 1].abs().exp() for v in range(1, len(tree)) if v not in undecided)
        shares = zip(path, q, strict=True)
        total.append(
            sum((k * (k.log() - (row[v - 1].abs() - counted.log())) for v, k in shares), x.sum() * 0)
        )
    loss = labelled_mean(total, nodes, x.sum() * 0)
    for depth in range(1, tree.max_depth + 1):
        at = [v for v in range(1, len(tree)) if len(line(tree, v)) == depth + 1]
        away, ended = [], []
        for row, node in zip(x, nodes.tolist(), strict=True):
            if node < 0:
                continue
            path = line(tree, node)
            length = row[[v - 1 for v in at]].norm()
            if len(path) > depth:
                away.append(sum((float(v in path) - row[v - 1].abs() / length).abs() for v in at))
            elif not tree.children(node):
                ended.append(sum(row[v - 1].abs() for v in at))
        for rows in (away, ended):
            loss = loss + alpha * (sum(rows) / len(rows) if rows else 0)
    return loss


@pytest.mark.parametrize("seed", range(len(TREES)))
@pytest.mark.parametrize("alpha", [0.0, 0.7])
def test_it_is_its_slow_loop(seed, alpha):
    tree = TREES[seed]
    x, nodes, _ = random_batch(tree, seed, n=9, d=len(tree) - 1)
    nodes[:2] = torch.tensor([-1, 0])
    x = (3 * x).requires_grad_()
    same(HierCOSLoss(tree, alpha=alpha)(x, nodes), slow_loss(tree, x, nodes, alpha), x)


@pytest.mark.parametrize("seed", range(len(TREES)))
def test_scores_are_lengths_in_the_subspaces(seed):
    tree = TREES[seed]
    x, _, _ = random_batch(tree, seed, d=len(tree) - 1)
    loss = HierCOSLoss(tree)

    def score(node):
        spanned = [v - 1 for v in {*line(tree, node), *below(tree, node)} if v]
        return x[:, spanned].norm(dim=1)

    torch.testing.assert_close(loss.logits(x), torch.stack([score(v) for v in loss.classes.tolist()], 1))
    assert torch.equal(loss.predict_depths(x)[:, -1], loss.predict(x))
    for depth in range(1, tree.max_depth + 1):
        classes = [
            v
            for v in range(1, len(tree))
            if len(line(tree, v)) == depth + 1 or (len(line(tree, v)) <= depth and not tree.children(v))
        ]
        best = torch.stack([score(v) for v in classes], 1).argmax(1)
        assert torch.equal(loss.predict_depths(x)[:, depth - 1], torch.tensor(classes)[best])


def test_what_lies_below_an_inner_label_is_left_alone():
    tree = Taxonomy.from_paths([("a", "b"), ("a", "c"), ("d", "e"), ("f",)])
    x = torch.randn(1, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    HierCOSLoss(tree, alpha=1.0)(x, tree.encode(["a"])).backward()
    own = [tree.find(name) - 1 for name in ("b", "c")]
    assert not x.grad[0, own].any()
    x.grad = None
    HierCOSLoss(tree, alpha=1.0)(x, tree.encode(["f"])).backward()
    assert x.grad[0, own].all()  # a leaf has nothing below it, so deeper coordinates shrink


def test_a_row_for_each_label_has_the_gradient_of_the_mean_target():
    tree = even_tree(2, 3)
    x = torch.randn(1, len(tree) - 1, dtype=torch.float64).requires_grad_()
    two = tree.leaves[[0, 4]]
    loss = HierCOSLoss(tree, alpha=0.0)
    (each,) = torch.autograd.grad(loss(x.expand(2, -1), two), x)
    q = torch.zeros(len(tree) - 1, dtype=torch.float64)
    for leaf in two:
        for v, share in zip(tree.paths[leaf] - 1, loss.shares[2], strict=True):
            q[v] += share / 2
    (wanted,) = torch.autograd.grad(-(q * x.abs().log_softmax(1)).sum(), x)
    torch.testing.assert_close(each, wanted)


def test_an_answer_may_contradict_its_parent():
    """Many small coordinates below one node outweigh a single larger one at the coarse depth alone."""
    tree = Taxonomy.from_paths([*[("many", str(k)) for k in range(9)], ("one", "only")])
    x = torch.zeros(1, len(tree) - 1)
    x[0, [tree.find(str(k)) - 1 for k in range(9)]] = 1.0
    x[0, tree.find("only") - 1] = 2.0
    loss = HierCOSLoss(tree)
    assert tree.decode(loss.predict_depths(x)[0]) == ["many", "one/only"]


def test_ten_thousand_nodes_need_no_matrix_of_pairs():
    tree = even_tree(10, 30, 32)
    assert len(tree) > 9_900
    loss = HierCOSLoss(tree)
    held = sum(buffer.numel() * buffer.element_size() for buffer in loss.buffers())
    assert held < 100 * len(tree)
    x = torch.randn(4, len(tree) - 1, generator=torch.Generator().manual_seed(0), requires_grad=True)
    loss(x, tree.leaves[:4]).backward()
    assert x.grad.isfinite().all()
    assert loss.predict_depths(x).shape == (4, 3)


@pytest.mark.parametrize(
    ("options", "problem"),
    [({"dim": 5}, "dim must be 6, one dimension for each node"), ({"alpha": -1.0}, "alpha must be finite")],
)
def test_settings_out_of_range(options, problem):
    with pytest.raises(ValueError, match=problem):
        HierCOSLoss(even_tree(2, 2), **options)


def test_a_graph_with_several_parents_is_refused():
    graph = TaxonomyDAG.from_edges([("a", "c"), ("b", "c"), ("r", "a"), ("r", "b")])
    with pytest.raises(TaxonomyError, match="losses such as HierCOSLoss need a tree"):
        HierCOSLoss(graph)
