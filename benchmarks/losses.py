"""Time of every pairwise objective, forward and backward, beside limit3 and beside its peers (P1 to P4).

    python benchmarks/losses.py [--short]

limit3 is three plain matrix products of the same size: S = Z Zᵀ, G Z and Gᵀ Z. A dense float32 loss under
autograd needs these three and many passes over (n, n) matrices.
"""

from __future__ import annotations

from collections.abc import Callable

from harness import Results, Row, Size, Table, Timing, choose, in_turn, limit3, main
from inputs import batch, chain
from objectives import OBJECTIVES, both_ways, objective
from peers import PEERS, dense_supcon, has_package, package_supcon

D = 128
ABSENT = "pytorch-metric-learning is not installed, and left out: pip install 'labeltree[bench]'."


def every_objective(size: Size) -> tuple[Table, dict[str, Timing]]:
    """Ours, the dense implementation, the peers, at one n."""
    n = choose(size, full=8192, short=8192, tiny=64)
    inputs = batch(n, D)
    few = ["supcon", "hwc", "himulcon", "hicone", "mlcl", "jaccard", "lam"]
    names = choose(size, full=list(OBJECTIVES), short=few, tiny=list(OBJECTIVES))
    dense = choose(size, full=list(OBJECTIVES), short=[], tiny=list(OBJECTIVES)[:2])
    compared = choose(size, full=list(PEERS), short=["supcon", "hwc"], tiny=list(PEERS))
    candidates: dict[str, Callable[[], object]] = {"limit3": limit3(n, D)}
    for name in names:
        function = objective(name, inputs)
        candidates[f"ours: {name}"] = both_ways(function, inputs.z)
        if name in dense:
            candidates[f"dense: {name}"] = both_ways(function, inputs.z, "dense")
        if name in compared:
            candidates[f"peer: {name}"] = both_ways(PEERS[name](inputs), inputs.z)
    if has_package():
        candidates["package: supcon"] = both_ways(package_supcon(inputs), inputs.z)
    timings = in_turn(candidates, "limit3", rounds=choose(size, full=7, short=5, tiny=1))
    rows: list[Row] = []
    for name in names:
        ours = timings[f"ours: {name}"]
        others = [timings.get(f"{kind}: {name}") for kind in ("dense", "peer", "package")]
        ratios = [other.ratio if other else None for other in others]
        rows.append([name, ours.seconds, ours.ratio, ours.spread, *ratios])
    columns = (
        "objective",
        "s",
        "÷ limit3",
        "least–greatest",
        "dense implementation ÷ limit3",
        "dense autograd ÷ limit3",
        "pytorch-metric-learning ÷ limit3",
    )
    title = f"n = {n}, d = {D}, 8/64/512 nodes; limit3 = {timings['limit3'].seconds:.3g} s"
    return Table(title, columns, rows), timings


def by_depth(size: Size) -> tuple[Table, float]:
    """HiMulCon on trees of 1 to 8 depths; the deepest over the one of one depth."""
    n = choose(size, full=8192, short=8192, tiny=64)
    depths = choose(size, full=[1, 2, 4, 8], short=[1, 8], tiny=[1, 8])
    candidates: dict[str, Callable[[], object]] = {"limit3": limit3(n, D)}
    for depth in depths:
        inputs = batch(n, D, taxonomy=chain(depth))
        candidates[str(depth)] = both_ways(objective("himulcon", inputs), inputs.z)
    rounds = choose(size, full=7, short=5, tiny=1)
    timings = in_turn(candidates, "1", rounds=rounds)
    limit = timings["limit3"].ratio
    rows: list[Row] = [
        [depth, timings[depth].ratio / limit, timings[depth].ratio] for depth in map(str, depths)
    ]
    return Table(f"HiMulCon by depth, n = {n}", ("depths", "÷ limit3", "÷ 1 depth"), rows), timings["8"].ratio


def small_batches(size: Size) -> tuple[Table, dict[int, float]]:
    """Our SupCon and a dense one under autograd where there is little to win."""
    counts = choose(size, full=[64, 128, 256, 512, 1024, 2048], short=[256, 512, 1024], tiny=[64])
    rows: list[Row] = []
    over: dict[int, float] = {}
    for n in counts:
        inputs = batch(n, D)
        ours = both_ways(objective("supcon", inputs), inputs.z)
        dense = both_ways(dense_supcon(inputs), inputs.z)
        rounds = choose(size, full=15, short=9, tiny=1)
        timings = in_turn({"ours": ours, "dense": dense, "limit3": limit3(n, D)}, "ours", rounds=rounds)
        over[n] = timings["dense"].ratio
        milliseconds = [1e3 * timings[name].seconds for name in ("ours", "dense", "limit3")]
        rows.append([n, *milliseconds, over[n], timings["dense"].spread])
    columns = ("n", "ours, ms", "dense autograd, ms", "limit3, ms", "dense ÷ ours", "least–greatest")
    return Table("SupCon of small batches", columns, rows), over


def measure(size: Size) -> Results:
    """Three tables."""
    every, timings = every_objective(size)
    depths, deepest = by_depth(size)
    small, over = small_batches(size)
    ours = {name: timings[f"ours: {name}"].ratio for name in ("supcon", "hwc", "himulcon")}
    measured = {"P1": ours["hwc"], "P2": ours["himulcon"], "P2 depths": deepest}
    measured["P3 HWC"] = timings["peer: hwc"].ratio / ours["hwc"]
    if has_package():
        measured["P3 SupCon"] = timings["package: supcon"].ratio / ours["supcon"]
    if 512 in over:
        measured["P4"] = min(ratio for n, ratio in over.items() if n >= 256)
        measured["P4 512"] = over[512]
    return Results([every, depths, small], measured, [] if has_package() else [ABSENT])


if __name__ == "__main__":
    main(__doc__, measure)
