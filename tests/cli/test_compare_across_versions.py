"""``labeltree compare`` of runs whose taxonomies differ: on one of them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import labeltree as lt
from labeltree.cli.main import main
from labeltree.taxonomy import Taxonomy, TaxonomyMapping

SETTINGS: dict[str, Any] = {"epochs": 1, "batch_size": 16, "encoder": "small-conv", "accelerator": "cpu"}


@pytest.mark.slow
@pytest.mark.long
def test_runs_of_two_versions(
    tmp_path: Path, make_image_folder: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    photos = make_image_folder(tmp_path / "photos", per_leaf=15)
    more: dict[str, Any] = {"image_size": 28, "test": 0.3, "progress_bar": False}
    first = lt.train(photos, "ce", out=tmp_path / "first", **SETTINGS, **more)
    old = first.load_taxonomy()
    new = Taxonomy.from_paths(["animal/dog/hound", "animal/cat/tabby", "plant/rose", "plant/fern"])
    targets = [
        [new.find("hound")] if old.names[node] in ("poodle", "beagle") else [new.find(old.path_name(node))]
        for node in range(old.num_nodes)
    ]
    new.save(tmp_path / "new.yaml")
    mapping = tmp_path / "map.yaml"
    TaxonomyMapping(old, new, targets).save(mapping)
    given: dict[str, Any] = {"taxonomy": str(tmp_path / "new.yaml"), "mapping": str(mapping)}
    second = lt.train(photos, "supcon", out=tmp_path / "second", **SETTINGS, **more, **given)
    lt.evaluate(first, resamples=0)
    lt.evaluate(second, resamples=0)
    runs = ["compare", str(first.path), str(second.path), "--out", str(tmp_path / "found"), "--quiet"]
    runs += ["--metrics", "top1", "--resamples", "20", "--permutations", "20"]
    assert main(runs) != 0
    assert "--taxonomy FILE" in capsys.readouterr().err
    words = ["--taxonomy", given["taxonomy"], "--mapping", f"{first.path}={mapping}"]
    assert main([*runs, *words[:-1], f"first={mapping}"]) == 0  # by its name
    content = json.loads((tmp_path / "found" / "comparison.json").read_text("utf-8"))
    assert "first" in json.dumps(content)
    assert (first.path / "on-new" / "outcomes.npz").is_file()
    assert not (second.path / "on-new").exists()
    capsys.readouterr()
    twice = ["compare", str(first.path), str(first.path / "on-new"), *runs[3:]]
    assert main([*twice, *words]) != 0
    assert "are the same result" in capsys.readouterr().err
    assert main([*runs, *words[2:]]) != 0
    assert main([*runs, "--taxonomy", given["taxonomy"], "--mapping", f"elsewhere={mapping}"]) != 0
    assert "'elsewhere', which is not compared; these are: 'first', 'second'" in capsys.readouterr().err


def test_a_mapping_is_of_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "a", "b", "--taxonomy", "t.yaml", "--mapping", "map.yaml"]) != 0
    assert "expected RUN=FILE" in capsys.readouterr().err
