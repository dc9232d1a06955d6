"""DeViSE: a slow loop, gradients, names without vectors, inner nodes, odd batches."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from slow_losses import even_tree, line, random_batch, random_tree
from torch import Tensor

from labeltree.losses import DeViSELoss
from labeltree.taxonomy import Taxonomy

ANIMALS = Taxonomy.from_paths(
    [
        "animal/mammal/dog",
        "animal/mammal/cat",
        "animal/fish/trout",
        "animal/fish/xyzzy",
        "plugh/quux",
        "plant/oak tree",
    ]
)


def write(path: Path, words: Sequence[str], width: int = 5, seed: int = 0) -> str:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(len(words), width, generator=generator, dtype=torch.float64).tolist()
    path.write_text(
        "\n".join(f"{word} {' '.join(map(repr, row))}" for word, row in zip(words, rows, strict=True))
    )
    return str(path)


def known(tree: Taxonomy, path: Path, width: int = 5) -> str:
    """A file with a vector for every name; names that occur twice share theirs."""
    return write(path, list(dict.fromkeys(name.replace(" ", "_") for name in tree.names)), width)


@pytest.fixture
def animals(tmp_path: Path) -> str:
    words = ["root", "animal", "mammal", "dog", "cat", "fish", "trout", "oak", "tree", "plant"]
    return write(tmp_path / "vectors.txt", words)


@pytest.fixture
def loss(animals: str) -> DeViSELoss:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return DeViSELoss(ANIMALS, animals)


def slow(z: Tensor, nodes: Tensor, tree: Taxonomy, vectors: dict[int, Tensor], margin: float) -> Tensor:
    """Vectors by leaf; the hinge term by term."""
    total, count = torch.zeros((), dtype=torch.float64), 0
    for x, node in zip(z, nodes.tolist(), strict=True):
        below = [leaf for leaf in vectors if node > 0 and node in line(tree, leaf)]
        if not below:
            continue
        target = sum(vectors[leaf] for leaf in below)
        target = vectors[below[0]] if len(below) == 1 else target / target.norm()
        for leaf, vector in vectors.items():
            term = margin - (x * target).sum() + (x * vector).sum()
            if leaf not in below and not torch.allclose(vector, target, rtol=0, atol=1e-12) and term > 0:
                total = total + term
        count += 1
    return total / max(count, 1)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("margin", [0.0, 0.1, 2.0])
def test_a_slow_loop_on_ragged_trees_with_all_sorts_of_labels(
    seed: int, margin: float, tmp_path: Path
) -> None:
    tree = even_tree(2, 3)  # names repeat: some classes have equal vectors
    if seed:
        parents = random_tree(seed).parent.tolist()
        tree = Taxonomy([f"node{number}" for number in range(len(parents))], parents)
    path = known(tree, tmp_path / "vectors.txt")
    loss = DeViSELoss(tree, path, margin)
    vectors = {leaf: loss.targets[leaf] for leaf in tree.leaves.tolist()}
    z, nodes, _ = random_batch(tree, seed, n=16, d=5)
    x, y = z.clone().requires_grad_(), z.clone().requires_grad_()
    value, expected = loss(x, nodes), slow(y, nodes, tree, vectors, margin)
    torch.testing.assert_close(value, expected, rtol=1e-11, atol=1e-14)
    value.backward()
    expected.backward()
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-10, atol=1e-13)
    answers = loss.predict(z)
    for row, answer in zip(z, answers.tolist(), strict=True):
        assert row @ vectors[answer] == pytest.approx(max(float(row @ vector) for vector in vectors.values()))


def test_gradcheck(loss: DeViSELoss) -> None:
    z, nodes, _ = random_batch(ANIMALS, 1, n=8, d=5)
    assert loss(z, nodes) > 0
    assert torch.autograd.gradcheck(loss, (z.requires_grad_(), nodes))


def test_two_classes_are_one_hinge(tmp_path: Path) -> None:
    tree = Taxonomy.from_paths([("dog",), ("oak",)])
    loss = DeViSELoss(tree, write(tmp_path / "vectors.txt", ["dog", "oak"], 3), margin=0.3)
    z = torch.randn(50, 3, dtype=torch.float64)
    dog, oak = loss.targets[1:]
    expected = (0.3 - z @ (dog - oak)).clamp(min=0).mean()
    torch.testing.assert_close(loss(z, torch.ones(50, dtype=torch.int64)), expected)
    far = 100 * (dog - oak)[None]  # beyond every margin
    assert loss(far, torch.tensor([1])) == 0


def test_where_vectors_come_from(animals: str) -> None:
    with pytest.warns(UserWarning, match="classes have no word vector") as told:
        loss = DeViSELoss(ANIMALS, animals)
    messages = [str(warning.message) for warning in told]
    assert any(
        "1 of 6 classes have no word vector" in m and "take that of an ancestor: animal/fish/xyzzy" in m
        for m in messages
    )
    assert any("are left out: plugh/quux" in m for m in messages)

    def of(label: str) -> Tensor:
        return loss.targets[ANIMALS.find(label)]

    rows = {
        row.split()[0]: torch.tensor([float(x) for x in row.split()[1:]]).double()
        for row in Path(animals).read_text().split("\n")
    }
    unit = {word: row / row.norm() for word, row in rows.items()}
    close = {"rtol": 1e-6, "atol": 1e-7}
    torch.testing.assert_close(of("dog"), unit["dog"], **close)
    torch.testing.assert_close(of("xyzzy"), unit["fish"], **close)  # the nearest ancestor's
    both = rows["oak"] + rows["tree"]
    torch.testing.assert_close(of("oak tree"), both / both.norm(), **close)
    assert not of("quux").any()  # the root's name is no class's
    assert not of("plugh").any()
    mean = unit["dog"] + unit["cat"]
    torch.testing.assert_close(of("mammal"), mean / mean.norm(), **close)
    assert torch.equal(of("plant"), of("oak tree"))


def test_what_has_no_vector_is_left_out(loss: DeViSELoss) -> None:
    z = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    nodes = ANIMALS.encode(["dog", "quux", "plugh"])
    value = loss(z, nodes)
    torch.testing.assert_close(value, loss(z[:1], nodes[:1]))
    value.backward()
    assert not z.grad[1:].any()
    assert loss(z, ANIMALS.encode(["quux"] * 3)) == 0
    assert ANIMALS.find("quux") not in loss.predict(torch.randn(500, 5)).tolist()


def test_equal_vectors_do_not_compete(tmp_path: Path) -> None:
    tree = Taxonomy.from_paths(["cold/other", "warm/other", "warm/dog"])
    loss = DeViSELoss(tree, write(tmp_path / "vectors.txt", ["other", "dog"]))
    z = torch.randn(4, 5, dtype=torch.float64)
    own, dog = loss.targets[tree.find("cold/other")], loss.targets[tree.find("dog")]
    expected = (0.1 - z @ own + z @ dog).clamp(min=0).mean()
    torch.testing.assert_close(loss(z, tree.encode(["cold/other"] * 4)), expected)
    assert loss(z, tree.encode(["cold/other"] * 4)) == loss(z, tree.encode(["warm/other"] * 4))


def test_an_inner_node_competes_with_other_branches_alone(loss: DeViSELoss) -> None:
    z = torch.randn(6, 5, dtype=torch.float64)
    target = loss.targets[ANIMALS.find("mammal")]
    others = [loss.targets[ANIMALS.find(label)] for label in ("trout", "xyzzy", "oak tree")]
    expected = sum((0.1 - z @ target + z @ other).clamp(min=0) for other in others).mean()
    torch.testing.assert_close(loss(z, ANIMALS.encode(["mammal"] * 6)), expected)


def test_one_negative_is_one_of_those_that_violate_the_margin(animals: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        every, one = DeViSELoss(ANIMALS, animals), DeViSELoss(ANIMALS, animals, negatives="one")
    z, node = -every.targets[ANIMALS.encode(["dog"])], ANIMALS.encode(["dog"])  # everything else is nearer
    own = z @ loss_target(every, "dog")
    hinges = {
        round(float(0.1 - own + z @ loss_target(every, label)), 9)
        for label in ("cat", "trout", "xyzzy", "oak tree")
    }
    violating = {hinge for hinge in hinges if hinge > 0}
    assert len(violating) > 1
    torch.manual_seed(0)
    drawn = [round(float(one(z, node)), 9) for _ in range(200)]
    assert set(drawn) == violating
    assert min(drawn.count(hinge) for hinge in violating) > 200 / len(violating) / 2
    assert one(100 * loss_target(every, "dog")[None], node) <= every(
        100 * loss_target(every, "dog")[None], node
    )
    x = z.clone().requires_grad_()
    torch.manual_seed(1)
    one(x, node).backward()
    assert x.grad.any()


def loss_target(loss: DeViSELoss, label: str) -> Tensor:
    return loss.targets[ANIMALS.find(label)]


@pytest.mark.parametrize("nodes", [[], [-1, -1], [0, -1]])
@pytest.mark.parametrize("negatives", ["all", "one"])
def test_nothing_to_learn_from_is_exactly_nothing(nodes: list[int], negatives: str, animals: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loss = DeViSELoss(ANIMALS, animals, negatives=negatives)  # type: ignore[arg-type]
    z = torch.randn(len(nodes), 5, requires_grad=True)
    value = loss(z, torch.tensor(nodes, dtype=torch.int64))
    assert value == 0
    value.backward()
    assert not z.grad.any()
    assert loss.predict(z).shape == (len(nodes),)


def test_a_single_class_has_no_competitor(tmp_path: Path) -> None:
    tree = Taxonomy.from_paths([("dog",)])
    loss = DeViSELoss(tree, write(tmp_path / "vectors.txt", ["dog"]))
    assert loss(torch.randn(3, 5), tree.leaves.repeat(3)) == 0


def test_precision(loss: DeViSELoss) -> None:
    z, nodes, _ = random_batch(ANIMALS, 2, n=64, d=5)
    exact, single = loss(z, nodes), loss(z.float(), nodes)
    assert single.dtype == torch.float32
    assert single == pytest.approx(float(exact), rel=1e-5)
    with torch.autocast("cpu", torch.bfloat16):
        assert loss(z.float(), nodes) == single
        half = loss(z.bfloat16(), nodes)
        assert torch.equal(loss.predict(z.float()), loss.predict(z))
    assert half.dtype == torch.float32
    assert half == pytest.approx(float(exact), rel=2e-2)


def test_vectors_are_kept_with_the_weights(loss: DeViSELoss, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        words = ["animal", "mammal", "dog", "cat", "fish", "trout", "oak", "tree", "plant"]
        other = DeViSELoss(ANIMALS, write(tmp_path / "others.txt", words, seed=1))
    z, nodes, _ = random_batch(ANIMALS, 0, d=5)
    assert other(z, nodes) != loss(z, nodes)
    other.load_state_dict(loss.state_dict())
    assert other(z, nodes) == loss(z, nodes)


def test_errors(loss: DeViSELoss, animals: str, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"vectors is missing; name a file .* 'labeltree data get glove-50d'"
    ):
        DeViSELoss(ANIMALS)
    with pytest.raises(ValueError, match=r"there is no file of word vectors '.*none.txt'"):
        DeViSELoss(ANIMALS, str(tmp_path / "none.txt"))
    with pytest.raises(
        ValueError, match=r"has no vector for any word of the 6 classes, such as 'dog', 'cat', 'trout'"
    ):
        DeViSELoss(ANIMALS, write(tmp_path / "others.txt", ["one", "root"]))
    with (
        pytest.warns(UserWarning, match="no word vector"),
        pytest.raises(ValueError, match=r"dim is 128, but the word vectors of .* have 5"),
    ):
        DeViSELoss(ANIMALS, animals, dim=128)
    with pytest.raises(ValueError, match="expected 'all' or 'one'"):
        DeViSELoss(ANIMALS, animals, negatives="two")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="margin must not be negative"):
        DeViSELoss(ANIMALS, animals, -0.1)
    with pytest.raises(
        ValueError, match=r"embeddings must have shape \(n, 5\), the width of the word vectors"
    ):
        loss(torch.zeros(1, 4), torch.tensor([1]))
    with pytest.raises(ValueError, match=r"nodes must be an integer tensor of shape \(1,\); got None"):
        loss(torch.zeros(1, 5), None)  # type: ignore[arg-type]
