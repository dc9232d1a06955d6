"""Losses over a queue where there is little to compare with, where arguments are wrong, and on two ranks."""

import math

import pytest
import torch
from slow_losses import even_tree, random_tree
from slow_queue_losses import Stored, random_queries
from torch import distributed

from forked import start_ranks
from labeltree.geometry import PoincareBall, Sphere
from labeltree.losses import ASCLLoss, CoInsLoss, GrafitLoss, MaskConLoss, NNCLRLoss, SelfConLoss
from labeltree.models import KeyQueue
from labeltree.pairs import gather_rows

pytestmark = pytest.mark.slow

TREE = even_tree(2, 3)
LOSSES = {
    "maskcon": MaskConLoss(TREE, w=0.6),
    "maskcon reference": MaskConLoss(TREE, variant="reference"),
    "nearest": MaskConLoss(TREE, target_temperature=0.0),
    "tiny temperatures": MaskConLoss(TREE, 1e-3, 1e-8),
    "negatives": MaskConLoss(TREE, exclude_self="negative", undecided="negative"),
    "grafit": GrafitLoss(TREE),
    "selfcon": SelfConLoss(),
    "nnclr": NNCLRLoss(),
    "ascl": ASCLLoss(),
    "ascl confidence": ASCLLoss(trust="confidence"),
}
DOG, CAT = TREE.leaves[:2].tolist()


def run(loss, queries, *batch):
    """Value and gradient, both finite, the value connected to the graph."""
    queries = queries.clone().requires_grad_()
    value = loss(queries, *batch)
    value.backward()
    assert value.isfinite()
    assert queries.grad.isfinite().all()
    return value, queries.grad


@pytest.mark.parametrize("name", LOSSES)
def test_an_empty_queue_and_an_empty_batch(name):
    queries, keys, queue, nodes, instances = random_queries(TREE, 0)
    value, grad = run(LOSSES[name], queries.float(), keys.float(), KeyQueue(8, 4), nodes, instances)
    assert value == 0
    assert grad.abs().max() < 1e-6
    value, _ = run(LOSSES[name], queries[:0], keys[:0], queue, nodes[:0], instances[:0])
    assert value == 0


@pytest.mark.parametrize("name", LOSSES)
def test_labels_that_say_nothing(name):
    queries, keys, queue, nodes, instances = random_queries(TREE, 1)
    missing, root = torch.full_like(nodes, -1), torch.zeros_like(nodes)
    nowhere = Stored(queue.vectors, torch.full_like(queue.nodes, -1), queue.instances)
    for labels, stored in ((missing, queue), (missing, nowhere), (nodes, nowhere), (root, queue)):
        run(LOSSES[name], queries, keys, stored, labels, instances)
    if isinstance(LOSSES[name], MaskConLoss | GrafitLoss):
        loss = GrafitLoss(TREE, w=1.0)
        value, _ = run(loss, queries, keys, queue, missing, instances)
        assert value == 0  # nothing competes under "ignore" ...
        half = GrafitLoss(TREE, w=0.5)(queries, keys, queue, missing, instances)
        torch.testing.assert_close(half, SelfConLoss()(queries, keys, queue, None, instances) / 2)


@pytest.mark.parametrize("name", LOSSES)
def test_vectors_of_no_direction(name):
    queries, keys, queue, nodes, instances = random_queries(TREE, 1)
    run(LOSSES[name], torch.zeros_like(queries), torch.zeros_like(keys), queue, nodes, instances)


@pytest.mark.parametrize("name", LOSSES)
def test_one_class_and_a_class_that_the_queue_has_not(name):
    queries, keys, queue, _, instances = random_queries(TREE, 2)
    dogs, cats = torch.full((5,), DOG), torch.full((5,), CAT)
    stored = Stored(queue.vectors, torch.full((9,), DOG), queue.instances + 1000)
    run(LOSSES[name], queries, keys, stored, dogs, instances)
    value, _ = run(LOSSES[name], queries, keys, stored, cats, instances)
    if isinstance(LOSSES[name], MaskConLoss | GrafitLoss):
        loss = SelfConLoss(LOSSES[name].temperature)
        torch.testing.assert_close(value, loss(queries, keys, stored, None, instances))


def test_no_nodes_and_no_instances():
    queries, keys, queue, nodes, instances = random_queries(TREE, 3)
    loss = MaskConLoss(TREE, w=0.8)
    torch.testing.assert_close(
        loss(queries, keys, queue, None, instances), SelfConLoss()(queries, keys, queue, nodes, instances)
    )
    fresh = Stored(queue.vectors, queue.nodes, queue.instances + 10**6)
    assert loss(queries, keys, queue, nodes) == loss(queries, keys, fresh, nodes, instances)


def test_an_own_old_key_is_recognised_whatever_its_label():
    """The label of a sample may have been corrected since."""
    z = torch.eye(3, dtype=torch.float64)
    queue = Stored(z, torch.tensor([CAT, -1, DOG]), torch.tensor([7, 7, 8]))
    batch = (z[:1], z[:1], queue, torch.tensor([DOG]), torch.tensor([7]))
    z = math.log(1 + math.exp(-1))  # own key against the one of sample 8
    soft = z + 0.5  # target: own key and that one, one half each
    assert MaskConLoss(TREE, 1.0)(*batch).item() == pytest.approx(soft)
    everything = math.log(2 + 2 * math.exp(-1))
    assert MaskConLoss(TREE, 1.0, exclude_self="negative")(*batch).item() == pytest.approx(everything + 0.5)
    # kept, the key that equals the own one is the nearest; the others are exp(−1) behind it
    far = math.exp(-1)
    kept = MaskConLoss(TREE, 1.0, 1.0, exclude_self="keep")(*batch).item()
    assert kept == pytest.approx(everything + 2 * far / (2 + 2 * far))


