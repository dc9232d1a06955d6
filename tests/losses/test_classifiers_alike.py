"""What holds for every loss of a classifier: degenerate batches, precision, errors, two ranks."""

import pytest
import torch
from slow_losses import even_tree, random_tree
from torch import distributed

from forked import start_ranks
from labeltree.losses import (
    CenterLoss,
    CrossEntropyLoss,
    CSLLoss,
    EmbeddingClassifierLoss,
    GuidedPrototypeLoss,
    HAFLoss,
    HAFrameLoss,
    HierarchicalProxyLoss,
    HierCOSLoss,
    HXELoss,
    LabelEmbeddingLoss,
    NormalisedSoftmaxLoss,
    SoftLabelLoss,
)
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow

WIDTH = 4
LOSSES = {
    "ce": lambda tree: CrossEntropyLoss(tree),
    "ce at depth 1": lambda tree: CrossEntropyLoss(tree, 1),
    "ce smoothed": lambda tree: CrossEntropyLoss(tree, label_smoothing=0.1),
    "hxe": lambda tree: HXELoss(tree, 0.5),
    "hxe by height": lambda tree: HXELoss(tree, 0.5, weights="height", variant="reference"),
    "soft labels": lambda tree: SoftLabelLoss(tree, 4.0),
    "soft labels reference": lambda tree: SoftLabelLoss(tree, 4.0, variant="reference"),
    "guided": lambda tree: GuidedPrototypeLoss(tree, WIDTH),
    "center": lambda tree: CenterLoss(tree, WIDTH, weight=0.5),
    "label embedding": lambda tree: LabelEmbeddingLoss(tree, WIDTH, alpha=0.3),
    "haf": lambda tree: HAFLoss(tree, WIDTH, margin=0.4),
    "csl": lambda tree: CSLLoss(tree, WIDTH, 4.0),
    "hierarchical proxies": lambda tree: HierarchicalProxyLoss(tree, WIDTH, [*range(1, tree.max_depth + 1)]),
    "normalised softmax": lambda tree: NormalisedSoftmaxLoss(tree, WIDTH, 0.3),
    "haframe": lambda tree: HAFrameLoss(tree, WIDTH),
    "hier-cos": lambda tree: HierCOSLoss(tree),
    "cls": lambda tree: EmbeddingClassifierLoss(tree, WIDTH),
}
READS_LOGITS = (
    "ce",
    "ce at depth 1",
    "ce smoothed",
    "hxe",
    "hxe by height",
    "soft labels",
    "soft labels reference",
)


def make(name, tree, dtype=torch.float64):
    torch.manual_seed(0)
    return LOSSES[name](tree).to(dtype)


def batch(name, tree, n=8, seed=0, *, leaves=False):
    """The loss's inputs, float64, and labels."""
    generator = torch.Generator().manual_seed(seed)
    width = len(LOSSES[name](tree).classes)
    draw = {"logits": torch.randn(n, width, generator=generator, dtype=torch.float64)}
    of_vectors = len(tree) - 1 if name == "hier-cos" else WIDTH
    draw["vectors"] = torch.randn(n, of_vectors, generator=generator, dtype=torch.float64)
    nodes = torch.randint(-1, len(tree), (n,), generator=generator)
    if leaves:
        nodes = tree.leaves[torch.randint(len(tree.leaves), (n,), generator=generator)]
    if name == "center":
        return [draw["vectors"], draw["logits"]], nodes
    return [draw["logits" if name in READS_LOGITS else "vectors"]], nodes


@pytest.mark.parametrize(
    "name", [name for name in LOSSES if name != "label embedding"]
)  # its gradient stops on purpose
def test_gradcheck(name):
    tree = random_tree(6)
    inputs, nodes = batch(name, tree)
    loss = make(name, tree).eval()
    assert torch.autograd.gradcheck(
        lambda *x: loss(*x, nodes), [x.requires_grad_() for x in inputs], fast_mode=True
    )


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("n", [0, 1, 5])
def test_no_labels_no_loss_but_a_graph(name, n):
    tree = random_tree(1)
    inputs, nodes = batch(name, tree, n)
    loss = make(name, tree)
    if name == "guided":
        loss.distortion_weight = 0.0
    if name == "haf":
        loss.geometric_weight = 0.0
    value = loss(*[x.requires_grad_() for x in inputs], torch.full_like(nodes, -1))
    value.backward()
    assert value == 0
    assert all(not x.grad.any() and x.grad.isfinite().all() for x in inputs)
    assert all(p.grad is None or not p.grad.any() for p in loss.parameters())


