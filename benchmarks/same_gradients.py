"""Do two versions of labeltree take the same first step, with every objective?

    python benchmarks/same_gradients.py --before OTHER [--after .] [OBJECTIVE ...]

OTHER and `.` are folders of the project. Each version trains each objective on the same small images for
one step, as `labeltree train` would, and the gradients of all parameters are compared: on a ragged tree and
on one of two leaves, with a batch that is one tile of the pair losses and with one that is several. The
measure is the distance from the dense implementation of the version before, as a share of the gradient's
norm: the version after may not lie further from it than twice what the version before does, or 2e-6 where
that is more (goal P6; float32's own rounding).
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import subprocess
import sys
import tempfile
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.optim.optimizer import register_optimizer_step_post_hook

SIZES = {"one tile": 64, "several tiles": 400}  # samples; a step sees two views of each
TREES: dict[str, list[tuple[str, ...]]] = {
    "ragged tree": [
        ("clothes", "top", "shirt"),
        ("clothes", "top", "pullover"),
        ("clothes", "coat"),
        ("shoes", "boot", "short"),
        ("shoes", "boot", "long"),
        ("shoes", "sandal"),
        ("bag",),
    ],
    "two leaves": [("benign",), ("malignant",)],
}
SETTINGS = ["--encoder", "small-conv", "--image_size", "16", "--epochs", "1", "--val", "0.1", "--test", "0.1"]
FLOOR = 2e-6


class _Stepped(BaseException):
    """The first step's gradients are there."""


def _images(folder: Path, paths: list[tuple[str, ...]], samples: int) -> None:
    """A folder of random images of which those of one class are alike."""
    rng = np.random.default_rng(0)
    colours = rng.integers(0, 200, (len(paths), 4, 4, 3))
    for number in range(samples):
        path = paths[number % len(paths)]
        noise = rng.integers(0, 56, (16, 16, 3))
        pixels = colours[number % len(paths)].repeat(4, 0).repeat(4, 1) + noise
        place = folder.joinpath(*path)
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).save(place / f"{number:04d}.png")


def _word_vectors(file: Path, paths: list[tuple[str, ...]]) -> None:
    rng = np.random.default_rng(1)
    names = sorted({name for path in paths for name in path})
    file.write_text("".join(f"{name} {' '.join(f'{x:.4f}' for x in rng.normal(size=8))}\n" for name in names))


def _dense() -> Any:
    """The context in which the pair losses of this version use their dense implementation."""
    for room in ("labeltree.pairs.pair_plan", "labeltree.pairs.plan"):  # now, before
        try:
            return importlib.import_module(room).implementation("dense")
        except (ModuleNotFoundError, AttributeError):
            continue
    raise ImportError("labeltree.pairs has no function `implementation`")


def first_gradients(arguments: list[str], dense: bool) -> np.ndarray[Any, Any]:
    """The gradients of one step of `labeltree train`, all parameters in one row."""
    from labeltree.cli.main import main

    gradients: list[torch.Tensor] = []

    def keep(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        for group in optimizer.param_groups:
            gradients.extend(
                p.grad.detach().double().flatten() for p in group["params"] if p.grad is not None
            )
        raise _Stepped

    hook = register_optimizer_step_post_hook(keep)
    output = io.StringIO()
    try:
        with redirect_stdout(output), redirect_stderr(output), _dense() if dense else nullcontext():
            main(["train", *arguments])
    except (_Stepped, SystemExit):  # some versions turn an exception into an exit code
        pass
    finally:
        hook.remove()
    if gradients:
        return torch.cat(gradients).numpy()
    raise RuntimeError(f"{' '.join(arguments)} took no step:\n{output.getvalue()[-2000:]}")


def write_gradients(out: Path, work: Path, objectives: list[str], dense: bool) -> None:
    """Write the gradients of every objective, tree and size of batch."""
    from labeltree.training import registry

    is_solved = getattr(registry, "is_solved", lambda name: False)  # earlier versions had none
    stepped = [entry.name for entry in registry.list_objectives() if not is_solved(entry.name)]
    gradients = {}
    for tree, paths in TREES.items():
        for size, samples in SIZES.items():
            data = work / tree / size
            if not data.is_dir():
                _images(data, paths, samples * 3 // 2)  # the rest is validation and test
                _word_vectors(work / tree / "words.txt", paths)
            for name in objectives or [*stepped, "hwc+lam", "corr+cls"]:
                own = ["--devise.vectors", str(work / tree / "words.txt")] if "devise" in name else []
                if name in ("cls", "image-text") or (name.startswith("lam") and tree == "two leaves"):
                    continue  # cls needs another objective, image-text texts; one depth gives LAM no gradient
                run = str(out.with_suffix("")) + f"-{tree}-{size}-{name}"
                step = ["--data", str(data), "--objective", name, "--batch_size", str(samples)]
                for way in (False, True) if dense else (False,):
                    key = f"{name}|{tree}|{size}|{'dense' if way else 'auto'}"
                    gradients[key] = first_gradients([*step, *SETTINGS, *own, "--out", f"{run}-{way}"], way)
                    print(".", end="", file=sys.stderr, flush=True)
    np.savez(out, **gradients)  # type: ignore[arg-type]


def _run(project: Path, out: Path, work: Path, objectives: list[str], dense: bool) -> dict[str, Any]:
    print(f"\n{project} ", end="", file=sys.stderr)
    subprocess.run(
        [sys.executable, __file__, *objectives, "--measure", str(out), "--work", str(work)]
        + ["--dense"] * dense,
        env={**os.environ, "PYTHONPATH": str(project.resolve() / "src")},
        check=True,
    )
    with np.load(out) as loaded:
        return dict(loaded)


def main() -> int:
    """Measure twice, and print a row for each objective, tree and size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("objectives", nargs="*", metavar="OBJECTIVE", help="default: all")
    parser.add_argument("--before", metavar="FOLDER", type=Path)
    parser.add_argument("--after", metavar="FOLDER", type=Path, default=Path())
    parser.add_argument("--measure", metavar="FILE", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--work", metavar="FOLDER", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--dense", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        write_gradients(options.measure, options.work, options.objectives, options.dense)
        return 0
    if options.before is None:
        parser.error("--before FOLDER is needed")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        before = _run(options.before, work / "before.npz", work, options.objectives, True)
        after = _run(options.after, work / "after.npz", work, options.objectives, False)
    print("\n| objective | labels | batch | before to dense | after to dense | after to before | |")
    print("|---|---|---|---:|---:|---:|---|")
    wrong = 0
    for key in sorted(k for k in before if k.endswith("|auto")):
        name, tree, size, _ = key.split("|")
        exact = before[f"{name}|{tree}|{size}|dense"]
        if key not in after or after[key].shape != exact.shape:
            print(f"| {name} | {tree} | {size} | | | | other parameters |")
            wrong += 1
            continue
        norm = float(np.linalg.norm(exact)) or 1.0
        old, new, change = (
            float(np.linalg.norm(difference)) / norm
            for difference in (before[key] - exact, after[key] - exact, after[key] - before[key])
        )
        far = not new <= max(2 * old, FLOOR)
        wrong += far
        print(f"| {name} | {tree} | {size} | {old:.1e} | {new:.1e} | {change:.1e} | {'FAR' if far else ''} |")
    print(f"\n{sum(key.endswith('|auto') for key in before)} first steps compared, {wrong} too far apart")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
