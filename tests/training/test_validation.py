"""What validation searches for, and among what."""

import dataclasses
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from labeltree.cli.main import main
from labeltree.data import ArrayStore, Source
from labeltree.taxonomy import Taxonomy
from labeltree.training.batches import validation_samples
from labeltree.training.experiment import prepare
from labeltree.training.module import RepresentationModule
from labeltree.training.recipe import Recipe

TREE = Taxonomy.from_paths([("a", "x"), ("a", "y"), ("b", "z"), ("b", "w")])
X, Y, Z, W = TREE.leaves.tolist()


def source_of(training: Sequence[int], validation: Sequence[int]) -> Source:
    nodes = torch.tensor([*training, *validation])
    n = len(nodes)
    return Source(
        name="made",
        taxonomy=TREE,
        nodes=nodes,
        instances=torch.arange(n) * 10,
        store=ArrayStore(torch.zeros(n, 2, 2, dtype=torch.uint8)),
        rows=torch.arange(n),
    ).with_split(["train"] * len(training) + ["val"] * len(validation))


@pytest.mark.parametrize(
    "validation", [[X, X, Y, Y], [X, X, Y], [X, X, Y, Z], [-1, -1], [X, X, Y, Z, -1, -1, -1], []]
)
def test_among_themselves(validation: list[int]) -> None:
    """Where half of them, or more, have another of their label."""
    found = validation_samples(source_of([X, Y, Z, W], validation), 0)
    assert found.source.nodes.tolist() == validation
    assert found.num_queries == len(validation)


def test_in_a_gallery_of_training_samples() -> None:
    training = [X, Y, X, Z, X, -1, W]
    source = source_of(training, [Y, X, Z, -1])
    chosen = set()
    for seed in range(20):
        found = validation_samples(source, seed)
        assert found.num_queries == 4
        assert found.source.nodes[:4].tolist() == [Y, X, Z, -1]
        assert sorted(found.source.nodes[4:].tolist()) == sorted([X, Y, Z])  # no query is a W
        assert bool((found.source.instances[4:] < 10 * len(training)).all())
        again = validation_samples(source, seed)
        assert torch.equal(again.source.instances, found.source.instances)
        chosen |= set(found.source.instances[4:][found.source.nodes[4:] == X].tolist())
    assert chosen == {0, 20, 40}


def test_one_pair_among_many_is_no_search() -> None:
    """Five of seven would find nothing, whatever was learned."""
    found = validation_samples(source_of([X, Y, Z, W] * 2, [X, X, Y, Z, W, TREE.find("a"), -1]), 0)
    assert found.num_queries == 7
    assert len(found.source) == 11


def test_nothing_in_training_has_their_labels() -> None:
    found = validation_samples(source_of([X, X], [Y, Z]), 0)
    assert (len(found.source), found.num_queries) == (2, 2)


def test_the_same_patient_is_no_partner() -> None:
    """Each label has two patients with two samples each: they are searched for without their own."""
    source = source_of([X, Y], [X, X, X, X, Y, Y, Y, Y])
    patients = dataclasses.replace(source, groups=torch.tensor([0, 1, 2, 2, 3, 3, 4, 4, 5, 5]))
    found = validation_samples(patients, 0)
    assert found.num_queries == len(found.source) == 8
    assert found.groups is not None
    assert found.groups.tolist() == [2, 2, 3, 3, 4, 4, 5, 5]
    assert validation_samples(patients, 0, "never").groups is None
    # one patient a label in validation: nothing is to be found but in training
    alone = dataclasses.replace(source, groups=torch.tensor([0, 1, 2, 2, 2, 2, 4, 4, 4, 4]))
    found = validation_samples(alone, 0)
    assert (found.num_queries, len(found.source)) == (8, 10)
    assert found.groups is not None
    assert found.groups.tolist() == [2, 2, 2, 2, 4, 4, 4, 4, 0, 1]
    # items, each a label of its own: as without groups
    items = dataclasses.replace(source, groups=source.nodes * 3)
    assert validation_samples(items, 0).groups is None
    assert validation_samples(items, 0, "always").groups is not None


