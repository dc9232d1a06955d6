"""What an opened model passes on of what it is asked, and the labels and places of samples and settings."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from labeltree.errors import DataError, FolderInUseError
from labeltree.inference import embed_run as embed_module
from labeltree.inference import finish, model, opened_model, other_version
from labeltree.inference.bulk import shared_decider
from labeltree.inference.bulk.batch_model import BatchModel
from labeltree.inference.bulk.bulk_samples import BulkSamples
from labeltree.inference.bulk.likeness import PartDraw
from labeltree.inference.bulk.run_labels import MISSING, UNKNOWN, RunLabels
from labeltree.inference.embed_run import embed_run
from labeltree.inference.finish import finish_run
from labeltree.inference.model import Model
from labeltree.inference.named_samples import NamedSamples
from labeltree.inference.opened_model import OpenedModel
from labeltree.inference.other_version import run_on
from labeltree.inference.public_settings import _without_places, public_data
from labeltree.options.answer_options import EmbedOptions
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["a/x", "a/y", "b"])
A, X, Y, B = (int(TREE.find(name)) for name in ("a", "a/x", "a/y", "b"))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> tuple[Model, list[Any]]:
    """A model, and what its steps are called with."""
    calls: list[Any] = []
    made = Model.__new__(Model)
    folder = SimpleNamespace(path=Path("r"))
    made.folder = folder  # type: ignore[assignment]
    made.run = SimpleNamespace(network="network", folder=folder)  # type: ignore[assignment]
    made._classifier, made._version, made._warning = "lda", {"taxonomy": "t.json", "mapping": "m.json"}, ""
    monkeypatch.setattr(Model, "decider", "decider")
    monkeypatch.setattr(Model, "_take_data", lambda self, samples, data: (samples, data))
    named = NamedSamples(["s"], "named", {})  # type: ignore[arg-type]
    monkeypatch.setattr(Model, "_named", lambda self, samples, texts, data: None if data else named)
    monkeypatch.setattr(
        model, "answer_with", lambda decider, request, options, warning: calls.append((request, options))
    )
    monkeypatch.setattr(model, "open_other", lambda run, data, **options: calls.append(options) or data)
    monkeypatch.setattr(
        model, "embed_source", lambda network, source, **options: calls.append((source, options))
    )
    return made, calls


def test_options_of_an_answer(opened: tuple[Model, list[Any]]) -> None:
    made, calls = opened
    made.predict(
        data="d", table={"sheet": "2"}, labelled=True, coverage=0.75, top=5, per="lesion",
        questions=["q=x"],
    )  # fmt: skip
    request, options = calls.pop()
    assert (request.data, request.labelled, request.table) == ("d", True, {"sheet": "2"})
    assert (request.questions, request.named) == (("q=x",), None)
    assert (options.coverage, options.top, options.explained, options.per) == (0.75, 5, False, "lesion")
    made.predict("s", explained=True, unknown=0.01)
    request, options = calls.pop()
    assert (request.named.names, options.explained, options.unknown) == (["s"], True, 0.01)


def test_options_of_embeddings(opened: tuple[Model, list[Any]]) -> None:
    made, calls = opened
    made.embed(data="d", table={"sheet": "2"}, modality="image")
    assert calls == [
        {"unlabelled": True, "table": {"sheet": "2"}}, ("d", {"keep": False, "modality": "image"})
    ]  # fmt: skip
    calls.clear()
    made.embed("s", modality="text")
    assert calls == [("named", {"keep": False, "modality": "text"})]


def test_options_of_folders_of_parts(
    opened: tuple[Model, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = opened
    jobs: list[Any] = []
    monkeypatch.setattr(
        "labeltree.inference.bulk.run_bulk", lambda job, run=None, **process: jobs.append((job, run, process))
    )
    made.predict_to("d", "o")
    made.predict_to("d", "o", labelled=True, classifier="probe", devices=2)
    made.embed_to("d", "o", progress=print)
    (first, run, _), (second, no_run, two), (third, _, shown) = jobs
    assert (first.labelled, first.classifier, first.taxonomy, first.mapping) == (
        False,
        "lda",
        "t.json",
        "m.json",
    )
    assert (first.what, run) == ("predict", made.run)
    assert (second.labelled, second.classifier, no_run, two) == (True, "probe", None, {"devices": 2})
    assert (third.what, third.labelled, shown) == ("embed", True, {"progress": print})


def test_batches_are_read_in_pieces_whose_samples_are_counted_on(
    opened: tuple[Model, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = opened
    firsts: list[tuple[int, int]] = []

    def inputs(samples: list[Any], first: int) -> Any:
        firsts.append((first, len(samples)))
        return samples

    monkeypatch.setattr(made, "inputs", inputs)
    monkeypatch.setattr(
        made, "embed_inputs", lambda some: (torch.zeros(len(some), 2), torch.ones(len(some), 3))
    )
    monkeypatch.setattr(model, "_AT_ONCE", 2)
    features, embeddings = made.embed_batch(list("abcde"))
    assert (features.shape, embeddings.shape) == ((5, 2), (5, 3))
    assert firsts == [(0, 2), (2, 2), (4, 1)]
    assert made.embed_batch([])[1].shape == (0, 3)


def test_options_of_an_export(opened: tuple[Model, list[Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = opened
    given: list[Any] = []
    monkeypatch.setattr(
        "labeltree.inference.export.export_folder.export_model",
        lambda *parts, **named: given.append((parts, named)),
    )
    made.export("m", ["torch"], name="Birds", with_reference=True, replace=True)
    assert given == [
        (("decider", "m", ["torch"]), {"name": "Birds", "with_reference": True, "replace": True})
    ]


def test_how_a_model_is_opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given: list[Any] = []

    class Folder:
        def __init__(self, path: str) -> None:
            self.path = path

        def require(self) -> Folder:
            return self

    def load(path: str, *, own_data: bool, device: object) -> str:
        given.append((path, own_data, device))
        return "run"

    monkeypatch.setattr(opened_model, "RunFolder", Folder)
    monkeypatch.setattr(opened_model, "load_run", load)
    monkeypatch.setattr(opened_model, "open_decider", lambda run, classifier: (run, classifier))
    made = OpenedModel("r", classifier="lda", device="meta")
    assert given == [("r", False, "meta")]
    assert made.decider == ("run", "lda")  # type: ignore[comparison-overlap]
    with pytest.raises(ValueError, match=r"^there are 2 images and 1 texts; give a text for each image"):
        made._pairs(["a", "b"], ["c"])


class Refused:
    """A model on images of which every second cannot be read."""

    def read(self, count: int, patch: pytest.MonkeyPatch) -> NamedSamples:
        import numpy as np

        made = OpenedModel.__new__(OpenedModel)
        network = SimpleNamespace(encoder=SimpleNamespace(modality="image"))
        made.run = SimpleNamespace(taxonomy=TREE, network=network)  # type: ignore[assignment]

        def pixels(self: object, sample: Any, place: int) -> Any:
            if place % 2:
                raise DataError(f"sample {place} is broken")
            return np.zeros((3, 2, 2), np.uint8)

        patch.setattr(OpenedModel, "_pixels", pixels)
        return made._read_samples(list(range(count)))


def test_broken_samples_are_named_by_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Refused().read(5, monkeypatch)
    assert found.skipped == {1: "is broken", 3: "is broken"}
    assert found.source is not None
    assert found.names == [f"sample {place}" for place in range(5)]
    assert len(found.source) == 3


@pytest.mark.parametrize(
    ("first", "decided", "doubt", "said"),
    [
        (True, False, "It hardly guesses better.", ["calibrated", "It hardly guesses better."]),
        (True, False, "", ["calibrated"]),
        (False, False, "doubt", []),
        (True, True, "doubt", []),
    ],
)
def test_the_end_of_a_training(
    first: bool, decided: bool, doubt: str, said: list[str], monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    done: list[str] = []

    def calibrate(path: object, progress: object) -> Any:
        done.append("calibrated")
        return SimpleNamespace(doubt=doubt)

    monkeypatch.setattr("labeltree.training.records.record.is_first_rank", lambda: first)
    monkeypatch.setattr(finish, "calibrate_run", calibrate)
    folder: Any = SimpleNamespace(path="r", decisions=SimpleNamespace(is_file=lambda: decided))
    with caplog.at_level(logging.WARNING):
        finish_run(folder, progress_bar=False)
    assert [*done, *caplog.messages] == said


def test_settings_that_name_a_place_are_left_out() -> None:
    settings = {
        "group_column": "patient", "keep_columns": ["site"], "unseen_classes": ["x"], "weights": "start",
        "vectors": "v", "encoder": "timm:./x", "data": "a/b", "note": "c:\\here", "home": "~me", "depth": 3,
        "table": {"image_folder": "photos", "sheet": "2", "synonyms": "s.csv"},
    }  # fmt: skip
    assert _without_places(settings) == {
        "group_column": None, "keep_columns": None, "unseen_classes": None, "weights": None, "vectors": None,
        "encoder": "timm:./x", "data": "a/b", "note": None, "home": None, "depth": 3,
        "table": {"image_folder": None, "sheet": "2", "synonyms": None},
    }  # fmt: skip
    assert public_data("/home/me/x.csv") == "exported"


def test_where_embeddings_of_one_kind_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ids are written where the table is the user's, and names of the files tell the kind."""
    saved: list[Any] = []
    taxonomy = SimpleNamespace(save=lambda file: None)
    source = SimpleNamespace(files=None, names=["i", "j"], sample_names=lambda: ["i", "j"], taxonomy=taxonomy)
    run = SimpleNamespace(network=None, weights_digest="00ff", source=source)
    monkeypatch.setattr(embed_module, "load_run", lambda *given, **named: run)
    monkeypatch.setattr(embed_module, "with_modality", lambda source, modality: source)
    monkeypatch.setattr(
        embed_module,
        "embed_source",
        lambda *given, **named: EmbeddingTable(torch.eye(2), torch.tensor([X, Y])),
    )
    monkeypatch.setattr(
        EmbeddingTable, "save", lambda self, file, taxonomy=None: saved.append((Path(file).name, self.ids))
    )
    for out, modality in ((None, "image"), (None, "both"), (tmp_path / "o.npz", "both")):
        embed_run(EmbedOptions(tmp_path, modality=modality, out=out))  # type: ignore[arg-type]
    (first, none), (second, _), (third, ids) = saved
    assert "image" in first
    assert "image" not in second
    assert (none, third, ids.tolist()) == (None, "o.npz", ["i", "j"])


