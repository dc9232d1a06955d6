"""The ridge head on random Fourier features: all that holds for the linear head, and when folds choose it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor

import labeltree as lt
from labeltree.errors import DataError
from labeltree.geometry.fourier_features import draw_frequencies, unit_points
from labeltree.inference.load_run import load_run
from labeltree.inference.run_embeddings import run_tables
from labeltree.ridge import TreeRidge, fit_cv_plus, fit_tree_ridge
from labeltree.ridge.ridge_file import load_ridge, save_ridge
from labeltree.sklearn import TaxonomyClassifier
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([("a", "b"), ("a", "c"), ("d", "e"), ("d", "f")])
COUNT = 64


def samples(n: int, seed: int = 0, d: int = 5) -> tuple[Tensor, Tensor, Tensor]:
    """Vectors with labels at leaves and inner nodes, some missing, in groups."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 4, n)
    nodes = TREE.leaves[torch.from_numpy(classes)]
    nodes[5:9] = TREE.encode(["a"])[0]
    nodes[-2:] = -1
    points = np.random.default_rng(9).standard_normal((4, d))[classes] + rng.standard_normal((n, d))
    return torch.from_numpy(points), nodes, torch.from_numpy(rng.integers(-1, 20, n))


def rings(n: int) -> tuple[Tensor, Tensor]:
    """Each class is two opposite arcs of a circle, which no linear head tells apart."""
    rng = np.random.default_rng(0)
    classes = np.arange(n) % 4
    angles = (classes + 4 * rng.integers(0, 2, n) + 0.3 * rng.standard_normal(n)) * np.pi / 4
    return torch.from_numpy(np.stack([np.cos(angles), np.sin(angles)], 1)), TREE.leaves[
        torch.from_numpy(classes)
    ]


def test_features_are_of_unit_length_and_their_products_those_of_the_kernel() -> None:
    vectors = torch.from_numpy(np.random.default_rng(0).standard_normal((30, 7)))
    points = unit_points(vectors, draw_frequencies(7, 8192))
    torch.testing.assert_close(points.norm(dim=1), torch.ones(30, dtype=torch.float64))
    kernel = (-torch.cdist(unit_points(vectors), unit_points(vectors)).square() / 2).exp()
    torch.testing.assert_close(points @ points.T, kernel, rtol=0, atol=0.05)
    assert torch.equal(draw_frequencies(7, 20), draw_frequencies(7, 20))


@pytest.mark.parametrize("n", [70, 400])
def test_folds_equal_heads_that_never_saw_them(n: int) -> None:
    """With few samples by the hat matrix, with many by their sums."""
    vectors, nodes, groups = samples(n)
    head, seen = fit_tree_ridge(vectors, nodes, TREE, groups=groups, nonlinear=COUNT)
    assert head.num_fourier_features == COUNT
    for fold in seen.folds.unique():
        held, kept = seen.rows[seen.folds == fold], seen.rows[seen.folds != fold]
        other, _ = fit_tree_ridge(
            vectors[kept], nodes[kept], TREE, penalty=head.penalty, nonlinear=COUNT, folds=2
        )
        torch.testing.assert_close(
            seen.outputs[seen.folds == fold], other.outputs(vectors[held]), rtol=0, atol=1e-8
        )


def test_sums_forget_add_pool_and_follow_the_taxonomy(tmp_path: Path) -> None:
    vectors, nodes, _ = samples(120)
    whole, _ = fit_tree_ridge(vectors, nodes, TREE, nonlinear=COUNT, penalty=0.3)
    some, _ = fit_tree_ridge(vectors[20:], nodes[20:], TREE, nonlinear=COUNT, penalty=0.3)
    rest, _ = fit_tree_ridge(vectors[:20], nodes[:20], TREE, nonlinear=COUNT, penalty=0.3, folds=2)
    for changed, expected in (
        (whole.forget(vectors[:20], nodes[:20]), some),
        (some.add(vectors[:20], nodes[:20]), whole),
        (some.pool(rest), whole),
    ):
        torch.testing.assert_close(changed.outputs(vectors), expected.outputs(vectors), rtol=0, atol=1e-8)
    merged = Taxonomy.from_paths([("a",), ("d", "e"), ("d", "f")])
    new = torch.cat([torch.zeros(1, dtype=torch.int64), merged.encode(["a", "a", "a", "d", "e", "f"])])
    moved = whole.on_taxonomy(merged, new)
    anew, _ = fit_tree_ridge(
        vectors, torch.where(nodes > 0, new[nodes.clamp_min(0)], -1), merged, nonlinear=COUNT, penalty=0.3
    )
    torch.testing.assert_close(moved.outputs(vectors), anew.outputs(vectors), rtol=0, atol=1e-8)
    save_ridge(whole, tmp_path / "head")
    loaded = load_ridge(tmp_path / "head", TREE)
    assert torch.equal(loaded.frequencies, whole.frequencies)
    assert torch.equal(loaded.probabilities(vectors), whole.probabilities(vectors))
    linear, _ = fit_tree_ridge(vectors, nodes, TREE)
    with pytest.raises(DataError, match="of 64 and of 0 Fourier features"):
        whole.pool(linear)


