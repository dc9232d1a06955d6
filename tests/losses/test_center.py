"""Center loss: the value, and how its centres move."""

import pytest
import torch
from slow_classifiers import classes_at, columns_of, labelled_mean, probability, same_value_and_gradient
from slow_losses import even_tree, random_tree

from labeltree.losses import CenterLoss, CrossEntropyLoss

TREES = [random_tree(seed) for seed in range(4)] + [even_tree(2, 3), even_tree(4)]


def batch(tree, seed, n=10, width=3):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, width, generator=generator, dtype=torch.float64)
    logits = torch.randn(n, len(tree.leaves), generator=generator, dtype=torch.float64)
    nodes = torch.randint(-1, len(tree), (n,), generator=generator)
    return x.requires_grad_(), logits.requires_grad_(), nodes


@pytest.mark.parametrize("seed", range(len(TREES)))
def test_slow_loop(seed):
    tree = TREES[seed]
    classes = classes_at(tree)
    loss = CenterLoss(tree, 3, weight=0.4, alpha=0.3).double()
    centres = [torch.zeros(3, dtype=torch.float64) for _ in classes]
    for step in range(3):
        x, logits, nodes = batch(tree, 10 * seed + step)
        rows, members = [], {k: [] for k in range(len(classes))}
        for i, node in enumerate(nodes.tolist()):
            own = columns_of(tree, node, classes)
            row = -torch.log(probability(logits[i], own))
            if node >= 0 and len(own) == 1:
                row = row + 0.2 * ((x[i] - centres[own[0]]) ** 2).sum()
                members[own[0]].append(x[i].detach())
            rows.append(row)
        expected = labelled_mean(rows, nodes, x.sum() * 0)
        same_value_and_gradient(loss(x, logits, nodes), expected, x, logits)
        for k, points in members.items():
            pull = sum((centres[k] - point for point in points), torch.zeros(3, dtype=torch.float64))
            centres[k] = centres[k] - 0.3 * pull / (1 + len(points))
        torch.testing.assert_close(loss.centres, torch.stack(centres), rtol=1e-12, atol=1e-14)


def test_without_weight_it_is_cross_entropy():
    tree = random_tree(1)
    x, logits, nodes = batch(tree, 1)
    expected = CrossEntropyLoss(tree)(logits, nodes)
    same_value_and_gradient(CenterLoss(tree, 3, weight=0.0).double()(x, logits, nodes), expected, logits)


def test_centres_stay_in_evaluation_and_are_saved():
    tree = random_tree(2)
    x, logits, nodes = batch(tree, 2)
    loss = CenterLoss(tree, 3).double()
    loss(x, logits, nodes)
    before = loss.centres.clone()
    assert before.any()
    loss.eval()
    value = loss(x, logits, nodes)
    assert torch.equal(loss.centres, before)
    again = CenterLoss(tree, 3).double().eval()
    again.load_state_dict(loss.state_dict())
    assert torch.equal(again(x, logits, nodes), value)


def test_a_class_that_never_occurs_keeps_its_centre():
    tree = even_tree(3)
    x, logits, _ = batch(tree, 0)
    loss = CenterLoss(tree, 3).double()
    loss(x, logits, tree.leaves[torch.tensor([0, 2] * 5)])
    assert loss.centres[0].all()
    assert not loss.centres[1].any()


def test_centres_approach_the_means_of_their_classes():
    tree = even_tree(2)
    x, logits, _ = batch(tree, 3)
    nodes = tree.leaves[torch.tensor([0, 1] * 5)]
    loss = CenterLoss(tree, 3).double()
    for _ in range(60):
        loss(x, logits, nodes)
    torch.testing.assert_close(loss.centres, torch.stack([x[::2].mean(0), x[1::2].mean(0)]).detach())


def test_a_missing_label_is_not_drawn_to_the_only_centre():
    tree = even_tree(1)  # all labels stand for its one class
    x, logits, _ = batch(tree, 1)
    loss = CenterLoss(tree, 3).double()
    assert loss(x, logits, torch.full((10,), -1)) == 0
    assert not loss.centres.any()
    assert loss(x, logits, tree.leaves.repeat(10)) > 0
    assert loss.centres.all()


def test_features_that_do_not_fit():
    tree = even_tree(2)
    with pytest.raises(ValueError, match=r"features must have shape \(4, 3\)"):
        CenterLoss(tree, 3)(torch.zeros(4, 5), torch.zeros(4, 2), tree.leaves[[0, 1, 0, 1]])
    with pytest.raises(ValueError, match="alpha"):
        CenterLoss(tree, 3, alpha=1.5)