def test_a_run_on_its_own_version_is_itself_unless_a_mapping_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run: Any = SimpleNamespace(taxonomy=TREE)
    monkeypatch.setattr(other_version.Taxonomy, "from_file", lambda file: TREE)
    monkeypatch.setattr(other_version, "run_by", lambda run, change: change)
    monkeypatch.setattr(other_version.VersionChange, "of", lambda old, new, mapping: mapping)
    assert run_on(run, "t.json") is run
    assert run_on(run, "t.json", "m.json") == "m.json"  # type: ignore[comparison-overlap]


def test_own_samples_are_seen_on_the_new_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_version, "trust_labels", lambda taxonomy: None)
    monkeypatch.setattr(other_version, "_source_on", lambda source, change: f"{source} on the new one")
    monkeypatch.setattr(other_version, "replace", lambda what, **changes: what)
    monkeypatch.setattr(other_version, "TrainedRun", lambda *parts, **named: (parts, named))
    change: Any = SimpleNamespace(mapping=SimpleNamespace(new=TREE), to_new=lambda nodes: nodes)
    for own, found in (("own", "own on the new one"), (None, None)):
        run: Any = SimpleNamespace(
            folder="f", network=SimpleNamespace(from_training=torch.tensor([1])), description="d",
            training_taxonomy=None, taxonomy="old", own_samples=own,
        )  # fmt: skip
        parts, named = other_version.run_by(run, change)  # type: ignore[misc]
        assert parts[3:] == ("old", found)
        assert named == {"base": run, "change": change}


