"""The contrast of images with texts, against slow double loops; its special cases; several ranks."""

from pathlib import Path

import pytest
import torch
from slow_losses import agree, line, random_batch, random_tree
from torch import Tensor, distributed

from forked import start_ranks
from labeltree.geometry import PoincareBall
from labeltree.losses import ImageTextLoss
from labeltree.taxonomy import Taxonomy

TREE = random_tree(3)
TAU = 0.4
Rows = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


def batch(seed: int, n: int = 9, m: int = 7) -> Rows:
    """Images and texts of samples that may lack either, with labels of all sorts."""
    z, nodes, instances = random_batch(TREE, seed, n + m)
    order = torch.randperm(n + m, generator=torch.Generator().manual_seed(seed))
    shown, told = order[:n], order[n:]
    return z[shown], z[told], nodes[shown], nodes[told], instances[shown], instances[told]


def rho(u: int, v: int) -> float:
    if u < 0 or v < 0:
        return 0.0
    shared = sum(a == b for a, b in zip(line(TREE, u), line(TREE, v), strict=False)) - 1
    return shared / TREE.max_depth


def slow(rows: Rows, positives: str, relatives: float, similarity) -> Tensor:
    images, texts, *labels = rows
    image_nodes, text_nodes, image_ids, text_ids = (column.tolist() for column in labels)
    total = 0.0
    for queries, keys, u, v, ids, other in (
        (images, texts, image_nodes, text_nodes, image_ids, text_ids),
        (texts, images, text_nodes, image_nodes, text_ids, image_ids),
    ):
        matched, related = [], []
        for i in range(len(queries)):
            s = [similarity(queries[i], keys[k]) for k in range(len(keys))]
            lse = torch.logsumexp(torch.stack(s), 0)
            same = [ids[i] == other[k] for k in range(len(keys))]
            if positives == "label":
                same = [x or agree(TREE, u[i], v[k], TREE.max_depth) is True for k, x in enumerate(same)]
            weights = [0.0 if same[k] else rho(u[i], v[k]) for k in range(len(keys))]
            for found, w in ((matched, [float(x) for x in same]), (related, weights)):
                if sum(w) > 0:
                    found.append(sum(w[k] * (lse - s[k]) for k in range(len(keys))) / sum(w))
        zero = images.sum() * 0
        total = total + (1 - relatives) * (sum(matched) / len(matched) if matched else zero)
        total = total + relatives * (sum(related) / len(related) if related else zero)
    return total / 2


def slow_by_depth(rows: Rows, similarity) -> Tensor:
    images, texts, *labels = rows
    image_nodes, text_nodes, image_ids, text_ids = (column.tolist() for column in labels)
    losses = []
    for depth in range(1, TREE.max_depth + 1):
        named = [k for k, v in enumerate(text_nodes) if v >= 0 and len(line(TREE, v)) == depth + 1]
        if not named:
            continue
        every = list(range(len(images)))
        pairs = {(i, k): agree(TREE, image_nodes[i], text_nodes[k], depth) for i in every for k in named}
        pairs |= {(i, k): True for i, k in pairs if image_ids[i] == text_ids[k]}
        both = images.sum() * 0
        for queries, keys, pair in (
            (every, named, lambda i, k: (i, k)),
            (named, every, lambda k, i: (i, k)),
        ):
            found = []
            for i in queries:
                own = [k for k in keys if pairs[pair(i, k)] is True]
                others = [k for k in keys if pairs[pair(i, k)] is not None]
                if own:
                    s = {k: similarity(images[pair(i, k)[0]], texts[pair(i, k)[1]]) for k in others}
                    lse = torch.logsumexp(torch.stack(list(s.values())), 0)
                    found.append(sum(lse - s[k] for k in own) / len(own))
            both = both + (sum(found) / len(found) if found else 0)
        losses.append(both / 2)
    return sum(losses) / len(losses) if losses else images.sum() * 0


def cosine(u: Tensor, v: Tensor) -> Tensor:
    return (u @ v) / (u.norm() * v.norm()) / TAU


