"""How many steps a run on few samples needs: accuracy and retrieval by number of steps, beside raw samples.

python benchmarks/few_samples.py --work /tmp/few
python benchmarks/few_samples.py --work /tmp/few --only birds digits --steps 100 300

Batches are those that `labeltree train` chooses for so few samples, and epochs as many as give the steps;
"10 epochs of 256" is what it took for any number of samples before. Numbers are means ± sd over the seeds,
which draw the splits, too. Runs are kept in the folder, so a second call only prints.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import labeltree as lt
from labeltree.training.training_length import batch_size_for, steps_of

STEPS = (100, 300, 1000)
SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Samples:
    """A small data set.

    Attributes:
        settings: of the recipe.
        train: number of training samples.
        make: writes it to a folder, if it is no data set with a name.
    """

    settings: dict[str, Any]
    train: int
    make: Callable[[Path], None] | None = None


def draw_birds(folder: Path) -> None:
    """Pictures of 13 birds, 14 of each, in nested folders."""
    from labeltree.datasets import drawn_birds

    drawn_birds.draw_birds(folder, each=14)


def write_digits(folder: Path) -> None:
    """Every fourth of scikit-learn's handwritten digits, in folders: even/4/12.png."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    for number in range(0, len(digits.images), 4):
        label = int(digits.target[number])
        place = folder / ("odd" if label % 2 else "even") / str(label) / f"{number}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((digits.images[number] * 15.9).astype(np.uint8)).save(place)


SETS = {
    "birds": Samples({"image_size": 32}, 131, draw_birds),
    "fashion-mnist": Samples({"data": "fashion-mnist", "limit": 200, "test_limit": 500}, 180),
    "digits": Samples({"image_size": 16, "flip": False}, 324, write_digits),
}


def train_and_score(name: str, work: Path, steps: int | None, seed: int) -> dict[str, float]:
    """Train and evaluate one run; None stands for 10 epochs of batches of 256."""
    samples = SETS[name]
    settings = {**samples.settings, "seed": seed, "accelerator": "cpu"}
    if samples.make is not None:
        folder = work / "data" / name
        if not folder.is_dir():
            samples.make(folder)
        settings["data"] = str(folder)
    if steps is None:
        settings |= {"epochs": 10, "batch_size": 256}
    else:
        batch = batch_size_for(samples.train)
        settings |= {"epochs": max(10, -(-steps // steps_of(samples.train, 1, batch))), "batch_size": batch}
    run = lt.train(**settings, out=work / f"{name}-{steps}-{seed}", progress_bar=False)
    found = lt.evaluate(run, resamples=0).result
    history = run.read_history()
    model = found.main
    raw = next(method for key, method in found.methods.items() if key.startswith("raw"))
    return {
        "steps": history[-1]["step"],
        "top-1": model.answer_score("top1"),
        "recall at 1": model.score("recall_at_1", "embeddings"),
        "MAP@R": model.score("map_at_r", "embeddings"),
        "seconds": sum(row["seconds"] for row in history),
        "raw top-1": raw.answer_score("top1"),
        "raw recall at 1": raw.score("recall_at_1", "embeddings"),
        "raw MAP@R": raw.score("map_at_r", "embeddings"),
    }


def shown(values: list[float]) -> str:
    """Mean ± sd."""
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.3f}{spread}"


def main() -> None:
    """Print a table for each data set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--steps", nargs="+", type=int, default=list(STEPS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows: dict[tuple[str, int | None], list[dict[str, float]]] = {}
    for seed in options.seeds:
        for name in options.only:
            for steps in (None, *options.steps):
                found = train_and_score(name, options.work, steps, seed)
                rows.setdefault((name, steps), []).append(found)
                print(name, steps, seed, {key: round(value, 3) for key, value in found.items()}, flush=True)
    metrics = ("top-1", "recall at 1", "MAP@R")
    print(f"\n| data | run | {' | '.join(metrics)} | seconds |\n|---|---|---:|---:|---:|---:|")
    for name in options.only:
        by_seed = rows[name, None]
        raw = " | ".join(shown([found[f"raw {metric}"] for found in by_seed]) for metric in metrics)
        print(f"| {name} | raw samples | {raw} | |")
        for steps in (None, *options.steps):
            runs = rows[name, steps]
            cells = " | ".join(shown([found[metric] for found in runs]) for metric in metrics)
            what = "10 epochs of 256" if steps is None else f"about {steps} steps"
            seconds = statistics.mean(found["seconds"] for found in runs)
            print(f"| {name} | {what}: {runs[0]['steps']:.0f} | {cells} | {seconds:.0f} |")


if __name__ == "__main__":
    main()
