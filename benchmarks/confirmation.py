"""Heads on frozen features, on data that nobody looked at before the protocol: docs/confirmation.md.

    python benchmarks/confirmation.py features --clones FOLDER --work FOLDER   # once, about 20 minutes
    python benchmarks/confirmation.py run --work FOLDER [--sets NAME …]   # hours; goes on where it stopped
    python benchmarks/confirmation.py tables --work FOLDER [--out FILE]
    python benchmarks/confirmation.py simulate                                 # whether the tests hold

*features* reads the clones that docs/confirmation.md names and keeps the features of an encoder that nobody
trains. *run* measures each method on five splits of each set, and keeps the numbers in
benchmarks/results/confirmation, a JSON file for each set; what is there is not measured again. *tables* makes
means ± standard deviations over the splits, and the verdicts. *simulate* counts how often the test of equal
methods alarms, and how often the interval holds the true difference.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
import shutil
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor

import labeltree as lt
from frozen_heads import (
    COLUMNS,
    Row,
    Samples,
    answer_scores,
    of_ridge,
    of_sklearn,
    space_scores,
    timed,
    written,
)
from labeltree.atomic import atomic_write
from labeltree.decisions import ClassNodes, fit_calibrator, posterior_embeddings
from labeltree.decisions.classifiers import classify
from labeltree.inference.run_classifiers import run_classifiers
from labeltree.inference.run_embeddings import run_tables
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.taxonomy import Taxonomy

RESULTS = Path(__file__).parent / "results" / "confirmation"
SPLITS = 5
TEST, VALIDATION = 0.3, 0.1
FEWEST = 10  # samples of a class; others are left out
COMPARATOR = "pairs-proxies-means"
CANDIDATE = "tree-ridge"
MARGIN = 0.01  # of hierarchical F1
PRIMARY = ("hierarchical_f1", "ahp")
ALPHA = 0.05
TRAINED: dict[str, tuple[str, dict[str, Any]]] = {
    "SupCon": ("supcon", {}),
    "cross entropy": ("ce", {}),
    "normalised softmax": ("normalised-softmax", {}),
    "HAPPIER": ("happier", {}),
    "HWC + LAM": ("hwc+lam", {}),
    "pairs-proxies-means": ("pairs-proxies-means", {}),
    "Hier-COS": ("hier-cos", {}),
    "pairs-proxies-means, a wrong tree": ("pairs-proxies-means", {"taxonomy_noise": 1.0}),
    "Hier-COS, a wrong tree": ("hier-cos", {"taxonomy_noise": 1.0}),
    "SupCon, coarse labels": ("supcon", {"coarsen": 1}),
    "MaskCon, coarse labels": ("maskcon", {"coarsen": 1}),
    "Grafit, coarse labels": ("grafit", {"coarsen": 1}),
}
POSTERIOR = (
    "SupCon",
    "cross entropy",
    "pairs-proxies-means",
)  # their classifiers in the posterior space, too

Entry = tuple[Path | str, tuple[str, ...], str]  # a picture's file or a text, its path of names, its group

FLOWERS = {
    "iris": "monocots/Iridaceae",
    "fritillary": "monocots/Liliaceae",
    "tigerlily": "monocots/Liliaceae",
    "bluebell": "monocots/Asparagaceae",
    "lily-valley": "monocots/Asparagaceae",
    "buttercup": "eudicots/Ranunculaceae",
    "windflower": "eudicots/Ranunculaceae",
    "colts-foot": "eudicots/Asteraceae",
    "daisy": "eudicots/Asteraceae",
    "dandelion": "eudicots/Asteraceae",
    "sunflower": "eudicots/Asteraceae",
    "pansy": "eudicots/Violaceae",
}
CLOTHING = {
    "t-shirt": "garments/upper body",
    "longsleeve": "garments/upper body",
    "shirt": "garments/upper body",
    "outwear": "garments/upper body",
    "pants": "garments/lower body",
    "shorts": "garments/lower body",
    "skirt": "garments/lower body",
    "dress": "garments/whole body",
    "shoes": "accessories/feet",
    "hat": "accessories/head",
}
COINS = {
    **dict.fromkeys(("1c", "2c", "5c"), "copper"),
    **dict.fromkeys(("10c", "20c", "50c"), "Nordic gold"),
    **dict.fromkeys(("1e", "2e"), "two metals"),
}
SIGNS = {  # what each of the 43 signs of the German benchmark means
    "prohibition/speed limit": (0, 1, 2, 3, 4, 5, 7, 8),
    "prohibition/no overtaking": (9, 10),
    "prohibition/no entry": (15, 16, 17),
    "end of prohibition/of one": (6, 41, 42),
    "end of prohibition/of all": (32,),
    "priority/for me": (11, 12),
    "priority/for others": (13, 14),
    "danger/curve": (19, 20, 21),
    "danger/road": (22, 23, 24, 25, 30),
    "danger/others on the road": (27, 28, 29, 31),
    "danger/ahead": (18, 26),
    "command/turn": (33, 34),
    "command/straight on": (35, 36, 37),
    "command/pass by": (38, 39),
    "command/roundabout": (40,),
}


def flowers(folder: Path) -> Iterator[Entry]:
    """Twelve species of Oxford's flowers, by class of plants and family."""
    for file in sorted((folder / "lab3" / "flowers").glob("t*/*/*.jpg")):
        if file.parts[-3] in ("train", "test"):
            yield file, (*FLOWERS[file.parent.name].split("/"), file.parent.name), ""


