"""TensorBoard and MLflow by a setting: on disk, one log a run, also when it goes on; history.csv as ever."""

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


@pytest.mark.parametrize("name", ["tensorboard", "mlflow"])
def test_a_logger_that_is_not_installed_is_said_before_training(
    name: str, recipe_of: Callable[..., Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labeltree.training.fit.find_spec", lambda module: None)
    with pytest.raises(ValueError, match=rf"not installed; 'pip install labeltree\[{name}\]' installs it"):
        train(recipe_of(logger=name), tmp_path / "run", progress_bar=False)
    assert not (tmp_path / "run" / "recipe.yaml").exists()
    with pytest.raises(
        ValueError, match="logger_folder is there, which has no effect while logger is 'none'"
    ):
        recipe_of(logger_folder="there")
