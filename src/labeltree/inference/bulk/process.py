"""The work of one process of a bulk job: samples are decoded by threads, encoded in batches, and written."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain, groupby, islice
from typing import Any

import numpy as np
import torch

from labeltree.data.streaming import StreamedSample
from labeltree.errors import DataError
from labeltree.inference.bulk.bulk_samples import BulkSamples
from labeltree.inference.bulk.encode_samples import BATCH, SampleEncoder
from labeltree.inference.bulk.job import BulkDone, BulkJob
from labeltree.inference.bulk.likeness import tell_drift
from labeltree.inference.bulk.part_rows import AnswerRows, EmbeddingRows, Rows
from labeltree.inference.bulk.shared_decider import open_shared_decider
from labeltree.inference.calibrate_run import open_decider
from labeltree.inference.decider import about_run
from labeltree.inference.load_run import TrainedRun, load_run
from labeltree.inference.other_version import run_on
from labeltree.inference.run_classifiers import other_report
from labeltree.progress import Progress, silent
from labeltree.runs.parts import PartFolder
from labeltree.taxonomy.versions.between_versions import check_version
from labeltree.training.network import Network

__all__ = ["Place", "run_of", "run_process"]

_CHUNK = 16  # images that a thread decodes at a time
_AHEAD = 2  # batches that are decoded ahead, beyond what the threads have at hand

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Place:
    """The place of a process among those of a job: part k is made by process k mod `world`.

    Attributes:
        rank: Number of the process.
        world: Number of processes.
        local_rank: Number of the process on its machine.
        local_world: Number of processes on its machine.
    """

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    local_world: int = 1


def run_process(
    job: BulkJob,
    place: Place | None = None,
    progress: Progress | None = None,
    *,
    lock: bool = True,
    run: TrainedRun | None = None,
) -> BulkDone:
    """Make the parts of one process; see `labeltree.inference.bulk.run_bulk`.

    Args:
        job: The job.
        place: The process among those of the job; None = it is the only one.
        progress: Called as `progress(message, done, total)` with numbers of samples of this process.
        lock: Whether the first process locks the folder.
        run: The run, if it is loaded already.
    """
    place = place or Place()
    began = time.monotonic()
    if run is None and place.world > 1 and torch.cuda.is_available():
        torch.cuda.set_device(place.local_rank % torch.cuda.device_count())
    run = run or run_of(job)
    check_one_modality(run)
    samples = BulkSamples(run, job.data, job.labelled)
    if next(iter(samples.stream()), None) is None:
        raise DataError(f"'{job.data}' holds no samples")
    rows: Rows
    told: list[str | None] = []
    decider = None
    if job.what == "embed":
        about, digest = about_run(run, "embeddings"), run.weights_digest
        rows = EmbeddingRows(job, run, about, samples.labelled)
    else:
        opened = open_decider if place.world == 1 else open_shared_decider
        decider = opened(run, job.classifier)
        rows = AnswerRows(job, decider, samples.labelled)
        about, digest = rows.about, decider.digest
        other = None if run.base is not None else other_report(run.folder.path, decider.chosen)
        told = [other, decider.cannot_tell(job.unknown)]
    settings = {
        **job.settings(),
        "model": digest,
        "taxonomy": run.taxonomy.digest,
        "listing": samples.listing,
    }
    out = PartFolder(job.out)
    with out.locked() if lock and place.rank == 0 else nullcontext():
        manifest = out.begin(settings, about, run.taxonomy)
        if samples.listing is not None and out.is_complete(manifest):
            work = None  # complete, and the files are as they were
        else:
            work = _Work(job, place, run.network, samples, rows, out, progress or silent)
            work.do()
        counts = manifest["counts"] if work is None else out.finish(manifest, work.parts)
    if decider is not None and counts is not None:
        seen = [out.note(number).get("seen", {}) for number in range(counts["parts"])]
        told.append(tell_drift(decider.drift, seen))
    written = {} if work is None else work.counts
    sums = written if counts is None else counts
    return BulkDone(
        str(job.out),
        sums.get("samples", 0),
        sums.get("unreadable", 0),
        sums.get("unknown_labels", 0),
        sums.get("parts", 0),
        written.get("samples", 0),
        time.monotonic() - began,
        counts is not None,
        "\n".join(sentence for sentence in told if sentence) or None,
    )


def check_one_modality(run: TrainedRun) -> None:
    """Refuse runs that read images and texts together, or vectors.

    Raises:
        DataError: If the run does.
    """
    if run.network.encoder.modality == "both":
        raise DataError(
            "a run on images and texts does not write folders yet, because a folder's samples are read as "
            "images or as texts; write one table instead, as --out FILE.parquet"
        )
    if run.network.modality == "vector":
        raise DataError(
            "a run on vectors does not write folders, because its samples are one file; write one file "
            "instead, as 'labeltree embed --out FILE.parquet' and 'labeltree predict --out FILE.csv' do"
        )


def run_of(job: BulkJob) -> TrainedRun:
    """The run of a job, on the taxonomy that the job answers on."""
    check_version(job.taxonomy, job.mapping)
    run = load_run(job.run, own_data=False)
    return run if job.taxonomy is None else run_on(run, job.taxonomy, job.mapping)


@dataclass(frozen=True)
class _Batch:
    part: int
    samples: list[StreamedSample]


class _Work:
    """Makes the parts of one process that are not there yet.

    Attributes:
        parts: Number of parts of the whole job; known at the end.
        counts: Sums over the parts that were made.
    """

    def __init__(
        self,
        job: BulkJob,
        place: Place,
        network: Network,
        samples: BulkSamples,
        rows: Rows,
        out: PartFolder,
        progress: Progress,
    ) -> None:
        self.parts = 0
        self.counts: dict[str, int] = {}
        self._size = job.part_size
        self._threads = job.threads(place.local_world)
        self._place = place
        self._encoder = SampleEncoder(network)
        self._samples = samples
        self._rows = rows
        self._out = out
        self._batch = network.batch_size(BATCH)
        self._progress = progress
        self._message = f"{'embedding' if job.what == 'embed' else 'answering for'} {job.data}"
        self._done = 0
        self._total = 0

    def do(self) -> None:
        """Make the parts, one after the other."""
        if self._progress is not silent:  # counting the files of a folder takes a while
            threading.Thread(target=self._count, daemon=True).start()
        with ThreadPoolExecutor(self._threads, "decode") as pool:
            decoded = self._decoded(self._batches(), pool)
            for number, batches in groupby(decoded, lambda found: found[0].part):
                self._make(number, batches)

    def _count(self) -> None:
        try:
            self._total = -(-(self._samples.count() or 0) // self._place.world)
        except DataError:  # found again where the samples are read
            return

    def _make(self, number: int, batches: Iterator[tuple[_Batch, list[Any]]]) -> None:
        """Encode and write one part."""
        names = hashlib.sha256()
        counts = {"samples": 0, "unreadable": 0, "unknown_labels": 0}
        self._rows.begin_part(number)
        with self._out.new_part(number, self._rows.schema) as writer:
            for batch, contents in batches:
                labels = [self._samples.label(sample) for sample in batch.samples]
                encoded = self._encoder.encode(
                    [sample.name for sample in batch.samples],
                    contents,
                    [(text, node) for text, node, _ in labels],
                )
                writer.write(self._rows.of(encoded))
                _add_names(names, [sample.name for sample in batch.samples])
                counts["samples"] += len(encoded.names)
                counts["unreadable"] += int((~encoded.readable).sum())
                counts["unknown_labels"] += sum(unknown for _, _, unknown in labels)
                self._done += len(encoded.names)
                self._progress(self._message, self._done, self._total)
            writer.note.update(counts=counts, names=names.hexdigest(), **self._rows.end_part())
        for name, count in counts.items():
            self.counts[name] = self.counts.get(name, 0) + count
        self.counts["parts"] = self.counts.get("parts", 0) + 1

    def _batches(self) -> Iterator[_Batch]:
        """The batches of the parts to make; the other samples are passed over without being decoded."""
        there, world, rank = self._out.present(), self._place.world, self._place.rank
        last = max(there, default=-1)
        number = 0
        if self._samples.listing is not None:  # the files are as they were, and so are their samples
            while number <= last and (number in there or number % world != rank):
                number += 1
        stream = self._samples.stream(number * self._size)
        while True:
            if self._samples.seeks and (number in there or number % world != rank):
                number, stream = self._next_wanted(number, there)
            first = next(stream, None)
            if first is None:
                break
            part: Iterator[StreamedSample] = chain([first], islice(stream, self._size - 1))
            if number % world != rank:
                deque(part, 0)
            elif number in there:
                self._check(number, part)
            else:
                while batch := list(islice(part, self._batch)):
                    yield _Batch(number, batch)
            number += 1
        self.parts = number

    def _next_wanted(self, number: int, there: set[int]) -> tuple[int, Iterator[StreamedSample]]:
        """The next part to make, or the one after the last, and the samples from there on."""
        end = -(-(self._samples.count() or 0) // self._size)
        while number < end and (number in there or number % self._place.world != self._place.rank):
            number += 1
        return number, self._samples.stream(number * self._size) if number < end else iter(())

    def _check(self, number: int, part: Iterator[StreamedSample]) -> None:
        """Check that a part that is there is of these samples."""
        names = hashlib.sha256()
        count = 0
        while batch := [sample.name for sample in islice(part, self._batch)]:
            _add_names(names, batch)
            count += len(batch)
        if self._samples.listing is None and self._out.note(number)["names"] != names.hexdigest():
            raise self._out.changed()
        self._done += count

    def _decoded(
        self, batches: Iterator[_Batch], pool: ThreadPoolExecutor
    ) -> Iterator[tuple[_Batch, list[Any]]]:
        """Each batch with the contents of its samples, decoded a few batches ahead."""
        waiting: deque[tuple[_Batch, list[Future[list[Any]]]]] = deque()
        most = _AHEAD + self._threads * _CHUNK // self._batch
        for batch in batches:
            chunks = [batch.samples[at : at + _CHUNK] for at in range(0, len(batch.samples), _CHUNK)]
            waiting.append((batch, [pool.submit(self._encoder.contents, chunk) for chunk in chunks]))
            if len(waiting) > most:
                yield _collected(*waiting.popleft())
        while waiting:
            yield _collected(*waiting.popleft())


def _collected(batch: _Batch, futures: Sequence[Future[list[Any]]]) -> tuple[_Batch, list[Any]]:
    return batch, [content for future in futures for content in future.result()]


def _add_names(digest: Any, names: Sequence[str]) -> None:
    digest.update("".join(f"{name}\n" for name in names).encode("utf-8", "surrogatepass"))
