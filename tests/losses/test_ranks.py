"""Pairwise losses on several ranks, real gloo processes, against one process with all of the rows."""

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import pytest
import torch
from slow_losses import even_tree, random_batch, random_tree
from torch import Tensor, distributed, nn

from forked import start_ranks
from labeltree.geometry import Euclidean, PoincareBall
from labeltree.losses import (
    HiConELoss,
    HiMulConELoss,
    HiMulConLoss,
    HWCLoss,
    JaccardSupConLoss,
    MLCLLoss,
    NTXentLoss,
    SupConLoss,
    WeightedSupConLoss,
)
from labeltree.pairs import implementation
from sweeps import some_now

pytestmark = pytest.mark.slow

PARTS = {2: (4, 11), 4: (5, 0, 3, 7)}
IMPLEMENTATIONS = ("dense", "streaming")
COLLECTIVES = (
    "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_to_all", "barrier",
    "broadcast", "gather", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter",
)  # fmt: skip
TREE, ASPECTS = random_tree(3), [even_tree(2, 2), random_tree(5)]
N = 15


def batch() -> dict[str, Tensor]:
    z, nodes, instances = random_batch(TREE, 3, N)
    generator = torch.Generator().manual_seed(7)
    aspects = [torch.randint(-1, len(tree), (N,), generator=generator) for tree in ASPECTS]
    ratings = torch.randint(-1, 6, (N, 2), generator=generator)
    weights = torch.rand(N, generator=generator, dtype=torch.float64)
    second = torch.randint(-1, len(TREE), (N,), generator=generator)
    given = {
        "sets": torch.stack([nodes, second], 1),
        "nodes": nodes,
        "instances": instances,
        "ratings": ratings,
        "weights": weights,
    }
    return {"z": z, "aspects": torch.stack(aspects, dim=1), **given}


def learnt_temperature(loss: nn.Module) -> nn.Module:
    """A temperature that is a parameter, for which no shorter way over the pairs is taken."""
    loss.temperature = nn.Parameter(torch.tensor(0.4, dtype=torch.float64))
    return loss


LOSSES: dict[str, Callable[[], nn.Module]] = {
    "ntxent": NTXentLoss,
    "supcon": lambda: SupConLoss(TREE),
    "supcon, coarse": lambda: SupConLoss(TREE, depth=1, undecided="negative"),
    "supcon, poincaré": lambda: SupConLoss(TREE, 0.5, geometry=PoincareBall(-0.7)),
    "supcon, temperature": lambda: learnt_temperature(SupConLoss(TREE)),
    "himulcon": lambda: HiMulConLoss(TREE),
    "himulcon, exact": lambda: HiMulConLoss(TREE, positives="exact", reduction="pairs"),
    "himulcon, reference": lambda: HiMulConLoss(TREE, variant="reference"),
    "hicone": lambda: HiConELoss(TREE, variant="paper"),
    "hicone, constant bound": lambda: HiConELoss(TREE, detach_bound=True, reduction="pairs", variant="paper"),
    "hicone, euclidean": lambda: HiConELoss(TREE, 0.5, geometry=Euclidean(), variant="paper"),
    "hicone, temperature": lambda: learnt_temperature(HiConELoss(TREE, variant="paper")),
    "hicone, reference": lambda: HiConELoss(TREE, variant="reference"),
    "himulcone": lambda: HiMulConELoss(TREE, undecided="negative", variant="paper"),
    "himulcone, reference": lambda: HiMulConELoss(TREE, variant="reference", geometry=Euclidean()),
    "hwc": lambda: HWCLoss(TREE, alpha=0.5),
    "hwc, own depth": lambda: HWCLoss(TREE, alpha=0.5, rho="own_depth", positives="instance"),
    "hwc, constant ω": lambda: HWCLoss(TREE, alpha=0.5, control="constant_omega"),
    "hwc, constant ω, euclidean": lambda: HWCLoss(
        TREE, alpha=0.5, control="constant_omega", geometry=Euclidean()
    ),
    "hwc, outside": lambda: HWCLoss(TREE, alpha=0.5, control="outside_softmax"),
    "hwc, temperature": lambda: learnt_temperature(HWCLoss(TREE, alpha=0.5)),
    "weighted": lambda: WeightedSupConLoss(TREE),
    "jaccard": lambda: JaccardSupConLoss(threshold=0.5),
    "jaccard, none": lambda: JaccardSupConLoss(threshold=0.5, reduction="none"),
    "mlcl": lambda: MLCLLoss(TREE, weights=0.1, ce=True, feature_dim=4).double(),
    "mlcl, aspects": lambda: MLCLLoss(
        ASPECTS, weights=0.1, global_head=True, threshold=0.5, ce=True, feature_dim=4
    ).double(),
    "several labels, supcon": lambda: SupConLoss(TREE),
    "several labels, hwc": lambda: HWCLoss(TREE, alpha=0.5, rho="own_depth", positives="instance"),
    "several labels, hicone": lambda: HiConELoss(TREE, variant="paper"),
    "no labels": lambda: HWCLoss(TREE, alpha=0.5, geometry=Euclidean()),
    "no instances": lambda: HWCLoss(TREE, alpha=0.5),
    "all missing": lambda: HiConELoss(TREE, variant="paper"),
    "no positives": lambda: SupConLoss(TREE, reduction="valid"),
} | {
    f"supcon, {reduction}": partial(SupConLoss, TREE, reduction=reduction)
    for reduction in ("all", "pairs", "sum", "none")
} | {
    f"hicone, {reduction}": partial(
        HiConELoss, TREE, variant="paper", reduction=reduction, geometry=Euclidean()
    )
    for reduction in ("all", "sum", "none")
}  # fmt: skip


