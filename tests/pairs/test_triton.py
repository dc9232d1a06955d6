"""The Triton kernels in Triton's interpreter, against the dense implementation.

Triton reads whether to interpret when it is first imported, so this file and those beside it that are named
alike run in a process of its own.
"""

import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest
import torch
from interpreted import HALF_PRECISION, INTERPRETED, check, compared, inside, relation_of, vectors
from pair_batches import random_batch, random_tree

from labeltree import losses
from labeltree.geometry import Sphere
from labeltree.pairs import PairRelation, implementation, pair_counts, pair_statistics, soft_target_contrast
from labeltree.pairs.kernels import queue_launch as queue_kernels
from labeltree.pairs.kernels.layout import sides, tiles_between
from labeltree.pairs.primitives import way_of
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow

pytest.importorskip("triton")
WANT = ("count", "sum", "lse", "least", "least_index")
FILES = [path for path in Path(__file__).parent.glob("test_triton*.py") if "builds" not in path.name]


@pytest.mark.skipif(INTERPRETED, reason="this is that process")
@pytest.mark.long
@pytest.mark.parametrize("which", ["not long", "long"])
def test_in_the_interpreter(which):
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", which, *FILES]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


@inside
@pytest.mark.parametrize(
    ("n", "d", "refined", "temperature", "omega", "dtype"),
    [
        pytest.param(37, 8, False, 0.1, None, torch.float32, marks=pytest.mark.long),
        (20, 20, True, 0.1, 0.5, torch.float32),
        (21, 40, False, 0.01, 1.0, torch.float32),  # logits up to 200: with maxima
        (22, 17, False, 0.1, 0.5, torch.bfloat16),
        (16, 16, True, 0.05, 1.0, torch.float16),
    ],
)
def test_statistics_of_a_batch(n, d, refined, temperature, omega, dtype):
    relation = relation_of(n, refined=refined)
    generator = torch.Generator().manual_seed(1)
    scale = None if omega is None else 1 + omega * torch.rand(relation.num_relations, generator=generator)

    def call(z):
        got = pair_statistics(z, z, relation, Sphere(), temperature, scale=scale, want=WANT)
        return got.count, got.sum, got.lse, got.least, got.least_index

    exact = dtype == torch.float32
    gradient = (3e-6 if temperature > 0.01 else 1e-5) if exact else HALF_PRECISION
    check(compared(call, vectors(n, d, dtype=dtype)), gradient=gradient)


@inside
def test_half_precision_is_multiplied_as_it_is():
    """In tight clusters rounded unit vectors would cost a gradient most of its digits."""
    tree = Taxonomy.from_paths([("a",), ("b",)])
    nodes = tree.encode(["a", "b"] * 12)
    relation = PairRelation.of_batch(tree.paths, nodes)
    centres, noise = vectors(25, 16, 7)[1:3], 0.02 * vectors(24, 16, 8)
    half = (centres[torch.arange(24) % 2] + noise).bfloat16()

    def evaluate(z, by):
        z = z.clone().requires_grad_()
        with implementation(by, tile=16):
            found = pair_statistics(z, z, relation, Sphere(), 0.1, want=("sum", "lse"))
        present = found.lse.isfinite()
        count = pair_counts(relation)
        value = (count * found.lse - found.sum)[present & (count > 0)].sum()
        value.backward()
        return value.detach().double(), z.grad.double()

    (value, gradient), (exact, expected) = evaluate(half, "triton"), evaluate(half.double(), "dense")
    assert abs(value - exact) <= 1e-5 * abs(exact)
    assert (gradient - expected).norm() <= 0.004 * expected.norm()  # rounding it to bfloat16 costs 0.0017
    unit = torch.nn.functional.normalize(half.float(), dim=1).bfloat16()
    _, rounded = evaluate(unit.double(), "dense")
    rounded = rounded / half.double().norm(dim=1, keepdim=True)
    assert (rounded - expected).norm() > 0.02 * expected.norm()


