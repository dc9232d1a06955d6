"""One case of the fuzz test: a valid file is damaged, a command reads it, and what must hold is looked at."""

from __future__ import annotations

import io
import os
import random
import re
import resource
import shutil
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import lightning
from damage import RAN, damaged

import labeltree.cli.main
from forked import run_forked
from labeltree.cli.main import main
from small_vocabulary import small_vocabulary

OWN = str(Path(labeltree.cli.main.__file__).parents[1])
LONGEST = 2000  # characters of an error
MEMORY = 3 << 30  # bytes of address space that a case may take beyond what there is
SECONDS = 60  # of the processor
# What a library or Python itself says of something that it did not expect.
FOREIGN = re.compile(
    r"Traceback|unexpected \w+|weights_only|allow_pickle|Errno|object at| at 0x[0-9a-f]{6}|numpy\.|torch\."
    r"|pyarrow|Arrow|safetensors_rust|HeaderToo|zlib|codec can't|NoneType|has no attribute|subscriptable"
    r"|invalid literal|positional argument|keyword argument|unhashable|out of range|<class|ufunc|broadcast"
    r"|could not convert|not supported between|recursion|must be real number|not iterable|argument must be"
    r"|Python int|unpack|maximum"
)


class ReachedTraining(BaseException):
    """All that is read before training was accepted."""


class TooLong(BaseException):
    """A case has used more of the processor than it may."""


@dataclass(frozen=True)
class Target:
    """A file or several, and a command that reads them.

    Attributes:
        name: of the target.
        files: patterns below the folder of valid files; one of the files that fit is damaged.
        words: of the command; ``{root}`` is the folder, ``{file}`` what is damaged, ``{out}`` where to write.
        copies: folders or files below the root that the command writes to as well, by design.
        weight: how often, relative to others.
    """

    name: str
    files: tuple[str, ...]
    words: str
    copies: tuple[str, ...] = ()
    weight: float = 1.0


_RUN = ("recipe.yaml", "taxonomy.json", "samples.npz", "encoder.safetensors", "history.csv", "versions.json")


def _in(folder: str, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}" for name in names)