# Two ranks each way; four of them by turns, so that neighbours in the list above are computed differently.
CASES = [(2, name, chosen) for chosen in IMPLEMENTATIONS for name in LOSSES]
CASES += [(4, name, IMPLEMENTATIONS[place % 2]) for place, name in enumerate(LOSSES)]
each_case = pytest.mark.parametrize(
    ("ranks", "name", "chosen"), some_now(CASES, sum(ranks == 2 for ranks, *_ in CASES)), indirect=["ranks"]
)


def call(name: str, loss: nn.Module, z: Tensor, rows: slice) -> Tensor:
    given = {key: value[rows] for key, value in batch().items()}
    if isinstance(loss, JaccardSupConLoss):
        return loss(z, given["ratings"], given["instances"])
    if isinstance(loss, MLCLLoss):
        nodes = given["aspects"] if loss.num_aspects > 1 else given["nodes"]
        heads = [z * (1 + head) + head for head in range(loss.num_heads)]
        return loss(heads, nodes, given["instances"], given["ratings"], features=z)
    if name.startswith("several labels"):
        return loss(z, given["sets"], given["instances"])
    if name == "no labels":
        return loss(z, None, given["instances"])
    if name == "all missing":
        return loss(z, torch.full_like(given["nodes"], -1))
    if name == "no positives":
        return loss(z, TREE.leaves[:1].expand(N).clone()[rows].masked_fill_(torch.arange(N)[rows] != 6, 0))
    return loss(z, given["nodes"], None if name == "no instances" else given["instances"])


def evaluate(name: str, rows: slice, count: Callable[[], int] = lambda: 0) -> dict[str, object]:
    """Value, gradients of the rows and of the parameters, collectives forward and backward."""
    torch.manual_seed(0)
    loss, given = LOSSES[name](), batch()
    z = given["z"][rows].clone().requires_grad_()
    before = count()
    value = call(name, loss, z, rows)
    between = count()
    (value * given["weights"][rows] if value.ndim else value).sum().backward()
    parameters = [p.grad for p in loss.parameters()]
    collectives = (between - before, count() - between)
    return {"value": value.detach(), "z": z.grad, "parameters": parameters, "collectives": collectives}


