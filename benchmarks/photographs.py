"""Photographs: what the default commands give, beside timm and ten lines of scikit-learn on the same files.

python benchmarks/photographs.py --work /tmp/photographs --grocery PATH --cub PATH

PATH of --grocery is a folder with train, val and test as GroceryStoreDataset has it (its `dataset`), or a
part of it; that of --cub the folder `images` of a copy of CUB-200-2011 with any of its species, of which 12
photographs each are used, evenly spaced: 8 to train and validate, 4 to test. Both data sets are the user's to
clone; CUB's is for research only. Every seed trains anew, and draws the validation photographs of CUB.

labeltree's rows are `labeltree train --data FOLDER` and `labeltree evaluate RUN`, with no option but the
seed. The others are timm's EfficientNet-Lite0 with the same weights and timm's own preprocessing, then
scikit-learn: logistic regression on features of unit length (C = 100, the best on the groceries' validation
part) and shrinkage discriminant analysis; both learn from the training part alone. Their space is that of
their scores. Retrieval is among the test photographs. CPU seconds are user and system time of the whole
process, with the features computed anew.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

SEEDS = (0, 1, 2)
METRICS = (
    "top1",
    "hierarchical_f1",
    "recall_at_1",
    "map_at_r",
    "ahp",
    "parent_violations",
    "pair_violations",
)
_ORDERS = {
    "Passeriformes": {
        "Fringillidae": "American_Goldfinch European_Goldfinch Evening_Grosbeak Pine_Grosbeak Finch",
        "Parulidae": "Warbler Redstart Yellowthroat Waterthrush",
        "Icteridae": "Oriole Bobolink Cowbird Blackbird Meadowlark",
        "Hirundinidae": "Swallow",
        "Vireonidae": "Vireo",
        "Passerellidae": "Sparrow",
        "Cardinalidae": "Blue_Grosbeak Rose_breasted_Grosbeak Bunting Tanager",
        "Corvidae": "Jay Nutcracker",
        "Bombycillidae": "Waxwing",
        "Certhiidae": "Creeper",
        "Troglodytidae": "Wren",
        "Sturnidae": "Starling",
        "Mimidae": "Gray_Catbird",
        "Alaudidae": "Lark",
        "Tyrannidae": "Flycatcher Kingbird",
        "Ptilonorhynchidae": "Spotted_Catbird",
        "Sittidae": "Nuthatch",
    },
    "Piciformes": {"Picidae": "Woodpecker"},
    "Apodiformes": {"Trochilidae": "Hummingbird Violetear"},
    "Coraciiformes": {"Alcedinidae": "Kingfisher"},
    "Procellariiformes": {"Diomedeidae": "Albatross"},
    "Pelecaniformes": {"Pelecanidae": "Pelican"},
    "Caprimulgiformes": {"Caprimulgidae": "Widow Will"},
    "Podicipediformes": {"Podicipedidae": "Grebe"},
    "Anseriformes": {"Anatidae": "Gadwall Mallard Merganser"},
    "Cuculiformes": {"Cuculidae": "Ani Geococcyx"},
    "Charadriiformes": {"Laridae": "Gull", "Alcidae": "Auklet Guillemot Puffin"},
    "Gaviiformes": {"Gaviidae": "Loon"},
    "Suliformes": {"Phalacrocoracidae": "Cormorant"},
}
_FAMILIES = {
    name: (order, family)
    for order, families in _ORDERS.items()
    for family, names in families.items()
    for name in names.split()
}


def cpu_seconds(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def link_birds(images: Path, folder: Path) -> Path:
    """Folders train and test of order, family and species, with links to 8 and 4 photographs of each."""
    for species in sorted(path for path in images.iterdir() if path.is_dir()):
        name = species.name.split(".")[-1]
        place = _FAMILIES.get(name) or _FAMILIES.get(name.rpartition("_")[2])
        if place is None:
            raise SystemExit(f"no family is known for '{name}'; add it to _ORDERS")
        files = sorted(species.glob("*.jpg"))
        chosen = [files[at] for at in np.linspace(0, len(files) - 1, 12).round().astype(int)]
        for number, file in enumerate(chosen):
            target = (
                folder / ("test" if number % 3 == 2 else "train") / place[0] / place[1] / name / file.name
            )
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                shutil.copyfile(file, target)
    return folder


def run(command: list[str], env: dict[str, str]) -> float:
    """CPU seconds of a command."""
    before = cpu_seconds(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, env=env, stdout=subprocess.DEVNULL)
    return cpu_seconds(resource.RUSAGE_CHILDREN) - before


def ours(data: Path, work: Path, seed: int, weights: Path) -> tuple[Path, dict[str, float]]:
    """The run and its numbers: of the classifier that answers, and of the space that is searched."""
    out, cache = work / f"run-{seed}", work / f"cache-{seed}"
    name = "efficientnet-lite0"
    if not (out / "metrics.json").is_file():
        shutil.rmtree(cache, ignore_errors=True)  # the features, so that computing them counts
        shutil.copytree(weights / name, cache / name)
        env = os.environ | {"LABELTREE_DATA": str(cache)}
        program = [sys.executable, "-m", "labeltree"]
        train = [*program, "train", "--data", str(data), "--out", str(out), "--seed", str(seed)]
        seconds = {"train": run(train, env), "evaluate": run([*program, "evaluate", str(out)], env)}
        (out / "seconds.json").write_text(json.dumps(seconds))
    seconds = json.loads((out / "seconds.json").read_text())
    result = json.loads((out / "metrics.json").read_text())
    from labeltree.evaluation import EvaluationResult

    main = EvaluationResult.from_dict(result).main
    found = {name: main.answer_score(name) for name in METRICS[:2]}
    found |= {name: main.score(name, "embeddings") for name in METRICS[2:]}
    return out, found | {"CPU s": seconds["train"], "evaluate CPU s": seconds["evaluate"]}


def timm_features(files: list[str], weights: Path) -> tuple[NDArray[np.float32], float]:
    """Features of EfficientNet-Lite0 as timm's documentation has it, and the CPU seconds they took."""
    import timm
    from PIL import Image

    from labeltree.models.efficientnet_lite import WEIGHTS, load_by_position
    from labeltree.models.weights import read_weights

    before = cpu_seconds(resource.RUSAGE_SELF)
    net = timm.create_model("tf_efficientnet_lite0", pretrained=False, num_classes=0).eval()
    load_by_position(net, read_weights(weights / "efficientnet-lite0" / "weights" / WEIGHTS))
    config = timm.data.resolve_data_config({}, model=net)
    config |= {"mean": (127 / 255,) * 3, "std": (128 / 255,) * 3}  # of these weights
    transform = timm.data.create_transform(**config)
    parts = []
    with torch.inference_mode():
        for start in range(0, len(files), 32):
            images = [Image.open(file).convert("RGB") for file in files[start : start + 32]]
            parts.append(net(torch.stack([transform(image) for image in images])))
    return torch.cat(parts).numpy(), cpu_seconds(resource.RUSAGE_SELF) - before


