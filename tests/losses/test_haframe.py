"""HAFrame: the frame beside a search, the loss beside a slow loop, few dimensions, controls."""

import math

import pytest
import torch
from slow_classifiers import below, classes_at, columns_of, labelled_mean, probability
from slow_classifiers import same_value_and_gradient as same
from slow_losses import even_tree, random_batch, random_tree

from labeltree.losses import HAFrameLoss, frame_similarities
from labeltree.taxonomy import Taxonomy

TREES = [random_tree(seed) for seed in range(4)] + [even_tree(2, 3), even_tree(3, 2, 2), even_tree(5)]
TREES += [Taxonomy.from_paths([("a", "b", "c"), ("a", "b", "d"), ("e",)])]
KINDS = ["exponential", "linear", "flat"]


def slow_similarities(tree, gamma, kind):
    """The similarities before the shift, by the definition."""
    classes = classes_at(tree)

    def value(a, b):
        share = tree.height[tree.lca(torch.tensor(a), torch.tensor(b))].item() / tree.max_height
        return {"exponential": math.exp(-gamma * share), "linear": 1 - share, "flat": float(share == 0)}[kind]

    return torch.tensor([[value(a, b) for b in classes] for a in classes], dtype=torch.float64)


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_shift_is_the_least_that_leaves_a_gram_matrix(tree, kind):
    plain = slow_similarities(tree, 2.0, kind)
    found = frame_similarities(tree, 2.0, kind)
    classes = len(plain)
    if classes == 1:
        assert found.tolist() == [[1.0]]
        return
    inverse = torch.linalg.inv(plain).sum().item()
    least = max(-1.0, -1 / (inverse - 1))
    torch.testing.assert_close(found, (1 - least) * plain + least)
    assert torch.linalg.eigvalsh(found)[0] > -1e-9
    assert least <= -1 / (classes - 1) + 1e-12
    below_it = least - 0.01
    if least > -1:
        assert torch.linalg.eigvalsh((1 - below_it) * plain + below_it)[0] < -1e-6


def test_without_a_tree_it_is_the_simplex():
    found = frame_similarities(even_tree(2, 3), similarity="flat")
    torch.testing.assert_close(found, torch.eye(6).double() * 1.2 - 0.2)


def slow_loss(tree, x, nodes, frame, alpha):
    classes = classes_at(tree)
    rows = []
    for row, node in zip(x, nodes.tolist(), strict=True):
        columns = columns_of(tree, node, classes)
        loss = -(1 - alpha) * torch.log(probability([row @ w for w in frame], columns))
        if node > 0:
            own = sum(frame[k] for k, c in enumerate(classes) if c in below(tree, node))
            own = own / own.norm()
            loss = loss + alpha * sum((row @ w / row.norm() - own @ w) ** 2 for w in frame)
        rows.append(loss)
    return labelled_mean(rows, nodes, x.sum() * 0)


@pytest.mark.parametrize("seed", range(len(TREES)))
@pytest.mark.parametrize("kind", ["exponential", "linear"])
def test_it_is_its_slow_loop(seed, kind):
    tree = TREES[seed]
    loss = HAFrameLoss(tree, tree.num_leaves + 1, 0.3, similarity=kind).double()
    x, nodes, _ = random_batch(tree, seed, n=8, d=loss.dim)
    nodes[0] = -1
    x = (3 * x).requires_grad_()
    same(loss(x, nodes), slow_loss(tree, x, nodes, loss.frame, 0.3), x)


def test_one_dimension_less_than_classes_is_enough_and_fewer_are_near():
    tree = even_tree(3, 4)
    wanted = frame_similarities(tree)
    exact, few = (HAFrameLoss(tree, dim).frame.double() for dim in (11, 4))
    torch.testing.assert_close(exact @ exact.T, wanted, rtol=0, atol=1e-6)
    assert few.norm(dim=1).sub(1).abs().max() < 1e-6
    assert (few @ few.T - wanted).abs().max() < 1


def test_the_answer_is_the_nearest_class_vector_and_its_loss_is_least():
    tree = even_tree(2, 2)
    loss = HAFrameLoss(tree).double()
    assert loss.predict(loss.frame).tolist() == tree.leaves.tolist()
    at_its_place = HAFrameLoss(tree, alpha=1.0).double()
    assert at_its_place(2 * at_its_place.frame, tree.leaves) < 1e-9
    elsewhere = at_its_place(at_its_place.frame.roll(1, 0), tree.leaves)
    assert elsewhere > 0.1


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"alpha": 2.0}, "alpha"),
        ({"gamma": 0.0}, "gamma"),
        ({"dim": 0}, "dim"),
        ({"similarity": "x"}, "simil"),
    ],
)
def test_settings_out_of_range(options, problem):
    with pytest.raises(ValueError, match=problem):
        HAFrameLoss(even_tree(2, 2), **options)


def test_too_many_leaves(monkeypatch):
    monkeypatch.setattr("labeltree.losses.classifiers.haframe._MOST", 5)
    with pytest.raises(ValueError, match=r"the frame of 6 leaves needs a matrix .* limit is 5 leaves"):
        HAFrameLoss(even_tree(2, 3))
