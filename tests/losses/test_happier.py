"""HAPPIER against loops over anchors, results and rivals, and its surrogate against the cubic form."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from labeltree.losses import HAPPIERLoss
from labeltree.losses.contrastive.h_ap_surrogate import SmoothRank, h_ap_surrogate
from labeltree.taxonomy import Taxonomy
from sweeps import some_now

# ragged: a leaf at depth 1, inner nodes at depths 1 and 2
TREE = Taxonomy.from_paths([("a", "b", "x"), ("a", "b", "y"), ("a", "c", "z"), ("d", "e", "w"), ("s",)])


def step(d: float, tau: float = 0.01, rho: float = 100.0, delta: float = 0.05, offset: float = 1.44) -> float:
    if d > delta:
        return rho * (d - delta) + offset
    return 1 / (1 + math.exp(-max(d / tau, -700))) + (0.5 if d > 0 else 0.0)


def shared(u: int, v: int) -> tuple[int, bool]:
    """The depth that two labels share, and whether it is certain that they share no more."""
    if u == v and TREE.height[u] == 0:
        return TREE.max_depth, True
    depth = int(TREE.lca_depth(u, v))
    open_ends = [w for w in (u, v) if TREE.height[w] > 0 and int(TREE.depth[w]) == depth]
    return depth, not open_ends


def slow(z: Tensor, nodes: list[int], instances: list[int], relevance: str, alpha: float = 1.0) -> float:
    """By the definition, in plain loops."""
    unit = torch.nn.functional.normalize(z.double())
    s = (unit @ unit.T).tolist()
    losses, n, last = [], len(nodes), TREE.max_depth
    for i in range(n):
        found = {}
        for j in range(n):
            if j != i and instances[i] == instances[j]:
                found[j] = (last, True)
            elif j != i and nodes[i] >= 0 and nodes[j] >= 0:
                found[j] = shared(nodes[i], nodes[j])
        depths = [depth for depth, _ in found.values()]
        if relevance == "pop":
            rel = [(v / last) ** alpha / max(depths.count(v), 1) for v in range(last + 1)]
        else:
            deeper = [sum(d >= p for d in depths) for p in range(last + 1)]
            rel = [sum(1 / deeper[p] for p in range(1, v + 1) if deeper[p]) for v in range(last + 1)]
        rel[0] = 0.0
        value = 0.0
        for k, (depth, _) in found.items():
            if not depth:
                continue
            rank, gained = 0.0, 0.0
            for j, (other, certain) in found.items():
                if not certain and other < depth:
                    continue
                ahead = float(s[i][j] >= s[i][k])
                gained += min(rel[other], rel[depth]) * ahead
                rank += ahead if rel[other] >= rel[depth] else step(s[i][j] - s[i][k])
            value += gained / rank
        total = sum(rel[depth] for depth, _ in found.values())
        if total:
            losses.append(1 - value / total)
    return sum(losses) / len(losses) if losses else 0.0


def batch(n: int, seed: int, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    centre = torch.randn(1, 5, generator=generator, dtype=torch.float64)
    z = centre + scale * torch.randn(n, 5, generator=generator, dtype=torch.float64)
    nodes = torch.randint(-1, TREE.num_nodes, (n,), generator=generator)
    return z, nodes, torch.arange(n) // 2


@pytest.mark.parametrize("relevance", ["pop", "map"])
@pytest.mark.parametrize("scale", some_now([3.0, 0.2]))
def test_the_ranking_term_is_its_definition(relevance: str, scale: float) -> None:
    z, nodes, instances = batch(20, 0, scale)
    for alpha in (1.0, 0.2):  # with 0.2 a coarser result may be worth more than a finer one
        loss = HAPPIERLoss(TREE, 5, relevance=relevance, alpha=alpha)
        expected = slow(z, nodes.tolist(), instances.tolist(), relevance, alpha)
        assert loss.ranked(z, nodes, instances).item() == pytest.approx(expected, abs=1e-6)
    alone = slow(z, nodes.tolist(), list(range(20)), relevance, 1.0)
    assert HAPPIERLoss(TREE, 5, relevance=relevance).ranked(z, nodes).item() == pytest.approx(alone, abs=1e-6)


def cubic(
    s: Tensor, depth: Tensor, ranked: Tensor, known: Tensor, relevance: Tensor, how: SmoothRank
) -> tuple[Tensor, Tensor]:
    """The same arguments and results as `h_ap_surrogate`, by autograd over all triples."""
    s = s.clone().requires_grad_()
    own = relevance.gather(1, depth) * ranked
    d = s[:, None, :] - s[:, :, None]
    ahead = (d.detach() >= 0).double()
    within = ranked[:, None, :] & (known[:, None, :] | (depth[:, None, :] >= depth[:, :, None]))
    less = within & (own[:, None, :] < own[:, :, None])
    sigmoid = torch.sigmoid(d / how.temperature)
    smooth = torch.where(d > how.delta, how.slope * (d - how.delta) + how.offset, sigmoid + 0.5 * (d > 0))
    rank = torch.where(less, smooth, ahead * within).sum(2)
    gained = (torch.minimum(own[:, None, :], own[:, :, None]) * within * ahead).sum(2)
    total = own.sum(1)
    value = torch.where(own > 0, gained / rank.clamp(min=1e-300), 0.0).sum(1)
    loss = torch.where(total > 0, 1 - value / total.clamp(min=1e-300), 0.0)
    (gradient,) = torch.autograd.grad(loss.sum(), s)
    return loss.detach(), gradient


@pytest.mark.parametrize("spread", [1.0, 0.3, 0.02])
@pytest.mark.parametrize("how", [SmoothRank(), SmoothRank(0.02, 10.0, 0.2, 2.0), SmoothRank(0.005)])
def test_value_and_gradient_are_those_of_the_cubic_form(how: SmoothRank, spread: float) -> None:
    generator = torch.Generator().manual_seed(1)
    b, n, last = 3, 256, 3
    s = (spread * torch.randn(b, n, generator=generator, dtype=torch.float64)).clamp(-1, 1)
    depth = torch.randint(0, last + 1, (b, n), generator=generator)
    ranked = torch.rand(b, n, generator=generator) < 0.9
    known = (torch.rand(b, n, generator=generator) < 0.8) | (depth == last)
    relevance = torch.rand(b, last + 1, generator=generator, dtype=torch.float64)
    relevance[:, 0] = 0
    relevance[1] = relevance[1].sort().values
    values, slopes = h_ap_surrogate(s, depth, ranked, known, relevance, how)
    expected, gradient = cubic(s, depth, ranked, known, relevance, how)
    torch.testing.assert_close(values, expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(slopes, gradient, rtol=1e-6, atol=1e-6 * float(gradient.abs().max()))


def test_the_gradient_reaches_the_embeddings() -> None:
    z, nodes, instances = batch(40, 2)
    loss = HAPPIERLoss(TREE, 5)
    z.requires_grad_()
    loss.ranked(z, nodes, instances).backward()
    unit = torch.nn.functional.normalize(z)
    s = unit @ unit.T
    depth, ranked, known = loss.shared(nodes, instances, slice(0, 40))
    relevance = loss.relevances(depth, ranked)
    _, slopes = cubic(s.detach().clamp(-1, 1), depth, ranked, known, relevance, loss.step)
    count = int((ranked & (depth > 0)).any(1).sum())
    (expected,) = torch.autograd.grad((s * slopes).sum() / count, z)
    torch.testing.assert_close(z.grad, expected, rtol=1e-6, atol=1e-7)


def test_both_terms_have_their_weights() -> None:
    z, nodes, instances = batch(20, 3)
    loss = HAPPIERLoss(TREE, 5, weight=0.25).double()
    whole = loss(z, nodes, instances)
    classified = super(HAPPIERLoss, loss).forward(z, nodes)
    expected = 0.25 * classified + 0.75 * loss.ranked(z, nodes, instances)
    torch.testing.assert_close(whole, expected)
    whole.backward()
    assert loss.proxies.grad is not None
    assert bool((loss.proxies.grad != 0).any())


def test_the_best_ranking_loses_nothing_and_ties_are_finite() -> None:
    nodes = TREE.encode(["a/b/x", "a/b/x", "d/e/w", "d/e/w"])
    z = torch.tensor([[1.0, 0.0], [1.0, 0.1], [-1.0, 0.0], [-1.0, 0.1]])
    assert HAPPIERLoss(TREE, 2).ranked(z, nodes).item() == pytest.approx(0, abs=1e-6)
    for equal in (torch.ones(4, 2), torch.zeros(4, 2)):
        equal.requires_grad_()
        loss = HAPPIERLoss(TREE, 2)(equal, nodes)
        loss.backward()
        assert loss.isfinite()
        assert bool(equal.grad.isfinite().all())


@pytest.mark.parametrize("nodes", [[], [-1, -1, -1], [1], [0, 0, 0]])
def test_nothing_to_rank_is_exactly_zero(nodes: list[int]) -> None:
    z = torch.randn(len(nodes), 4, requires_grad=True)
    loss = HAPPIERLoss(TREE, 4).ranked(z, torch.tensor(nodes, dtype=torch.int64))
    assert loss.item() == 0
    loss.backward()
    assert bool((z.grad == 0).all())


def test_views_without_a_label_are_each_others_best() -> None:
    """They have one relevant result and no rival: nothing is lost, and their rows are in no other's way."""
    z, nodes, instances = batch(12, 4)
    nodes[4:6] = -1
    others = torch.cat([torch.arange(4), torch.arange(6, 12)])
    loss = HAPPIERLoss(TREE, 5)
    labelled = int((nodes[others] >= 0).sum())
    whole = loss.ranked(z, nodes, instances)
    part = loss.ranked(z[others], nodes[others], instances[others])
    depth, ranked, _ = loss.shared(nodes, instances, slice(0, 12))
    count = int((ranked & (depth > 0)).any(1).sum())
    assert labelled
    assert whole.item() * count == pytest.approx(part.item() * (count - 2))


