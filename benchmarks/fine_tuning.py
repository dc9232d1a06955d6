"""Fine-tuning beside a head alone, on the smallest set of the confirmation: does training the encoder pay?

    python benchmarks/confirmation.py features --sets flowers --clones clones --work confirmation
    python benchmarks/fine_tuning.py run --work confirmation       # hours; goes on where it stopped
    python benchmarks/fine_tuning.py table

Each objective is trained twice on the photographs of a split: a head on frozen features, as `labeltree train`
does by default, and from there the last two stages of the encoder (`--trainable last:2`), with the settings
that docs/photographs.md gives. `a wrong tree` is the control. Splits are those of the confirmation.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from scipy import stats

import labeltree as lt
from confirmation import paired, read_split
from frozen_heads import Row, Samples, answer_scores, space_scores, timed, written
from labeltree.atomic import atomic_write
from labeltree.decisions.classifiers import classify
from labeltree.inference.run_classifiers import run_classifiers
from labeltree.inference.run_embeddings import run_tables

RESULTS = Path(__file__).parent / "results" / "confirmation" / "fine-tuning.json"
SET = "flowers"
OBJECTIVES: dict[str, tuple[str, dict[str, Any]]] = {
    "pairs-proxies-means": ("pairs-proxies-means", {}),
    "cross entropy": ("ce", {}),
    "SupCon": ("supcon", {}),
    "pairs-proxies-means, a wrong tree": ("pairs-proxies-means", {"taxonomy_noise": 1.0}),
}
TUNED: dict[str, Any] = {
    "trainable": "last:2",
    "views": "crop",
    "epochs": 20,
    "optimizer": {"lr": 1e-4},
}
COLUMNS = ("top1", "hierarchical_f1", "recall_at_1", "map_at_r", "ahp", "CPU s")


def write_split(samples: Samples, source: Path, target: Path) -> None:
    """The table of the set, with a column that says where each sample belongs."""
    part = {row: name for name in ("train", "val", "test") for row in getattr(samples, name).tolist()}
    with (
        source.open(encoding="utf-8", newline="") as given,
        target.open("w", encoding="utf-8", newline="") as file,
    ):
        rows, writer = csv.reader(given), csv.writer(file)
        writer.writerow([*next(rows), "split"])
        for place, row in enumerate(rows):
            assert samples.taxonomy.path(int(samples.nodes[place]))[-1] in row
            writer.writerow([*row, part[place]])


def trained(out: Path, samples: Samples, data: Path, objective: str, settings: dict[str, Any]) -> Row:
    """The numbers of a run's test samples, and the CPU seconds of its training."""
    shutil.rmtree(out, ignore_errors=True)
    _, seconds = timed(lambda: lt.train(data, objective, out=out, progress_bar=False, **settings))
    loaded, tables = run_tables(out, ("trained",))
    table = tables["trained"]
    assert torch.equal(table.nodes, samples.nodes)
    answers = classify(run_classifiers(loaded).scores(), table)
    row: Row = answer_scores(answers[samples.test], samples) | {"CPU s": seconds}
    return row | space_scores(table.embeddings.double(), samples)


def run(work: Path, splits: int) -> None:
    """Measure what is missing, split by split."""
    folder = work / SET / "fine-tuning"
    folder.mkdir(parents=True, exist_ok=True)
    for seed in range(splits):
        samples, data = read_split(work, SET, seed), folder / "samples.csv"
        write_split(samples, work / SET / "samples.csv", data)
        levels = [f"level_{depth}" for depth in range(1, int(samples.taxonomy.depth.max()) + 1)]
        for name, (objective, settings) in OBJECTIVES.items():
            results = read_results()
            if name in results.get(str(seed), {}):
                continue
            given = {"encoder": "efficientnet-lite0", "pretrained": True, "seed": seed} | settings
            given["table"] = {"label_columns": levels}
            head = folder / "head"
            rows = {"head": trained(head, samples, data, objective, given)}
            given |= {"weights": head} | TUNED
            if objective != "ce":  # which reads features and has no projection head
                given["head"] = {"dim": 256}
            rows["last:2"] = trained(folder / "tuned", samples, data, objective, given)
            results.setdefault(str(seed), {})[name] = rows
            with atomic_write(RESULTS) as temporary:
                temporary.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
            print(f"split {seed}, {name}", flush=True)


def read_results() -> dict[str, dict[str, dict[str, Row]]]:
    """Split → objective → head or last:2 → numbers; empty if nothing was run."""
    return json.loads(RESULTS.read_text("utf-8")) if RESULTS.is_file() else {}


def table() -> Iterator[str]:
    """Mean ± standard deviation over the splits, and the differences with their intervals."""
    results = read_results()
    yield f"{len(results)} splits of {SET}\n"
    yield "| objective | trained | " + " | ".join(COLUMNS) + " |"
    yield "|---|---|" + "---|" * len(COLUMNS)
    for name in OBJECTIVES:
        both = [methods[name] for methods in results.values() if name in methods]
        for trained in ("head", "last:2") if both else ():
            cells = [written([rows[trained][column] for rows in both], 3) for column in COLUMNS]
            yield f"| {name} | {trained} | " + " | ".join(cells) + " |"
        if len(both) < 2:
            continue
        cells = []
        for column in COLUMNS[:-1]:
            mean, error = paired([rows["last:2"][column] - rows["head"][column] for rows in both])
            half = float(stats.t.ppf(0.975, len(both) - 1)) * error
            cells.append(f"{mean:+.3f} ({mean - half:+.3f} to {mean + half:+.3f})")
        yield f"| {name} | difference, 95 % | " + " | ".join([*cells, ""]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["run", "table"])
    parser.add_argument("--work", type=Path, help="the folder of the confirmation's features")
    parser.add_argument("--splits", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.what == "table":
        print("\n".join(table()))
    elif arguments.work is None:
        parser.error("run needs --work FOLDER")
    else:
        run(arguments.work, arguments.splits)


if __name__ == "__main__":
    main()
