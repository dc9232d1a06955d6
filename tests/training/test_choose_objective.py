"""The objective that the samples choose: which it is, that a run keeps it, and that it can be named later."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from labeltree.cli.main import main
from labeltree.data import Source
from labeltree.data.images.stores import ArrayStore
from labeltree.data.vectors.mapped_vectors import VectorStore
from labeltree.errors import OtherSettingsError
from labeltree.inference.load_run import load_run
from labeltree.runs import RunFolder
from labeltree.taxonomy import Taxonomy
from labeltree.training.choosing.choose_objective import choose_objective, with_objective
from labeltree.training.experiment import prepare
from labeltree.training.fit import train
from labeltree.training.objective import Objective
from labeltree.training.read_recipes import RecipeParser, make_recipe
from labeltree.training.recipe import HeadRecipe, OptimizerRecipe, Recipe, TableRecipe
from labeltree.training.registry import (
    default_options,
    get_sum,
    head_layers,
    list_objectives,
    objective_terms,
    register_objective,
    register_sum,
)

TREE = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak")])
LEAVES = ["animal/dog", "animal/cat", "plant/oak", None] * 3
VECTORS = {"store": None, "vectors": VectorStore(np.ones((12, 4), np.float32), "vectors")}
OF_USE = {"aspects": torch.ones(12, 1, dtype=torch.int64), "aspect_taxonomies": (TREE,)}


def source_of(labels: list[str | None], **columns: Any) -> Source:
    n = len(labels)
    return Source(
        name="made",
        taxonomy=TREE,
        nodes=TREE.encode(labels),
        instances=torch.arange(n),
        rows=torch.arange(n),
        split=np.array(["train"] * n),
        **{"store": ArrayStore(torch.zeros(n, 8, 8, dtype=torch.uint8)), **columns},
    )


def test_deep_trees_have_an_objective_of_their_own() -> None:
    deep = Taxonomy.from_paths([("a", "b", "c", "d", "e", "f", leaf) for leaf in "xyz"])
    nodes = torch.cat([deep.leaves.repeat(4), deep.encode(["a"])])
    source = dataclasses.replace(source_of(["animal/dog"] * 13), taxonomy=deep, nodes=nodes)
    choice = choose_objective(make_recipe({"data": "x"}), source)
    assert choice.objective == "happier"
    assert "labels lie 6.5 steps deep on average" in choice.why


@pytest.mark.parametrize(
    ("labels", "settings", "columns", "objective"),
    [
        (LEAVES, {}, {}, "pairs-proxies-means"),
        ([*["animal"] * 11, "plant/oak"], {}, {}, "pairs-proxies-means"),
        (["animal", "plant", None] * 4, {}, {}, "himulcon"),
        (LEAVES, {"geometry": "poincare"}, {}, "hwc+lam"),
        (LEAVES, {"coarsen": 1}, {}, "grafit"),
        ([None] * 12, {}, {}, "simclr"),
        ([None] * 12, {}, OF_USE, "mlcl"),
        (
            LEAVES,
            {"table": TableRecipe(aspect_columns=["use"])},
            OF_USE,
            "mlcl",
        ),
        (LEAVES, {}, OF_USE, "pairs-proxies-means"),
        (LEAVES, {"encoder": "small-conv+small-text"}, {}, "image-text"),
        (LEAVES, {}, VECTORS, "tree-ridge"),
        (LEAVES, {"encoder": "efficientnet-lite0", "pretrained": True}, {}, "pairs-proxies-means"),
        (LEAVES, {"epochs": 5}, VECTORS, "pairs-proxies-means"),
        (LEAVES, {"adapter": 8}, VECTORS, "pairs-proxies-means"),
        (LEAVES, {"head": HeadRecipe(dim=64)}, VECTORS, "pairs-proxies-means"),
        (LEAVES, {"optimizer": OptimizerRecipe(lr=0.1)}, VECTORS, "pairs-proxies-means"),
        (LEAVES, {"coarsen": 1}, VECTORS, "grafit"),
    ],
)
def test_the_samples_choose(
    labels: list[str | None], settings: dict[str, Any], columns: dict[str, Any], objective: str
) -> None:
    recipe, source = Recipe(data="made", **settings), source_of(labels, **columns)
    choice = choose_objective(recipe, source)
    assert choice.objective == objective
    assert str(choice).startswith(f"{objective}, because ")
    assert {entry.name for entry in objective_terms(objective)} <= {one.name for one in list_objectives()}


def test_an_objective_that_is_named_stays() -> None:
    recipe = make_recipe({"data": "made", "objective": "supcon"})
    assert with_objective(recipe, source_of(LEAVES)) is recipe


def test_its_settings_are_those_of_the_command_line() -> None:
    chosen = with_objective(Recipe(data="made"), source_of(LEAVES))
    named = RecipeParser(chosen.objective).recipe(["--data", "made", "--objective", chosen.objective])
    assert dataclasses.asdict(chosen) == dataclasses.asdict(named)


def test_it_has_no_settings_of_its_own_and_no_other_may_have_its_name() -> None:
    with pytest.raises(ValueError, match="chosen by the samples"):
        Objective(Recipe(data="made"), TREE, 8)
    with pytest.raises(ValueError, match="cannot register"):
        register_objective("auto", summary="", source="")(torch.nn.Identity)
    for unknown in ({"hwc.gamma": 0.3}, {"tree-proxies.temperature": 0.3}):
        with pytest.raises(
            ValueError,
            match=r"left to the samples; name one .* '(hwc|tree-proxies)'",
        ):
            make_recipe({"data": "made", **unknown})
    with pytest.raises(ValueError, match="stands alone"):
        make_recipe({"data": "made", "objective": "auto+lam"})


def test_a_run_keeps_it_and_it_can_be_named(
    recipe_of: Callable[..., Recipe], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = recipe_of("auto", epochs=1)
    run = train(recipe, tmp_path / "run", progress_bar=False)
    found = load_run(run.path).recipe
    assert found.objective == "pairs-proxies-means"
    notes = json.loads(run.data.read_text("utf-8"))["notes"]
    assert notes[0].startswith("objective: pairs-proxies-means, because labels reach the leaves")
    # the same command again, with the objective open or named
    assert train(recipe, run.path, progress_bar=False).path == run.path
    assert train(recipe_of(found.objective, epochs=1), run.path, progress_bar=False).path == run.path
    with pytest.raises(OtherSettingsError, match=r"hwc\.gamma is 0\.5, not 0\.3"):
        train(recipe_of(found.objective, epochs=1, hwc__gamma=0.3), run.path, progress_bar=False)
    with pytest.raises(OtherSettingsError, match="objective is pairs"):
        train(recipe_of("supcon", epochs=1), run.path, progress_bar=False)
    # and the other way round
    arguments = ["train", "--data", recipe.data, "--epochs", "1", "--batch_size", "9", "--val", "0.2"]
    arguments += ["--image_size", "28", "--accelerator", "cpu", "--out", str(run.path), "--quiet"]
    assert main(arguments) == 0
    assert "trained pairs-proxies-means on" in capsys.readouterr().out


def test_a_run_goes_on_with_what_was_chosen_when_it_began(
    recipe_of: Callable[..., Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = recipe_of("auto", epochs=1)
    run = train(recipe, tmp_path / "run", progress_bar=False)
    monkeypatch.setattr(
        "labeltree.training.choosing.choose_objective.choose_objective",
        lambda *given: pytest.fail("a run that has begun chooses again"),
    )
    assert train(recipe, run.path, progress_bar=False, verify=True).path == run.path
    assert RunFolder(run.path).recipe.is_file()


def test_a_name_for_several_is_their_sum_on_a_linear_head() -> None:
    name = "pairs-proxies-means"
    parts = get_sum(name)
    assert parts is not None
    nodes, instances = TREE.leaves.repeat(4), torch.arange(6).repeat(2)
    features = torch.randn(12, 8, generator=torch.Generator().manual_seed(0))

    def built(objective: str, **settings: Any) -> Objective:
        torch.manual_seed(0)
        return Objective(make_recipe({"data": "made", "objective": objective, **settings}), TREE, 8)

    named = built(name)
    summed = built(
        "+".join(parts.terms),
        **{"head.layers": 1, "tree-proxies.gram": 0.1, "term_weights": list(parts.weights)},
    )
    found, expected = (each(features, nodes, instances)["loss"] for each in (named, summed))
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    deeper = built(name, **{"head.layers": 2, "hwc.gamma": 0.2, "term_weights": [1, 0, 0]})
    assert sum(p.ndim == 2 for p in deeper.head.parameters()) == 2
    with pytest.raises(ValueError, match=r"stands for hwc\+tree-proxies\+cpcc"):
        built(f"{name}+lam")
    for taken in (name, "hwc", "auto"):
        with pytest.raises(ValueError, match="cannot register"):
            register_sum(dataclasses.replace(parts, name=taken))
    with pytest.raises(ValueError, match="unknown objective"):
        register_sum(dataclasses.replace(parts, name="other", terms=("hwc", "nothing")))


def test_defaults_of_the_sum_are_those_of_its_command_line() -> None:
    name = "pairs-proxies-means"
    recipe = make_recipe({"data": "made", "objective": name})
    assert recipe.options == default_options(name)
    assert recipe.options["tree-proxies"]["gram"] == 0.1
    for objective, layers in ((name, 1), ("supcon", 2)):
        left_open = make_recipe({"data": "made", "objective": objective})
        assert (left_open.head.layers, head_layers(left_open)) == (None, layers)
    assert make_recipe({"data": "made", "objective": name, "tree-proxies.gram": 0.3}).options["tree-proxies"][
        "gram"
    ] == pytest.approx(0.3)
    bare = Objective(Recipe(data="made", objective=name), TREE, 8)
    assert bare.terms["tree-proxies"].loss.gram == 0.1
    assert sum(p.ndim == 2 for p in bare.head.parameters()) == 1
    alone = make_recipe({"data": "made", "objective": "tree-proxies"})
    assert alone.options["tree-proxies"]["gram"] == 1.0


def test_auto_is_not_the_run_of_another_objective(recipe_of: Callable[..., Recipe], tmp_path: Path) -> None:
    """A folder whose run names another objective is not continued by a recipe that leaves it open."""
    run = train(recipe_of("supcon", epochs=1), tmp_path / "run", progress_bar=False)
    with pytest.raises(OtherSettingsError, match="objective is supcon, not pairs-proxies-means"):
        train(recipe_of("auto", epochs=1), run.path, progress_bar=False)
    named = train(recipe_of("pairs-proxies-means", epochs=1), tmp_path / "named", progress_bar=False)
    assert train(recipe_of("auto", epochs=1), named.path, progress_bar=False).path == named.path


def test_layers_of_the_head_left_open_and_named_are_the_same_run(
    recipe_of: Callable[..., Recipe], tmp_path: Path
) -> None:
    """Runs of earlier versions recorded the two layers that are left open now."""
    run = train(recipe_of("supcon", epochs=1, head__layers=2), tmp_path / "run", progress_bar=False)
    assert train(recipe_of("supcon", epochs=1), run.path, progress_bar=False).path == run.path
    with pytest.raises(OtherSettingsError, match=r"head\.layers is 2, not 1"):
        train(recipe_of("supcon", epochs=1, head__layers=1), run.path, progress_bar=False)
    deep = train(recipe_of("auto", epochs=1, head__layers=2), tmp_path / "deep", progress_bar=False)
    assert sum(p.ndim == 2 for p in load_run(deep.path).network.objective.head.parameters()) == 2


def test_a_width_of_no_hidden_layer_is_refused(recipe_of: Callable[..., Recipe]) -> None:
    with pytest.raises(ValueError, match=r"head\.hidden is 7, which has no effect in a head of one layer"):
        prepare(recipe_of("auto", head__hidden=7))


def test_a_hidden_layer_is_not_carried_over_as_a_projection(
    recipe_of: Callable[..., Recipe], tmp_path: Path
) -> None:
    deep = {"epochs": 1, "head__dim": 128, "encoder": "small-resnet"}
    run = train(recipe_of("supcon", **deep), tmp_path / "run", progress_bar=False)
    flat = recipe_of("supcon", **deep, head__layers=1, weights=str(run.path), pretrained=False)
    experiment = prepare(flat)
    old = load_run(run.path).network.objective.head.layers[0].weight
    new = experiment.module.objective.head.layers[0].weight
    assert new.shape != old.shape or not torch.equal(new.cpu(), old.cpu())
    assert "head" not in str(experiment.carried)
