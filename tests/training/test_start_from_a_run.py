"""Training starts from another run: encoder, projection head, and the rows of classes that changed."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import labeltree as lt
from labeltree.errors import RunError, TaxonomyError
from labeltree.models.weights import read_weights
from labeltree.runs import RunFolder
from labeltree.taxonomy import Taxonomy, TaxonomyMapping
from labeltree.taxonomy.versions.between_versions import VersionChange
from labeltree.training.carried_weights import _change, start_file
from labeltree.training.experiment import prepare
from labeltree.training.read_recipes import make_recipe
from labeltree.training.recipe import Recipe

pytestmark = pytest.mark.slow

SETTINGS: dict[str, Any] = {
    "epochs": 1, "batch_size": 16, "encoder": "small-conv", "accelerator": "cpu", "image_size": 28,
}  # fmt: skip
NEW = Taxonomy.from_paths(
    ["animal/dog/hound", "animal/cat/tabby", "flora/rose/red", "flora/rose/white", "flora/moss"]
)
BECAME = {
    "animal/dog/poodle": ["animal/dog/hound"],
    "animal/dog/beagle": ["animal/dog/hound"],
    "plant": ["flora"],
    "plant/rose": ["flora/rose/red", "flora/rose/white"],
    "plant/fern": [],
}


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory, make_image_folder: Callable[..., Path]) -> Path:
    return make_image_folder(tmp_path_factory.mktemp("home") / "photos", per_leaf=12)


@pytest.fixture(scope="module", params=["ce", "guided", "hwc"])
def run(request: pytest.FixtureRequest, photos: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    out = tmp_path_factory.mktemp(request.param) / "run"
    return lt.train(photos, request.param, out=out, progress_bar=False, **SETTINGS)


def test_what_is_carried_over(
    run: RunFolder, photos: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old = run.load_taxonomy()
    targets = [
        [NEW.find(path) for path in BECAME.get(old.path_name(node), [old.path_name(node)])]
        for node in range(old.num_nodes)
    ]
    NEW.save(tmp_path / "new.yaml")
    TaxonomyMapping(old, NEW, targets).save(tmp_path / "map.yaml")
    name = run.path.parent.name.rstrip("0123456789")
    given: dict[str, Any] = {
        "taxonomy": str(tmp_path / "new.yaml"),
        "mapping": str(tmp_path / "map.yaml"),
        "weights": str(run.path),
    }
    recipe = make_recipe({"data": str(photos), "objective": name, **SETTINGS, **given})
    made = prepare(recipe)
    state = read_weights(run.encoder)
    for key, value in made.module.encoder.state_dict().items():
        torch.testing.assert_close(value, state[f"encoder.{key}"])
    assert made.carried is not None
    own = {f"objective.{key}": value for key, value in made.module.objective.state_dict().items()}
    for key in own:
        if key.startswith("objective.head.") and own[key].shape == state[key].shape:
            torch.testing.assert_close(own[key], state[key])
    row = {"ce": "terms.ce.classifier.weight", "guided": "terms.guided.loss.prototypes"}.get(name)
    if row is None:
        assert "projection head" in made.carried
        assert "classes" not in made.carried
        return
    assert (
        "1 as they were, 1 as the mean of those that were merged, 2 from the one that was split, 1 fresh"
        in (made.carried)
    )
    before, after = state[f"objective.{row}"], own[f"objective.{row}"]
    was = {old.path_name(node): before[place] for place, node in enumerate(old.leaves.tolist())}
    now = {NEW.path_name(node): after[place] for place, node in enumerate(NEW.leaves.tolist())}
    mean = (was["animal/dog/poodle"] + was["animal/dog/beagle"]) / 2
    torch.testing.assert_close(now["animal/dog/hound"], mean)
    torch.testing.assert_close(now["animal/cat/tabby"], was["animal/cat/tabby"])
    for part in ("red", "white"):
        torch.testing.assert_close(now[f"flora/rose/{part}"], was["plant/rose"])
    assert not any(torch.equal(now["flora/moss"], row) for row in was.values())
    if name == "ce":
        with caplog.at_level(logging.WARNING, "labeltree.training"):
            out = tmp_path / "next"
            lt.train(photos, name, out=out, progress_bar=False, **SETTINGS, **given)
        assert any("training starts from the run" in record.getMessage() for record in caplog.records)
        assert any("samples keep the split that they had in" in each.getMessage() for each in caplog.records)
        assert RunFolder(out).load_taxonomy() == NEW
        records = [folder.load_samples() for folder in (run, RunFolder(out))]
        then, now = (dict(zip(each.names or (), each.split.tolist(), strict=True)) for each in records)
        assert now == then


def test_on_the_same_taxonomy_all_is_carried_over(run: RunFolder, photos: Path) -> None:
    name = run.path.parent.name.rstrip("0123456789")
    recipe = make_recipe({"data": str(photos), "objective": name, **SETTINGS, "weights": str(run.path)})
    made, state = prepare(recipe), read_weights(run.encoder)
    for key, value in made.module.objective.named_parameters():
        torch.testing.assert_close(value.detach(), state[f"objective.{key}"])


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError):
        start_file(Recipe("photos", weights=str(tmp_path)))
    assert start_file(Recipe("photos", weights="encoder.safetensors")) == "encoder.safetensors"
    assert start_file(Recipe("photos")) is None


def test_a_mapping_of_the_data_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The run is on the new version already, or on a third one, and the data still have old labels."""
    old, third = Taxonomy.from_paths(["a/x", "b/y"]), Taxonomy.from_paths(["c/x", "b/y"])
    new = Taxonomy.from_paths(["a/z", "b/y"])
    TaxonomyMapping(old, new, [[0], [1], [2], [3], [4]]).save(tmp_path / "map.yaml")
    recipe = Recipe(data="photos", objective="hwc", mapping=str(tmp_path / "map.yaml"), taxonomy="new")
    assert _change(recipe, new, new, new, new).mapping.changes() == []
    assert not caplog.records
    assert bool(_change(recipe, old, old, new, new).mapping.exact[old.find("x")])
    assert not caplog.records
    _change(recipe, third, third, new, new)
    assert "matched by what is certain, and not by the mapping" in caplog.text


def test_a_mapping_of_the_run_is_checked_as_in_an_evaluation(tmp_path: Path) -> None:
    """A line is about a class that the run's taxonomy never had."""
    old, new = Taxonomy.from_paths(["a/x", "a/y", "b/z"]), Taxonomy.from_paths(["a/x", "b/z"])
    mapping = tmp_path / "map.yaml"
    mapping.write_text("labeltree mapping: 1\nchanges:\n- {remove: a/y}\n- {remove: a/q}\n")
    recipe = Recipe(data="notes.csv", mapping=str(mapping), taxonomy="new", weights="first")
    said = r"the old taxonomy has no 'a/q \(line \d+\)'; correct the path, or remove the line"
    with pytest.raises(TaxonomyError, match=said):
        VersionChange.of(old, new, mapping)
    with pytest.raises(TaxonomyError, match=said + r"\. .* the run in 'first'"):
        _change(recipe, old, old, new, new)
    TaxonomyMapping.between(old, new)[0].save(mapping)
    mapping.write_text(mapping.read_text().replace("- {remove: a/y}", "- {remove: a/y}\n- {remove: a/q}"))
    with pytest.raises(TaxonomyError, match=said):
        _change(recipe, old, old, new, new)
