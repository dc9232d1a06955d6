"""Training on samples with several labels: what each loss is given, and a run from table to evaluation."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from labeltree.errors import RunError
from labeltree.inference.load_run import load_run
from labeltree.inference.run_embeddings import run_tables
from labeltree.losses import CrossEntropyLoss, SupConLoss
from labeltree.runs import RunFolder
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.label_sets import common_ancestors
from labeltree.training.experiment import prepare
from labeltree.training.fit import train
from labeltree.training.objective import Objective, one_label_a_row
from labeltree.training.recipe import Recipe
from labeltree.training.registry import list_objectives

TREE = Taxonomy.from_paths(["a/x", "a/y", "b/z", "b/w"])
SETS = torch.tensor(
    [[TREE.find("x"), TREE.find("z")], [TREE.find("y"), -1], [-1, -1], [TREE.find("z"), TREE.find("w")]] * 2
)
NODES = common_ancestors(SETS, TREE)
INSTANCES = torch.arange(4).repeat(2)


def features(n: int = 8, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, 6, generator=torch.Generator().manual_seed(seed))


def made(recipe: Recipe) -> Objective:
    torch.manual_seed(0)
    return Objective(recipe, TREE, 6).eval()


def test_a_row_for_each_label() -> None:
    offered = {"features": features(4), "nodes": NODES[:4], "instances": INSTANCES[:4], "queue": None}
    found = one_label_a_row({**offered, "label_sets": SETS[:4]})
    rows = [0, 0, 1, 2, 3, 3]
    assert found["nodes"].tolist() == [*SETS[0], SETS[1, 0], -1, *SETS[3]]
    assert torch.equal(found["features"], offered["features"][rows])
    assert found["instances"].tolist() == rows
    assert found["queue"] is None


def test_a_classifier_has_every_label_as_a_target(recipe_of: Callable[..., Recipe]) -> None:
    objective = made(recipe_of("ce"))
    x = features()
    value = objective(x, NODES, INSTANCES, label_sets=SETS)["ce"]
    logits = objective.terms["ce"].classifier(x).log_softmax(1)
    column = {int(node): place for place, node in enumerate(TREE.leaves)}
    losses = [
        -logits[row, column[node]] for row, nodes in enumerate(SETS.tolist()) for node in nodes if node > 0
    ]
    torch.testing.assert_close(value, torch.stack(losses).mean())


def test_a_pairwise_loss_gets_the_sets(recipe_of: Callable[..., Recipe]) -> None:
    objective = made(recipe_of("supcon+ce"))
    x = features()
    value = objective(x, NODES, INSTANCES, label_sets=SETS)
    wanted = SupConLoss(TREE).eval()(objective.embed(x), SETS, INSTANCES)
    torch.testing.assert_close(value["supcon"], wanted)
    assert objective.use_of_several_labels() == (
        "several labels: supcon relates two samples as the closest two of their labels; ce has each label of "
        "a sample as a target"
    )


def test_samples_with_one_label_are_as_before(recipe_of: Callable[..., Recipe]) -> None:
    objective, x = made(recipe_of("hwc+ce")), features()
    one = torch.where(NODES == 0, -1, NODES)
    sets = torch.stack([one, torch.full_like(one, -1)], 1)
    with_sets, plain = objective(x, one, INSTANCES, label_sets=sets), objective(x, one, INSTANCES)
    assert with_sets.keys() == plain.keys()
    for name in plain:
        torch.testing.assert_close(with_sets[name], plain[name])


NOT_HERE = {"devise"}  # it needs word vectors
TAKES = [entry.name for entry in list_objectives() if entry.name not in NOT_HERE]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in TAKES if name not in ("image-text", "mlcl")])
def test_every_objective_takes_them(recipe_of: Callable[..., Recipe], name: str) -> None:
    objective = made(recipe_of(name))
    x = features().requires_grad_()
    offered: dict[str, Any] = {"label_sets": SETS}
    if objective.needs_keys:
        pytest.skip("the queue's tests feed it")
    loss = objective(x, NODES, INSTANCES, **offered)["loss"]
    assert loss.isfinite()
    loss.backward()
    assert name in objective.use_of_several_labels()


@pytest.fixture(scope="module")
def table(image_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small image folder as a table, in which every third image has a second label."""
    images = sorted(image_folder.rglob("*.png"))
    labels = [str(image.parent.relative_to(image_folder)) for image in images]
    second = [labels[(place * 7 + 5) % len(labels)] for place in range(len(labels))]
    cells = [a if place % 3 else f"{a}; {b}" for place, (a, b) in enumerate(zip(labels, second, strict=True))]
    path = tmp_path_factory.mktemp("table") / "several.csv"
    pd.DataFrame({"image": [str(image) for image in images], "label": cells}).to_csv(path, index=False)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["hwc+ce", "mlcl"])