def test_target_temperatures_that_float32_cannot_write_are_zero():
    queries, keys, queue, nodes, instances = random_queries(TREE, 7)
    stored = Stored(queue.vectors.float(), queue.nodes, queue.instances)
    batch = (queries.float(), keys.float(), stored, nodes, instances)
    nearest = MaskConLoss(TREE, target_temperature=0.0)(*batch)
    for tau in (1e-30, 1e-40, 1e-50, 1e-310):
        assert MaskConLoss(TREE, target_temperature=tau)(*batch) == nearest
        assert ASCLLoss(target_temperature=tau)(*batch) == SelfConLoss()(*batch)  # no entropy


def test_the_order_of_the_queue_does_not_matter():
    tree = random_tree(8)
    queries, keys, queue, nodes, instances = random_queries(tree, 5)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(0))
    other = Stored(queue.vectors[order], queue.nodes[order], queue.instances[order])
    loss = MaskConLoss(tree, 0.2, 0.3, 0.7)
    torch.testing.assert_close(
        loss(queries, keys, queue, nodes, instances), loss(queries, keys, other, nodes, instances)
    )


def test_reductions():
    batch = random_queries(TREE, 6)
    rows = MaskConLoss(TREE, reduction="none")(*batch)
    assert rows.shape == (5,)
    assert MaskConLoss(TREE, reduction="sum")(*batch) == rows.sum()
    for name in ("valid", "all", "pairs"):
        torch.testing.assert_close(MaskConLoss(TREE, reduction=name)(*batch), rows.mean())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MaskConLoss(TREE, 0.0), "temperature must be above 0; got 0.0"),
        (lambda: MaskConLoss(TREE, 0.1, -0.1), "target_temperature must not be negative; got -0.1"),
        (lambda: GrafitLoss(TREE, w=1.5), "w must lie between 0 and 1; got 1.5"),
        (lambda: CoInsLoss(TREE, w=-0.5), "w must lie between 0 and 1; got -0.5"),
        (lambda: MaskConLoss(TREE, w=math.nan), "w must lie between 0 and 1; got nan"),
        (
            lambda: NNCLRLoss(exclude_self="yes"),
            "exclude_self is 'yes'; expected one of 'drop', 'negative', 'keep'",
        ),
        (lambda: MaskConLoss(TREE, variant="code"), "variant is 'code'; expected 'paper' or 'reference'"),
        (
            lambda: MaskConLoss(TREE, variant="reference", exclude_self="drop"),
            "variant='reference' keeps a sample's own old keys.*leave variant out",
        ),
        (lambda: ASCLLoss(trust="both"), "trust is 'both'; expected 'entropy' or 'confidence'"),
        (lambda: MaskConLoss(TREE, undecided="drop"), "expected 'ignore' or 'negative'"),
        (lambda: SelfConLoss(reduction="mean"), "expected one of 'valid'"),
        (lambda: SelfConLoss(geometry=PoincareBall(-1.0)), "SelfConLoss compares by the cosine.*'poincare'"),
    ],
)
def test_wrong_options(make, message):
    SelfConLoss(geometry=Sphere())
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"queries": torch.ones(5)}, r"embeddings must be a floating-point tensor of shape \(n, d\)"),
        (
            {"keys": torch.ones(4, 4)},
            r"keys must be .* \(5, 4\), one per query; got float32 .*\(4, 4\)",
        ),
        ({"keys": None}, "keys must be .* got NoneType"),
        ({"nodes": torch.full((5,), 99)}, "nodes must lie between -1"),
        ({"instances": torch.ones(4, dtype=torch.int64)}, r"instances must have shape \(5,\)"),
        ({"queue": KeyQueue(3, 7)}, r"the queue's keys must have shape \(m, 4\).*got \(0, 7\)"),
        (
            {"queue": Stored(torch.ones(1, 4), torch.tensor([99]), torch.tensor([0]))},
            r"the queue holds node 99, but the taxonomy's are -1 \(missing\) to 8",
        ),
        (
            {"queue": Stored(torch.ones(1, 4), torch.tensor([-2]), torch.tensor([0]))},
            "the queue holds node -2, but the taxonomy's are",
        ),
    ],
)
def test_wrong_batches(change, message):
    names = ("queries", "keys", "queue", "nodes", "instances")
    batch = dict(zip(names, random_queries(TREE, 0), strict=True)) | change
    with pytest.raises(ValueError, match=message):
        MaskConLoss(TREE)(**batch)


def _rank(rank: int, store: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    queries, keys, queue, nodes, instances = random_queries(TREE, 0)
    mine = slice(0, 4) if rank == 0 else slice(4, 5)
    loss = MaskConLoss(TREE, w=0.7)
    x = queries[mine].clone().requires_grad_()
    value = loss(x, keys[mine], queue, nodes[mine], instances[mine])
    value.backward()
    grad = gather_rows(x.grad / 2)  # DDP takes the mean over ranks
    whole = queries.clone().requires_grad_()
    loss.eval()  # outside training, a rank is on its own
    expected = loss(whole, keys, queue, nodes, instances)
    expected.backward()
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(grad, whole.grad)
    distributed.destroy_process_group()


def test_two_ranks_are_one_batch(tmp_path):
    start_ranks(_rank, (str(tmp_path / "store"),), nprocs=2)
