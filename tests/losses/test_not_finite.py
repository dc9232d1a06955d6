"""Huge embeddings have the loss that mathematics gives them; NaN and infinity give NaN and are never kept."""

import math
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from implementations import IMPLEMENTATIONS
from slow_losses import even_tree
from torch import Tensor

from labeltree.geometry import Euclidean, PoincareBall, Sphere
from labeltree.losses import (
    ASCLLoss,
    CenterLoss,
    CoInsLoss,
    CorrelationLoss,
    CPCCLoss,
    CrossEntropyLoss,
    CSLLoss,
    EmbeddingClassifierLoss,
    GrafitLoss,
    GuidedPrototypeLoss,
    HAFLoss,
    HAFrameLoss,
    HAPPIERLoss,
    HiConELoss,
    HierarchicalProxyLoss,
    HierCOSLoss,
    HiMulConELoss,
    HiMulConLoss,
    HWCLoss,
    HXELoss,
    JaccardSupConLoss,
    LabelEmbeddingLoss,
    LevelAwareMarginLoss,
    MaskConLoss,
    MLCLLoss,
    NNCLRLoss,
    NormalisedSoftmaxLoss,
    NTXentLoss,
    SelfConLoss,
    SoftLabelLoss,
    SupConLoss,
    TreeProxyLoss,
    WeightedSupConLoss,
)
from labeltree.metrics import functional
from labeltree.models import KeyQueue
from labeltree.pairs import implementation
from labeltree.pairs import pair_plan as plans
from sweeps import some_now

pytestmark = pytest.mark.slow

TREE = even_tree(2, 2, 2)
HUGE = 2.0**100  # 1.3e30, whose square is beyond float32; a power of 2, so that nothing is rounded
N, D = 20, 8
RANDOM = torch.Generator().manual_seed(0)
Z = torch.randn(N, D, generator=RANDOM)
NODES = TREE.leaves[torch.randint(8, (N,), generator=RANDOM)]
NODES[5], NODES[11], NODES[12] = -1, 0, 1  # missing, the root, an inner node
INSTANCES = torch.arange(N)
INSTANCES[13] = 3
RATINGS = torch.randint(0, 6, (N, 3), generator=RANDOM)

Loss = Callable[[Tensor], Tensor]


def pairwise(loss: torch.nn.Module) -> Loss:
    return lambda z: loss(z, NODES, INSTANCES)


def queued(loss: torch.nn.Module) -> Loss:
    queue = KeyQueue(32, D)
    queue.enqueue(torch.eye(D), TREE.leaves, torch.arange(100, 108))
    return lambda z: loss(z, z.detach().roll(1, 1), queue, NODES, INSTANCES)


