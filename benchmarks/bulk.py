"""Bulk embedding of many files: CPU time beside decoding and encoding alone, memory, and kills.

    python benchmarks/bulk.py [--short]

JPEG files are generated in the system's temporary folder (TMPDIR) and deleted at the end. Commands run in
processes of their own: their CPU seconds and their greatest memory are those that the system counted, from
the start of Python to its end. Decoding and encoding alone are measured before, between and after, and their
median counts.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch
from PIL import Image

from data import pictures
from harness import Results, Row, Size, Table, choose, main
from labeltree.data.images.decode import decode
from labeltree.inference.model import Model

PART = 2000
OPTIONS = ("--part-size", PART, "--unlabelled")
SETTINGS = ["--epochs", "1", "--batch_size", "16", "--accelerator", "cpu", "--val", "0.3", "--quiet"]


@dataclass(frozen=True)
class Ended:
    """A command that has ended.

    Attributes:
        code: exit code.
        cpu: CPU seconds of the process and its children.
        seconds: by the clock.
        memory: the most that was resident, MB.
    """

    code: int
    cpu: float
    seconds: float
    memory: float


def command(*words: object, until: Callable[[], bool] | None = None) -> Ended:
    """Run a command of labeltree; kill it by SIGKILL as soon as ``until`` is true."""
    began = time.perf_counter()
    line = [sys.executable, "-m", "labeltree", *map(str, words)]
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    memory = 0.0
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        memory = max(memory, most_resident(process.pid))
        if until is not None and until():
            process.send_signal(signal.SIGKILL)
            until = None
        time.sleep(0.05)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.stderr is not None
    errors = process.stderr.read().decode("utf-8", "replace")
    process.stderr.close()
    if process.returncode not in (0, -signal.SIGKILL):
        raise RuntimeError(f"{' '.join(line)}: {errors}")
    seconds = time.perf_counter() - began
    return Ended(process.returncode, usage.ru_utime + usage.ru_stime, seconds, memory)


def most_resident(pid: int) -> float:
    """The most memory that a process has had so far, MB; unlike ru_maxrss without that of its parent."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text("ascii", "replace").splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) * 1.024e-3 for line in lines if line.startswith("VmHWM")), 0.0)


def write_files(folder: Path, count: int, side: int, first: int = 0) -> list[Path]:
    """So many JPEG files, a hundred in a folder, ten folders in one above."""
    kinds = pictures(200, side)
    files = []
    for number in range(first, first + count):
        path = folder / f"group {number // 1000:04d}" / f"class {number // 100 % 10}" / f"{number:07d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = torch.roll(kinds[number % 200], number // 200 % side, 2)
        Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(path, quality=90)
        files.append(path)
    return files


def trained(folder: Path, encoder: str, side: int) -> Path:
    """A run with an encoder that has seen a few images."""
    for leaf in range(4):
        write_files(folder / "few" / f"kind {leaf % 2}" / f"leaf {leaf}", 8, side, 8 * leaf)
    words = ["--data", folder / "few", "--out", folder / "run", "--encoder", encoder, "--image_size", side]
    words += ["--trainable", "head", "--pretrained", "false"] if encoder != "small-conv" else []
    command("train", *words, *SETTINGS)
    return folder / "run"


class Alone:
    """Decoding alone and the network alone, on the same images, in seconds of CPU for one of them."""

    def __init__(self, run: Path, files: Sequence[Path], batch: int) -> None:
        self.network = Model(run, device="cpu").network
        assert self.network.image_shape is not None
        self.side = self.network.image_shape[1]
        self.files = files
        self.batch = batch
        self.decoding: list[float] = []
        self.encoding: list[float] = []

    def measure(self) -> None:
        """Measure both once more."""
        began = time.process_time()
        images = [torch.from_numpy(decode(file, self.side, 3)) for file in self.files]
        self.decoding.append((time.process_time() - began) / len(self.files))
        batches = torch.stack(images).split(self.batch)  # type: ignore[no-untyped-call]
        with torch.inference_mode():
            self.network(self.network.plain(batches[0]))
            began = time.process_time()
            for images_of_batch in batches:
                self.network(self.network.plain(images_of_batch))
            self.encoding.append((time.process_time() - began) / len(self.files))

    @property
    def seconds(self) -> float:
        """Both, for one image."""
        return median(self.decoding) + median(self.encoding)


