"""The run folder and atomic writes."""

import json
import math
from pathlib import Path

import pytest
import torch

from labeltree.atomic import atomic_write
from labeltree.errors import RunError
from labeltree.runs import RunFolder


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "file.txt"
    with atomic_write(target) as temporary:
        temporary.write_text("old")

    def fail_half_way() -> None:
        with atomic_write(target) as temporary:
            temporary.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()
    assert target.read_text() == "old"
    assert [p.name for p in target.parent.iterdir()] == ["file.txt"]
    assert target.stat().st_mode & 0o444 == 0o444


def test_json_has_no_nan(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_json(
        folder.metrics, {"a": math.nan, "b": [1.5, -math.inf], "c": {"d": torch.tensor([1.0, math.nan])}}
    )
    assert json.loads(folder.metrics.read_text()) == {"a": None, "b": [1.5, None], "c": {"d": [1.0, None]}}


def test_history_round_trip(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.read_history() == []
    folder.write_history(
        [{"epoch": 0, "train_loss": 0.1 + 0.2}, {"epoch": 1, "train_loss": 1e-17, "val_ahp": 0.5}]
    )
    assert folder.read_history() == [
        {"epoch": 0.0, "train_loss": 0.1 + 0.2},
        {"epoch": 1.0, "train_loss": 1e-17, "val_ahp": 0.5},
    ]


def test_weights_round_trip(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    state = {
        "a": torch.randn(3, 4),
        "b": torch.arange(5),
        "c": torch.randn(4, 3, 2, 2).to(memory_format=torch.channels_last),
    }
    folder.save_weights(state, {"epoch": "3"})
    again = folder.load_weights()
    assert again.keys() == state.keys()
    assert all(torch.equal(again[name], state[name]) for name in state)


def test_missing_parts_are_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="the folder does not exist"):
        RunFolder(tmp_path / "none").require()
    (tmp_path / "photos").mkdir()
    with pytest.raises(RunError, match=r"does not exist; did you mean '.*photos'"):
        RunFolder(tmp_path / "phtos").require()
    with pytest.raises(RunError, match=r"has no recipe\.yaml"):
        RunFolder(tmp_path).require()
    with pytest.raises(RunError, match="has not finished"):
        RunFolder(tmp_path).load_weights()
    with pytest.raises(RunError, match=r"no taxonomy\.json"):
        RunFolder(tmp_path).load_taxonomy()