TARGETS = (
    Target("run, embedded", _in("photo-run", _RUN[:4]), "embed {root}/photo-run --out {out}/e.npz", weight=4),
    Target(
        "run of texts",
        _in("text-run", _RUN[:4]),
        "predict {root}/text-run --text dog --coverage 0.5",
        ("text-run",),
        2,
    ),
    Target("run, evaluated", _in("photo-run", _RUN[4:]), "evaluate {root}/photo-run --quiet", ("photo-run",)),
    Target(
        "decisions",
        _in("photo-run", ("decisions.json", "classifier.safetensors")),
        "predict {root}/photo-run {root}/photos/plant/rose/0.png --coverage 0.5 --top 2",
        ("photo-run",),
        4,
    ),
    Target(
        "own decisions",
        _in("own-run", ("decisions.json", "encoder.safetensors")),
        "predict {root}/own-run {root}/photos/plant/rose/0.png --coverage 0.5 --format json",
        ("own-run",),
        2,
    ),
    Target(
        "kept embeddings", ("photo-run/embeddings/*.npz",), "calibrate {root}/photo-run", ("photo-run",), 2
    ),
    Target(
        "training state",
        ("half-run/checkpoints/last.ckpt",),
        "train --config {root}/half-run/recipe.yaml --quiet --out {root}/half-run",
        ("half-run",),
        2,
    ),
    Target(
        "outcomes",
        _in("photo-run", ("outcomes.npz", "metrics.json")),
        "compare {root}/photo-run {root}/own-run --out {out} --quiet --resamples 50 --permutations 50",
        weight=4,
    ),
    Target(
        "embeddings table",
        ("table.npz", "table.parquet", "labels.npz"),
        "evaluate --embeddings {file} --taxonomy {root}/trees/tree.json --out {out} --quiet --protocols knn",
        weight=8,
    ),
    Target(
        "taxonomy of a table",
        ("trees/*",),
        "evaluate --embeddings {root}/labels.npz --taxonomy {file} --quiet --out {out}",
    ),
    Target(
        "queries",
        ("queries.txt",),
        "evaluate --embeddings {root}/table.npz --taxonomy {root}/trees/tree.json "
        "--out {out} --quiet --protocols query-gallery --option query-gallery.listed={file}",
        weight=0.5,
    ),
    Target("taxonomy shown", ("trees/*",), "taxonomy show {file}", weight=6),
    Target("ontology shown", ("ontologies/*", "ontologies/ncbi/*"), "taxonomy show {file}", weight=4),
    Target("taxonomy checked", ("trees/*",), "taxonomy check {file}", weight=2),
    Target("taxonomy converted", ("trees/*",), "taxonomy convert {file} {out}/tree.json", weight=2),
    Target("taxonomy converted to Newick", ("trees/*",), "taxonomy convert {file} {out}/tree.nwk"),
    Target("projected", ("trees/graph.*",), "taxonomy project {file} --out {out}/tree.yaml", weight=1),
    Target(
        "WordNet",
        ("wordnet/*.noun", "names.txt", "names.senses.txt"),
        "taxonomy from-wordnet {root}/names.txt --wordnet {root}/wordnet --out {out}/tree.yaml",
        ("names.senses.txt",),
        2,
    ),
    Target("recipe", ("recipe.yaml",), "train --config {file} --quiet --out {out}/run", weight=6),
    Target(
        "table of texts",
        ("notes.*",),
        "train --data {file} --objective=ce --encoder=small-text --epochs=1 --quiet --out {out}/run",
        weight=3,
    ),
    Target(
        "table embedded",
        ("notes.*",),
        "embed {root}/text-run --data {file} --unlabelled --out {out}/e.parquet",
    ),
    Target(
        "weights",
        ("weights.*",),
        "train --data {root}/photos --image-size=8 --encoder=small-conv --weights={file} "
        "--quiet --out {out}/run",
        weight=2,
    ),
    Target(
        "word vectors",
        ("vectors.*",),
        "train --data {root}/photos --objective=devise --image-size=8 "
        "--encoder=small-conv --devise.vectors={file} --quiet --out {out}/run",
        weight=2,
    ),
    Target(
        "image", ("photos/plant/rose/*",), "predict {root}/photo-run {file} --coverage 0.5", ("photo-run",), 4
    ),
    Target(
        "image of a folder",
        ("photos/plant/rose/*",),
        "train --data {root}/photos --image-size=8 --quiet --encoder=small-conv --out {out}/run",
        weight=2,
    ),
    Target(
        "costs",
        ("costs.csv",),
        "predict {root}/photo-run {root}/photos/plant/rose/0.png --coverage 0.5 --cost {file}",
        ("photo-run",),
        2,
    ),
    Target(
        "study",
        ("study/study.yaml", "study/supcon.yaml"),
        "study {root}/study/study.yaml --dry-run",
        weight=6,
    ),
    Target(
        "results of a study", ("study/results.json",), "study {root}/study/study.yaml --tables", ("study",), 3
    ),
    Target("IDX", ("named/fashion-mnist/*",), "data check fashion-mnist {root}/named/fashion-mnist"),
    Target("CIFAR-10", ("named/cifar-10/*/*",), "data check cifar-10 {root}/named/cifar-10"),
    Target("CIFAR-100", ("named/cifar-100/*",), "data check cifar-100 {root}/named/cifar-100"),
    Target("ImageNet-32", ("named/imagenet-32/*_1.npz",), "data check imagenet-32 {root}/named/imagenet-32"),
    Target("MATLAB", ("named/cars-196/*.mat",), "data check cars-196 {root}/named/cars-196"),
    Target("reviews", ("named/beeradvocate/*",), "data check beeradvocate {root}/named/beeradvocate"),
)

