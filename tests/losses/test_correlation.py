"""L_CORR: published figures, a slow loop over Algorithm 1, its dimensions, and odd batches."""

import json
import math
from pathlib import Path

import pytest
import torch
from slow_losses import even_tree, line, random_batch, random_tree
from torch import Tensor

from labeltree.errors import TaxonomyError
from labeltree.losses import CorrelationLoss, CrossEntropyLoss
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow

CASES = json.loads((Path(__file__).parent / "oracles" / "corr.json").read_text())["cases"]


def close(got: Tensor, expected: object) -> None:
    wanted = torch.tensor(expected, dtype=torch.float64)
    assert (got.detach() - wanted).abs().max() <= 1e-9 * wanted.abs().max()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["inputs"]["taxonomy"])
def test_values_and_gradients_of_the_oracle(case: dict) -> None:
    given, expected = case["inputs"], case["expected"]
    tree = Taxonomy.from_edges([(node, above) for node, above in given["parent"].items() if above])
    classes = tree.encode(given["classes"])
    nodes = classes[torch.tensor(given["labels"])]
    loss, ce = CorrelationLoss(tree), CrossEntropyLoss(tree)
    # The oracle embeds the classes in an order of its own: its axes are ours, turned.
    turn = torch.linalg.solve(tree.class_embeddings(classes), loss.targets[classes])
    features = torch.tensor(given["features"], dtype=torch.float64, requires_grad=True)
    value = loss(features @ turn, nodes)
    close(value, expected["corr"]["loss"])
    value.backward()
    close(features.grad, expected["corr"]["grad"])
    nearest = [given["classes"].index(tree.names[node]) for node in loss.predict(features @ turn).tolist()]
    assert nearest == expected["nearest_class"]
    features.grad = None
    logits = torch.tensor(given["class_logits"], dtype=torch.float64, requires_grad=True)
    close(ce(logits[:, classes.argsort()], nodes), expected["cls"])
    both = loss(features @ turn, nodes) + given["lambda"] * ce(logits[:, classes.argsort()], nodes)
    close(both, expected["corr_cls"]["loss"])
    both.backward()
    close(features.grad, expected["corr_cls"]["grad_features"])
    close(logits.grad, expected["corr_cls"]["grad_class_logits"])


def placed(tree: Taxonomy) -> list[list[float]]:
    """Algorithm 1 for the leaves in order: forward substitution, one coordinate after the other."""
    leaves = [v for v in range(len(tree)) if not tree.children(v)]
    above = [set(line(tree, v)) for v in leaves]

    def height(v: int) -> int:
        return 1 + max((height(int(child)) for child in tree.children(v)), default=-1)

    def alike(i: int, j: int) -> float:
        return 1 - min(height(v) for v in above[i] & above[j]) / height(0)

    rows: list[list[float]] = []
    for i in range(len(leaves)):
        row = [0.0] * len(leaves)
        for j in range(i):
            row[j] = (alike(i, j) - sum(row[k] * rows[j][k] for k in range(j))) / rows[j][j]
        row[i] = math.sqrt(1 - sum(x * x for x in row))
        rows.append(row)
    return rows


def slow(z: Tensor, nodes: Tensor, tree: Taxonomy) -> Tensor:
    leaves = [v for v in range(len(tree)) if not tree.children(v)]
    rows, total, count = placed(tree), torch.zeros((), dtype=torch.float64), 0
    for x, node in zip(z, nodes.tolist(), strict=True):
        if node <= 0:
            continue
        below = [row for leaf, row in zip(leaves, rows, strict=True) if node in line(tree, leaf)]
        mean = [sum(column) for column in zip(*below, strict=True)]
        length = math.sqrt(sum(x * x for x in mean))
        product = sum(x[k] * mean[k] / length for k in range(len(mean))) / x.square().sum().sqrt()
        total, count = total + 1 - product, count + 1
    return total / max(count, 1)


@pytest.mark.parametrize("seed", range(6))
def test_a_slow_loop_on_ragged_trees_with_all_sorts_of_labels(seed: int) -> None:
    tree = random_tree(seed) if seed < 5 else even_tree(2, 3)
    z, nodes, _ = random_batch(tree, seed, d=tree.num_leaves)
    nodes[:2] = torch.tensor([-1, 0])
    x, y = z.clone().requires_grad_(), z.clone().requires_grad_()
    value, expected = CorrelationLoss(tree)(x, nodes), slow(y, nodes, tree)
    torch.testing.assert_close(value, expected, rtol=1e-11, atol=0)
    value.backward()
    expected.backward()
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("dim", [None, 2, 9])
def test_gradcheck(dim: int | None) -> None:
    tree = random_tree(3)
    loss = CorrelationLoss(tree, dim)
    z, nodes, _ = random_batch(tree, 3, n=6, d=loss.dim)
    assert torch.autograd.gradcheck(loss, (z.requires_grad_(), nodes), fast_mode=True)


def test_at_the_place_of_another_class_the_loss_is_the_dissimilarity() -> None:
    tree = random_tree(4)
    loss = CorrelationLoss(tree)
    leaves = tree.leaves
    apart = torch.stack(
        [torch.stack([loss(row, v[None]) for v in leaves]) for row in loss.targets[leaves, None]]
    )
    expected = tree.lca_height_dissimilarity(leaves[:, None], leaves[None])
    torch.testing.assert_close(apart, expected.double(), rtol=0, atol=1e-12)
    assert torch.equal(loss.predict(3 * loss.targets[leaves]), leaves)