def labels_of(kind: Any, missing: list[str] | None = None, **table: Any) -> RunLabels:
    settings = {"separator": None, "names": None, "synonyms": None} | table
    recipe = SimpleNamespace(table=SimpleNamespace(**settings), missing_labels=missing)
    return RunLabels(SimpleNamespace(recipe=recipe, taxonomy=TREE, change=None), kind)  # type: ignore[arg-type]


def test_labels_that_are_missing_or_lacking() -> None:
    one = labels_of("one", ["none"])
    assert one.find(("none",)) == MISSING
    assert one.find(("a", "none")) == A, "with the class above"
    assert one.find(("x",)) == X, "at any depth"
    assert one.find(("q",)) == UNKNOWN
    assert one.find(()) == MISSING
    several = labels_of("several")
    assert (several.find(("a", "x")), several.find(("q", "z"))) == (X, UNKNOWN)
    folders = labels_of("folders")
    assert folders.find(("train", "a"), ("a",)) == A
    assert folders.find(("train", "b"), ("b",)) == B
    assert folders.find(("train", "a")) == UNKNOWN, "it was another question"
    assert folders.find(("train", "a"), ("b",)) == B
    assert folders.find(("x",)) == UNKNOWN, "a folder is a path"


def test_names_of_labels_are_read_as_in_training(tmp_path: Path) -> None:
    synonyms = tmp_path / "s.csv"
    synonyms.write_text("synonym,accepted\nex,x\n")
    assert labels_of("one", synonyms=str(synonyms)).find(("ex",)) == X
    assert labels_of("one", names="plain").find(("A", "X ")) == X
    assert labels_of("folders", synonyms=str(synonyms)).find(("a", "ex")) == UNKNOWN


