"""The classifier on embeddings: its layers, and that it is cross entropy behind them."""

import pytest
import torch
from slow_classifiers import same_value_and_gradient
from slow_losses import even_tree, random_tree
from torch.nn import functional

from labeltree.losses import CrossEntropyLoss, EmbeddingClassifierLoss


def batch(tree, n=9):
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(n, 4, generator=generator, dtype=torch.float64)
    return z.requires_grad_(), torch.randint(-1, len(tree), (n,), generator=generator)


@pytest.mark.parametrize("options", [{}, {"depth": 1}, {"label_smoothing": 0.1}])
def test_a_linear_layer_and_cross_entropy(options):
    tree = random_tree(4)
    z, nodes = batch(tree)
    loss = EmbeddingClassifierLoss(tree, 4, **options).double()
    logits = z @ loss.linear.weight.T + loss.linear.bias
    expected = CrossEntropyLoss(tree, **options)(logits, nodes)
    same_value_and_gradient(loss(z, nodes), expected, z, loss.linear.weight, loss.linear.bias)
    assert torch.equal(loss.predict(z), loss.classes[logits.argmax(1)])


def test_the_published_head_has_relu_and_batch_normalisation():
    tree = even_tree(2, 2)
    z, nodes = batch(tree)
    loss = EmbeddingClassifierLoss(tree, 4, head="reference").double()
    hidden = functional.batch_norm(z.relu(), None, None, training=True, eps=loss.head.norm.eps)
    expected = CrossEntropyLoss(tree)(functional.linear(hidden, loss.linear.weight, loss.linear.bias), nodes)
    same_value_and_gradient(loss(z, nodes), expected, z, loss.linear.weight)
    assert loss.head.norm.num_batches_tracked == 1
    loss.eval()
    assert torch.equal(loss.predict(z[:1]), loss.predict(z)[:1])  # does not depend on the batch
    loss.train()
    assert loss(z[:1], nodes[:1]).isfinite()  # one row has no statistics
    assert loss(z[:0], nodes[:0]) == 0


def test_logits_are_adjusted_by_the_labels_seen():
    tree = even_tree(3)
    z, nodes = batch(tree)
    loss = EmbeddingClassifierLoss(tree, 4, logit_adjustment=1.0).double()
    loss.observe_labels(nodes)
    plain = CrossEntropyLoss(tree, logit_adjustment=1.0)
    plain.observe_labels(nodes)
    torch.testing.assert_close(loss(z, nodes), plain(loss.logits(z), nodes))


def test_embeddings_that_do_not_fit():
    loss = EmbeddingClassifierLoss(even_tree(2), 4)
    with pytest.raises(ValueError, match=r"shape \(n, 4\)"):
        loss(torch.zeros(2, 3), torch.tensor([1, 1]))
    with pytest.raises(ValueError, match="head"):
        EmbeddingClassifierLoss(even_tree(2), 4, head="deep")
