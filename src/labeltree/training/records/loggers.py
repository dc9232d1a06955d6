"""Loggers of Lightning that a recipe can name; they write to disk, and a continued run continues its log."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeltree.atomic import atomic_write
from labeltree.offline import offline
from labeltree.runs import RunFolder
from labeltree.training.recipe import Recipe
from labeltree.training.records.record import is_first_rank

if TYPE_CHECKING:
    from lightning.pytorch.loggers import Logger

__all__ = ["check_logger", "logger_of_run"]

_PACKAGES = ("tensorboard", "mlflow", "wandb")
_PROJECT = "labeltree"


def check_logger(recipe: Recipe) -> None:
    """Check before training that the recipe's logger is installed."""
    if recipe.logger in _PACKAGES and find_spec(recipe.logger) is None:
        raise ValueError(
            f"logger is '{recipe.logger}', which is not installed; 'pip install labeltree[{recipe.logger}]' "
            "installs it, or take logger 'none': history.csv in the run folder is written in any case"
        )


@contextmanager
def logger_of_run(recipe: Recipe, folder: RunFolder) -> Iterator[Logger | None]:
    """The recipe's Lightning logger, which writes to disk without a server; a resumed run appends to it.

    Its log ends with the block, also if the training fails: else the next one would go into the same log.
    """
    place = folder.logs if recipe.logger_folder is None else Path(recipe.logger_folder).expanduser()
    if recipe.logger == "none":
        yield None
    elif recipe.logger == "tensorboard":
        from lightning.pytorch.loggers import TensorBoardLogger

        name = "" if recipe.logger_folder is None else folder.path.resolve().name
        yield TensorBoardLogger(place, name=name, version="", default_hp_metric=False)
    elif recipe.logger == "mlflow":
        yield _open_mlflow(recipe, folder, place)
    else:
        with _wandb_logger(recipe, folder, place) as logger:
            yield logger


def _open_mlflow(recipe: Recipe, folder: RunFolder, place: Path) -> Logger:
    # by default MLflow asks before it writes to files, and sends usage reports
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    logging.getLogger("lightning.pytorch.loggers.mlflow").setLevel(logging.ERROR)
    from lightning.pytorch.loggers import MLFlowLogger

    known = _known_id(folder.mlflow_run)
    logger = MLFlowLogger(
        experiment_name=_PROJECT,
        run_name=folder.path.resolve().name,
        tracking_uri=(place.resolve() / "mlflow").as_uri(),
        run_id=known,
    )
    if known is None and is_first_rank():
        logger.log_hyperparams(recipe.to_dict())
        _keep_id(folder.mlflow_run, str(logger.run_id))
    return logger


@contextmanager
def _wandb_logger(recipe: Recipe, folder: RunFolder, place: Path) -> Iterator[Logger]:
    """Weights & Biases: to files alone, unless `WANDB_MODE` says that they are sent while it trains."""
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # by default it reports its crashes
    from lightning.pytorch.loggers import WandbLogger

    mode = "offline" if offline() else os.environ.get("WANDB_MODE") or "offline"
    name, known = folder.path.resolve().name, _known_id(folder.wandb_run)
    if known is None:
        known = secrets.token_hex(4)
        if is_first_rank():
            _keep_id(folder.wandb_run, known)
    if not is_first_rank():
        yield WandbLogger(name=name, save_dir=place, version=known)  # which logs nothing there
        return
    place.mkdir(parents=True, exist_ok=True)
    run = _begin_wandb(recipe, place, name, known, mode)
    try:
        yield WandbLogger(name=name, save_dir=place, version=known, experiment=run)
    finally:
        run.finish()
        _drop_links(place / "wandb", known)


def _begin_wandb(recipe: Recipe, place: Path, name: str, known: str, mode: Any) -> Any:
    """A part of the log of a run: what labeltree logs, and no console, source code, packages or machine."""
    import wandb

    run = wandb.init(
        config=recipe.to_dict(),
        dir=place,
        id=known,
        mode=mode,
        name=name,
        project=os.environ.get("WANDB_PROJECT") or _PROJECT,
        reinit="create_new",
        resume=None if mode == "offline" else "allow",  # its parts are put together when they are sent
        settings=wandb.Settings(
            console="off",
            disable_code=True,
            disable_git=True,
            host=_PROJECT,
            save_code=False,
            silent=mode == "offline",
            symlink=False,
            x_disable_machine_info=True,
            x_disable_meta=True,
            x_save_requirements=False,
        ),
    )
    run.define_metric("trainer/global_step")
    run.define_metric("*", step_metric="trainer/global_step", step_sync=True)
    _drop_links(place / "wandb", known)
    return run


def _drop_links(folder: Path, run: str) -> None:
    """Remove links to logs of Weights & Biases in the user's cache: a run folder holds no links."""
    for part in folder.glob(f"*-{run}*"):
        for path in part.rglob("*"):
            if path.is_symlink():
                path.unlink(missing_ok=True)


def _known_id(file: Path) -> str | None:
    return (file.read_text("utf-8").strip() or None) if file.is_file() else None


def _keep_id(file: Path, name: str) -> None:
    with atomic_write(file) as temporary:
        temporary.write_text(f"{name}\n", "utf-8")