def test_columns_of_ones_and_zeros() -> None:
    """Of one row one class is marked, of the others none or two."""
    samples = BulkSamples.__new__(BulkSamples)
    samples._folder, samples._several = False, True
    samples._labels, samples._classes = ["x", "y", "z"], {}
    samples._ranks = SimpleNamespace(are_known=False)  # type: ignore[assignment]

    def path(*cells: str) -> tuple[str, ...]:
        sample: Any = SimpleNamespace(fields=dict(zip("xyz", cells, strict=True)))
        return samples._path(sample)

    assert [path("0", "1", "0"), path("0", "0", "0"), path("1", "0", "1")] == [("y",), (), ()]


@pytest.mark.parametrize(("seeks", "on_error"), [(True, "raise"), (False, "skip")])
def test_damage_is_passed_over_where_samples_are_not_counted(
    seeks: bool, on_error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from labeltree.inference.bulk import bulk_samples

    monkeypatch.setattr(bulk_samples, "stream_samples", lambda data, **named: named)
    samples = BulkSamples.__new__(BulkSamples)
    samples._data, samples._labels, samples._columns, samples.seeks = "d", ["l"], {"image_column": "i"}, seeks
    samples._ranks = SimpleNamespace(depth_column="rank")  # type: ignore[assignment]
    assert samples.stream(7) == {  # type: ignore[comparison-overlap]
        "skip": 7, "fields": ("l", "rank"), "on_error": on_error, "image_column": "i"
    }  # fmt: skip


def test_a_run_on_several_images_a_row_takes_no_folder_of_parts() -> None:
    samples = BulkSamples.__new__(BulkSamples)
    samples._run = SimpleNamespace(  # type: ignore[assignment]
        recipe=SimpleNamespace(table=SimpleNamespace(image_name=None, image_folder=None)),
        network=SimpleNamespace(encoder=SimpleNamespace(modality="image")), columns={"images": ("p", "q")},
    )  # fmt: skip
    table: Any = SimpleNamespace(columns=["p", "q", "r"])
    with pytest.raises(DataError, match=r"^the run was trained on several images a row \(p, q\), which"):
        samples._chosen_columns(table)
    table.columns = ["q"]
    assert samples._chosen_columns(table) == {"image_column": "q"}


def test_what_is_noted_of_a_draw() -> None:
    """To seven digits; nothing where the held-out samples are of groups."""
    seen = SimpleNamespace(
        distance=torch.tensor([0.123456789]).double(), certainty=torch.tensor([0.5]).double()
    )
    drift = SimpleNamespace(held=SimpleNamespace(groups=None), seen=lambda table, p: seen)
    rule = SimpleNamespace(probabilities=lambda scores: scores)
    decider: Any = SimpleNamespace(drift=drift, rule=rule, scores=lambda table: table.embeddings)
    draw = PartDraw(decider, 1)
    draw.add(EmbeddingTable(torch.eye(1), torch.tensor([-1])))
    assert draw.note() == {"distance": [0.1234568], "certainty": [0.5]}
    drift.held.groups = torch.tensor([1])
    assert draw.note() == {}


def test_how_long_a_process_has_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object) -> None:
        raise FolderInUseError("in use")

    monkeypatch.setattr(shared_decider, "open_decider", refuse)
    times = iter([0.0, 1e9])
    monkeypatch.setattr(shared_decider.time, "monotonic", lambda: next(times))
    monkeypatch.setattr(shared_decider, "_PATIENCE_S", 1800)
    run: Any = SimpleNamespace(folder=SimpleNamespace(path="r"))
    with pytest.raises(FolderInUseError, match=r"has waited (for )?30 minutes"):
        shared_decider.open_shared_decider(run, None)


def test_options_of_batches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Files are looked for from here; two options are of more than one sample."""
    from labeltree.inference.bulk import batch_model

    folder = SimpleNamespace(require=lambda: SimpleNamespace(path="r"))
    monkeypatch.setattr(batch_model, "RunFolder", lambda run: folder)
    monkeypatch.chdir(tmp_path)
    for name in ("per", "explained"):
        with pytest.raises(ValueError, match=f"^{name} does not go with batches"):
            BatchModel("r", "path", **{name: "group"})
    job = BatchModel("r", "path", cost="c.csv", taxonomy="t.json", mapping="m.json", labels="l")._job
    assert (job.cost, job.taxonomy) == (str(tmp_path / "c.csv"), str(tmp_path / "t.json"))
    assert (job.mapping, job.workers, job.labelled) == (str(tmp_path / "m.json"), 1, True)
    assert BatchModel("r", "path", cost="tree", workers=4)._job.cost == "tree"
    assert BatchModel("r", "path", workers=4)._job.workers == 4