BY_DIRECTION: dict[str, Callable[[], Loss]] = {
    "simclr": lambda: pairwise(NTXentLoss()),
    "supcon": lambda: pairwise(SupConLoss(TREE)),
    "supcon by chords": lambda: pairwise(SupConLoss(TREE, similarity="distance")),
    "himulcon": lambda: pairwise(HiMulConLoss(TREE)),
    "himulcon reference": lambda: pairwise(HiMulConLoss(TREE, variant="reference")),
    "hicone": lambda: pairwise(HiConELoss(TREE, variant="paper")),
    "hicone reference": lambda: pairwise(HiConELoss(TREE, variant="reference")),
    "himulcone": lambda: pairwise(HiMulConELoss(TREE, variant="paper")),
    "hwc": lambda: pairwise(HWCLoss(TREE, 0.5, 0.5)),
    "hwc own depth": lambda: pairwise(HWCLoss(TREE, 0.5, 0.5, rho="own_depth")),
    "outside": lambda: pairwise(WeightedSupConLoss(TREE)),
    "jaccard": lambda: lambda z: JaccardSupConLoss()(z, RATINGS, INSTANCES),
    "mlcl": lambda: lambda z: MLCLLoss(TREE)([z] * 3, NODES, INSTANCES),
    "lam": lambda: pairwise(LevelAwareMarginLoss(TREE, D)),
    "lam by cosines": lambda: pairwise(LevelAwareMarginLoss(TREE, D, distance="cosine")),
    "corr": lambda: pairwise_two(CorrelationLoss(TREE)),
    "csl": lambda: pairwise_two(seeded(CSLLoss, TREE, D)),
    "hierarchical proxies": lambda: pairwise_two(seeded(HierarchicalProxyLoss, TREE, D)),
    "normalised softmax": lambda: pairwise_two(seeded(NormalisedSoftmaxLoss, TREE, D)),
    "happier": lambda: pairwise_two(seeded(HAPPIERLoss, TREE, D)),
    "tree proxies": lambda: pairwise_two(seeded(TreeProxyLoss, TREE, D)),
    "cpcc": lambda: pairwise_two(CPCCLoss(TREE, centre=0.1)),
    "guided on the sphere": lambda: pairwise_two(seeded(GuidedPrototypeLoss, TREE, D, geometry=Sphere())),
    "maskcon": lambda: queued(MaskConLoss(TREE)),
    "grafit": lambda: queued(GrafitLoss(TREE)),
    "selfcon": lambda: queued(SelfConLoss()),
    "nnclr": lambda: queued(NNCLRLoss()),
    "ascl": lambda: queued(ASCLLoss()),
}
BY_LENGTH: dict[str, Callable[[], Loss]] = {
    "haframe": lambda: pairwise_two(HAFrameLoss(TREE, D)),
    "hier-cos": lambda: lambda z: HierCOSLoss(TREE)(z.repeat(1, 2)[:, : len(TREE) - 1], NODES),
    "supcon in space": lambda: pairwise(SupConLoss(TREE, geometry=Euclidean())),
    "supcon in the ball": lambda: pairwise(SupConLoss(TREE, geometry=PoincareBall())),
    "lam in space": lambda: pairwise(LevelAwareMarginLoss(TREE, D, geometry=Euclidean())),
    "lam in the ball": lambda: pairwise(LevelAwareMarginLoss(TREE, D, geometry=PoincareBall())),
    "cpcc in space": lambda: pairwise_two(CPCCLoss(TREE, geometry=Euclidean())),
    "cpcc in the ball": lambda: pairwise_two(CPCCLoss(TREE, geometry=PoincareBall())),
    "guided": lambda: pairwise_two(seeded(GuidedPrototypeLoss, TREE, D)),
    "guided in the ball": lambda: pairwise_two(seeded(GuidedPrototypeLoss, TREE, D, geometry="poincare")),
    "guided, squared": lambda: pairwise_two(seeded(GuidedPrototypeLoss, TREE, D, squared=True)),
    "ce": lambda: pairwise_two(CrossEntropyLoss(TREE)),
    "haf": lambda: pairwise_two(seeded(HAFLoss, TREE, D)),
    "ce, smooth": lambda: pairwise_two(CrossEntropyLoss(TREE, label_smoothing=0.1)),
    "hxe": lambda: pairwise_two(HXELoss(TREE)),
    "soft": lambda: pairwise_two(SoftLabelLoss(TREE)),
}
OTHERS: dict[str, Callable[[], Loss]] = {
    "centre": lambda: lambda z: CenterLoss(TREE, D)(z, Z, NODES),
    "embedding classifier": lambda: pairwise_two(seeded(EmbeddingClassifierLoss, TREE, D)),
    "embedding classifier, normalised": lambda: pairwise_two(normalised(EmbeddingClassifierLoss)),
    "label embedding": lambda: pairwise_two(seeded(LabelEmbeddingLoss, TREE, D)),
    "label embedding, normalised": lambda: pairwise_two(normalised(LabelEmbeddingLoss)),
    "coins": lambda: queued_classes(CoInsLoss(TREE)),
}


def pairwise_two(loss: torch.nn.Module) -> Loss:
    return lambda z: loss(z, NODES)


def queued_classes(loss: CoInsLoss) -> Loss:
    queue = KeyQueue(32, D)
    queue.enqueue(torch.eye(D), TREE.leaves, torch.arange(100, 108))
    return lambda z: loss(Z, z, z.detach().roll(1, 1), queue, NODES, INSTANCES)


def seeded(make: type[torch.nn.Module], *given: object, **options: object) -> torch.nn.Module:
    torch.manual_seed(0)
    return make(*given, **options)


PAIRLESS = {
    "ce", "ce, smooth", "centre", "corr", "cpcc", "cpcc in space", "cpcc in the ball", "csl",
    "embedding classifier", "embedding classifier, normalised", "guided", "guided in the ball",
    "guided on the sphere", "guided, squared", "haf", "haframe", "happier", "hier-cos",
    "hierarchical proxies", "hxe", "label embedding", "label embedding, normalised", "normalised softmax",
    "soft", "tree proxies",
}  # fmt: skip
"""Losses that never ask how pairs are computed, so that one way is all."""

each_way = pytest.mark.parametrize("_each", IMPLEMENTATIONS, indirect=True)


