"""The models of a service: decoding in a pool of threads, one inference thread per device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from labeltree.data.images.decode import (
    FORMATS,
    decode,
    decoding_bytes,
    draft_side,
    image_errors,
    open_image,
    pixels_of,
)
from labeltree.data.images.dicom import dicom_bytes, dicom_head, dicom_pixels, is_dicom
from labeltree.errors import DataError, RunError
from labeltree.inference.answers.format_answers import answer_rows
from labeltree.inference.model import Model
from labeltree.models import ImagesAndTexts
from labeltree.options.answer_options import AnswerOptions
from labeltree.preprocessing import Preprocessing
from labeltree.processes import available_cores
from labeltree.runs import EmbeddingTable
from labeltree.serving.batching import Batcher, Job
from labeltree.serving.drift_watch import DriftWatch
from labeltree.serving.service_settings import ServiceSettings
from labeltree.serving.wait_for_memory import MemoryLimit
from labeltree.training.tokens_and_views import Inputs

__all__ = ["Engine", "TooLargeError", "measure_upload", "read_upload"]


class TooLargeError(DataError):
    """An image whose decoding takes more memory than the service has for that."""


@dataclass(frozen=True)
class _Sample:
    name: str
    content: Any  # pixels (c, h, w) uint8, a text, or a vector
    asked: AnswerOptions | None


class Engine:
    """Answers samples one by one, and computes those that wait at the same time together.

    Args:
        run: The run folder, or the folder of an exported model.
        settings: Batches and limits.
        devices: Devices such as `cpu` or `cuda:0`, with a copy of the model each; none = the usual one.
        threads: Threads of torch; None: all cores but one, which is left to decoding and to the network, and
            no more than torch takes by itself (`OMP_NUM_THREADS`).
        either: Take a run on images and texts, too; each sample is then an image or a text alone.

    Raises:
        RunError: If the folder is not a finished run, or one on images and texts without `either`.
        ValueError: If a device or the number of threads is not valid.
    """

    def __init__(
        self,
        run: str | Path,
        settings: ServiceSettings,
        *,
        devices: Sequence[str] = (),
        threads: int | None = None,
        either: bool = False,
    ) -> None:
        cores = available_cores()
        if threads is not None and threads < 1:
            raise ValueError(f"threads is {threads}; expected at least 1")
        for device in devices:
            _check_device(device)
        torch.set_num_threads(threads or max(1, min(torch.get_num_threads(), cores - 1)))
        self.settings = settings
        self.models = [Model(run, device=device) for device in devices or (None,)]
        self.model = self.models[0]
        if self.model.encoder.modality == "both" and not either:
            raise RunError(
                "a run on images and texts cannot be served yet, because a request holds images or texts; "
                "use 'labeltree predict' or lt.load(run).embed_batch, which take both"
            )
        self.decider = self.model.decider
        self._about = self.decider.about("")
        for model in self.models:
            _warm_up(model)
        self.memory = MemoryLimit(settings.max_decoding)
        self._decoders = ThreadPoolExecutor(max_workers=max(2, cores), thread_name_prefix="decode")
        rule = self.decider.drift
        self.drift = None if rule is None else DriftWatch(rule)
        self._batcher: Batcher[_Sample, dict[str, Any]] = Batcher(
            [_Compute(model, self.drift) for model in self.models],
            max_batch=settings.max_batch,
            max_wait=settings.max_wait / 1000,
        )

    @property
    def modality(self) -> str:
        """What the run reads: `image`, `text`, `both` or `vector`."""
        return self.model.encoder.modality

    @property
    def width(self) -> int:
        """Length of the vectors that the run reads."""
        return self.model.encoder.without_adapter.feature_dim

    def about(self, asked: str) -> dict[str, str]:
        """See `Decider.about`; what does not change is computed once."""
        return {**self._about, "asked": asked, "date": datetime.now(UTC).isoformat(timespec="seconds")}

    @property
    def batches(self) -> int:
        """How many batches have been computed."""
        return self._batcher.batches

    @property
    def ready(self) -> bool:
        """Whether the inference threads run."""
        return self._batcher.alive

    def check(self, asked: AnswerOptions | None) -> None:
        """Raise a DataError unless the calibration suffices for what is asked."""
        if asked is not None:
            self.decider.rule.bars(asked.promise)

    def ask(
        self,
        name: str,
        content: bytes | str | list[float],
        asked: AnswerOptions | None,
        on_end: Callable[[], None] = lambda: None,
    ) -> Future[dict[str, Any]]:
        """Decode a sample, and compute it in one of the next batches.

        Args:
            name: Of the sample, for its row.
            content: That of an image file, a text, or a vector.
            asked: What is asked of its answer; None: its embedding is wanted.
            on_end: Called, in any thread, once the sample is no longer held: it has been computed, cannot be
                read, or was cancelled and has left the queue.

        Returns:
            The future of a row, as `answer_rows` of `labeltree.inference.answers` makes it, or of `sample`,
            `embedding` and `features`. Its exception is a DataError if the sample cannot be read, a
            TooLargeError if that takes too much memory. Cancel it to drop the sample.
        """
        job: Job[_Sample, dict[str, Any]] = Job(_Sample(name, content, asked), on_end=on_end)
        if not isinstance(content, bytes):
            self._batcher.submit(job)
        else:
            work = self._decoders.submit(self._decode, job)

            def drop(future: Future[dict[str, Any]]) -> None:
                if future.cancelled() and work.cancel():  # else `_decode` has the job, or has passed it on
                    job.end()

            job.found.add_done_callback(drop)
        return job.found

    def close(self, timeout: float | None = None) -> None:
        """End all threads, after what they have begun."""
        self._decoders.shutdown(wait=True, cancel_futures=True)
        self._batcher.close(timeout)
        if self.drift is not None:
            self.drift.close()

    def _decode(self, job: Job[_Sample, dict[str, Any]]) -> None:
        if job.found.cancelled():
            job.end()
            return
        sample, shape = job.sample, self.model.network.image_shape
        assert shape is not None
        try:
            how = self.model.network.preprocessing
            needed = measure_upload(sample.content, draft_side(shape[1], how), self.settings.max_pixels)
            if needed > self.memory.most:
                raise TooLargeError(
                    f"decoding it takes up to {needed / 1e6:,.0f} MB of memory, and this service uses at "
                    f"most {self.memory.most / 1e6:,.0f} MB; send it with fewer pixels, or 8 bits a channel"
                )
            with self.memory.taking(needed):
                if job.found.cancelled():  # while it waited
                    job.end()
                    return
                pixels = read_upload(sample.content, shape[1], shape[0], self.settings.max_pixels, how)
            job.sample = _Sample(sample.name, pixels, sample.asked)
            self._batcher.submit(job)
        except Exception as error:
            job.end()
            if job.found.set_running_or_notify_cancel():
                job.found.set_exception(error)


class _Compute:
    """Rows of the samples of a batch, by one model."""

    def __init__(self, model: Model, drift: DriftWatch | None) -> None:
        self._model = model
        self._decider = model.decider
        self._drift = drift

    def __call__(self, samples: list[_Sample]) -> list[dict[str, Any]]:
        model = self._model
        inputs = _inputs(model, [sample.content for sample in samples])
        features, embeddings = model.embed_inputs(inputs)
        rows: list[dict[str, Any]] = [{} for _ in samples]
        places: dict[AnswerOptions | None, list[int]] = {}
        for place, sample in enumerate(samples):
            places.setdefault(sample.asked, []).append(place)
        for asked, which in places.items():
            names = [samples[place].name for place in which]
            if asked is None:
                made = [
                    {
                        "sample": name,
                        "embedding": embeddings[place].tolist(),
                        "features": features[place].tolist(),
                    }
                    for name, place in zip(names, which, strict=True)
                ]
            else:
                geometry = model.network.objective.geometry.name
                table = EmbeddingTable(
                    embeddings=embeddings[which],
                    features=features[which],
                    nodes=torch.full((len(which),), -1),
                    geometry=geometry,
                    curvature=model.recipe.curvature,
                )
                answers = self._decider.answer(table, asked)
                if self._drift is not None:
                    self._drift.add(table, self._decider.rule.probabilities(self._decider.scores(table)))
                made = answer_rows(answers, names, model.taxonomy)
            for place, row in zip(which, made, strict=True):
                rows[place] = row
        return rows


def _inputs(model: Model, contents: list[Any]) -> Inputs:
    """What the network reads: pixels `(c, h, w)` uint8 of the right size, texts, either, or vectors."""
    if model.encoder.modality == "both":
        assert model.network.image_shape is not None
        pixels = np.zeros((len(contents), *model.network.image_shape), np.uint8)
        are_texts = [isinstance(one, str) for one in contents]
        for place, one in enumerate(contents):
            if not are_texts[place]:
                pixels[place] = one
        texts = [one if isinstance(one, str) else "" for one in contents]
        present = torch.tensor([[not text, text] for text in are_texts])
        return ImagesAndTexts(torch.from_numpy(pixels), model.network.tokens(texts), present)
    if model.encoder.modality in ("text", "vector"):
        return model.inputs(contents)
    return torch.from_numpy(np.stack(contents))


def measure_upload(content: bytes, size: int, max_pixels: int) -> int:
    """About the most memory that `read_upload` takes, in bytes; no pixel is read.

    Args:
        content: That of an image file, from a stranger.
        size: Side in pixels to resize to, see `draft_side`.
        max_pixels: Most pixels that are decoded; of a JPEG, once it is reduced.

    Raises:
        DataError: If it is broken, has too many pixels, or is of a format that image files do not have.
    """
    from PIL import Image

    if not content:
        raise DataError("it is empty")
    with image_errors():
        if is_dicom(content):  # not by Pillow, which `decode` asks first
            width, height, gray = dicom_head(content)
            _check_pixels(width, height, max_pixels)
            return dicom_bytes(width, height, gray) + 2 * len(content)
        try:
            with open_image(content, FORMATS) as image:
                needed = decoding_bytes(image, size)
                _check_pixels(*image.size, max_pixels)
                return needed
        except Image.DecompressionBombError:
            raise DataError(f"it has more than the {max_pixels:,} pixels that this service decodes") from None


def _check_pixels(width: int, height: int, max_pixels: int) -> None:
    if width * height > max_pixels:
        raise DataError(
            f"it has {width} x {height} pixels; {max_pixels:,} are the most that this service decodes"
        )


def read_upload(
    content: bytes,
    size: int,
    channels: int,
    max_pixels: int,
    preprocessing: Preprocessing | None = None,
) -> np.ndarray[Any, Any]:
    """Pixels `(channels, size, size)` uint8 of an image file's content that `measure_upload` let pass.

    Raises:
        DataError: If it is broken.
    """
    from PIL import Image

    if is_dicom(content):
        with image_errors():
            shown = Image.fromarray(dicom_pixels(content, max_pixels))
        return pixels_of(shown, size, channels, preprocessing)
    return decode(content, size, channels, formats=FORMATS, preprocessing=preprocessing)


def _check_device(name: str) -> None:
    """Raise a ValueError unless there is such a device."""
    try:
        device = torch.device(name)
        there = device.type != "cuda" or (device.index or 0) < torch.cuda.device_count()
    except RuntimeError:
        there = False
    if not there:
        gpus = ", ".join(f"cuda:{number}" for number in range(torch.cuda.device_count()))
        raise ValueError(f"there is no device '{name}'; there is cpu{gpus and ', '}{gpus}")


def _warm_up(model: Model) -> None:
    """The first pass takes longer: libraries load, and memory is allocated."""
    shape = model.network.image_shape
    samples: list[Any] = ["warm up"] if shape is None else [np.zeros((shape[1], shape[1], 3), np.uint8)]
    if model.encoder.modality == "vector":
        samples = [np.zeros(model.encoder.without_adapter.feature_dim)]
    model.answer_batch(samples, coverage=0.5)
