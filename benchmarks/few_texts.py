"""Few texts: does fine-tuning the encoder answer better than a head over the encoder as it is?

    labeltree data get minilm; labeltree data get icd-10-cm; labeltree data get wordnet-animals
    python benchmarks/few_texts.py FOLDER

From each data set some branches are drawn with equally many texts each. 60 texts train, half of all test, and
everything else is as `labeltree train` chooses it. Eight runs take about 15 minutes of one core in all.
"""

from __future__ import annotations

import argparse
import csv
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np

from labeltree.data import open_source
from labeltree.evaluation import EvaluationResult

DATA = {"icd-10-cm": (2, 20, 30), "wordnet-animals": (4, 24, 25)}  # depth, branches at most, texts of each


def write_texts(name: str, folder: Path) -> Path:
    """A table of texts with the branch of each."""
    depth, branches, each = DATA[name]
    source = open_source(name)
    tree, nodes = source.taxonomy, source.nodes.clamp_min(0)
    branch = tree.ancestors[nodes, depth].numpy()
    deep = (source.nodes.numpy() > 0) & (tree.depth[nodes].numpy() >= depth)
    draw = np.random.default_rng(0)
    kinds, counts = np.unique(branch[deep], return_counts=True)
    large = kinds[counts >= each]
    rows = [
        (int(row), int(kind))
        for kind in sorted(draw.choice(large, min(branches, len(large)), replace=False))
        for row in draw.choice(np.flatnonzero(deep & (branch == kind)), each, replace=False)
    ]
    texts = source.read([row for row, _ in rows])
    file = folder / f"{name}.csv"
    with file.open("w", newline="", encoding="utf-8") as opened:
        table = csv.writer(opened)
        table.writerow(["text", "label"])
        table.writerows([text, tree.path_name(kind)] for text, (_, kind) in zip(texts, rows, strict=True))
    return file


def cpu_seconds() -> float:
    """CPU seconds of all processes that were started and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def describe_run(file: Path, trainable: str, seed: int) -> str:
    """A line on a run: its CPU seconds, right answers and MAP@R."""
    run = file.with_name(f"{file.stem}-{trainable}-{seed}")
    command = [sys.executable, "-m", "labeltree"]
    before = cpu_seconds()
    train = ["train", "--data", str(file), "--trainable", trainable, "--seed", str(seed), "--out", str(run)]
    subprocess.run([*command, *train, "--test", "0.5", "--train_limit", "60", "--quiet"], check=True)
    seconds = cpu_seconds() - before
    subprocess.run([*command, "evaluate", str(run)], check=True, stdout=subprocess.DEVNULL)
    main = EvaluationResult.load(run / "metrics.json").main
    map_at_r = main.score("map_at_r", "embeddings")
    numbers = f"{seconds:.0f} | {main.answer_score('top1'):.3f} | {map_at_r:.3f}"
    return f"| {file.stem} | {trainable} | {seed} | {numbers} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    print("| texts | trainable | seed | CPU seconds | top-1 | MAP@R |\n|---|---|---|---|---|---|")
    for name in DATA:
        written = write_texts(name, options.folder)
        for seed in options.seeds:
            for trainable in ("head", "all"):
                print(describe_run(written, trainable, seed), flush=True)
