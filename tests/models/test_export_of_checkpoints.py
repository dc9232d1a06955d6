"""Encoders from checkpoints on this disk are exported as others are, and their place does not leave."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import labeltree as lt
from exported_script import load_exported_script
from sweeps import some_now
from tiny_checkpoints import write_open_clip, write_timm, write_transformers

pytestmark = pytest.mark.slow

KINDS = ["dinov2", "dinov3", "clip", "siglip", "resnet", "mae"]
CASES = some_now(
    [
        ("open_clip", "lora"),
        *((f"transformers:{kind}", "head") for kind in KINDS),
        ("transformers:vit", "lora"),
        ("timm", "lora"),
    ]
)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory, make_image_folder: Callable[..., Path]) -> Path:
    return make_image_folder(tmp_path_factory.mktemp("photos") / "photos", per_leaf=16)


@pytest.mark.parametrize(("encoder", "trainable"), CASES)
@pytest.mark.long
def test_checkpoints(
    encoder: str, trainable: str, photos: Path, tmp_path: Path, make_image_folder: Callable[..., Path]
) -> None:
    library, _, kind = encoder.partition(":")
    place = tmp_path / "checkpoint-of-ward-7"
    {"transformers": lambda: write_transformers(place, kind), "open_clip": lambda: write_open_clip(place),
     "timm": lambda: write_timm(place)}[library]()  # fmt: skip
    run = lt.train(
        photos, "ce", out=tmp_path / "run", encoder=f"{library}:{place}", trainable=trainable, epochs=1,
        batch_size=32, val=0.4, accelerator="cpu", classifier="own", progress_bar=False,
    )  # fmt: skip
    shutil.rmtree(place)
    model = lt.load(run)
    folder = model.export(tmp_path / "model")
    new = sorted(make_image_folder(tmp_path / "new", 2, seed=5).rglob("*.png"))
    ours = json.loads(model.predict(new, coverage=0.8).text("json"))["answers"]
    script = load_exported_script(folder)
    theirs = script.predict([str(file) for file in new], 0.8)
    assert [row["answer"] for row in theirs] == [row["answer"] for row in ours]
    assert [row["probability"] for row in theirs] == pytest.approx(
        [row["probability"] for row in ours], abs=1e-4
    )
    features = model.embed(new[:3]).features
    inputs = {"inputs": np.stack([script.read(Image.open(file)) for file in new[:3]])}
    (found,) = script.SESSION.run(["features"], inputs)
    torch.testing.assert_close(torch.from_numpy(found), features, rtol=1e-3, atol=1e-4)
    again = lt.load(folder)
    torch.testing.assert_close(again.embed(new[:3]).features, features)
    torch.testing.assert_close(again.embed(new).embeddings, model.embed(new).embeddings)
    assert again.digest == model.digest
    for file in folder.rglob("*"):
        assert file.is_dir() or not {b"ward-7", str(tmp_path).encode()} & {
            word for word in (b"ward-7", str(tmp_path).encode()) if word in file.read_bytes()
        }, file
