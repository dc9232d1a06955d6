"""What is promised of an extended run: nothing for classes without a held-out sample, which count apart."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

import labeltree as lt
from labeltree.cli.main import main
from labeltree.decisions.promise_samples import are_unpromised, say_unpromised
from labeltree.inference.extend import extend_run
from labeltree.inference.info_text import info_text
from labeltree.inference.model_facts import folder_facts

pytestmark = pytest.mark.slow

PATHS = ["animal/dog", "animal/cat", "plant/oak", "plant/fern", "animal/cow"]
NOTHING = "Nothing is promised for 'animal/cow', which was added later and has no calibration sample."


def write(path: Path, counts: Sequence[int], seed: int) -> Path:
    rng = np.random.default_rng(seed)
    classes = np.repeat(range(5), counts)
    telling = 1.5 * np.random.default_rng(9).normal(size=(5, 7))[classes] + rng.normal(size=(len(classes), 7))
    vectors = np.concatenate([telling, 0.1 * rng.normal(size=(len(classes), 40))], 1).astype(np.float32)
    np.savez(path, vectors=vectors, labels=np.array(PATHS)[classes])
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, extended by a class of 5 samples, and samples of old and new classes."""
    home = tmp_path_factory.mktemp("extended")
    data = write(home / "features.npz", [40, 40, 40, 40, 0], 1)
    lt.train(data, "tree-ridge", out=home / "run", accelerator="cpu", progress_bar=False)
    extend_run(home / "run", write(home / "new.npz", [0, 0, 0, 0, 5], 2))
    write(home / "both.npz", [10, 10, 10, 10, 6], 3)
    write(home / "later.npz", [0, 0, 0, 0, 6], 3)
    return home


def test_info_and_card_say_what_was_added_and_what_is_promised(home: Path) -> None:
    said = " ".join(info_text(folder_facts(home / "run"), home / "run").split())
    assert "1 extension after the training: 1 new class (animal/cow); 'labeltree extend" in said
    assert NOTHING in said
    target = lt.load(home / "run").export(home / "model", ["safetensors"])
    card = (target / "README.md").read_text("utf-8")
    assert "extended after the training, by `labeltree extend`" in card
    assert "1 class was added: `animal/cow`" in card
    assert "of the same kind of the other classes, the share of answers" in card
    assert NOTHING in card
    of_export = " ".join(info_text(folder_facts(target), target).split())
    assert "1 new class (animal/cow)" in of_export
    assert "--undo" not in of_export
    assert NOTHING in of_export


