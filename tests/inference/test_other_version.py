"""A run on another version of its taxonomy: answers, their promise, and its export."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import labeltree as lt
from exported_script import load_exported_script
from labeltree.cli.main import main
from labeltree.decisions.classifiers import MergedScores
from labeltree.errors import RunError
from labeltree.inference import model_facts
from labeltree.inference.load_run import load_run
from labeltree.inference.model import Model
from labeltree.inference.other_version import run_on
from labeltree.inference.reference import load_reference
from labeltree.taxonomy import Taxonomy, TaxonomyMapping
from labeltree.taxonomy.versions.between_versions import mapping_digest
from sweeps import long_unless

pytestmark = pytest.mark.slow

SETTINGS = {"epochs": 1, "batch_size": 16, "encoder": "small-conv", "accelerator": "cpu", "val": 0.4}
BECAME = {
    "/": ["/"],
    "animal": ["animal"],
    "animal/dog": ["animal/dog"],
    "animal/dog/beagle": ["animal/dog/hound"],
    "animal/dog/poodle": ["animal/dog/hound"],  # merged
    "animal/cat": ["animal/cat"],
    "animal/cat/tabby": ["animal/cat/tabby/grey", "animal/cat/tabby/red"],  # split
    "plant": ["flora"],  # renamed
    "plant/rose": ["flora/rose"],
    "plant/fern": [],  # removed
}


def write_version(folder: Path, old: Taxonomy) -> tuple[Path, Path]:
    """A new version of the tree, and the mapping to it."""
    paths = [path for several in BECAME.values() for path in several if path != "/"]
    new = Taxonomy.from_paths(sorted({*paths, "flora/moss"}))
    targets = [[new.find(path) for path in BECAME[old.path_name(node)]] for node in range(old.num_nodes)]
    new.save(folder / "new.json")
    TaxonomyMapping(old, new, targets).save(folder / "old-to-new.yaml")
    return folder / "new.json", folder / "old-to-new.yaml"


@pytest.fixture(scope="module", params=long_unless(["own", "probe", "prototypes"], ["own", "prototypes"]))
def run(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    make_image_folder: Callable[..., Path],
) -> Path:
    home = tmp_path_factory.mktemp(request.param)
    photos = make_image_folder(home / "photos", per_leaf=30)
    settings = {**SETTINGS, "image_size": 28, "classifier": request.param}
    return lt.train(photos, "ce", out=home / "run", progress_bar=False, **settings).path


@pytest.fixture
def version(run: Path, tmp_path: Path) -> tuple[Path, Path]:
    return write_version(tmp_path, load_run(run, own_data=False).taxonomy)


@pytest.fixture(scope="module")
def new_photos(tmp_path_factory: pytest.TempPathFactory, make_image_folder: Callable[..., Path]) -> Path:
    return make_image_folder(tmp_path_factory.mktemp("new") / "photos", per_leaf=3, seed=4)


def test_merged_classes_add_up_and_answers_are_of_the_new_tree(
    run: Path, version: tuple[Path, Path], new_photos: Path
) -> None:
    files = sorted(new_photos.rglob("*.png"))
    old, new = lt.load(run), lt.load(run, taxonomy=version[0], mapping=version[1])
    assert new.taxonomy == Taxonomy.from_file(version[0])
    before = {path: path.read_bytes() for path in sorted(run.iterdir()) if path.is_file()}
    table = old.embed(files)
    merged = new.decider.scores
    assert isinstance(merged, MergedScores)
    theirs, ours = (
        (old.decider.scores(table).double() / merged.temperature).softmax(1),
        merged(table).softmax(1),
    )
    expected = torch.zeros_like(ours)
    mapping = TaxonomyMapping.load(version[1], old=old.taxonomy, new=new.taxonomy)
    for column, node in enumerate(old.decider.scores.classes.tolist()):
        place = new.decider.scores.classes.tolist().index(int(mapping.nodes[node]))
        expected[:, place] += theirs[:, column]
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-12)
    names = {new.taxonomy.path_name(node) for node in new.decider.scores.classes.tolist()}
    assert names == {"animal/dog/hound", "animal/cat/tabby", "flora/rose", "flora"}
    found = new.predict(files, coverage=0.8)
    assert found.taxonomy == new.taxonomy
    assert found.about["taxonomy"] == new.taxonomy.digest
    assert found.about["mapping"] == mapping_digest(mapping)
    assert "mapping" not in old.predict(files).about
    assert new.digest != old.digest
    after = {path: path.read_bytes() for path in sorted(run.iterdir()) if path.is_file()}
    assert after == before


def test_the_promise_holds_on_the_new_tree(run: Path, version: tuple[Path, Path]) -> None:
    model = lt.load(run, taxonomy=version[0], mapping=version[1])
    reference = load_reference(load_run(run, own_data=False))
    assert reference is not None
    held = reference.select("val")
    mapping = TaxonomyMapping.load(version[1], old=lt.load(run).taxonomy, new=model.taxonomy)
    labels = torch.tensor([int(mapping.nodes[node]) for node in held.nodes.tolist()])
    assert held.features is not None
    answers = model.answer_embedded(held.features, held.embeddings, coverage=0.8)
    judged = model.decider.rule.classes.judges(labels)
    lines = model.taxonomy.ancestors[labels]
    holds = (lines == answers.nodes[:, None]).any(1)
    assert float(holds[judged].double().mean()) >= 0.8
    assert int(judged.sum()) < len(labels)  # ferns are somewhere in flora now: they decide nothing


def test_classes_that_are_gone_without_a_mapping_are_named(
    run: Path, version: tuple[Path, Path], make_image_folder: Callable[..., Path], tmp_path: Path
) -> None:
    """A mapping says what became of them, and then there is nothing to say."""
    photos = make_image_folder(tmp_path / "photos", per_leaf=1)
    said = [
        str(lt.load(run, taxonomy=version[0], mapping=m).predict(photos).warning) for m in (None, version[1])
    ]
    assert "The new taxonomy has no node for 'animal/dog/beagle', 'animal/dog/poodle', 'plant" in said[0]
    assert "the node above each is answered instead. If they were renamed" in said[0]
    assert "has no node for" not in said[1]


def test_labels_of_new_data_are_of_the_new_tree(
    run: Path, version: tuple[Path, Path], tmp_path: Path, new_photos: Path
) -> None:
    data = tmp_path / "new data"
    for old, new in (("animal/dog/beagle", "animal/dog/hound"), ("animal/cat/tabby", "animal/cat/tabby/red")):
        (data / new).mkdir(parents=True)
        for file in (new_photos / old).iterdir():
            (data / new / file.name).write_bytes(file.read_bytes())
    words = ["--taxonomy", str(version[0]), "--mapping", str(version[1])]
    assert main(["predict", str(run), "--data", str(data), "--labelled", *words]) == 0
    out = tmp_path / "answers"
    assert main(["predict", str(run), "--data", str(data), "--labelled", "--out", f"{out}/", *words]) == 0
    manifest = next(out.glob("*.json")).read_text("utf-8")
    assert mapping_digest(TaxonomyMapping.load(version[1], new=Taxonomy.from_file(version[0]))) in "".join(
        file.read_text("utf-8") for file in out.glob("*.json")
    ), manifest


def test_an_export_answers_on_the_new_tree(
    run: Path, version: tuple[Path, Path], tmp_path: Path, new_photos: Path
) -> None:
    out, with_graph = tmp_path / "model", run.parent.name.startswith("own")
    words = ["--taxonomy", str(version[0]), "--mapping", str(version[1]), "--format", "safetensors"]
    words += ["onnx"] if with_graph else []
    assert main(["export", str(run), "--out", str(out), "--with-reference", *words]) == 0
    seen, exported = lt.load(run, taxonomy=version[0], mapping=version[1]), Model(out)
    files = [str(file) for file in sorted(new_photos.rglob("*.png"))]
    mine, theirs = seen.predict(files, coverage=0.8), exported.predict(files, coverage=0.8)
    assert exported.taxonomy == seen.taxonomy
    assert theirs.answers.nodes.tolist() == mine.answers.nodes.tolist()
    torch.testing.assert_close(theirs.answers.probabilities, mine.answers.probabilities)
    assert theirs.about["mapping"] == mine.about["mapping"]
    assert theirs.about["model"] == mine.about["model"]
    if with_graph:
        rows = load_exported_script(out).predict(files, 0.8)
        found = zip(rows, mine.answers.nodes.tolist(), mine.answers.probabilities, strict=True)
        for row, node, likely in found:
            assert row["answer"] == seen.taxonomy.path_name(node)
            assert row["probability"] == pytest.approx(float(likely), abs=1e-4)
    main(["calibrate", str(out)])
    assert Model(out).predict(files).about["mapping"] == mine.about["mapping"]


def test_what_was_measured_before_is_said_to_be_of_the_version_of_then(
    run: Path, version: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        model_facts, "_metrics", lambda seen, kept: None if seen.base is not None else {"samples": 7}
    )
    for options, before in (({}, None), ({"taxonomy": version[0], "mapping": version[1]}, {"samples": 7})):
        opened = lt.load(run, **options)
        facts = model_facts.model_facts(opened.decider.run, opened.decider)
        assert facts["metrics_before"] == before


def test_an_export_of_an_export_answers_as_it_did_in_memory(
    run: Path, version: tuple[Path, Path], tmp_path: Path, new_photos: Path
) -> None:
    files = sorted(new_photos.rglob("*.png"))
    lt.load(run, taxonomy=version[0], mapping=version[1]).export(
        tmp_path / "second", ["safetensors"], with_reference=True
    )
    config = json.loads((tmp_path / "second" / "config.json").read_text("utf-8"))
    measured = {"split": "test", "samples": 7, "classifier": "own", "confidence": 0.95}
    measured |= {"numbers": [], "by_depth": [0.5]}
    config["facts"]["metrics"] = measured
    (tmp_path / "second" / "config.json").write_text(json.dumps(config), "utf-8")
    names = ["animal/dog/hound", "animal/cat/tabby/grey", "animal/cat/tabby/red", "flora/rose", "flora/lily"]
    Taxonomy.from_paths(names).save(tmp_path / "third.json")
    seen = lt.load(tmp_path / "second", taxonomy=tmp_path / "third.json")
    seen.export(tmp_path / "third", ["safetensors"])
    exported = Model(tmp_path / "third")
    table = seen.embed(files)
    torch.testing.assert_close(exported.decider.scores(table), seen.decider.scores(table), rtol=0, atol=1e-12)
    assert exported.digest == seen.digest
    facts = json.loads((tmp_path / "third" / "config.json").read_text("utf-8"))["facts"]
    assert (facts["metrics"], facts["metrics_before"]) == (None, measured)
    assert model_facts.model_facts(exported.decider.run, exported.decider)["metrics_before"] == measured


def test_decisions_on_other_samples_are_not_replaced_silently(
    run: Path, version: tuple[Path, Path], tmp_path: Path, make_image_folder: Callable[..., Path]
) -> None:
    photos = make_image_folder(tmp_path / "photos", per_leaf=8, seed=5)
    lt.load(run).export(tmp_path / "model", ["safetensors"], with_reference=True)
    model, data = str(tmp_path / "model"), ["--data", str(photos)]
    assert main(["calibrate", model, *data]) == 0
    with pytest.raises(RunError, match=r"calibrated on 'photos'.* then export it on that taxonomy"):
        _ = lt.load(model, taxonomy=version[0], mapping=version[1]).decider
    # what the error says to do
    assert main(["calibrate", model]) == 0
    out = tmp_path / "new"
    lt.load(model, taxonomy=version[0], mapping=version[1]).export(out, ["safetensors"])
    assert main(["calibrate", str(out), *data, "--mapping", str(version[1])]) == 0
    assert json.loads((out / "decisions.json").read_text("utf-8"))["calibrated_on"] == "photos"


def test_what_is_missing_is_said(run: Path, version: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "bare"
    assert main(["export", str(run), "--out", str(out), "--format", "safetensors"]) == 0
    with pytest.raises(RunError, match=r"calibrated anew on its reference samples .* --with-reference"):
        _ = lt.load(out, taxonomy=version[0], mapping=version[1]).decider
    with pytest.raises(ValueError, match="name that one, too"):
        lt.load(run, mapping=version[1])
    loaded = load_run(run, own_data=False)
    loaded.taxonomy.save(tmp_path / "same.json")
    assert run_on(loaded, tmp_path / "same.json") is loaded
