"""What a run folder says of the versions, the device and the samples of its training; violations by epoch."""

import json
import platform
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from lightning.pytorch.callbacks import Callback

from labeltree.geometry import Sphere
from labeltree.metrics.functional import class_prototypes, pair_violations, parent_violations
from labeltree.runs import RunFolder
from labeltree.taxonomy import Taxonomy
from labeltree.training.fit import train
from labeltree.training.module import violations
from labeltree.training.recipe import Recipe

pytestmark = pytest.mark.slow


class StopAt(Callback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_end(self, trainer: object, *_: object) -> None:
        if trainer.global_step == self.step:  # type: ignore[attr-defined]
            raise RuntimeError("the power fails")


def test_every_beginning_is_recorded(tmp_path: Path, recipe_of: Callable[..., Recipe]) -> None:
    recipe, folder = recipe_of("hwc+lam"), RunFolder(tmp_path / "run")
    with pytest.raises(RuntimeError, match="power"):
        train(recipe, folder.path, progress_bar=False, every_n_steps=2, callbacks=[StopAt(3)])
    train(recipe, folder.path, progress_bar=False)
    train(recipe, folder.path, progress_bar=False)  # it has finished: nothing is trained

    first, second = folder.read_versions()
    assert (first["epoch"], first["step"], second["epoch"], second["step"]) == (0, 0, 0, 2)
    assert {k: v for k, v in first.items() if k not in ("began", "step")} == {
        k: v for k, v in second.items() if k not in ("began", "step")
    }
    assert first["python"] == platform.python_version()
    assert first["torch"] == torch.__version__
    assert first["device"].startswith("CPU (")
    assert (first["devices"], first["threads"]) == (1, torch.get_num_threads())
    assert first["precision"] == "32-true"
    text = folder.versions.read_text()
    for private in (socket.gethostname(), str(Path.home()), str(tmp_path), str(Path.cwd())):
        assert private not in text


def test_the_digest_is_that_of_the_samples(tmp_path: Path, recipe_of: Callable[..., Recipe]) -> None:
    def digest(name: str, **settings: int) -> str:
        folder = train(recipe_of(epochs=1, **settings), tmp_path / name, progress_bar=False)
        return str(folder.read_versions()[0]["samples"])

    assert digest("one") == digest("same", batch_size=12)
    assert digest("one") != digest("fewer", limit=40)


def test_a_failed_first_step_leaves_no_record(tmp_path: Path, recipe_of: Callable[..., Recipe]) -> None:
    with pytest.raises(RuntimeError, match="power"):
        train(recipe_of(), tmp_path / "run", progress_bar=False, callbacks=[StopAt(1)])
    assert not RunFolder(tmp_path / "run").versions.exists()


def test_a_folder_without_or_with_a_damaged_record(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.read_versions() == []
    folder.versions.write_text("{")
    assert folder.read_versions() == []
    folder.add_versions({"python": "3"})
    assert json.loads(folder.versions.read_text()) == {"trained": [{"python": "3"}]}


def test_the_history_has_violations(tmp_path: Path, recipe_of: Callable[..., Recipe]) -> None:
    rows = train(recipe_of("hwc+lam"), tmp_path / "run", progress_bar=False).read_history()
    assert len(rows) == 2
    for row in rows:
        assert 0 <= row["val_embeddings_pair_violations"] <= 1
        assert 0 <= row["val_embeddings_parent_violations"] <= 1


def test_violations_are_those_of_the_metrics() -> None:
    taxonomy = Taxonomy.from_paths([("a", "x"), ("a", "y"), ("b", "z"), ("b", "w")])
    nodes = torch.cat([taxonomy.leaves.repeat(6), torch.tensor([-1, -1])])
    points = torch.randn(26, 5, generator=torch.Generator().manual_seed(0))
    known = nodes >= 0
    prototypes = class_prototypes(points[known], nodes[known], taxonomy)
    found = violations(points, nodes, taxonomy, Sphere())
    assert found["pair_violations"] == float(pair_violations(points, nodes, taxonomy))
    assert found["parent_violations"] == float(parent_violations(points, nodes, taxonomy, prototypes))
    empty = violations(points[-2:], nodes[-2:], taxonomy, Sphere())
    assert all(value != value for value in empty.values())
