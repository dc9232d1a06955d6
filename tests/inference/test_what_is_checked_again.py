"""What is read again from a folder, checked before it is used, and told apart, each by hand."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from labeltree.decisions import ClassNodes, DecisionRule
from labeltree.decisions.answers import Answers
from labeltree.decisions.calibration_check import CalibrationCheck
from labeltree.decisions.calibrators import Calibrator
from labeltree.decisions.choose_classifier import ChosenClassifier
from labeltree.decisions.classifiers import Classifiers, LinearScores, PrototypeScores
from labeltree.decisions.rule import Fitted
from labeltree.errors import DataError, RunError
from labeltree.inference import calibrate_run, decider, run_classifiers, run_embeddings
from labeltree.inference.bulk import part_rows, process
from labeltree.inference.bulk.part_rows import AnswerRows, EmbeddingRows, Encoded
from labeltree.inference.calibrate_run import _before_and_after, open_decider
from labeltree.inference.decider import Decider
from labeltree.inference.hub.hub_files import repository_name
from labeltree.inference.hub.push_export import Pushed, _check_content, _send
from labeltree.inference.named_samples import open_texts
from labeltree.inference.place_classes import warn_ids
from labeltree.inference.run_classifiers import _read, own_scores, write_classifiers
from labeltree.inference.run_embeddings import (
    OwnSamples,
    _check_alone,
    _has_learned_features,
    _is_kept,
    _some,
)
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["a/x", "a/y", "b"])
CLASSES = ClassNodes(TREE.leaves, TREE)
A, X, Y, B = (int(TREE.find(name)) for name in ("a", "a/x", "a/y", "b"))


def rule_of(count: int = 3, check: CalibrationCheck | None = None) -> DecisionRule:
    return DecisionRule(
        CLASSES, Calibrator(), "child", Fitted(torch.zeros(count), TREE.leaves[[0] * count]), {}, check
    )


def test_classifiers_of_other_weights_or_files_are_not_those_of_a_run(tmp_path: Path) -> None:
    def run(digest: str) -> Any:
        network = SimpleNamespace(objective=SimpleNamespace(geometry=SimpleNamespace(name="sphere")))
        return SimpleNamespace(
            folder=RunFolder(tmp_path), weights_digest=digest, network=network,
            recipe=SimpleNamespace(curvature=-1.0),
        )  # fmt: skip

    means = PrototypeScores(TREE.leaves, torch.eye(3).double(), "sphere")
    probe = LinearScores(TREE.leaves.clone(), torch.eye(3).double(), torch.zeros(3).double())
    chosen = ChosenClassifier("prototypes", "auto")
    write_classifiers(run("00ff"), Classifiers({"probe": probe, "prototypes": means}, chosen))
    found = _read(run("00ff"), None)
    assert found is not None
    assert (found.chosen.name, list(found.fitted)) == ("prototypes", ["prototypes", "probe"])
    assert _read(run("00aa"), None) is None, "the weights are others"
    other = PrototypeScores(TREE.leaves, 2 * torch.eye(3).double(), "sphere")
    packed = run_classifiers._packed(Classifiers({"probe": probe, "prototypes": other}, chosen))
    RunFolder(tmp_path).classifier.write_bytes(packed)
    assert _read(run("00ff"), None) is None, "only one of two files was written"


@pytest.mark.parametrize(("nodes", "there"), [([X, Y], True), ([X, -1], False), ([-1, -1], False)])
def test_a_classifier_with_classes_that_are_no_nodes_does_not_answer(nodes: list[int], there: bool) -> None:
    objective = SimpleNamespace(class_scores=lambda features: (torch.tensor([0, 1]), features))
    network = SimpleNamespace(
        objective=objective, from_training=torch.tensor(nodes), feature_dim=2, device="cpu"
    )
    network.eval = lambda: network  # type: ignore[attr-defined]
    assert (own_scores(network) is not None) == there  # type: ignore[arg-type]


def test_which_table_of_embeddings_is_kept(tmp_path: Path) -> None:
    file, weights = tmp_path / "t.npz", tmp_path / "encoder"
    weights.write_bytes(b"w")
    run: Any = SimpleNamespace(
        folder=SimpleNamespace(embeddings=lambda name: file, encoder=weights), weights_digest="00ff"
    )
    assert not _is_kept("trained", run)
    for digest, kept in (("00ff", True), ("00aa", False)):
        np.savez(file, encoder_digest=np.array(digest))
        assert _is_kept("trained", run) == kept


@pytest.mark.parametrize(
    ("samples", "kept", "verify", "whole"),
    [(3, False, False, True), (4, False, False, False), (4, True, False, True), (4, True, True, False)],
)
def test_samples_of_a_large_run_are_embedded_in_part(
    samples: int, kept: bool, verify: bool, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_embeddings, "_ALL", 3)
    source = SimpleNamespace(subset=lambda rows: "some")

    class Own(SimpleNamespace):
        def __len__(self) -> int:
            return samples

    run = SimpleNamespace(source=Own(**vars(source)), network=None)
    monkeypatch.setattr(run_embeddings, "load_run", lambda *given, **named: run)
    monkeypatch.setattr(run_embeddings, "_is_kept", lambda name, run: kept)
    monkeypatch.setattr(run_embeddings, "_some", lambda source: None)
    monkeypatch.setattr(run_embeddings, "_kept_table", lambda *given, verify: f"whole {verify}")
    monkeypatch.setattr(run_embeddings, "embed_source", lambda network, source, **named: source)
    assert OwnSamples("r", verify=verify)() == (f"whole {verify}" if whole else "some")  # type: ignore[comparison-overlap]


def test_which_samples_of_a_large_run_are_embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those with a label, also at the root, of three splits; so many of each."""
    monkeypatch.setattr(run_embeddings, "MOST_LEARNED", 3)
    monkeypatch.setattr(run_embeddings, "MOST_CALIBRATED", 2)
    split = np.array(["train"] * 5 + ["val"] * 4 + ["calib"] * 2 + ["test"])
    nodes = torch.tensor([X, X, Y, Y, -1, 0, -1, -1, -1, B, X, X])
    source: Any = SimpleNamespace(split=split, nodes=nodes)
    found = _some(source).tolist()
    assert [row for row in found if row >= 5] == [5, 9, 10]
    assert len([row for row in found if row < 4]) == 3
    assert len(found) == 6


