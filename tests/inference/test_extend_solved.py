"""A solved run that is extended: new samples are in its sums, and its own classifier knows their classes."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

import labeltree as lt
from labeltree.errors import DataError
from labeltree.inference.calibrate_run import open_decider
from labeltree.inference.extend import undo_extension
from labeltree.inference.load_run import load_run
from labeltree.inference.named_samples import open_vectors
from labeltree.ridge import Moments, TreeRidge
from labeltree.ridge.ridge_file import load_ridge
from labeltree.runs import RunFolder

pytestmark = pytest.mark.slow

PATHS = ["animal/dog", "animal/cat", "plant/oak", "plant/fern", "animal/cow", "plant/elm"]


def write(path: Path, kinds: list[int], seed: int, count: int = 40) -> Path:
    rng = np.random.default_rng(seed)
    classes = np.repeat(kinds, count)
    telling = 1.5 * np.random.default_rng(9).normal(size=(6, 7))[classes] + rng.normal(size=(len(classes), 7))
    vectors = np.concatenate([telling, 0.1 * rng.normal(size=(len(classes), 40))], 1).astype(np.float32)
    np.savez(path, vectors=vectors, labels=np.array(PATHS)[classes])
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("extended")
    data = write(folder / "features.npz", [0, 1, 2, 3], 1)
    return lt.train(data, "tree-ridge", out=folder / "run", accelerator="cpu", progress_bar=False).path


@pytest.fixture
def new(run: Path, tmp_path: Path) -> Iterator[Path]:
    yield write(tmp_path / "new.npz", [4, 5, 0], 2)
    while RunFolder(run).extensions:
        undo_extension(run)


def head_of(folder: RunFolder) -> TreeRidge:
    return load_ridge(folder.ridge, folder.load_taxonomy())


def test_its_head_is_that_of_old_and_new_samples(run: Path, new: Path, tmp_path: Path) -> None:
    before = (run / "ridge.safetensors").read_bytes()
    extension = lt.extend(run, new, classifier="own")
    head, first = head_of(extension.folder), head_of(RunFolder(run))
    loaded = load_run(run)
    training = loaded.source.of_split("train")
    tree = head.taxonomy
    old = tree.encode([loaded.taxonomy.path(node) for node in training.nodes.tolist()])
    learned = np.load(extension.folder.learned)
    vectors = torch.cat([training.vectors.load(training.rows), torch.from_numpy(learned["features"])])
    nodes = torch.cat([old, torch.from_numpy(learned["nodes"])])
    expected = TreeRidge.of(Moments.of(vectors, nodes), tree, penalty=first.penalty, scale=first.scale)
    torch.testing.assert_close(head.moments.products, expected.moments.products, rtol=0, atol=1e-9)
    torch.testing.assert_close(head.weight, expected.weight, rtol=0, atol=1e-8)
    assert {tree.path_name(node) for node in head.classes.tolist()} == set(PATHS)
    decider = open_decider(run)
    assert decider.chosen.name == "own"
    assert {tree.path_name(node) for node in decider.scores.classes.tolist()} == set(PATHS)
    held = np.load(write(tmp_path / "held.npz", [4, 5], 7))
    table = decider.embed(open_vectors(decider.run, held["vectors"]).source)
    answers = decider.scores.classes[decider.scores(table).argmax(1)]
    assert (answers == tree.encode(held["labels"].tolist())).double().mean() > 0.6
    undo_extension(run)
    assert (run / "ridge.safetensors").read_bytes() == before
    assert open_decider(run).scores.classes.shape == (4,)


def test_an_extension_is_measured_on_other_data(run: Path, new: Path, tmp_path: Path) -> None:
    """It holds sums without a recipe, as a merged model does, and samples beside them."""
    lt.extend(run, new, retire=["plant/fern"])
    other = write(tmp_path / "other.npz", [0, 4, 5], 3)
    measured = lt.evaluate(run, data=other, resamples=0).result
    assert measured.counts["test samples"] == 120
    assert measured.counts["classes learned"] == 5
    answers = lt.predict(run, data=other, labelled=True, unknown=0.0)
    assert answers.coverage is not None
    decided = measured.main.protocols["decisions"].scores["coverage_at_0.9"]
    assert decided == pytest.approx(answers.coverage.whole.share)


def test_extended_twice_and_retired(run: Path, new: Path, tmp_path: Path) -> None:
    lt.extend(run, new, classifier="own")
    lt.extend(run, retire=["plant/elm"], classifier="own")
    decider = open_decider(run)
    names = {decider.run.taxonomy.path_name(node) for node in decider.scores.classes.tolist()}
    assert names == set(PATHS) - {"plant/elm"}
    more = write(tmp_path / "more.npz", [5], 5)
    extension = lt.extend(run, more, classifier="own")
    assert len(open_decider(run).scores.classes) == 6
    assert head_of(extension.folder).moments.count > head_of(RunFolder(run).extensions[0]).moments.count


@pytest.mark.long
def test_it_is_offered_and_exported(run: Path, new: Path, tmp_path: Path) -> None:
    lt.extend(run, new)
    decider = open_decider(run)
    assert {"own", "probe", "prototypes", "feature-means", "lda"} == set(decider.chosen.offered)
    undo_extension(run)
    lt.extend(run, new, classifier="own")
    lt.export(run, tmp_path / "model")
    assert not (tmp_path / "model" / "ridge.safetensors").exists()
    vectors = np.load(new)["vectors"]
    session = onnxruntime.InferenceSession(tmp_path / "model" / "model.onnx")
    _, _, answers = session.run(None, {session.get_inputs()[0].name: vectors})
    decider = open_decider(run)
    table = decider.embed(open_vectors(decider.run, vectors).source)
    expected = decider.rule.probabilities(decider.scores(table)).log()
    torch.testing.assert_close(torch.from_numpy(answers).double(), expected, rtol=0, atol=1e-4)
    exported = open_decider(tmp_path / "model")
    torch.testing.assert_close(exported.scores(table), decider.scores(table))


def test_other_runs_have_no_own_classifier_to_extend(run: Path, new: Path, tmp_path: Path) -> None:
    trained = lt.train(
        run.parent / "features.npz", "supcon", out=tmp_path / "steps", epochs=1, accelerator="cpu",
        progress_bar=False,
    )  # fmt: skip
    with pytest.raises(DataError, match="no classifier 'own' here"):
        lt.extend(trained.path, new, classifier="own")
