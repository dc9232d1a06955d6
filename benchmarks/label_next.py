"""Learning curves of the ways to choose what to label next, at equal cost, on any table of embeddings.

Labels of the pool are hidden. Every way starts from the same samples drawn at random, asks for more until
each budget is spent, and gets the true answers at the depth it asked for. After each budget a probe for every
depth learns from all answers, coarse ones included, and is tested on the other samples. The embeddings stay
fixed. Curves are means and standard deviations over seeds of the start and of all that is drawn.

    labeltree train --data emoji --objective simclr --epochs 6 --batch_size 256 --out runs/simclr
    labeltree embed runs/simclr --out simclr.npz
    python benchmarks/label_next.py simclr.npz runs/simclr/taxonomy.json --every 5 --out results.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import warnings
from pathlib import Path

import torch
from torch import Tensor

from labeltree.atomic import atomic_write
from labeltree.curation.answer_costs import answer_costs, read_costs
from labeltree.curation.batch_choice import STRATEGIES
from labeltree.curation.label_next import label_next
from labeltree.curation.partial_labels import fit_depth_probes
from labeltree.metrics.functional import hierarchical_f1
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy, load_taxonomy


def main() -> None:
    """Measure every way that is asked for; what the file holds already is kept."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table")
    parser.add_argument("taxonomy")
    parser.add_argument("--pool", default="train", help="split whose labels are hidden (default train)")
    parser.add_argument("--test", default="test", help="split to test on (default test)")
    parser.add_argument("--every", type=int, default=1, help="keep every so many-th parent of leaves")
    parser.add_argument("--first", type=int, default=0, help="the first parent that is kept, from 0")
    parser.add_argument("--limit", type=int, help="at most so many samples of the pool and of the test")
    parser.add_argument("--budgets", default="150,300,600,1200,2400")
    parser.add_argument("--costs", default="levels", type=read_costs)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--depths", default="finest,gain", help="finest, gain, or numbers")
    parser.add_argument("--wrong", default="0", help="share of wrong answers at each depth, such as 0,.05,.1")
    parser.add_argument("--reliability", help="share of right answers that is given, such as 1,.95,.9")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)

    pool, test, taxonomy = read(options)
    budgets = [float(part) for part in options.budgets.split(",")]
    print(f"{taxonomy}; pool {len(pool)}, test {len(test)}", flush=True)
    results = json.loads(options.out.read_text()) if options.out.exists() else {}
    for seed in range(options.seeds):
        for strategy in options.strategies.split(","):
            for depth in options.depths.split(","):
                name = f"{strategy}, {depth}"
                if str(seed) in results.get(name, {}):
                    continue
                curve = simulate(pool, test, taxonomy, strategy, depth, budgets, options, seed)
                results.setdefault(name, {})[str(seed)] = curve
                print(seed, name, [f"{x['hf1']:.3f}/{x['top1']:.3f}" for x in curve], flush=True)
                with atomic_write(options.out) as temporary:
                    temporary.write_text(json.dumps(results, indent=1))
    print(markdown(results, budgets))


def read(options: argparse.Namespace) -> tuple[EmbeddingTable, EmbeddingTable, Taxonomy]:
    """Pool, test samples, and the part of the tree that occurs in the pool."""
    taxonomy = load_taxonomy(options.taxonomy)
    table = EmbeddingTable.load(options.table, taxonomy)
    assert isinstance(taxonomy, Taxonomy)
    leaf = (table.nodes > 0) & taxonomy.is_leaf[table.nodes.clamp(min=0)]
    parents = taxonomy.parent[table.nodes.clamp(min=0)]
    kept = torch.isin(parents, parents[leaf].unique()[options.first :: options.every])
    table = table.rows(leaf & kept)
    pool, test = table.select(options.pool), table.select(options.test)
    if options.pool == options.test:  # halves of one split
        order = torch.randperm(len(pool), generator=torch.Generator().manual_seed(0))
        pool, test = pool.rows(order[::2].sort().values), test.rows(order[1::2].sort().values)
    if options.limit:
        pool, test = (
            part.rows(torch.randperm(len(part), generator=torch.Generator().manual_seed(1))[: options.limit])
            for part in (pool, test)
        )
    present = taxonomy.ancestors[pool.nodes].unique()
    smaller, to = taxonomy.subgraph(present[present >= 0])
    test = test.rows(torch.isin(test.nodes, pool.nodes))
    move = lambda part: EmbeddingTable(  # noqa: E731
        part.features if part.features is not None else part.embeddings,
        to[part.nodes],
        geometry="euclidean",
        groups=part.groups,
    )
    return move(pool), move(test), smaller