NUMBERS = (
    "-1",
    "0",
    "nan",
    "inf",
    "-inf",
    "1e30",
    "-1e30",
    "1e999",
    "1" + "0" * 30,
    "9" * 5000,
    "2147483648",
    "99999999999",
    "0.5",
    "",
    "x",
    "[1]",
    "null",
    "1e-320",
    "True",
    "{a: 1}",
)
_TRAIN = (
    "train --data {root}/photos --image-size=8 --encoder=small-conv --quiet --out {out}/run",
    (
        "epochs",
        "batch-size",
        "image-size",
        "val",
        "test",
        "seed",
        "limit",
        "train-limit",
        "test-limit",
        "patience",
        "workers",
        "devices",
        "head.dim",
        "head.hidden",
        "head.layers",
        "head.gain",
        "optimizer.lr",
        "optimizer.weight-decay",
        "optimizer.warmup-epochs",
        "optimizer.clip-norm",
        "queue.size",
        "curvature",
        "ema",
        "erasing",
        "num-views",
        "encode-chunk",
        "adapter",
        "checkpoint-minutes",
        "inner-share",
        "label-noise",
        "unseen-classes",
        "unseen-depth",
        "taxonomy-noise",
        "coarsen",
        "channels",
        "hwc.temperature",
        "hwc.alpha",
        "hwc.gamma",
        "lam.margins",
        "term-weights",
        "optimizer.milestones",
        "fold",
    ),
)
NUMERIC = (
    _TRAIN,
    (
        "predict {root}/photo-run {root}/photos/plant/rose/0.png --coverage 0.5",
        ("coverage", "confidence", "by-depth", "top"),
    ),
    (
        "compare {root}/photo-run {root}/own-run --out {out} --quiet",
        ("resamples", "permutations", "confidence", "seed"),
    ),
    (
        "evaluate --embeddings {root}/table.npz --taxonomy {root}/trees/tree.json --out {out} --quiet "
        "--protocols knn "
        "--option",
        ("knn.ks", "knn.temperature"),
    ),
    ("taxonomy show {root}/trees/tree.json", ("depth", "children")),
    ("calibrate {root}/photo-run", ("seed",)),
    ("study {root}/study/study.yaml --dry-run", ("jobs",)),
)


@dataclass
class Case:
    """What came of a case.

    Attributes:
        seed: by which it is made again.
        what: target and file.
        words: of the command.
        code: exit code; None where training was reached.
        said: on standard error.
        faults: what did not hold; [] is a case that passes.
        where: the error was raised, of its own source the innermost first.
    """

    seed: str
    what: str
    words: list[str] = field(default_factory=list)
    code: int | None = None
    said: str = ""
    faults: list[str] = field(default_factory=list)
    where: str = ""

    def __str__(self) -> str:
        words, faults = " ".join(self.words)[:300], "; ".join(self.faults)
        return f"{self.seed}: {self.what}: {faults}\n  {words}\n  {self.where}\n  {self.said[:600]}"


