"""The registry of objectives, their sum, and what optimizers do with them."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from labeltree.inference.load_run import load_run
from labeltree.inference.run_embeddings import embed_source
from labeltree.models import Encoder, KeyQueue, MomentumEncoder, build_encoder, register_encoder
from labeltree.taxonomy import Taxonomy
from labeltree.training import registry
from labeltree.training.fit import train
from labeltree.training.objective import Objective
from labeltree.training.optimizer_and_learning_rate import build_optimizer, learning_rate_factor
from labeltree.training.recipe import OptimizerRecipe, Recipe
from labeltree.training.registry import get_objective, list_objectives, objective_terms, register_objective
from sweeps import long_unless, some_now

pytestmark = pytest.mark.slow

NAMES = ["simclr", "supcon", "himulcon", "hicone", "himulcone", "hiercon", "hwc", "lam"]
OTHERS = [
    *("ce", "supce", "supfine", "hxe", "soft-labels", "guided", "center", "label-embedding"),
    *("corr", "cls", "devise", "mlcl", "cpcc", "csl", "hierarchical-proxies", "haf"),
    *("normalised-softmax", "tree-proxies", "haframe", "hier-cos", "happier"),
    *("selfcon", "grafit", "coins", "maskcon", "nnclr", "ascl"),
]


@register_encoder("test-tiny", summary="the least that sees an image")
def tiny_encoder(channels: int, image_size: int) -> Encoder:
    class Tiny(Encoder):
        def __init__(self) -> None:
            super().__init__("test-tiny", 16)
            self.body = nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), nn.LazyLinear(16))
            self.body(torch.zeros(1, channels, image_size, image_size))

        @property
        def stages(self) -> list[nn.Module]:
            return [self.body]

        def forward(self, images: Tensor) -> Tensor:
            features: Tensor = self.body(images)
            return features

    return Tiny()


SOLVED = {"tree-ridge"}  # in test_solved_runs.py
TWO_MODALITIES = {"image-text"}  # trained in test_image_text_runs.py


@pytest.fixture
def word_vectors(tmp_path: Path) -> dict[str, Any]:
    """The settings that give DeViSE its words."""
    words = ["a", "b", "c", "e", "h", "animal", "dog", "poodle", "cat", "plant", "rose"]
    lines = [f"{word} {' '.join(f'{x:.3f}' for x in torch.randn(5).tolist())}" for word in words]
    (tmp_path / "vectors.txt").write_text("\n".join(lines) + "\n", "utf-8")
    return {"devise__vectors": str(tmp_path / "vectors.txt")}


@pytest.fixture
def taxonomy() -> Taxonomy:
    return Taxonomy.from_paths([("a", "b", "c"), ("a", "b", "d"), ("a", "e"), ("f", "g"), ("f", "h")])


def test_names_and_sources() -> None:
    names = [entry.name for entry in list_objectives() if entry.name not in TWO_MODALITIES]
    assert names[: len(NAMES)] == NAMES
    assert all(entry.summary and entry.source for entry in list_objectives())
    found = [entry.name for entry in list_objectives("hi*con*")]
    assert found == ["himulcon", "hicone", "himulcone", "hiercon"]
    assert [entry.name for entry in objective_terms("hwc + lam")] == ["hwc", "lam"]


def test_unknown_and_double_names() -> None:
    with pytest.raises(ValueError, match="unknown objective 'supcom'; did you mean 'supcon'"):
        get_objective("supcom")
    with pytest.raises(ValueError, match="names a term twice"):
        objective_terms("hwc+hwc")
    with pytest.raises(ValueError, match="labeltree has registered 'hwc'"):
        register_objective("hwc", summary="", source="")(nn.Identity)
    for name in ("soft_labels", "head", "epochs", "loss", "weights", "out", "quiet"):
        with pytest.raises(ValueError, match="cannot register"):
            register_objective(name, summary="", source="")(nn.Identity)
    for name in ("a+b", "a.b", "", "a b"):
        with pytest.raises(ValueError, match="contains"):
            register_objective(name, summary="", source="")(nn.Identity)


def test_an_objective_of_ones_own(
    monkeypatch: pytest.MonkeyPatch, taxonomy: Taxonomy, recipe_of: Callable[..., Recipe]
) -> None:
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))

    @register_objective("mine", summary="pulls to the origin", source="nobody", sampler="random")
    class Mine(nn.Module):
        def __init__(self, taxonomy: Taxonomy, strength: float = 2.0) -> None:
            super().__init__()
            self.strength = strength * taxonomy.num_leaves

        def forward(self, embeddings: Tensor, nodes: Tensor, instances: Tensor) -> Tensor:
            return self.strength * embeddings.square().sum()

    objective = Objective(recipe_of("mine", mine__strength=3.0), taxonomy, 6)
    losses = objective(torch.randn(4, 6), torch.zeros(4, dtype=torch.long), torch.arange(4))
    assert losses["mine"].item() == pytest.approx(3 * 5 * 4, rel=1e-5)  # unit vectors


def learn(objective: Objective, taxonomy: Taxonomy, steps: int = 12) -> list[float]:
    """Losses of a linear encoder on separable features, with inner-node and missing labels in the batch."""
    encoder = nn.Linear(12, 12)
    nodes = torch.cat(
        [taxonomy.leaves.repeat(6), torch.tensor([-1, -1, taxonomy.find("a"), taxonomy.find("b")])]
    )
    centres = torch.randn(taxonomy.num_nodes + 1, 12)
    inputs = centres[nodes] + 0.5 * torch.randn(len(nodes), 12)
    instances = torch.arange(len(nodes))
    objective.observe_labels(nodes)
    views = objective.num_views
    momentum = MomentumEncoder(encoder, objective.head) if objective.needs_keys else None
    queue = KeyQueue(64, objective.dim)
    optimizer = build_optimizer(OptimizerRecipe(), encoder, objective, (3e-3, 3e-3))
    values = []
    for step in range(steps):
        extra: dict[str, Any] = {}
        if momentum is not None:
            momentum.update(encoder, objective.head, 0.9)
            keys = objective.geometry.embed(momentum(inputs, seed=step))
            extra = {"keys": keys, "queue": queue, "num_queries": len(nodes)}
        losses = objective(
            encoder(inputs.repeat(views, 1)), nodes.repeat(views), instances.repeat(views), **extra
        )
        if momentum is not None:
            queue.enqueue(keys, nodes, instances)
        optimizer.zero_grad()
        losses["loss"].backward()
        assert all(bool(torch.isfinite(p.grad).all()) for p in encoder.parameters() if p.grad is not None)
        optimizer.step()
        values.append(losses["loss"].item())
    return values


@pytest.mark.parametrize("geometry", some_now(["sphere", "poincare", "euclidean"]))
@pytest.mark.parametrize("name", [*NAMES, "hwc+lam", "supcon+simclr"])
def test_every_pairwise_objective_lowers_its_loss_in_every_geometry(
    name: str, geometry: str, taxonomy: Taxonomy, recipe_of: Callable[..., Recipe]
) -> None:
    torch.manual_seed(0)
    objective = Objective(recipe_of(name, geometry=geometry, head__dim=16), taxonomy, 12)
    assert objective.num_views == 2
    values = learn(objective, taxonomy)
    assert min(values[-5:]) < values[0] or values[0] == 0.0
    if name == "lam" and geometry != "sphere":
        return  # far-away prototypes may satisfy every margin from the start
    assert values[-1] < values[0]


@pytest.mark.parametrize("name", [*OTHERS, "corr+cls", "hwc+maskcon", "ce+selfcon", "supcon+cpcc"])
def test_every_other_objective_lowers_its_loss(
    name: str, taxonomy: Taxonomy, recipe_of: Callable[..., Recipe], word_vectors: dict[str, Any]
) -> None:
    torch.manual_seed(0)
    settings = word_vectors if "devise" in name else {}
    objective = Objective(recipe_of(name, **settings), taxonomy, 12)
    values = learn(objective, taxonomy)
    assert all(math.isfinite(value) for value in values)
    if name == "maskcon":
        return  # its target moves: as a class tightens, more keys are positives, and the loss has a floor
    first = 5 if objective.needs_keys else 1  # while a queue fills, losses grow with it
    assert min(values[-5:]) < values[first]


def test_every_objective_is_covered() -> None:
    known = {e.name for e in list_objectives() if e.loss.__module__.startswith("labeltree.")}
    assert known == {*NAMES, *OTHERS, *TWO_MODALITIES, *SOLVED}


@pytest.mark.parametrize("name", long_unless([*NAMES, *OTHERS], [*NAMES[1::3], *OTHERS[::3]]))
def test_every_objective_trains_on_a_nested_folder(
    name: str, recipe_of: Callable[..., Recipe], word_vectors: dict[str, Any], tmp_path: Path
) -> None:
    settings = word_vectors if name == "devise" else {}
    recipe = recipe_of(name, epochs=1, encoder="test-tiny", **settings)
    folder = train(recipe, tmp_path / "run", progress_bar=False)
    experiment = load_run(folder.path)
    table = embed_source(experiment.network, experiment.source, answers=True)
    assert torch.isfinite(table.embeddings).all()
    answers = experiment.network.objective.predict(table.features[:2]) is not None
    assert (table.predictions is not None) == answers
    assert (table.depth_predictions is not None) == (name == "hier-cos")
    if answers:
        assert set(table.predictions.tolist()) <= set(range(experiment.source.taxonomy.num_nodes))


def test_gain_starts_inside_the_ball(taxonomy: Taxonomy, recipe_of: Callable[..., Recipe]) -> None:
    def radii(gain: float) -> Tensor:
        torch.manual_seed(0)
        objective = Objective(recipe_of("hwc", geometry="poincare", head__gain=gain), taxonomy, 96)
        return objective.embed(torch.randn(64, 96)).norm(dim=1).detach()

    clipped = math.tanh(2.3)
    assert radii(1.0).min() == pytest.approx(clipped, abs=1e-4)
    assert radii(0.25).max() < clipped - 0.01


def test_a_regulariser_of_features_needs_no_head(
    taxonomy: Taxonomy, recipe_of: Callable[..., Recipe]
) -> None:
    nodes = taxonomy.leaves.repeat(2)
    features = torch.randn(len(nodes), 6)
    for geometry in ("euclidean", "poincare"):
        recipe = recipe_of("ce+cpcc", cpcc__reads="features", geometry=geometry)
        objective = Objective(recipe, taxonomy, 6)
        assert objective.head is None
        losses = objective(features, nodes, torch.arange(len(nodes)))
        term = objective.terms["cpcc"].loss
        assert torch.equal(losses["cpcc"], term(features, nodes))
    assert Objective(recipe_of("ce+cpcc"), taxonomy, 6).head is not None


def test_weights_of_terms(taxonomy: Taxonomy, recipe_of: Callable[..., Recipe]) -> None:
    objective = Objective(recipe_of("supcon+simclr", term_weights="[2.0,0.5]"), taxonomy, 6)
    losses = objective(torch.randn(8, 6), taxonomy.leaves[:4].repeat(2), torch.arange(4).repeat(2))
    assert losses["loss"].item() == pytest.approx(2 * losses["supcon"].item() + 0.5 * losses["simclr"].item())
    with pytest.raises(ValueError, match="term_weights has 1 numbers"):
        Objective(recipe_of("supcon+simclr", term_weights="[2.0]"), taxonomy, 6)


def test_parameter_groups() -> None:
    encoder, head = build_encoder("small-conv", channels=1, image_size=28), nn.Linear(4, 2)
    everywhere = build_optimizer(OptimizerRecipe(weight_decay=0.5, decay_all=True), encoder, head, (0.1, 1.0))
    assert [group["weight_decay"] for group in everywhere.param_groups] == [0.5] * len(
        everywhere.param_groups
    )
    optimizer = build_optimizer(OptimizerRecipe(weight_decay=0.5), encoder, head, (0.1, 1.0))
    for group in optimizer.param_groups:
        assert group["weight_decay"] == (0.5 if group["params"][0].ndim >= 2 else 0.0)
        ours = any(p is q for p in group["params"] for q in head.parameters())
        assert group["lr"] == pytest.approx(1.0 if ours else 0.1)
    covered = {id(p) for group in optimizer.param_groups for p in group["params"]}
    assert covered == {id(p) for module in (encoder, head) for p in module.parameters()}


def test_learning_rates() -> None:
    assert Recipe(data="x").learning_rates == (3e-3, 3e-3)
    assert Recipe(data="x", pretrained=True).learning_rates == pytest.approx((1e-4, 1e-3))
    rates = Recipe(data="x", optimizer=OptimizerRecipe(lr=0.1, head_lr_factor=4)).learning_rates
    assert rates == pytest.approx((0.1, 0.4))


def test_schedules() -> None:
    cosine = learning_rate_factor(OptimizerRecipe(warmup_epochs=2), epochs=10, steps_per_epoch=5)
    values = [cosine(step) for step in range(50)]
    assert values[:10] == sorted(values[:10])
    assert values[10] == pytest.approx(1.0)
    assert values[10:] == sorted(values[10:], reverse=True)
    assert values[30] == pytest.approx(0.5)
    assert 0 < values[49] < 0.01
    steps = learning_rate_factor(
        OptimizerRecipe(schedule="step", warmup_epochs=0, milestones=[2, 4], decay=0.1), 6, 3
    )
    assert [round(steps(s), 6) for s in (0, 5, 6, 11, 12)] == [1, 1, 0.1, 0.1, 0.01]
    one_step = learning_rate_factor(OptimizerRecipe(warmup_epochs=1), epochs=1, steps_per_epoch=1)
    assert math.isfinite(one_step(0))
