"""Time of the objectives that need more than one softmax: HiConE beside HiMulCon, losses over a queue (P8).

    python benchmarks/contrast.py [--short]

A queue loss needs four matrix products at the least: queries and their keys against the queue, and two
sums over the queue for the gradient.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from harness import Results, Row, Size, Table, choose, in_turn, limit3, main, matmuls
from inputs import batch
from labeltree.losses import ASCLLoss, GrafitLoss, MaskConLoss, SelfConLoss
from labeltree.losses.queues.queue_loss import QueueLoss
from objectives import both_ways, objective
from peers import dense_maskcon

D = 128


def constrained(size: Size) -> tuple[Table, float]:
    """HiMulCon, HiConE and both together."""
    n = choose(size, full=8192, short=8192, tiny=64)
    inputs = batch(n, D)
    names = ("himulcon", "hicone", "himulcone")
    candidates = {name: both_ways(objective(name, inputs), inputs.z) for name in names}
    timings = in_turn(
        {"limit3": limit3(n, D), **candidates}, "himulcon", rounds=choose(size, full=9, short=5, tiny=1)
    )
    limit = timings["limit3"].ratio
    rows: list[Row] = [
        [name, timings[name].ratio / limit, timings[name].ratio, timings[name].spread] for name in names
    ]
    columns = ("objective", "÷ limit3", "÷ HiMulCon", "least–greatest")
    return Table(f"The hierarchical constraint, n = {n}, d = {D}", columns, rows), timings["hicone"].ratio


def over_a_queue(size: Size) -> tuple[Table, float]:
    """MaskCon and its relatives for a few queries and a long queue."""
    b = choose(size, full=256, short=256, tiny=8)
    m = choose(size, full=65_536, short=65_536, tiny=64)
    inputs = batch(m, D).rows(slice(0, b))
    taxonomy = inputs.taxonomy
    losses: dict[str, QueueLoss] = {
        "maskcon": MaskConLoss(taxonomy),
        "maskcon, w = 0.5": MaskConLoss(taxonomy, w=0.5),
        "grafit": GrafitLoss(taxonomy),
        "ascl": ASCLLoss(),
        "selfcon": SelfConLoss(),
    }

    def of(loss: QueueLoss, by: str = "auto") -> Callable[[], object]:
        def function(z: Tensor) -> Tensor:
            value = loss(z, inputs.keys, inputs.stored, inputs.nodes, inputs.instances)
            assert isinstance(value, Tensor)
            return value

        return both_ways(function, inputs.z, by)

    candidates = {
        "four matrix products": matmuls(b, m, D),
        **{name: of(loss) for name, loss in losses.items()},
        "maskcon, dense implementation": of(losses["maskcon"], "dense"),
        "maskcon, dense autograd": both_ways(dense_maskcon(inputs), inputs.z),
    }
    timings = in_turn(candidates, "four matrix products", rounds=choose(size, full=15, short=7, tiny=1))
    rows: list[Row] = [
        [name, 1e3 * of_it.seconds, of_it.ratio, of_it.spread] for name, of_it in timings.items()
    ]
    columns = ("loss", "ms", "÷ four products", "least–greatest")
    title = f"{b} queries against a queue of {m:,} keys, d = {D}"
    return Table(title, columns, rows), timings["maskcon"].ratio


def measure(size: Size) -> Results:
    """Two tables."""
    depths, hicone = constrained(size)
    queue, maskcon = over_a_queue(size)
    return Results([depths, queue], {"P8 HiConE": hicone, "P8 MaskCon": maskcon})


if __name__ == "__main__":
    main(__doc__, measure)
