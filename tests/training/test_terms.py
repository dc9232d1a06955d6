"""What a loss is fed with: the names of its parameters decide."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from labeltree.taxonomy import Taxonomy
from labeltree.training import registry
from labeltree.training.objective import Objective
from labeltree.training.recipe import Recipe
from labeltree.training.registry import register_objective

pytestmark = pytest.mark.slow

Recipes = Callable[..., Recipe]


class Queue(NamedTuple):
    vectors: Tensor
    nodes: Tensor
    instances: Tensor


@pytest.fixture
def taxonomy() -> Taxonomy:
    return Taxonomy.from_paths([("a", "b"), ("a", "c"), ("d", "e")])


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))


class Recorder(nn.Module):
    """Keeps what it was called with."""

    def __init__(self) -> None:
        super().__init__()
        self.got: dict[str, Any] = {}

    def keep(self, **got: Any) -> Tensor:
        self.got = got
        return sum(
            (v.sum() for v in got.values() if isinstance(v, Tensor) and v.is_floating_point()),
            torch.zeros(()),
        )


def made(recipe: Recipe, taxonomy: Taxonomy) -> tuple[Objective, Any]:
    torch.manual_seed(0)
    objective = Objective(recipe, taxonomy, 6)
    return objective, objective.terms["mine"].loss


def batch(n: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    return torch.randn(n, 6), torch.arange(n) % 3, torch.arange(n) // 2


def test_a_classifier_reads_features_and_there_is_no_head(taxonomy: Taxonomy, recipe_of: Recipes) -> None:
    @register_objective("mine", summary="s", source="s")
    class Mine(Recorder):
        def __init__(self, taxonomy: Taxonomy, feature_dim: int) -> None:
            super().__init__()
            self.classes = taxonomy.leaves
            self.width = feature_dim

        def forward(self, logits: Tensor, nodes: Tensor) -> Tensor:
            return self.keep(logits=logits, nodes=nodes)

        def predict(self, logits: Tensor) -> Tensor:
            return self.classes[logits.argmax(1)]

    objective, loss = made(recipe_of("mine"), taxonomy)
    assert objective.head is None
    assert objective.num_views == 1
    assert loss.width == 6
    features, nodes, instances = batch()
    value = objective(features, nodes, instances)["loss"]
    assert loss.got["logits"].shape == (4, 3)
    value.backward()
    answers = objective.predict(features)
    assert answers is not None
    assert set(answers.tolist()) <= set(taxonomy.leaves.tolist())
    torch.testing.assert_close(objective.embed(features), nn.functional.normalize(features))


def test_a_classifier_on_embeddings_brings_the_head(taxonomy: Taxonomy, recipe_of: Recipes) -> None:
    @register_objective("mine", summary="s", source="s", classifier="embeddings", weight=0.1)
    class Mine(Recorder):
        def __init__(self, taxonomy: Taxonomy) -> None:
            super().__init__()
            self.classes = taxonomy.leaves

        def forward(self, logits: Tensor, nodes: Tensor) -> Tensor:
            return self.keep(logits=logits)

    objective, _ = made(recipe_of("mine", head__dim=5), taxonomy)
    assert objective.head is not None
    assert objective.dim == 5
    losses = objective(*batch())
    assert losses["loss"].item() == pytest.approx(0.1 * losses["mine"].item())


def test_own_heads_are_raw_and_many(taxonomy: Taxonomy, recipe_of: Recipes) -> None:
    @register_objective("mine", summary="s", source="s")
    class Mine(Recorder):
        num_heads = 3

        def forward(self, heads: list[Tensor], nodes: Tensor, instances: Tensor) -> Tensor:
            self.keep(heads=heads, instances=instances)
            return sum((head.sum() for head in heads), torch.zeros(()))

    objective, loss = made(recipe_of("mine", head__dim=5), taxonomy)
    objective(*batch())["loss"].backward()
    assert [tuple(head.shape) for head in loss.got["heads"]] == [(4, 5)] * 3
    assert objective.head is None
    assert objective.num_views == 2


def test_queries_are_the_first_view_alone(taxonomy: Taxonomy, recipe_of: Recipes) -> None:
    @register_objective("mine", summary="s", source="s")
    class Mine(Recorder):
        def forward(
            self, queries: Tensor, keys: Tensor, queue: Any, nodes: Tensor, instances: Tensor
        ) -> Tensor:
            return self.keep(queries=queries, keys=keys, nodes=nodes, instances=instances)

    objective, loss = made(recipe_of("mine", head__dim=5), taxonomy)
    assert objective.needs_keys
    assert objective.num_views == 1
    features, nodes, instances = batch(6)
    queue = Queue(torch.zeros(0, 5), torch.zeros(0, dtype=torch.long), torch.zeros(0, dtype=torch.long))
    objective(features, nodes, instances, keys=torch.randn(2, 5), queue=queue, num_queries=2)
    assert {len(value) for value in loss.got.values()} == {2}
    with pytest.raises(ValueError, match="'mine' needs keys"):
        objective(features, nodes, instances)


def test_what_is_not_offered_is_named(taxonomy: Taxonomy, recipe_of: Recipes) -> None:
    class Odd(Recorder):
        def forward(self, embeddings: Tensor, targets: Tensor) -> Tensor:
            return embeddings.sum()

    class NoClasses(Recorder):
        def forward(self, logits: Tensor) -> Tensor:
            return logits.sum()

    register_objective("mine", summary="s", source="s")(Odd)
    with pytest.raises(ValueError, match="asks for 'targets'; what losses can ask for is features"):
        made(recipe_of("mine"), taxonomy)
    register_objective("mine2", summary="s", source="s")(NoClasses)
    with pytest.raises(ValueError, match="must have an attribute 'classes'"):
        Objective(recipe_of("mine2"), taxonomy, 6)


def test_a_loss_may_choose_the_width(taxonomy: Taxonomy, recipe_of: Recipes) -> None:
    @register_objective("mine", summary="s", source="s", geometry="euclidean")
    class Mine(Recorder):
        def __init__(self, taxonomy: Taxonomy, dim: int | None = None) -> None:
            super().__init__()
            self.dim = dim or taxonomy.num_leaves

        def forward(self, embeddings: Tensor, nodes: Tensor) -> Tensor:
            return self.keep(embeddings=embeddings)

    objective, loss = made(recipe_of("mine"), taxonomy)
    assert objective.dim == loss.dim == 3
    assert objective.geometry.name == "euclidean"
    assert made(recipe_of("mine", head__dim=7), taxonomy)[0].dim == 7
    assert made(recipe_of("mine", geometry="sphere"), taxonomy)[0].geometry.name == "sphere"
    assert Objective(recipe_of("lam+mine"), taxonomy, 6).dim == 3  # the others follow

    register_objective("ball", summary="s", source="s", geometry="poincare")(Mine)
    with pytest.raises(
        ValueError, match="different geometries: euclidean, poincare; say which with geometry"
    ):
        Objective(recipe_of("mine+ball"), taxonomy, 6)


def test_labels_are_observed(taxonomy: Taxonomy, recipe_of: Recipes) -> None:
    @register_objective("mine", summary="s", source="s")
    class Mine(Recorder):
        def forward(self, embeddings: Tensor) -> Tensor:
            return embeddings.sum()

        def observe_labels(self, nodes: Tensor) -> None:
            self.keep(nodes=nodes)

    objective, loss = made(recipe_of("mine"), taxonomy)
    objective.observe_labels(torch.tensor([1, 2, -1]))
    assert loss.got["nodes"].tolist() == [1, 2, -1]
