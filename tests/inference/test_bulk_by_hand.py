"""Which process of a bulk job does what, what its processes say together, and the cells of batches."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from labeltree.data.streaming import StreamedSample
from labeltree.errors import DataError, LabeltreeError, RunError, WriteError
from labeltree.inference.bulk import job as job_module
from labeltree.inference.bulk import launch_processes, process
from labeltree.inference.bulk.batch_model import BatchModel, _write_name
from labeltree.inference.bulk.job import BulkDone, BulkJob
from labeltree.inference.bulk.launch_processes import _error, _launched, run_bulk
from labeltree.inference.bulk.process import Place, _Work

JOB = BulkJob("run", "data", "out", "predict")


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The work of process 1 of 8, four of which are on this machine, on 45 samples in parts of ten."""
    monkeypatch.setattr(process, "SampleEncoder", lambda network: "encoder")

    def make(what: str = "predict", progress: Any = print, **samples: Any) -> _Work:
        job: Any = SimpleNamespace(
            part_size=10, threads=lambda processes: 100 + processes, what=what, data="d"
        )
        network: Any = SimpleNamespace(batch_size=lambda most: 4)
        return _Work(job, Place(1, 8, 1, 4), network, SimpleNamespace(**samples), None, None, progress)  # type: ignore[arg-type]

    return make


def test_the_share_of_a_process(work: Any) -> None:
    made = work(count=lambda: 45)
    assert (made._threads, made._message, made._batch) == (104, "answering for d", 4)
    assert work("embed")._message == "embedding d"
    made._count()
    assert made._total == 6, "45 of eight processes, rounded up"
    unknown = work(count=lambda: None)
    unknown._count()
    assert unknown._total == 0


def test_cores_are_shared_among_the_processes_of_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_module, "cores", lambda: 36)
    assert [JOB.threads(processes) for processes in (1, 4, 100)] == [16, 9, 1]
    assert BulkJob("run", "data", "out", workers=3).threads(4) == 3


class Parts:
    """A folder in which some parts are there already."""

    def __init__(self, there: set[int], names: str = "") -> None:
        self.there, self.names = there, names

    def present(self) -> set[int]:
        return self.there

    def note(self, number: int) -> dict[str, str]:
        return {"names": self.names}

    def changed(self) -> DataError:
        return DataError("changed")


class Stream:
    """Twenty-five samples, of which it is noted from where on they are read."""

    def __init__(self, *, seeks: bool, listing: str | None) -> None:
        self.seeks, self.listing, self.begun = seeks, listing, list[int]()

    def stream(self, skip: int = 0) -> Iterator[StreamedSample]:
        self.begun.append(skip)
        return (StreamedSample(f"s{number}", None) for number in range(skip, 25))

    def count(self) -> int:
        return 25


def batches(
    monkeypatch: pytest.MonkeyPatch,
    place: Place,
    there: set[int],
    *,
    seeks: bool = False,
    listing: str | None = "d",
) -> tuple[list[tuple[int, str, int]], list[int], int]:
    monkeypatch.setattr(process, "SampleEncoder", lambda network: "encoder")
    job: Any = SimpleNamespace(part_size=5, threads=lambda processes: 1, what="embed", data="d")
    network: Any = SimpleNamespace(batch_size=lambda most: 3)
    samples: Any = Stream(seeks=seeks, listing=listing)
    made = _Work(job, place, network, samples, None, Parts(there), print)  # type: ignore[arg-type]
    found = [(each.part, each.samples[0].name, len(each.samples)) for each in made._batches()]
    return found, samples.begun, made.parts