@pytest.mark.parametrize("name", LOSSES)
def test_missing_labels_change_nothing(name):
    tree = random_tree(2)
    inputs, nodes = batch(name, tree)
    loss = make(name, tree).eval()
    nodes[::3] = -1
    kept = nodes >= 0
    assert kept.any()
    torch.testing.assert_close(loss(*inputs, nodes), loss(*[x[kept] for x in inputs], nodes[kept]))


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("tree", [Taxonomy.from_paths([("a", "b", "c")]), Taxonomy.from_paths(["a"])])
def test_a_tree_of_one_leaf_teaches_nothing_and_breaks_nothing(name, tree):
    inputs, nodes = batch(name, tree)
    value = make(name, tree)(*[x.requires_grad_() for x in inputs], nodes)
    value.backward()
    if name not in ("center", "haf", "label embedding", "haframe", "hier-cos"):  # they have more to learn
        assert value == 0
    assert value.isfinite()
    assert all(x.grad.isfinite().all() for x in inputs)


@pytest.mark.parametrize("name", LOSSES)
def test_float32_is_as_good_as_float32_can_be(name):
    tree = even_tree(3, 3, 3)
    inputs, nodes = batch(name, tree, n=64, leaves=True)
    exact = make(name, tree, torch.float32).double()(*inputs, nodes)
    single = make(name, tree, torch.float32)(*[x.float() for x in inputs], nodes)
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), exact, rtol=1e-5, atol=0)


@pytest.mark.parametrize("name", LOSSES)
def test_bfloat16_under_autocast_loses_nothing_inside_the_loss(name):
    tree = even_tree(3, 3)
    inputs, nodes = batch(name, tree, n=32)
    half = [x.bfloat16().requires_grad_() for x in inputs]
    single = [x.detach().float().requires_grad_() for x in half]
    with torch.autocast("cpu", torch.bfloat16):
        value = make(name, tree, torch.float32)(*half, nodes)
    expected = make(name, tree, torch.float32)(*single, nodes)
    value.backward()
    assert value.dtype == torch.float32
    if name in ("cls", "label embedding"):  # their linear layers are run in half precision, as others are
        torch.testing.assert_close(value, expected, rtol=0.02, atol=0)
    else:
        torch.testing.assert_close(value, expected, rtol=1e-6, atol=0)
    assert all(x.grad.dtype == torch.bfloat16 and x.grad.isfinite().all() for x in half)


@pytest.mark.parametrize("name", LOSSES)
def test_wrong_arguments_are_named(name):
    tree = even_tree(2, 3)
    inputs, nodes = batch(name, tree)
    loss = make(name, tree)
    with pytest.raises(ValueError, match=r"nodes must (be a tensor of|have) shape \(8,\)"):
        loss(*inputs, nodes[:-1])
    with pytest.raises(ValueError, match="nodes must lie between -1"):
        loss(*inputs, torch.full_like(nodes, len(tree)))
    with pytest.raises(ValueError, match="nodes must be an integer tensor"):
        loss(*inputs, nodes.double())
    with pytest.raises(ValueError, match="shape"):
        loss(*[x[:, :-1] for x in inputs], nodes)
    with pytest.raises(ValueError, match="floating-point"):
        loss(*inputs[:-1], inputs[-1].long(), nodes)
    for wrong in range(len(inputs)):
        with pytest.raises(ValueError, match="NoneType"):
            loss(*inputs[:wrong], None, *inputs[wrong + 1 :], nodes)
    with pytest.raises(ValueError, match="NoneType"):
        loss.predict(None)