def clothing(folder: Path) -> Iterator[Entry]:
    """Photographs of clothes by their owners, by where they are worn."""
    for file in sorted(folder.glob("*/*/*.jpg")):
        yield file, (*CLOTHING[file.parent.name].split("/"), file.parent.name), ""


def coins(folder: Path) -> Iterator[Entry]:
    """Euro coins by metal; a group is the photograph that they are cut from."""
    for file in sorted((folder / "classified").glob("*/*/*.jpg")):
        name = file.parent.name
        yield file, (COINS[name], name), file.name.rsplit("_", 1)[0]


def signs(folder: Path) -> Iterator[Entry]:
    """German traffic signs, by meaning; a group is a sign that a car drove by: its tenth and last picture."""
    meaning = {number: name for name, numbers in SIGNS.items() for number in numbers}
    for file in sorted((folder / "GTSRB" / "Final_Training" / "Images").glob("*/*.ppm")):
        track, frame = file.stem.split("_")
        if frame in ("00009", "00029"):
            number = int(file.parent.name)
            yield file, (*meaning[number].split("/"), f"sign {number}"), f"{number} {track}"


def letters(folder: Path) -> Iterator[Entry]:
    """Omniglot's letters of eight alphabets (its two small parts); a group is who drew them."""
    parts = folder / "python"
    for name in ("images_background_small1", "images_background_small2"):
        into = parts / name
        if not into.is_dir():
            with zipfile.ZipFile(parts / f"{name}.zip") as archive:
                archive.extractall(parts)
    seen: set[tuple[str, ...]] = set()
    for file in sorted(parts.glob("images_background_small?/*/*/*.png")):
        alphabet, letter = file.parts[-3], file.parts[-2]
        drawer = file.stem.split("_")[1]
        if (alphabet, letter, drawer) not in seen:  # two alphabets are in both parts
            seen.add((alphabet, letter, drawer))
            yield file, (alphabet, f"{alphabet} {letter}"), f"{alphabet} {drawer}"


def questions(folder: Path) -> Iterator[Entry]:
    """TREC's questions, by what is asked for, coarse and fine."""
    seen = set()
    for name in ("train.txt", "test.txt"):
        for line in (folder / "datasets" / "q-type" / name).read_text("latin-1").splitlines():
            label, _, text = line.strip().partition(" ")
            coarse = label.split(":")[0]
            if text and text not in seen:
                seen.add(text)
                yield text, (coarse, label.replace(":", " ")), ""


def intents(folder: Path) -> Iterator[Entry]:
    """CLINC's requests to an assistant, by domain and intent: 40 of each intent, drawn once."""
    content = json.loads((folder / "data" / "data_full.json").read_text("utf-8"))
    domains = json.loads((folder / "data" / "domains.json").read_text("utf-8"))
    domain = {intent: name for name, several in domains.items() for intent in several}
    by_intent: dict[str, list[str]] = {}
    for part in ("train", "val", "test"):
        for text, intent in content[part]:
            by_intent.setdefault(intent, []).append(text)
    rng = np.random.default_rng(0)
    for intent, texts in sorted(by_intent.items()):
        different = sorted(set(texts))
        for place in rng.permutation(len(different))[:40]:
            yield different[place], (domain[intent], intent), ""