@pytest.mark.parametrize("seeks", [False, True])
def test_parts_that_are_there_or_of_others_are_passed_over(
    seeks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of five parts of five: process 1 of 2 makes 1 and 3, and 0, 2 and 4 are those of the other."""
    found, begun, parts = batches(monkeypatch, Place(1, 2), {0, 1}, seeks=seeks)
    assert found == [(3, "s15", 3), (3, "s18", 2)]
    assert parts == 5
    assert begun == ([10, 15] if seeks else [10]), "what is known is not read again"
    alone, begun, parts = batches(monkeypatch, Place(), {0, 1, 3}, seeks=seeks)
    assert [part for part, _, _ in alone] == [2, 2, 4, 4]
    assert (parts, begun[0]) == (5, 10)
    every, _, parts = batches(monkeypatch, Place(), {0, 1, 2, 3, 4}, seeks=seeks)
    assert (every, parts) == ([], 5)


def test_the_names_of_a_folder_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images are listed again, and a part that is there has to be of them."""
    with pytest.raises(DataError, match="changed"):
        batches(monkeypatch, Place(), {0}, listing=None)


class Process:
    """A further process that has ended, and what it has said."""

    made: ClassVar[list[Any]] = []

    def __init__(self, job: BulkJob, rank: int, world: int) -> None:
        self.counts = ((10, 40), (5, 41))[rank]
        self.message = "embedding d" if rank else ""
        self.done: BulkDone | None = BulkDone("out", 50 if rank else 20, 3, 4, 5, 30 + rank, 1.0, rank == 1)
        self.error = None
        self.stopped = False
        Process.made.append(self)

    def ended(self) -> int:
        return 0

    def stop(self) -> None:
        self.stopped = True


def test_what_two_processes_have_done_together(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(launch_processes, "_Process", Process)
    monkeypatch.setattr(launch_processes, "EVERY_S", 0)
    Process.made.clear()
    told: list[tuple[Any, ...]] = []
    embed = BulkJob("run", "data", str(tmp_path / "out"), "embed")
    done = run_bulk(embed, devices=2, progress=lambda *said: told.append(said))
    assert told[0] == ("embedding d", 15, 81)
    assert (done.samples, done.written, done.complete, done.parts) == (50, 61, True, 5)
    assert all(each.stopped for each in Process.made)


def test_how_a_process_has_ended() -> None:
    def said(code: int, kind: str | None = None) -> Exception:
        error = None if kind is None else {"kind": kind, "message": "the reason"}
        return _error(SimpleNamespace(error=error, ended=lambda: code), 2, 5)  # type: ignore[arg-type]

    assert str(said(-9)) == (
        "process 2 of 5 was killed by signal 9; the same command goes on with what is left"
    )
    assert "process 2 of 5 ended with exit code 3;" in str(said(3))
    assert isinstance(said(3), RunError)
    for kind, error in (
        ("DataError", DataError), ("ValueError", ValueError), ("WriteError", LabeltreeError),
        ("Nonsense", LabeltreeError),
    ):  # fmt: skip
        assert type(said(1, kind)) is error
        assert str(said(1, kind)) == "the reason"
    assert not isinstance(said(1, "WriteError"), WriteError)


@pytest.mark.parametrize(("here", "local"), [("2", 2), (None, 8), ("4(x2)", 8)])
def test_how_many_processes_are_on_this_machine(
    here: str | None, local: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("RANK", "5"),
        ("WORLD_SIZE", "8"),
        ("LOCAL_RANK", "1"),
        ("TORCHELASTIC_RUN_ID", "7"),
    ):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    if here is not None:
        monkeypatch.setenv("LOCAL_WORLD_SIZE", here)
    assert _launched() == Place(5, 8, 1, local)
    calls: list[Any] = []
    monkeypatch.setattr(
        launch_processes, "run_process", lambda job, place=None, progress=None, run=None: calls.append(
            (place, progress, run)
        )
    )  # fmt: skip
    run: Any = "run"
    run_bulk(JOB, progress=print, run=run)
    monkeypatch.setenv("RANK", "0")
    run_bulk(JOB, progress=print, run=run)
    assert calls == [(Place(5, 8, 1, local), None, "run"), (Place(0, 8, 1, local), print, "run")]


def test_names_of_cells_and_their_labels() -> None:
    """Without a column of names paths name themselves; with one, whatever it holds is written."""
    given: list[Any] = []

    def encode(names: list[Any], contents: list[Any], labels: list[Any]) -> str:
        given.append((names, contents, labels))
        return "encoded"

    opened: Any = SimpleNamespace(
        model=SimpleNamespace(network=SimpleNamespace(batch_size=lambda most: 2)),
        content=lambda column, folder, cell: (column, folder, cell),
        label=lambda text: (text, 1),
        encoder=SimpleNamespace(encode=encode),
    )
    model = BatchModel.__new__(BatchModel)
    model._column, model._labels, model._folder, model._job = "path", "label", "here", JOB
    day = datetime.date(2026, 1, 2)
    batch = {"path": ["a", b"b", "c"], "name": [day, b"x", None], "label": ["p", None, "q"]}
    for name, shown in ((None, ["a", None, "c"]), ("name", ["2026-01-02", "x", None])):
        given.clear()
        model._name = name
        assert list(model._encoded(batch, opened)) == ["encoded", "encoded"]
        assert [each for names, _, _ in given for each in names] == shown
        assert [each[2] for _, contents, _ in given for each in contents] == ["a", b"b", "c"]
        assert [label for _, _, labels in given for label in labels] == [("p", 1), (None, 1), ("q", 1)]
    assert [_write_name(value) for value in (3, 3.0, np.int64(4), True, b"", " ")] == [
        "3", "3", "4", "True", None, None,
    ]  # fmt: skip


def test_sums_are_of_readable_samples_with_a_label() -> None:
    """The second of three cannot be read; its label belongs to no features."""
    part = SimpleNamespace(
        features=torch.tensor([[1.0, 2.0], [3.0, 4.0]]), nodes=[1, 2, 3],
        readable=np.array([True, False, True]),
    )  # fmt: skip
    model: Any = SimpleNamespace(
        _labels="label", _job=None, _encoded=lambda batch, opened: [part],
    )  # fmt: skip
    opened = SimpleNamespace(model=SimpleNamespace(network=SimpleNamespace(feature_dim=2)))
    with pytest.MonkeyPatch.context() as patch:
        from labeltree.inference.bulk import batch_model

        patch.setattr(batch_model, "_open", lambda job: opened)
        sums = BatchModel.moments(model, "batch")
    assert sums.count == 2
    assert sums.labels[:, 0].tolist() == [1, 3]
    with pytest.raises(ValueError, match="name their column"):
        BatchModel.moments(SimpleNamespace(_labels=None), "batch")  # type: ignore[arg-type]


def test_what_a_process_says_is_kept_as_it_says_it() -> None:
    done = BulkDone("out", 8, 7, 0, 1, 7, 2.5, True)
    lines = [{"counts": ["embedding d", 3, 8]}, {"done": dataclasses.asdict(done)}]
    heard: Any = launch_processes._Process.__new__(launch_processes._Process)
    heard._process = SimpleNamespace(stdout=[json.dumps(line) for line in lines])
    heard._listen()
    assert (heard.message, heard.counts) == ("embedding d", (3, 8))
    assert heard.done == done
    heard._process = SimpleNamespace(stdout=[json.dumps({"error": {"kind": "DataError", "message": "m"}})])
    heard._listen()
    assert heard.error == {"kind": "DataError", "message": "m"}
