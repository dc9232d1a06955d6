"""Planted label errors: how many does `labeltree suspects` find, beside cleanlab's ranking and a k-NN vote?

    python benchmarks/suspects.py            all cells, some tens of minutes on one core; resumable
    python benchmarks/suspects.py --short    pixels of Fashion-MNIST, one seed
    python benchmarks/suspects.py --table    the table of the cells measured so far
    python benchmarks/suspects.py --solved   suspects of a ridge head that 5 % of wrong labels were part of:
                                             where to look for neighbours, and whose probabilities count
    python benchmarks/suspects.py --frozen DIR   suspects of default runs on a folder of photographs with 5 %
                                             of wrong labels: neighbours in the embeddings, or in the features

Samples: 10,000 of Fashion-MNIST, and every third emoji with its drawings. In each cell a share of the labels
is replaced, by a sibling or by any other leaf. Representations: raw pixels (128 principal components, which
know no label), and a small encoder that was trained by SupCon on the planted labels themselves; one trained
on the clean labels would give the errors away. Precision is measured at the number planted: real errors of
the data count as false alarms.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kept import Results, Row, Table, write
from labeltree.cache import data_home
from labeltree.curation.contradicted import count_contradicted
from labeltree.curation.neighbour_evidence import Neighbours, nearest_labelled, weigh
from labeltree.curation.out_of_fold import out_of_fold
from labeltree.curation.suspects import score_labels
from labeltree.data import Source, make_splits, open_source
from labeltree.geometry import get_geometry
from labeltree.metrics.search.results_left_out import leaves_group_out
from labeltree.ridge import fit_tree_ridge
from labeltree.taxonomy import Taxonomy

RATES = (0.02, 0.05, 0.10)
HOW = ("siblings", "anywhere")
SEEDS = (0, 1, 2)
METHODS = {
    "labels": "suspects",
    "branches": "suspects, by branches",
    "probe": "probability alone",
    "knn": "k-NN vote",
    "self_confidence": "cleanlab, self-confidence",
    "normalized_margin": "cleanlab, normalised margin",
    "issues": "cleanlab, find_label_issues",
}
CELLS = data_home() / "benchmarks" / "suspects.jsonl"


def samples(name: str) -> Source:
    """The samples whose labels are planted: without the data set's own test samples."""
    if name == "fashion-mnist":
        source = make_splits(open_source(name), limit=10_000, test_limit=1, seed=0)
        return source.subset(torch.from_numpy(np.flatnonzero(np.asarray(source.split) != "test")))
    source = open_source(name, image_size=32)
    third = torch.isin(source.nodes, source.taxonomy.leaves[::3])
    return source.subset(third.nonzero()[:, 0])


def planted(nodes: Tensor, taxonomy: Taxonomy, rate: float, how: str, seed: int) -> tuple[Tensor, Tensor]:
    """Labels of which a share is wrong, and the mask of the wrong ones; only occurring labels are planted."""
    generator = np.random.default_rng(1000 + seed)
    wrong, after = torch.zeros(len(nodes), dtype=torch.bool), nodes.clone()
    occurring = nodes.unique().numpy()
    parent = taxonomy.parent.numpy()
    for row in generator.permutation(len(nodes)):
        if int(wrong.sum()) >= round(rate * len(nodes)):
            break
        own = int(nodes[row])
        others = occurring[occurring != own]
        if how == "siblings":
            others = others[parent[others] == parent[own]]
        if len(others):
            after[row], wrong[row] = int(generator.choice(others)), True
    return after, wrong


def pixels(source: Source) -> tuple[Tensor, Tensor, str]:
    """128 principal components of the pixels, for the classifier and for the neighbours."""
    from sklearn.decomposition import PCA

    from labeltree.inference.run_embeddings import raw_table

    raw = raw_table(source.with_split(["train"] * len(source)), "image").embeddings.numpy()
    found = torch.from_numpy(PCA(128, random_state=0).fit_transform(raw)).float()
    return found, found, "euclidean"


def trained(source: Source, seed: int, epochs: int) -> tuple[Tensor, Tensor, str]:
    """Features and embeddings of a small encoder after SupCon on the labels of the source."""
    import lightning as L

    from labeltree.inference.run_embeddings import embed_source
    from labeltree.training.experiment import prepare
    from labeltree.training.read_recipes import make_recipe

    recipe = make_recipe(
        {"data": source.name, "objective": "supcon", "epochs": epochs, "seed": seed, "val": 0.05}
    )
    split = make_splits(source.with_split(["train"] * len(source)), val=0.05, test=0.0, seed=seed)
    experiment = prepare(recipe, split)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = L.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        devices=1,
        enable_checkpointing=False,
        **quiet,  # type: ignore[arg-type]
    )
    trainer.fit(experiment.module, datamodule=experiment.batches)
    table = embed_source(experiment.network, split, keep=False)
    assert table.features is not None
    return table.features, table.embeddings, "sphere"