@dataclasses.dataclass(frozen=True)
class Source:
    """Where a set comes from, and the encoder of its features."""

    repository: str
    read: Callable[[Path], Iterator[Entry]]
    encoder: str = "efficientnet-lite0"


SETS = {
    "flowers": Source("daniele-gilio/Machine-Learning-Class", flowers),
    "clothing": Source("alexeygrigorev/clothing-dataset-small", clothing),
    "coins": Source("kaa/coins-dataset", coins),
    "signs": Source("hergerr/traffic-sign-recognition", signs),
    "letters": Source("brendenlake/omniglot", letters),
    "questions": Source("dylanell/short-text-cluster", questions, "minilm"),
    "intents": Source("clinc/oos-eval", intents, "minilm"),
}


def make_features(name: str, clone: Path, work: Path) -> None:
    """The features of a set, in the run folder of a head that is solved on all of them."""
    source, run = SETS[name], work / name / "features"
    if RunFolder(run).embeddings("trained").exists():
        return
    entries = list(source.read(clone))
    counts = Counter(path for _, path, _ in entries)
    entries = [entry for entry in entries if counts[entry[1]] >= FEWEST]
    depth = max(len(path) for _, path, _ in entries)
    table = work / name / "samples.csv"
    table.parent.mkdir(parents=True, exist_ok=True)
    texts = isinstance(entries[0][0], str)
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        levels = [f"level_{place}" for place in range(1, depth + 1)]
        writer.writerow(["text" if texts else "image", *levels, "group"])
        for place, (content, path, group) in enumerate(entries):
            given = content if texts else str(Path(content).resolve())
            writer.writerow([given, *path, *[""] * (depth - len(path)), group or f"sample {place}"])
    lt.train(
        table,
        "tree-ridge",
        out=run,
        encoder=source.encoder,
        pretrained=True,
        table={"label_columns": levels, "group_column": "group"},
        progress_bar=False,
    )
    lt.embed(run)


def read_split(work: Path, name: str, seed: int) -> Samples:
    """A set with the rows of one split: whole groups, in the same shares of every class as far as they go."""
    run = RunFolder(work / name / "features")
    taxonomy = run.load_taxonomy()
    table = EmbeddingTable.load(run.embeddings("trained"), taxonomy)
    assert table.features is not None
    groups = alone = torch.arange(len(table.nodes))
    if table.groups is not None:  # −1: a sample is a group by itself
        groups = torch.where(table.groups < 0, alone + int(table.groups.max()) + 1, table.groups)
    strata: dict[tuple[str, ...], list[Tensor]] = {}
    for group in groups.unique().tolist():
        rows = (groups == group).nonzero()[:, 0]
        strata.setdefault(_common(table.nodes[rows], taxonomy), []).append(rows)
    parts: dict[str, list[Tensor]] = {"test": [], "val": [], "train": []}
    rng = np.random.default_rng((seed, sorted(SETS).index(name)))
    for _, several in sorted(strata.items()):
        order = rng.permutation(len(several))
        tested = round(TEST * len(several))
        held = tested + max(round(VALIDATION * len(several)), 1)
        for place, index in enumerate(order.tolist()):
            parts["test" if place < tested else "val" if place < held else "train"].append(several[index])
    rows_of = {part: torch.cat(several).sort().values for part, several in parts.items()}
    return Samples(table.features.double(), table.nodes, taxonomy, **rows_of)


def _common(nodes: Tensor, taxonomy: Taxonomy) -> tuple[str, ...]:
    """The names that all of these nodes have in common, from the coarsest on."""
    paths = [taxonomy.path(int(node)) for node in nodes.unique().tolist()]
    return tuple(names[0] for names in zip(*paths, strict=False) if len(set(names)) == 1)


