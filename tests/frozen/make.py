"""Make the frozen files of a version: `python tests/frozen/make.py`, once for each released version.

A run, its evaluation, tables of embeddings and an export, all of generated images, and what they answer. They
are committed and never made again: `test_frozen.py` opens those of every version with the present one.
"""

import contextlib
import json
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
from PIL import Image
from tiny_encoder import NAME, image, register

import labeltree as lt

LEAVES = ("warm/red", "warm/orange", "cold/blue", "cold/sky")


def main() -> None:
    register()
    target = Path(__file__).resolve().parent / version("labeltree")
    with tempfile.TemporaryDirectory() as home, contextlib.chdir(home):
        photos = Path("colours")
        for leaf, name in enumerate(LEAVES):
            (photos / name).mkdir(parents=True)
            for number in range(24):
                Image.fromarray(image(leaf, number)).save(photos / name / f"{number}.png")
        run = lt.train(
            photos, "hwc+lam", out="run", encoder=NAME, epochs=3, batch_size=16, val=0.4,
            head={"dim": 4, "hidden": 8}, optimizer={"lr": 0.02}, accelerator="cpu", progress_bar=False,
            classifier="probe", seed=1,
        )  # fmt: skip
        top1 = lt.evaluate(run, resamples=50).result.main.answer_score("top1")
        model = lt.load(run)
        exported = model.export("exported")
        files = [photos / name / "0.png" for name in LEAVES]
        table = model.embed(files)
        assert table.features is not None
        found = model.predict(files, coverage=0.8)
        for suffix in (".npz", ".parquet"):
            table.save(f"table{suffix}")
        target.mkdir()
        run.best_checkpoint.unlink()
        for unused in ("report.html", ".lock"):
            (run.path / unused).unlink(missing_ok=True)
        shutil.rmtree(run.path / "embeddings")
        for file in (run.recipe, run.description):  # no place of the machine that made them
            file.write_text(file.read_text("utf-8").replace(str(photos.resolve()), "colours"), "utf-8")
        shutil.copytree(run.path, target / "run")
        shutil.copytree(exported, target / "exported")
        for suffix in (".npz", ".parquet"):
            shutil.copyfile(f"table{suffix}", target / f"table{suffix}")
        images = np.stack([np.asarray(Image.open(file)) for file in files])
        np.savez_compressed(target / "images.npz", images=images)
    expected = {
        "digest": model.digest,
        "answers": found.answers.nodes.tolist(),
        "probabilities": found.answers.probabilities.tolist(),
        "embeddings": table.embeddings.tolist(),
        "features": table.features.tolist(),
        "top1": top1,
    }
    (target / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
