"""Emoji searched by name and names by emoji: CLIP's contrast, the tree's soft positives, modality dropout.

python studies/emoji-names/run.py --out runs/emoji-names     # an interrupted call goes on where it stopped
python studies/emoji-names/run.py --out runs/emoji-names --write   # results.json, the table in README.md

Every method trains the recipe recipes/emoji-names/image-text.yaml with the changes below: the same samples,
epochs and views, of two groups of emoji. Tested are drawing styles that training has not seen.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch

from labeltree.atomic import atomic_write
from labeltree.data import Source, get_dataset, open_source, register_dataset
from labeltree.evaluation.protocols.image_text_matching import search_counterparts
from labeltree.inference.load_run import load_run
from labeltree.inference.run_embeddings import embed_source
from labeltree.metrics.functional import class_prototypes
from labeltree.studies.named_data.emoji import HOME, fetch_emoji
from labeltree.training.fit import train
from labeltree.training.read_recipes import read_recipe

DATA = "emoji-two-groups-names"
HERE = Path(__file__).parent
RECIPE = HERE.parents[1] / "recipes" / "emoji-names" / "image-text.yaml"
FLAT = {"positives": "instance", "relatives": 0.0}
LABEL = {"positives": "label", "relatives": 0.0}
METHODS: dict[str, dict[str, Any]] = {
    "CLIP": {"objective": "image-text", "image-text": FLAT},
    "labels (UniCL)": {"objective": "image-text", "image-text": LABEL},
    "labels + relatives": {"objective": "image-text"},
    "HWC + labels + relatives": {"modality_dropout": 0.0},
    "HWC + labels + relatives, modality dropout": {},
}
GROUPS = ("animals & nature", "food & drink")
SEEDS = (0, 1, 2)
KS = (1, 5, 10)


def open_two_groups(*, path: Path, **images: Any) -> Source:
    """The emoji of two groups, with their names."""
    source = open_source("emoji-names", data_path=path, **images)
    tree = source.taxonomy
    groups = {int(node) for node in tree.encode(list(GROUPS))}
    inside = torch.tensor([int(tree.paths[node, 0]) in groups for node in source.nodes.tolist()])
    return replace(source.subset(inside.nonzero()[:, 0]), name=DATA)


register_dataset(
    DATA,
    summary="emoji of two groups with their names",
    licence="of each style its own",
    fetch=fetch_emoji,
    files=get_dataset("emoji-names").files,
    home=HOME,
)(open_two_groups)


def measure(out: Path, method: str, seed: int) -> dict[str, Any]:
    """Train one run, unless it is there, and measure its search and its answers for images alone."""
    name = _name(method, seed)
    done = out / f"{name}.json"
    if done.is_file():
        return dict(json.loads(done.read_text("utf-8")))
    recipe = read_recipe(RECIPE)
    changes = dict(METHODS[method])
    own = changes.pop("image-text", {})
    terms = changes.get("objective", recipe.objective).split("+")
    options = {term: given for term, given in recipe.options.items() if term in terms}
    options["image-text"] = {**options["image-text"], **own}
    changed = replace(recipe, data=DATA, seed=seed, options=options, **changes)
    folder = train(changed, out / name, progress_bar=False)
    run = load_run(folder.path)
    table = embed_source(run.network, run.source)
    scores = search(table, run.taxonomy) | answers(table, run.taxonomy)
    cell = {"method": method, "seed": seed, "scores": scores}
    with atomic_write(done) as temporary:
        temporary.write_text(json.dumps(cell), "utf-8")
    for big in ("checkpoints", "embeddings"):
        for file in (folder.path / big).glob("*"):
            file.unlink()
    return cell


def search(table: Any, taxonomy: Any) -> dict[str, float]:
    """Recall@k of both ways, by depth, as ``labeltree evaluate --protocols image-text`` computes it."""
    test = table.select("test")
    sides = {"image": test.image_embeddings, "text": test.text_embeddings}
    found = {}
    for query, key in (("image", "text"), ("text", "image")):
        depths, own = search_counterparts(sides[query], sides[key], test.nodes, taxonomy, test.space, max(KS))
        for k in KS:
            found[f"{query}_to_{key}.own@{k}"] = float((own <= k).double().mean())
            for at in range(1, taxonomy.max_depth + 1):
                hits = depths[:, :k].amax(1) >= at
                found[f"{query}_to_{key}.recall@{k} depth {at}"] = float(hits.double().mean())
    return found


def answers(table: Any, taxonomy: Any) -> dict[str, float]:
    """Share of test images, and texts, alone whose nearest class mean is right, by depth.

    The class means are of the training samples with both: what a model is asked that knows one of them only.
    """
    train_rows = torch.from_numpy((table.split == "train").nonzero()[0])
    test = torch.from_numpy((table.split == "test").nonzero()[0])
    means = class_prototypes(table.embeddings[train_rows], table.nodes[train_rows], taxonomy, table.space)
    leaves = table.nodes[train_rows].unique()
    found = {}
    for kind in ("image", "text"):
        points = getattr(table, f"{kind}_embeddings")[test].float()
        nearest = leaves[table.space.pairwise_similarity(points, means[leaves].float()).argmax(1)]
        depth = taxonomy.depth[taxonomy.lca(nearest, table.nodes[test])]
        for at in range(1, taxonomy.max_depth + 1):
            found[f"{kind} alone, depth {at}"] = float((depth >= at).double().mean())
    return found


def tables(cells: list[dict[str, Any]]) -> str:
    """The whole table, mean ± standard deviation over the seeds."""
    lines = []
    for way in ("image_to_text", "text_to_image"):
        lines += [f"**{way.replace('_', ' ').capitalize()}** (recall@k in %, by depth; 3 = the emoji)", ""]
        columns = {f"@{k}, depth {at}": f"{way}.recall@{k} depth {at}" for k in KS for at in (1, 2, 3)}
        lines += _table(cells, columns)
    alone = {f"{k}, depth {at}": f"{k} alone, depth {at}" for k in ("image", "text") for at in (1, 2, 3)}
    lines += ["**One of them alone, answered by the nearest class mean of both** (right in %)", ""]
    return "\n".join([*lines, *_table(cells, alone)])


def _name(method: str, seed: int) -> str:
    return f"{list(METHODS).index(method)}-{seed}"


def _table(cells: list[dict[str, Any]], columns: dict[str, str]) -> list[str]:
    lines = ["| | seeds | " + " | ".join(columns) + " |", "|---|---:" + "|---:" * len(columns) + "|"]
    for method in METHODS:
        rows = [cell["scores"] for cell in cells if cell["method"] == method]
        if rows:
            shown = " | ".join(_shown([row[key] for row in rows]) for key in columns.values())
            lines.append(f"| {method} | {len(rows)} | {shown} |")
    return [*lines, ""]


def _shown(values: list[float]) -> str:
    spread = f" ± {100 * stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * mean(values):.1f}{spread}"


def write(cells: list[dict[str, Any]]) -> None:
    """Write ``results.json``, and the table between the marks of README.md."""
    with atomic_write(HERE / "results.json") as temporary:
        temporary.write_text(json.dumps(cells, indent=1) + "\n", "utf-8")
    page = HERE / "README.md"
    start, _, rest = page.read_text("utf-8").partition("<!-- table -->")
    _, _, end = rest.partition("<!-- end -->")
    with atomic_write(page) as temporary:
        temporary.write_text(f"{start}<!-- table -->\n\n{tables(cells)}\n<!-- end -->{end}", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--write", action="store_true", help="write the results of the cells that are there")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    cells = []
    for seed in SEEDS:
        for method in METHODS:
            if options.write and not (options.out / f"{_name(method, seed)}.json").is_file():
                continue
            cells.append(measure(options.out, method, seed))
            print(method, seed, flush=True)
    if options.write:
        write(cells)
    else:
        print(tables(cells))


if __name__ == "__main__":
    main()