@pytest.mark.parametrize("positives", ["instance", "label"])
@pytest.mark.parametrize("relatives", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_value_and_gradient_are_those_of_the_definition(seed, positives, relatives):
    rows = batch(seed)
    loss = ImageTextLoss(TREE, TAU, positives=positives, relatives=relatives)
    found, expected = [], []
    for values, function in (
        (found, lambda *r: loss(*r)),
        (expected, lambda *r: slow(r, positives, relatives, cosine)),
    ):
        leaves = [x.clone().requires_grad_() for x in rows[:2]]
        value = function(*leaves, *rows[2:])
        value.backward()
        values += [value, *(leaf.grad for leaf in leaves)]
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_depths_apart_are_those_of_the_definition(seed):
    rows = batch(seed, 12, 14)
    loss = ImageTextLoss(TREE, TAU, depths="separate")
    found, expected = [], []
    for values, function in ((found, loss), (expected, lambda *r: slow_by_depth(r, cosine))):
        leaves = [x.clone().requires_grad_() for x in rows[:2]]
        value = function(*leaves, *rows[2:])
        value.backward()
        values += [value, *(leaf.grad for leaf in leaves)]
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_names_of_other_depths_are_no_negatives_and_depths_weigh_alike():
    tree = Taxonomy.from_paths([("a", "b"), ("a", "c"), ("d", "e")])
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    names = torch.randn(len(tree) - 1, 4, generator=generator, dtype=torch.float64)
    nodes, ids = torch.arange(1, len(tree)), -1 - torch.arange(1, len(tree))
    at = {depth: tree.depth[nodes] == depth for depth in (1, 2)}
    loss = ImageTextLoss(tree, TAU, depths="separate")
    rows = (tree.leaves, torch.arange(3))

    def value(chosen: Tensor) -> Tensor:
        return loss(images, names[chosen], rows[0], nodes[chosen], rows[1], ids[chosen])

    torch.testing.assert_close(value(at[1] | at[2]), (value(at[1]) + value(at[2])) / 2)
    fine = names[at[2]]  # one name for each leaf: CLIP
    clip = ImageTextLoss(tree, TAU, positives="instance", relatives=0)
    torch.testing.assert_close(value(at[2]), clip(images, fine, rows[0], rows[0], rows[1], rows[1]))
    assert value(torch.zeros(len(nodes), dtype=torch.bool)) == 0


def test_in_the_poincare_ball():
    rows, ball = batch(1), PoincareBall(-0.7)
    loss = ImageTextLoss(TREE, TAU, geometry=ball)

    def similarity(u: Tensor, v: Tensor) -> Tensor:
        return ball.pairwise_similarity(u[None], v[None])[0, 0] / TAU

    torch.testing.assert_close(loss(*rows), slow(rows, "label", 0.2, similarity), rtol=1e-9, atol=1e-9)


def test_clip_is_the_cross_entropy_of_both_ways():
    images, texts, nodes, *_ = batch(2, 8, 8)
    ids = torch.arange(8)
    loss = ImageTextLoss(TREE, TAU, positives="instance", relatives=0)
    s = torch.nn.functional.normalize(images) @ torch.nn.functional.normalize(texts).T / TAU
    both = [torch.nn.functional.cross_entropy(side, ids) for side in (s, s.T)]
    torch.testing.assert_close(loss(images, texts, nodes, nodes, ids, ids), sum(both) / 2)


@pytest.mark.parametrize("tile", [1, 14, 40])
def test_clip_of_many_pairs_is_computed_tile_by_tile(tile, monkeypatch):
    *rows, image_ids, text_ids = batch(7)
    clip = ImageTextLoss(TREE, TAU, positives="instance", relatives=0)
    found = []
    for size in (2**22, tile):
        monkeypatch.setattr("labeltree.pairs.two_sides._TILE", size)
        images, texts = (x.clone().requires_grad_() for x in rows[:2])
        value = clip(images, texts, *rows[2:], image_ids, text_ids)
        first = torch.autograd.grad(value, (images, texts), create_graph=True)
        second = torch.autograd.grad(first[0].square().sum(), (images, texts))
        found.append([value.detach(), *first, *second])
    for whole, parts in zip(*found, strict=True):
        torch.testing.assert_close(parts, whole)


@pytest.mark.parametrize("relatives", [0.0, 0.5])
def test_gradient_check(relatives):
    images, texts, *labels = batch(4, 5, 4)
    loss = ImageTextLoss(TREE, TAU, relatives=relatives)
    rows = (images.requires_grad_(), texts.requires_grad_())
    assert torch.autograd.gradcheck(lambda u, v: loss(u, v, *labels), rows, fast_mode=True)


@pytest.mark.parametrize(("n", "m"), [(0, 0), (3, 0), (0, 3)])
def test_without_images_or_texts_it_is_nothing(n, m):
    rows = batch(5)
    images, texts = rows[0][:n], rows[1][:m]
    labels = [column[:size] for column, size in zip(rows[2:], (n, m, n, m), strict=True)]
    images.requires_grad_()
    value = ImageTextLoss(TREE)(images, texts, *labels)
    assert float(value) == 0
    value.backward()
    assert not images.grad.any()


def test_one_sample_and_one_class():
    tree = Taxonomy.from_paths([("a", "b")])
    z, one = torch.randn(1, 4), torch.tensor([tree.num_nodes - 1])
    ids = torch.tensor([3])
    assert float(ImageTextLoss(tree)(z, z, one, one, ids, ids)) == 0
    z = torch.randn(4, 4)
    nodes, ids = one.repeat(4), torch.arange(4)
    value = ImageTextLoss(tree)(z, torch.randn(4, 4), nodes, nodes, ids, ids)
    assert value.isfinite()


def test_unlabelled_pairs_learn_as_in_clip():
    images, texts, *_ = batch(6, 6, 6)
    ids, none = torch.arange(6), torch.full((6,), -1)
    clip = ImageTextLoss(TREE, TAU, positives="instance", relatives=0)
    rows = (images, texts, none, none, ids, ids)
    torch.testing.assert_close(ImageTextLoss(TREE, TAU, relatives=0)(*rows), clip(*rows))


def test_what_is_wrong_is_said():
    images, texts, *labels = batch(7)
    with pytest.raises(ValueError, match="relatives must be a share"):
        ImageTextLoss(TREE, relatives=1.0)
    with pytest.raises(ValueError, match="positives"):
        ImageTextLoss(TREE, positives="all")
    with pytest.raises(ValueError, match="reduction"):
        ImageTextLoss(TREE, reduction="none")
    with pytest.raises(ValueError, match="depths"):
        ImageTextLoss(TREE, depths="all")
    with pytest.raises(ValueError, match="relatives plays no part with depths='separate'"):
        ImageTextLoss(TREE, relatives=0, depths="separate")
    with pytest.raises(ValueError, match="one space"):
        ImageTextLoss(TREE)(images, texts[:, :2], *labels)
    images[0, 0] = torch.nan
    assert ImageTextLoss(TREE)(images, texts, *labels).isnan()


PARTS = ((5, 2), (0, 4), (4, 1))  # images and texts of each rank


def _on_rank(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=len(PARTS)
    )
    rows, mine = batch(8), []
    for side in (0, 1):
        start = sum(part[side] for part in PARTS[:rank])
        mine.append(slice(start, start + PARTS[rank][side]))
    own = [rows[at][mine[at % 2]].clone() for at in range(6)]
    own[0].requires_grad_()
    own[1].requires_grad_()
    value = ImageTextLoss(TREE, TAU)(*own)
    value.backward()
    torch.save((value.detach(), own[0].grad, own[1].grad), Path(folder) / f"{rank}.pt")
    distributed.destroy_process_group()


@pytest.mark.slow
def test_three_uneven_ranks_compute_the_loss_of_their_joint_batch(tmp_path):
    start_ranks(_on_rank, (str(tmp_path),), nprocs=len(PARTS))
    rows = batch(8)
    leaves = [x.clone().requires_grad_() for x in rows[:2]]
    value = ImageTextLoss(TREE, TAU)(*leaves, *rows[2:])
    value.backward()
    parts = [torch.load(tmp_path / f"{rank}.pt") for rank in range(len(PARTS))]
    for part in parts:
        torch.testing.assert_close(part[0], value.detach())
    for side in (0, 1):  # the mean that DDP takes
        joined = torch.cat([part[1 + side] for part in parts]) / len(PARTS)
        torch.testing.assert_close(joined, leaves[side].grad)