def simulate(
    pool: EmbeddingTable,
    test: EmbeddingTable,
    taxonomy: Taxonomy,
    strategy: str,
    depth: str,
    budgets: list[float],
    options: argparse.Namespace,
    seed: int,
) -> list[dict[str, float]]:
    """The curve of one way to choose."""
    cost_of = answer_costs(taxonomy, options.costs)
    wrong = torch.tensor([float(part) for part in options.wrong.split(",")])
    known = torch.full_like(pool.nodes, -1)
    sure = None if options.reliability is None else [float(one) for one in options.reliability.split(",")]
    spent = 0.0
    curve = []
    rule = int(depth) if depth.isdigit() else depth
    for step, budget in enumerate(budgets):
        while budget - spent >= 1.0:
            try:
                asked = label_next(
                    pool.embeddings,
                    known,
                    taxonomy,
                    budget=budget - spent,
                    strategy="random" if step == 0 else strategy,
                    depth="finest" if step == 0 else rule,
                    costs=options.costs,
                    reliability=sure,
                    groups=pool.groups,
                    seed=1000 * seed + step,
                )
            except ValueError:  # nothing left, or less than one answer
                break
            rows = asked.rows
            truth = pool.nodes[rows]
            at = torch.minimum(asked.depths, taxonomy.depth[truth])
            answers = answered(taxonomy, truth, at, wrong, 1000 * seed + step)
            before = torch.where(known[rows] > 0, cost_of[known[rows].clamp(min=0)], 0.0)
            spent += float((cost_of[taxonomy.ancestors[truth, at]] - before).sum())
            known[rows] = answers
        probes = fit_depth_probes(pool.embeddings, known, taxonomy)
        guess = probes.predict(test.embeddings)
        curve.append(
            {
                "budget": budget,
                "spent": spent,
                "answers": int((known > 0).sum()),
                "classes": int((probes.samples[taxonomy.leaves] > 0).sum()),
                "hf1": float(hierarchical_f1(guess, test.nodes, taxonomy)),
                "top1": float((guess == test.nodes).double().mean()),
            }
        )
    return curve


def answered(taxonomy: Taxonomy, truth: Tensor, depth: Tensor, wrong: Tensor, seed: int) -> Tensor:
    """The answers of an annotator who takes a sibling of the right node with a probability by depth."""
    generator = torch.Generator().manual_seed(seed)
    found = taxonomy.ancestors[truth, depth].clone()
    share = wrong[(depth - 1).clamp(max=len(wrong) - 1)]
    for row in (torch.rand(len(truth), generator=generator) < share).nonzero()[:, 0].tolist():
        node = int(found[row])
        others = (
            (taxonomy.parent == taxonomy.parent[node]) & (torch.arange(len(taxonomy)) != node)
        ).nonzero()[:, 0]
        if len(others):
            found[row] = others[int(torch.randint(len(others), (1,), generator=generator))]
    return found


def markdown(results: dict[str, dict[str, list[dict[str, float]]]], budgets: list[float]) -> str:
    """The whole table: HF1 and top-1 at each budget, their means over the budgets after the start, and what
    these means are above those of samples drawn at random and asked to the leaf, seed by seed."""
    lines = ["| way, depth | " + " | ".join(f"{budget:g}" for budget in budgets) + " | mean | above random |"]
    lines.append("|---" * (len(budgets) + 3) + "|")
    chance = {seed: means(curve) for seed, curve in results.get("random, finest", {}).items()}
    for name, curves in results.items():
        cells = [cell([curve[step] for curve in curves.values()]) for step in range(len(budgets))]
        cells.append(cell([means(curve) for curve in curves.values()]))
        above = [
            {measure: value - chance[seed][measure] for measure, value in means(curve).items()}
            for seed, curve in curves.items()
            if seed in chance
        ]
        cells.append(cell(above, "+") if above and name != "random, finest" else "–")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def means(curve: list[dict[str, float]]) -> dict[str, float]:
    """The means over the budgets after the first, at which all ways have the same samples."""
    return {key: statistics.mean(point[key] for point in curve[1:]) for key in ("hf1", "top1")}


def cell(points: list[dict[str, float]], sign: str = "") -> str:
    """Mean and standard deviation over seeds of HF1 and of top-1."""
    parts = []
    for key in ("hf1", "top1"):
        values = [point[key] for point in points]
        sd = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
        parts.append(f"{statistics.mean(values):{sign}.3f}{sd}")
    return ", ".join(parts)


if __name__ == "__main__":
    main()
