"""One small valid file, or folder, of every kind that a command reads."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import yaml
from PIL import Image

from labeltree.cli.main import main
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.taxonomy import Taxonomy, TaxonomyDAG
from ontology_files import write_ontology_files
from small_vocabulary import small_vocabulary

for folder in ("named_datasets", "data"):  # their writers of official formats
    sys.path.append(str(Path(__file__).parents[1] / folder))

CLASSES = ("animal/dog", "animal/cat", "plant/rose", "plant/fern")
SETTINGS = (
    "--epochs=1",
    "--batch_size=8",
    "--accelerator=cpu",
    "--quiet",
    "--checkpoint_minutes=0",
)


def command(*words: object) -> None:
    """Run a command that must succeed."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        code = main([str(word) for word in words])
    assert code == 0, (words, out.getvalue())


def make_valid_files(root: Path) -> Path:
    """Make them all, by the commands that make them where there are such."""
    with small_vocabulary():
        _make(root)
    return root


def _make(root: Path) -> None:
    rng = np.random.default_rng(0)
    _images(root / "photos", rng)
    _texts(root, rng)
    photos, texts = root / "photos", root / "notes.csv"
    image = ("--image-size=8", "--encoder=small-conv", *SETTINGS)
    command(
        "train", "--data", photos, "--objective=hwc+lam", "--head.dim=4", *image, "--out", root / "photo-run"
    )
    command("train", "--data", photos, "--objective=ce", "--seed=1", *image, "--out", root / "own-run")
    command(
        "train",
        "--data",
        texts,
        "--objective=ce",
        "--encoder=small-text",
        *SETTINGS,
        "--out",
        root / "text-run",
    )
    for name in ("photo-run", "own-run"):
        command("evaluate", root / name, "--quiet")
    command("calibrate", root / "photo-run")
    command("calibrate", root / "own-run")
    shutil.copytree(root / "photo-run", root / "half-run")
    RunFolder(root / "half-run").encoder.unlink()
    (root / "half-run/checkpoints/best.ckpt").unlink(missing_ok=True)
    shutil.copy(root / "half-run/checkpoints/last.ckpt", root / "half-run/checkpoints/best.ckpt")
    state = RunFolder(root / "photo-run").load_weights()
    encoder = {k.removeprefix("encoder."): v for k, v in state.items() if k.startswith("encoder.")}
    torch.save(encoder, root / "weights.pt")
    shutil.copy(root / "photo-run/encoder.safetensors", root / "weights.safetensors")
    _taxonomies(root)
    _embeddings(root, rng)
    _recipes(root)
    _vectors(root, rng)
    _named(root)
    for name in ("photo-run", "own-run", "text-run"):
        RunFolder(root / name).drop_checkpoints()


def _images(folder: Path, rng: np.random.Generator) -> None:
    for number, name in enumerate(CLASSES):
        (folder / name).mkdir(parents=True)
        for sample in range(12):
            pixels = rng.integers(0, 100, (8, 8, 3)) + 40 * number
            suffix = ("png", "jpg", "bmp", "gif", "tif", "webp")[sample % 6]
            Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / name / f"{sample}.{suffix}")


def _texts(root: Path, rng: np.random.Generator) -> None:
    rows = [
        {
            "text": f"{name.split('/')[1]} number {sample}",
            "depth1": name.split("/")[0],
            "depth2": name.split("/")[1],
        }
        for name in CLASSES
        for sample in range(12)
    ]
    lines = ["text,depth1,depth2", *(",".join(row.values()) for row in rows)]
    (root / "notes.csv").write_text("\n".join(lines) + "\n")
    (root / "notes.tsv").write_text("\n".join(line.replace(",", "\t") for line in lines) + "\n")
    pq.write_table(pa.Table.from_pylist(rows), root / "notes.parquet")


def _taxonomies(root: Path) -> None:
    folder = root / "trees"
    folder.mkdir()
    tree = Taxonomy.from_paths(CLASSES)
    for suffix in ("yaml", "json", "csv", "tsv", "txt", "nwk"):
        tree.save(folder / f"tree.{suffix}")
    write_ontology_files(root / "ontologies")
    (folder / "nested.json").write_text('{"animal": {"dog": {}, "cat": {}}, "plant": ["rose", "fern"]}')
    (folder / "depths.csv").write_text("coarse,fine\nanimal,dog\nanimal,cat\nplant,rose\nplant,fern\n")
    graph = TaxonomyDAG.from_edges([("dog", "animal"), ("dog", "pet"), ("animal", "thing"), ("pet", "thing")])
    graph.save(folder / "graph.csv")
    graph.save(folder / "graph.json")
    sys.path.append(str(Path(__file__).parents[1] / "data"))  # where tests of WordNet write one
    from test_wordnet import write_wordnet

    write_wordnet(root / "wordnet")
    (root / "names.txt").write_text("dog\ncrane\n")
    (root / "names.senses.txt").write_text("dog = dog.n.01\ncrane = crane.n.02\n")