def test_a_run(
    recipe_of: Callable[..., Recipe], table: Path, tmp_path: Path, objective: str, caplog: Any
) -> None:
    recipe = recipe_of(objective, data=str(table), table__label_separator=";")
    experiment = prepare(recipe)
    training = experiment.batches.training
    assert training.label_sets is not None
    assert torch.equal(common_ancestors(training.label_sets, training.taxonomy), training.nodes)
    train(recipe, tmp_path / "run")
    told = "reads the common ancestor" if objective == "mlcl" else "relates two samples as the closest two"
    assert told in caplog.text
    embedded = run_tables(tmp_path / "run", ["trained"])[1]["trained"]
    assert embedded.label_sets is not None
    assert torch.equal(common_ancestors(embedded.label_sets, training.taxonomy), embedded.nodes)
    embedded.save(tmp_path / "table.parquet")
    again = type(embedded).load(tmp_path / "table.parquet", training.taxonomy)
    assert torch.equal(again.label_sets, embedded.label_sets)
    coarse = prepare(recipe_of(objective, data=str(table), table__label_separator=";", coarsen=1))
    labels = coarse.batches.training
    if labels.label_sets is not None:
        assert int(labels.label_sets.max()) < labels.taxonomy.num_nodes
        assert torch.equal(common_ancestors(labels.label_sets, labels.taxonomy), labels.nodes)


@pytest.mark.slow
def test_the_run_knows_every_label_of_a_sample(
    recipe_of: Callable[..., Recipe], table: Path, tmp_path: Path
) -> None:
    """Another second label may leave the common ancestor as it is; the order of labels says nothing."""
    rows = pd.read_csv(table)
    mine = tmp_path / "several.csv"
    rows.to_csv(mine, index=False)
    train(recipe_of("ce", data=str(mine), table__label_separator=";"), tmp_path / "run")
    place = next(i for i, cell in enumerate(rows["label"]) if "animal" in cell and "plant" in cell)
    first, _, second = rows.loc[place, "label"].partition("; ")
    rows.loc[place, "label"] = f"{second}; {first}"
    rows.to_csv(mine, index=False)
    assert len(load_run(tmp_path / "run").source) == len(rows)
    other = next(
        cell
        for cell in rows["label"]
        if ";" not in cell and cell not in (first, second) and cell[:3] == second[:3]
    )
    rows.loc[place, "label"] = f"{first}; {other}"
    rows.to_csv(mine, index=False)
    with pytest.raises(RunError, match=f"with other labels .*'{second}'.* are .*'{other}'"):
        load_run(tmp_path / "run")
    record = RunFolder(tmp_path / "run").load_samples()
    assert record.label_sets is not None
    earlier = replace(record, label_sets=None, has_label_sets=False)  # as runs were before they recorded this
    earlier.save(RunFolder(tmp_path / "run").samples)
    assert "label_sets" not in earlier.arrays()
    assert len(load_run(tmp_path / "run").source) == len(rows)


def test_class_frequencies_count_every_label(recipe_of: Callable[..., Recipe]) -> None:
    loss = CrossEntropyLoss(TREE, logit_adjustment=1.0)
    loss.observe_labels(SETS[SETS >= 0])
    assert loss.class_counts.tolist() == [2.0, 2.0, 4.0, 2.0]