def train_on(
    samples: Samples, work: Path, seed: int, objective: str, settings: dict[str, Any]
) -> tuple[Path, float]:
    """A run of `labeltree train` on the vectors of a split, and its CPU seconds."""
    split = np.full(len(samples.nodes), "", "<U5")
    for part in ("train", "val", "test"):
        split[getattr(samples, part)] = part
    names = np.array([samples.taxonomy.path_name(node) for node in samples.nodes.tolist()])
    work.mkdir(parents=True, exist_ok=True)
    data, tree, out = work / "features.npz", work / "taxonomy.json", work / "run"
    shutil.rmtree(out, ignore_errors=True)
    np.savez(data, vectors=samples.vectors.float().numpy(), label=names, split=split)
    samples.taxonomy.save(tree)
    _, seconds = timed(
        lambda: lt.train(data, objective, out=out, seed=seed, taxonomy=tree, progress_bar=False, **settings)
    )
    return out, seconds


def trained_rows(name: str, samples: Samples, work: Path, seed: int) -> dict[str, Row]:
    """The rows of an objective, trained on the features as `labeltree train` does by default."""
    out, seconds = train_on(samples, work, seed, *TRAINED[name])
    loaded, tables = run_tables(out, ("trained",))
    table = tables["trained"]
    scores = run_classifiers(loaded).scores()
    answers = classify(scores, table)
    rows = {name: answer_scores(answers[samples.test], samples) | {"CPU s": seconds}}
    rows[name] |= space_scores(table.embeddings.double(), samples)
    if name in POSTERIOR:
        logits, classes = scores(table), ClassNodes(scores.classes, samples.taxonomy)
        held = samples.val
        calibrator = fit_calibrator(logits[held], samples.nodes[held], classes, "temperature")
        chances = calibrator(logits, classes).exp()
        points = posterior_embeddings(chances, classes.nodes, samples.taxonomy, tree=0.5)
        rows[f"{name} + posterior"] = answer_scores(answers[samples.test], samples)
        rows[f"{name} + posterior"] |= space_scores(points, samples)
    shutil.rmtree(out, ignore_errors=True)
    return rows


def run(work: Path, names: list[str], splits: int) -> None:
    """Measure what is missing: first what the protocol tests, then the other methods, split by split."""
    tested = ("no training", CANDIDATE, COMPARATOR)
    for methods in (tested, [name for name in TRAINED if name not in tested]):
        for seed in range(splits):
            for name in names:
                measure_split(work, name, seed, methods)


def measure_split(work: Path, name: str, seed: int, methods: Sequence[str]) -> None:
    """Measure these methods on one split of a set, each unless its numbers are there."""
    samples = read_split(work, name, seed)
    for method in methods:
        if method in (results := read_results(name)).get(str(seed), {}):
            continue
        rows: dict[str, Row] = {}
        try:
            if method == "no training":
                of_sklearn(samples, rows, seed)
            elif method == CANDIDATE:
                of_ridge(samples, rows, seed)
            else:
                rows = trained_rows(method, samples, work / name / "training", seed)
        except lt.LabeltreeError as error:
            print(f"{name}, split {seed}, {method}: refused: {error}", flush=True)
            continue  # and tried again when the command is run again
        results.setdefault(str(seed), {})[method] = rows
        RESULTS.mkdir(parents=True, exist_ok=True)
        with atomic_write(RESULTS / f"{name}.json") as temporary:
            temporary.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
        print(f"{name}, split {seed}, {method}", flush=True)


def read_results(name: str) -> dict[str, dict[str, dict[str, Row]]]:
    """Split → what was run → row of the table → its numbers; empty if nothing was."""
    file = RESULTS / f"{name}.json"
    return json.loads(file.read_text("utf-8")) if file.is_file() else {}


def read_rows(name: str) -> dict[str, dict[int, Row]]:
    """Row of the table → split → its numbers."""
    table: dict[str, dict[int, Row]] = {}
    for split, methods in sorted(read_results(name).items()):
        for rows in methods.values():
            for method, row in rows.items():
                table.setdefault(method, {})[int(split)] = row
    return dict(sorted(table.items()))


