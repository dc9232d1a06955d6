"""``labeltree extend``: new classes without training, retired ones, and the way back."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import labeltree as lt
from labeltree.cli.main import main
from labeltree.errors import DataError, RunError, TaxonomyError
from labeltree.inference.extend import (
    HELD_FROM,
    _held_out,
    extend_run,
    extension_text,
    extensions_of,
    undo_extension,
)
from labeltree.inference.reference import load_reference
from labeltree.inference.training_samples import training_samples
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow
SETTINGS: dict[str, Any] = {
    "epochs": 1,
    "batch_size": 32,
    "image_size": 28,
    "encoder": "small-conv",
    "val": 0.3,
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, make_image_folder: Callable[..., Path]) -> Path:
    """A run that knows three of five classes, and folders of the others."""
    home = tmp_path_factory.mktemp("home")
    photos = make_image_folder(home / "photos", per_leaf=30)
    make_image_folder(home / "test", per_leaf=10, seed=1)
    for leaf in ("animal/dog/beagle", "plant/fern"):
        shutil.copytree(photos / leaf, home / "new" / leaf)
        shutil.rmtree(photos / leaf)
    lt.train(photos, "hwc", out=home / "run", progress_bar=False, accelerator="cpu", **SETTINGS)
    return home


@pytest.fixture
def run(home: Path) -> Iterator[Path]:
    yield home / "run"
    shutil.rmtree(home / "run" / "extensions", ignore_errors=True)


def answers_of(run: Path, files: list[Path]) -> tuple[str, list[list[float]]]:
    model = lt.load(run)
    found = model.predict(files, coverage=0.5, top=5)
    return model.digest, [found.answers.nodes.tolist(), found.answers.probabilities.tolist()]


def test_a_run_answers_with_new_classes_and_without_them_again(home: Path, run: Path) -> None:
    files = sorted((home / "test").rglob("*.png"))
    before = answers_of(run, files)
    own = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    found = lt.extend(run, home / "new")
    assert [each["class"] for each in found.added] == ["animal/dog/beagle", "plant/fern"]
    assert all(each["new"] and each["held"] == 10 and each["samples"] == 20 for each in found.added)
    model = lt.load(run)
    assert model.taxonomy.num_leaves == 5
    assert model.digest != before[0]
    truth = model.taxonomy.encode([str(file.parent.relative_to(home / "test")) for file in files])
    answers = model.predict(files, unknown=0).answers
    new = torch.isin(truth, model.taxonomy.encode(["beagle", "fern"]))
    right = answers.guesses[:, 0] == truth
    assert float(right[new].double().mean()) > 0.5  # images of stripes and hues are easy to tell
    assert float(right[~new].double().mean()) > 0.5
    assert {file: file.read_bytes() for file in own} == own
    undo_extension(run)
    assert answers_of(run, files) == before
    assert extensions_of(run) == []
    with pytest.raises(RunError, match="no extension to undo"):
        undo_extension(run)


def test_what_was_unknown_is_known_then(home: Path, run: Path) -> None:
    files = sorted((home / "test" / "plant" / "fern").glob("*.png"))
    before = lt.load(run).predict(files).answers
    extend_run(run, home / "new")
    after = lt.load(run).predict(files, explained=True)
    assert before.p_known is not None
    assert after.answers.p_known is not None
    assert float(after.answers.p_known.mean()) > float(before.p_known.mean())
    assert after.why is not None
    fern = after.taxonomy.find("fern")
    near = [step.speaks_for for steps in after.why for step in steps]
    names = {str(each.name) for each in near if each is not None and each.node == fern}
    assert names  # by the samples that the extension learned from, which have their names
    assert all(
        Path(name).is_file() and Path(name).parent == home / "new" / "plant" / "fern" for name in names
    )


def test_what_a_run_has_learned_from(home: Path, run: Path) -> None:
    """Of training, and of every extension, without the classes that were retired since."""
    extend_run(run, home / "new" / "plant", under="plant")
    trained = EmbeddingTable.load(RunFolder(run).embeddings())
    extend_run(run, retire=["animal/cat", "plant/fern"])
    extend_run(run, home / "new" / "animal" / "dog", under="animal/dog")
    model = lt.load(run)
    found = training_samples(model.decider.run)
    assert found is not None
    assert found.paths is not None
    assert trained.paths is not None
    assert trained.split is not None
    kept = {str(path) for path, split in zip(trained.paths, trained.split, strict=True) if split == "train"}
    beagles = [path for path in found.paths if Path(path).parent.name == "beagle"]
    assert len(beagles) == 20
    assert set(found.paths) - set(beagles) == {path for path in kept if "/cat/" not in path}
    for path, node in zip(found.paths, found.nodes.tolist(), strict=True):
        assert str(path).endswith(f"{model.taxonomy.path_name(node)}/{Path(path).name}")


def test_a_killed_extension_leaves_the_run_as_it_was(
    home: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = sorted((home / "test").rglob("*.png"))[::9]
    before = answers_of(run, files)
    write = RunFolder.write_json

    def killed(folder: RunFolder, path: Path, content: Any) -> None:
        if path.name == "extension.json":
            raise KeyboardInterrupt
        write(folder, path, content)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "write_json", killed)
        with pytest.raises(KeyboardInterrupt):
            extend_run(run, home / "new")
    assert answers_of(run, files) == before
    (run / "extensions" / ".new-leftover").mkdir()  # of a process that got no chance to clear up
    assert extensions_of(run) == []
    extend_run(run, home / "new")
    assert [each.number for each in extensions_of(run)] == [1]
    assert not list((run / "extensions").glob(".new-*"))


def test_retired_classes_answer_no_more(home: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    extend_run(run, home / "new")
    found = extend_run(run, retire=["dog"])
    assert (found.number, sorted(found.retired)) == (2, ["animal/dog/beagle", "animal/dog/poodle"])
    model = lt.load(run)
    files = sorted((home / "test").rglob("*.png"))
    names = model.taxonomy.decode(model.predict(files, top=9).answers.guesses.unique())
    assert names == ["animal/cat/tabby", "plant/rose", "plant/fern"]
    reference = load_reference(model.run)
    assert reference is not None
    assert not bool(torch.isin(reference.nodes, model.taxonomy.descendants(model.taxonomy.find("dog"))).any())
    with pytest.raises(DataError, match="no class at or below 'beagle' answers"):
        extend_run(run, retire=["beagle"])
    with pytest.raises(DataError, match="no class would be left"):
        extend_run(run, retire=["animal", "plant"])
    with pytest.raises(TaxonomyError, match="whale"):
        extend_run(run, retire=["whale"])
    again = extend_run(run, home / "new" / "animal", under="animal")  # a retired class comes back
    assert [each["class"] for each in again.added] == ["animal/dog/beagle"]
    assert main(["extend", str(run)]) == 0
    said = capsys.readouterr().out
    assert "extension 3 of" in said
    assert "retired  animal/dog/poodle" in said


def test_where_new_classes_go(home: Path, run: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "new" / "plant" / "fern", tmp_path / "flat" / "bracken")
    by_path = extend_run(run, tmp_path / "flat")
    assert [each["class"] for each in by_path.added] == ["bracken"]
    undo_extension(run)
    nearest = extend_run(run, tmp_path / "flat", place="nearest")
    (only,) = nearest.added
    assert only["class"].endswith("bracken")
    assert "samples" in only["why"]
    undo_extension(run)
    under = extend_run(run, tmp_path / "flat", under="plant")
    assert [each["class"] for each in under.added] == ["plant/bracken"]
    undo_extension(run)
    shutil.copytree(tmp_path / "flat" / "bracken", tmp_path / "begins" / "dog" / "collie")
    begins = extend_run(run, tmp_path / "begins")
    assert [each["class"] for each in begins.added] == ["animal/dog/collie"]
    assert "name of a node there" in extension_text(begins)
    with pytest.raises(ValueError, match="leave out 'under'"):
        extend_run(run, tmp_path / "flat", place="nearest", under="plant")


def test_one_sample_below_a_leaf(home: Path, run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "plant" / "rose" / "climber"
    folder.mkdir(parents=True)
    shutil.copyfile(min((home / "new" / "plant" / "fern").glob("*.png")), folder / "only.png")
    found = extend_run(run, tmp_path)
    (only,) = found.added
    assert (only["class"], only["samples"], only["held"]) == ("plant/rose/climber", 1, 0)
    assert "nothing is promised for it" in extension_text(found)
    assert "is not known" in extension_text(found)
    model = lt.load(run)
    assert model.decider.chosen.name in ("feature-means", "prototypes")  # not the probe
    assert "the new classes have 1 sample each (median), none held out" in model.decider.chosen.sentence
    classes = model.taxonomy.decode(model.decider.rule.classes.nodes)
    assert "plant/rose" in classes
    assert "plant/rose/climber" in classes
    answers = model.predict(sorted((home / "test").rglob("*.png")))
    assert len(answers.answers) == 50


def test_samples_of_training_are_not_learned_from_again(home: Path, run: Path) -> None:
    found = extend_run(run, home / "photos")
    record = RunFolder(run).load_samples()
    trained = int(np.isin(record.split, ("train", "val")).sum())
    assert sum(each["samples"] + each["held"] for each in found.added) == 90 - trained
    assert f"{trained} samples that the run was trained on were left out." in extension_text(found)
    assert not any(each["new"] for each in found.added)


def test_other_weights_are_noticed(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "run", tmp_path / "run")
    extend_run(tmp_path / "run", home / "new")
    moved = shutil.copytree(tmp_path / "run", tmp_path / "moved")  # no links any more
    assert lt.load(moved).taxonomy.num_leaves == 5
    weights = RunFolder(moved).encoder
    content = weights.read_bytes()
    weights.unlink()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(RunError, match="had other weights"):
        lt.load(moved)
    undo_extension(moved)
    assert lt.load(moved).taxonomy.num_leaves == 3


def test_groups_are_held_out_as_a_whole_and_labels_may_be_missing(home: Path, tmp_path: Path) -> None:
    for name, folder in (("old", "photos"), ("new", "new")):
        rows = ["image,label,patient"]
        for place, file in enumerate(sorted((home / folder).rglob("*.png"))):
            label = "" if place % 20 == 19 else "/".join(file.relative_to(home / folder).parts[:-1])
            rows.append(f"{file},{label},{name}{place // 2}")
        (tmp_path / f"{name}.csv").write_text("\n".join(rows))
    run = tmp_path / "run"
    lt.train(
        tmp_path / "old.csv", "ce", out=run, progress_bar=False, accelerator="cpu",
        table={"group_column": "patient"}, **SETTINGS,
    )  # fmt: skip
    found = extend_run(run, tmp_path / "new.csv")
    assert sum(each["samples"] + each["held"] for each in found.added) == 57
    assert "3 samples have no label, or several, and were left out." in extension_text(found)
    reference = load_reference(lt.load(run).run)
    assert reference is not None
    assert reference.groups is not None
    sides: dict[int, set[str]] = {}
    for group, split in zip(reference.groups.tolist(), reference.split.tolist(), strict=True):
        sides.setdefault(group, set()).add(split)
    assert all(len(seen) == 1 for seen in sides.values())
    assert all(each["held"] > 0 for each in found.added)
    few = tmp_path / "few.csv"
    few.write_text("\n".join((tmp_path / "new.csv").read_text().splitlines()[: 2 * (HELD_FROM - 1)]))
    undo_extension(run)
    (only,) = extend_run(run, few).added  # fewer patients than it takes, though more images
    assert only["samples"] >= HELD_FROM
    assert only["held"] == 0


def test_groups_of_which_a_sample_was_seen_are_not_held_out() -> None:
    """Another image of a patient of training would flatter, too."""
    tree = Taxonomy.from_paths([("a",), ("b",)])
    patients = torch.arange(30).repeat_interleave(2)
    table = EmbeddingTable(
        torch.eye(60), tree.leaves[(patients % 2)], groups=patients.clone(), geometry="euclidean"
    )
    seen = torch.zeros(60, dtype=torch.bool)
    seen[::6] = True  # one image of every third patient
    for set_aside in (False, True):
        split = _held_out(table, seen, tree.leaves, tree, 0, set_aside=set_aside).split
        held = set(patients[torch.from_numpy(np.asarray(split) != "train")].tolist())
        assert held
        assert not held & set(patients[seen].tolist())


def test_an_extended_run_is_exported_and_answers_in_bulk(home: Path, run: Path, tmp_path: Path) -> None:
    extend_run(run, home / "new")
    model = lt.load(run)
    files = sorted((home / "test").rglob("*.png"))[::7]
    answers = model.predict(files).answers
    assert main(["export", str(run), "--out", str(tmp_path / "model"), "--format", "safetensors"]) == 0
    exported = lt.load(tmp_path / "model")
    assert exported.taxonomy == model.taxonomy
    assert exported.predict(files).answers.nodes.tolist() == answers.nodes.tolist()
    done = model.predict_to(home / "test", tmp_path / "answers")
    assert done.samples == 50
    assert "5 leaves" in info(run)


def info(run: Path) -> str:
    from labeltree.inference.info_text import info_text
    from labeltree.inference.model_facts import folder_facts

    return info_text(folder_facts(run), run)


def test_the_parts_of_a_split_are_learned_from_samples_of_training(
    home: Path, run: Path, tmp_path: Path
) -> None:
    """Relabelled samples are learned from though the run has seen them; what it has seen is not held out."""
    roses = sorted((home / "photos" / "plant" / "rose").glob("*.png"))
    for number, file in enumerate(roses):
        part = tmp_path / "plant" / f"rose {number % 2}"
        part.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, part / file.name)
    record = RunFolder(run).load_samples()
    plant = [name.startswith("plant/rose") for name in record.names or ()]
    trained = int((np.isin(record.split, ("train", "val")) & plant).sum())
    assert trained
    found = extend_run(run, tmp_path, retire=["plant/rose"])
    assert [each["class"] for each in found.added] == ["plant/rose 0", "plant/rose 1"]
    assert sum(each["samples"] + each["held"] for each in found.added) == len(roses)
    assert sum(each["held"] for each in found.added) <= len(roses) - trained
    assert f"{trained} samples that the run was trained on have a new class here" in extension_text(found)
    assert "plant/rose" not in lt.load(run).taxonomy.decode(lt.load(run).decider.rule.classes.nodes)


def test_copies_count_as_one_group(home: Path, run: Path, tmp_path: Path) -> None:
    rows = ["image,label"]
    for leaf in ("animal/dog/beagle", "plant/fern"):
        rows += [f"{file},{leaf}" for file in sorted((home / "new" / leaf).glob("*.png"))[:10]]
    (tmp_path / "single.csv").write_text("\n".join(rows))
    said = extension_text(extend_run(run, tmp_path / "single.csv"))
    assert " group" not in said.replace("(or groups)", "")
    undo_extension(run)
    (tmp_path / "copies.csv").write_text("\n".join([*rows, rows[1]]))
    extension = extend_run(run, tmp_path / "copies.csv")
    learned = {each["class"]: (each["samples"] + each["held"], each["groups"]) for each in extension.added}
    assert learned["plant/fern"][0] == 10
    assert learned["animal/dog/beagle"][0] == 11
    for each in extension.added:
        assert each["samples"] - each["groups"] in (0, int(each["class"].endswith("beagle")))
    assert "Equal samples, and images of one row, are one group" in extension_text(extension)
