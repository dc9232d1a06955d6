"""The space that is searched: the embeddings, unless features are clearly better."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import labeltree as lt
from labeltree.cli.main import main
from labeltree.decisions.classifiers import ChosenClassifier
from labeltree.decisions.searched_space import SearchedSpace, choose_space
from labeltree.evaluation import EvaluationResult
from labeltree.index import Index
from labeltree.index.reading import index_run
from labeltree.inference.model import Model
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["a/x", "a/y", "b/z", "b/w"])


def table_of(noise_of_embeddings: float, noise_of_features: float, n: int = 120) -> EmbeddingTable:
    draw = torch.Generator().manual_seed(0)
    nodes = TREE.leaves[torch.arange(n) % 4]
    centres = torch.eye(4)[torch.arange(n) % 4]
    embeddings, features = (
        centres + noise * torch.randn(n, 4, generator=draw)
        for noise in (noise_of_embeddings, noise_of_features)
    )
    return EmbeddingTable(embeddings=embeddings, features=features, nodes=nodes)


@pytest.mark.parametrize(
    ("noises", "name"),
    [
        ((1.0, 0.1), "features"),
        ((0.1, 1.0), "embeddings"),
        ((0.1, 0.1), "embeddings"),
        ((0.6, 0.57), "embeddings"),
    ],
)
def test_features_only_where_they_are_clearly_better(noises: tuple[float, float], name: str) -> None:
    rows = torch.arange(120)
    space = choose_space(table_of(*noises), TREE, learned=rows[:60], held=rows[60:])
    assert space.name == name
    assert space.samples == 60
    assert set(space.hierarchical_f1) == {"embeddings", "features"}
    assert bool(space.sentence) == (name == "features")


def test_nothing_to_choose_by() -> None:
    table, none = table_of(1.0, 0.1), torch.arange(0)
    for rows in ({"learned": torch.arange(60), "held": none}, {"learned": none, "held": torch.arange(60)}):
        assert choose_space(table, TREE, **rows) == SearchedSpace()
    alone = EmbeddingTable(embeddings=table.embeddings, nodes=table.nodes)
    assert choose_space(alone, TREE, learned=torch.arange(60), held=torch.arange(60, 120)) == SearchedSpace()


def test_the_choice_is_kept_and_a_damaged_one_refused() -> None:
    space = SearchedSpace("features", {"embeddings": 0.5, "features": 0.75}, 20)
    chosen = ChosenClassifier("probe", space=space)
    content = json.loads(json.dumps(chosen.to_dict()))
    assert ChosenClassifier.from_dict(content) == chosen
    assert "space" not in ChosenClassifier("probe").to_dict()
    damaged = ({"name": "pixels"}, {"hierarchical_f1": {}}, {"samples": "many"}, {"hierarchical_f1": [1]})
    for wrong in damaged:
        with pytest.raises(ValueError, match="no searched space"):
            ChosenClassifier.from_dict({**content, "space": {**content["space"], **wrong}})


@pytest.mark.slow
def test_index_search_and_report_use_the_features(
    tmp_path: Path, make_image_folder: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    photos = make_image_folder(tmp_path / "photos")
    settings = {"epochs": 1, "batch_size": 16, "image_size": 16, "val": 0.2, "test": 0.2}
    trained = lt.train(
        photos,
        "hwc",
        out=tmp_path / "run",
        encoder="small-conv",
        accelerator="cpu",
        progress_bar=False,
        **settings,
    )
    folder = RunFolder(trained.path)
    assert main(["calibrate", str(folder.path)]) == 0
    content = json.loads(folder.chosen_classifier.read_text())
    content["classifier"]["space"] = {
        "name": "features", "hierarchical_f1": {"embeddings": 0.5, "features": 0.75}, "samples": 20
    }  # fmt: skip
    folder.chosen_classifier.write_text(json.dumps(content))

    index = index_run(folder.path)
    model = Model(folder.path)
    picture = next(photos.rglob("*.png"))
    table = model.embed([picture])
    assert table.features is not None
    assert index.info().vectors == "features"
    assert index.settings.dim == table.features.shape[1] != table.embeddings.shape[1]
    hit = index.search_images([picture], k=1)[0]
    assert Path(hit.ids[0]).name == picture.name
    assert hit.distances[0] == pytest.approx(0, abs=1e-5)
    capsys.readouterr()
    assert main(["search", str(folder.path), str(picture)]) == 0
    assert picture.name in capsys.readouterr().out
    assert main(["index", str(index.where)]) == 0
    assert "features of the encoder" in capsys.readouterr().out

    model.embed([picture]).save(tmp_path / "more.npz", index.taxonomy)
    alone = {"embeddings": np.ones((1, 4), np.float32), "ids": np.array(["alone"]), "labels": np.array([""])}
    np.savez(tmp_path / "alone.npz", **alone)
    assert main(["index", str(index.where), "--add", str(tmp_path / "more.npz")]) == 0
    assert main(["index", str(index.where), "--add", str(tmp_path / "alone.npz")]) == 2
    assert "has only embeddings" in capsys.readouterr().err
    assert Index.open(index.where).info().size == index.info().size

    assert main(["evaluate", str(folder.path)]) == 0
    assert "Search uses the encoder's features" in capsys.readouterr().out
    result = EvaluationResult.from_dict(json.loads(folder.metrics.read_text()))
    assert result.main.classifier.space.name == "features"
    page = folder.report.read_text("utf-8")
    assert "Search uses the encoder" in page
