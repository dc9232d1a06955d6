"""What merged models, forgetful ones and the facts of a model are made from, each from parts by hand."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from labeltree.decisions import ClassNodes, DecisionRule
from labeltree.decisions.calibrators import Calibrator
from labeltree.decisions.promise_samples import PromiseSamples
from labeltree.decisions.rule import Fitted
from labeltree.errors import RunError
from labeltree.inference import forgetting, merging, model_facts, training_samples
from labeltree.inference.export.card import _data
from labeltree.inference.forgetting import Chosen, _near, check_can_forget, head_without, stage_files
from labeltree.inference.merging import _write, merge_runs, pooled_head
from labeltree.inference.model_facts import _calibration, _number, _training, model_sentence
from labeltree.inference.training_samples import _trained, joined
from labeltree.options.model_options import MergeOptions
from labeltree.ridge import Moments, TreeRidge
from labeltree.runs import EmbeddingTable
from labeltree.runs.sample_record import SampleRecord
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["a/x", "a/y", "b"])
A, X, Y, B = (int(TREE.find(name)) for name in ("a", "a/x", "a/y", "b"))


def table_of(nodes: list[int], split: str | list[str] = "val", **more: Any) -> EmbeddingTable:
    splits = [split] * len(nodes) if isinstance(split, str) else split
    return EmbeddingTable(torch.eye(len(nodes), 8), torch.tensor(nodes), split=np.array(splits), **more)


def test_training_samples_have_a_label_below_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(
        [X, 0, -1, B, Y], ["train", "train", "train", "train", "val"], instances=torch.arange(5) + 7
    )
    monkeypatch.setattr(training_samples, "kept_table", lambda run: table)
    run: Any = SimpleNamespace(recipe=SimpleNamespace(data="old.csv"))
    found = _trained(run)
    assert found is not None
    assert found.nodes.tolist() == [X, B]
    assert found.paths is not None
    assert found.paths.tolist() == ["old.csv 7", "old.csv 10"]


def test_tables_are_joined_by_what_both_have() -> None:
    """Groups of the second are numbered after those of the first; samples without one stay so."""
    first = table_of([X, Y], features=torch.eye(2), groups=torch.tensor([4, -1]))
    second = table_of([B], groups=torch.tensor([0]), paths=np.array(["p"]))
    both = joined(first, second)
    assert both.features is None
    assert both.groups is not None
    assert both.groups.tolist() == [4, -1, 5]
    assert both.paths is not None
    assert both.paths.tolist() == ["", "", "p"]
    other = joined(first, table_of([B], features=torch.eye(1, 2)))
    assert other.features is not None
    assert other.features.tolist() == [[1, 0], [0, 1], [1, 0]]
    assert other.groups is not None
    assert other.groups.tolist() == [4, -1, -1]


def head_of(labels: list[int], scale: float, slope: float) -> TreeRidge:
    rng = torch.Generator().manual_seed(len(labels))
    moments = Moments.of(torch.rand(len(labels), 3, generator=rng), torch.tensor(labels))
    slopes = torch.full((TREE.num_nodes, 2), slope, dtype=torch.float64)
    return TreeRidge.of(moments, TREE, penalty=1.0, scale=scale, calibration=slopes)


def test_means_over_heads_are_by_their_samples() -> None:
    """Of x five and one sample, of y one and two, of b three in the first alone, each and a tenth of one."""
    one, other = head_of([X] * 5 + [Y] + [B] * 3, 2.0, 1.0), head_of([X] + [Y] * 2, 8.0, 3.0)
    pooled = pooled_head([one, other])
    assert pooled.scale == pytest.approx((2.0**9 * 8.0**3) ** (1 / 12))
    slopes = pooled.calibration[:, 0]
    assert float(slopes[X]) == pytest.approx((5.1 * 1 + 1.1 * 3) / 6.2)
    assert float(slopes[Y]) == pytest.approx((1.1 * 1 + 2.1 * 3) / 3.2)
    assert float(slopes[B]) == pytest.approx(1.0), "the other does not answer it"


def test_what_a_merged_model_is_calibrated_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On all held-out samples alike, whatever their split was, and it keeps the column of the groups."""
    given: dict[str, Any] = {}

    class Description(SimpleNamespace):
        def save(self, file: object) -> None:
            given["columns"] = self.columns

    def fit(run: object, classifiers: Any, held: EmbeddingTable, *, on: str) -> Any:
        given.update(held=held, on=on, asked=classifiers.chosen.asked)
        return SimpleNamespace(record={"a": 1})

    description = Description(columns={"labels": ("l",)})
    saved = SimpleNamespace(save=lambda file: None)
    for name, stub in {
        "public_description": lambda description: description,
        "save_ridge": lambda head, file: None,
        "own_scores": lambda network: "own",
        "write_classifiers": lambda run, classifiers: None,
        "fit_decider": fit,
        "replace": lambda what, **changes: (
            Description(**{**vars(what), **changes})
            if isinstance(what, SimpleNamespace)
            else merging.dataclasses_replace(what, **changes)  # type: ignore[attr-defined]
        ),
    }.items():
        monkeypatch.setattr(merging, name, stub)
    from dataclasses import replace

    monkeypatch.setattr(merging, "dataclasses_replace", replace, raising=False)
    first: Any = SimpleNamespace(
        description=description, taxonomy=saved, training_taxonomy=None, network=None,
        folder=SimpleNamespace(encoder_config=tmp_path / "none", path="r"),
    )  # fmt: skip
    new: Any = SimpleNamespace(
        description="d", taxonomy="t", ridge="r", decisions="decisions",
        save_weights=lambda weights, epoch: None,
        write_json=lambda file, record: given.update({file: record}),
    )  # fmt: skip
    head: Any = None
    held = [table_of([X, Y], "val"), table_of([B, X, Y], "calib")]
    assert _write(first, new, head, {}, held, ("patient",)) == 5
    assert (given["held"].split, given["held"].nodes.tolist()) == (None, [X, Y, B, X, Y])
    assert (given["on"], given["asked"]) == ("held-out samples of the merged runs", "own")
    assert given["decisions"] == {"a": 1}
    assert given["columns"] == {"labels": ("l",), "groups": ("patient",)}
    assert _write(first, new, head, {}, [], None) == 0
    assert given["columns"] == {"labels": ("l",)}


