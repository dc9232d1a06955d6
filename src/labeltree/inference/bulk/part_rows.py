"""The rows that a bulk job writes: embeddings, or answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from labeltree.decisions import Answers
from labeltree.decisions.answers import truth_told
from labeltree.inference.bulk.job import BulkJob
from labeltree.inference.bulk.likeness import PartDraw
from labeltree.inference.decider import Decider
from labeltree.inference.load_run import TrainedRun
from labeltree.inference.predict import way_of_answering
from labeltree.runs import EmbeddingTable

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["AnswerRows", "EmbeddingRows", "Encoded", "Rows"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Encoded:
    """A batch of m samples, n of which could be read and encoded.

    Attributes:
        names: Names of all m samples, if they have any.
        problems: Why a sample has no result; None for the n.
        labels: Labels as texts, None where missing.
        nodes: Nodes of the labels, −1 where missing.
        features: `(n, f)` float32.
        embeddings: `(n, d)` float32.
    """

    names: Sequence[str | None]
    problems: Sequence[str | None]
    labels: Sequence[str | None]
    nodes: Sequence[int]
    features: Tensor
    embeddings: Tensor

    @property
    def readable(self) -> Array:
        """`(m,)` bool."""
        return np.array([problem is None for problem in self.problems], dtype=bool)


class Rows(Protocol):
    """Turns encoded samples into the rows of a file."""

    schema: pa.Schema

    def begin_part(self, number: int) -> None:
        """Begin a part; batches are of that part from now on."""

    def of(self, batch: Encoded) -> pa.RecordBatch:
        """The rows of a batch."""

    def end_part(self) -> dict[str, Any]:
        """End the part; what is to be noted of it."""


def _schema(fields: Sequence[tuple[str, Any]], run: TrainedRun, about: Mapping[str, Any]) -> Any:
    import pyarrow as pa

    metadata = {
        "geometry": run.network.objective.geometry.name,
        "curvature": str(run.recipe.curvature),
        "about": json.dumps(dict(about), ensure_ascii=False),
        "taxonomy": json.dumps(run.taxonomy.to_dict(), ensure_ascii=False),
    }
    return pa.schema([pa.field(name, kind) for name, kind in fields], metadata=metadata)


class EmbeddingRows:
    """Rows with the columns of an embeddings table; see `EmbeddingTable.load`.

    Columns: `sample`, `embeddings`, with `features` asked for `features`, if the network has a
    classifier `predictions` (nodes), `nodes` and, with labels, `labels`, and `problem`. Where a
    sample could not be read, embeddings and features are null, and predictions −1.

    Args:
        job: The job.
        run: The run.
        about: See `Decider.about`.
        labelled: Whether there are labels.
    """

    def __init__(self, job: BulkJob, run: TrainedRun, about: Mapping[str, Any], labelled: bool) -> None:
        import pyarrow as pa

        self._network = run.network
        self._features = job.features
        self._labelled = labelled
        self._dtype = np.dtype(job.dtype)
        number = pa.float32() if job.dtype == "float32" else pa.float16()
        with torch.inference_mode():
            none = torch.zeros(1, run.network.encoder.feature_dim, device=run.network.device)
            self._answers = run.network.objective.predict(none) is not None
        fields = [("sample", pa.string()), ("embeddings", pa.list_(number, run.network.objective.dim))]
        if job.features:
            fields.append(("features", pa.list_(number, run.network.encoder.feature_dim)))
        if self._answers:
            fields.append(("predictions", pa.int64()))
        fields.append(("nodes", pa.int64()))
        if labelled:
            fields.append(("labels", pa.string()))
        self.schema = _schema([*fields, ("problem", pa.string())], run, about)

    def begin_part(self, number: int) -> None:
        """Begin a part."""

    def end_part(self) -> dict[str, Any]:
        """End the part, of which nothing else is noted."""
        return {}

    def of(self, batch: Encoded) -> pa.RecordBatch:
        """The rows of a batch."""
        import pyarrow as pa

        readable = batch.readable
        columns: dict[str, Any] = {
            "sample": pa.array(batch.names, pa.string()),
            "embeddings": self._vectors(batch.embeddings, readable),
            "nodes": pa.array(batch.nodes, pa.int64()),
            "labels": pa.array(batch.labels, pa.string()),
            "problem": pa.array(batch.problems, pa.string()),
        }
        if self._features:
            columns["features"] = self._vectors(batch.features, readable)
        if self._answers:
            columns["predictions"] = pa.array(self._predictions(batch.features, readable))
        return pa.RecordBatch.from_arrays([columns[name] for name in self.schema.names], schema=self.schema)

    def _vectors(self, rows: Tensor, readable: Array) -> Any:
        import pyarrow as pa

        values = np.zeros((len(readable), rows.shape[1]), self._dtype)
        values[readable] = rows.numpy()
        return pa.FixedSizeListArray.from_arrays(
            pa.array(values.ravel()), values.shape[1], mask=pa.array(~readable)
        )

    def _predictions(self, features: Tensor, readable: Array) -> Array:
        answers = np.full(len(readable), -1, np.int64)
        if len(features):
            with torch.inference_mode():
                answer = self._network.objective.predict(features.to(self._network.device))
            assert answer is not None
            answers[readable] = self._network.from_training[answer.cpu()].numpy()
        return answers


class AnswerRows:
    """Rows of answers.

    Columns: `sample`, `node` and `answer` (the node's path), `probability`, `cut`, `guesses` (a
    list of `node`, `class`, `probability`), with reference samples in the run folder `unknown` and
    `p_known`, with a cost `expected_cost`, with labels `label_node`,
    `label` and `holds`, and `problem`. What is not known is null.

    Args:
        job: The job.
        decider: The run with its decision rule.
        labelled: Whether there are labels.
    """

    def __init__(self, job: BulkJob, decider: Decider, labelled: bool) -> None:
        import pyarrow as pa

        self._decider = decider
        self._labelled = labelled
        self.asked, self._answer = way_of_answering(decider, job)
        self._name: Callable[[int], str] = cache(decider.run.taxonomy.path_name)
        guess = pa.struct([("node", pa.int64()), ("class", pa.string()), ("probability", pa.float64())])
        fields = [
            ("sample", pa.string()),
            ("node", pa.int64()),
            ("answer", pa.string()),
            ("probability", pa.float64()),
            ("cut", pa.bool_()),
            ("guesses", pa.list_(guess)),
        ]
        if decider.novelty is not None:
            fields += [("unknown", pa.bool_()), ("p_known", pa.float64())]
        if job.cost is not None or job.optimise is not None:
            fields.append(("expected_cost", pa.float64()))
        if labelled:
            fields += [("label_node", pa.int64()), ("label", pa.string()), ("holds", pa.bool_())]
        about = decider.about(self.asked)
        self.about = about
        self.schema = _schema([*fields, ("problem", pa.string())], decider.run, about)
        self._draw: PartDraw | None = None

    def begin_part(self, number: int) -> None:
        """Begin a part, with a draw of its own."""
        self._draw = PartDraw(self._decider, number)

    def end_part(self) -> dict[str, Any]:
        """End the part; `seen` is what `tell_drift` reads."""
        return {"seen": {} if self._draw is None else self._draw.note()}

    def of(self, batch: Encoded) -> pa.RecordBatch:
        """The rows of a batch."""
        import pyarrow as pa

        run, places = self._decider.run, np.flatnonzero(batch.readable)
        columns: dict[str, list[Any]] = {name: [None] * len(batch.names) for name in self.schema.names}
        columns["sample"], columns["problem"] = list(batch.names), list(batch.problems)
        if len(places):
            table = EmbeddingTable(
                embeddings=batch.embeddings,
                nodes=torch.full((len(places),), -1),
                features=batch.features,
                geometry=run.network.objective.geometry.name,
                curvature=run.recipe.curvature,
            )
            self._fill(columns, places.tolist(), self._answer(table))
            if self._draw is not None:
                self._draw.add(table)
        if self._labelled:
            self._compare(columns, batch)
        return pa.RecordBatch.from_arrays(
            [pa.array(columns[field.name], field.type) for field in self.schema], schema=self.schema
        )

    def _fill(self, columns: dict[str, list[Any]], places: list[int], answers: Answers) -> None:
        nodes, guesses = answers.nodes.tolist(), answers.guesses.tolist()
        likely = answers.guess_probabilities.tolist()
        values = {
            "node": nodes,
            "answer": [self._name(node) for node in nodes],
            "probability": answers.probabilities.tolist(),
            "cut": answers.cut.tolist(),
            "guesses": [
                [
                    {"node": node, "class": self._name(node), "probability": p}
                    for node, p in zip(row, chances, strict=True)
                ]
                for row, chances in zip(guesses, likely, strict=True)
            ],
        }
        if answers.unknown is not None and answers.p_known is not None:
            values |= {"unknown": answers.unknown.tolist(), "p_known": answers.p_known.tolist()}
        if answers.costs is not None:
            values["expected_cost"] = answers.costs.tolist()
        for name, cells in values.items():
            for place, value in zip(places, cells, strict=True):
                columns[name][place] = value

    def _compare(self, columns: dict[str, list[Any]], batch: Encoded) -> None:
        columns["label"] = list(batch.labels)
        columns["label_node"] = [None if node < 0 else node for node in batch.nodes]
        decides = self._decider.rule.classes.judges(torch.as_tensor(batch.nodes)).tolist()
        both = [place for place, node in enumerate(columns["node"]) if node is not None and decides[place]]
        if both:
            answered = torch.tensor([columns["node"][place] for place in both])
            truth = torch.tensor([batch.nodes[place] for place in both])
            held = truth_told(answered, truth, self._decider.run.taxonomy)
            for place, holds in zip(both, held, strict=True):
                columns["holds"][place] = holds
