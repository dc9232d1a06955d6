"""The contrast with a queue over chunks of it, against the dense one."""

import math

import pytest
import torch
from pair_batches import random_batch, random_tree
from torch.utils._python_dispatch import TorchDispatchMode

from labeltree.pairs import LabelRows, PairRelation, implementation, soft_target_contrast
from sweeps import long_unless, some_now

pytestmark = pytest.mark.slow

FIELDS = ("own", "lse", "mass", "attraction", "entropy")


def batch(seed, b=7, m=23, d=3, instances=True, dtype=torch.float64):
    tree = random_tree(seed)
    nodes, samples = random_batch(tree, seed, b + m)
    sides = (
        LabelRows.of(tree.paths, nodes[part], samples[part] if instances else None, None)
        for part in (slice(b), slice(b, None))
    )
    generator = torch.Generator().manual_seed(seed)
    q, k, h = (torch.randn(n, d, generator=generator, dtype=dtype) for n in (b, b, m))
    return q, k, h, PairRelation(*sides, offset=None)


def evaluate(name, tile, q, k, h, relation, **options):
    """All fields, and the gradient of a mixture of them."""
    q = q.clone().requires_grad_()
    with implementation(name, tile=tile):
        found = soft_target_contrast(q, k, h, relation, **options)
    fields = [getattr(found, field) for field in FIELDS]
    lse = torch.where(found.lse > -torch.inf, found.lse, 0.0)
    slopes = torch.linspace(0.5, 2.0, lse.numel(), dtype=q.dtype).view_as(lse)
    ((slopes * lse).sum() + (found.attraction / found.mass).sum() - 0.3 * found.own.sum()).backward()
    return [field.detach() for field in fields], q.grad


def alike(batch, rtol=1e-11, tiles=(4, 64), **options):
    fields, grad = evaluate("dense", None, *batch, **options)
    for tile in tiles:
        got, got_grad = evaluate("streaming", tile, *batch, **options)
        for expected, value in zip(fields, got, strict=True):
            assert value.dtype == expected.dtype
            torch.testing.assert_close(value, expected, rtol=rtol, atol=rtol)
        torch.testing.assert_close(got_grad, grad, rtol=10 * rtol, atol=10 * rtol)
    return fields


@pytest.mark.parametrize("instances", [True, False])
@pytest.mark.parametrize("temperature", long_unless([1e-3, 0.3], [0.3]))
@pytest.mark.parametrize("target_temperature", [0.0, 0.2, math.inf])
def test_any_sets_of_relations(instances, temperature, target_temperature):
    """Softmaxes that share all keys, some and none."""
    counted = 0
    for seed in range(2):
        given = batch(seed, 6, 10, instances=instances)
        size, generator = given[3].num_relations, torch.Generator().manual_seed(seed)
        some, others = torch.rand(2, size, generator=generator) < 0.6
        for members in ([some], [some, some | others], [some, ~some, others], [some & False, some]):
            fields = alike(
                given,
                positive=torch.rand(size, generator=generator) < 0.5,
                members=torch.stack(members),
                temperature=temperature,
                target_temperature=target_temperature,
            )
            counted += int((fields[2] > 1).sum())
    assert counted > 5


def test_a_batch_that_is_its_own_queue():
    """Excluded pairs are in no set, whatever their label and sample."""
    q, k, _, relation = batch(3, b=9, m=4)
    every = torch.ones(2, relation.num_relations, dtype=torch.bool)
    own = PairRelation(relation.queries, relation.queries, offset=0)
    shifted = PairRelation(relation.queries[slice(2, 6)], relation.queries, offset=2)
    for given in ((q, k, k, own), (q[2:6], k[2:6], k, shifted)):
        alike(given, positive=every[0], members=every, temperature=0.5, target_temperature=0.1)


@pytest.mark.parametrize("offset", [-1, -2, -12])
@pytest.mark.parametrize("instances", some_now([True, False]))
def test_a_queue_of_all_queries_but_the_first(offset, instances):
    """Who comes before the queue meets itself nowhere; the others do, in whichever block they are."""
    q, k, _, relation = batch(3, b=16, m=1, instances=instances)
    every = torch.ones(2, relation.num_relations, dtype=torch.bool)
    queries = relation.queries
    options = {"positive": every[0], "members": every, "temperature": 0.5, "target_temperature": 0.1}
    behind = PairRelation(queries, queries[slice(-offset, None)], offset=offset)
    alike((q, k, k[-offset:], behind), tiles=(1, 2, 64), **options)
    part = PairRelation(queries[slice(10)], queries[slice(-offset, None)], offset=offset)
    alike((q[:10], k[:10], k[-offset:], part), tiles=(1, 2, 64), **options)


