"""A finished run as a model that embeds new samples and predicts their labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from labeltree.decisions import Answers
from labeltree.errors import DataError
from labeltree.inference.answers.answered import Answered
from labeltree.inference.named_samples import open_other
from labeltree.inference.opened_model import OpenedModel
from labeltree.inference.predict import Request, answer_with
from labeltree.inference.run_classifiers import other_report
from labeltree.inference.run_embeddings import embed_source
from labeltree.models.encoder import Modality
from labeltree.options.answer_options import FALSE_ALARMS, AnswerOptions, PredictOptions
from labeltree.options.choices import ExportFormat
from labeltree.options.model_options import LoadOptions
from labeltree.options.schema import OptionError, describes
from labeltree.options.shared import NO_LABELS, NO_TABLE
from labeltree.runs import EmbeddingTable
from labeltree.training.tokens_and_views import Inputs

if TYPE_CHECKING:
    from labeltree.inference.bulk import BulkDone

__all__ = ["Model"]

_AT_ONCE = 256  # samples that the network reads at once


@describes(LoadOptions)
class Model(OpenedModel):
    """A finished run, for embedding and prediction of new samples.

    The run folder alone is needed: neither the samples that the run was trained on, nor Lightning. Threads
    can share a model. Runs of versions before 0.1.0 need their data once, see `Model.predict`. On another
    version of its taxonomy a run is calibrated anew in memory, and its folder stays as it is.

    Args:
        run: The run folder, or the folder of an exported model.

    Raises:
        RunError: If the folder is not a finished run.
        TaxonomyError: If the taxonomy or the mapping cannot be read, or is of other taxonomies.
        ValueError: If there is a mapping without a taxonomy.
    """

    def embed(
        self,
        samples: Any = (),
        *,
        texts: Sequence[str | None] | str = (),
        data: str | Path | None = None,
        table: Mapping[str, Any] | None = None,
        modality: Modality = "both",
    ) -> EmbeddingTable:
        """Features and embeddings of samples.

        A run on images and texts embeds both into one space: images alone, texts alone, or, if `samples`
        and `texts` are given together, each image with its text. Either may then be None for a sample.

        Args:
            samples: One or several: image files, PIL images or arrays `(h, w)` or `(h, w, 3)` uint8; for
                a run on texts, texts; for one on vectors, an array `(n, d)` or a vector `(d,)`. The path of
                a folder, a table or a file of vectors is as `data`.
            texts: Texts, instead of samples or, for a run on images and texts, beside them.
            data: a folder, a table, a file of vectors or a data set, instead of samples; its labels, if any,
                are not read.
            table: Settings of a table that differ from those of training: `{"sheet": "New"}`.
            modality: For a run on images and texts, what to embed: the `image` or the `text` alone, or
                `both`, as far as a sample has them.

        Returns:
            a table with one row per sample, in the given order; `instances` are positions in that order.

        Raises:
            DataError: If a sample cannot be read, or lacks the `modality`; the message names it.
            ValueError: Unless exactly one of `samples`, `texts` and `data` is given (or both of the
                first two to a run on images and texts, as many of each).
        """
        samples, data = self._take_data(samples, data)
        named = self._named(samples, texts, data)
        _require_data(data, table)
        if named is None:
            other = open_other(self.run, str(data), unlabelled=True, table=table)
            return embed_source(self.network, other, keep=False, modality=modality)
        for place, reason in sorted(named.skipped.items()):
            raise DataError(f"'{named.names[place]}' cannot be embedded: {reason}; leave it out")
        assert named.source is not None
        return embed_source(self.network, named.source, keep=False, modality=modality)

    @describes(PredictOptions)
    def predict(
        self,
        samples: Any = (),
        *,
        texts: Sequence[str | None] | str = (),
        data: str | Path | None = None,
        table: Mapping[str, Any] | None = None,
        labelled: bool = False,
        coverage: float = 0.9,
        top: int = 3,
        unknown: float = FALSE_ALARMS,
        explained: bool = False,
        per: str | None = None,
        questions: Sequence[str] = (),
    ) -> Answered:
        """Predict a node of the taxonomy for every sample, at the finest depth that keeps the coverage.

        Args:
            samples: As in `embed`; unreadable ones are listed in `skipped` of the result.
            texts: Texts, instead of samples or beside them, as in `embed`.
            data: a folder, a table or a data set, instead of samples.

        Answers are on the version of the taxonomy that `lt.load(run, taxonomy=…)` was given.

        Raises:
            LabeltreeError: If the run or the samples are missing, unreadable or unsuitable. A run that has
                not been calibrated, of an earlier version, is calibrated first and needs its data for that.
            ValueError: Unless exactly one of `samples`, `texts` and `data` is given, or if an option is
                not valid.
        """
        samples, data = self._take_data(samples, data)
        named = self._named(samples, texts, data)
        _require_data(data, table)
        if labelled and data is None:
            raise OptionError(f"`labelled` {NO_LABELS}")
        spec = None if data is None else str(data)
        request = Request(data=spec, labelled=labelled, named=named, table=table, questions=tuple(questions))
        decider = self.decider
        if self._warning is None:
            self._warning = other_report(self.run.folder.path, decider.chosen) or ""
        options = AnswerOptions(coverage=coverage, top=top, unknown=unknown, explained=explained, per=per)
        return answer_with(decider, request, options, warning=self._warning or None)

    def embed_to(self, data: str | Path, out: str | Path, **options: Any) -> BulkDone:
        """Embed any number of samples in constant memory, into a folder of Parquet files.

        The same call goes on with a folder that was begun. Samples that cannot be read have rows, too, with a
        `problem`. `EmbeddingTable.load` reads the folder, if its rows fit in memory.

        Args:
            data: a folder of images, a table, or shards.
            out: The folder to write.
            **options: Fields of `labeltree.inference.bulk.BulkJob`, such as `features=True`; and
                `devices` and `progress`, see `labeltree.inference.bulk.run_bulk`. With several devices
                each process loads the run again.

        Raises:
            LabeltreeError: See `labeltree.inference.bulk.run_bulk`.
            TypeError: If there is no such option.
        """
        return self._run_bulk_job("embed", data, out, options)

    def predict_to(self, data: str | Path, out: str | Path, **options: Any) -> BulkDone:
        """Answer for any number of samples in constant memory, into a folder of Parquet files.

        Args:
            data: a folder of images, a table, or shards.
            out: The folder to write.
            **options: As in `embed_to`, such as `coverage=0.95` or `labelled=True`.

        Raises:
            LabeltreeError: See `labeltree.inference.bulk.run_bulk`.
            TypeError: If there is no such option.
        """
        return self._run_bulk_job("predict", data, out, {"labelled": False} | options)

    def _run_bulk_job(
        self, what: Literal["embed", "predict"], data: str | Path, out: str | Path, options: dict[str, Any]
    ) -> BulkDone:
        from labeltree.inference.bulk import BulkJob, run_bulk

        process = {name: options.pop(name) for name in ("devices", "progress") if name in options}
        job = BulkJob(
            run=str(self.folder.path),
            data=str(data),
            out=str(out),
            what=what,
            **{"classifier": self._classifier, **self._version, **options},
        )
        return run_bulk(job, **process, run=None if process.get("devices", 1) > 1 else self.run)

    def embed_batch(self, samples: Sequence[Any]) -> tuple[Tensor, Tensor]:
        """Features `(n, f)` and embeddings `(n, d)` float32 of samples that are in memory.

        For services: nothing is read from or written to disk, and threads may call it at the same time.

        Args:
            samples: n PIL images or arrays `(h, w)` or `(h, w, 3)` uint8; for a run on texts, texts; for
                one on vectors, vectors; for a run on images and texts either, or pairs `(image, text)`.

        Raises:
            DataError: If a sample is broken or of the wrong kind; the message gives its position.
        """
        parts = [
            self.embed_inputs(self.inputs(samples[start : start + _AT_ONCE], first=start))
            for start in range(0, max(len(samples), 1), _AT_ONCE)
        ]
        return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])

    def embed_inputs(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Features `(n, f)` and embeddings `(n, d)` float32, on the CPU, of what `inputs` returns.

        The two steps of `embed_batch`: a service decodes in several threads and embeds in one.
        """
        if not len(inputs):
            return torch.empty(0, self.encoder.feature_dim), torch.empty(0, self.network.objective.dim)
        with torch.inference_mode():
            features, embeddings = self.network(self.network.plain(inputs.to(self.network.device)))
        return features.cpu().clone(), embeddings.cpu().clone()

    def answer_batch(
        self,
        samples: Sequence[Any],
        *,
        coverage: float = 0.9,
        top: int = 3,
        unknown: float = FALSE_ALARMS,
    ) -> Answers:
        """Answers for samples that are in memory; see `embed_batch` for the samples, `predict` for the rest.

        `model.taxonomy.path_name(node)` names the nodes of the answers.
        """
        features, embeddings = self.embed_batch(samples)
        return self.answer_embedded(features, embeddings, coverage=coverage, top=top, unknown=unknown)

    def answer_embedded(
        self,
        features: Tensor,
        embeddings: Tensor,
        *,
        coverage: float = 0.9,
        top: int = 3,
        unknown: float = FALSE_ALARMS,
    ) -> Answers:
        """Answers for the features and embeddings that `embed_batch` returns."""
        decider = self.decider
        geometry = self.network.objective.geometry.name
        table = EmbeddingTable(
            embeddings=embeddings,
            nodes=torch.full((len(features),), -1),
            features=features,
            geometry=geometry,
            curvature=self.recipe.curvature,
        )
        return decider.answer(table, AnswerOptions(coverage=coverage, top=top, unknown=unknown))

    def export(
        self,
        out: str | Path,
        formats: Sequence[ExportFormat] = ("onnx", "safetensors"),
        *,
        name: str | None = None,
        with_reference: bool = False,
        replace: bool = False,
    ) -> Path:
        """Write the model as a folder for others; see `export_model` in `labeltree.inference.export`."""
        from labeltree.inference.export.export_folder import export_model

        return export_model(
            self.decider, out, formats, name=name, with_reference=with_reference, replace=replace
        )

    def info(self) -> str:
        """What the model is, on one screen, as `labeltree info` prints it."""
        from labeltree.inference.info_text import info_text
        from labeltree.inference.model_facts import model_facts
        from labeltree.notebooks import Screen

        decider = self.decider if self.folder.decisions.is_file() else None
        return Screen(info_text(model_facts(self.run, decider), self.folder.path))


def _require_data(data: str | Path | None, table: Mapping[str, Any] | None) -> None:
    """Raise an OptionError if there are settings of a table, but no table."""
    if table is not None and data is None:
        raise OptionError(f"`table` {NO_TABLE}")