def test_what_is_said_of_a_merge(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of three runs two keep features of held-out samples."""
    counts = {"p": 12, "q": 7, "r": 5}

    class Folder:
        def __init__(self, path: Any) -> None:
            self.path, self.ridge = path, str(path)
            self.home = SimpleNamespace(extensions=[])

        def require(self) -> Folder:
            return self

    def loaded(path: str, *, own_data: bool) -> Any:
        return SimpleNamespace(folder=Folder(path), taxonomy=TREE, columns={})

    head: Any = SimpleNamespace(classes=[1, 2, 3, 4])
    for name, stub in {
        "RunFolder": Folder,
        "load_run": loaded,
        "_check_alike": lambda first, run: f"places of {run.folder.path}",
        "_check_apart": lambda folders: None,
        "solver_of": lambda run: SimpleNamespace(taxonomy=TREE),
        "load_ridge": lambda file, tree: SimpleNamespace(moments=SimpleNamespace(count=counts[file])),
        "_held_out": lambda run, places: None if run.folder.path == "q" else table_of([X]),
        "pooled_head": lambda heads: head,
        "weights_with": lambda run, head: {},
        "writing": lambda target: nullcontext(),
        "_write": lambda first, new, head, weights, held, groups: 1000 + len(held),
        "_notes": lambda target, head, held, kept, count: (f"{held} of {kept} of {count}",),
    }.items():
        monkeypatch.setattr(merging, name, stub)
    done = merge_runs(MergeOptions(["p", "q", "r"], out=tmp_path / "m"))
    assert (done.samples, done.classes, done.held) == ((12, 7, 5), 4, 1002)
    assert done.notes == ("1002 of 2 of 3",)


def test_three_names_that_are_near() -> None:
    assert _near("dog1", ["dog2", "dog3", "dog4", "dog5", "cat"]).count(" or ") == 2
    assert _near("dog1", ["cat"]) == ""


@pytest.mark.parametrize("name", ["label_noise", "taxonomy_noise", "inner_share", None])
def test_labels_that_were_changed_at_random_cannot_be_forgotten(
    name: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forgetting, "solver_of", lambda run: None)
    noise = {"label_noise": 0.0, "taxonomy_noise": 0.0, "inner_share": 0.0} | ({name: 0.1} if name else {})
    folder = SimpleNamespace(path="r", home=SimpleNamespace(extensions=[]))
    run: Any = SimpleNamespace(folder=folder, recipe=SimpleNamespace(**noise, weights=None))
    chosen: Any = None
    if name is None:
        check_can_forget(run, chosen)
        return
    with pytest.raises(RunError, match=r"^the labels of the run in 'r' were changed at random"):
        check_can_forget(run, chosen)


@pytest.mark.parametrize(
    ("shared", "said"), [(2, "on 2 of these samples, and"), (None, "nothing there says")]
)
def test_samples_that_the_encoder_has_seen_are_counted(
    shared: int | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of five samples to forget."""
    monkeypatch.setattr(forgetting, "solver_of", lambda run: None)
    monkeypatch.setattr(forgetting, "seen_by_start", lambda recipe, digests: shared)
    folder = SimpleNamespace(path="r", home=SimpleNamespace(extensions=[]))
    recipe = SimpleNamespace(label_noise=0, taxonomy_noise=0, inner_share=0, weights="start")
    run: Any = SimpleNamespace(folder=folder, recipe=recipe)
    chosen: Any = SimpleNamespace(record=SimpleNamespace(copy_digests=None), gone=np.ones(5, bool))
    with pytest.raises(RunError, match=said):
        check_can_forget(run, chosen)


def test_a_head_is_solved_again_at_its_own_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def fit(features: object, labels: object, _: object, **named: Any) -> tuple[str, None]:
        given.update(named, features=features, labels=labels)
        return "head", None

    before = SimpleNamespace(
        tree=0.25, instance=0.5, similarity="s", penalty=3.0, num_fourier_features=7, frequencies=None
    )  # fmt: skip
    solver = SimpleNamespace(taxonomy=TREE, folds=4, penalty=99.0)
    training = SimpleNamespace(nodes="nodes", label_sets=None, groups="groups", rows="rows")
    labels = SimpleNamespace(
        taxonomy=TREE, from_training=torch.arange(3), source=lambda training, recipe: training
    )  # fmt: skip
    for name, stub in {
        "solver_of": lambda run: solver,
        "load_ridge": lambda file, tree: before,
        "training_labels": lambda recipe, tree, nodes: labels,
        "standardises": lambda run: False,
        "open_inputs": lambda *parts: None,
        "encode_rows": lambda network, source, inputs, rows, progress: f"features of {rows}",
        "fit_tree_ridge": fit,
        "weights_with": lambda run, head: {"of": head},
    }.items():
        monkeypatch.setattr(forgetting, name, stub)
    network = SimpleNamespace(from_training=torch.arange(3), encoder=None)
    run: Any = SimpleNamespace(
        network=network, recipe=SimpleNamespace(seed=5), folder=SimpleNamespace(ridge="file", path="r")
    )  # fmt: skip
    source: Any = SimpleNamespace(taxonomy=TREE, of_split=lambda name: {"train": training}[name])
    assert head_without(run, source) == ("head", {"of": "head"})
    assert given == {
        "features": "features of rows", "labels": "nodes", "groups": "groups", "tree": 0.25, "instance": 0.5,
        "similarity": "s", "penalty": 3.0, "nonlinear": 7, "folds": 4, "seed": 5,
    }  # fmt: skip
    training.label_sets = "sets"
    head_without(run, source)
    assert given["labels"] == "sets"
    labels.from_training = torch.arange(3) + 1
    with pytest.raises(RunError, match="the taxonomy of training of 'r' is another one without these"):
        head_without(run, source)


def test_rows_of_tables_that_name_a_sample_are_left_out(tmp_path: Path) -> None:
    """The row 3 of the table and the id `dog` are to be forgotten; an empty line goes, too."""
    (tmp_path / "unused.csv").write_text(
        'row,id,reason\n3,,empty\n\n4,dog,torn\n5,cat,"a, b"\n6,,dog is dark\n'
    )
    (tmp_path / "unreadable.csv").write_text("sample,reason\ndog,broken\ncat,broken\n")
    folder = SimpleNamespace(
        correction_files=[], unused_rows=tmp_path / "unused.csv", unreadable=tmp_path / "unreadable.csv",
        suspects=tmp_path / "none.csv",
    )  # fmt: skip
    zeros = np.zeros(2, np.int64)
    record = SampleRecord(np.array([2, 8]), zeros, np.array(["train"] * 2), names=["row 3", "q"])
    chosen = Chosen(record, np.array([True, False]), frozenset(["row 3", "dog"]))
    run: Any = SimpleNamespace(folder=folder)

    class New:
        def __init__(self, path: Path) -> None:
            self.unused_rows, self.unreadable = path / "new_unused.csv", path / "new_unreadable.csv"
            self.suspects = path / "new_suspects.csv"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forgetting, "RunFolder", New)
        stage_files(run, chosen, None, None)(tmp_path)
    rows = (tmp_path / "new_unused.csv").read_text().splitlines()
    assert rows == ["row,id,reason", '5,cat,"a, b"', "6,,dog is dark"]
    assert (tmp_path / "new_unreadable.csv").read_text().splitlines() == ["sample,reason", "cat,broken"]
    assert not (tmp_path / "new_suspects.csv").exists()