def test_many_rows_are_ranked_a_few_anchors_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    z, nodes, instances = batch(50, 5)
    loss = HAPPIERLoss(TREE, 5)
    once = loss.ranked(z, nodes, instances)
    monkeypatch.setattr("labeltree.losses.contrastive.happier._PAIRS", 350)
    torch.testing.assert_close(loss.ranked(z, nodes, instances), once)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight": 1.5}, "weight must lie between 0 and 1; got 1.5"),
        ({"relevance": "linear"}, "relevance is 'linear'; expected 'pop' or 'map'"),
        ({"alpha": -1.0}, "alpha must be at least 0; got -1.0"),
        ({"rank_temperature": 0.001}, "expected a temperature of at least 0.005"),
        ({"rank_temperature": 0.02}, "at most a fifth of delta"),
        ({"slope": -1.0}, "slope is -1.0"),
    ],
)
def test_bad_settings(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HAPPIERLoss(TREE, 4, **options)


@pytest.mark.parametrize(
    ("relevance", "value", "first", "last"),
    [
        (
            "pop",
            0.5308235674449051,
            [0.11486744761550968, -0.06277882650379163, -0.14842481878154606],
            [0.029468824674646794, -0.04393763520605188, 0.0010578580533841322],
        ),
        (
            "map",
            0.5135158093871199,
            [0.0947738947041467, -0.05650033975372436, -0.13358090866091343],
            [0.031787043172427226, -0.046876829913258845, 0.0014342286820129627],
        ),
    ],
)
def test_the_reference_variant_is_the_published_code(
    relevance: str, value: float, first: list[float], last: list[float]
) -> None:
    """Its loss and gradients, computed once in float64, with its step function taken as constant."""
    tree = Taxonomy.from_paths([(a, a + b, a + b + c) for a in "ab" for b in "uv" for c in "xy"])
    nodes = tree.leaves[torch.tensor([0, 0, 1, 2, 3, 3, 4, 4, 5, 6, 7, 2])]
    place = torch.arange(36).double().view(12, 3)
    z = torch.sin(1.7 * place + 0.3 * place * place / 7).requires_grad_()
    loss = HAPPIERLoss(tree, 3, 0.0, relevance=relevance, variant="reference")(z, nodes)
    loss.backward()
    assert loss.item() == pytest.approx(value, abs=1e-7)
    torch.testing.assert_close(z.grad[[0, -1]], torch.tensor([first, last]).double(), atol=1e-6, rtol=0)
