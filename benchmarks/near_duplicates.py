"""What shares of the usual distance find as near duplicates, and what finding them costs.

python benchmarks/near_duplicates.py --run runs/emoji     pairs by share of the median nearest distance
python benchmarks/near_duplicates.py --size 100000        seconds and memory of random vectors, d = 128
python benchmarks/near_duplicates.py --run runs/photos --copies FOLDER
                                                          which changed copies of 100 pictures are near
"""

from __future__ import annotations

import argparse
import io
import resource
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import labeltree as lt
from labeltree.curation.close_pairs import close_pairs, nearest_distances
from labeltree.curation.duplicates import find_duplicates, usual_threshold
from labeltree.inference.run_embeddings import run_tables

SHARES = (0.03, 0.06, 0.13, 0.25, 0.5)
RATIOS = (0.5, 0.6, 0.7)
COPIES: dict[str, Callable[[Image.Image], Image.Image]] = {
    "JPEG 95": lambda image: saved(image, 95),
    "JPEG 90": lambda image: saved(image, 90),
    "JPEG 85": lambda image: saved(image, 85),
    "JPEG 60": lambda image: saved(image, 60),
    "half the side, JPEG 85": lambda image: saved(image.resize((image.width // 2, image.height // 2)), 85),
    "5 % off each side, JPEG 85": lambda image: saved(
        image.crop((image.width // 20, image.height // 20, *(s - s // 20 for s in image.size))), 85
    ),
}


def saved(image: Image.Image, quality: int) -> Image.Image:
    """The picture as a JPEG of that quality shows it."""
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality)
    return Image.open(file).convert("RGB")


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


def of_copies(run: str, folder: str) -> None:
    """Print the share of changed copies near their original, by the usual threshold and by rules of ratios.

    By a ratio, two samples are near if each is the other's nearest, nearer than that share of the distance to
    the second nearest of either. How many pairs of the folder itself each rule calls near comes last.
    """
    model = lt.load(run)
    pictures = [Image.open(file).convert("RGB") for file in sorted(Path(folder).rglob("*.jpg"))]
    vectors = model.embed_batch(pictures)[1].double()
    space = model.network.objective.geometry
    threshold, _ = usual_threshold(vectors, space)
    near = space.pairwise_distance(vectors, vectors).fill_diagonal_(float("inf"))
    closest, partner = near.topk(2, largest=False)[0], near.argmin(1)
    some = torch.randperm(len(vectors), generator=torch.Generator().manual_seed(0))[:100]
    print(f"{len(vectors)} pictures, copies of {len(some)}; threshold {threshold:.4f}")
    print("copy".ljust(28), "median", "nearest", "usual", *(f"ratio {ratio}" for ratio in RATIOS), sep="  ")
    for name, change in COPIES.items():
        copies = model.embed_batch([change(pictures[row]) for row in some.tolist()])[1].double()
        distances = space.pairwise_distance(copies, vectors)
        own = distances.gather(1, some[:, None])[:, 0]
        first = distances.argmin(1) == some
        others = torch.minimum(distances.scatter(1, some[:, None], float("inf")).amin(1), closest[some, 0])
        shares = [own <= threshold, *(first & (own < ratio * others) for ratio in RATIOS)]
        cells = [f"{100 * float(each.double().mean()):.0f} %" for each in (first, *shares)]
        print(name.ljust(28), f"{float(own.median()):.3f}", *cells, sep="  ")
    quotients = closest[:, 0] / closest[:, 1]
    quotients = torch.maximum(quotients, quotients[partner])
    mutual = partner[partner] == torch.arange(len(vectors))
    pairs = [int((near <= threshold).sum()) // 2]
    pairs += [int((mutual & (quotients < ratio)).sum()) // 2 for ratio in RATIOS]
    print("pairs of the folder itself".ljust(28), *pairs, sep="  ")


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
    parser.add_argument("--copies")
    parser.add_argument("--size", type=int)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.copies:
        of_copies(options.run, options.copies)
    elif options.run:
        of_run(options.run)
    if options.size:
        of_size(options.size)