def paired(differences: list[float]) -> tuple[float, float]:
    """Mean of the differences over splits that overlap, and its standard error (Nadeau and Bengio 2003)."""
    several = np.asarray(differences, dtype=float)
    ratio = TEST / (1 - TEST - VALIDATION)
    return float(several.mean()), float(np.sqrt((1 / len(several) + ratio) * several.var(ddof=1)))


def chance(mean: float, error: float, count: int, beyond: float) -> float:
    """One-sided p of a true difference of `beyond` or less."""
    if error == 0:
        return float(mean <= beyond)
    return float(stats.t.sf((mean - beyond) / error, count - 1))


def holm(ps: list[float]) -> list[float]:
    """Holm's corrected p-values."""
    order, corrected, worst = np.argsort(ps), [0.0] * len(ps), 0.0
    for place, index in enumerate(order.tolist()):
        worst = max(worst, min(1.0, (len(ps) - place) * ps[index]))
        corrected[index] = worst
    return corrected


def tables(work: Path) -> Iterator[str]:
    """The tables of all sets, and the verdicts of the protocol."""
    verdicts: list[tuple[str, str, float, float, int, float]] = []
    for name in SETS:
        table = read_rows(name)
        if not table:
            continue
        samples = read_split(work, name, 0)
        parts = f"{len(samples.train):,} + {len(samples.val):,} + {len(samples.test):,} samples"
        splits = max(len(rows) for rows in table.values())
        yield f"## {name}: {parts}, {len(samples.nodes.unique())} classes, {splits} splits\n"
        yield "| | " + " | ".join(COLUMNS) + " |"
        yield "|---|" + "---|" * len(COLUMNS)
        for method, rows in table.items():
            # What answers has learned from fine labels, which such a method has not seen.
            hidden = ("top1", "hierarchical_f1") if method.endswith("coarse labels") else ()
            cells = [
                written(
                    [row[column] for row in rows.values() if column in row and column not in hidden],
                    1 if column == "CPU s" else 3,
                )
                for column in COLUMNS
            ]
            yield f"| {method} | " + " | ".join(cells) + " |"
        yield ""
        yield from described(table)
        for metric, beyond in zip(PRIMARY, (-MARGIN, 0.0), strict=True):
            both = sorted(table.get(CANDIDATE, {}).keys() & table.get(COMPARATOR, {}).keys())
            if len(both) < 2:
                continue
            apart = [table[CANDIDATE][seed][metric] - table[COMPARATOR][seed][metric] for seed in both]
            mean, error = paired(apart)
            verdicts.append((name, metric, mean, error, len(both), chance(mean, error, len(both), beyond)))
    corrected = holm([each[-1] for each in verdicts])
    yield f"## {CANDIDATE} − {COMPARATOR}\n"
    yield "| set | metric | difference | 95 % interval | splits | p, one-sided | p, Holm | holds |"
    yield "|---|---|---|---|---|---|---|---|"
    for (name, metric, mean, error, count, p), holms in zip(verdicts, corrected, strict=True):
        half = stats.t.ppf(0.975, count - 1) * error
        cells = [f"{mean:+.3f}", f"{mean - half:+.3f} to {mean + half:+.3f}", f"{count}", f"{p:.4f}"]
        yield (
            f"| {name} | {metric} | "
            + " | ".join([*cells, f"{holms:.4f}", "yes" if holms <= ALPHA else "no"])
            + " |"
        )


def described(table: dict[str, dict[int, Row]]) -> Iterator[str]:
    """How far the candidate is from every trained method, and coarse labels from no training: not tested."""
    pairs = [(CANDIDATE, name) for name in (*TRAINED, *(f"{name} + posterior" for name in POSTERIOR))]
    pairs = [pair for pair in pairs if not pair[1].endswith("coarse labels")]
    pairs += [(name, "features") for name in TRAINED if name.endswith("coarse labels")]
    metrics = ("hierarchical_f1", "recall_at_1", "map_at_r", "ahp")
    yield "| difference, 95 % interval | " + " | ".join(metrics) + " |"
    yield "|---|" + "---|" * len(metrics)
    for one, other in pairs:
        both = sorted(table.get(one, {}).keys() & table.get(other, {}).keys())
        if len(both) < SPLITS:
            continue
        cells = []
        for metric in metrics:
            mean, error = paired([table[one][split][metric] - table[other][split][metric] for split in both])
            half = stats.t.ppf(0.975, len(both) - 1) * error
            hidden = one.endswith("coarse labels") and metric == "hierarchical_f1"
            cells.append("–" if hidden else f"{mean:+.3f} ({mean - half:+.3f} to {mean + half:+.3f})")
        yield f"| {one} − {other} | " + " | ".join(cells) + " |"
    yield ""


