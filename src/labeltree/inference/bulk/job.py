"""What a bulk job is to do, and what it has done."""

from __future__ import annotations

import os
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from labeltree.counted_nouns import say_count
from labeltree.data.object_stores import is_remote, local_copy
from labeltree.options.answer_options import AnswerOptions, EmbedOptions, PredictOptions
from labeltree.options.schema import Option, describe_fields
from labeltree.options.shared import AnswerMapping, AnswerTaxonomy, Classifier

__all__ = ["BulkDone", "BulkJob", "writes_folder"]

PART_SIZE = 10_000
_MOST_WORKERS = 16  # threads of one process: more wait for Python's lock


@describe_fields
@dataclass(frozen=True)
class BulkJob(AnswerOptions):
    """The embedding or prediction of a folder, a table or shards into a folder of parts.

    Beside what is asked of answers, which embedding has no use for.

    Attributes:
        run: The run folder.
        data: a folder of images, a table, or shards; see `labeltree.data.stream_samples`.
        out: The folder to write.
        what: `embed` or `predict`.
        labelled: Read the labels of the samples, if there are any.
        features: Embed: write the encoder's features, too.
        dtype: Embed: type of the embeddings and features in the files.
        part_size: Number of samples of a file.
        workers: Threads that read and decode images, in each process; None = one per core, at most 16.

    Raises:
        ValueError: If a number or a name is not allowed.
    """

    run: str
    data: str
    out: str
    what: Literal["embed", "predict"] = "embed"
    _: KW_ONLY
    labelled: bool = True
    features: bool = False
    dtype: Literal["float32", "float16"] = "float32"
    classifier: Classifier = None
    taxonomy: AnswerTaxonomy = None
    mapping: AnswerMapping = None
    part_size: Annotated[int, Option("", least=1, most=10_000_000, unit="samples")] = PART_SIZE
    workers: Annotated[int | None, Option("", least=1, most=1024, unit="threads")] = None

    @classmethod
    def of(cls, options: PredictOptions | EmbedOptions) -> BulkJob:
        """The job that the options of a command say."""
        job: dict[str, Any] = {"run": os.fspath(options.run), "data": str(options.data), **options.parts}
        if isinstance(options, EmbedOptions):
            job |= {"labelled": not options.unlabelled, "features": options.features, "dtype": options.dtype}
            return cls(**job, out=str(options.out), what="embed")
        job |= {entry.name: getattr(options, entry.name) for entry in fields(AnswerOptions)}
        for name in ("taxonomy", "mapping"):
            job[name] = None if (file := getattr(options, name)) is None else str(file)
        return cls(
            **job,
            out=str(options.out),
            what="predict",
            labelled=options.labelled,
            classifier=options.classifier,
        )

    def settings(self) -> dict[str, Any]:
        """The options that rows depend on, by name."""
        common = {
            "what": self.what,
            "data": self.data if is_remote(self.data) else os.path.abspath(os.path.expanduser(self.data)),
            "part_size": self.part_size,
            "labels": self.labelled,
        }
        if self.what == "embed":
            return {**common, "features": self.features, "dtype": self.dtype}
        names = (
            *("coverage", "method", "confidence", "counted"),
            *("by_depth", "cost", "coarse", "top", "unknown"),
            *(("optimise",) if self.optimise else ()),
        )
        return common | {name: getattr(self, name) for name in names}

    def threads(self, processes: int) -> int:
        """Number of threads that decode in each of the processes of this machine."""
        return self.workers or max(1, min(cores() // processes, _MOST_WORKERS))


@dataclass(frozen=True)
class BulkDone:
    """What a bulk job, or one process of it, has done.

    Attributes:
        out: The folder of parts.
        samples: Number of samples of the complete folder, or that this process has written.
        unreadable: Those of them that could not be read; their rows have a `problem`.
        unknown_labels: Those whose label is not in the run's taxonomy; their label counts as missing.
        parts: Number of files.
        written: Number of samples that were written just now.
        seconds: The time that it took.
        complete: Whether all parts are there.
        warning: Sentences, one a line: the run's report shows another classifier, or the samples are not like
            those that promises rest on.
    """

    out: str
    samples: int
    unreadable: int
    unknown_labels: int
    parts: int
    written: int
    seconds: float
    complete: bool
    warning: str | None = None

    def sentence(self) -> str:
        """One sentence: how many samples, how many unreadable, how fast, where."""
        if not self.complete:
            return (
                f"{self.written:,} samples written to {self.out} by this process; others are at work, or the "
                "same command goes on with what is left"
            )
        some = [f"{self.unreadable:,} of them unreadable"] if self.unreadable else []
        if self.unknown_labels:
            labels = "a label" if self.unknown_labels == 1 else "labels"
            some.append(f"{self.unknown_labels:,} with {labels} that the run's taxonomy does not have")
        said = ", ".join([say_count(self.samples, "sample"), *some])
        if not self.written:
            return f"{said}: {self.out} was complete already"
        rate = self.written / max(self.seconds, 1e-9)
        before = f", {self.written:,} of them now" if self.written < self.samples else ""
        files = say_count(self.parts, "file")
        return f"{said}{before}, {rate:,.0f} a second: {files} in {self.out}"


def writes_folder(data: str | Path | None, out: str | Path | None) -> bool:
    """Whether a command writes a folder of parts, and not one file.

    It does if `out` is a folder or ends in `/`, or if the data are shards and `out` has no suffix.
    """
    if out is None:
        return False
    if str(out).endswith(("/", os.sep)) or os.path.isdir(out):
        return True
    if data is None or Path(out).suffix:
        return False
    from labeltree.data.shards.shard_files import find_shards

    return find_shards(local_copy(data)) is not None


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