def test_dimensions() -> None:
    tree = even_tree(3, 3)
    exact = CorrelationLoss(tree)
    assert (exact.dim, exact.targets.shape) == (9, (13, 9))
    z, nodes, _ = random_batch(tree, 0, d=12)
    wide = CorrelationLoss(tree, 12)
    assert wide.dim == 12
    assert not wide.targets[:, 9:].any()
    unit = z / z.norm(dim=1, keepdim=True)
    narrow = unit[:, :9].clone()
    labelled = nodes > 0
    products = (narrow * exact.targets[nodes.clamp(min=0)]).sum(1)[labelled]
    assert wide(z, nodes) == pytest.approx(float((1 - products).mean()), rel=1e-12)
    # The leading eigenpairs: of all matrices of rank 4, theirs is nearest to the similarities.
    few = CorrelationLoss(tree, 4)
    phi = few.targets[few.classes]
    similar = exact.targets[exact.classes] @ exact.targets[exact.classes].T
    values = torch.linalg.eigvalsh(similar).flip(0)
    error = (phi @ phi.T - similar).norm()
    torch.testing.assert_close(error, values[4:].norm(), rtol=1e-10, atol=1e-12)
    assert CorrelationLoss(tree, 9).targets.equal(exact.targets)
    lengths = CorrelationLoss(tree, 4, normalize=True).targets[tree.leaves].norm(dim=1)
    torch.testing.assert_close(lengths, torch.ones(9, dtype=torch.float64))


def test_a_class_without_a_part_in_few_dimensions_is_left_out() -> None:
    tree = Taxonomy.from_paths(["a/b/1", "a/b/2", "a/b/3", "c"])  # one dimension: that of the large branch
    loss = CorrelationLoss(tree, 1)
    assert not loss.targets[tree.find("c")].any()
    z = torch.ones(2, 1, dtype=torch.float64, requires_grad=True)
    alone, together = loss(z[:1], tree.encode(["a/b/1"])), loss(z, tree.encode(["a/b/1", "c"]))
    assert alone == together
    assert loss(z, tree.encode(["c", "c"])) == 0
    with pytest.raises(TaxonomyError, match="class 'c' has no part in the 1 leading eigenvectors"):
        CorrelationLoss(tree, 1, normalize=True)


@pytest.mark.parametrize("nodes", [[], [-1, -1, -1], [0, 0], [-1, 0]])
def test_nothing_to_learn_from_is_exactly_nothing(nodes: list[int]) -> None:
    tree = even_tree(2, 2)
    z = torch.randn(len(nodes), 4, requires_grad=True)
    value = CorrelationLoss(tree)(z, torch.tensor(nodes, dtype=torch.int64))
    assert value == 0
    value.backward()
    assert not z.grad.any()


def test_other_odd_batches() -> None:
    tree = even_tree(2, 2)
    loss = CorrelationLoss(tree)
    z = torch.zeros(2, 4, requires_grad=True)  # no direction
    value = loss(z, tree.leaves[:2])
    value.backward()
    assert value == 1
    assert z.grad.isfinite().all()
    single = Taxonomy.from_paths([("only",)])
    assert CorrelationLoss(single)(torch.tensor([[-2.0], [5.0]]), single.leaves.repeat(2)) == 1
    assert loss.predict(torch.zeros(0, 4)).shape == (0,)
    same = loss(torch.eye(4), tree.leaves[:1].repeat(4))  # one class
    assert same.isfinite()


def test_missing_labels_are_not_counted() -> None:
    tree = random_tree(1)
    loss = CorrelationLoss(tree)
    z, nodes, _ = random_batch(tree, 1, n=20, d=loss.dim)
    kept = nodes > 0
    assert 0 < kept.sum() < 20
    torch.testing.assert_close(loss(z, nodes), loss(z[kept], nodes[kept]), rtol=1e-14, atol=0)


def test_precision() -> None:
    tree = even_tree(3, 4)
    loss = CorrelationLoss(tree)
    z, nodes, _ = random_batch(tree, 2, n=64, d=12)
    exact = loss(z, nodes)
    single = loss(z.float(), nodes)
    assert single.dtype == torch.float32
    assert single == pytest.approx(float(exact), rel=1e-6)
    with torch.autocast("cpu", torch.bfloat16):
        assert loss(z.float(), nodes) == single
        half = loss(z.bfloat16(), nodes)
        assert torch.equal(loss.predict(z.float()), loss.predict(z.float().double()))
    assert half.dtype == torch.float32
    assert half == pytest.approx(float(exact), rel=1e-2)


def test_errors() -> None:
    tree = even_tree(2, 2)
    loss = CorrelationLoss(tree)
    with pytest.raises(ValueError, match=r"embeddings must have shape \(n, 4\), the width of the class emb"):
        loss(torch.zeros(2, 3), tree.leaves[:2])
    with pytest.raises(ValueError, match=r"embeddings must have shape \(n, 4\)"):
        loss.predict(torch.zeros(2, 5))
    with pytest.raises(ValueError, match=r"nodes must be an integer tensor of shape \(2,\); got None"):
        loss(torch.zeros(2, 4), None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="nodes must lie between -1"):
        loss(torch.zeros(1, 4), torch.tensor([7]))
    with pytest.raises(ValueError, match="dim must be at least 1"):
        CorrelationLoss(tree, 0)


def test_few_dimensions_are_kept_with_the_weights_and_the_exact_ones_follow_from_the_tree() -> None:
    tree = even_tree(2, 2)
    assert set(CorrelationLoss(tree).state_dict()) == set()
    few, other = CorrelationLoss(tree, 2), CorrelationLoss(tree, 2)
    few.targets.neg_()  # another machine's choice
    other.load_state_dict(few.state_dict())
    assert torch.equal(other.targets, few.targets)
