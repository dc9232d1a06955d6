"""The commands that an evaluation proposes, and what they are said to be for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from PIL import Image

from labeltree.data.images import image_files
from labeltree.options.evaluation import EvaluateOptions
from labeltree.report.next_steps import predict_step, steps_after_run
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([("a", "x"), ("a", "y"), ("b",)])


def steps_of(nodes: list[int], files: list[str] | None = None) -> dict[str, str]:
    """The steps of a run of so many samples, by command."""
    source = SimpleNamespace(nodes=torch.tensor(nodes), files=files, look=None)
    shape = None if files is None else (3, 32, 32)
    run: Any = SimpleNamespace(
        source=source, taxonomy=TREE, network=SimpleNamespace(image_shape=shape), recipe=None
    )
    return {step.command: step.purpose for step in steps_after_run(run, EvaluateOptions("runs/r"))}


def test_samples_without_a_finest_label_are_counted_in_words() -> None:
    leaf = int(TREE.leaves[0])
    assert "labeltree label-next runs/r" not in steps_of([leaf])
    assert steps_of([leaf, -1])["labeltree label-next runs/r"] == "the sample without a finest label"
    said = steps_of([leaf, -1, 1])["labeltree label-next runs/r"]
    assert said == "which of 2 samples without a finest label to label first"


def test_few_pictures_are_looked_at(tmp_path: Any, monkeypatch: Any) -> None:
    Image.new("RGB", (100, 80)).save(tmp_path / "a.png")
    read: list[bytes] = []
    real = image_files.read_head
    monkeypatch.setattr(image_files, "read_head", lambda data: read.append(data) or real(data))
    steps = steps_of([1] * 500, [str(tmp_path / "a.png")] * 500)
    assert any("--image_size 64" in command for command in steps)
    assert 0 < len(read) <= 50


def test_new_samples_are_answered_on_the_version_that_was_measured() -> None:
    assert predict_step(EvaluateOptions("runs/r")).command == "labeltree predict runs/r SAMPLES"
    newer = EvaluateOptions("runs/r", "new tree.obo", mapping="map.yaml")
    said = 'labeltree predict runs/r SAMPLES --taxonomy "new tree.obo" --mapping map.yaml'
    assert predict_step(newer).command == said