def test_a_relation_that_is_not_of_labels():
    class ByParity(PairRelation):
        def codes(self, rows=None, cols=None):
            index = torch.arange(self.num_keys) if cols is None else torch.arange(self.num_keys)[cols]
            rows = torch.arange(self.num_queries) if rows is None else torch.arange(self.num_queries)[rows]
            return (rows[:, None] + index[None]) % 3

    q, k, h, relation = batch(1)
    relation = ByParity(relation.queries, relation.keys, offset=None)
    sets = torch.arange(relation.num_relations)
    members = torch.stack([sets < 2, sets != 1])
    alike((q, k, h, relation), positive=sets == 1, members=members, temperature=0.3, target_temperature=0.3)


def test_candidates_at_any_distance_behind_the_nearest():
    """Weights from 1 to what underflows, met in any order, in float32."""
    angle = torch.tensor([3.0, 0.1, 2.0, 0.0, 1e-3, 0.0, 1.5, 0.7])
    for order in (torch.arange(8), torch.arange(8).flip(0), torch.randperm(8)):
        h = torch.stack([angle[order].cos(), angle[order].sin()], dim=1)
        k = torch.tensor([[1.0, 0.0]])
        missing = torch.full((9,), -1)
        rows = LabelRows(missing, missing.new_empty(9, 0), None, None)
        relation = PairRelation(rows[slice(1)], rows[slice(1, None)], offset=None)
        every = torch.ones(1, relation.num_relations, dtype=torch.bool)
        for tau in (0.0, 1e-30, 0.005, 0.5, math.inf):
            options = {"positive": every[0], "members": every, "temperature": 0.01}
            fields = alike((k, k, h, relation), 2e-5, (1, 2, 3), **options, target_temperature=tau)
            assert 2 < fields[2] <= 9
            assert tau != 0 or fields[2] == 3  # the own key, and both of the nearest


def test_no_candidates_no_members_no_queue_no_queries():
    q, k, h, relation = batch(2)
    none = torch.zeros(2, relation.num_relations, dtype=torch.bool)
    options = {"members": none, "temperature": 0.1, "target_temperature": 0.1}
    for positive in (None, none[0]):
        fields = alike((q, k, h, relation), positive=positive, **options)
        assert torch.equal(fields[1][:, 0], fields[0])
        assert (fields[2] == 1).all()
    options["members"] = ~none
    empty = PairRelation(relation.queries, relation.keys[slice(0, 0)], offset=None)
    alike((q, k, h[:0], empty), positive=~none[0], **options)
    nobody = PairRelation(relation.queries[slice(0, 0)], relation.keys, offset=None)
    alike((q[:0], k[:0], h, nobody), positive=~none[0], **options)


def test_a_second_derivative_is_an_error_that_names_the_way_out():
    q, k, h, relation = batch(0)
    every = torch.ones(1, relation.num_relations, dtype=torch.bool)
    q.requires_grad_()
    with implementation("streaming", tile=4):
        lse = soft_target_contrast(
            q, k, h, relation, positive=None, members=every, temperature=0.1, target_temperature=0.1
        ).lse
    (first,) = torch.autograd.grad(lse.sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match='implementation\\("dense"\\)'):
        first.sum().backward()


def test_a_tight_cluster_keeps_its_gradient():
    """In float32 the gradient is at most twice as far from float64's as the dense one."""
    q, k, h, relation = batch(4, 24, 200, 32)
    q, k, h = (1 + 0.01 * x for x in (q, k, h))
    every = torch.ones(1, relation.num_relations, dtype=torch.bool)
    options = {"positive": every[0], "members": every, "target_temperature": 0.1}

    def gradient(name, x, y, stored, tau):
        x = x.clone().requires_grad_()
        with implementation(name, tile=16):
            found = soft_target_contrast(x, y, stored, relation, temperature=tau, **options)
        (found.lse[:, 0] - found.attraction / found.mass).sum().backward()
        return x.grad.double()

    for tau in (0.1, 0.01):
        exact = gradient("dense", q, k, h, tau)
        dense, streamed = (
            (gradient(name, q.float(), k.float(), h.float(), tau) - exact).norm()
            for name in ("dense", "streaming")
        )
        assert streamed <= 2 * dense


