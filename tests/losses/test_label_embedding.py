"""The label embedding network, term by term."""

import pytest
import torch
from slow_classifiers import classes_at, columns_of, labelled_mean, probability, same_value_and_gradient
from slow_losses import even_tree, random_tree

from labeltree.losses import CrossEntropyLoss, LabelEmbeddingLoss

TREES = [random_tree(seed) for seed in range(4)] + [even_tree(2, 3), even_tree(4)]


def make(tree, **options):
    torch.manual_seed(0)
    loss = LabelEmbeddingLoss(tree, 3, **options).double()
    with torch.no_grad():
        loss.embeddings.add_(torch.randn_like(loss.embeddings))
        loss.teacher.weight.mul_(4)
    return loss


def batch(tree, seed, n=12):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 3, generator=generator, dtype=torch.float64)
    nodes = torch.randint(-1, len(tree), (n,), generator=generator)
    return x.requires_grad_(), nodes


def slow(tree, loss, x, nodes):
    classes = classes_at(tree)
    every = range(len(classes))
    rows, taught = [], []
    for i, node in enumerate(nodes.tolist()):
        own = columns_of(tree, node, classes)
        answers = loss.answers.weight @ x[i] + loss.answers.bias
        teacher = loss.teacher.weight @ x[i].detach() + loss.teacher.bias
        soft = [sum(probability(loss.embeddings[k], [c]) for k in own).detach() / len(own) for c in every]
        row = -loss.beta * torch.log(probability(answers, own))
        for event in [[k] for k in every if k not in own] + [own]:
            share = sum(soft[k] for k in event)
            row = row - (1 - loss.beta) * share * torch.log(probability(answers, event))
        row = row - torch.log(probability(teacher, own))
        if node >= 0 and len(own) == 1:
            row = row + (probability(teacher, own) - loss.alpha).clamp(min=0)
            if int(teacher.argmax()) == own[0]:
                target = torch.softmax(teacher.detach() / loss.temperature, 0)
                learnt = [torch.log(probability(loss.embeddings[own[0]], [c])) for c in every]
                taught.append(-sum(t * e for t, e in zip(target, learnt, strict=True)))
        rows.append(row)
    value = labelled_mean(rows, nodes, x.sum() * 0)
    return value + sum(taught) / len(taught) if taught else value


@pytest.mark.parametrize("seed", range(len(TREES)))
def test_slow_loop(seed):
    tree = TREES[seed]
    x, nodes = batch(tree, seed)
    loss = make(tree, temperature=1.5, alpha=0.3, beta=0.4)
    inputs = (x, *loss.parameters())
    same_value_and_gradient(loss(x, nodes), slow(tree, loss, x, nodes), *inputs)


def test_the_features_learn_from_the_first_classifier_alone():
    tree = even_tree(2, 2)
    x, nodes = batch(tree, 0)
    loss = make(tree, beta=1.0)
    (grad,) = torch.autograd.grad(loss(x, nodes), x)
    expected = CrossEntropyLoss(tree)(loss.answers(x), nodes)
    torch.testing.assert_close(grad, torch.autograd.grad(expected, x)[0])


def test_soft_labels_begin_as_smoothed_ones():
    tree = even_tree(5)
    x, _ = batch(tree, 0)
    nodes = tree.leaves[torch.arange(12) % 5]
    loss = LabelEmbeddingLoss(tree, 3, beta=0.0, alpha=1.0).double()
    e = torch.e
    smoothing = 5 / (e + 4)  # softmax of a unit vector: e/(e+4) on the class, 1/(e+4) on the others
    plain = CrossEntropyLoss(tree, label_smoothing=smoothing)
    (grad,) = torch.autograd.grad(loss(x, nodes), x)
    torch.testing.assert_close(grad, torch.autograd.grad(plain(loss.answers(x), nodes), x)[0])


def test_nothing_is_taught_where_the_second_classifier_errs():
    tree = even_tree(2)
    loss = LabelEmbeddingLoss(tree, 3).double()
    with torch.no_grad():
        loss.teacher.weight.zero_()
        loss.teacher.bias.copy_(torch.tensor([1.0, 0.0]))
    x, _ = batch(tree, 0, n=2)
    loss(x, tree.leaves[[1, 1]]).backward()
    assert not loss.embeddings.grad.any()
    loss(x, tree.leaves[[0, 1]]).backward()
    assert loss.embeddings.grad[0].any()
    assert not loss.embeddings.grad[1].any()


def test_prediction_is_that_of_the_first_classifier():
    tree = random_tree(1)
    x, _ = batch(tree, 1)
    loss = make(tree)
    assert torch.equal(loss.predict(x), tree.leaves[loss.answers(x).argmax(1)])


def test_soft_labels_of_inner_nodes_add_up_to_one_under_autocast():
    tree = even_tree(3, 5)
    loss = make(tree).float()
    generator = torch.Generator().manual_seed(1)
    answers, teacher = torch.randn(2, 16, 15, generator=generator)
    nodes = torch.arange(16) - 1
    with torch.autocast("cpu", torch.bfloat16):
        value = loss.loss(answers, teacher, nodes)
    torch.testing.assert_close(value, loss.loss(answers, teacher, nodes), rtol=1e-6, atol=0)


def test_options_out_of_range():
    tree = even_tree(2)
    for options in ({"temperature": 0.0}, {"alpha": 1.1}, {"beta": -0.1}, {"head": "deep"}):
        with pytest.raises(ValueError, match=next(iter(options))):
            LabelEmbeddingLoss(tree, 3, **options)
