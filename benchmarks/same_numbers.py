"""Do two versions of labeltree measure the same numbers of the same embeddings?

    python benchmarks/same_numbers.py --before OTHER/src [--after src] [--keep FILE] [--table NPZ TAXONOMY]

Evaluates small synthetic tables, and any that are given, by all protocols and compares methods with each
other, under each version in a process of its own. Lists every value that differs by more than 1e-9
(relatively, above 1), every one that only one version has, and every sentence that changed. ``--keep`` writes
the numbers of the version before to a file, and reads them from it where it is there.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

Flat = dict[str, float | str | None]
TOLERANCE = 1e-9
RESAMPLES = 200


def _vectors(taxonomy: Any, nodes: torch.Tensor, dim: int, seed: int, noise: float = 0.55) -> torch.Tensor:
    """Vectors that lie near those of their ancestors."""
    generator = torch.Generator().manual_seed(seed)
    steps = torch.randn(taxonomy.num_nodes, dim, generator=generator)
    centres = torch.zeros(taxonomy.num_nodes, dim)
    for node in range(1, taxonomy.num_nodes):
        centres[node] = centres[int(taxonomy.parent[node])] + steps[node] * 0.6 ** int(taxonomy.depth[node])
    return centres[nodes.clamp_min(0)] + noise * torch.randn(len(nodes), dim, generator=generator)


def _splits(n: int, seed: int, names: tuple[str, ...] = ("train", "val", "test")) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).choice(np.array(names), n, p=np.array([4, 2, 4][: len(names)]) / 10)


def _clothes() -> Any:
    from labeltree.taxonomy import Taxonomy

    return Taxonomy.from_paths(
        [
            ("clothes", "top", "shirt"),
            ("clothes", "top", "pullover"),
            ("clothes", "coat"),
            ("clothes", "dress"),
            ("shoes", "sandal"),
            ("shoes", "sneaker"),
            ("shoes", "boot", "short"),
            ("shoes", "boot", "long"),
            ("bag",),
        ]
    )


def _of_tree(taxonomy: Any, n: int, seed: int, noise: float = 0.55, **columns: Any) -> Any:
    from labeltree.runs import EmbeddingTable

    generator = torch.Generator().manual_seed(seed)
    leaves = taxonomy.leaves
    chance = 1.0 / (1.0 + torch.arange(len(leaves)).double())  # some classes are rare
    nodes = leaves[torch.multinomial(chance, n, replacement=True, generator=generator)]
    given = {
        "embeddings": torch.nn.functional.normalize(_vectors(taxonomy, nodes, 6, seed, noise), dim=1),
        "features": _vectors(taxonomy, nodes, 10, seed + 1, noise),
        "nodes": nodes,
        "split": _splits(n, seed),
    }
    return EmbeddingTable(**(given | columns))


def tree() -> dict[str, Any]:
    """Ragged, with answers of its own, samples labelled coarsely or not at all, and an untrained baseline."""
    taxonomy = _clothes()
    table = _of_tree(taxonomy, 420, 0)
    nodes = table.nodes.clone()
    nodes[::29] = taxonomy.parent[nodes[::29]].clamp_min(1)
    nodes[::53] = -1
    answers = torch.where(torch.arange(len(nodes)) % 4 == 0, nodes.roll(1), nodes)
    answers[::41] = -1
    other = _of_tree(taxonomy, 420, 0, noise=0.9)
    raw = _replaced(other, nodes=nodes, features=None)
    return {
        "table": _replaced(table, nodes=nodes, predictions=answers),
        "taxonomy": taxonomy,
        "baselines": {"raw": raw},
        "options": {"few-samples": {"per_class": (1, 5), "noise": (0.0, 0.2), "seeds": 2}},
    }


def groups() -> dict[str, Any]:
    """Several samples of a group, some of which contradict each other."""
    taxonomy = _clothes()
    table = _of_tree(taxonomy, 400, 3)
    order = torch.argsort(table.nodes, stable=True)
    group = torch.empty(400, dtype=torch.int64)
    group[order] = torch.arange(400) // 3
    group[::37] = -1
    nodes = table.nodes.clone()
    nodes[5::61] = nodes[5::61].roll(1)
    split = np.array(["train", "val", "test"])[(group.clamp_min(0) * 7919 % 10 // 4).clamp(max=2).numpy()]
    return {
        "table": _replaced(table, nodes=nodes, groups=group, split=split),
        "taxonomy": taxonomy,
        "options": {"per-group": {"conflicts": "all"}, "decisions": {"counted": "group"}},
    }


def dag() -> dict[str, Any]:
    """A class with two parents."""
    from labeltree.taxonomy import TaxonomyDAG

    edges = [
        ("everything", "animal"),
        ("everything", "thing"),
        ("animal", "pet"),
        ("animal", "wild"),
        ("pet", "dog"),
        ("wild", "dog"),
        ("pet", "cat"),
        ("wild", "wolf"),
        ("wild", "fox"),
        ("thing", "car"),
        ("thing", "toy"),
        ("pet", "toy"),
        ("dog", "poodle"),
        ("dog", "dingo"),
    ]
    taxonomy = TaxonomyDAG.from_edges([(child, parent) for parent, child in edges])
    from labeltree.runs import EmbeddingTable

    generator = torch.Generator().manual_seed(5)
    leaves = taxonomy.leaves
    nodes = leaves[torch.randint(len(leaves), (300,), generator=generator)]
    centres = torch.randn(taxonomy.num_nodes, 7, generator=generator)
    vectors = centres[nodes] + 0.9 * torch.randn(300, 7, generator=generator)
    table = EmbeddingTable(vectors, nodes, split=_splits(300, 5), geometry="euclidean")
    return {"table": table, "taxonomy": taxonomy}


def aspects() -> dict[str, Any]:
    """Texts with ratings of two things; no training split of the first kind of label is needed."""
    from labeltree.taxonomy import Taxonomy

    ratings = [("bad", "1"), ("bad", "2"), ("fair", "3"), ("good", "4"), ("good", "5")]
    service, room = (Taxonomy.from_paths(ratings, root_name=name) for name in ("service", "room"))
    table = _of_tree(service, 300, 7, noise=0.8)
    second = room.leaves[torch.randint(5, (300,), generator=torch.Generator().manual_seed(8))]
    columns = torch.stack([table.nodes, second], dim=1)
    columns[::11, 1] = -1
    answers = torch.stack([table.nodes.roll(1), second], dim=1)
    return {
        "table": _replaced(
            table, aspects=columns, aspect_taxonomies=(service, room), aspect_predictions=answers
        ),
        "taxonomy": service,
    }


def halves() -> dict[str, Any]:
    """No splits and no features, in the Poincaré ball, several rows of a sample."""
    taxonomy = _clothes()
    table = _of_tree(taxonomy, 240, 11, split=None, features=None)
    points = 0.8 * table.embeddings * torch.rand(240, 1, generator=torch.Generator().manual_seed(1))
    return {
        "table": _replaced(
            table,
            embeddings=points,
            geometry="poincare",
            instances=torch.arange(240) // 2,
            nodes=table.nodes.view(-1, 2)[:, :1].expand(-1, 2).reshape(-1),
        ),
        "taxonomy": taxonomy,
    }


def unseen() -> dict[str, Any]:
    """Classes that are hidden from training, and a tree whose first depth all share."""
    from labeltree.taxonomy import Taxonomy

    taxonomy = Taxonomy.from_paths(
        [("life", a, f"{a}{b}") for a in ("fish", "bird", "plant") for b in range(4)]
    )
    table = _of_tree(taxonomy, 420, 13, noise=0.4)
    hidden = torch.isin(table.nodes, taxonomy.leaves[[1, 5, 9]]).numpy()
    split = np.asarray(table.split).astype("<U6")
    split[hidden & (split == "train")] = "unseen"
    return {"table": _replaced(table, split=split), "taxonomy": taxonomy}


def new_classes() -> dict[str, Any]:
    """A test split without any class of the training split."""
    taxonomy = _clothes()
    table = _of_tree(taxonomy, 300, 17)
    later = torch.isin(table.nodes, taxonomy.leaves[::2]).numpy()
    return {"table": _replaced(table, split=np.where(later, "test", "train")), "taxonomy": taxonomy}


def one_class() -> dict[str, Any]:
    """Nothing to tell apart."""
    taxonomy = _clothes()
    table = _of_tree(taxonomy, 60, 19)
    return {
        "table": _replaced(table, nodes=torch.full_like(table.nodes, int(taxonomy.leaves[0]))),
        "taxonomy": taxonomy,
    }


def perfect() -> dict[str, Any]:
    """Classes far apart: no errors, no violations, groups too few to draw from."""
    taxonomy = _clothes()
    table = _of_tree(taxonomy, 200, 23, noise=0.001)
    return {"table": _replaced(table, groups=torch.arange(200) % 4), "taxonomy": taxonomy}


CASES: dict[str, Callable[[], dict[str, Any]]] = {
    case.__name__: case
    for case in (tree, groups, dag, aspects, halves, unseen, new_classes, one_class, perfect)
}


def _replaced(table: Any, **columns: Any) -> Any:
    from dataclasses import replace

    return replace(table, **columns)


def _given(table: str, taxonomy: str) -> dict[str, Any]:
    from labeltree.runs import EmbeddingTable
    from labeltree.taxonomy import load_taxonomy

    judge = load_taxonomy(taxonomy)
    return {"table": EmbeddingTable.load(table, judge), "taxonomy": judge}


def find_numbers(names: list[str], tables: list[list[str]]) -> dict[str, Any]:
    """Everything that the version on the path finds."""
    from labeltree.evaluation import EvaluationSettings, compare, evaluate

    cases: dict[str, Callable[[], dict[str, Any]]] = {name: CASES[name] for name in names}
    cases |= {table: lambda pair=(table, judge): _given(*pair) for table, judge in tables}  # type: ignore[misc]
    found: dict[str, Any] = {}
    for name, case in cases.items():
        print(f"  {name}", file=sys.stderr, flush=True)
        given = case()
        for resamples in (RESAMPLES, 0):
            settings = EvaluationSettings(
                resamples=resamples, options=given.get("options", {}), max_pairs=500
            )
            result = evaluate(
                given["table"],
                given["taxonomy"],
                baselines=given.get("baselines"),
                protocols=("all",),
                settings=settings,
            )
            found[f"{name}/{resamples}"] = result.to_dict()
        standard = {
            method: type(outcomes)(
                **{
                    **vars(outcomes),
                    "values": {key: v for key, v in outcomes.values.items() if key[0] in _ROLES},
                    "weights": {key: v for key, v in outcomes.weights.items() if key[0] in _ROLES},
                }
            )
            for method, outcomes in result.outcomes.items()
        }
        for method, outcomes in standard.items():
            found[f"{name}/outcomes/{method}"] = {
                "scores": {"/".join(key): _known(value) for key, value in _means(outcomes).items()},
                "weights": {"/".join(key): float(v.sum()) for key, v in outcomes.weights.items()},
                "rows": outcomes.instances.tolist(),
            }
        for kind, methods in (("standard", standard), ("whole", result.outcomes)):
            several = len(methods) > 1
            if several and name != "one_class":
                compared = compare(methods, resamples=RESAMPLES, permutations=RESAMPLES)
                found[f"{name}/compare/{kind}"] = compared.to_dict()
    return found


def _means(outcomes: Any) -> dict[tuple[str, str], float]:
    """The weighted mean of every column of outcomes; NaN if no sample counts."""
    found = {}
    for key, values in outcomes.values.items():
        weights = np.where(np.isnan(values), 0.0, outcomes.weights.get(key, np.ones(len(outcomes))))
        total = float(weights.sum())
        found[key] = float(weights @ np.nan_to_num(values)) / total if total > 0 else math.nan
    return found


_ROLES = ("features", "embeddings", "predictions")


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def flat(content: Any, place: str = "") -> Flat:
    """Every value of a nested structure under its place."""
    items = (
        content.items()
        if isinstance(content, dict)
        else enumerate(content)
        if isinstance(content, list)
        else None
    )
    if items is None:
        return {place: content}
    return {key: value for name, part in items for key, value in flat(part, f"{place}/{name}").items()}


def differences(before: Flat, after: Flat) -> dict[str, list[str]]:
    """What is not the same, by kind."""
    found: dict[str, list[str]] = {"differ": [], "missing": [], "new": [], "texts": []}
    for key in before.keys() | after.keys():
        a, b = before.get(key, "—"), after.get(key, "—")
        if key not in after:
            found["missing"].append(f"{key}: {a}")
        elif key not in before:
            found["new"].append(f"{key}: {b}")
        elif isinstance(a, float | int) and isinstance(b, float | int):
            if abs(a - b) > TOLERANCE * max(1.0, abs(a)):
                found["differ"].append(f"{key}: {a!r} → {b!r}")
        elif a != b:
            found["texts" if isinstance(a, str) and isinstance(b, str) else "differ"].append(
                f"{key}: {a!r} → {b!r}"
            )
    return {kind: sorted(lines) for kind, lines in found.items()}


def _run(source: str, arguments: list[str]) -> dict[str, Any]:
    print(f"measuring with {source}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.json"
        subprocess.run(
            [sys.executable, __file__, "--measure", str(out), *arguments],
            env={**os.environ, "PYTHONPATH": str(Path(source).resolve())},
            check=True,
        )
        loaded: dict[str, Any] = json.loads(out.read_text())
    return loaded


def main() -> int:
    """Measure twice, and say what differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}; default all")
    parser.add_argument("--before", metavar="FOLDER", help="the sources of the version before")
    parser.add_argument("--after", metavar="FOLDER", default="src", help="those of the other (default src)")
    parser.add_argument("--keep", metavar="FILE", type=Path, help="for the numbers of the version before")
    parser.add_argument("--table", nargs=2, action="append", default=[], metavar=("TABLE", "TAXONOMY"))
    parser.add_argument("--most", type=int, default=20, help="lines to show of each kind (default 20)")
    parser.add_argument("--measure", metavar="FILE", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.cases or list(CASES)
    if options.measure:
        options.measure.write_text(json.dumps(find_numbers(names, options.table)))
        return 0
    arguments = [*names, *(word for pair in options.table for word in ("--table", *pair))]
    if options.keep and options.keep.is_file():
        before = json.loads(options.keep.read_text())
    else:
        before = _run(options.before, arguments)
        if options.keep:
            options.keep.write_text(json.dumps(before))
    after = _run(options.after, arguments)
    before = {key: part for key, part in before.items() if key in after}
    a, b = flat(before), flat(after)
    found = differences(a, b)
    for kind, lines in found.items():
        for line in lines[: options.most]:
            print(f"{kind}: {line}")
        if len(lines) > options.most:
            print(f"{kind}: … {len(lines) - options.most} more")
    numbers = sum(isinstance(value, float | int) for value in a.values())
    print(f"{numbers} numbers before; " + ", ".join(f"{kind} {len(lines)}" for kind, lines in found.items()))
    return int(bool(found["differ"] or found["missing"]))


if __name__ == "__main__":
    sys.exit(main())