def judge(
    features: Tensor, points: Tensor, geometry: str, source: Source, labels: Tensor, wrong: Tensor
) -> dict[str, Any]:
    """Precision at the number planted of every method, the suggestions, and the number contradicted."""
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    taxonomy = source.taxonomy
    groups = source.groups if leaves_group_out("auto", labels, source.groups) else None
    found = out_of_fold(features, labels, taxonomy, groups=groups)
    neighbours = nearest_labelled(points, labels, get_geometry(geometry), groups=groups)
    evidence = weigh(found, neighbours)
    place = found.classes.place[found.judged.clamp(min=0)]
    flat = ((found.judged > 0) & (place >= 0)).numpy()
    given, probabilities = place.numpy()[flat], found.probabilities.numpy()[flat].astype(np.float64)
    probabilities /= probabilities.sum(1, keepdims=True)
    bad = {
        "labels": score_labels(evidence, "labels").numpy(),
        "branches": score_labels(evidence, "branches").numpy(),
    }
    bad["probe"] = 1 - evidence.at_label(evidence.probe).numpy()
    bad["knn"] = 1 - evidence.at_label(evidence.votes).numpy()
    for method in ("self_confidence", "normalized_margin"):
        bad[method] = np.full(len(labels), -1.0)
        bad[method][flat] = 1 - get_label_quality_scores(given, probabilities, method=method)
    ranked = find_label_issues(given, probabilities, return_indices_ranked_by="self_confidence", n_jobs=1)
    bad["issues"] = np.full(len(labels), -1.0)
    bad["issues"][np.flatnonzero(flat)[ranked]] = np.arange(len(ranked), 0, -1)
    count = int(wrong.sum())
    result: dict[str, Any] = {"planted": count, "agreement": float((probabilities.argmax(1) == given).mean())}
    for method, score in bad.items():
        first = np.argsort(-np.nan_to_num(score, nan=-2.0), kind="stable")[:count]
        first = first[np.nan_to_num(score, nan=-2.0)[first] > -1]
        result[method] = float(wrong.numpy()[first].sum() / count)
        if method == "labels":
            hit = torch.from_numpy(first)[wrong[torch.from_numpy(first)]]
            truth, said = source.nodes[hit], evidence.suggested[hit]
            result["suggested true label"] = float((said == truth).double().mean())
            result["suggested true or coarser"] = float(
                ((said > 0) & (taxonomy.lca(said, truth) == said)).double().mean()
            )
    result["contradicted"] = count_contradicted(found, evidence).count
    return result


def cells(short: bool) -> list[tuple[str, str, float, str, int]]:
    """Data, representation, rate, how and seed of every cell, the cheap ones first."""
    if short:
        return [("fashion-mnist", "pixels", rate, how, 0) for rate in RATES for how in HOW]
    named = ("fashion-mnist", "emoji")
    found = [
        (data, "pixels", rate, how, seed) for data in named for seed in SEEDS for rate in RATES for how in HOW
    ]
    found += [("fashion-mnist", "trained", 0.05, how, seed) for seed in SEEDS for how in HOW]
    found += [("emoji", "trained", 0.05, how, seed) for seed in SEEDS for how in HOW]
    found += [
        (data, "trained", rate, how, seed)
        for seed in SEEDS
        for rate in (0.1, 0.02)
        for data in named
        for how in HOW
    ]
    return found


