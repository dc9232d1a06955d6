"""Ends a training without steps: an objective that is solved at once is, and the run is written."""

from __future__ import annotations

import copy
import time

import lightning as L
from torch import Tensor

from labeltree.errors import LabeltreeError
from labeltree.models import VectorEncoder, encoder_modality, merged_state
from labeltree.ridge.ridge_file import save_ridge
from labeltree.runs import RunFolder
from labeltree.training.checkpoints import VersionRecord
from labeltree.training.experiment import Experiment
from labeltree.training.features.frozen import encode_rows
from labeltree.training.module import RepresentationModule
from labeltree.training.recipe import Recipe
from labeltree.training.records.record import abandon_run

__all__ = ["save_network", "solve", "untrained_encoder"]


def untrained_encoder(recipe: Recipe) -> list[str]:
    """A warning if an objective that trains no encoder is given one that nobody has trained.

    Args:
        recipe: The resolved recipe.
    """
    if recipe.pretrained or recipe.weights is not None or encoder_modality(recipe.encoder) == "vector":
        return []
    return [
        f"encoder '{recipe.encoder}' has random weights, and objective '{recipe.objective}' trains none: "
        "take a pretrained --encoder, or the --weights of a run that has trained one"
    ]


def solve(trainer: L.Trainer, experiment: Experiment, folder: RunFolder, begun: bool) -> None:
    """Solve the objective of all training features, validate it, and write the weights and the history.

    Vectors are standardised by column if the folds are answered better so, and else left as they are.

    Args:
        trainer: The trainer, which validates.
        experiment: The experiment.
        folder: The run folder.
        begun: Whether the run is new; one that cannot be solved leaves nothing behind then.
    """
    start = time.monotonic()
    module, training = experiment.module, experiment.batches.training
    solver, groups = module.objective.solver, training.groups
    labels = training.nodes if training.label_sets is None else training.label_sets
    try:
        head, outputs = solver.solve(_training_features(experiment), labels, groups, module.recipe.seed)
        if isinstance(module.encoder, VectorEncoder):
            standardised = copy.deepcopy(module.encoder.state_dict())
            module.encoder.leave_as_they_are()
            plain, answers = solver.solve(_training_features(experiment), labels, groups, module.recipe.seed)
            if answers.log_loss <= outputs.log_loss:
                head, outputs = plain, answers
            else:
                module.encoder.load_state_dict(standardised)
                solver.take(head)
    except LabeltreeError:
        if begun:
            abandon_run(folder)
        raise
    save_ridge(head, folder.ridge)
    trainer.validate(module, datamodule=experiment.batches, verbose=False)
    metrics = trainer.callback_metrics
    row: dict[str, float | int] = {"epoch": 0, "step": 0, "folds_loss": outputs.log_loss}
    row |= {name: float(metrics[name]) for name in sorted(metrics) if name.startswith("val_")}
    folder.write_history([{**row, "seconds": round(time.monotonic() - start, 2)}])
    VersionRecord(folder).on_train_start(trainer, module)
    save_network(folder, module, 0)


def _training_features(experiment: Experiment) -> Tensor:
    rows, inputs = experiment.batches.training.rows, experiment.batches.inputs
    if experiment.module.reads_features:
        return inputs.load(rows)  # type: ignore[return-value]
    return encode_rows(experiment.network, experiment.source, inputs, rows, keep=False)


def save_network(folder: RunFolder, module: RepresentationModule, epoch: int) -> None:
    """Write the weights of the encoder and the objective as safetensors."""
    weights = {f"encoder.{k}": v for k, v in merged_state(module.evaluated_encoder).items()}
    weights |= {f"objective.{k}": v for k, v in module.objective.state_dict().items()}
    folder.save_weights(weights, epoch)