def test_samples_that_lack_what_is_to_be_embedded() -> None:
    class Both(SimpleNamespace):
        def __len__(self) -> int:
            return 5

    present = torch.tensor([[1, 1], [1, 0], [1, 0], [0, 1], [1, 0]]).bool()
    source: Any = Both(rows=torch.arange(5), present=lambda rows: present[rows])
    network: Any = SimpleNamespace(encoder=SimpleNamespace(modality="both"))
    with pytest.raises(DataError, match=r"^1 of 5 samples have no image to embed; leave them out$"):
        _check_alone(network, source, "image")
    with pytest.raises(DataError, match=r"^3 of 5 samples have no text to embed"):
        _check_alone(network, source, "text")
    network.encoder.modality = "text"
    with pytest.raises(DataError, match=r"^the run reads texts alone, so it cannot embed images"):
        _check_alone(network, source, "image")


@pytest.mark.parametrize(("seen", "learned"), [(None, None), (0, False), (2, True)])
def test_whether_features_have_learned_from_the_samples(
    seen: int | None, learned: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_embeddings, "seen_by_start", lambda recipe, digests: seen)
    recipe = SimpleNamespace(trainable="head", adapter=None, weights="start")
    run: Any = SimpleNamespace(recipe=recipe, source=SimpleNamespace(copy_digests=lambda: None))
    assert _has_learned_features(run) is learned
    recipe.weights = None
    assert _has_learned_features(run) is False
    recipe.trainable = "all"
    assert _has_learned_features(run) is True


def decider_of(scores: Any, rule: DecisionRule, columns: dict[str, Any] | None = None) -> Decider:
    run: Any = SimpleNamespace(weights_digest="00ff", taxonomy=TREE, columns=columns or {})
    return Decider(run, scores, rule, {}, ChosenClassifier("prototypes"))


def test_what_the_digest_of_a_model_depends_on() -> None:
    def means(scale: float) -> PrototypeScores:
        return PrototypeScores(TREE.leaves, scale * torch.eye(3).double(), "euclidean")

    plain = decider_of(means(1), rule_of()).digest
    assert decider_of(means(1), rule_of()).digest == plain
    assert decider_of(means(2), rule_of()).digest != plain
    assert decider_of(means(1), rule_of(4)).digest != plain, "another calibration"


