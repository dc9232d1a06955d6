"""Peak memory of every pairwise objective, forward and backward, as the batch grows (P5).

    python benchmarks/memory.py [--short]

Every figure is that of a process of its own, over what it held before; see peak.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness import Results, Row, Size, Table, choose, main
from objectives import OBJECTIVES
from peak import Peak, peak

D = 128
LARGEST = 65_536


def growth(peaks: Mapping[int, Peak]) -> float | None:
    """The most that memory grew by from one n to its double; None where one was not measured."""
    factors = []
    for n in peaks:
        if 2 * n in peaks:
            smaller, larger = peaks[n].megabytes, peaks[2 * n].megabytes
            if smaller is None or larger is None:
                return None
            factors.append(larger / max(smaller, 1.0))
    return max(factors, default=None)


def measure(size: Size) -> Results:
    """Megabytes over baseline, and seconds, per objective and n."""
    counts = choose(size, full=[8192, 16_384, 32_768, LARGEST], short=[8192, 16_384], tiny=[64])
    kinds = ["hwc", "himulcon", "hicone", "mlcl", "jaccard", "maskcon", "lam"]
    names = choose(size, full=list(OBJECTIVES), short=kinds, tiny=["hwc"])
    further = choose(size, full=[], short=["hwc", "hicone"], tiny=[])  # of which the largest is measured, too
    found = {name: {n: peak(name, n, D) for n in counts} for name in names}
    for name in further:
        found[name][LARGEST] = peak(name, LARGEST, D)
    shown = sorted({n for peaks in found.values() for n in peaks})
    rows: list[Row] = []
    for name, peaks in found.items():
        of_all = [peaks.get(n, Peak(None, None)) for n in shown]
        rows.append([name, *(p.megabytes for p in of_all), growth(peaks), *(p.seconds for p in of_all)])
    columns = ["objective", *(f"MB, n = {n:,}" for n in shown)]
    columns += ["growth a doubling", *(f"CPU s, n = {n:,}" for n in shown)]
    table = Table(f"Over baseline, d = {D}, 8/64/512 nodes", columns, rows)
    notes = [
        "–: it did not fit into an address space of 24 GB, or was not measured.",
        "A queue loss has a queue of n keys here, and MLCL a head per depth, three.",
    ]
    if further:
        notes.append(f"n = {LARGEST:,} of {' and '.join(further)} alone; the full form has all.")
    return Results([table], figures(found), notes)


def figures(found: Mapping[str, Mapping[int, Peak]]) -> dict[str, float]:
    """What the goals ask for; a figure of all objectives is there where none is missing."""
    measured = {}
    largest = {name: peaks[LARGEST] for name, peaks in found.items() if LARGEST in peaks}
    megabytes = [one.megabytes for one in largest.values() if one.megabytes is not None]
    if largest and len(megabytes) == len(largest):
        measured["P5"] = max(megabytes)
    if "hwc" in largest and largest["hwc"].seconds is not None:
        measured["P5 seconds"] = largest["hwc"].seconds
    factors = [factor for factor in map(growth, found.values()) if factor is not None]
    if len(factors) == len(found):
        measured["P5 growth"] = max(factors)
    return measured


if __name__ == "__main__":
    main(__doc__, measure)