def _rank(rank: int, ranks: int, folder: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
    calls = [0]

    def counting(function: Callable[..., object]) -> Callable[..., object]:
        def counted(*arguments: object, **named: object) -> object:
            calls[0] += 1
            return function(*arguments, **named)

        return counted

    for name in COLLECTIVES:
        setattr(distributed, name, counting(getattr(distributed, name)))
    start = sum(PARTS[ranks][:rank])
    rows = slice(start, start + PARTS[ranks][rank])
    found: dict[object, object] = {}
    for number, name, chosen in CASES:
        if number == ranks:
            with implementation(chosen, tile=4):
                found[name, chosen] = evaluate(name, rows, lambda: calls[0])
    found["evaluating"] = _evaluating(rows, lambda: calls[0])
    found["errors"] = _errors(rank, rows)
    torch.save(found, f"{folder}/{rank}")
    distributed.destroy_process_group()


def _evaluating(rows: slice, count: Callable[[], int]) -> tuple[Tensor, int]:
    given, before = batch(), count()
    value = HWCLoss(TREE, alpha=0.5).eval()(given["z"][rows], given["nodes"][rows], given["instances"][rows])
    return value, count() - before


def _errors(rank: int, rows: slice) -> list[str]:
    """What a loss says to arguments that are there on one rank and not on another."""
    z, nodes, instances = (batch()[name][rows] for name in ("z", "nodes", "instances"))
    wrong = [
        (z, nodes if rank else None, instances),
        (z, nodes, None if rank == 1 else instances),
        (z if rank else z[:, :3], nodes, instances),
        (z if rank else z.float(), nodes, instances),
    ]
    said = []
    for arguments in wrong:
        try:
            SupConLoss(TREE)(*arguments)
        except ValueError as error:
            said.append(str(error))
    return said


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], list[dict]]:
    """What so many ranks have found, which are started once."""

    @cache
    def start(number: int) -> list[dict]:
        folder: Path = tmp_path_factory.mktemp("ranks")
        start_ranks(_rank, (number, str(folder)), nprocs=number)
        return [torch.load(folder / str(rank)) for rank in range(number)]

    return start


@pytest.fixture
def ranks(request: pytest.FixtureRequest, started: Callable[[int], list[dict]]) -> list[dict]:
    return started(request.param)


@each_case
def test_ranks_are_one_process(ranks: list[dict], name: str, chosen: str) -> None:
    found = [rank[name, chosen] for rank in ranks]
    with implementation("dense"):
        whole = evaluate(name, slice(None))
    values = [rank["value"] for rank in found]
    rows = torch.cat([rank["z"] for rank in found])
    if whole["value"].ndim:
        assert relative(torch.cat(values), whole["value"]) <= 1e-12
        rows = rows * len(ranks)  # the mean over ranks of sums of their rows
    else:
        assert all(relative(value, whole["value"]) <= 1e-12 for value in values)
        assert len({float(value) for value in values}) == 1
    assert relative(rows / len(ranks), whole["z"]) <= 1e-12
    for at, one in enumerate(whole["parameters"]):
        mean = torch.stack([rank["parameters"][at] for rank in found]).mean(0)
        assert relative(mean, one) <= 1e-12


def relative(x: Tensor, expected: Tensor) -> float:
    """The relative difference; of what is to be 0, the difference."""
    assert x.shape == expected.shape
    norm = float(expected.norm())
    return float((x - expected).norm()) / (norm or 1.0)


@each_case
def test_collectives(ranks: list[dict], name: str, chosen: str) -> None:
    """As many on every rank; none in the backward, but for rows that each rank makes its own of."""
    (forward, backward), *others = (rank[name, chosen]["collectives"] for rank in ranks)
    assert all(other == (forward, backward) for other in others)
    assert forward > 0
    assert backward == int(name.endswith("none"))


@pytest.mark.parametrize("ranks", some_now(PARTS), indirect=True)
def test_evaluation_is_of_the_own_rows(ranks: list[dict]) -> None:
    parts = PARTS[len(ranks)]
    for rank, found in enumerate(ranks):
        rows = slice(sum(parts[:rank]), sum(parts[: rank + 1]))
        value, collectives = found["evaluating"]
        assert torch.equal(value, _evaluating(rows, lambda: 0)[0])
        assert collectives == 0


@pytest.mark.parametrize("ranks", some_now(PARTS), indirect=True)
def test_ranks_with_different_arguments_say_so(ranks: list[dict]) -> None:
    nodes, instances, width, dtype = ranks[0]["errors"]
    assert all(rank["errors"] == ranks[0]["errors"] for rank in ranks)
    assert "nodes is None on rank 0 and of shape (n,) on rank 1" in nodes
    assert "instances is of shape (n,) on rank 0 and None on rank 1" in instances
    assert "embeddings is of shape (n, 3) on rank 0 and of shape (n, 4) on rank 1" in width
    assert "embeddings is float32 on rank 0 and float64 on rank 1" in dtype