class Fuzzing:
    """Runs cases over a folder of valid files.

    Args:
        valid: the folder.
        work: an empty folder to work in; the working folder of the process while a case runs.
    """

    def __init__(self, valid: Path, work: Path) -> None:
        self.root, self.work = valid, work
        self._kept = work / "kept"
        if not self._kept.is_dir():
            shutil.copytree(valid, self._kept)
        self._stamps = _stamps(valid)

    def case(self, seed: str, *, process: bool = False) -> Case:
        """Run the case of a seed; the valid files are as before when it returns.

        Args:
            seed: any text.
            process: in a process of its own.
        """
        rng = random.Random(seed)
        if rng.random() < 0.12:
            return self._numbers(seed, rng, process)
        target = rng.choices(TARGETS, [target.weight for target in TARGETS])[0]
        found = sorted(path for pattern in target.files for path in self.root.glob(pattern) if path.is_file())
        file = rng.choice(found)
        content = file.read_bytes()
        times = file.stat().st_mtime_ns
        harmed = damaged(content, file.suffix, rng)
        case = Case(seed, f"{target.name}: {file.relative_to(self.root)}")
        try:
            file.write_bytes(harmed)
            self._run(case, target.words, file, process)
            written = tuple(str(self.root / copy) for copy in target.copies)
            if file.read_bytes() != harmed and not str(file).startswith(written):
                case.faults.append("the damaged file was changed")
        finally:
            self._restore(file, content, times)
            self._look_around(case, target.copies)
        return case

    def undamaged(self, target: Target) -> Case:
        """The command of a target over whole files: what is refused there is no damage."""
        file = next(path for path in sorted(self.root.glob(target.files[0])) if path.is_file())
        case = Case("whole", target.name)
        try:
            self._run(case, target.words, file, False)
        finally:
            self._look_around(case, target.copies)
        return case

    def _numbers(self, seed: str, rng: random.Random, process: bool) -> Case:
        words, flags = rng.choice(NUMERIC) if rng.random() < 0.4 else _TRAIN
        flag, value = rng.choice(flags), rng.choice(NUMBERS)
        given = f" {flag}={{value}}" if words.endswith("--option") else f" --{flag}={{value}}"
        if flag.startswith("queue"):
            words += " --objective=maskcon"
        case = Case(seed, f"number: {flag}={value[:20]}")
        try:
            self._run(case, words + given, Path(), process, value)
        finally:
            self._look_around(case, ("photo-run",))
        return case

    def _run(self, case: Case, words: str, file: Path, process: bool, value: str = "") -> None:
        out = self.work / "out"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        names = {"root": self.root, "file": file, "out": out, "value": value}
        case.words = [word.format(**names) for word in words.split(" ")]
        before = os.getcwd()
        os.chdir(self.work)
        try:
            (_in_a_process if process else _in_here)(case)
        finally:
            os.chdir(before)
        if (self.work / RAN).exists():
            (self.work / RAN).unlink()
            case.faults.append("code of the file was run")
        skipped = case.code == 1 and case.words[0] == "predict" and "their rows say why" in case.said
        if case.code not in (0, 2, None) and not skipped:
            case.faults.append(f"exit code {case.code}")
        if case.code == 2 or skipped:
            case.faults += _faults_of(case.said)
        if left := [path for path in out.rglob(".*") if path.name not in (".", "..")]:
            case.faults.append(f"left behind: {left[0].name}")

    def _restore(self, file: Path, content: bytes, times: int) -> None:
        file.write_bytes(content)
        os.utime(file, ns=(times, times))

    def _look_around(self, case: Case, copies: tuple[str, ...]) -> None:
        """Nothing but what the command writes by design is another than before; put those back."""
        now = _stamps(self.root)
        touched = [
            name for name in now.keys() | self._stamps.keys() if now.get(name) != self._stamps.get(name)
        ]
        for name in sorted(touched):
            here, kept = self.root / name, self._kept / name
            if here.is_file() and kept.is_file() and here.read_bytes() == kept.read_bytes():
                continue
            if not name.startswith(copies):
                case.faults.append(f"changed: {name}")
            if Path(name).name.startswith("."):
                case.faults.append(f"left behind: {name}")
            if kept.is_file():
                here.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(kept, here)
            else:
                here.unlink()
        if touched:
            self._stamps = _stamps(self.root)


def _stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """By file, what changes whenever it is written."""
    stats = {path: path.stat() for path in folder.rglob("*") if path.is_file()}
    return {
        str(path.relative_to(folder)): (found.st_size, found.st_mtime_ns) for path, found in stats.items()
    }


