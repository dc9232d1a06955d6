"""Lightning's loggers of a run: TensorBoard and MLflow, on disk, without a server or a network."""

from __future__ import annotations

import logging
import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from labeltree.atomic import atomic_write
from labeltree.training.recipe import Recipe

if TYPE_CHECKING:
    from lightning.pytorch.loggers import Logger

    from labeltree.runs import RunFolder

__all__ = ["check_logger", "open_logger"]

_MODULES = {"tensorboard": "tensorboard", "mlflow": "mlflow"}


def check_logger(recipe: Recipe) -> None:
    """Find out before training whether the recipe's logger is installed.

    Raises:
        ValueError: if it is not, with what installs it.
    """
    module = _MODULES.get(recipe.logger)
    if module is not None and find_spec(module) is None:
        raise ValueError(
            f"logger is '{recipe.logger}', which is not installed; 'pip install labeltree[{recipe.logger}]' "
            "installs it, or take logger 'none': history.csv in the run folder is written in any case"
        )


def open_logger(recipe: Recipe, folder: RunFolder, *, first_rank: bool) -> Logger | None:
    """The logger that a recipe names, or None; a run that goes on continues its log.

    Args:
        recipe: of the run.
        folder: of the run; the log is below it unless ``logger_folder`` names another place.
        first_rank: whether this process writes; of several devices one does.
    """
    if recipe.logger == "none":
        return None
    place = folder.logs if recipe.logger_folder is None else Path(recipe.logger_folder).expanduser()
    if recipe.logger == "tensorboard":
        from lightning.pytorch.loggers import TensorBoardLogger

        name = "" if recipe.logger_folder is None else folder.path.resolve().name
        return TensorBoardLogger(place, name=name, version="", default_hp_metric=False)
    # MLflow asks before it writes to files, and would report that it is used
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    logging.getLogger("lightning.pytorch.loggers.mlflow").setLevel(logging.ERROR)
    from lightning.pytorch.loggers import MLFlowLogger

    known = folder.mlflow_run.read_text("utf-8").strip() if folder.mlflow_run.is_file() else None
    logger = MLFlowLogger(
        experiment_name="labeltree",
        run_name=folder.path.resolve().name,
        tracking_uri=(place.resolve() / "mlflow").as_uri(),
        run_id=known,
    )
    if known is None and first_rank:
        logger.log_hyperparams(recipe.to_dict())
        with atomic_write(folder.mlflow_run) as temporary:
            temporary.write_text(f"{logger.run_id}\n", "utf-8")
    return logger
