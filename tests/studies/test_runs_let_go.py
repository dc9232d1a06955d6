"""A study's runs do not pile up in memory."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest
import yaml

from labeltree.studies import execute as studies
from labeltree.studies import run
from labeltree.training import fit
from labeltree.training.experiment import Experiment, prepare

pytestmark = pytest.mark.slow


def test_a_run_is_gone_when_the_next_begins(
    image_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[weakref.ref[Any]] = []
    alive: list[int] = []

    def watched(*args: Any, **kwargs: Any) -> Experiment:
        experiment = prepare(*args, **kwargs)
        held.append(weakref.ref(experiment.module))
        return experiment

    train = run.train

    def begins(*args: Any, **kwargs: Any) -> Any:
        alive.append(sum(module() is not None for module in held))
        return train(*args, **kwargs)

    monkeypatch.setattr(fit, "prepare", watched)
    monkeypatch.setattr(run, "train", begins)
    monkeypatch.setattr(studies, "measure_baselines", lambda *_: [])
    shared = {
        "data": str(image_folder),
        "epochs": 1,
        "batch_size": 9,
        "val": 0.2,
        "image_size": 28,
        "accelerator": "cpu",
    }
    methods = {"SupCon": {"settings": {"objective": "supcon"}, "trials": [{}, {"supcon.temperature": 0.5}]}}
    plan = {"title": "x", "shared": shared, "seeds": [0, 1], "trial_seed": 7, "methods": methods}
    file = tmp_path / "study.yaml"
    file.write_text(yaml.safe_dump({**plan, "select": "val_embeddings_ahp"}), "utf-8")
    gc.disable()  # the circles must not be found by chance
    try:
        studies.execute(file, jobs=1)
    finally:
        gc.enable()
    assert len(held) >= 4
    assert alive == [0, 0, 0, 0]