def _faults_of(said: str) -> list[str]:
    lines = [line for line in said.splitlines() if line.startswith("labeltree: ")]
    usage = said.startswith("usage: ") or "\nusage: " in said
    if usage:
        return []
    if len(lines) != 1:
        return [f"{len(lines)} lines of error"]
    sentence = lines[0].removeprefix("labeltree: ")
    faults = []
    if len(sentence) > LONGEST:
        faults.append(f"{len(sentence)} characters of error")
    if foreign := FOREIGN.search(sentence):
        faults.append(f"says {foreign[0]!r}")
    if not sentence.isprintable():
        faults.append("steers the terminal")
    return faults


def _in_a_process(case: Case) -> None:
    code = f"import os, sys\nfrom labeltree.cli.main import main\nos.chdir({os.getcwd()!r})\nsys.exit(main())"
    done = run_forked(code, case.words, patience=600)
    case.code, case.said = done.returncode, done.stderr
    if "Traceback" in case.said:
        case.faults.append("a traceback")


def _in_here(case: Case) -> None:
    out, err = io.StringIO(), io.StringIO()
    with (
        small_vocabulary(),
        _bounded(),
        _watched() as raised,
        redirect_stdout(out),
        redirect_stderr(err),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        try:
            case.code = main(case.words)
        except BaseException as error:
            case.code, case.faults = 1, [f"{type(error).__name__} came through: {error}"]
            raised.append(error)
    if raised and isinstance(raised[-1], ReachedTraining):
        case.code = None
        return
    if raised and isinstance(raised[-1], TooLong):
        case.faults.append(f"more than {SECONDS} s of the processor")
    case.said = err.getvalue()
    for error in raised[-1:]:
        frames = traceback.extract_tb(error.__traceback__)
        if isinstance(error, MemoryError):
            case.faults.append("more memory than it may have")
        # what a library raises is about the library's own ideas, not the user's file
        if frames and not frames[-1].filename.startswith(OWN) and not isinstance(error, KeyboardInterrupt):
            case.faults.append(
                f"raised by {frames[-1].filename.split('site-packages/')[-1]}:{frames[-1].lineno}"
            )
        own = [f for f in frames if f.filename.startswith(OWN)][-4:]
        places = " < ".join(f"{f.filename[len(OWN) + 1 :]}:{f.lineno}" for f in reversed(own))
        case.where = f"{type(error).__name__} at {places}"


@contextmanager
def _watched() -> Iterator[list[BaseException]]:
    """What the command failed with; training, where it is reached, does not begin."""
    raised: list[BaseException] = []
    original, fit = labeltree.cli.main._fail, lightning.Trainer.fit

    def fail(message: str, code: int = 2) -> int:
        error = sys.exc_info()[1]
        if error is not None:
            raised.append(error)
        return original(message, code)

    def reached(trainer: Any, *words: Any, ckpt_path: str | None = None, **named: Any) -> None:
        if ckpt_path is not None:
            fit(trainer, *words, ckpt_path=ckpt_path, **named)
            return
        raise ReachedTraining

    labeltree.cli.main._fail = fail
    lightning.Trainer.fit = reached  # type: ignore[method-assign, assignment]
    try:
        yield raised
    finally:
        labeltree.cli.main._fail = original
        lightning.Trainer.fit = fit  # type: ignore[method-assign]


@contextmanager
def _bounded() -> Iterator[None]:
    """Not more address space and processor time than a case may have."""

    def stop(_: int, __: FrameType | None) -> None:
        raise TooLong

    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, before[1]))
    handler = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)


Progress = Callable[[int, Case], None]


def campaign(fuzzing: Fuzzing, count: int, seed: int, progress: Progress | None = None) -> list[Case]:
    """Run so many cases; those that fail are told of in their `faults`."""
    cases = []
    for number in range(count):
        case = fuzzing.case(f"{seed}/{number}")
        cases.append(case)
        if progress is not None:
            progress(number, case)
    return cases
