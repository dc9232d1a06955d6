"""The ridge head beside heads that are solved anew, in the plainest way, from the samples themselves."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from labeltree.errors import DataError, TaxonomyError
from labeltree.ridge import Moments, TreeRidge, fit_tree_ridge
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.class_similarity import class_similarity
from sweeps import long_unless, some_now

TREE = Taxonomy.from_paths(
    [("a", "b", "c"), ("a", "b", "d"), ("a", "e", "f"), ("a", "e", "g"), ("h", "i"), ("h", "j"), ("k",)]
)
SETTINGS = {"penalty": 0.3, "scale": 20.0, "tree": 0.5}
SPACE = {"tree": 0.5, "instance": 0.0, "similarity": "depth"}  # given, so that only the answers are chosen


@dataclass
class Case:
    """Samples with labels at leaves and inner nodes, several to some, none to others, in groups."""

    vectors: Tensor
    nodes: Tensor
    groups: Tensor | None

    @classmethod
    def draw(cls, seed: int, *, several: bool = False) -> Case:
        rng = np.random.default_rng(seed)
        n, d = int(rng.integers(40, 120)), int(rng.integers(3, 90))
        nodes = TREE.leaves[torch.from_numpy(rng.integers(0, len(TREE.leaves), n))]
        nodes[: len(TREE.leaves)] = TREE.leaves  # of each class a sample
        coarse = torch.from_numpy(rng.random(n) < 0.15)
        coarse[: len(TREE.leaves)] = False
        parents = torch.from_numpy(np.array(TREE.numbering.main_parent))
        nodes = torch.where(coarse, parents[nodes], nodes)
        nodes[-2:] = -1
        if several:
            second = TREE.leaves[torch.from_numpy(rng.integers(0, len(TREE.leaves), n))]
            second = torch.where(torch.from_numpy(rng.random(n) < 0.3), second, -1)
            nodes = torch.stack([nodes, second], 1)
        centres = torch.from_numpy(rng.standard_normal((TREE.num_nodes, d)))
        main = nodes if nodes.ndim == 1 else nodes[:, 0]
        vectors = centres[main.clamp_min(0)] + torch.from_numpy(rng.standard_normal((n, d)))
        groups = torch.from_numpy(rng.integers(-1, 25, n)) if seed % 2 else None
        return cls(vectors, nodes, groups)


def plain_outputs(vectors: Tensor, nodes: Tensor, asked: Tensor, classes: Tensor, penalty: float) -> Tensor:
    """What ridge regression with an unpenalised intercept gives for `asked`, from the normal equations."""
    sets = nodes[:, None] if nodes.ndim == 1 else nodes
    rows, targets = [], []
    for row, labels in enumerate(sets.tolist()):
        given = {label for label in labels if label > 0}
        given = sorted(given - {node for label in given for node in TREE.ancestors_of(label)})
        if not given:
            continue
        target = torch.zeros(len(classes), dtype=torch.float64)
        for label in given:
            below = [place for place, node in enumerate(classes.tolist()) if label in line_of(node)]
            target[below] += 1 / (len(below) * len(given))
        rows.append(row)
        targets.append(target)
    design = with_one(vectors[rows])
    penalties = torch.full((design.shape[1],), penalty, dtype=torch.float64)
    penalties[0] = 0
    system = design.T @ design + torch.diag(penalties)
    return with_one(asked) @ torch.linalg.solve(system, design.T @ torch.stack(targets))


def line_of(node: int) -> list[int]:
    return [*TREE.ancestors_of(node), node]


def with_one(vectors: Tensor) -> Tensor:
    wide = vectors.double()
    return torch.cat([torch.ones(len(wide), 1), wide / wide.norm(dim=1, keepdim=True)], 1)


@pytest.mark.parametrize("seed", some_now(range(100), 6))
@pytest.mark.parametrize("several", [False, True])
def test_folds_equal_heads_that_never_saw_them(seed: int, several: bool) -> None:
    case = Case.draw(seed, several=several)
    head, folds = fit_tree_ridge(
        case.vectors, case.nodes, TREE, groups=case.groups, folds=3 + seed % 4, seed=seed, **SPACE
    )
    for fold in folds.folds.unique():
        held = folds.rows[folds.folds == fold]
        kept = folds.rows[folds.folds != fold]
        expected = plain_outputs(
            case.vectors[kept], case.nodes[kept], case.vectors[held], head.classes, head.penalty
        )
        torch.testing.assert_close(folds.outputs[folds.folds == fold], expected, rtol=0, atol=1e-8)
        if case.groups is not None:
            shared = set(case.groups[held].tolist()) & set(case.groups[kept].tolist())
            assert shared <= {-1}


@pytest.mark.parametrize("seed", some_now(range(100), 12))
@pytest.mark.parametrize("several", [False, True])
def test_sums_forget_add_and_pool(seed: int, several: bool) -> None:
    case = Case.draw(seed, several=several)
    whole = TreeRidge.of(Moments.of(case.vectors, case.nodes), TREE, **SETTINGS)
    first = torch.arange(len(case.vectors)) < len(case.vectors) // 2
    first[: len(TREE.leaves)] = True
    half = TreeRidge.of(Moments.of(case.vectors[first], case.nodes[first]), TREE, **SETTINGS)
    expected = plain_outputs(
        case.vectors[first], case.nodes[first], case.vectors, half.classes, SETTINGS["penalty"]
    )
    forgot = whole.forget(case.vectors[~first], case.nodes[~first])
    torch.testing.assert_close(half.outputs(case.vectors), expected, rtol=0, atol=1e-8)
    torch.testing.assert_close(forgot.outputs(case.vectors), expected, rtol=0, atol=1e-8)
    again = half.add(case.vectors[~first], case.nodes[~first])
    torch.testing.assert_close(again.outputs(case.vectors), whole.outputs(case.vectors), rtol=0, atol=1e-8)
    other = TreeRidge.of(Moments.of(case.vectors[~first], case.nodes[~first]), TREE, **SETTINGS)
    pooled = half.pool(other)
    torch.testing.assert_close(pooled.outputs(case.vectors), whole.outputs(case.vectors), rtol=0, atol=1e-8)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_sums_of_many_blocks_are_plain_sums(missing: float) -> None:
    """More rows than are widened at once, more columns than a block of the products has, float32 or not."""
    rng = np.random.default_rng(0)
    given = rng.standard_normal((9000, 400))
    nodes = np.where(rng.random(9000) < missing, -1, rng.integers(1, 6, 9000))
    for dtype in (np.float32, np.float64):
        vectors = given.astype(dtype)
        before = vectors.copy()
        moments = Moments.of(torch.from_numpy(vectors), torch.from_numpy(nodes))
        np.testing.assert_array_equal(vectors, before)
        wide = vectors.astype(np.float64)[nodes > 0]
        unit = wide / np.linalg.norm(wide, axis=1, keepdims=True)
        label = np.eye(6)[nodes[nodes > 0]][:, 1:]
        assert moments.labels.tolist() == [[1], [2], [3], [4], [5]]
        np.testing.assert_array_equal(moments.counts, label.sum(0))
        np.testing.assert_allclose(moments.sums, label.T @ unit, rtol=0, atol=1e-10)
        np.testing.assert_allclose(moments.products, unit.T @ unit, rtol=0, atol=1e-10)
    vectors[8000, 3] = np.nan
    with pytest.raises(DataError, match="vector 8000 holds NaN or infinity"):
        Moments.of(torch.from_numpy(vectors), torch.from_numpy(nodes))


def test_a_change_of_the_taxonomy_needs_no_sample() -> None:
    case = Case.draw(3)
    merged = Taxonomy.from_paths(
        [("a", "b"), ("a", "e", "f"), ("a", "e", "g"), ("h", "i"), ("h", "j"), ("k",)]
    )
    new_nodes = torch.zeros(TREE.num_nodes, dtype=torch.int64)
    for node in range(1, TREE.num_nodes):
        path = TREE.path(node)
        new_nodes[node] = merged.find("/".join(path[:2] if path[:2] == ("a", "b") else path))
    moved = TreeRidge.of(Moments.of(case.vectors, case.nodes), TREE, **SETTINGS).on_taxonomy(
        merged, new_nodes
    )
    labels = torch.where(case.nodes > 0, new_nodes[case.nodes.clamp_min(0)], -1)
    anew = TreeRidge.of(Moments.of(case.vectors, labels), merged, **SETTINGS)
    assert moved.classes.tolist() == anew.classes.tolist()
    torch.testing.assert_close(moved.outputs(case.vectors), anew.outputs(case.vectors), rtol=0, atol=1e-9)
    torch.testing.assert_close(moved.embed(case.vectors), anew.embed(case.vectors), rtol=0, atol=1e-8)


def test_forgetting_what_was_never_there_is_refused() -> None:
    rng = np.random.default_rng(0)
    vectors = torch.from_numpy(rng.standard_normal((20, 40)))
    nodes = TREE.leaves[torch.arange(20) % 5]
    head = TreeRidge.of(Moments.of(vectors, nodes), TREE, **SETTINGS)
    others = torch.from_numpy(rng.standard_normal((20, 40)))
    for what, labels in (
        (vectors.repeat(2, 1), nodes.repeat(2)),  # more than there are
        (others[:1], nodes[:1]),  # another vector
        (vectors[:1], nodes[1:2]),  # another label
        (others[nodes == nodes[0]], nodes[nodes == nodes[0]]),  # as many as a class has
        (others[:1] * 0, nodes[:1]),  # a vector of zeros
        (vectors[:1], TREE.leaves[-1:]),  # a class without samples
    ):
        with pytest.raises(DataError, match="not among these"):
            head.forget(what, labels)
    assert head.forget(vectors[:3].float().double(), nodes[:3]).moments.count == 17  # stored as float32
    with pytest.raises(TaxonomyError, match="99"):
        head.forget(vectors[:1], torch.tensor([99]))


def test_many_vectors_of_few_dimensions_hide_one_that_was_not_among_them() -> None:
    """What the page says cannot be noticed."""
    rng = np.random.default_rng(0)
    vectors = torch.from_numpy(rng.standard_normal((200, 3)))
    nodes = TREE.leaves[torch.arange(200) % 5]
    head = TreeRidge.of(Moments.of(vectors, nodes), TREE, **SETTINGS)
    assert head.forget(-vectors[:1], nodes[:1]).moments.count == 199


def test_new_and_moved_classes_keep_what_is_calibrated() -> None:
    case = Case.draw(2)
    few = (case.nodes != TREE.leaves[0]) & (case.nodes != TREE.leaves[1])
    head, _ = fit_tree_ridge(case.vectors[few], case.nodes[few], TREE, penalty=1.0, **SPACE)
    more = head.add(case.vectors[~few], case.nodes[~few])
    assert more.calibration[TREE.leaves[0]].tolist() == [1.0, 0.0]
    torch.testing.assert_close(more.calibration[TREE.leaves[2:]], head.calibration[TREE.leaves[2:]])
    assert len(more.classes) == len(TREE.leaves)
    torch.testing.assert_close(
        more.probabilities(case.vectors).sum(1), torch.ones(len(case.vectors), dtype=torch.float64)
    )


def test_vectors_of_any_length_are_read_and_others_refused() -> None:
    case = Case.draw(6)
    head = TreeRidge.of(Moments.of(case.vectors, case.nodes), TREE, **SETTINGS)
    expected = head.outputs(case.vectors)
    for factor in (1e-200, 1e200, 1e-300, 1e300):
        torch.testing.assert_close(head.outputs(factor * case.vectors), expected, rtol=0, atol=1e-9)
    assert head.outputs(0 * case.vectors).isfinite().all()
    assert head.outputs(case.vectors[:0]).shape == (0, len(head.classes))
    broken = case.vectors.clone()
    broken[3, 0], broken[5, 1], broken[6], broken[8] = torch.nan, torch.inf, -torch.inf, torch.nan
    for ask in (head.predict, head.probabilities, head.embed, head.posterior_embeddings):
        with pytest.raises(DataError, match="vectors 3, 5, 6 and 1 more hold NaN or infinity"):
            ask(broken)
    with pytest.raises(DataError, match="vector 3 holds"):
        head.predict(broken[:5])


def test_a_penalty_that_is_too_small_is_explained() -> None:
    for seed in (1, 2, 3, 4):  # more samples than dimensions, and fewer
        case = Case.draw(seed)
        vectors = torch.cat([case.vectors, torch.zeros(len(case.vectors), 2)], 1)
        for penalty in (1e-300, 1e-20):
            what = rf"penalty {penalty:g}.* columns that are constant \(\d+, \d+\).*larger penalty"
            with pytest.raises(DataError, match=what):
                fit_tree_ridge(vectors, case.nodes, TREE, penalty=penalty)
            with pytest.raises(DataError, match=what):
                TreeRidge.of(Moments.of(vectors, case.nodes), TREE, penalty=penalty, scale=1.0)


@pytest.mark.parametrize("similarity", ["height", "depth"])
@pytest.mark.parametrize("tree", [0.0, 0.3, 1.0])
def test_embeddings_have_the_products_that_the_tree_gives(similarity: str, tree: float) -> None:
    case = Case.draw(4)
    head, _ = fit_tree_ridge(case.vectors, case.nodes, TREE, penalty=1.0, tree=0.5, similarity=similarity)
    likeness = class_similarity(head.classes, TREE, similarity, tree)
    posterior, outputs = head.probabilities(case.vectors), head.outputs(case.vectors)
    points = head.posterior_embeddings(case.vectors, tree=tree, instance=0)
    torch.testing.assert_close(points @ points.T, posterior @ likeness @ posterior.T, rtol=0, atol=1e-9)
    beside = head.posterior_embeddings(case.vectors, tree=tree, instance=0.2)
    unit = with_one(case.vectors)[:, 1:]
    linear = head.embed(case.vectors, tree=tree)
    apart = unit @ unit.T + torch.nn.functional.cosine_similarity(linear[:, None], linear[None], dim=2)
    torch.testing.assert_close(beside @ beside.T, points @ points.T + 0.1 * apart, rtol=0, atol=1e-9)
    centre = torch.eye(len(head.classes), dtype=torch.float64) - 1 / len(head.classes)
    expected = outputs @ centre @ likeness @ centre @ outputs.T
    torch.testing.assert_close(linear @ linear.T, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("n", long_unless([50, 80, 500], [80, 500]))
def test_labels_at_random_are_answered_by_chance(n: int) -> None:
    classes, draws = 5, 20 if n < 500 else 4
    tree = Taxonomy.from_paths([(f"family {k // 2}", f"species {k}") for k in range(classes)])
    right = 0
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        vectors = torch.from_numpy(rng.standard_normal((n, 20)))
        nodes = tree.leaves[torch.from_numpy(rng.permutation(np.arange(n) % classes))]
        _, folds = fit_tree_ridge(vectors, nodes, tree, seed=seed, penalty=1.0, **SPACE)
        answers = folds.classes[folds.probabilities.argmax(1)]
        right += int((answers == nodes[folds.rows]).sum())
    share, total = right / (draws * n), draws * n
    assert abs(share - 1 / classes) < 4 * math.sqrt(0.2 * 0.8 / total) + 0.02


def test_bad_input_is_named() -> None:
    case = Case.draw(6)
    broken = case.vectors.clone()
    broken[3, 0] = torch.nan
    with pytest.raises(DataError, match="vector 3 holds NaN"):
        fit_tree_ridge(broken, case.nodes, TREE)
    with pytest.raises(DataError, match="at least two classes"):
        fit_tree_ridge(case.vectors, torch.full((len(case.vectors),), int(TREE.leaves[0])), TREE)
    with pytest.raises(DataError, match="one label each"):
        fit_tree_ridge(case.vectors, case.nodes[:-1], TREE)
    with pytest.raises(ValueError, match="tree is 2"):
        fit_tree_ridge(case.vectors, case.nodes, TREE, tree=2.0)
    moments = Moments.of(case.vectors, case.nodes)
    for name, values in {
        "penalty": (0.0, -1.0, math.nan, math.inf, "1"),
        "scale": (0.0, -1.0, math.nan, math.inf, None, "1"),
        "tree": (-0.1, 1.1, math.nan),
        "instance": (-0.1, math.nan, math.inf),
    }.items():
        for value in values:
            with pytest.raises(ValueError, match=f"{name} is {value!r}; it must be"):
                TreeRidge.of(moments, TREE, **{**SETTINGS, name: value})
    for name, value in (("folds", 1), ("folds", 2.5), ("seed", -1), ("similarity", "size")):
        with pytest.raises(ValueError, match=f"{name} is {value!r}"):
            fit_tree_ridge(case.vectors, case.nodes, TREE, **{name: value})
    with pytest.raises(DataError, match="groups must be one integer for each of the"):
        fit_tree_ridge(case.vectors, case.nodes, TREE, groups=torch.zeros(3, dtype=torch.int64))
    with pytest.raises(TaxonomyError, match="holds 99"):
        fit_tree_ridge(case.vectors, torch.full_like(case.nodes, 99), TREE)
    with pytest.raises(TaxonomyError, match="dtype torch"):
        fit_tree_ridge(case.vectors, case.nodes.double(), TREE)
    with pytest.raises(DataError, match="class as its only label"):
        fit_tree_ridge(case.vectors, TREE.leaves[:2].repeat(len(case.vectors), 1), TREE)
    with pytest.raises(DataError, match="new_nodes has 2 entries"):
        moments.relabel(torch.zeros(2, dtype=torch.int64))
    head, _ = fit_tree_ridge(case.vectors, case.nodes, TREE)
    with pytest.raises(DataError, match="numbers a sample"):
        head.predict(case.vectors[:, :-1])


@pytest.mark.parametrize("n", some_now([120, 400, 900], 2))
def test_folds_of_wide_vectors_equal_heads_that_never_saw_them(n: int) -> None:
    """More dimensions than are eliminated at once; few samples, turned within what they span, and many."""
    rng = np.random.default_rng(n)
    nodes = TREE.leaves[torch.arange(n) % len(TREE.leaves)]
    vectors = torch.from_numpy(rng.standard_normal((n, 600)))
    head, folds = fit_tree_ridge(vectors, nodes, TREE, penalty=0.1, **SPACE)
    for fold in folds.folds.unique():
        held, kept = folds.rows[folds.folds == fold], folds.rows[folds.folds != fold]
        expected = plain_outputs(vectors[kept], nodes[kept], vectors[held], head.classes, head.penalty)
        torch.testing.assert_close(folds.outputs[folds.folds == fold], expected, rtol=0, atol=1e-8)
    expected = plain_outputs(vectors, nodes, vectors, head.classes, head.penalty)
    torch.testing.assert_close(head.outputs(vectors), expected, rtol=0, atol=1e-8)