def simulate(repetitions: int) -> None:
    """Alarms and coverage of `paired` for the nearest class mean on one or the other half of columns."""
    print("samples  better by   holds (95 %)   two-sided p ≤ .05   one-sided p ≤ .05")
    for samples in (400, 1000, 3000):
        for extra in (0, 4):
            rows = [_simulated(samples, extra, seed) for seed in range(repetitions)]
            true = float(np.mean([np.mean(row) for row in rows]))
            held = two = one = 0
            for row in rows:
                mean, error = paired(row)
                half = stats.t.ppf(0.975, len(row) - 1) * error
                held += abs(mean - true) <= half
                two += abs(mean) > half
                one += chance(mean, error, len(row), 0.0) <= ALPHA
            shares = [each / repetitions for each in (held, two, one)]
            print(f"{samples:7} {true:+11.4f} {shares[0]:14.3f} {shares[1]:19.3f} {shares[2]:19.3f}")


def _simulated(samples: int, extra: int, seed: int) -> list[float]:
    """Differences of accuracy over five splits of one set."""
    rng = np.random.default_rng((samples, extra, seed))
    classes, columns = 10, 8
    centres = np.random.default_rng(1).normal(size=(classes, columns + extra)) * 0.6
    y = rng.integers(0, classes, samples)
    first = centres[y, :columns] + rng.normal(size=(samples, columns))
    second = np.hstack([centres[y, :columns], centres[y, columns:]]) + rng.normal(
        size=(samples, columns + extra)
    )
    apart = []
    for _ in range(SPLITS):
        order = rng.permutation(samples)
        test, train = order[: round(TEST * samples)], order[round((TEST + VALIDATION) * samples) :]
        right = []
        for x in (second, first):
            means = np.array([x[train][y[train] == c].mean(0) for c in range(classes)])
            nearest = ((x[test][:, None] - means) ** 2).sum(2).argmin(1)
            right.append(float((nearest == y[test]).mean()))
        apart.append(right[0] - right[1])
    return apart


def make_parser(text: str | None, sets: Sequence[str], default: Sequence[str]) -> argparse.ArgumentParser:
    """The options of a protocol: its features, runs, tables and simulation."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["features", "run", "tables", "simulate"])
    parser.add_argument("--clones", type=Path, help="folder with the clones, named as the sets are")
    parser.add_argument("--work", type=Path, help="folder of features and results")
    parser.add_argument("--sets", nargs="+", choices=sets, default=list(default))
    parser.add_argument("--out", type=Path, help="Markdown of the tables")
    return parser


def read_options(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options, with the folders that they need."""
    options = parser.parse_args()
    needs_work = options.what != "simulate" and options.work is None
    if needs_work or (options.what == "features" and options.clones is None):
        parser.error("--work is needed, and --clones for features")
    warnings.filterwarnings("ignore", module="sklearn")
    return options


def write_features(options: argparse.Namespace) -> None:
    """Make the features of the sets."""
    for name in options.sets:
        make_features(name, options.clones / name, options.work)
        print(f"{name}: features are there", flush=True)


def show(lines: Iterator[str], out: Path | None) -> None:
    """Print the tables, and write them to a file if it is named."""
    text = "\n".join(lines) + "\n"
    print(text)
    if out is not None:
        out.write_text(text, "utf-8")


def main() -> None:
    parser = make_parser(__doc__, sorted(SETS), list(SETS))
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--repetitions", type=int, default=1000, help="of simulate")
    options = read_options(parser)
    if options.what == "simulate":
        simulate(options.repetitions)
    elif options.what == "features":
        write_features(options)
    elif options.what == "run":
        run(options.work, options.sets, options.splits)
    else:
        show(tables(options.work), options.out)


if __name__ == "__main__":
    main()
