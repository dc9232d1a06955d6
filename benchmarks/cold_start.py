"""What one prediction costs: a cold `labeltree predict`, what its imports cost, and a warm call (P15).

    python benchmarks/cold_start.py [--short]

CPU seconds of a process and its children, the least of several starts, and milliseconds of a call in a
process that has the model open. The run has the small encoder and images of 32 pixels.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

import labeltree as lt
from harness import Results, Row, Size, Table, choose, main
from labeltree.inference.model import Model

CLASSES = ("animal/dog", "animal/cat", "plant/oak", "plant/pine")


def small_run(place: Path) -> tuple[Path, Path]:
    """A run on generated images, and one of the images."""
    draw = np.random.default_rng(0)
    for number, name in enumerate(CLASSES):
        folder = place / "photos" / name
        folder.mkdir(parents=True)
        for sample in range(40):
            pixels = draw.normal(60 + 40 * number, 30, (32, 32, 3)).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"{sample}.jpg", quality=90)
    settings = {"encoder": "small-conv", "epochs": 1, "batch_size": 32, "accelerator": "cpu"}
    run = lt.train(place / "photos", out=place / "run", progress_bar=False, **settings)
    return run.path, place / "photos" / CLASSES[0] / "0.jpg"


def cpu_of(words: list[str], starts: int) -> float:
    """The least CPU seconds of a process."""
    found = []
    for _ in range(starts):
        child = subprocess.Popen(
            words,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": ""},  # compiled once
        )
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise SystemExit(f"{' '.join(words)} ended with {child.returncode}")
        found.append(used.ru_utime + used.ru_stime)
    return min(found)


def warm(model: Model, sample: object, calls: int) -> float:
    """Milliseconds of CPU time of a prediction in this process, after the first."""
    model.predict(sample)
    began = time.process_time()
    for _ in range(calls):
        model.predict(sample)
    return 1e3 * (time.process_time() - began) / calls


def measure(size: Size) -> Results:
    """Starts of processes, and calls of an open model."""
    starts, calls = choose(size, full=7, short=3, tiny=1), choose(size, full=200, short=100, tiny=2)
    python = [sys.executable, "-c"]
    with tempfile.TemporaryDirectory() as folder:
        run, image = small_run(Path(folder))
        seconds = {
            "python": cpu_of([*python, "pass"], starts),
            "import torch": cpu_of([*python, "import torch"], starts),
            "import torch, torchvision": cpu_of([*python, "import torch, torchvision"], starts),
            "import torch, lightning": cpu_of([*python, "import torch, lightning"], starts),
            "import labeltree, load": cpu_of(
                [*python, f"import labeltree; labeltree.load({str(run)!r})"], starts
            ),
            "labeltree predict RUN IMAGE": cpu_of(
                [sys.executable, "-m", "labeltree", "predict", str(run), str(image)], starts
            ),
        }
        model = lt.load(run)
        pixels = Image.open(image)
        pixels.load()
        milliseconds = {
            "model.predict(FILE)": warm(model, image, calls),
            "model.predict(PIL image)": warm(model, pixels, calls),
        }
    torch_alone = seconds["import torch"]
    rows: list[Row] = [[name, value, value - torch_alone] for name, value in seconds.items()]
    cold = Table("A process, from its start to its end", ("process", "CPU s", "above torch, CPU s"), rows)
    called: list[Row] = [[name, value] for name, value in milliseconds.items()]
    measured = {
        "P15 cold": seconds["labeltree predict RUN IMAGE"],
        "P15 warm": max(milliseconds.values()),
    }
    return Results([cold, Table("A call of an open model", ("call", "CPU ms"), called)], measured)


if __name__ == "__main__":
    main(__doc__, measure)