def speed(
    folder: Path, encoder: str, side: int, counts: tuple[int, int], some: int, batch: int
) -> tuple[list[Row], list[Ended], Alone, Path]:
    """Bulk embedding of two numbers of files, beside decoding and encoding alone."""
    run = trained(folder / "train", encoder, side)
    half = write_files(folder / "half", counts[0], side)
    both = folder / "both"
    both.mkdir()
    (both / "a").symlink_to(folder / "half")
    write_files(both / "b", counts[1] - counts[0], side, counts[0])
    alone = Alone(run, half[:some], batch)
    ends: list[Ended] = []
    alone.measure()
    for data, out in ((folder / "half", "out half"), (both, "out")):
        ends.append(command("embed", run, "--data", data, "--out", f"{folder / out}/", *OPTIONS))
        alone.measure()
    rows: list[Row] = []
    for count, end in zip(counts, ends, strict=True):
        rows.append(
            [
                f"{encoder}, {side} px",
                count,
                end.cpu,
                count / end.cpu,
                end.cpu / count / alone.seconds,
                end.memory,
            ]
        )
    return rows, ends, alone, run


def kills(folder: Path, run: Path, count: int, total: int, seed: int = 0) -> tuple[list[int], bool, float]:
    """Embed with kills at random places, and whether the result equals that of an undisturbed run."""
    import pyarrow.dataset as ds

    rng = random.Random(seed)
    out = folder / "killed"
    words = ("embed", run, "--data", folder / "both", "--out", f"{out}/", *OPTIONS)
    # the last kill comes before the end: six seconds make several parts
    places = sorted(0.85 * rng.random() * total / PART for _ in range(count))
    found, cpu = [], 0.0
    for place in places:
        moment: list[float] = []

        def reached(place: float = place, moment: list[float] = moment) -> bool:
            """Whether the part is being made, and a random share of a second has passed."""
            there = len(list(out.glob("part-*.parquet"))) if out.is_dir() else 0
            if there >= int(place) and not moment:
                moment.append(time.monotonic() + rng.random() * 6)
            return bool(moment) and time.monotonic() >= moment[0]

        ended = command(*words, until=reached)
        cpu += ended.cpu
        if ended.code == 0:
            break
        found.append(len(list(out.glob("part-*.parquet"))))
    cpu += command(*words).cpu
    left = [path.name for path in out.iterdir() if path.name.startswith(".")]
    wanted, made = (ds.dataset(path).to_table() for path in (folder / "out", out))
    names = sorted(path.name for path in (folder / "out").glob("part-*"))
    same = names == sorted(path.name for path in out.glob("part-*")) and wanted.equals(made)
    return found, same and not left, cpu


def measure(size: Size) -> Results:
    """Speed and memory with two encoders, and a run that is killed again and again."""
    counts = choose(size, full=(50_000, 100_000), short=(2_000, 4_000), tiny=(50, 100))
    large = choose(size, full=(500, 1_500), short=(50, 100), tiny=(4, 8))
    number = choose(size, full=20, short=4, tiny=1)
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        for name in ("small", "large"):
            (place / name).mkdir()
        rows, ends, alone, run = speed(
            place / "small", "small-conv", 64, counts, choose(size, full=4000, short=500, tiny=20), 256
        )
        killed, same, cpu = kills(place / "small", run, number, counts[1])
        more, costly, lite, _ = speed(
            place / "large", "efficientnet-lite0", 224, large, choose(size, full=200, short=40, tiny=4), 20
        )
    slope = (costly[1].cpu - costly[0].cpu) / (large[1] - large[0])
    columns = ("encoder", "files", "CPU s", "files a CPU second", "× decoding + encoding alone", "memory, MB")
    parts: list[Row] = [
        ["small-conv, 64 px", 1e3 * median(alone.decoding), 1e3 * median(alone.encoding)],
        ["efficientnet-lite0, 224 px", 1e3 * median(lite.decoding), 1e3 * median(lite.encoding)],
    ]
    return Results(
        [
            Table("Bulk embedding, the whole command", columns, [*rows, *more]),
            Table("Alone, CPU ms a file", ("encoder", "decoding", "encoding"), parts),
            Table(
                "Killed by SIGKILL",
                ("kills", "parts there at each", "CPU s, all together", "equals the undisturbed run"),
                [[len(killed), ", ".join(map(str, killed)), cpu, "yes" if same else "NO"]],
            ),
        ],
        {
            "P16 small": ends[1].cpu / counts[1] / alone.seconds,
            "P16 large": slope / lite.seconds,
            "P16 memory": max(end.memory for end in (*ends, *costly)) / 1000,
            "P16 growth": ends[1].memory / ends[0].memory,
            "P16 kills": float(len(killed) if same else 0),
        },
    )


if __name__ == "__main__":
    main(__doc__, measure)
