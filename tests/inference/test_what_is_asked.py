"""Options reach what they are for, and refusals name the sample, the limit and the side that is meant."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from labeltree.cli.commands import calibrate_command, evaluate_command
from labeltree.decisions import ClassNodes, DecisionRule, TreeCost
from labeltree.decisions.calibrators import Calibrator
from labeltree.decisions.choose_classifier import ChosenClassifier
from labeltree.decisions.promise_samples import CLASSIFIER, EPOCH
from labeltree.decisions.rule import Fitted
from labeltree.errors import DataError
from labeltree.inference import decider as decider_module
from labeltree.inference import predict
from labeltree.inference.bulk.job import BulkJob
from labeltree.inference.decider import Decider, answer_scores_by, read_choices
from labeltree.inference.model import Model
from labeltree.inference.named_samples import NamedSamples, lacks_groups, with_texts
from labeltree.inference.opened_model import OpenedModel
from labeltree.inference.predict import Request, _asked, _read_price, _warning
from labeltree.inference.public_settings import public_encoder
from labeltree.inference.run_classifiers import evaluate_again, other_report
from labeltree.options.answer_options import AnswerOptions, EmbedOptions, PredictOptions
from labeltree.options.evaluation import EvaluateOptions, EvaluationSettings
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["a/x", "a/y", "b"])
CLASSES = ClassNodes(TREE.leaves, TREE)


class Calls:
    """Keeps what its methods are called with."""

    def __init__(self) -> None:
        self.told: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {}

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any, **named: Any) -> str:
            self.told[name] = given, named
            return name

        return call


def test_a_request_is_what_the_options_name() -> None:
    table = {"sheet": "New"}
    given = PredictOptions(
        "run", data="new.csv", data_path="place", table=table, labelled=True, questions=("m=x",)
    )
    assert Request.of(given) == Request(
        data="new.csv", data_path="place", table=table, labelled=True, questions=("m=x",)
    )
    split = Request.of(PredictOptions("run", split="val"))
    assert (split.split, split.labelled) == ("val", True), "of own samples the labels are known"
    both = Request.of(PredictOptions("run", images=(Path("a.png"),), texts=("b",)))
    assert (both.images, both.texts, both.labelled) == (("a.png",), ("b",), False)


def test_a_rule_answers_as_asked() -> None:
    rule: Any = Calls()
    options = AnswerOptions(coverage=0.75, by_depth=2, top=5)
    assert answer_scores_by(rule, "scores", options, None) == "answer_on_paths"  # type: ignore[arg-type]
    assert rule.told["answer_on_paths"] == (("scores", options.promise), {"by_depth": 2, "top": 5})
    assert answer_scores_by(rule, "scores", options, TreeCost()) == ("cheapest", None)  # type: ignore[arg-type]
    assert rule.told["cheapest"] == (("scores", TreeCost(), 5), {})


def test_prices_and_costs() -> None:
    decider: Any = None
    assert _read_price(decider, "tree", 0.25) == TreeCost("height", 0.25)
    assert _read_price(decider, "edges", 0.75) == TreeCost("edges", 0.75)
    rule: Any = Calls()
    asked = _asked(rule, decider, AnswerOptions(cost="tree", coarse=0.25))
    assert (asked.words, asked.price) == ("least expected cost by tree", TreeCost("height", 0.25))
    asked = _asked(rule, decider, AnswerOptions(optimise="tree_distance"))
    assert asked.price == TreeCost("edges")
    rule = SimpleNamespace(fitted=Fitted(torch.zeros(30), torch.ones(30).long()))
    calls: list[Any] = []

    def bars(*given: Any) -> torch.Tensor:
        calls.append(given)
        return torch.tensor([0.0, 0.5])

    rule.bars = bars
    options = AnswerOptions(by_depth=2)
    assert _asked(rule, decider, options, "patient").is_cut, "one bar is enough"
    assert calls == [(options.promise, 2, "calibration patients")]


def test_what_differs_from_the_folder_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of own samples and an extension the one, of another version nothing, else what the report shows."""
    monkeypatch.setattr(predict, "other_report", lambda path, chosen: f"{path} {chosen}")

    def warned(extensions: list[int], base: object, *, own: bool) -> str | None:
        run = SimpleNamespace(folder=SimpleNamespace(path="r", extensions=extensions), base=base)
        decider: Any = SimpleNamespace(run=run, chosen="probe")
        return _warning(decider, of_own_samples=own)

    before = "the run's own samples are answered as before its extension; 'labeltree extend r' says what that"
    assert warned([1], None, own=True) == f"{before} added"
    assert warned([1], None, own=False) == warned([], None, own=True) == "r probe"
    assert warned([], object(), own=False) is None