def known(path: Path) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The cells that are measured."""
    lines = path.read_text("utf-8").splitlines() if path.is_file() else []
    return {tuple(entry["cell"]): entry for entry in map(json.loads, lines)}


def run(short: bool) -> None:
    """Measure the cells that are missing."""
    CELLS.parent.mkdir(parents=True, exist_ok=True)
    done = known(CELLS)
    kept: dict[str, tuple[Source, tuple[Tensor, Tensor, str]]] = {}
    for cell in cells(short):
        if cell in done:
            continue
        data, representation, rate, how, seed = cell
        start = time.perf_counter()
        if data not in kept:
            source = samples(data)
            kept[data] = (source, pixels(source))
        source, vectors = kept[data]
        labels, wrong = planted(source.nodes, source.taxonomy, rate, how, seed)
        if representation == "trained":
            import dataclasses

            noisy = dataclasses.replace(source, nodes=labels)
            vectors = trained(noisy, seed, 4 if data == "fashion-mnist" else 12)
        entry = {"cell": list(cell), **judge(*vectors, source, labels, wrong)}
        entry["seconds"] = round(time.perf_counter() - start, 1)
        with CELLS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
        print(json.dumps(entry), flush=True)


def tables() -> Results:
    """The tables of all measured cells."""
    by_kind: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    entries = known(CELLS)
    wanted = {cell[:4] for cell in cells(False)}
    for cell, entry in entries.items():
        if cell[:4] in wanted:
            by_kind[cell[:4]].append(entry)
    precision: list[Row] = []
    others: list[Row] = []
    for kind in sorted(by_kind, key=lambda k: (k[0] != "fashion-mnist", k[1], k[3], k[2])):
        found = by_kind[kind]
        data, representation, rate, how = kind
        name = f"{data}, {representation}, {rate:.0%} {how}"
        precision.append([name, len(found), *(_spread([e[m] for e in found]) for m in METHODS)])
        counts = [e["contradicted"] for e in found]
        others.append(
            [
                name,
                len(found),
                _spread([e["agreement"] for e in found]),
                _spread([e["suggested true label"] for e in found]),
                _spread([e["suggested true or coarser"] for e in found]),
                found[0]["planted"],
                "not given" if None in counts else _spread(counts, 0),
            ]
        )
    columns = ["errors", "seeds", "classifier agrees", "suggested: the true label"]
    columns += ["the true label or an ancestor", "planted", "contradicted"]
    about = "Suggestions for the errors that were found, and the number of labels contradicted"
    return Results(
        [
            Table("Precision at the number planted", ["errors", "seeds", *METHODS.values()], precision),
            Table(about, columns, others),
        ],
        notes=[
            "Mean ± standard deviation over the seeds of planting (and of training). All methods but the "
            "k-NN vote read the same out-of-fold probabilities; find_label_issues is cleanlab's filter, "
            "ranked by self-confidence. Trained: SupCon on the planted labels, small-conv, 4 epochs "
            "(emoji: 12)."
        ],
        seconds=sum(entry["seconds"] for entry in entries.values()),
    )


def solved_samples(name: str, seed: int) -> tuple[Tensor, Tensor, Taxonomy]:
    """Vectors and classes, numbers of leaves: digits, or blobs with many, few or mixed samples."""
    draw = np.random.default_rng(seed)
    if name == "digits":
        from sklearn.datasets import load_digits

        digits = load_digits()
        rows = draw.permutation(len(digits.data))[:800]
        tree = Taxonomy.from_paths([(f"parity {i % 2}", f"digit {i}") for i in range(10)])
        classes = torch.tensor([tree.leaves.tolist().index(tree.find(f"digit {i}")) for i in range(10)])
        return torch.from_numpy(digits.data[rows]).float(), classes[digits.target[rows]], tree
    tree = Taxonomy.from_paths([(f"branch {i // 8}", f"family {i // 4}", f"class {i}") for i in range(20)])
    count, noise = {"many": (600, 1.2), "few": (160, 1.2), "mixed": (600, 2.0)}[name]
    classes = draw.integers(0, 20, count)
    vectors = draw.standard_normal((20, 32))[classes] + noise * draw.standard_normal((count, 32))
    return torch.from_numpy(vectors).float(), torch.from_numpy(classes), tree


def precisions_of_solved(name: str, seed: int) -> list[float]:
    """Precision at the number planted, for neighbours in three spaces and two classifiers."""
    vectors, classes, tree = solved_samples(name, seed)
    draw, count = np.random.default_rng(100 + seed), len(classes)
    wrong = torch.zeros(count, dtype=torch.bool)
    wrong[torch.from_numpy(draw.permutation(count)[: round(0.05 * count)])] = True
    number = len(tree.leaves)
    other = (classes + torch.from_numpy(draw.integers(1, number, count))) % number
    labels = tree.leaves[torch.where(wrong, other, classes)]
    head, seen = fit_tree_ridge(vectors, labels, tree)
    probe, sphere = out_of_fold(vectors, labels, tree), get_geometry("sphere")
    of_folds = torch.zeros(count, len(probe.classes))
    columns = probe.classes.place[seen.classes]
    of_folds[:, columns[columns >= 0]] = seen.probabilities[:, columns >= 0].float()
    folds = replace(probe, probabilities=of_folds / of_folds.sum(1, keepdim=True))
    held, within = head.place(seen.outputs, seen.probabilities, vectors).float(), torch.full((count, 20), -1)
    for fold in range(5):
        rows = (seen.folds == fold).nonzero()[:, 0]
        nearest = nearest_labelled(held[rows], labels[rows], sphere).rows
        within[rows] = torch.where(nearest >= 0, rows[nearest.clamp_min(0)], -1)
    embedded = nearest_labelled(head.posterior_embeddings(vectors).float(), labels, sphere)
    of_features = nearest_labelled(vectors, labels, sphere)
    in_folds = Neighbours(within, torch.where(within >= 0, labels[within.clamp_min(0)], -1))
    ways = [
        (probe, embedded),
        (probe, of_features),
        (folds, of_features),
        (probe, in_folds),
        (folds, in_folds),
    ]
    precisions = []
    for probabilities, neighbours in ways:
        scores = score_labels(weigh(probabilities, neighbours), "labels").nan_to_num(-1)
        first = scores.argsort(descending=True, stable=True)[: int(wrong.sum())]
        precisions.append(float(wrong[first].double().mean()))
    return precisions


def print_solved() -> None:
    """Print the mean precision over eight draws, and its standard error."""
    print(
        "| samples | embeddings | features | features, folds | held-out folds | both of folds |\n"
        + "|---" * 6
        + "|"
    )
    for name in ("many", "few", "mixed", "digits"):
        values = np.array([precisions_of_solved(name, seed) for seed in range(8)])
        errors = values.std(0, ddof=1) / np.sqrt(8)
        shown = (f"{mean:.3f} ± {error:.3f}" for mean, error in zip(values.mean(0), errors, strict=True))
        print(f"| {name} | {' | '.join(shown)} |", flush=True)


def precisions_of_frozen(folder: Path, how: str, seed: int) -> list[float]:
    """Precision at the number planted, for neighbours in the embeddings of a run, and in its features."""
    import labeltree as lt
    from labeltree.curation.table_suspects import find_table_suspects
    from labeltree.index import open_table
    from labeltree.options.curation import SuspectsOptions

    source = open_source(folder)
    labels, wrong = planted(source.nodes, source.taxonomy, 0.05, how, seed)
    files = [str(folder.absolute() / file) for file in source.sample_names()]
    with tempfile.TemporaryDirectory() as place:
        with (Path(place) / "planted.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["file", "label", "split"])
            names = map(source.taxonomy.path_name, labels.tolist())
            splits = [""] * len(files) if source.split is None else source.split.tolist()
            writer.writerows(zip(files, names, splits, strict=True))
        run = lt.train(Path(place) / "planted.csv", out=Path(place) / "run", seed=seed, progress_bar=False)
        table = open_table(run.path)
    bad = {name for name, is_wrong in zip(files, wrong.tolist(), strict=True) if is_wrong}
    precisions = []
    for fits in (False, True):
        seen = replace(table, head_fits_labels=fits)
        scores = find_table_suspects(seen, SuspectsOptions(folder)).scores.nan_to_num(-1)
        first = scores.argsort(descending=True, stable=True)[: len(bad)].tolist()
        precisions.append(sum(_is_among(table.names[row], bad) for row in first) / len(bad))
    return precisions


def _is_among(name: str, files: set[str]) -> bool:
    """Whether a name, a file that may be relative to another folder, is one of some files."""
    return any(file.endswith(name.removeprefix("../")) for file in files)


def print_frozen(folder: Path) -> None:
    """Print the precision of every seed, of errors anywhere and among siblings."""
    print("| errors | seed | embeddings | features |\n|---|---|---|---|")
    for how in HOW[::-1]:
        for seed in SEEDS:
            shown = (f"{value:.3f}" for value in precisions_of_frozen(folder, how, seed))
            print(f"| {how} | {seed} | {' | '.join(shown)} |", flush=True)


def _spread(values: list[float], digits: int = 3) -> str:
    mean, spread = np.mean(values), np.std(values, ddof=1) if len(values) > 1 else None
    return f"{mean:.{digits}f}" + ("" if spread is None else f" ± {spread:.{digits}f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true", help="pixels of Fashion-MNIST, one seed")
    parser.add_argument("--table", action="store_true", help="only write the tables")
    parser.add_argument("--solved", action="store_true", help="suspects of a ridge head")
    parser.add_argument("--frozen", type=Path, metavar="FOLDER", help="suspects of runs on photographs")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    if chosen.solved:
        print_solved()
    elif chosen.frozen is not None:
        print_frozen(chosen.frozen)
    else:
        if not chosen.table:
            run(chosen.short)
        write(tables(), "suspects", "full")
