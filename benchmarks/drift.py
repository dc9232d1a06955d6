"""How often the drift test alarms: on batches like those of training, and on batches from elsewhere.

    python docs/examples/two_clinics.py clinics --patients 800 1500      # to train on; another clinic
    python docs/examples/two_clinics.py more --patients 1500 1 --seed 1  # new patients of the same clinic
    labeltree train --data clinics/clinic-a.csv ... --out run
    python benchmarks/drift.py run more/clinic-a.csv clinics/clinic-b.csv --sizes 25 50 100

Batches are drawn without replacement from all samples, whole groups at a time.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch

from labeltree.decisions.drift import DriftRule
from labeltree.inference.calibrate_run import open_decider
from labeltree.inference.decider import Decider
from labeltree.inference.named_samples import open_other
from labeltree.runs import EmbeddingTable


def alarms(decider: Decider, rule: DriftRule, table: EmbeddingTable, size: int, batches: int) -> list[str]:
    """The share of batches of ``size`` groups that alarm, by each test alone and together."""
    probabilities = decider.rule.probabilities(decider.scores(table))
    groups = torch.arange(len(table)) if table.groups is None else table.groups.clone()
    alone = groups < 0
    groups[alone] = int(groups.max()) + 1 + torch.arange(int(alone.sum()))
    names = torch.unique(groups)
    found: dict[str, list[bool]] = {}
    for number in range(batches):
        draw = torch.Generator().manual_seed(number)
        chosen = names[torch.randperm(len(names), generator=draw)[:size]]
        rows = torch.isin(groups, chosen).nonzero()[:, 0]
        drift = rule.test(rule.seen(table.rows(rows), probabilities[rows]))
        assert drift is not None
        found.setdefault("any", []).append(drift.alarms())
        for name, p in drift.p_values.items():
            found.setdefault(name, []).append(p * len(drift.p_values) <= 0.05)
    return [f"{name} {np.mean(values):.3f}" for name, values in found.items()]


if __name__ == "__main__":
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("run")
    parser.add_argument("clean", help="samples from where those of training come from")
    parser.add_argument("others", nargs="+", help="samples from elsewhere")
    parser.add_argument("--sizes", type=int, nargs="+", default=[25, 50, 100])
    parser.add_argument("--batches", type=int, default=200)
    options = parser.parse_args()
    decider = open_decider(options.run)
    assert decider.drift is not None
    print(f"held-out samples: {len(decider.drift.held)}")
    for data in (options.clean, *options.others):
        table = decider.embed(open_other(decider.run, data))
        for size in options.sizes:
            shares = alarms(decider, decider.drift, table, size, options.batches)
            print(f"{data}, batches of {size} groups: {', '.join(shares)}", flush=True)
