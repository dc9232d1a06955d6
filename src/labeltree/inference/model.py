"""A finished run as a model that embeds new samples and predicts their labels."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from labeltree.data import ArrayStore, Source
from labeltree.data.images.decode import pixels_of
from labeltree.decisions import Answers, Promise
from labeltree.errors import DataError
from labeltree.inference.calibrate_run import Decider, open_decider
from labeltree.inference.load_run import TrainedRun, load_run
from labeltree.inference.named_samples import NamedSamples, open_images, open_other, open_texts, with_texts
from labeltree.inference.other_version import run_on
from labeltree.inference.predict import Answered, Request, answer_with
from labeltree.inference.run_classifiers import other_report
from labeltree.inference.run_embeddings import embed_source
from labeltree.models import Encoder, ImagesAndTexts
from labeltree.models.encoder import Modality
from labeltree.options.answers import FALSE_ALARMS, AnswerOptions
from labeltree.options.shared import ClassifierChoice
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.versions.between_versions import check_version
from labeltree.training.input_batches import Inputs
from labeltree.training.network import Network
from labeltree.training.recipe import Recipe

if TYPE_CHECKING:
    from labeltree.inference.bulk import BulkDone
    from labeltree.options.models import ExportFormat

__all__ = ["Model", "Samples"]

Samples = "Sequence[str | Path | Image | np.ndarray[Any, Any]] | str | Path | Image | np.ndarray[Any, Any]"
_AT_ONCE = 256  # samples that the network reads at once


class Model:
    """A finished run, for embedding and prediction of new samples.

    The run folder alone is needed: neither the samples that the run was trained on, nor Lightning. Threads
    can share a model. Runs of versions before 0.1.0 need their data once, see `Model.predict`.

    Args:
        run: the run folder, or the folder of an exported model.
        classifier: the classifier to answer with from now on: ``feature-means``, ``prototypes``, ``lda``,
            ``probe`` or ``own``; None: the one chosen before, see `run_classifiers`.
        taxonomy: file of another version of the run's taxonomy, a tree, on which it answers; None = its own.
            The run is calibrated anew on it in memory, and its folder stays as it is.
        mapping: file that says what became of each node of the run's taxonomy; None = what is certain, see
            `TaxonomyMapping.between`.
        device: device of the network, such as ``cuda:1``; None = a GPU if there is one, unless the recipe
            says ``accelerator: cpu``.

    Raises:
        RunError: if the folder is not a finished run.
        TaxonomyError: if the taxonomy or the mapping cannot be read, or is of other taxonomies.
        ValueError: if there is a mapping without a taxonomy.
    """

    def __init__(
        self,
        run: str | os.PathLike[str],
        *,
        classifier: ClassifierChoice | None = None,
        taxonomy: str | Path | None = None,
        mapping: str | Path | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        self.folder = (run if isinstance(run, RunFolder) else RunFolder(run)).require()
        check_version(taxonomy, mapping)
        self.run: TrainedRun = load_run(self.folder.path, own_data=False, device=device)
        if taxonomy is not None:
            self.run = run_on(self.run, taxonomy, mapping)
        self._version = {
            "taxonomy": None if taxonomy is None else str(taxonomy),
            "mapping": None if mapping is None else str(mapping),
        }
        self._classifier = classifier
        self._opening = threading.Lock()
        self._opened: Decider | None = None
        self._warning: str | None = None

    @property
    def decider(self) -> Decider:
        """The classifier and decision rule of the run; a run that is not calibrated yet is calibrated."""
        with self._opening:
            if self._opened is None:
                self._opened = open_decider(self.run, self._classifier)
            return self._opened

    @property
    def taxonomy(self) -> Taxonomy:
        """The taxonomy of the run's labels and answers."""
        return self.run.taxonomy

    @property
    def recipe(self) -> Recipe:
        """All settings that the run was trained with."""
        return self.run.recipe

    @property
    def network(self) -> Network:
        """Encoder and head, a PyTorch module from the encoder's inputs to features and embeddings."""
        return self.run.network

    @property
    def encoder(self) -> Encoder:
        """The encoder, a PyTorch module from pixels or tokens to features."""
        return self.run.network.encoder

    @property
    def digest(self) -> str:
        """A fingerprint of everything that answers depend on: weights, classifier, calibration, taxonomy."""
        return self.decider.digest

    def embed(
        self,
        samples: Any = (),
        *,
        texts: Sequence[str | None] | str = (),
        data: str | Path | None = None,
        modality: Modality = "both",
    ) -> EmbeddingTable:
        """Features and embeddings of samples.

        A run on images and texts embeds both into one space: images alone, texts alone, or, if ``samples``
        and ``texts`` are given together, each image with its text. Either may then be None for a sample.

        Args:
            samples: one or several: image files, PIL images or arrays ``(h, w)`` or ``(h, w, 3)`` uint8; for
                a run on texts, texts.
            texts: texts, instead of samples or, for a run on images and texts, beside them.
            data: a folder, a table or a data set, instead of samples; its labels, if any, are not read.
            modality: for a run on images and texts, what to embed: the ``image`` or the ``text`` alone, or
                ``both``, as far as a sample has them.

        Returns:
            a table with one row per sample, in the given order; ``instances`` are positions in that order.

        Raises:
            DataError: if a sample cannot be read, or lacks the ``modality``; the message names it.
            ValueError: unless exactly one of ``samples``, ``texts`` and ``data`` is given (or both of the
                first two to a run on images and texts, as many of each).
        """
        named = self._named(samples, texts, data)
        if named is None:
            other = open_other(self.run, str(data), unlabelled=True)
            return embed_source(self.network, other, keep=False, modality=modality)
        for place, reason in sorted(named.skipped.items()):
            raise DataError(f"'{named.names[place]}' cannot be embedded: {reason}; leave it out")
        assert named.source is not None
        return embed_source(self.network, named.source, keep=False, modality=modality)

    def predict(
        self,
        samples: Any = (),
        *,
        texts: Sequence[str | None] | str = (),
        data: str | Path | None = None,
        labelled: bool = False,
        coverage: float = 0.9,
        top: int = 3,
        unknown: float = FALSE_ALARMS,
        explained: bool = False,
        per: str | None = None,
    ) -> Answered:
        """Predict a node of the taxonomy for every sample, at the finest depth that keeps the coverage.

        Args:
            samples: as in `embed`; unreadable ones are listed in ``skipped`` of the result.
            texts: texts, instead of samples or beside them, as in `embed`.
            data: a folder, a table or a data set, instead of samples.
            labelled: compare the answers with the labels of ``data``.
            coverage: the share of answers that must hold the truth, for new samples of the same kind.
            top: number of most probable classes to list beside each answer.
            unknown: the share of samples of known classes that may be called unknown; 0: none is. See
                `labeltree.decisions.mark_unknown`.
            explained: name the nearest training samples for and against each step of an answer, as ``why``.
            per: one answer for all samples of ``data`` with the same value here: ``group`` (a patient's
                images), or a column that the run keeps, such as ``lesion``.

        Raises:
            LabeltreeError: if the run or the samples are missing, unreadable or unsuitable. A run that has
                not been calibrated, of an earlier version, is calibrated first and needs its data for that.
            ValueError: unless exactly one of ``samples``, ``texts`` and ``data`` is given, or if an option is
                not valid.
        """
        named = self._named(samples, texts, data)
        request = Request(data=None if data is None else str(data), labelled=labelled, named=named)
        decider = self.decider
        if self._warning is None:
            self._warning = other_report(self.run.folder.path, decider.chosen) or ""
        options = AnswerOptions(coverage=coverage, top=top, unknown=unknown, explained=explained, per=per)
        return answer_with(decider, request, options, warning=self._warning or None)

    def embed_to(self, data: str | Path, out: str | Path, **options: Any) -> BulkDone:
        """Embed any number of samples in constant memory, into a folder of Parquet files.

        The same call goes on with a folder that was begun. Samples that cannot be read have rows, too, with a
        ``problem``. `EmbeddingTable.load` reads the folder, if its rows fit in memory.

        Args:
            data: a folder of images, a table, or shards.
            out: the folder to write.
            **options: fields of `labeltree.inference.bulk.BulkJob`, such as ``features=True``; and
                ``devices`` and ``progress``, see `labeltree.inference.bulk.run_bulk`. With several devices
                each process loads the run again.

        Raises:
            LabeltreeError: see `labeltree.inference.bulk.run_bulk`.
            TypeError: if there is no such option.
        """
        return self._run_bulk_job("embed", data, out, options)

    def predict_to(self, data: str | Path, out: str | Path, **options: Any) -> BulkDone:
        """Answer for any number of samples in constant memory, into a folder of Parquet files.

        Args:
            data: a folder of images, a table, or shards.
            out: the folder to write.
            **options: as in `embed_to`, such as ``coverage=0.95`` or ``labelled=True``.

        Raises:
            LabeltreeError: see `labeltree.inference.bulk.run_bulk`.
            TypeError: if there is no such option.
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
        """Features ``(n, f)`` and embeddings ``(n, d)`` float32 of samples that are in memory.

        For services: nothing is read from or written to disk, and threads may call it at the same time.

        Args:
            samples: n PIL images or arrays ``(h, w)`` or ``(h, w, 3)`` uint8; for a run on texts, texts; for
                a run on images and texts either, or pairs ``(image, text)``.

        Raises:
            DataError: if a sample is broken or of the wrong kind; the message gives its position.
        """
        parts = [
            self.embed_inputs(self.inputs(samples[start : start + _AT_ONCE], first=start))
            for start in range(0, max(len(samples), 1), _AT_ONCE)
        ]
        return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])

    def inputs(self, samples: Sequence[Any], *, first: int = 0) -> Inputs:
        """Samples that are in memory as the network reads them, for `embed_inputs`.

        Args:
            samples: n samples, see `embed_batch`.
            first: position of the first one, for messages.

        Returns:
            images ``(n, c, h, w)`` uint8 or, for a run on texts, tokens ``(n, 2, t)``, on the CPU; or both.

        Raises:
            DataError: if a sample is broken or of the wrong kind.
        """
        if self.encoder.modality == "both":
            return self._both_inputs(samples, first)
        if self.encoder.modality == "text":
            for place, text in enumerate(samples, first):
                if not isinstance(text, str) or not text.strip():
                    raise DataError(f"sample {place} is {_kind(text)}; the run reads texts")
            return self.network.tokens(samples) if len(samples) else torch.empty(0, 2, 1, dtype=torch.int32)
        if not len(samples):
            assert self.network.image_shape is not None
            return torch.empty(0, *self.network.image_shape, dtype=torch.uint8)
        return torch.from_numpy(np.stack([self._pixels(one, at) for at, one in enumerate(samples, first)]))

    def _both_inputs(self, samples: Sequence[Any], first: int) -> ImagesAndTexts:
        """Images, texts, and pairs of them, as `inputs` returns them."""
        assert self.network.image_shape is not None
        pixels = np.zeros((len(samples), *self.network.image_shape), np.uint8)
        texts, present = [], torch.zeros(len(samples), 2, dtype=torch.bool)
        for row, sample in enumerate(samples):
            pair = (
                sample
                if isinstance(sample, tuple)
                else (None, sample)
                if isinstance(sample, str)
                else (sample, None)
            )
            if len(pair) != 2:
                raise DataError(
                    f"sample {first + row} is a tuple of {len(pair)}; expected an image and a text"
                )
            image, text = pair
            if image is not None:
                pixels[row] = self._pixels(image, first + row)
            if text is not None and not isinstance(text, str):
                raise DataError(f"sample {first + row} is {_kind(text)}; expected a text beside its image")
            texts.append(text or "")
            present[row] = torch.tensor([image is not None, bool(texts[-1].strip())])
            if not bool(present[row].any()):
                raise DataError(f"sample {first + row} has neither an image nor a text")
        tokens = self.network.tokens(texts) if texts else torch.empty(0, 2, 1, dtype=torch.int32)
        return ImagesAndTexts(torch.from_numpy(pixels), tokens, present)

    def embed_inputs(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Features ``(n, f)`` and embeddings ``(n, d)`` float32, on the CPU, of what `inputs` returns.

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

        ``model.taxonomy.path_name(node)`` names the nodes of the answers.
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
        return decider.answer(table, Promise(coverage), top=top, unknown=unknown)

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
        """What the model is, on one screen, as ``labeltree info`` prints it."""
        from labeltree.inference.facts import model_facts
        from labeltree.inference.info_text import info_text

        decider = self.decider if self.folder.decisions.is_file() else None
        return info_text(model_facts(self.run, decider), self.folder.path)

    def _pixels(self, sample: Any, place: int) -> np.ndarray[Any, Any]:
        from PIL import Image

        assert self.network.image_shape is not None
        channels, size, _ = self.network.image_shape
        image = sample
        if isinstance(sample, Tensor):
            sample = sample.numpy()
        if isinstance(sample, np.ndarray):
            if sample.dtype != np.uint8 or not (sample.ndim == 2 or sample.shape[2:] in ((3,), (4,))):
                raise DataError(
                    f"sample {place} is an array {sample.dtype} {sample.shape}; expected uint8 (h, w) or "
                    "(h, w, 3)"
                )
            image = Image.fromarray(sample)
        if not isinstance(image, Image.Image):
            raise DataError(f"sample {place} is {_kind(sample)}; expected a PIL image or an array of pixels")
        try:
            return pixels_of(image, size, channels, self.network.preprocessing)
        except DataError as error:
            raise DataError(f"sample {place} cannot be read: {error}") from error

    def _named(
        self, samples: Any, texts: Sequence[str | None] | str, data: str | Path | None
    ) -> NamedSamples | None:
        """The samples of `embed` and `predict`; None if they are data."""
        from PIL import Image

        single = isinstance(samples, str | Path | Image.Image | np.ndarray | Tensor)
        given = [samples] if single else list(samples)
        words = [texts] if isinstance(texts, str) else list(texts)
        if self.encoder.modality == "both" and data is None and given and words:
            return self._pairs(given, words)
        if bool(given) + bool(words) + (data is not None) != 1:
            raise ValueError("name samples in one way: samples, texts=[...] or data=...")
        if data is not None:
            return None
        reads_texts = self.encoder.modality == "text"
        if words or (reads_texts and all(isinstance(one, str) for one in given)):
            return open_texts(self.run, [one or "" for one in words or given])
        if all(isinstance(one, str | Path) for one in given):
            return open_images(self.run, given)
        return self._read_samples(given)

    def _pairs(self, images: Sequence[Any], texts: Sequence[str | None]) -> NamedSamples:
        """Images with texts, of which either may be None."""
        if len(images) != len(texts):
            raise ValueError(
                f"there are {len(images)} images and {len(texts)} texts; give a text for each image, None "
                "where there is none"
            )
        given = [image is not None for image in images]
        shown = [image for image in images if image is not None]
        if all(isinstance(one, str | Path) for one in shown):
            opened = open_images(self.run, shown)
        else:
            opened = self._read_samples(shown)
        return with_texts(self.run, opened, given, [text or "" for text in texts])

    def _read_samples(self, samples: Sequence[Any]) -> NamedSamples:
        if self.encoder.modality == "text":
            wrong = next(one for one in samples if not isinstance(one, str))
            raise DataError(
                f"the run's encoder '{self.recipe.encoder}' reads texts, not {_kind(wrong)}: give texts, or "
                "data=TABLE"
            )
        names = [f"sample {place}" for place in range(len(samples))]
        pixels, rows, reasons = [], [], {}
        for place, sample in enumerate(samples):
            try:
                pixels.append(self._pixels(sample, place))
                rows.append(place)
            except DataError as error:
                reasons[place] = str(error).removeprefix(f"sample {place} ")
        if not rows:
            return NamedSamples(names, None, reasons)
        source = Source.in_order(
            "images",
            self.taxonomy,
            torch.full((len(rows),), -1),
            store=ArrayStore(np.stack(pixels)),
            texts=[""] * len(rows) if self.encoder.modality == "both" else None,
        )
        return NamedSamples(names, source, reasons)

    def __repr__(self) -> str:
        classes = len(self.taxonomy.leaves)
        return f"Model({str(self.folder.path)!r}: {self.recipe.objective}, {classes} classes)"


def _kind(value: object) -> str:
    return "an empty text" if isinstance(value, str) and not value.strip() else f"a {type(value).__name__}"
