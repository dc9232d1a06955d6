"""A run whose objective is solved at once: its head, its sums, and what it refuses."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch.nn.functional import normalize

import labeltree as lt
from labeltree.errors import DataError, RunError
from labeltree.index import open_table
from labeltree.inference.load_run import load_run
from labeltree.inference.run_embeddings import run_tables
from labeltree.ridge import fit_tree_ridge
from labeltree.ridge.ridge_file import load_ridge, save_ridge
from labeltree.training.fit import train
from labeltree.training.read_recipes import parser_of
from sweeps import long_unless

pytestmark = pytest.mark.slow

PATHS = np.array(["animal/dog", "animal/cat", "plant/oak", "plant/fern"])


def write(path: Path, classes: np.ndarray, **columns: np.ndarray) -> Path:
    """Vectors whose classes, numbers in `classes`, lie round points of their own."""
    points = np.random.default_rng(0).normal(size=(len(PATHS), 6))
    vectors = points[classes] + np.random.default_rng(1).normal(size=(len(classes), 6))
    np.savez(path, **{"vectors": vectors, "labels": PATHS[classes], **columns})
    return path


def solve(data: Path, out: Path, *settings: str) -> Path:
    """The folder of a run with objective tree-ridge."""
    arguments = ["--data", str(data), "--objective=tree-ridge", "--accelerator=cpu", *settings]
    return train(parser_of("tree-ridge").recipe(arguments), out, progress_bar=False).path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("solved")
    groups = np.array([f"plot {row // 2}" for row in range(160)])
    data = write(folder / "features.npz", np.arange(160) // 2 % 4, groups=groups)
    return solve(data, folder / "run")


def test_answers_and_embeddings_are_those_of_the_head_of_the_training_samples(run: Path) -> None:
    loaded, tables = run_tables(run, ("trained",))
    table, training = tables["trained"], loaded.source.of_split("train")
    features = loaded.network.encoder(training.vectors.load(training.rows))
    head, outputs = fit_tree_ridge(features, training.nodes, loaded.taxonomy, groups=training.groups)
    assert torch.equal(table.predictions, head.predict(table.features))
    expected = normalize(head.posterior_embeddings(table.features), dim=1).float()
    torch.testing.assert_close(table.embeddings, expected, rtol=0, atol=1e-5)
    assert loaded.network.objective.dim == table.embeddings.shape[1]
    classes, scores = loaded.network.objective.class_scores(table.features)
    assert torch.equal(classes, head.classes)
    expected = head.log_probabilities(table.features).float()
    torch.testing.assert_close(scores, expected, rtol=0, atol=1e-4)
    (row,) = loaded.folder.read_history()
    assert row["folds_loss"] == pytest.approx(outputs.log_loss, rel=1e-6)


def test_its_sums_and_settings_are_kept(run: Path) -> None:
    loaded = load_run(run)
    head = load_ridge(loaded.folder.ridge, loaded.taxonomy)
    assert head.moments.count == len(loaded.source.of_split("train"))
    own = loaded.network.objective.solver
    torch.testing.assert_close(own.weight.double(), head.scale * head.weight, rtol=1e-5, atol=1e-6)
    assert not (run / "checkpoints").exists()


def test_the_same_command_finds_it_finished_and_makes_the_same_file_elsewhere(
    run: Path, tmp_path: Path
) -> None:
    data = run.parent / "features.npz"
    before = (run / "encoder.safetensors").stat().st_mtime_ns
    assert solve(data, run) == run
    assert (run / "encoder.safetensors").stat().st_mtime_ns == before
    again = solve(data, tmp_path / "again")
    assert (again / "ridge.safetensors").read_bytes() == (run / "ridge.safetensors").read_bytes()


@pytest.mark.parametrize("instance", ["0", "0.5"])
@pytest.mark.long
def test_export_embeds_and_answers_alike(run: Path, tmp_path: Path, instance: str) -> None:
    settings = (f"--tree-ridge.instance={instance}", "--tree-ridge.tree=1", "--classifier=own")
    path = solve(run.parent / "features.npz", tmp_path / "run", *settings)
    loaded, tables = run_tables(path, ("trained",))
    lt.export(path, tmp_path / "model")
    session = onnxruntime.InferenceSession(tmp_path / "model" / "model.onnx")
    vectors = loaded.source.vectors.load(loaded.source.rows)
    _, embeddings, answers = session.run(None, {session.get_inputs()[0].name: vectors.numpy()})
    torch.testing.assert_close(torch.from_numpy(embeddings), tables["trained"].embeddings, rtol=0, atol=1e-5)
    assert embeddings.shape[1] == (4 if instance == "0" else 14)
    right = loaded.network.objective.solver.classes[answers.argmax(1)]
    assert torch.equal(right, tables["trained"].predictions)


@pytest.mark.parametrize("standardised", [True, False])
def test_vectors_are_standardised_if_folds_are_answered_better_so(tmp_path: Path, standardised: bool) -> None:
    classes = np.arange(200) % 4
    plain = np.load(write(tmp_path / "plain.npz", classes))
    noise = np.random.default_rng(3).normal(size=(200, 3))
    vectors = np.concatenate([plain["vectors"], (1000 if standardised else 0.01) * noise], 1)
    np.savez(tmp_path / "features.npz", vectors=vectors, labels=plain["labels"])
    loaded = load_run(solve(tmp_path / "features.npz", tmp_path / "run"))
    scale = loaded.network.encoder.scale
    assert bool((scale == 1).all()) != standardised
    head = load_ridge(loaded.folder.ridge, loaded.taxonomy)
    own = loaded.network.objective.solver
    torch.testing.assert_close(own.weight.double(), head.scale * head.weight, rtol=1e-5, atol=1e-6)


def test_several_inner_and_missing_labels(tmp_path: Path) -> None:
    classes = np.arange(120) % 4
    labels = np.stack([PATHS[classes], np.full(120, "")], 1).astype("<U20")
    labels[:10, 0] = "animal"
    labels[10:14, 0] = ""
    labels[20:24, 1] = "plant/oak"
    path = solve(write(tmp_path / "several.npz", classes, labels=labels), tmp_path / "run")
    loaded = load_run(path)
    head = load_ridge(loaded.folder.ridge, loaded.taxonomy)
    training = loaded.source.of_split("train")
    expected, _ = fit_tree_ridge(
        loaded.network.encoder(training.vectors.load(training.rows)), training.label_sets, loaded.taxonomy
    )
    assert torch.equal(head.moments.labels, expected.moments.labels)
    assert len(head.classes) == 4


def test_coarser_labels_in_training(run: Path, tmp_path: Path) -> None:
    path = solve(run.parent / "features.npz", tmp_path / "run", "--coarsen=1")
    loaded, tables = run_tables(path, ("trained",))
    named = {loaded.taxonomy.path_name(node) for node in tables["trained"].predictions.tolist()}
    assert named <= {"animal", "plant"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["--optimizer.lr=0.1"], "optimizer.lr is 0.1, which has no effect for objective 'tree-ridge'"),
        (["--epochs=3"], "epochs is 3, which has no effect"),
        (["--adapter=8"], "adapter is 8, which has no effect"),
        (["--devices=2"], "devices is 2, which has no effect"),
        (["--head.dim=8"], "head.dim is 8, which has no effect"),
        (["--geometry=poincare"], "supports only the sphere"),
        (["--tree-ridge.tree=2"], "tree is 2.0; it must be a number from 0"),
        (["--tree-ridge.folds=1"], "folds"),
    ],
)
def test_refused_settings(run: Path, tmp_path: Path, settings: list[str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        solve(run.parent / "features.npz", tmp_path / "run", *settings)
    assert not (tmp_path / "run" / "recipe.yaml").exists()


def test_it_cannot_be_added_to_another(run: Path, tmp_path: Path) -> None:
    recipe = parser_of("tree-ridge+hwc").recipe(
        ["--data", str(run.parent / "features.npz"), "--objective=tree-ridge+hwc"]
    )
    with pytest.raises(ValueError, match="solved at once, so it cannot be added"):
        train(recipe, tmp_path / "run", progress_bar=False)


def test_what_cannot_be_solved_leaves_no_run_behind(tmp_path: Path) -> None:
    data = write(tmp_path / "one.npz", np.zeros(40, np.int64))
    with pytest.raises(DataError, match="at least two classes"):
        solve(data, tmp_path / "run")
    assert not (tmp_path / "run" / "recipe.yaml").exists()


def test_an_encoder_that_nobody_trained(image_folder: Path, tmp_path: Path) -> None:
    warned: list[str] = []
    recipe = parser_of("tree-ridge").recipe(
        ["--data", str(image_folder), "--objective=tree-ridge", "--image_size=28", "--val=0.2", "--test=0.2"]
    )
    folder = train(
        replace(recipe, encoder="small-conv"),
        tmp_path / "run",
        progress_bar=False,
        on_data=lambda summary: warned.extend(summary.warnings),
    )
    assert any("'small-conv' has random weights, and objective 'tree-ridge' trains none" in w for w in warned)
    assert load_run(folder.path).recipe.trainable == "head"


def test_a_damaged_head_is_named(run: Path, tmp_path: Path) -> None:
    loaded = load_run(run)
    head = load_ridge(loaded.folder.ridge, loaded.taxonomy)
    save_ridge(replace(head, calibration=head.calibration[:2]), tmp_path / "ridge.safetensors")
    with pytest.raises(DataError, match="holds no sums and settings of a head"):
        load_ridge(tmp_path / "ridge.safetensors", loaded.taxonomy)
    own = loaded.network.objective
    state = {k: v[:2] if k.endswith("weight") else v for k, v in own.state_dict().items()}
    with pytest.raises(RuntimeError, match="weight"):
        own.load_state_dict(state)
    with pytest.raises((DataError, RunError), match="not nodes of its taxonomy"):
        own.make_room({k: v + 99 if k.endswith("classes") else v for k, v in own.state_dict().items()})


def train_for_space(data: Path, out: Path, *settings: str) -> Path:
    """The folder of a short run whose embeddings are the posterior space of its features."""
    arguments = ["--data", str(data), "--space=posterior", "--epochs=2", "--accelerator=cpu", *settings]
    return train(parser_of("ce").recipe([*arguments, "--objective=ce"]), out, progress_bar=False).path


@pytest.mark.parametrize("adapter", long_unless([False, True], [True]))
def test_the_posterior_space_of_another_objective(run: Path, tmp_path: Path, adapter: bool) -> None:
    settings = ("--adapter=5",) if adapter else ()
    path = train_for_space(run.parent / "features.npz", tmp_path / "run", *settings)
    loaded, tables = run_tables(path, ("trained",))
    table, training = tables["trained"], loaded.source.of_split("train")
    head = load_ridge(loaded.folder.ridge, loaded.taxonomy)
    expected = normalize(head.posterior_embeddings(table.features), dim=1).float()
    torch.testing.assert_close(table.embeddings, expected, rtol=0, atol=1e-5)
    below = loaded.network.encoder.without_adapter(training.vectors.load(training.rows))
    features = loaded.network.encoder.adapt(below).detach()
    held = None
    if adapter:  # it was trained on the training samples
        val = table.rows(torch.from_numpy(table.split == "val"))
        held = (val.features, val.nodes)
    again, _ = fit_tree_ridge(features, training.nodes, loaded.taxonomy, groups=training.groups, held=held)
    assert again.penalty == head.penalty
    assert again.scale == pytest.approx(head.scale, rel=0.02)
    torch.testing.assert_close(again.moments.products, head.moments.products, rtol=1e-5, atol=1e-6)
    alike = train_for_space(run.parent / "features.npz", tmp_path / "head", "--space=head", *settings)
    other = run_tables(alike, ("trained",))[1]["trained"]
    assert torch.equal(other.predictions, table.predictions)  # answers are the objective's own
    assert not torch.equal(other.embeddings, table.embeddings[:, : other.embeddings.shape[1]])


def test_of_the_classes_of_a_solved_head_nothing_is_carried_over(
    run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING", "labeltree.training"):
        solve(run.parent / "features.npz", tmp_path / "second", f"--weights={run}")
    (said,) = (each for each in caplog.messages if each.startswith("training starts from"))
    assert "': the encoder; the head is solved anew, from all training samples" in said
    assert "160 of 160 samples keep the split" in said
    assert "classes: " not in said


def test_a_run_starts_from_one_with_a_posterior_space(run: Path, tmp_path: Path) -> None:
    path = train_for_space(run.parent / "features.npz", tmp_path / "first")
    second = train_for_space(run.parent / "features.npz", tmp_path / "second", f"--weights={path}")
    assert load_run(second).network.objective.posterior is not None


def test_the_posterior_space_is_on_the_sphere(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="space is 'posterior', which is on the sphere"):
        train_for_space(run.parent / "features.npz", tmp_path / "run", "--geometry=poincare")
    with pytest.raises(ValueError, match="space is posterior, which has no effect"):
        solve(run.parent / "features.npz", tmp_path / "run", "--space=posterior")


def test_the_posterior_space_needs_two_classes_before_anything_is_trained(tmp_path: Path) -> None:
    data = write(tmp_path / "one.npz", np.zeros(40, np.int64))
    with pytest.raises(ValueError, match="needs training samples of at least two classes"):
        train_for_space(data, tmp_path / "run")
    assert not (tmp_path / "run" / "recipe.yaml").exists()


def test_without_validation_labels_the_folds_calibrate_and_it_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    classes = np.arange(80) % 4
    split = np.array(["train"] * 50 + ["val"] * 10 + ["test"] * 20)
    labels = np.where(split == "val", "", PATHS[classes])
    data = write(tmp_path / "features.npz", classes, split=split, labels=labels)
    path = train_for_space(data, tmp_path / "run", "--adapter=4")
    assert "no validation sample has a class, so the posterior space is calibrated by folds" in caplog.text
    assert load_run(path).folder.ridge.is_file()


def test_folds_judge_every_sample_unless_the_data_have_a_test_split(run: Path, tmp_path: Path) -> None:
    result = lt.evaluate(run, protocols=["folds"], resamples=0).result
    folds = result.main.protocols["folds"]
    assert folds.counts == {"samples": 160, "groups": 80, "folds": 5, "repeats": 1}
    assert ("folds", "top1") in result.outcomes[result.name].elsewhere["folds"].values  # what `compare` reads
    assert "Folds: every sample judged by a head that has not seen its group" in (
        run / "report.html"
    ).read_text("utf-8")
    split = np.where(np.arange(160) % 4 < 1, "test", "train")
    data = write(tmp_path / "split.npz", np.arange(160) // 4 % 4, split=split)
    path = solve(data, tmp_path / "run", "--tree-ridge.penalty=2", "--tree-ridge.folds=4")
    result = lt.evaluate(path, protocols=["folds"], resamples=0, options={"folds": {"repeats": 1}}).result
    folds = result.main.protocols["folds"]
    assert folds.counts == {"samples": 120, "folds": 4, "repeats": 1}
    assert result.settings.options["folds"]["penalty"] == 2
    assert not any("were chosen by the same folds" in note for note in folds.notes)


def test_suspects_are_sought_among_features_that_know_no_label(tmp_path: Path) -> None:
    truth = np.arange(120) // 15 % 4
    wrong = np.isin(np.arange(120), np.random.default_rng(0).permutation(120)[:6])
    labels = PATHS[np.where(wrong, (truth + 2) % 4, truth)]
    path = solve(write(tmp_path / "wrong.npz", truth, labels=labels), tmp_path / "run")
    scores = lt.suspects(path).scores.nan_to_num(-1)
    assert wrong[scores.argsort(descending=True)[:6].numpy()].sum() >= 4  # as many as were planted: 6
    table = open_table(path)
    changed = replace(table, embeddings=torch.randn_like(table.embeddings))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("labeltree.index.open_table", lambda *args, **kwargs: changed)
        assert torch.equal(lt.suspects(path).scores.nan_to_num(-1), scores)


@pytest.mark.parametrize("noise", [0.001, 1000.0])
def test_a_run_is_compared_with_the_vectors_that_it_reads(noise: float, tmp_path: Path) -> None:
    """Folds decide whether columns are standardised; standardised ones that it never saw are no start."""
    draw = np.random.default_rng(0)
    labels = draw.integers(4, size=200)
    vectors = np.eye(4)[labels] + 0.3 * draw.normal(size=(200, 4))
    vectors = np.concatenate([vectors, noise * draw.normal(size=(200, 40))], axis=1)
    np.savez(tmp_path / "v.npz", vectors=vectors, label=np.array(["a/w", "a/x", "b/y", "b/z"])[labels])
    folder = lt.train(tmp_path / "v.npz", "tree-ridge", out=tmp_path / "run", progress_bar=False)
    methods = lt.evaluate(folder, resamples=20).result.methods
    read, raw = (np.load(folder.embeddings(name)) for name in ("trained", "raw"))
    as_they_are = bool(np.allclose(read["features"], raw["embeddings"]))
    assert as_they_are == (noise < 1)
    assert ("standardised vectors" in methods) == (not as_they_are)
    assert "raw vectors" in methods