def decider_on(on: str, groups: list[int] | None, **record: Any) -> Any:
    """Forty samples calibrated a rule, whose groups may be fewer."""
    count = 40 if groups is None else len(groups)
    of_groups = None if groups is None else torch.tensor(groups)
    fitted = Fitted(torch.linspace(0.1, 0.9, count).double(), TREE.leaves[[0] * count], of_groups)
    rule = DecisionRule(ClassNodes(TREE.leaves, TREE), Calibrator(), "leaf", fitted, {})
    promised = PromiseSamples.of(rule, "other", source="their.csv", unpromised=("b",))
    return SimpleNamespace(
        rule=rule, promise_samples=promised, doubt="" if groups else "It hardly guesses better.",
        record={"calibrated_on": on, "calibration_check": {"sentence": "It fits."}, **record},
    )  # fmt: skip


def test_the_facts_of_a_calibration() -> None:
    """Nineteen groups are just enough for 95 %, and nine for 90 %."""
    groups = [number % 19 for number in range(40)]
    facts = _calibration(decider_on("their.csv", groups), public=False)
    assert (facts["on"], facts["samples"], facts["groups"]) == ("their.csv", 40, 19)
    assert (facts["kind"], facts["descent"], facts["sentence"]) == ("none", "leaf", "It fits.")
    assert (facts["thresholds"]["0.95"] is None, facts["thresholds"]["0.99"]) == (False, None)
    assert facts["rests_on"] == "Coverage is calibrated on 40 samples of 19 groups of 'their.csv'."
    assert (facts["unpromised"], facts["warning"]) == (["b"], None)
    public = _calibration(decider_on("their.csv", groups), public=True)
    assert public["on"] == "other samples"
    assert public["rests_on"] == "Coverage is calibrated on 40 samples of 19 groups of other data."
    few = _calibration(decider_on("validation samples", [number % 18 for number in range(40)]), public=True)
    assert (few["on"], few["groups"], few["thresholds"]["0.95"]) == ("validation samples", 18, None)
    plain = _calibration(decider_on("validation samples", None, set_aside=True), public=True)
    assert (plain["on"], plain["samples"], plain["groups"]) == ("samples of the split calib", 40, None)
    assert plain["warning"] == "It hardly guesses better."