def test_options_out_of_range():
    tree = even_tree(2, 2)
    for make_loss, word in [
        (lambda: CrossEntropyLoss(tree, 3), "depth must lie between 1 and 2"),
        (lambda: CrossEntropyLoss(tree, logit_adjustment=-1.0), "logit_adjustment"),
        (lambda: CrossEntropyLoss(tree, logit_adjustment=float("inf")), "logit_adjustment must be finite"),
        (lambda: CrossEntropyLoss(tree, label_smoothing=1.0), "label_smoothing"),
        (lambda: HXELoss(tree, weights="width"), "weights"),
        (lambda: HXELoss(tree, variant="mine"), "variant"),
        (lambda: SoftLabelLoss(tree, -1.0), "beta"),
        (lambda: SoftLabelLoss(tree, variant="mine"), "variant"),
        (lambda: GuidedPrototypeLoss(tree, 0), "dim"),
        (lambda: GuidedPrototypeLoss(tree, 2, -1.0), "distortion_weight"),
        (lambda: GuidedPrototypeLoss(tree, 2, metric="hops"), "metric"),
        (lambda: CenterLoss(tree, 0), "feature_dim"),
        (lambda: HAFLoss(tree, 0), "feature_dim"),
        (lambda: HAFLoss(tree, 2, [0, 1]), "depths must be depths of the tree, 1 to 2"),
        (lambda: HAFLoss(tree, 2, [2, 1]), "coarse → fine"),
        (lambda: HAFLoss(tree, 2, []), "depths"),
        (lambda: HAFLoss(tree, 2, margin=-1.0), "margin must be finite and not negative"),
        (lambda: HAFLoss(tree, 2, consistency_weight=float("nan")), "consistency_weight"),
        (lambda: CSLLoss(tree, 0), "dim"),
        (lambda: CSLLoss(tree, 2, 0.0), "scale must be above 0 and at most 300"),
        (lambda: CSLLoss(tree, 2, float("inf")), "scale must be above 0 and at most 300"),
        (lambda: CSLLoss(tree, 2, margins=[0.1]), "margins must have 2 entries"),
        (lambda: HierarchicalProxyLoss(tree, 2, temperature=0.0), "temperature must be above 0"),
        (lambda: HierarchicalProxyLoss(tree, 2, "all"), "weights must be numbers or one of"),
        (lambda: CenterLoss(tree, 2, -1.0), "weight"),
    ]:
        with pytest.raises(ValueError, match=word):
            make_loss()


def step(name, tree, number):
    """A batch of 8 rows; the first of two ranks has the first three."""
    inputs, nodes = batch(name, tree, seed=number)
    nodes[:3] = -1 if number == 1 else nodes[:3]  # a rank without a label
    return inputs, nodes


def _rank(rank: int, store: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    results = {}
    tree = random_tree(3)
    for name in LOSSES:
        loss = make(name, tree)
        for number in range(3):
            inputs, nodes = step(name, tree, number)
            mine = slice(0, 3) if rank == 0 else slice(3, None)
            own = [x[mine].clone().requires_grad_() for x in inputs]
            loss.zero_grad()
            value = loss(*own, nodes[mine])
            value.backward()
            state = [x.clone() for x in loss.state_dict().values()]
            grads = [p.grad.clone() for p in loss.parameters() if p.grad is not None]
            results[name, number] = (value.detach(), [x.grad for x in own], grads, state)
    torch.save(results, f"{store}.{rank}")
    distributed.destroy_process_group()


def test_two_ranks_equal_one_process_over_the_union(tmp_path):
    store = str(tmp_path / "store")
    start_ranks(_rank, (store,), nprocs=2)
    first, second = (torch.load(f"{store}.{rank}") for rank in (0, 1))
    tree = random_tree(3)
    close = {"rtol": 1e-11, "atol": 1e-13}
    for name in LOSSES:
        loss = make(name, tree)
        for number in range(3):
            inputs, nodes = step(name, tree, number)
            loss.zero_grad()
            value = loss(*[x.requires_grad_() for x in inputs], nodes)
            value.backward()
            one, two = first[name, number], second[name, number]
            for rank in (one, two):
                torch.testing.assert_close(rank[0], value.detach(), **close)
                torch.testing.assert_close(rank[3], list(loss.state_dict().values()), **close)
            for x, a, b in zip(inputs, one[1], two[1], strict=True):
                torch.testing.assert_close(torch.cat([a, b]) / 2, x.grad, **close)  # as DDP means it
            for p, a, b in zip(loss.parameters(), one[2], two[2], strict=True):
                torch.testing.assert_close((a + b) / 2, p.grad, **close)
