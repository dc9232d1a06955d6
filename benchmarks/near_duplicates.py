"""What shares of the usual distance find as near duplicates, and what finding them costs.

python benchmarks/near_duplicates.py --run runs/emoji     pairs by share of the median nearest distance
python benchmarks/near_duplicates.py --size 100000        seconds and memory of random vectors, d = 128
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
import torch

from labeltree.curation.close_pairs import close_pairs, nearest_distances
from labeltree.curation.duplicates import find_duplicates
from labeltree.inference.run_embeddings import run_tables

SHARES = (0.03, 0.06, 0.13, 0.25, 0.5)


def of_run(path: str) -> None:
    """Print, for each share, the pairs of a run and how many of them have equal contents or equal labels."""
    run, tables = run_tables(path, ["trained"])
    table = tables["trained"]
    contents = np.unique(run.source.sample_digests(), axis=0, return_inverse=True)[1].ravel()
    some = torch.randperm(len(table), generator=torch.Generator().manual_seed(0))[:1000]
    nearest = nearest_distances(table.embeddings, some, table.space)
    median = float(nearest[nearest > 1e-5].median())
    sizes = np.bincount(contents)
    print(f"{len(table)} samples, {int((sizes * (sizes - 1) // 2).sum())} pairs of equal contents")
    print("share   pairs  equal contents  others  others of one label")
    for share in SHARES:
        parts = list(close_pairs(table.embeddings, table.space, within=share * median))
        first, second = (torch.cat([getattr(p, side) for p in parts]) for side in ("first", "second"))
        equal = contents[first] == contents[second]
        alike = (table.nodes[first] == table.nodes[second]).numpy()[~equal]
        mean = f"{100 * alike.mean():.0f} %" if len(alike) else "–"
        print(f"{share:<6} {len(first):>6} {int(equal.sum()):>15} {len(alike):>7}  {mean:>19}")


def of_size(n: int) -> None:
    """Print seconds and memory for n vectors in 2,000 clusters, a thousandth of them planted twice."""
    draw = torch.Generator().manual_seed(0)
    centres = torch.randn(2000, 128, generator=draw)
    vectors = centres[torch.arange(n) % 2000] + 0.5 * torch.randn(n, 128, generator=draw)
    planted = max(n // 1000, 1)
    vectors[-planted:] = vectors[:planted] + 0.001 * torch.randn(planted, 128, generator=draw)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, cpu = time.perf_counter(), time.process_time()
    found = find_duplicates(vectors)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"n = {n}: {time.process_time() - cpu:.0f} s of CPU, {time.perf_counter() - start:.0f} s, "
        f"{(after - before) / 1024:.0f} MiB beside the vectors; {found.num_pairs} pairs of {planted} planted"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--run")
    parser.add_argument("--size", type=int)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.run:
        of_run(options.run)
    if options.size:
        of_size(options.size)