def test_the_facts_of_a_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begun on another device than it ended on; an epoch that was done again counts once."""
    sessions = [
        {"began": "Monday", "device": "cpu", "torch": "1"},
        {"began": "Friday", "device": "gpu", "torch": "2"},
    ]
    history = [{"epoch": epoch, "seconds": seconds} for epoch, seconds in ((0, 10.0), (1, 30.0), (1, 5.0))]
    home: Any = SimpleNamespace(read_versions=lambda: sessions, read_history=lambda: history)
    monkeypatch.setattr(model_facts, "_best_epoch", lambda folder: 1)
    run: Any = SimpleNamespace(folder=SimpleNamespace(home=home))
    facts = _training(run)
    told = ("epochs", "best_epoch", "seconds", "began", "device")
    assert [facts[name] for name in told] == [2, 1, 45.0, "Monday", "gpu"]
    assert facts["versions"]["torch"] == "2"
    home.read_versions, home.read_history = list, list
    assert [_training(run)[name] for name in told] == [None, 1, None, None, None]


def test_numbers_and_sizes_of_facts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nan = float("nan")
    assert _number("top1", "top-1", 0.5, (0.25, 0.75)) == {
        "metric": "top1", "name": "top-1", "value": 0.5, "low": 0.25, "high": 0.75
    }  # fmt: skip
    assert _number("top1", "top-1", 0.5, (nan, nan))["low"] is None
    monkeypatch.setattr(model_facts, "what_is_trained", lambda recipe: "all")
    data = tmp_path / "data.json"
    data.write_text(json.dumps({"notes": []}))
    run: Any = SimpleNamespace(
        network=SimpleNamespace(image_shape=(3, 32, 48), preprocessing=None),
        recipe=SimpleNamespace(encoder="small"), folder=SimpleNamespace(home=SimpleNamespace(data=data)),
    )  # fmt: skip
    assert model_sentence(run).startswith("The encoder is small at 32 × 48 pixels; trained: all.")


def test_a_card_speaks_of_groups_where_there_are_some() -> None:
    split = {"samples": 1200, "classes": 7, "groups": None}
    assert "never in two splits" not in _data({"name": "exported", "splits": {"train": split}})
    grouped = {"name": "exported", "splits": {"train": split, "val": {**split, "groups": 3}}}
    assert "never in two splits.\n\n| split" in _data(grouped)