@pytest.mark.parametrize("tile", [64, 512])
def test_tight_clusters_far_from_each_other_keep_their_gradient(tile):
    """Of two classes half-way between which nothing lies, in chunks of one and of both."""
    generator = torch.Generator().manual_seed(0)
    nodes = torch.arange(2).repeat(264)
    centres = torch.nn.functional.normalize(torch.randn(2, 32, generator=generator), dim=1)
    rows = LabelRows.of(torch.tensor([[0], [1]]), nodes, None, None)
    relation = PairRelation(rows[slice(16)], rows[slice(16, None)], offset=None)
    z = centres[nodes] + 1e-3 * torch.randn(len(nodes), 32, generator=generator)
    k = z[:16] + 0.02 * torch.randn(16, 32, generator=generator)
    h = z[16:] + 0.02 * torch.randn(512, 32, generator=generator)
    every = torch.ones(1, relation.num_relations, dtype=torch.bool)
    same = torch.arange(relation.num_relations) > 0
    options = {"positive": same, "members": every, "temperature": 0.1, "target_temperature": 0.1}

    def gradient(name, dtype):
        x = z[:16].to(dtype).requires_grad_()
        with implementation(name, tile=tile):
            found = soft_target_contrast(x, k.to(dtype), h.to(dtype), relation, **options)
        (found.lse[:, 0] - found.attraction / found.mass).sum().backward()
        return x.grad.double()

    exact = gradient("dense", torch.float64)
    dense, ours = ((gradient(name, torch.float32) - exact).norm() for name in ("dense", "streaming"))
    assert ours <= 2 * dense


@pytest.mark.parametrize("noise", [1e-2, 1e-3])
@pytest.mark.parametrize("target_temperature", [0.1, math.inf])
@pytest.mark.parametrize("per_class", [2, 100])
def test_classes_as_tight_in_the_queue_as_in_the_batch_keep_their_gradient(
    noise, target_temperature, per_class
):
    """Softmax and target nearly cancel on a query's own class, of few keys of a chunk or of many."""
    generator = torch.Generator().manual_seed(0)
    nodes = torch.arange(400) // per_class
    centres = torch.nn.functional.normalize(torch.randn(200, 64, generator=generator), dim=1)
    z, k, h = (centres[nodes] + noise * torch.randn(400, 64, generator=generator) for _ in range(3))
    rows = LabelRows.of(torch.arange(200)[:, None], nodes, None, None)
    relation = PairRelation(rows, rows, offset=None)
    sets = torch.ones(2, relation.num_relations, dtype=torch.bool)
    same = torch.arange(relation.num_relations) > 0

    def gradient(name, dtype):
        x = z.to(dtype, copy=True).requires_grad_()
        with implementation(name, tile=256):
            found = soft_target_contrast(
                x,
                k.to(dtype),
                h.to(dtype),
                relation,
                positive=same,
                members=sets,
                temperature=0.1,
                target_temperature=target_temperature,
            )
        (found.lse[:, 0] - found.attraction / found.mass).sum().backward()
        return x.grad.double()

    exact = gradient("dense", torch.float64)
    dense, ours = ((gradient(name, torch.float32) - exact).norm() for name in ("dense", "streaming"))
    assert ours <= 3 * dense


class Largest(TorchDispatchMode):
    """The greatest number of elements of any tensor that is made."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        for part in found if isinstance(found, tuple | list) else [found]:
            if isinstance(part, torch.Tensor):
                self.elements = max(self.elements, part.numel())
        return found


def test_no_tensor_is_of_all_pairs():
    b, m, tile = 40, 1000, 16
    largest = {}
    for name in ("dense", "streaming"):
        given = batch(0, b, m, instances=False)
        given[3].queries.nodes.clamp_(min=1)  # views of one sample would be compared pair by pair
        size = given[3].num_relations
        sets = torch.rand(2, size, generator=torch.Generator().manual_seed(1)) < 0.7
        with Largest() as seen:
            options = {"positive": sets[0], "members": sets, "temperature": 0.1, "target_temperature": 0.1}
            evaluate(name, tile, *given, **options)
        largest[name] = seen.elements
    assert largest["dense"] >= b * m
    assert largest["streaming"] <= 4 * m  # the queue itself, its labels' paths
