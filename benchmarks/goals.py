"""The goals P1 to P29, beside what was measured and the command that repeats it.

    python benchmarks/goals.py [--short] [--write]

`--short` reads the results of `make bench`, else those of `make bench-full`, which are committed; `--write`
puts the table into docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kept import FOLDER, show
from labeltree.atomic import atomic_write

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
BEGIN, END = "<!-- the table of goals: python benchmarks/goals.py --write -->", "<!-- end of the table -->"


@dataclass(frozen=True)
class Goal:
    """A figure that the project wants to reach.

    Attributes:
        key: under which `Results.measured` has it; begins with the goal's number.
        what: is measured.
        sense: whether it shall be at most or at least the limit.
        limit: in the unit.
        unit: of the figure.
        script: that measures it.
    """

    key: str
    what: str
    sense: Literal["≤", "≥"]
    limit: float
    unit: str
    script: str

    def met(self, measured: float) -> bool:
        """Whether the figure reaches the goal."""
        return measured <= self.limit if self.sense == "≤" else measured >= self.limit


GOALS = (
    Goal("P1", "HWC, n = 8192, d = 128", "≤", 0.75, "× limit3", "losses"),
    Goal("P2", "HiMulCon, 3 depths, n = 8192", "≤", 0.75, "× limit3", "losses"),
    Goal("P2 depths", "HiMulCon, 8 depths against 1", "≤", 1.1, "×", "losses"),
    Goal("P3 SupCon", "pytorch-metric-learning's SupConLoss over ours", "≥", 8, "×", "losses"),
    Goal("P3 HWC", "dense autograd HWC over ours", "≥", 8, "×", "losses"),
    Goal("P4", "dense autograd SupCon over ours, the least from n = 256", "≥", 1, "×", "losses"),
    Goal("P4 512", "the same at n = 512", "≥", 1.5, "×", "losses"),
    Goal("P5", "memory over baseline, n = 65,536, every pairwise objective", "≤", 300, "MB", "memory"),
    Goal("P5 seconds", "time of it, HWC", "≤", 20, "s", "memory"),
    Goal("P5 growth", "memory when n doubles, the most of all objectives", "≤", 2.1, "×", "memory"),
    Goal("P6", "gradient error over that of dense float32, the most of all cases", "≤", 2, "×", "accuracy"),
    Goal("P6 finite", "values that are not finite, τ = 0.01 and ω = 2", "≤", 0, "", "accuracy"),
    Goal("P7", "spread over five label shapes, HWC", "≤", 15, "%", "shapes"),
    Goal("P8 HiConE", "HiConE over HiMulCon", "≤", 1.5, "×", "contrast"),
    Goal("P8 MaskCon", "MaskCon, 256 × 65,536, over its four matrix products", "≤", 1.5, "×", "contrast"),
    Goal("P9", "1, 2, 4 ranks against one process, float64", "≤", 1e-12, "relative", "ranks"),
    Goal("P9 collectives", "collectives in the backward pass", "≤", 0, "", "ranks"),
    Goal("P10 precision", "HP@1..250, 50,000 × 50,000", "≤", 8, "s", "metrics"),
    Goal("P10 all", "all retrieval metrics, 50,000 × 50,000", "≤", 75, "s", "metrics"),
    Goal("P10 loops", "plain Python loops over ours, 10,000 × 10,000", "≥", 20, "×", "metrics"),
    Goal("P11 1M", "one epoch of the sampler, 1,000,000 samples", "≤", 0.3, "s", "sampler"),
    Goal("P11 10M", "one epoch of the sampler, 10,000,000 samples", "≤", 5, "s", "sampler"),
    Goal("P12", "HWC on a GPU, n = 65,536, d = 128, bfloat16", "≤", 12, "ms", "gpu"),
    Goal("P12 memory", "memory of it", "≤", 1, "GB", "gpu"),
    Goal("P13 classes", "class embeddings of 10,000 classes", "≤", 10, "s", "taxonomy"),
    Goal("P13 relation", "relation of a batch of 8192 in 100,000 nodes", "≤", 5, "ms", "taxonomy"),
    Goal("P14", "loss in a step of the small encoder, n = 512", "≤", 5, "%", "training_step"),
    Goal("P14 GPU", "what a loss adds to a step of ResNet-50 on a GPU, n = 512", "≤", 2, "%", "gpu"),
    Goal("P15 cold", "`labeltree predict RUN IMAGE`, a cold process", "≤", 2.5, "CPU s", "cold_start"),
    Goal("P15 warm", "a prediction by an open model, small encoder", "≤", 5, "CPU ms", "cold_start"),
    Goal("P16 small", "bulk embedding, 100,000 files, 64 px, over decode + encode", "≤", 1.15, "×", "bulk"),
    Goal("P16 large", "the same, EfficientNet-Lite0, 224 px, a further file", "≤", 1.15, "×", "bulk"),
    Goal("P16 memory", "memory of it, the most", "≤", 1.5, "GB", "bulk"),
    Goal("P16 growth", "memory when the number of files doubles", "≤", 1.05, "×", "bulk"),
    Goal("P16 kills", "kills, after which the output equals the undisturbed one", "≥", 20, "", "bulk"),
    Goal(
        "P17 step", "a step of `tree-proxies`, 1,644 classes, over cross entropy's", "≤", 1.2, "×", "proxies"
    ),
    Goal(
        "P17 pairs", "a step of `pairs-proxies-means` over SupCon's, 1,644 classes", "≤", 1.2, "×", "proxies"
    ),
    Goal("P17 memory", "memory of `tree-proxies`, 100,000 classes, over baseline", "≤", 1, "GB", "proxies"),
    Goal(
        "P18 exact",
        "index, 1M rows (`--short`: 100,000): exact query over its product",
        "≤",
        1.3,
        "×",
        "index",
    ),
    Goal(
        "P18 recall",
        "approximate recall@10 on held-out queries, the least of the kinds",
        "≥",
        0.95,
        "",
        "index",
    ),
    Goal("P18 approximate", "p50 of it, the slowest kind", "≤", 5, "ms", "index"),
    Goal("P18 filtered", "the same within a subtree of 1 % over unfiltered", "≤", 1, "×", "index"),
    Goal("P19", "explorer's map of 100,000 points, without a graphics card", "≥", 30, "frames/s", "explorer"),
    Goal("P19 paint", "explorer's first points on the map, 100,000 samples", "≤", 2, "s", "explorer"),
    Goal("P20", "service with 16 clients over the bare model, requests a second", "≥", 0.8, "×", "serving"),
    Goal("P20 latency", "p99 latency over the time of a batch", "≤", 3, "×", "serving"),
    Goal("P20 failed", "requests with an unexpected answer", "≤", 0, "", "serving"),
    Goal("P21", "cubic form of HAPPIER's surrogate over ours, n = 512", "≥", 20, "×", "happier"),
    Goal("P25 check", "`taxonomy check`, 2.6M nodes in NCBI's shape", "≤", 30, "CPU s", "taxonomy_files"),
    Goal("P25 memory", "memory of it", "≤", 2048, "MB", "taxonomy_files"),
    Goal("P25 map", "`taxonomy map` to the next release", "≤", 60, "CPU s", "taxonomy_files"),
    Goal("P26", "evaluate, 2,485 test samples, 81 classes, the whole process", "≤", 15, "s", "evaluation"),
    Goal("P26 memory", "peak memory of it", "≤", 1000, "MB", "evaluation"),
    Goal("P29", "sums of the ridge head, 1M × 768 float32, over XᵀX in float64", "≤", 1.3, "×", "ridge_sums"),
    Goal("P29 memory", "peak memory of it", "≤", 2000, "MB", "ridge_sums"),
)


def collect(folder: Path) -> dict[str, dict[str, Any]]:
    """The results in a folder, by script."""
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))}


def table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Every goal as a row of a table in Markdown."""
    lines = ["| # | what | goal | measured | met | command |", "|---|---|---:|---:|---|---|"]
    for goal in GOALS:
        kept = results.get(goal.script, {})
        figure = kept.get("measured", {}).get(goal.key)
        measured = "–" if figure is None else f"{show(figure)} {goal.unit}".strip()
        met = "–" if figure is None else "yes" if goal.met(figure) else "**no**"
        wanted = f"{goal.sense} {show(goal.limit)} {goal.unit}".strip()
        command = f"`{kept['command']}`" if figure is not None else f"`python benchmarks/{goal.script}.py`"
        lines.append(f"| {goal.key.split()[0]} | {goal.what} | {wanted} | {measured} | {met} | {command} |")
    return "\n".join(lines)


def page(text: str, made: str) -> str:
    """The page with the table between its two marks.

    Raises:
        ValueError: the page has no such marks.
    """
    if BEGIN not in text or END not in text:
        raise ValueError(f"{PAGE.name} lacks the lines between which the table goes: {BEGIN!r} and {END!r}")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{made}\n\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="the results of the short forms")
    parser.add_argument("--write", action="store_true", help="into docs/performance.md")
    given = parser.parse_args()
    made = table(collect(FOLDER / "short" if given.short else FOLDER))
    print(made)
    if given.write:
        with atomic_write(PAGE) as path:
            path.write_text(page(PAGE.read_text("utf-8"), made), "utf-8")