@pytest.mark.long
def test_folds_choose_it_where_it_pays_alone() -> None:
    vectors, nodes = rings(240)
    curved, seen = fit_tree_ridge(vectors, nodes, TREE, nonlinear="auto")
    assert curved.num_fourier_features == 4096
    linear, by_linear = fit_tree_ridge(vectors, nodes, TREE)
    assert seen.log_loss < 0.5 * by_linear.log_loss
    assert linear.num_fourier_features == 0
    vectors, nodes, groups = samples(120, d=30)
    head, _ = fit_tree_ridge(vectors, nodes, TREE, nonlinear="auto", groups=groups)
    assert head.frequencies is None


@pytest.mark.parametrize("value", ["sometimes", 3, -2, True, 2.0])
def test_other_settings_are_refused(value: object) -> None:
    vectors, nodes, _ = samples(60)
    with pytest.raises(ValueError, match=r"nonlinear is .*; expected 'never', 'auto', 'always' or an even"):
        fit_tree_ridge(vectors, nodes, TREE, nonlinear=value)


@pytest.mark.parametrize("nonlinear", [COUNT, "auto"])
@pytest.mark.long
def test_guaranteed_coverage_has_heads_without_each_fold(nonlinear: str | int) -> None:
    vectors, nodes = rings(80)
    head, _ = fit_tree_ridge(vectors, nodes, TREE, nonlinear=nonlinear, penalty=0.1)
    cv = fit_cv_plus(vectors, nodes, head, nonlinear=nonlinear, penalty=0.1, folds=3)
    assert all(each.frequencies is not None for each in cv.heads)
    assert bool((cv.answer(vectors, 0.8) > 0).any())


def test_the_estimator_takes_it() -> None:
    vectors, nodes = rings(160)
    model = TaxonomyClassifier(TREE, nonlinear=256).fit(vectors.numpy(), nodes.numpy())
    assert model.score(vectors.numpy(), nodes.numpy()) > 0.8
    assert model.transform(vectors[:3].numpy()).shape == (3, 2 * 4 + 2)


@pytest.mark.slow
@pytest.mark.long
def test_a_run_is_saved_exported_judged_extended_merged_and_forgets(tmp_path: Path) -> None:
    vectors, nodes = rings(200)
    little = 0.05 * torch.from_numpy(np.random.default_rng(2).standard_normal((200, 20)))
    vectors = torch.cat([vectors, little], 1)  # so that no column is standardised
    paths = np.array([TREE.path_name(node) for node in nodes.tolist()])
    ids = np.array([f"sample {row}" for row in range(200)])

    def solve(name: str, rows: slice) -> Path:
        data = tmp_path / f"{name}.npz"
        np.savez(data, vectors=vectors[rows].float().numpy(), labels=paths[rows], ids=ids[rows])
        return lt.train(
            data,
            "tree-ridge",
            out=tmp_path / name,
            accelerator="cpu",
            progress_bar=False,
            classifier="own",
            tree_ridge={"nonlinear": COUNT},
        ).path

    run, other = solve("one", slice(0, 120)), solve("two", slice(120, 200))
    loaded, tables = run_tables(run, ("trained",))
    table = tables["trained"]
    head = load_ridge(loaded.folder.ridge, loaded.taxonomy)
    assert head.num_fourier_features == COUNT
    assert loaded.folder.read_history()[0]["fourier_features"] == COUNT
    features = loaded.network.encoder(loaded.source.vectors.load(loaded.source.rows))
    expected = torch.nn.functional.normalize(head.posterior_embeddings(features), dim=1).float()
    torch.testing.assert_close(table.embeddings, expected, rtol=0, atol=2e-5)
    assert torch.equal(table.predictions, head.predict(features))

    lt.export(run, tmp_path / "model")
    session = onnxruntime.InferenceSession(tmp_path / "model" / "model.onnx")
    given = loaded.source.vectors.load(loaded.source.rows).numpy()
    _, embeddings, answers = session.run(None, {session.get_inputs()[0].name: given})
    torch.testing.assert_close(torch.from_numpy(embeddings), table.embeddings, rtol=0, atol=2e-5)
    classes = loaded.network.objective.solver.classes
    assert torch.equal(classes[answers.argmax(1)], table.predictions)

    result = lt.evaluate(run, protocols=["folds"], resamples=0).result
    assert result.settings.options["folds"]["nonlinear"] == COUNT
    assert float(result.main.protocols["folds"].scores["top1"]) > 0.7

    lt.merge([run, other], out=tmp_path / "both")
    pooled = load_ridge(tmp_path / "both" / "ridge.safetensors", TREE)
    assert pooled.moments.count > head.moments.count
    assert load_run(tmp_path / "both", own_data=False).network.objective.solver.num_fourier_features == COUNT

    np.savez(tmp_path / "new.npz", vectors=-given[:40], labels=np.array(["d/g"] * 40))
    extension = lt.extend(run, tmp_path / "new.npz", classifier="own")
    taxonomy = extension.folder.load_taxonomy()
    larger = load_ridge(extension.folder.ridge, taxonomy)
    assert int(taxonomy.encode(["g"])[0]) in larger.classes.tolist()
    lt.export(run, tmp_path / "extended")
    session = onnxruntime.InferenceSession(tmp_path / "extended" / "model.onnx")
    answers = session.run(None, {session.get_inputs()[0].name: given})[2]
    assert answers.shape == (120, 5)

    lt.forget(other, samples=["sample 121"])
    left: TreeRidge = load_ridge(other / "ridge.safetensors", TREE)
    assert left.num_fourier_features == COUNT
