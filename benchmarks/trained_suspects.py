"""Planted label errors in texts whose encoder was trained on them: which space should judge the labels?

    python benchmarks/trained_suspects.py --clones FOLDER   all cells, hours on one core; resumable
    python benchmarks/trained_suspects.py --table           only the table of the cells measured so far

Four sets of short texts, 525 to 600 of each: TREC's questions and CLINC's requests (FOLDER holds the clones
`questions` and `intents` that docs/confirmation.md names), descriptions of Debian packages, and definitions
of animals. In each cell a share of the labels is replaced, by a sibling or by any other leaf, and a run is
trained on them: the default objective and splits, `small-text` with 12 epochs and 32 tokens. Recall and
precision are those of `labeltree suspects`: in the encoder's own space as before, in the raw words, and in
the space that it chooses by the labels held out of training.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import labeltree as lt
from kept import Results, Row, Table, write
from labeltree.cache import data_home
from labeltree.curation.judged_samples import JudgedSamples, open_judged
from labeltree.curation.suspects import Suspects
from labeltree.curation.table_suspects import find_table_suspects
from labeltree.data import open_source
from labeltree.options.curation import SuspectsOptions
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.naming import join_path
from suspects import planted

RATES = (0.1, 0.03)
HOW = ("anywhere", "siblings")
SEEDS = (0, 1)
FEWEST = {"questions": 15, "intents": 30, "debtags": 150, "wordnet-animals": 15}
CLASSES = {"questions": 22, "intents": 20, "debtags": 15, "wordnet-animals": 26}
MOST = {"questions": 25, "intents": 30, "debtags": 40, "wordnet-animals": 25}
SETTINGS: dict[str, Any] = {"encoder": "small-text", "epochs": 12, "max_length": 32, "accelerator": "cpu"}
CELLS = data_home() / "benchmarks" / "trained_suspects.jsonl"

Text = tuple[str, tuple[str, ...]]


def texts(name: str, clones: Path) -> list[Text]:
    """The texts of a set and their paths of names: some samples of some classes, drawn once."""
    if name in ("questions", "intents"):
        import confirmation

        rows = [(text, path) for text, path, _ in getattr(confirmation, name)(clones / name)]
    else:
        source = open_source(name)
        tree = source.taxonomy
        read = map(str, source.read(torch.arange(len(source))))
        rows = [
            (text, tuple(tree.names[above] for above in tree.ancestors[node][1:].tolist() if above > 0))
            for text, node in zip(read, source.nodes.tolist(), strict=True)
            if node > 0
        ]
    draw = np.random.default_rng(7)
    counts = Counter(path for _, path in rows)
    classes = sorted(path for path, count in counts.items() if count >= FEWEST[name])
    if name == "intents":  # of three domains, so that there are siblings
        domains = sorted({path[0] for path in classes})
        kept = {domains[place] for place in draw.permutation(len(domains))[:3]}
        classes = [path for path in classes if path[0] in kept][: CLASSES[name]]
    else:
        classes = [classes[place] for place in sorted(draw.permutation(len(classes))[: CLASSES[name]])]
    chosen = []
    for path in classes:
        own = [text for text, other in rows if other == path]
        some = draw.permutation(len(own))[: MOST[name]]
        chosen += [(own[place][:160].replace("\n", " "), path) for place in some]
    order = np.arange(len(chosen))
    draw.shuffle(order)
    return [chosen[place] for place in order]


def measure_cells(name: str, rate: float, how: str, seed: int, clones: Path) -> dict[str, Any]:
    """Train on planted errors, and judge the labels."""
    rows = texts(name, clones)
    tree = Taxonomy.from_paths(sorted({path for _, path in rows}))
    nodes = torch.tensor([tree.find(join_path(path)) for _, path in rows])
    labels, wrong = planted(nodes, tree, rate, how, seed)
    with tempfile.TemporaryDirectory() as place:
        data = Path(place) / f"{name}_{rate}_{how}_{seed}.csv"
        with data.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["text", "label"])
            writer.writerows(
                (text, tree.path_name(node)) for (text, _), node in zip(rows, labels, strict=True)
            )
        run = lt.train(data, out=Path(place) / "run", seed=seed, progress_bar=False, **SETTINGS)
        return judge(open_judged(run.path), wrong)


def judge(samples: JudgedSamples, wrong: Tensor) -> dict[str, Any]:
    """Precision at the number planted, recall and length of the list, in each space and the chosen one."""
    options = SuspectsOptions("run")
    chosen = find_table_suspects(samples, options)
    by_space = {
        "encoder": find_table_suspects(samples.table, options),
        **{space: find_table_suspects(table, options) for space, table in samples.label_free.items()},
        "chosen": chosen,
    }
    told = {way: figures(suspected, wrong, samples.table.split) for way, suspected in by_space.items()}
    return {"planted": int(wrong.sum()), "samples": len(wrong), "space": chosen.space, **told}


def figures(suspected: Suspects, wrong: Tensor, split: np.ndarray[Any, Any] | None) -> dict[str, float]:
    """What the suspects of one space find, and the share of labels out of training that fits it."""
    count = int(wrong.sum())
    first = suspected.scores.nan_to_num(-1).argsort(descending=True, stable=True)[:count]
    listed = [one.row for one in suspected.found]
    held = torch.from_numpy(np.asarray(split) != "train") & torch.isfinite(suspected.scores)
    return {
        "precision": float(wrong[first].double().mean()),
        "recall": float(wrong[listed].sum()) / count,
        "listed": len(listed),
        "fit": float((suspected.scores[held] <= 0.5).double().mean()),
    }


def run(clones: Path) -> None:
    """Measure the cells that are missing."""
    CELLS.parent.mkdir(parents=True, exist_ok=True)
    done = {tuple(entry["cell"]) for entry in entries()}
    for cell in [(n, r, h, s) for s in SEEDS for r in RATES for h in HOW for n in FEWEST]:
        if cell not in done:
            keep({"cell": list(cell), **measure_cells(*cell, clones)})


def entries() -> list[dict[str, Any]]:
    """The cells that are measured."""
    return [json.loads(line) for line in CELLS.read_text("utf-8").splitlines()] if CELLS.is_file() else []


def keep(entry: dict[str, Any]) -> None:
    """Append a cell to those measured."""
    with CELLS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")
    print(json.dumps(entry), flush=True)


def tables() -> Results:
    """The table of all measured cells."""
    by_kind: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for entry in entries():
        by_kind[tuple(entry["cell"][:3])].append(entry)
    rows: list[Row] = []
    for name, rate, how in sorted(by_kind, key=lambda kind: (list(FEWEST).index(kind[0]), kind[2], kind[1])):
        cells = by_kind[name, rate, how]
        row: list[str | float | int | None] = [f"{name}, {rate:.0%} {how}", len(cells), cells[0]["planted"]]
        for figure in ("precision", "recall", "listed", "fit"):
            for way in ("encoder", "raw"):
                mean = np.mean([cell[way][figure] for cell in cells])
                row.append(f"{mean:.0f}" if figure == "listed" else f"{mean:.2f}")
        rows.append([*row, ", ".join(sorted({cell["space"] for cell in cells}))])
    columns = ["errors", "seeds", "planted"]
    columns += [
        f"{figure}, {way}"
        for figure in ("precision", "recall", "listed", "held-out labels that fit")
        for way in ("encoder", "raw words")
    ]
    about = "Errors planted in texts, judged by the encoder that was trained on them, and by raw words"
    return Results(
        [Table(about, [*columns, "chosen"], rows)],
        notes=[
            "Means over the seeds of planting and training. Precision is at the number planted; recall is "
            "that of the list, whose length stands beside. Real errors of the data count as false alarms."
        ],
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clones", type=Path, metavar="FOLDER", help="clones of questions and intents")
    parser.add_argument("--table", action="store_true", help="only write the table")
    chosen_options = parser.parse_args()
    torch.set_num_threads(1)
    if not chosen_options.table:
        if chosen_options.clones is None:
            parser.error("--clones names the folder of the clones")
        run(chosen_options.clones)
    write(tables(), "trained_suspects", "full", {"clones": "FOLDER"})
