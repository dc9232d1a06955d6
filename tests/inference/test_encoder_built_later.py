"""Where all features of a run are known, its encoder is built when something is embedded, or never."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import labeltree as lt
from labeltree.cli.main import main
from labeltree.errors import RunError
from labeltree.inference.load_run import load_run
from labeltree.inference.run_embeddings import run_tables
from labeltree.runs import RunFolder
from labeltree.training import network

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, make_image_folder: Callable[..., Path]) -> RunFolder:
    home = tmp_path_factory.mktemp("later")
    data = make_image_folder(home / "photos", per_leaf=8)
    path = lt.train(
        data, "hwc", out=home / "run", encoder="small-conv", epochs=1, accelerator="cpu", progress_bar=False
    ).path
    assert main(["evaluate", str(path), "--quiet"]) == 0
    return RunFolder(path)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The encoders that are built."""
    names, plain = [], network.build_encoder

    def build(name: str, **options: object) -> object:
        names.append(name)
        return plain(name, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(network, "build_encoder", build)
    return names


def test_an_evaluation_from_kept_tables_builds_none(run: RunFolder, built: list[str]) -> None:
    before = run.metrics.read_text("utf-8")
    assert main(["evaluate", str(run.path), "--quiet"]) == 0
    assert not built
    assert run.metrics.read_text("utf-8") == before


def test_it_is_built_once_with_its_weights(run: RunFolder, built: list[str]) -> None:
    later, now = load_run(run.path, encoder="later"), load_run(run.path)
    assert built == ["small-conv"]
    images = later.source.store.load(later.source.rows[:5])  # type: ignore[union-attr]
    with torch.inference_mode():
        found = [one.network(one.network.plain(images)) for one in (later, later, now)]
    assert built == ["small-conv"] * 2
    for ours, theirs in zip(found[0], found[2], strict=True):
        assert torch.equal(ours, theirs)
    assert not later.network.encoder.training
    assert later.network.state_dict().keys() == now.network.state_dict().keys()
    assert later.network.feature_dim == now.network.feature_dim == found[0][0].shape[1]


def test_damaged_weights_are_refused_when_it_is_built(run: RunFolder, built: list[str]) -> None:
    weights = load_file(run.encoder)
    kept = run.encoder.read_bytes()
    try:
        save_file(
            {key: value for key, value in weights.items() if not re.match("encoder.*bias", key)}, run.encoder
        )
        with pytest.raises(RunError, match="are not those of its recipe"):
            run_tables(run.path)  # other weights than those of the tables
    finally:
        run.encoder.write_bytes(kept)