def _embeddings(root: Path, rng: np.random.Generator) -> None:
    tree = Taxonomy.from_file(root / "trees/tree.json")
    n = 48
    nodes = tree.encode(list(CLASSES) * (n // 4))
    vectors = torch.from_numpy(rng.normal(size=(n, 5)).astype(np.float32))
    table = EmbeddingTable(
        vectors + nodes[:, None],
        nodes,
        split=np.array(["train", "test"] * (n // 2)),
        features=vectors,
        instances=torch.arange(n),
        paths=np.array([f"{row}.png" for row in range(n)]),
        predictions=nodes,
        aspects=nodes[:, None],
        aspect_taxonomies=(tree,),
        groups=torch.arange(n) // 2,
    )
    table.save(root / "table.npz")
    table.save(root / "table.parquet")
    np.savez(root / "labels.npz", embeddings=vectors.numpy(), labels=np.array(list(CLASSES) * (n // 4)))
    (root / "queries.txt").write_text("1\n3\n5.png\n")
    (root / "costs.csv").write_text(
        "answer,dog,cat,rose,fern\nanimal,1,1,9,9\nplant/rose,9,9,0,1\n/,3,3,3,3\n"
    )


def _recipes(root: Path) -> None:
    recipe = {
        "data": str(root / "photos"),
        "objective": "hwc+lam",
        "epochs": 2,
        "batch_size": 8,
        "image_size": 8,
        "encoder": "small-conv",
        "accelerator": "cpu",
        "val": 0.2,
        "seed": 3,
        "head": {"dim": 4, "layers": 2},
        "optimizer": {"lr": 0.001, "schedule": "cosine"},
        "hwc": {"temperature": 0.1, "alpha": 0.5},
        "schedules": {"weights.lam": [[0, 0.0], [1, 1.0]]},
        "term_weights": [1.0, 0.5],
    }
    (root / "recipe.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))
    study = root / "study"
    study.mkdir()
    (study / "supcon.yaml").write_text("objective: supcon\nsupcon: {temperature: 0.1}\n")
    content = {
        "title": "A study",
        "claim": "It is so.",
        "shared": {"data": str(root / "photos"), "epochs": 1, "image_size": 8},
        "seeds": [0, 1],
        "trial_seed": 0,
        "select": "val_map_at_r",
        "baselines": ["raw"],
        "evaluation": {"resamples": 50, "hp_k": 5},
        "columns": ["features/top1"],
        "grid": {"batch_size": [8, 16]},
        "methods": {
            "A": {
                "recipe": "supcon.yaml",
                "settings": {"supcon.temperature": 0.2},
                "trials": [{"optimizer.lr": 0.001}],
            },
            "B": {"settings": {"objective": "ce"}, "grid": False},
        },
        "paper": [{"source": "X", "data": "y", "column": "features/top1", "rows": {"B": 0.5}}],
    }
    (study / "study.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    row = {
        "method": "B",
        "settings": "x",
        "scores": {"features/top1": 0.5},
        "train_loss": [1.0],
        "train_seconds": 1.0,
    }
    rows = [row | {"seed": seed, "measure_seconds": 1.0} for seed in (0, 1)]
    rows += [row | {"seed": seed, "method": "A, batch_size = 8"} for seed in (0, 1)]
    (study / "results.json").write_text(json.dumps({"results": rows, "choices": {}, "trials": {"a": 0.5}}))


def _vectors(root: Path, rng: np.random.Generator) -> None:
    words = ["dog", "cat", "rose", "fern", "animal", "plant"]
    vectors = rng.normal(size=(6, 4))
    lines = [
        " ".join([word, *(f"{v:.3f}" for v in vector)]) for word, vector in zip(words, vectors, strict=True)
    ]
    (root / "vectors.txt").write_text("\n".join(lines) + "\n")
    np.savez(root / "vectors.npz", words=np.array(words), vectors=vectors)


def _named(root: Path) -> None:
    """Data sets in their official formats."""
    from scipy.io import savemat
    from test_cifar import write_10, write_100
    from test_fashion_mnist import write_idx
    from test_imagenet_32 import write_batches

    named = root / "named"
    write_idx(named / "fashion-mnist")
    write_10(named / "cifar-10")
    write_100(named / "cifar-100", "python.tar.gz")
    write_batches(named / "imagenet-32", "npz")
    cars = named / "cars-196"
    fields = ["relative_im_path", "bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "test"]
    records = []
    for number in range(8):
        name = f"car_ims/{number + 1:06}.jpg"
        (cars / "car_ims").mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 14), (30 * number, 9, 9)).save(cars / name)
        records.append((name, 3, 2, 12, 9, (1, 2, 174, 196)[number % 4], number // 4))
    names = np.array([[f"Maker Model {number}" for number in range(1, 197)]], dtype=object)
    annotations = np.array([records], dtype=[(field, "O") for field in fields])
    savemat(cars / "cars_annos.mat", {"annotations": annotations, "class_names": names})
    beer = "beer/beerId: 7\nreview/appearance: 4\nreview/aroma: 4.5\nreview/palate: 2.5\nreview/taste: 1\n"
    (named / "beeradvocate").mkdir()
    with gzip.open(named / "beeradvocate/beeradvocate.txt.gz", "wt") as file:
        file.writelines(f"{beer}review/overall: 3.5\nreview/text: good {number}\n\n" for number in range(20))