def each_way_of(*names: str) -> pytest.MarkDecorator:
    """A test of each of the losses, in each way in which it can be computed."""
    cases = [
        (way, name) for name in names for way in IMPLEMENTATIONS if way == "auto" or name not in PAIRLESS
    ]
    return pytest.mark.parametrize(("_each", "name"), cases, indirect=["_each"])


@pytest.fixture(autouse=True)
def _each(request: pytest.FixtureRequest):
    name, tile = IMPLEMENTATIONS[getattr(request, "param", "auto")]
    with implementation(name, tile=tile and 8):  # three tiles a side
        yield


@pytest.mark.parametrize("name", [*BY_DIRECTION, *BY_LENGTH, *OTHERS])
def test_pairless_losses_are_those_that_never_ask(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    plan = plans._PLAN.get()
    monkeypatch.setattr(plans, "_PLAN", SimpleNamespace(get=lambda: asked.append(1) or plan))
    with_gradient({**BY_DIRECTION, **BY_LENGTH, **OTHERS}[name](), Z)
    assert (not asked) == (name in PAIRLESS)


def normalised(make: type[torch.nn.Module]) -> torch.nn.Module:
    """With ReLU and batch normalisation before its linear layers."""
    return seeded(make, TREE, D, head="reference")


def with_gradient(loss: Loss, z: Tensor) -> tuple[Tensor, Tensor]:
    z = z.clone().requires_grad_()
    value = loss(z)
    value.backward()
    return value.detach(), z.grad


@each_way_of(*BY_DIRECTION)
def test_length_does_not_matter(name: str) -> None:
    """Where directions count, z·2¹⁰⁰ has the loss of z and 2⁻¹⁰⁰ of its gradient; mixed, too."""
    value, gradient = with_gradient(BY_DIRECTION[name](), Z)
    for factor in (torch.tensor(HUGE), torch.where(torch.arange(N) % 3 == 0, HUGE, 1.0)[:, None]):
        found, of_huge = with_gradient(BY_DIRECTION[name](), factor * Z)
        torch.testing.assert_close(found, value, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(of_huge * factor, gradient, rtol=1e-4, atol=1e-5)
    assert gradient.abs().sum() > 0


@each_way_of(*BY_LENGTH)
def test_where_length_matters_it_is_as_in_double_precision(name: str) -> None:
    z = torch.where(torch.arange(N) % 3 == 0, HUGE, 1.0)[:, None] * Z
    found, gradient = with_gradient(BY_LENGTH[name](), z)
    expected, wide = with_gradient(BY_LENGTH[name](), z.double())
    torch.testing.assert_close(found.double(), expected.double(), rtol=1e-4, atol=1e-5)
    # Of LAM in the ball, prototypes lie at its edge, where float32 has few digits; processors differ in them.
    share = 0.05 if name == "lam in the ball" else 1e-3
    assert ((gradient.double() - wide).norm(dim=1) <= share * wide.norm(dim=1) + 1e-7).all()


@pytest.mark.parametrize("bad", some_now([math.nan, math.inf]))  # a logit of −∞ means a probability of 0
@each_way_of(*BY_DIRECTION, *BY_LENGTH, *OTHERS)
def test_nan_gives_nan(name: str, bad: float) -> None:
    """Wherever it stands: also in a row without a label, of the root, or that meets no partner."""
    for row in (0, 5, 11, 12):
        z = Z.clone()
        z[row, 2] = bad
        assert {**BY_DIRECTION, **BY_LENGTH, **OTHERS}[name]()(z).isnan()
    assert {**BY_DIRECTION, **BY_LENGTH, **OTHERS}[name]()(torch.full_like(Z, bad)).isnan()


@each_way
@pytest.mark.parametrize("reduction", ["none", "sum", "pairs", "all"])
def test_nan_of_a_row_that_is_not_used(reduction: str) -> None:
    z = Z.clone()
    z[5, 0] = math.nan  # without a label, and nobody's partner
    found = SupConLoss(TREE, reduction=reduction)(z, NODES, INSTANCES)
    assert (found[5] if reduction == "none" else found).isnan()
    clean = SupConLoss(TREE, reduction=reduction)(Z, NODES, INSTANCES)
    assert clean.isfinite().all()


@each_way
@pytest.mark.parametrize("geometry", [Sphere(), Euclidean(), PoincareBall()], ids=lambda g: g.name)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("renormalise", [False, True])
def test_prototypes_never_take_in_what_is_not_finite(geometry, bad: float, renormalise: bool) -> None:
    loss = LevelAwareMarginLoss(TREE, D, geometry=geometry, renormalise=renormalise)
    points = 0.1 * Z
    poisoned = points.clone()
    poisoned[NODES[0] == NODES] = bad
    assert loss(poisoned, NODES).isnan()
    assert loss.prototypes.isfinite().all()
    above = int(TREE.paths[NODES[0], 0])
    assert not loss.seen[above]  # its samples were among those
    loss(points, NODES)
    assert loss.seen[above]
    before = loss.prototypes.clone()
    assert loss(poisoned, NODES).isnan()
    assert loss.prototypes.isfinite().all()
    assert torch.equal(loss.prototypes[above], before[above])
    assert loss(points.flip(0), NODES).isfinite()
    assert not torch.equal(loss.prototypes, before)


@pytest.mark.parametrize("bad", [math.nan, math.inf, 3e38])
def test_centres_never_take_in_what_is_not_finite(bad: float) -> None:
    loss = CenterLoss(TREE, D, alpha=1.0)
    loss(Z, Z, NODES)
    before = loss.centres.clone()
    poisoned = Z.clone()
    poisoned[NODES[0] == NODES] = bad
    assert not loss(poisoned, Z, NODES).isfinite()
    assert loss.centres.isfinite().all()
    column = int((loss.classes == NODES[0]).nonzero())
    if not math.isfinite(bad):
        assert torch.equal(loss.centres[column], before[column])
    assert not torch.equal(loss.centres, before)


@each_way
@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_half_precision_overflows_to_nan_and_not_to_a_number(half: torch.dtype) -> None:
    overflown = (1e4 * Z).half() * 100  # inf in float16
    assert SupConLoss(TREE)(overflown, NODES, INSTANCES).isnan()
    huge = (HUGE * Z).to(half)
    assert SupConLoss(TREE)(huge, NODES, INSTANCES).isfinite() == (half == torch.bfloat16)


@each_way
def test_metrics_of_huge_embeddings() -> None:
    usual = functional.retrieval_metrics(Z, NODES, TREE)
    huge = functional.retrieval_metrics(HUGE * Z, NODES, TREE)
    for name, value in usual.items():
        torch.testing.assert_close(huge[name], value, equal_nan=True, rtol=0, atol=1e-9)
    assert functional.pair_violations(HUGE * Z, NODES, TREE) == functional.pair_violations(Z, NODES, TREE)


@pytest.mark.parametrize("make", [EmbeddingClassifierLoss, LabelEmbeddingLoss])
def test_batch_normalisation_of_huge_embeddings(make: type[torch.nn.Module]) -> None:
    """It divides by what is as huge: the loss is that in double precision, and 2⁻¹⁰⁰ of its gradient."""
    for factor in (torch.tensor(HUGE), torch.where(torch.arange(N) % 3 == 0, HUGE, 1.0)[:, None]):
        found, gradient = with_gradient(pairwise_two(normalised(make)), factor * Z)
        expected, wide = with_gradient(pairwise_two(normalised(make).double()), factor * Z.double())
        torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(HUGE * gradient.double(), HUGE * wide, rtol=1e-3, atol=1e-5)
        assert gradient.abs().sum() > 0


@pytest.mark.parametrize("bad", [math.nan, math.inf, HUGE])
def test_running_statistics_never_take_in_what_is_not_finite(bad: float) -> None:
    """The square of 1e30 is beyond float32, and no variance to normalise later batches by."""
    loss = normalised(EmbeddingClassifierLoss)
    loss(Z, NODES)
    before = {name: value.clone() for name, value in loss.head.norm.named_buffers()}
    poisoned = Z.clone()
    poisoned[:, 0] *= bad
    poisoned[0, 0] = abs(bad)
    loss(poisoned, NODES)
    after = dict(loss.head.norm.named_buffers())
    for name in ("running_mean", "running_var"):
        assert after[name].isfinite().all()
        assert after[name][0] == before[name][0]
        assert (after[name][1:] != before[name][1:]).all()
    assert loss.eval()(Z, NODES).isfinite()
    assert int(after["num_batches_tracked"]) == 2


def test_the_nearest_prototype_of_huge_embeddings() -> None:
    loss = seeded(GuidedPrototypeLoss, TREE, D, squared=True)
    expected = loss.double().predict(HUGE * Z.double())
    assert torch.equal(loss.float().predict(HUGE * Z), expected)
    assert len(torch.unique(expected)) > 2
