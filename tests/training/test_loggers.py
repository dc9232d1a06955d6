"""Loggers by a setting: on disk, one log a run, also when it goes on; history.csv as ever."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from labeltree.training.fit import train
from labeltree.training.objective import Term
from labeltree.training.recipe import Recipe

pytestmark = pytest.mark.slow


def events(folder: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    found.Reload()
    return {tag: [(e.step, e.value) for e in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def interrupted(recipe: Recipe, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Train until the second epoch fails, then go on."""
    forward, calls = Term.forward, []

    def failing(self: Term, *args: object, **more: object) -> object:
        calls.append(1)
        if len(calls) == 8:
            raise RuntimeError("cut off")
        return forward(self, *args, **more)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Term, "forward", failing)
        with pytest.raises(RuntimeError, match="cut off"):
            train(recipe, folder, progress_bar=False)
    train(recipe, folder, progress_bar=False)


def test_tensorboard_has_what_the_history_has_and_goes_on(
    recipe_of: Callable[..., Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = recipe_of(logger="tensorboard", epochs=3)
    interrupted(recipe, tmp_path / "run", monkeypatch)
    from labeltree.runs import RunFolder

    folder = RunFolder(tmp_path / "run")
    rows = folder.read_history()
    assert len(rows) == 3
    logged = events(folder.logs)
    steps = [int(row["step"]) for row in rows]
    assert [step for step, _ in logged["train_loss"]] == steps
    assert [value for _, value in logged["train_loss"]] == pytest.approx([row["train_loss"] for row in rows])
    monitored = [value for _, value in logged["val_map_at_r"]]
    assert monitored == pytest.approx([row["val_map_at_r"] for row in rows])
    assert len(list(folder.logs.glob("events.*"))) == 2, "both parts of the training are in one folder"


def test_a_log_changes_nothing_of_the_training(recipe_of: Callable[..., Recipe], tmp_path: Path) -> None:
    plain = train(recipe_of(epochs=1), tmp_path / "plain", progress_bar=False)
    logged = train(
        recipe_of(epochs=1, logger="tensorboard", logger_folder=tmp_path / "board"),
        tmp_path / "logged",
        progress_bar=False,
    )
    weights, others = plain.load_weights(), logged.load_weights()
    assert weights.keys() == others.keys()
    assert all(torch.equal(weights[name], others[name]) for name in weights)
    assert not plain.logs.exists()
    assert not logged.logs.exists()
    assert events(tmp_path / "board" / "logged")["train_loss"]
    # it is a matter of carrying the run out: with another logger it is the same run
    assert train(recipe_of(epochs=1), tmp_path / "logged", progress_bar=False).path == logged.path


@pytest.mark.slow  # MLflow takes its time to import
def test_mlflow_goes_on_in_the_same_run(
    recipe_of: Callable[..., Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(recipe_of(logger="mlflow", epochs=3), tmp_path / "run", monkeypatch)
    from mlflow.tracking import MlflowClient

    from labeltree.runs import RunFolder

    folder = RunFolder(tmp_path / "run")
    client = MlflowClient((folder.logs / "mlflow").resolve().as_uri())
    (experiment,) = client.search_experiments(filter_string="name = 'labeltree'")
    (found,) = client.search_runs([experiment.experiment_id])
    assert found.info.run_id == folder.mlflow_run.read_text().strip()
    assert found.info.run_name == "run"
    assert found.data.params["objective"] == "supcon"
    assert found.data.params["optimizer/name"] == "adamw"
    history = client.get_metric_history(found.info.run_id, "train_loss")
    assert [entry.value for entry in history] == pytest.approx(
        [row["train_loss"] for row in folder.read_history()]
    )


@pytest.fixture
def wandb_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of Weights & Biases goes over a network, or into the caches of whoever runs the tests."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    for name in ("CACHE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"WANDB_{name}_DIR", str(tmp_path / "wandb-places" / name.lower()))


def wandb_records(folder: Path) -> dict[str, list[dict[str, str]]]:
    """The values and the settings in the files of Weights & Biases, the oldest file first, as JSON."""
    from wandb.proto.wandb_internal_pb2 import Record
    from wandb.sdk.internal.datastore import DataStore

    logged: dict[str, list[dict[str, str]]] = {"history": [], "run": []}
    for file in sorted(folder.rglob("*.wandb")):
        store = DataStore()
        store.open_for_scan(str(file))
        while (data := store.scan_data()) is not None:
            record = Record.FromString(data)
            kind = record.WhichOneof("record_type")
            if kind == "history":
                items = record.history.item
            elif kind == "run":
                items = record.run.config.update
            else:
                continue
            keys = ["/".join(item.nested_key) or item.key for item in items]
            logged[kind].append(dict(zip(keys, (item.value_json for item in items), strict=True)))
            if kind == "run":
                logged[kind][-1]["host"] = record.run.host
    return logged


@pytest.mark.slow  # a process of its own writes the files
@pytest.mark.long
@pytest.mark.usefixtures("wandb_offline")
def test_wandb_goes_on_in_the_same_run_without_an_account(
    recipe_of: Callable[..., Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WANDB_MODE")  # it is the default
    interrupted(recipe_of(logger="wandb", epochs=3), tmp_path / "run", monkeypatch)
    from labeltree.runs import RunFolder

    folder = RunFolder(tmp_path / "run").require()
    known = folder.wandb_run.read_text().strip()
    parts = sorted(path.name for path in (folder.logs / "wandb").iterdir())
    assert len(parts) == 2
    assert all(name.startswith("offline-run-") and f"-{known}" in name for name in parts)
    assert not [path for path in folder.path.rglob("*") if path.is_symlink()]
    logged = wandb_records(folder.logs)
    losses = [
        (row["trainer/global_step"], row["train_loss"]) for row in logged["history"] if "train_loss" in row
    ]
    rows = folder.read_history()
    assert [int(step) for step, _ in losses] == [int(row["step"]) for row in rows]
    assert [float(loss) for _, loss in losses] == pytest.approx([row["train_loss"] for row in rows])
    settings = {name: value for part in logged["run"] for name, value in part.items()}
    assert settings["objective"] == '"supcon"'
    assert {row["host"] for row in logged["run"]} == {"labeltree"}, "the machine is not named"


@pytest.mark.slow
@pytest.mark.usefixtures("wandb_offline")
def test_two_trainings_of_a_process_have_two_logs(
    recipe_of: Callable[..., Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setenv("LABELTREE_OFFLINE", "1")  # has the last word
    recipe = recipe_of(logger="wandb", epochs=1, logger_folder=tmp_path / "board")
    folders = [train(recipe, tmp_path / name, progress_bar=False) for name in ("one", "two")]
    ids = {folder.wandb_run.read_text().strip() for folder in folders}
    parts = [path.name for path in (tmp_path / "board" / "wandb").iterdir()]
    assert len(ids) == len(parts) == 2
    assert all(name.startswith("offline-run-") for name in parts)
    assert {name.split("-")[3] for name in parts} == ids


@pytest.mark.parametrize("name", ["tensorboard", "mlflow", "wandb"])
def test_a_logger_that_is_not_installed_is_said_before_training(
    name: str, recipe_of: Callable[..., Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labeltree.training.records.loggers.find_spec", lambda module: None)
    with pytest.raises(ValueError, match=rf"not installed; 'pip install labeltree\[{name}\]' installs it"):
        train(recipe_of(logger=name), tmp_path / "run", progress_bar=False)
    assert not (tmp_path / "run" / "recipe.yaml").exists()
    with pytest.raises(
        ValueError, match="logger_folder is there, which has no effect while logger is 'none'"
    ):
        recipe_of(logger_folder="there")