def test_how_to_measure_it_is_what_can_be_done(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = home / "run"
    said = " ".join(info_text(folder_facts(run), run).split())
    assert f"not evaluated: 'labeltree evaluate {run} --data DATA' measures it on labelled samples" in said
    bare = lt.load(run).export(home / "bare", ["safetensors"])
    said = " ".join(info_text(folder_facts(bare), bare).split())
    assert f"'labeltree predict {bare} --data DATA --labelled' measures it" in said
    assert "evaluated since it was extended" in (bare / "README.md").read_text("utf-8")
    full = lt.load(run).export(home / "full", ["safetensors"], with_reference=True)
    said = " ".join(info_text(folder_facts(full), full).split())
    assert f"'labeltree evaluate {full} --data DATA' measures it" in said
    lt.evaluate(full, data=home / "both.npz", resamples=0)
    measured = lt.evaluate(run, resamples=0).result
    assert any("of the run as it was trained, without the extension" in each for each in measured.cautions)
    assert folder_facts(run)["metrics"] is None


def test_predict_counts_samples_of_later_classes_apart(home: Path, tmp_path: Path) -> None:
    model = lt.load(home / "run")
    both = model.predict(data=str(home / "both.npz"), labelled=True)
    assert both.coverage is not None
    assert both.coverage.later is not None
    assert (both.coverage.whole.samples, both.coverage.later.samples) == (40, 6)
    lines = both.coverage.text().splitlines()
    assert "of 40 samples have answers that hold the truth; promised 90%: " in lines[0]
    assert lines[1].endswith("of 6 samples: nothing is promised, as their classes were added later")
    assert both.called_unknown is None or both.called_unknown.samples == 40
    later = model.predict(data=str(home / "later.npz"), labelled=True)
    assert later.coverage is not None
    assert "of 6 samples have answers that hold the truth; nothing is promised" in later.coverage.text()
    assert "too few to tell" not in later.coverage.text()
    assert NOTHING in later.rests_on


def test_evaluate_counts_samples_of_later_classes_apart(home: Path) -> None:
    both = lt.evaluate(home / "run", data=home / "both.npz", resamples=20).result
    scores = both.main.protocols["decisions"].scores
    mean = (40 * scores["coverage_of_promised_at_0.9"] + 6 * scores["coverage_of_later_at_0.9"]) / 46
    assert mean == pytest.approx(scores["coverage_at_0.9"])
    said = " ".join(both.cautions)
    assert f"{100 * scores['coverage_of_promised_at_0.9']:.1f}\u202f% (" in said
    assert "A further 6 samples are of classes that were added later, for which nothing was promised" in said
    later = lt.evaluate(home / "run", data=home / "later.npz", resamples=0).result
    said = " ".join(later.cautions)
    assert "hold the truth; nothing was promised for them, as their classes were added later." in said
    assert "were promised" not in said


def test_calibrating_on_samples_of_a_later_class_promises_something(home: Path, tmp_path: Path) -> None:
    lt.load(home / "run").export(tmp_path / "model", ["safetensors"], with_reference=True)
    data = write(tmp_path / "theirs.npz", [20, 20, 20, 20, 20], 5)
    assert main(["calibrate", str(tmp_path / "model"), "--data", str(data)]) == 0
    decider = lt.load(tmp_path / "model").decider
    assert len(decider.later_classes) == 1
    assert not len(decider.unpromised)
    assert "Nothing is promised" not in decider.promise_samples.sentence


def test_a_version_without_the_later_class_keeps_the_promises_of_those_around_it(home: Path) -> None:
    """The class is read as the node above it there, and dogs and cats are no later classes for that."""
    said = {}
    for name, paths in {"with": PATHS, "without": PATHS[:4]}.items():
        file = home / f"{name}.json"
        lt.Taxonomy.from_paths([*paths, "plant/moss"]).save(file)
        said[name] = lt.predict(home / "run", data=home / "later.npz", taxonomy=file, coverage=0.8).rests_on
    assert "Nothing is promised for" in said["with"]
    assert "Nothing is promised for" not in said["without"]


def test_which_labels_have_no_promise() -> None:
    tree = lt.Taxonomy.from_paths(["a/x/1", "a/x/2", "a/y", "b"])
    labels = torch.cat([tree.encode(["a/x/1", "a/x", "a", "a/y"]), torch.tensor([-1])])
    without = are_unpromised(labels, torch.tensor([tree.find("a/x")]), tree)
    assert without.tolist() == [True, True, False, False, False]
    assert say_unpromised([]) == ""
    assert say_unpromised(["a", "b"]).startswith("Nothing is promised for 'a' and 'b', which were added")


def test_promises_of_samples_set_aside_are_not_said_to_be_of_validation(tmp_path: Path) -> None:
    data = write(tmp_path / "features.npz", [60, 60, 60, 60, 0], 1)
    lt.train(data, "tree-ridge", out=tmp_path / "run", accelerator="cpu", progress_bar=False, calib=0.2)
    said = " ".join(info_text(folder_facts(tmp_path / "run"), tmp_path / "run").split())
    assert "(samples of the split calib)" in said
    assert "(validation samples)" not in said
    lt.load(tmp_path / "run").export(tmp_path / "model", ["safetensors"])
    card = (tmp_path / "model" / "README.md").read_text("utf-8")
    assert "samples of the split calib: for new samples of the same kind, the share" in card
