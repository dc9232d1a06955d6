"""What the losses say to arguments they cannot use; copies; the example in every docstring."""

import copy
import doctest
import importlib
import pickle
import pkgutil

import pytest
import torch
from slow_losses import even_tree, random_batch

import labeltree.losses
import labeltree.pairs
from labeltree.losses import (
    HiConELoss,
    HiMulConELoss,
    HiMulConLoss,
    HWCLoss,
    LossTable,
    NTXentLoss,
    RelationLoss,
    SupConLoss,
    WeightedSupConLoss,
    depth_weights,
)
from labeltree.pairs import implementation, relation_codes, terms

pytestmark = pytest.mark.slow

TREE = even_tree(2, 2)
Z, NODES, INSTANCES = random_batch(TREE, 0)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (
            (Z[0], NODES, INSTANCES),
            r"embeddings must be a floating-point tensor of shape \(n, d\); got float64 of",
        ),
        (
            (NODES[None], NODES, None),
            r"embeddings must be a floating-point tensor .* got int64 of shape \(1, 12\)",
        ),
        ((Z.tolist(), NODES, None), "embeddings must be a floating-point tensor .* got list"),
        (
            (Z, NODES[:5], None),
            r"nodes must have shape \(12,\), one per row of embeddings \(12, 4\); got \(5,\)",
        ),
        ((Z, NODES[:, None], None), r"nodes must have shape \(12,\).* got \(12, 1\)"),
        (
            (Z, NODES.double(), None),
            r"nodes must be an integer tensor of shape \(12,\); got float64 of shape \(12,\)",
        ),
        ((Z, NODES.bool(), None), "nodes must be an integer tensor .* got bool"),
        ((Z, ["dog"] * 12, None), "nodes must be an integer tensor .* got list"),
        ((Z, NODES, INSTANCES[:3]), r"instances must have shape \(12,\).* got \(3,\)"),
        ((Z, NODES, INSTANCES.float()), "instances must be an integer tensor"),
        (
            (Z, torch.full((12,), 7), None),
            r"nodes must lie between -1 \(missing\) and 6.* got 7 in row 0.*encode",
        ),
        ((Z, torch.full((12,), -2), None), "nodes must lie between -1 .* got -2 in row 0"),
    ],
)
def test_wrong_batches(batch, message):
    for loss in (SupConLoss(TREE), HiConELoss(TREE, variant="paper")):
        with pytest.raises(ValueError, match=message):
            loss(*batch)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NTXentLoss(0.0), "temperature must be above 0; got 0.0"),
        (
            lambda: NTXentLoss(reduction="mean"),
            "reduction is 'mean'; expected one of 'valid', 'all', 'pairs', 'sum', 'none'",
        ),
        (lambda: NTXentLoss(similarity="dot"), "similarity is 'dot'; expected 'cosine' or 'distance'"),
        (lambda: SupConLoss(TREE, depth=3), "depth must lie between 1 and 2, the depth of the tree; got 3"),
        (lambda: SupConLoss(TREE, undecided="drop"), "undecided is 'drop'; expected 'ignore' or 'negative'"),
        (lambda: HWCLoss(TREE, -0.1), "alpha and gamma must not be negative; got alpha=-0.1, gamma=0.5"),
        (lambda: HWCLoss(TREE, omega_max=0.5), "omega_max must be at least 1; got 0.5"),
        (lambda: HWCLoss(TREE, control="outside_softmax"), "does nothing at alpha=0; set alpha"),
        (lambda: HWCLoss(TREE, gamma=0.0, control="flat"), "does nothing at gamma=0; set gamma"),
        (
            lambda: HWCLoss(TREE, control="omega"),
            "control must be None, 'constant_omega', 'outside_softmax' or 'flat'",
        ),
        (
            lambda: HWCLoss(TREE, rho="depth"),
            "rho is 'depth'; expected one of 'max_depth', 'own_depth', 'same_one'",
        ),
        (
            lambda: HWCLoss(TREE, positives="leaf"),
            "positives is 'leaf'; expected 'same' or 'instance'",
        ),
        (
            lambda: HWCLoss(TREE, alpha=0.5, control="outside_softmax", omega_max=2.0),
            "outside_softmax.*no omega_max",
        ),
        (
            lambda: WeightedSupConLoss(TREE, positives="all"),
            "positives is 'all'; expected 'related' or 'same'",
        ),
        (lambda: WeightedSupConLoss(TREE, alpha=-1.0), "alpha must not be negative; got -1.0"),
        (lambda: HiMulConLoss(TREE, "linear"), "weights must be numbers or one of exp, .*; got 'linear'"),
        (lambda: HiMulConLoss(TREE, [1.0]), r"weights must have 2 entries, .* coarse → fine; got 1: \[1.0\]"),
        (lambda: HiMulConLoss(TREE, [1.0, float("nan")]), "weights must be finite and not negative"),
        (lambda: HiMulConLoss(TREE, positives="all"), "positives is 'all'; expected 'nested' or 'exact'"),
        (lambda: HiMulConLoss(TREE, variant="code"), "variant is 'code'; expected 'paper' or 'reference'"),
        (lambda: HiConELoss(TREE, reduction="all"), "variant='reference' computes .* need variant='paper'"),
    ],
)
def test_wrong_options(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_the_reference_variant_needs_labels():
    with pytest.raises(ValueError, match="variant='reference' needs nodes"):
        HiMulConLoss(TREE, variant="reference")(Z, None, INSTANCES)


@pytest.mark.parametrize("make", [HiConELoss, HiMulConELoss])
def test_a_tree_too_deep_for_the_bounds_is_refused(make, monkeypatch):
    """At depth 5,000 the bounds of 340 rows would take 102 GB."""
    monkeypatch.setattr(terms, "_memory", lambda device: 64 * 10**9)
    with pytest.raises(ValueError, match=r"bounds of 340 rows at 5000 depths take a table of 102 GB.*64 GB"):
        terms._check_room(340, 5000, 15005, torch.zeros(1))
    terms._check_room(200, 5000, 15005, torch.zeros(1))
    monkeypatch.setattr(terms, "_memory", lambda device: 12 * 2 * 13 * 8 - 1)
    loss = make(TREE, variant="paper")
    with implementation("dense"), pytest.raises(ValueError, match=r"taxonomy.cut\(depth\).*'reference'"):
        loss(Z, NODES, INSTANCES)
    monkeypatch.undo()
    assert terms._memory(torch.device("cpu")) > 2**28
    with implementation("dense"):
        assert loss(Z, NODES, INSTANCES).isfinite()


def test_tables_are_checked():
    space = relation_codes(2)
    one, no = torch.ones(1, space.size), torch.zeros(1, space.size, dtype=torch.bool)
    with pytest.raises(ValueError, match="positive, normaliser and member must all have one shape"):
        LossTable(one, one[:, :3], no, torch.ones(1))
    with pytest.raises(ValueError, match=r"term_weight must have shape \(1,\); got \(2,\)"):
        LossTable(one, one, no, torch.ones(2))
    with pytest.raises(ValueError, match=r"scale must have shape \(13,\); got \(4,\)"):
        LossTable(one, one, no, torch.ones(1), torch.ones(4))
    with pytest.raises(ValueError, match="must be a member of its denominator"):
        RelationLoss(TREE, LossTable(one, one, no, torch.ones(1)))
    with pytest.raises(ValueError, match="table is over 5 relations, the taxonomy's codes are 13"):
        RelationLoss(TREE, NTXentLoss().table)


def test_weights_by_name():
    e = 2.718281828459045
    expected = {
        "exp": [e, e**2, e**3],
        "exp_inv": [e ** (1 / 3), e ** (1 / 2), e],
        "pow2": [2, 4, 8],
        "pow2_inv": [2 ** (1 / 3), 2 ** (1 / 2), 2],
        "inv": [1 / 3, 1 / 2, 1],
        "one": [1, 1, 1],
        "coarse_inv": [1, 1 / 2, 1 / 3],
        "coarse_exp_inv": [e, e ** (1 / 2), e ** (1 / 3)],
        "coarse_pow2_inv": [2, 2 ** (1 / 2), 2 ** (1 / 3)],
    }
    for name, values in expected.items():
        assert depth_weights(name, 3).tolist() == pytest.approx(values, rel=1e-15)
    assert depth_weights(2, 3).tolist() == [2, 2, 2]
    assert depth_weights([3, 2.5, 1], 3).tolist() == [3, 2.5, 1]
    assert depth_weights("inv", 0).tolist() == []


LOSSES = [
    NTXentLoss(0.2),
    SupConLoss(TREE, depth=1),
    HWCLoss(TREE, alpha=0.5, rho="own_depth", control="constant_omega"),
    WeightedSupConLoss(TREE, positives="same"),
    HiMulConLoss(TREE, "pow2"),
    HiMulConLoss(TREE, variant="reference"),
    HiMulConELoss(TREE),
    HiMulConELoss(TREE, positives="exact", variant="paper"),
]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_copies_and_state(loss):
    value = loss(Z, NODES, INSTANCES)
    for other in (pickle.loads(pickle.dumps(loss)), copy.deepcopy(loss)):
        assert other(Z, NODES, INSTANCES) == value
        other.load_state_dict(loss.state_dict())
        assert other(Z, NODES, INSTANCES) == value
    assert loss.state_dict() == {}  # a checkpoint is not tied to the tree's tensors
    assert "temperature=" in repr(loss)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_training_after_a_validation_in_inference_mode(loss):
    loss = copy.deepcopy(loss)
    loss._placed.clear()
    batches = [NODES] if getattr(loss, "variant", "") == "reference" else [NODES, None]
    for dtype in (torch.float32, torch.float64):
        for nodes in batches:
            with torch.inference_mode():
                loss(Z.to(dtype), nodes, INSTANCES)
            z = Z.to(dtype, copy=True).requires_grad_()
            loss(z, nodes, INSTANCES).backward()
            assert z.grad.abs().sum() > 0


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16])
def test_small_integers_are_node_ids_too(dtype):
    loss = SupConLoss(TREE)
    assert loss(Z, NODES.to(dtype), INSTANCES.to(dtype)) == loss(Z, NODES, INSTANCES)


def test_the_order_of_rows_and_the_names_of_instances_do_not_matter():
    order = torch.randperm(len(Z), generator=torch.Generator().manual_seed(0))
    for loss in LOSSES[:5]:
        shuffled = loss(Z[order], NODES[order], 1000 - 3 * INSTANCES[order])
        assert shuffled == pytest.approx(float(loss(Z, NODES, INSTANCES)), rel=1e-12)


@pytest.mark.parametrize("package", [labeltree.pairs, labeltree.losses], ids=lambda p: p.__name__)
def test_examples(package):
    run = 0
    for found in pkgutil.iter_modules(package.__path__):
        result = doctest.testmod(importlib.import_module(f"{package.__name__}.{found.name}"))
        assert result.failed == 0
        run += result.attempted
    assert run > 5