@inside
@pytest.mark.parametrize(
    ("rows", "offset"),
    [
        (slice(3, 18), None),
        pytest.param(slice(0, 15), 0, marks=pytest.mark.long),
        pytest.param(slice(7, 26), -7, marks=pytest.mark.long),
    ],
)
def test_statistics_of_two_sides(rows, offset):
    relation = relation_of(28, refined=offset is None, keys=rows, offset=offset)

    def call(x, y):
        got = pair_statistics(x, y, relation, Sphere(), 0.2, want=WANT)
        return got.count, got.sum, got.lse, got.least, got.least_index

    check(compared(call, vectors(28, 12), vectors(relation.num_keys, 12, seed=1)))
    turned = PairRelation(relation.keys, relation.queries, offset=None if offset is None else -offset)
    for each in (relation, turned):
        with implementation("triton", tile=16):
            found = pair_counts(each)
        with implementation("dense"):
            assert torch.equal(found, pair_counts(each))


@inside
@pytest.mark.parametrize("temperature", [0.01, pytest.param(0.1, marks=pytest.mark.long)])
def test_tiles_of_one_relation_are_found_and_used(temperature):
    """Sorted labels, of which whole tiles are apart, ancestor and descendant, the same leaf or unknown."""
    tree = Taxonomy.from_paths([("a", "b", "c"), ("a", "b", "d"), ("a", "e"), ("f",)])
    names = ["c", "c", "d", "e", "f", "b", None]
    nodes = tree.encode([name for name in names for _ in range(16)])
    nodes = nodes[torch.randperm(len(nodes), generator=torch.Generator().manual_seed(0))]
    relation = PairRelation.of_batch(tree.paths, nodes)
    u, v = sides(relation, 16)
    tiles = tiles_between(relation, u, v, 16)
    codes = relation.codes(u.order, v.order)
    for i, row in enumerate(tiles.code.tolist()):
        for j, code in enumerate(row):
            block = codes[i * 16 : i * 16 + 16, j * 16 : j * 16 + 16]
            assert code == -1 or (block == code).all()
            others = [k for k in range(j, len(row)) if row[k] != code]
            assert tiles.end[i, j] == min([*others, len(row)])
    assert tiles.code.unique().numel() >= 7
    assert (tiles.code >= 0).float().mean() > 0.3

    def call(z):
        got = pair_statistics(z, z, relation, Sphere(), temperature, want=("count", "sum", "lse"))
        return got.count, got.sum, got.lse

    check(compared(call, vectors(len(nodes), 8)), gradient=3e-6 if temperature > 0.01 else 1e-5)