def test_validation_does_not_count_the_own_group(
    recipe_of: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = prepare(recipe_of()).module
    logged: dict[str, float] = {}
    monkeypatch.setattr(
        RepresentationModule, "log", lambda _, name, value, **__: logged.update({name: value})
    )
    one, other = module.taxonomy.leaves[:2].tolist()
    # every sample lies beside its patient's other one; the nearest of another patient is of another label
    points = torch.tensor([[1.0, 0.0], [1.0, 0.01], [0.0, 1.0], [0.01, 1.0], [1.0, 0.1], [0.1, 1.0]])
    nodes = torch.tensor([one, one, one, one, other, other])
    for groups, expected in ((torch.tensor([0, 0, 1, 1, 2, 3]), 0.0), (None, 4 / 6)):
        module.validation_groups = groups
        module.num_queries = 6
        module._validation.append((points, points, nodes))
        module.on_validation_epoch_end()
        assert logged["val_recall_at_1"] == logged["val_embeddings_recall_at_1"] == pytest.approx(expected)


def test_queries_are_searched_for_in_the_gallery(
    recipe_of: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = prepare(recipe_of()).module
    module.num_queries = 2
    logged: dict[str, float] = {}
    monkeypatch.setattr(
        RepresentationModule, "log", lambda _, name, value, **__: logged.update({name: value})
    )
    a, b = torch.eye(2)
    one, other = module.taxonomy.leaves[:2].tolist()
    # Each is nearest to the sample of its label in the gallery, but nearer still to the other query.
    near = torch.stack([a + 0.5 * b, b + 0.5 * a, a, b])
    nodes = torch.tensor([one, other, one, other])
    for part in (slice(0, 3), slice(3, 4)):
        module._validation.append((near[part], near[part], nodes[part]))
    module.on_validation_epoch_end()
    assert logged["val_recall_at_1"] == logged["val_embeddings_recall_at_1"] == 1.0
    assert not module._validation


@pytest.mark.slow
def test_a_search_among_training_samples_is_said_to_be_one(
    tmp_path: Path, few_words: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the log's head, in the last line of `train`, and where the report shows the training."""
    rows = [f"{name} {n},{label},train" for n in range(8) for name, label in (("w", "a/x"), ("m", "b/y"))]
    rows += ["w,a/x,val", "m,b/y,val", "w w,a/x,test", "m m,b/y,test"]
    (tmp_path / "texts.csv").write_text("\n".join(["text,label,split", *rows]))
    words = ["--encoder", "small-text", "--objective", "supcon", "--epochs", "2"]
    run = str(tmp_path / "run")
    assert main(["train", "--data", str(tmp_path / "texts.csv"), *words, "--out", run]) == 0
    said = capsys.readouterr().out
    assert "note: validation samples are searched for among 2 training samples, one a class, as" in said
    assert re.search(r"with validation MAP@R [\d.]+ \(searched among 2 training samples, one a class\)", said)
    assert main(["evaluate", run, "--quiet"]) == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert "measured on validation texts; they are searched for among 2 training samples, one a class" in page


@pytest.mark.slow
def test_an_undefined_monitor_is_said_to_be_so(
    tmp_path: Path, few_words: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """The validation sample's class has no other sample."""
    rows = [
        f"{name} {number},{label},train"
        for number in range(8)
        for name, label in (("w", "a/x"), ("m", "b/y"))
    ]
    rows += ["w,a/z,val", "w,a/x,test", "m,b/y,test"]
    (tmp_path / "texts.csv").write_text("\n".join(["text,label,split", *rows]))
    words = ["--encoder", "small-text", "--objective", "supcon", "--epochs", "1"]
    assert main(["train", "--data", str(tmp_path / "texts.csv"), *words, "--out", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().out
    assert "1 epoch, the last is kept, as validation MAP@R is undefined on these samples" in said
    assert "best after" not in said