@pytest.mark.parametrize(
    ("columns", "named"), [({"groups": ("patient",)}, True), ({"labels": ("l",)}, False)]
)
def test_drift_knows_whether_groups_have_names(
    columns: dict[str, Any], named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = decider_of(lambda table: torch.zeros(len(table), 3), rule_of(), columns)
    table = EmbeddingTable(torch.eye(2), torch.tensor([X, Y]))
    made.__dict__["_compared"] = (table, table)
    monkeypatch.setattr(decider, "fit_drift", lambda *given, named_groups: named_groups)
    assert made.drift is named


def test_calibration_by_depth_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a check the numbers are its own; else those of the raw and of the calibrated probabilities."""
    names = ("accuracy", "confidence", "error", "by_chance", "brier", "nll")

    def depth(value: float) -> Any:
        return SimpleNamespace(**dict.fromkeys(names, value))

    check = CalibrationCheck("temperature", True, 40, [depth(0.25)], [depth(0.75)])
    found = _before_and_after(rule_of(check=check), torch.zeros(1, 3), torch.tensor([X]))
    assert (found["before"]["error"], found["after"]["error"]) == ([0.25], [0.75])
    soft = DecisionRule(CLASSES, Calibrator("temperature", (4.0,)), "child", rule_of().fitted, {})
    given: list[float] = []

    def by_depth(of_nodes: Tensor, labels: Tensor, tree: Taxonomy, *, classes: Tensor) -> list[Any]:
        given.append(float(of_nodes[0, X]))
        return []

    monkeypatch.setattr(calibrate_run, "calibration_by_depth", by_depth)
    _before_and_after(soft, torch.tensor([[8.0, 0.0, 0.0]]), torch.tensor([X]))
    assert given[0] > 0.99 > given[1] > 0.5


@pytest.mark.parametrize(
    ("record", "asked", "refused"),
    [
        ({"calibrated_on": "new.csv", "classifier": "probe"}, None, False),
        ({"calibrated_on": "new.csv", "classifier": "probe"}, "auto", False),
        ({"calibrated_on": "new.csv", "classifier": "probe"}, "probe", False),
        ({"calibrated_on": "new.csv", "classifier": "probe"}, "lda", True),
    ],
)
def test_a_calibration_on_other_samples_is_not_lost_by_asking(
    record: dict[str, Any], asked: Any, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused before the choice is stored; nothing else is done to the run."""
    stored: list[Any] = []

    class Stop(Exception):
        pass

    def classifiers(run: object, asked: object) -> None:
        stored.append(asked)
        raise Stop

    monkeypatch.setattr(calibrate_run, "_read", lambda folder: record)
    monkeypatch.setattr(calibrate_run, "run_classifiers", classifiers)
    folder = SimpleNamespace(path=Path("r"))
    monkeypatch.setattr(
        calibrate_run, "load_run", lambda path, **named: SimpleNamespace(base=None, folder=folder)
    )
    with pytest.raises(RunError if refused else Stop):
        open_decider("r", asked)
    assert stored == ([] if refused else [asked])


def test_choices_are_kept_when_a_run_is_calibrated_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    choices = {"calibration": "vector", "descent": "leaf"}
    record = {"encoder": "00aa", "classifier": "probe", "choices": choices}
    given: list[dict[str, Any]] = []

    def calibrate(path: object, **choices: Any) -> Decider:
        given.append(choices)
        return decider_of(None, rule_of())

    chosen = SimpleNamespace(chosen=ChosenClassifier("probe"))
    folder = SimpleNamespace(path=Path("r"))
    run = SimpleNamespace(base=None, folder=folder, weights_digest="00ff")
    monkeypatch.setattr(calibrate_run, "_read", lambda folder: record)
    monkeypatch.setattr(calibrate_run, "run_classifiers", lambda run, asked: chosen)
    monkeypatch.setattr(calibrate_run, "load_run", lambda path, **named: run)
    monkeypatch.setattr(calibrate_run, "calibrate_run", calibrate)
    assert open_decider("r").run is run
    assert given == [choices]


def test_blank_texts_are_not_read() -> None:
    network = SimpleNamespace(encoder=SimpleNamespace(modality="text"), image_shape=None)
    run: Any = SimpleNamespace(network=network, taxonomy=TREE)
    found = open_texts(run, ["a", " \n", "", "b"])
    assert found.skipped == {1: "the text is empty", 2: "the text is empty"}
    assert found.source is not None
    assert found.source.rows.tolist() == [0, 3]


def test_names_that_look_like_ids() -> None:
    """`TEX:` begins ids; `BIN:` begins names of classes, too, so that a new one may."""
    tree = Taxonomy.from_paths(["a/x", "BIN:1"])
    tree = tree.with_aliases([{"x": ["TEX:01"], "BIN:1": ["BIN:2"]}.get(name, []) for name in tree.names])
    assert warn_ids([("BIN:3",)], tree) == []
    assert warn_ids([("TEX:01",), ("a", "x")], tree)[0].startswith("'TEX:01' looks like an id of the run's")
    assert warn_ids([("a", "tex_7"), ("TEX:9",)], tree)[0].startswith("'tex_7' and 'TEX:9' look like ids of")


def work_of(rows: Any, out: Any, listing: str | None = None) -> process._Work:
    job: Any = SimpleNamespace(part_size=9, threads=lambda count: 1, what="embed", data="d")
    network: Any = SimpleNamespace(batch_size=lambda most: 2)
    samples: Any = SimpleNamespace(listing=listing, label=lambda sample: ("l", 1, sample.name == "c"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "SampleEncoder", lambda network: SimpleNamespace(encode=encoded))
        return process._Work(job, process.Place(), network, samples, rows, out, lambda *said: None)


def encoded(names: list[str], contents: object, labels: object) -> Any:
    readable = np.array([name != "b" for name in names])
    return SimpleNamespace(names=names, readable=readable)


def test_what_is_counted_of_parts() -> None:
    """Two parts of three samples: `b` cannot be read, and the taxonomy lacks the label of `c`."""
    notes: list[dict[str, Any]] = []

    class Writer:
        def __init__(self) -> None:
            self.note: dict[str, Any] = {}

        def __enter__(self) -> Writer:
            return self

        def __exit__(self, *error: object) -> None:
            notes.append(self.note)

        def write(self, rows: object) -> None:
            pass

    rows = SimpleNamespace(
        begin_part=lambda number: None, of=lambda batch: None, end_part=lambda: {"seen": 1}, schema=None
    )
    work = work_of(rows, SimpleNamespace(new_part=lambda number, schema: Writer()))

    def batches() -> Any:
        for names in (["a", "b"], ["c"]):
            yield process._Batch(0, [SimpleNamespace(name=name) for name in names]), []  # type: ignore[misc]

    work._make(0, batches())
    work._make(1, batches())
    counts = {"samples": 3, "unreadable": 1, "unknown_labels": 1}
    assert [note["counts"] for note in notes] == [counts, counts]
    assert work.counts == {"samples": 6, "unreadable": 2, "unknown_labels": 2, "parts": 2}
    assert work._done == 6
    checked = work_of(
        rows, SimpleNamespace(note=lambda number: notes[0], changed=lambda: DataError("changed"))
    )
    checked._check(0, iter([SimpleNamespace(name=name) for name in "abc"]))  # type: ignore[misc]
    assert checked._done == 3
    with pytest.raises(DataError, match="changed"):
        checked._check(0, iter([SimpleNamespace(name=name) for name in "abd"]))  # type: ignore[misc]
    same = work_of(rows, SimpleNamespace(note=lambda number: notes[0]), listing="files")
    same._check(0, iter([SimpleNamespace(name="z")]))  # type: ignore[list-item]


def test_rows_of_answers_stand_where_their_samples_are() -> None:
    """The second cannot be read; the label of the third is the root, of the fourth above the classes."""
    rows = AnswerRows.__new__(AnswerRows)
    rows._name = lambda node: f"n{node}"
    rows._decider = SimpleNamespace(rule=rule_of(), run=SimpleNamespace(taxonomy=TREE))  # type: ignore[assignment]
    names = (
        "node", "answer", "probability", "cut", "guesses", "unknown", "p_known", "expected_cost", "label",
        "label_node", "holds",
    )  # fmt: skip
    columns: dict[str, list[Any]] = {name: [None] * 4 for name in names}
    answers = Answers(
        torch.tensor([A, X, A]), torch.tensor([0.5, 0.25, 0.75]).double(), torch.tensor([True, False, True]),
        torch.tensor([[X], [Y], [B]]), torch.tensor([[0.125], [0.375], [0.625]]).double(),
        torch.tensor([3.0, 2.0, 1.0]).double(), torch.tensor([0.125, 0.5, 0.25]).double(),
        torch.tensor([True, False, True]),
    )  # fmt: skip
    rows._fill(columns, [0, 2, 3], answers)
    nothing = torch.empty(0, 1)
    batch = Encoded(
        list("pqrs"), [None, "broken", None, None], ["x", "y", "/", "a"], [X, Y, 0, A], nothing, nothing
    )
    rows._compare(columns, batch)
    assert columns["node"] == [A, None, X, A]
    assert columns["answer"] == [f"n{A}", None, f"n{X}", f"n{A}"]
    assert columns["cut"] == [True, None, False, True]
    assert columns["unknown"] == [True, None, False, True]
    assert columns["expected_cost"] == [3.0, None, 2.0, 1.0]
    assert columns["p_known"] == [0.125, None, 0.5, 0.25]
    assert columns["guesses"][3] == [{"node": B, "class": f"n{B}", "probability": 0.625}]
    assert (columns["label"], columns["label_node"]) == (["x", "y", "/", "a"], [X, Y, 0, A])
    assert columns["holds"] == [True, None, None, None]


def test_answers_and_vectors_of_readable_samples_stand_at_their_places() -> None:
    rows = EmbeddingRows.__new__(EmbeddingRows)
    objective = SimpleNamespace(predict=lambda features: features[:, 0].long())
    rows._network = SimpleNamespace(  # type: ignore[assignment]
        objective=objective, device="cpu", from_training=torch.tensor([X, Y, B])
    )
    rows._dtype = np.dtype("float32")
    readable = np.array([False, True, False, True])
    features = torch.tensor([[2.0, 5.0], [0.0, 6.0]])
    assert rows._predictions(features, readable).tolist() == [-1, B, -1, X]
    assert rows._vectors(features, readable).to_pylist() == [None, [2.0, 5.0], None, [0.0, 6.0]]


def test_a_part_has_a_draw_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        part_rows, "PartDraw", lambda decider, number: SimpleNamespace(note=lambda: {"of": number})
    )
    rows = AnswerRows.__new__(AnswerRows)
    rows._decider, rows._draw = None, None  # type: ignore[assignment]
    assert rows.end_part() == {"seen": {}}
    rows.begin_part(7)
    assert rows.end_part() == {"seen": {"of": 7}}


def test_names_of_repositories() -> None:
    for name, revision, found in (
        ("jane/birds", None, None), ("jane/birds@v1", None, "v1"), ("jane/birds@v1", "v1", "v1"),
        ("jane/birds", "v2", "v2"),
    ):  # fmt: skip
        hub = repository_name(name, revision)
        assert (hub.repository, hub.revision) == ("jane/birds", found)
    with pytest.raises(DataError, match="names one revision, and 'v2' is another"):
        repository_name("jane/birds@v1", "v2")


def test_what_is_deleted_of_a_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that an export no longer has; a licence and a card stay, as does what is no part of exports."""
    hub = pytest.importorskip("huggingface_hub")
    from labeltree.inference.hub import push_export

    done: list[Any] = []
    files = ["README.md", "LICENSE", ".gitattributes", "config.json", "model.onnx", "notes.md"]

    class Api:
        def __init__(self, **given: Any) -> None:
            pass

        def model_info(self, name: str) -> Any:
            return SimpleNamespace(siblings=[SimpleNamespace(rfilename=file) for file in files], private=True)

        def create_commit(self, name: str, operations: Any, commit_message: str) -> Any:
            done.extend(type(each).__name__ + " " + each.path_in_repo for each in operations)
            return SimpleNamespace(oid="c0ffee")

    monkeypatch.setattr(hub, "HfApi", Api)
    monkeypatch.setattr(push_export, "_check_content", lambda api, name, known: None)
    plan = Pushed("jane/birds", "https://there", public=False, files={"config.json": 2}, left=())
    assert _send(plan, {"config.json": b"{}", "README.md": b"#"}, "token").commit == "c0ffee"
    assert sorted(done) == [
        "CommitOperationAdd README.md", "CommitOperationAdd config.json", "CommitOperationDelete model.onnx"
    ]  # fmt: skip
    monkeypatch.undo()
    nothing: Any = None
    _check_content(nothing, "jane/birds", ["README.md", "LICENSE", ".gitattributes"])
    with pytest.raises(RunError, match="name another repository"):
        _check_content(nothing, "jane/birds", ["README.md", "weights.bin"])
