"""How often a service alarms whose samples do not drift, and how soon one does whose samples do.

    python benchmarks/drift_rates.py [--services 200]

A service has held-out samples of its own, and answers windows of 200 samples. *Windows*: the test of every
window by itself. *Evidence*: the test that may be read at any time. Samples are 4-dimensional and normal, of
two classes; with drift they are shifted from the sixth window on.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from labeltree.decisions.drift import DriftRule, fit_drift
from labeltree.decisions.drift_evidence import DriftEvidence
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["left", "right"])
OUT = Path(__file__).parent / "results" / "drift_rates.md"
WINDOW, WINDOWS, BEFORE = 200, 25, 5
HELD = (40, 100, 400)
SHIFTS = (0.0, 0.25, 0.5, 1.0)


def draw(rng: np.random.Generator, count: int, shift: float = 0.0) -> tuple[EmbeddingTable, torch.Tensor]:
    """Samples, and their class probabilities."""
    of = rng.integers(2, size=count)
    points = rng.normal(size=(count, 4))
    points[:, 0] += 2.0 * of - 1
    points[:, 1] += shift
    score = 1 / (1 + np.exp(-2 * points[:, 0] + points[:, 1]))
    table = EmbeddingTable(torch.from_numpy(points).float(), TREE.leaves[torch.from_numpy(of)])
    return table, torch.from_numpy(np.stack([1 - score, score], axis=1))


def service(seed: int, held: int, shift: float) -> tuple[list[bool], list[bool]]:
    """Of every window, whether it alarms by itself, and whether the evidence does."""
    rng = np.random.default_rng((seed, held))
    reference, _ = draw(rng, 200)
    rule: DriftRule = fit_drift(reference, *draw(rng, held), seed=seed)
    evidence = DriftEvidence(rule)
    alone, together = [], []
    for number in range(WINDOWS):
        seen = rule.seen(*draw(rng, WINDOW, shift if number >= BEFORE else 0.0))
        found = rule.test(seen)
        assert found is not None
        evidence.add(seen)
        alone.append(found.alarms())
        together.append(evidence.alarms())
    return alone, together


def row(held: int, shift: float, services: int) -> str:
    """A row of the table."""
    found = np.array([service(seed, held, shift) for seed in range(services)])
    alone, together = found[:, 0], found[:, 1]
    clean = alone if shift == 0 else alone[:, :BEFORE]
    cells = [f"{shift:g}", str(held)]
    if shift == 0:
        cells += [f"{clean.mean():.3f}", f"{(clean.mean(axis=1) > 0.25).mean():.3f}"]
        cells += [f"{clean.any(axis=1).mean():.3f}", f"{together.any(axis=1).mean():.3f}", "–", "–"]
    else:
        cells += ["–"] * 4
        for part in (alone, together):
            later = part[:, BEFORE:]
            first = np.where(later.any(axis=1), later.argmax(axis=1) + 1, np.inf)
            middle = np.median(first)
            cells.append(
                f"{WINDOW * middle:.0f}" if np.isfinite(middle) else f"> {WINDOW * (WINDOWS - BEFORE)}"
            )
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--services", type=int, default=200, help="of every row")
    options = parser.parse_args()
    torch.set_num_threads(1)
    text = f"`python benchmarks/drift_rates.py --services {options.services}`\n\n"
    text += f"{options.services} services a row, {WINDOWS} windows of {WINDOW} samples each.\n\n"
    text += (
        "| shift | held-out samples | windows that alarm | services with more than a quarter of them "
        "| services with any | services whose evidence alarms | samples until half of them alarm, windows "
        "| evidence |\n"
        "|---:|---:|---:|---:|---:|---:|---:|---:|\n"
    )
    for shift in SHIFTS:
        for held in HELD:
            line = row(held, shift, options.services)
            print(line, flush=True)
            text += line + "\n"
    OUT.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