@inside
def test_without_labels_or_partners():
    for relation in (
        PairRelation.of_instances(torch.arange(18) // 2, 18),
        PairRelation.of_instances(None, 18),
    ):
        call = lambda z, r=relation: (pair_statistics(z, z, r, Sphere(), 0.3, want=("lse",)).lse,)  # noqa: E731
        check(compared(call, vectors(18, 4)))


@inside
def test_a_tie_goes_to_the_first_key():
    relation = PairRelation.of_instances(torch.zeros(20, dtype=torch.int64), 20)
    z = torch.tensor([[1.0, 0.0], [0.0, 1.0]])[(torch.arange(20) % 4 > 0).long()]
    with implementation("triton", tile=16):
        got = pair_statistics(z, z, relation, Sphere(), 1.0, want=("least", "least_index"))
    assert got.least_index[:, 3].tolist() == [1, 0, 0, 0] * 5


@inside
def test_differentiated_twice_is_an_error():
    relation, z = relation_of(20), vectors(20, 4).requires_grad_()
    with implementation("triton", tile=16):
        total = pair_statistics(z, z, relation, Sphere(), 0.3, want=("sum",)).sum.sum()
    (gradient,) = torch.autograd.grad(total, z, create_graph=True)
    with pytest.raises(RuntimeError, match="once, not twice"):
        gradient.sum().backward()


@inside
def test_what_the_kernels_leave_to_others():
    relation, z = relation_of(20), vectors(20, 4)
    fits = {"temperature": 0.1, "similarity": "cosine"}
    learned = torch.ones(relation.num_relations, requires_grad=True)
    others = {"temperature": torch.tensor(0.1), "similarity": "distance", "scale": learned}
    every = torch.ones(1, relation.num_relations, dtype=torch.bool)
    queue = {"positive": None, "members": every, "temperature": 0.1, "target_temperature": 0.1}
    with implementation("triton"):
        assert way_of(z, z, relation, **fits) == "triton"
        for name, other in others.items():
            assert way_of(z, z, relation, **{**fits, name: other}) == "general"
        assert way_of(z.double(), z, relation, **fits) == "general"
        # and all works all the same
        assert pair_statistics(z.double(), z.double(), relation, Sphere(), 0.1).lse.dtype == torch.float64
        weight = torch.ones(20, 20)
        options = {"pair_weight": lambda rows, cols: weight[rows][:, cols], "want": ("weighted",)}
        assert pair_statistics(z, z, relation, Sphere(), 0.1, **options).weight.tolist() == [19.0] * 20
        with patch.object(queue_kernels, "queue_contrast") as called:
            assert soft_target_contrast(z, z, z.double(), relation, **queue).own.isfinite().all()
        assert not called.called


@inside
@pytest.mark.parametrize(
    ("b", "m", "d", "target", "dtype"),
    [
        (9, 40, 8, 0.05, torch.float32),
        (20, 33, 20, 0.1, torch.bfloat16),
        pytest.param(30, 75, 20, 0.0, torch.float32, marks=pytest.mark.long),
        pytest.param(20, 61, 16, math.inf, torch.float32, marks=pytest.mark.long),
        pytest.param(20, 50, 20, 1e-30, torch.float32, marks=pytest.mark.long),
    ],
)
def test_contrast_with_a_queue(b, m, d, target, dtype):
    whole = relation_of(b + m)
    relation = PairRelation(
        whole.queries[slice(0, b)], whole.keys[slice(b, None)], offset=3 if target == 0 else None
    )
    keys, stored = vectors(b, d, 1, dtype), vectors(m, d, 2, dtype)
    stored[3] = stored[7]  # as near
    generator = torch.Generator().manual_seed(3)
    members = torch.rand(2, relation.num_relations, generator=generator) < 0.6
    for positive in (torch.rand(relation.num_relations, generator=generator) < 0.5, None):

        def call(queries, positive=positive):
            got = soft_target_contrast(
                queries, keys, stored, relation, positive=positive, members=members,
                temperature=0.07, target_temperature=target,
            )  # fmt: skip
            return got.own, got.lse, got.mass, got.attraction, got.entropy

        half = dtype != torch.float32
        both = compared(call, vectors(b, d, 4, dtype))
        check(both, value=1e-2 if half else 1e-6, gradient=HALF_PRECISION if half else 3e-6)


@inside
@pytest.mark.parametrize(
    "build",
    [
        pytest.param(losses.SupConLoss, marks=pytest.mark.long),
        pytest.param(losses.HiMulConLoss, marks=pytest.mark.long),
        pytest.param(lambda tree: losses.HWCLoss(tree, alpha=0.5, rho="own_depth"), marks=pytest.mark.long),
        lambda tree: losses.HWCLoss(tree, temperature=0.01, alpha=1.0, gamma=1.0),
        losses.HiConELoss,
    ],
    ids=["SupCon", "HiMulCon", "HWC", "HWC, sharp", "HiConE"],
)
def test_losses_of_a_batch(build):
    tree = random_tree(2)
    nodes, instances = random_batch(tree, 2, 20)
    loss = build(tree)
    # float32 itself has errors of 1e-5 where logits reach 200
    check(compared(lambda z: (loss(z, nodes, instances),), vectors(20, 10)), value=1e-5, gradient=3e-5)


@inside
def test_losses_of_a_queue():
    tree = random_tree(3)
    nodes, instances = random_batch(tree, 3, 60)
    queue = SimpleNamespace(vectors=vectors(40, 10, 1), nodes=nodes[20:], instances=instances[20:])
    keys = vectors(20, 10, 2)
    for loss in (losses.MaskConLoss(tree, w=0.7), losses.GrafitLoss(tree)):
        check(compared(lambda z, f=loss: (f(z, keys, queue, nodes[:20], instances[:20]),), vectors(20, 10)))


@inside
@pytest.mark.parametrize("target", [True, False])
def test_soft_targets_are_not_left_to_the_kernel(target, monkeypatch):
    """It finds two mean keys, whose difference is lost in tight clusters."""
    called = []
    monkeypatch.setattr(queue_kernels, "queue_contrast", lambda *_, **__: called.append(1) or 1 / 0)
    relation, z = relation_of(12), vectors(12, 8)
    every = torch.ones(1, relation.num_relations, dtype=torch.bool)
    options = {"members": every, "temperature": 0.1, "target_temperature": 0.1}
    with implementation("triton"):
        if target:
            assert soft_target_contrast(z, z, z, relation, positive=every[0], **options).lse.isfinite().all()
        else:
            with pytest.raises(ZeroDivisionError):
                soft_target_contrast(z, z, z, relation, positive=None, **options)
    assert len(called) == (not target)