def test_another_report_is_named_beside_what_answers(tmp_path: Path) -> None:
    file = RunFolder(tmp_path).metrics
    file.parent.mkdir(parents=True, exist_ok=True)
    shown = {"name": "trained", "methods": {"trained": {"classifier": {"name": "own"}}, "raw": {}}}
    chosen = ChosenClassifier("probe", "own")
    assert other_report(tmp_path, chosen) is None, "no report"
    file.write_text(json.dumps(shown))
    assert other_report(tmp_path, ChosenClassifier("own")) is None
    assert other_report(tmp_path, chosen) == (
        f"{file} and the report show classifier 'own', these answers are of 'probe'; 'labeltree evaluate "
        f"{tmp_path}' brings them in line"
    )


def test_a_report_of_the_calibration_before_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its threshold is of other probabilities; there is nothing to say without a report or other data."""
    decider = SimpleNamespace(chosen=ChosenClassifier("own"))
    monkeypatch.setattr("labeltree.api.calibrate", lambda options: decider)
    file = RunFolder(tmp_path).metrics
    file.parent.mkdir(parents=True, exist_ok=True)

    def said(*words: str) -> str:
        calibrate_command.run([str(tmp_path), *words])
        return capsys.readouterr().err

    assert said("--data", "d.csv") == ""
    file.write_text(json.dumps({"name": "t", "methods": {"t": {"classifier": {"name": "own"}}}}))
    assert said() == ""
    assert said("--data", "d.csv") == (
        f"probabilities and thresholds in {file} and the report, such as that of an operating point, are of "
        f"the calibration before; 'labeltree evaluate {tmp_path}' makes them anew\n"
    )


class _Asked(Exception):
    """What `evaluate` was asked."""


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--question", "bad news=a/b c,d", "--question", "good=e"],
        [
            "--question",
            "x=a",
            "--option",
            "node-scores.per=group",
            "--protocols",
            "knn",
            "node-scores",
        ],
        [
            "--protocols",
            "knn",
            "--option",
            "knn.ks=1,5",
            "--option",
            "knn.weights=uniform",
            "--by",
            "site",
            "sex",
        ],
        ["--frequency-bounds", "3", "20", "--feature-geometry", "euclidean", "--leave-group-out", "never"],
    ],
)
def test_an_evaluation_is_asked_for_again_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    def refuse(options: EvaluateOptions) -> None:
        raise _Asked(options.settings)

    def settings_by(given: list[str]) -> EvaluationSettings:
        with pytest.raises(_Asked) as asked:
            evaluate_command.run([*given, "--quiet"])
        return asked.value.args[0]

    monkeypatch.setattr("labeltree.api.evaluate", refuse)
    first = settings_by([str(tmp_path), *words])
    content = json.loads(json.dumps({"settings": dataclasses.asdict(first)}))
    RunFolder(tmp_path).metrics.parent.mkdir(parents=True, exist_ok=True)
    RunFolder(tmp_path).metrics.write_text(json.dumps(content))
    command = shlex.split(evaluate_again(RunFolder(tmp_path)))
    assert command[:3] == ["labeltree", "evaluate", str(tmp_path)]
    again = settings_by(command[2:])
    assert json.loads(json.dumps(dataclasses.asdict(again))) == content["settings"]
    assert (len(command) > 3) == bool(words)


def test_options_of_a_command_are_those_of_its_job() -> None:
    given = PredictOptions(
        "run", data="d", out="o/", labelled=True, coverage=0.75, method="threshold", counted="group",
        by_depth=2, top=5, unknown=0.01, classifier="probe", taxonomy=Path("t.json"), mapping=Path("m.json"),
    )  # fmt: skip
    job = BulkJob.of(given)
    assert (job.what, job.labelled, job.classifier) == ("predict", True, "probe")
    assert (job.taxonomy, job.mapping) == ("t.json", "m.json")
    told = (job.coverage, job.method, job.counted, job.by_depth, job.top, job.unknown)
    assert told == (0.75, "threshold", "group", 2, 5, 0.01)
    assert not BulkJob.of(PredictOptions("run", data="d", out="o/")).labelled
    embed = BulkJob.of(
        EmbedOptions("run", data="d", out="o/", unlabelled=True, features=True, dtype="float16")
    )
    assert (embed.what, embed.labelled, embed.features, embed.dtype) == ("embed", False, True, "float16")
    assert BulkJob.of(EmbedOptions("run", data="d", out="o/")).labelled


def test_a_service_answers_as_asked() -> None:
    model: Any = Calls()
    model.embed_batch = lambda samples: ("features", "embeddings")
    Model.answer_batch(model, ["s"], coverage=0.75, top=5, unknown=0.01)
    asked = {"coverage": 0.75, "top": 5, "unknown": 0.01}
    assert model.told["answer_embedded"] == (("features", "embeddings"), asked)
    geometry = SimpleNamespace(name="euclidean")
    decider = Calls()
    opened: Any = SimpleNamespace(
        decider=decider,
        network=SimpleNamespace(objective=SimpleNamespace(geometry=geometry)),
        recipe=SimpleNamespace(curvature=-2.0),
    )
    Model.answer_embedded(opened, torch.eye(3), 2 * torch.eye(3), **asked)
    (table, options), _ = decider.told["answer"]
    assert options == AnswerOptions(coverage=0.75, top=5, unknown=0.01)
    assert (table.geometry, table.curvature, float(table.embeddings[0, 0])) == ("euclidean", -2.0, 2.0)


def opened(modality: str, **network: Any) -> Any:
    """A model that reads one kind of samples, of which only the inputs are asked for."""
    encoder = SimpleNamespace(modality=modality)
    encoder.without_adapter = SimpleNamespace(feature_dim=3)
    parts = {"image_shape": (3, 4, 4), "tokens": lambda texts: texts, "preprocessing": None, **network}
    model = OpenedModel.__new__(OpenedModel)
    model.run = SimpleNamespace(network=SimpleNamespace(encoder=encoder, **parts))  # type: ignore[assignment]
    return model


PICTURE = np.zeros((4, 4, 3), np.uint8)


@pytest.mark.parametrize(
    ("modality", "samples", "said"),
    [
        ("text", ["a", " "], "sample 258 is an empty text; the run reads texts"),
        ("text", ["a", 7], "sample 258 is an int; the run reads texts"),
        ("vector", [[1, 2, 3], [1, 2]], "sample 258 has 2 numbers; the run reads vectors of 3"),
        (
            "vector",
            [[1, 2, 3], [1, 2, np.nan]],
            "sample 258 has nan as number 2; the run reads finite numbers",
        ),
        ("vector", [[1, 2, 3], ["a", "b", "c"]], "sample 258 is a list; the run reads vectors of numbers"),
        ("image", [PICTURE, "a.png"], "sample 258 is a str; expected a PIL image or an array of pixels"),
        ("image", [PICTURE, PICTURE[0, 0]], "sample 258 is an array uint8 (3,); expected uint8 (h, w) or"),
        ("both", [PICTURE, ("a",)], "sample 258 is a tuple of 1; expected an image and a text"),
        ("both", [PICTURE, (None, 7)], "sample 258 is an int; expected a text beside its image"),
        ("both", ["a", " "], "sample 258 has neither an image nor a text"),
        ("both", ["a", 7], "sample 258 is an int; expected a PIL image"),
    ],
)
def test_a_broken_sample_is_named_by_its_position(modality: str, samples: list[Any], said: str) -> None:
    with pytest.raises(DataError) as told:
        opened(modality).inputs(samples, first=257)
    assert str(told.value).startswith(said)


def test_images_and_texts_beside_each_other() -> None:
    found = opened("both").inputs([PICTURE + 9, "a", (PICTURE + 5, "b"), (PICTURE, " "), (None, "c")])
    assert found.present.tolist() == [
        [True, False], [False, True], [True, True], [True, False], [False, True],
    ]  # fmt: skip
    assert found.images[:, 0, 0, 0].tolist() == [9, 0, 5, 0, 0]
    assert found.texts == ["", "a", "b", " ", "c"]


def test_samples_with_neither_an_image_nor_a_text() -> None:
    """Rows 0, 2 and 3 have images, of which that of row 2 cannot be read; row 4 has nothing."""
    run: Any = SimpleNamespace(
        network=SimpleNamespace(encoder=SimpleNamespace(modality="both"), image_shape=(3, 4, 4)),
        taxonomy=TREE,
    )
    images = NamedSamples(["a.png", "b.png", "c.png"], None, {1: "it is broken"})
    found = with_texts(run, images, [True, False, True, True, False], ["", "text", "", "more", " "])
    assert found.names == ["a.png", "text", "b.png", "c.png", " "]
    assert found.skipped == {2: "it is broken", 4: "it has neither an image nor a text"}


def test_groups_that_samples_lack() -> None:
    """Groups without names are those of copies, and tell no patient; named ones may be of another column."""

    def said(groups: object, names: object, columns: dict[str, Any], known: dict[str, Any]) -> str:
        source: Any = SimpleNamespace(groups=groups, group_names=names, columns=columns)
        run: Any = SimpleNamespace(columns=known)
        return lacks_groups(source, run, "intervals are too narrow")

    known = {"groups": ("patient",)}
    lacking = (
        "The samples have no column 'patient', by which the run's are grouped: each counts as one by "
        "itself. If "
        "several belong together, intervals are too narrow."
    )
    assert said(None, None, {}, known) == lacking
    assert said(None, None, {}, {}) == ""
    assert said(torch.zeros(2), None, {}, known) == ""
    assert said(torch.zeros(2), ["a", "b"], {}, known) == lacking
    assert said(torch.zeros(2), ["a", "b"], {"groups": ("who",)}, known) == ""


def held_by(groups: list[int] | None) -> Any:
    count = 6 if groups is None else len(groups)
    return EmbeddingTable(
        torch.eye(count, 3),
        TREE.leaves[torch.arange(count) % 3],
        split=np.array(["val"] * (count - 1) + ["calib"]),
        groups=None if groups is None else torch.tensor(groups),
        group_names=None if groups is None else np.array([f"p{group}" for group in groups]),
        attributes={"eye": np.array([f"{number % 2}" for number in range(count)])},
    )


def decider_of(record: dict[str, Any], held: Any = None, **run: Any) -> Decider:
    fitted = Fitted(torch.zeros(3), TREE.leaves)
    rule = DecisionRule(CLASSES, Calibrator(), "child", fitted, {})
    parts: Any = SimpleNamespace(taxonomy=TREE, base=None, change=None, **run)
    scores: Any = lambda table: table.embeddings  # noqa: E731
    made = Decider(parts, scores, rule, record, ChosenClassifier("probe", "auto"))
    made.__dict__["_held"] = held
    return made


def test_groups_that_cannot_be_answered() -> None:
    for groups, said in (
        (None, "are in no groups; train with --table.group_column, or calibrate on a table that has several"),
        ([-1, -1], "are in no groups; train with --table.group_column"),
        (
            [4, 4, -1],
            "are all of one group; train with a larger --val, or calibrate on a table that has several",
        ),
    ):
        with pytest.raises(DataError) as told:
            decider_of({}, held_by(groups)).group_rule()
        assert f"groups cannot be answered: the validation samples of the run {said}" in str(told.value)
    with pytest.raises(DataError, match=r"^groups cannot be answered: none are there$"):
        decider_of({}, "none are there").group_rule()


def test_what_groups_are_combined_by(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def fit(*given: Any, **named: Any) -> int:
        calls.append((given, named))
        return len(calls)

    monkeypatch.setattr(decider_module, "fit_group_rule", fit)
    held = held_by([0, 0, 1, 1, 1])
    made = decider_of({"choices": {"calibration": "none", "descent": "leaf", "seed": 9}}, held)
    assert (made.group_rule(), made.group_rule("eye"), made.group_rule()) == (1, 2, 1), "each is fitted once"
    (of_groups, first), (of_eyes, second) = calls
    assert torch.equal(of_groups[2], held.groups)
    assert first["within"] is None
    assert torch.equal(second["within"], held.groups), "eyes of one patient are not independent"
    assert len(torch.unique(of_eyes[2])) == 4
    assert first["for_probabilities"].tolist() == [True] * 4 + [False], "that of calib gives thresholds"
    assert {name: second[name] for name in ("calibration", "descent", "share", "seed")} == {
        "calibration": "none",
        "descent": "leaf",
        "share": 0.3,
        "seed": 0,
    }


def test_choices_of_an_earlier_calibration() -> None:
    assert read_choices({"choices": {"calibration": "vector", "descent": "leaf", "share": 0.5}}) == {
        "calibration": "vector",
        "descent": "leaf",
    }
    assert read_choices({"choices": {"calibration": "magic", "descent": "leaf"}}) == {"descent": "leaf"}
    assert read_choices({"choices": None}) == read_choices({}) == {}


def test_which_samples_promises_rest_on() -> None:
    """Only a training by steps chooses an epoch, and only `auto` a classifier."""

    def network(solver: object) -> Any:
        return SimpleNamespace(objective=SimpleNamespace(solver=solver))

    def rests_on(record: dict[str, Any], solver: object = None, asked: str = "auto") -> tuple[Any, ...]:
        made = decider_of(record, network=network(solver))
        object.__setattr__(made, "chosen", ChosenClassifier("probe", asked))  # type: ignore[arg-type]
        found = made.promise_samples
        return found.kind, found.source, found.chose

    assert rests_on({}) == ("val", "", (EPOCH, CLASSIFIER))
    assert rests_on({}, solver=object()) == ("val", "", (CLASSIFIER,))
    assert rests_on({}, asked="probe") == ("val", "", (EPOCH,))
    assert rests_on({"set_aside": True})[0] == "calib"
    assert rests_on({"set_aside": "yes"})[0] == "val"
    assert rests_on({"calibrated_on": "new.csv"})[:2] == ("other", "new.csv")
    assert rests_on({"calibrated_on": "exported"})[:2] == ("other", ""), "an export names no data"
    later = decider_of({"later_classes": [int(TREE.find("a")), int(TREE.find("b"))]}, network=network(None))
    assert later.unpromised.tolist() == [int(TREE.find("a"))], "b has a calibration sample"
    assert later.promise_samples.unpromised == ("a",)


@pytest.mark.parametrize(
    ("name", "public"),
    [
        ("small-conv", "small-conv"),
        ("timm:resnet18", "timm:resnet18"),
        ("transformers:name", "transformers:./encoder"),
        ("open_clip:name", "open_clip:./encoder"),
        ("timm:/home/me/x", "timm:./encoder"),
        ("timm:~/x", "timm:./encoder"),
        ("timm:./x", "timm:./encoder"),
    ],
)
def test_an_export_names_no_place_of_an_encoder(name: str, public: str) -> None:
    assert public_encoder(name) == public


@pytest.mark.parametrize(("split", "verify"), [(None, False), ("test", False), ("test", True)])
def test_answers_verify_the_samples_of_a_run_where_that_is_asked(
    monkeypatch: pytest.MonkeyPatch, split: Any, verify: bool
) -> None:
    """On its own version of the taxonomy and on another one."""
    told = []

    def opened(what: str, result: Any) -> Callable[..., Any]:
        return lambda *given, own_data, verify: told.append((what, own_data, verify)) or result

    monkeypatch.setattr(predict, "load_run", opened("run", "a run"))
    monkeypatch.setattr(predict, "run_on", lambda run, taxonomy, mapping: run)
    monkeypatch.setattr(predict, "open_decider", opened("decider", None))
    monkeypatch.setattr(predict, "check_version", lambda taxonomy, mapping: None)
    monkeypatch.setattr(predict, "_warning", lambda decider, of_own_samples: None)
    monkeypatch.setattr(predict, "answer_with", lambda *given, **more: None)
    data = {"split": split} if split else {"data": "d"}
    predict.answer(PredictOptions("run", verify=verify, **data))
    predict.answer(PredictOptions("run", verify=verify, taxonomy="t.json", **data))
    own = split is not None
    assert told == [("decider", own, verify), ("run", own, verify), ("decider", own, verify)]
