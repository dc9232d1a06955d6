"""The space that is searched: the embeddings, unless features find more of validation."""

import json
from dataclasses import asdict, replace

import pytest
import torch

from labeltree.decisions.choose_classifier import ChosenClassifier
from labeltree.decisions.searched_space import SearchedSpace, choose_space
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["a/x", "a/y", "b/z", "b/w"])


def table_of(noise_of_embeddings: float, noise_of_features: float, n: int = 120) -> EmbeddingTable:
    draw = torch.Generator().manual_seed(0)
    nodes = TREE.leaves[torch.arange(n) % 4]
    centres = torch.eye(4)[torch.arange(n) % 4]
    embeddings, features = (
        centres + noise * torch.randn(n, 4, generator=draw)
        for noise in (noise_of_embeddings, noise_of_features)
    )
    return EmbeddingTable(embeddings=embeddings, features=features, nodes=nodes)


@pytest.mark.parametrize(
    ("noises", "name"),
    [
        ((1.0, 0.1), "features"),
        ((0.1, 1.0), "embeddings"),
        ((0.1, 0.1), "embeddings"),
        ((0.6, 0.57), "embeddings"),
    ],
)
def test_features_only_where_they_are_better(noises: tuple[float, float], name: str) -> None:
    rows = torch.arange(120)
    space = choose_space(table_of(*noises), TREE, learned=rows[:60], held=rows[60:])
    assert space.name == name
    assert space.samples == 60
    assert set(space.hierarchical_f1) == {"embeddings", "features"}
    assert bool(space.sentence) == (name == "features")


@pytest.mark.parametrize(("wrong", "name"), [(9, "embeddings"), (10, "features")])
def test_few_samples_that_differ_decide_nothing(wrong: int, name: str) -> None:
    table, rows = table_of(0.0, 0.0), torch.arange(120)
    table.embeddings[60 : 60 + wrong] = table.embeddings[61 : 61 + wrong].clone()
    assert choose_space(table, TREE, learned=rows[:60], held=rows[60:]).name == name


def test_groups_are_the_samples_of_the_choice() -> None:
    """Forty samples that differ are of forty groups, of twenty or of six."""
    table, rows = table_of(0.0, 0.0), torch.arange(120)
    table.embeddings[60:100] = table.embeddings[61:101].clone()
    for size, name in ((1, "features"), (2, "features"), (8, "embeddings")):
        grouped = replace(table, groups=rows // size)
        assert choose_space(grouped, TREE, learned=rows[:60], held=rows[60:]).name == name
    few = replace(table, groups=torch.where(rows < 100, -1, rows))
    assert choose_space(few, TREE, learned=rows[:60], held=rows[60:]).name == "features"


def test_the_nearest_sample_alone_does_not_decide() -> None:
    """Features whose nearest sample is right and whose other neighbours are anybody."""
    table, rows = table_of(0.6, 0.0), torch.arange(120)
    alone = torch.randn(60, 16, generator=torch.Generator().manual_seed(1))
    features = torch.cat([alone, alone])  # each validation sample beside one training sample of its class
    space = choose_space(replace(table, features=features), TREE, learned=rows[:60], held=rows[60:])
    assert space.hierarchical_f1["features"] == 1.0 > space.hierarchical_f1["embeddings"]
    assert space.map_at_r["features"] < space.map_at_r["embeddings"]
    assert space.name == "embeddings"


def test_embeddings_are_searched_in_their_own_geometry() -> None:
    """Classes that lie on one ray, which distances tell apart and angles do not; the features are noise."""
    rows = torch.arange(120)
    nodes = TREE.leaves[rows % 4]
    ray = (1.0 + rows % 4)[:, None] * torch.ones(120, 2) + 0.01 * (rows // 4 % 3)[:, None]
    noise = torch.randn(120, 4, generator=torch.Generator().manual_seed(0))
    table = EmbeddingTable(embeddings=ray, features=noise, nodes=nodes, geometry="euclidean")
    assert choose_space(table, TREE, learned=rows[:60], held=rows[60:]).hierarchical_f1["embeddings"] == 1.0


def test_classes_that_training_lacks_rank_nothing() -> None:
    """The nearest sample has the right parent by features alone, and no sample the right class."""
    learned, held = torch.arange(0, 60), torch.arange(60, 120)
    nodes = TREE.encode(["a/x", "b/z"] * 30 + ["a/y", "b/w"] * 30)
    sides = torch.eye(2)[torch.arange(120) % 2]
    noise = torch.randn(120, 2, generator=torch.Generator().manual_seed(0))
    table = EmbeddingTable(embeddings=noise, features=sides + 0.01 * noise, nodes=nodes)
    space = choose_space(table, TREE, learned=learned, held=held)
    assert space.hierarchical_f1["features"] > space.hierarchical_f1["embeddings"] + 0.1
    assert (space.name, space.map_at_r) == ("embeddings", {})


def test_nothing_to_choose_by() -> None:
    table, none = table_of(1.0, 0.1), torch.arange(0)
    for rows in ({"learned": torch.arange(60), "held": none}, {"learned": none, "held": torch.arange(60)}):
        assert choose_space(table, TREE, **rows) == SearchedSpace()
    alone = EmbeddingTable(embeddings=table.embeddings, nodes=table.nodes)
    assert choose_space(alone, TREE, learned=torch.arange(60), held=torch.arange(60, 120)) == SearchedSpace()


def test_the_choice_is_kept_and_a_damaged_one_refused() -> None:
    space = SearchedSpace("features", {"embeddings": 0.5, "features": 0.75}, 20)
    chosen = ChosenClassifier("probe", space=space)
    content = json.loads(json.dumps(chosen.to_dict()))
    assert ChosenClassifier.from_dict(content) == chosen
    assert "space" not in ChosenClassifier("probe").to_dict()
    ranked = replace(space, map_at_r={"embeddings": 0.25, "features": 0.5})
    assert SearchedSpace.from_dict(json.loads(json.dumps(asdict(ranked)))) == ranked
    assert "MAP@R is 0.500 and 0.250" in ranked.sentence
    damaged = (
        {"name": "pixels"},
        {"map_at_r": {"features": 1.0}},
        {"map_at_r": 3},
        {"hierarchical_f1": {}},
        {"samples": "many"},
        {"hierarchical_f1": [1]},
    )
    with pytest.raises(ValueError, match="no searched space"):
        ChosenClassifier.from_dict({**content, "space": ["features"]})
    for wrong in damaged:
        with pytest.raises(ValueError, match="no searched space"):
            ChosenClassifier.from_dict({**content, "space": {**content["space"], **wrong}})