def others(run_folder: Path, weights: Path, kept: Path) -> dict[str, dict[str, float]]:
    """The rows of timm and scikit-learn, on the split of a run."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.linear_model import LogisticRegression

    from labeltree.runs import EmbeddingTable, RunFolder

    folder = RunFolder(run_folder)
    taxonomy = folder.load_taxonomy()
    table = EmbeddingTable.load(folder.embeddings("trained"), taxonomy)
    assert table.paths is not None
    assert table.split is not None
    if not kept.is_file():
        raw, seconds = timm_features(table.paths.tolist(), weights)
        np.savez(kept, raw=raw, seconds=seconds, paths=table.paths)
    stored = np.load(kept)
    place = {path: row for row, path in enumerate(stored["paths"].tolist())}
    raw = stored["raw"][[place[path] for path in table.paths.tolist()]]
    unit = raw / np.linalg.norm(raw, axis=1, keepdims=True)
    nodes, split = table.nodes.numpy(), table.split
    train, test = split == "train", split == "test"
    rows: dict[str, dict[str, float]] = {}

    def judge(name: str, answers: Any, points: Any, seconds: float) -> None:
        rows[name] = scores(answers, torch.as_tensor(points)[test], nodes, train, test, points, taxonomy)
        rows[name]["CPU s"] = float(stored["seconds"]) + seconds

    def timed(fit: Callable[[], Any]) -> tuple[Any, float]:
        before = cpu_seconds(resource.RUSAGE_SELF)
        return fit(), cpu_seconds(resource.RUSAGE_SELF) - before

    nearest = (unit[test] @ unit[train].T).argmax(1)
    judge("features, nearest neighbour", nodes[train][nearest], unit, 0.0)
    logistic, seconds = timed(lambda: LogisticRegression(C=100, max_iter=1000).fit(unit[train], nodes[train]))
    judge(
        "features + LogisticRegression",
        logistic.predict(unit[test]),
        logistic.decision_function(unit),
        seconds,
    )
    lda = LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto")
    lda, seconds = timed(lambda: lda.fit(raw[train], nodes[train]))
    judge("features + LDA", lda.predict(raw[test]), lda.transform(raw), seconds)
    return rows


def scores(
    answers: Any, tested: torch.Tensor, nodes: Any, train: Any, test: Any, points: Any, taxonomy: Any
) -> dict[str, float]:
    from labeltree.geometry import Sphere
    from labeltree.metrics.functional import (
        class_prototypes,
        hierarchical_f1,
        pair_violations,
        parent_violations,
        retrieval_metrics,
    )

    truth, answered = torch.as_tensor(nodes[test]), torch.as_tensor(answers)
    tested, everything = tested.float(), torch.as_tensor(points).float()
    found = retrieval_metrics(tested, truth, taxonomy)
    means = class_prototypes(everything[train], torch.as_tensor(nodes[train]), taxonomy, Sphere())
    return {
        "top1": float((answered == truth).double().mean()),
        "hierarchical_f1": float(hierarchical_f1(answered, truth, taxonomy)),
        "recall_at_1": float(found["recall@1"]),
        "map_at_r": float(found["map@r"]),
        "ahp": float(found["ahp@250"]),
        "parent_violations": float(parent_violations(tested, truth, taxonomy, means, geometry=Sphere())),
        "pair_violations": float(pair_violations(tested, truth, taxonomy, Sphere())),
    }


def table_of(rows: dict[str, list[dict[str, float]]]) -> str:
    """Means ± standard deviations over the seeds."""
    names = [*METRICS, "CPU s", "evaluate CPU s"]
    lines = [f"{'':30} " + " ".join(f"{name:>18}" for name in names)]
    for row, found in rows.items():
        cells = []
        for name in names:
            values = [one[name] for one in found if name in one]
            spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 and "CPU" not in name else ""
            cells.append(f"{statistics.mean(values):.3f}{spread}" if values else "–")
        lines.append(f"{row:30} " + " ".join(f"{cell:>18}" for cell in cells))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--work", type=Path, required=True, help="folder of the runs, which a second call reads"
    )
    parser.add_argument("--grocery", type=Path)
    parser.add_argument("--cub", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--out", type=Path, help="JSON of the results")
    options = parser.parse_args()
    from labeltree.cache import data_home
    from labeltree.datasets.fetching.encoder_weights import fetch_weights

    fetch_weights("efficientnet-lite0")
    weights, results = data_home(), {}
    for name, place in (("grocery", options.grocery), ("cub", options.cub)):
        if place is None:
            continue
        work = options.work / name
        work.mkdir(parents=True, exist_ok=True)
        data = place.resolve() if name == "grocery" else link_birds(place, work / "data")
        rows: dict[str, list[dict[str, float]]] = {}
        for seed in options.seeds:
            folder, found = ours(data, work, seed, weights)
            for row, values in others(folder, weights, work / "timm.npz").items():
                rows.setdefault(row, []).append(values)
            rows.setdefault("labeltree train, evaluate", []).append(found)
        results[name] = rows
        print(f"{name}, {len(options.seeds)} seeds\n{table_of(rows)}\n", flush=True)
    if options.out is not None:
        options.out.write_text(json.dumps(results, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
