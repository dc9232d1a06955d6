"""What is solved at once when training ends: an objective without steps, and the posterior space."""

from __future__ import annotations

import copy
import logging
import time

import lightning as L
import torch
from torch import Tensor

from labeltree.data import Source
from labeltree.errors import LabeltreeError
from labeltree.models import VectorEncoder, encoder_modality, merged_state
from labeltree.ridge.ridge_file import save_ridge
from labeltree.runs import RunFolder
from labeltree.taxonomy.check_nodes import moved_nodes
from labeltree.taxonomy.label_sets import finest_labels
from labeltree.training.experiment import Experiment
from labeltree.training.features.frozen import encode_rows
from labeltree.training.module import RepresentationModule
from labeltree.training.recipe import Recipe
from labeltree.training.records.record import abandon_run
from labeltree.training.records.version_record import VersionRecord

__all__ = ["add_posterior_space", "save_network", "solve", "untrained_encoder"]

_ROWS = 4096
_log = logging.getLogger("labeltree.training")


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
    module, seed = experiment.module, experiment.module.recipe.seed
    solver, training = module.objective.solver, experiment.batches.training
    assert solver is not None
    try:
        labels, groups = _labels(training), training.groups
        head, outputs = solver.solve(_features(experiment, training.rows), labels, groups, seed)
        if isinstance(module.encoder, VectorEncoder):
            standardised = copy.deepcopy(module.encoder.state_dict())
            module.encoder.leave_as_they_are()
            plain, answers = solver.solve(_features(experiment, training.rows), labels, groups, seed)
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
    if solver.nonlinear != "never":
        row |= {"fourier_features": solver.num_fourier_features}
    row |= {name: float(metrics[name]) for name in sorted(metrics) if name.startswith("val_")}
    folder.write_history([{**row, "seconds": round(time.monotonic() - start, 2)}])
    VersionRecord(folder).on_train_start(trainer, module)
    save_network(folder, module, 0)


def add_posterior_space(experiment: Experiment, folder: RunFolder) -> None:
    """Solve the posterior space of trained features, and keep its sums.

    If the encoder or an adapter was trained on the training samples, validation samples choose λ and
    calibrate: folds of the others would be far too certain.

    Args:
        experiment: The experiment, with the weights that are kept.
        folder: The run folder.
    """
    module, training = experiment.module, experiment.batches.training
    solver = module.objective.add_posterior_space().to(module.device)
    held = None
    if module.recipe.trainable != "head" or module.recipe.adapter is not None:
        validation = experiment.source.of_split("val")
        nodes = moved_nodes(_labels(validation), experiment.labels.to_training)
        if bool(finest_labels(training.every_label, training.taxonomy)[nodes.clamp_min(0)][nodes > 0].any()):
            held = _features(experiment, validation.rows), nodes
        else:
            _log.warning(
                "no validation sample has a class, so the posterior space is calibrated by folds of the "
                "samples that the encoder was trained on: it is too certain"
            )
    features = _features(experiment, training.rows)
    head, _ = solver.solve(features, _labels(training), training.groups, module.recipe.seed, held)
    save_ridge(head, folder.ridge)


def _labels(source: Source) -> Tensor:
    return source.nodes if source.label_sets is None else source.label_sets


def _features(experiment: Experiment, rows: Tensor) -> Tensor:
    """Features `(n, f)` of rows of the source."""
    network, inputs = experiment.network, experiment.batches.inputs
    below = (
        inputs.load(rows)
        if experiment.module.reads_features
        else encode_rows(network, experiment.source, inputs, rows, keep=False)
    )
    assert isinstance(below, Tensor)
    with torch.inference_mode():
        parts = torch.split(below, _ROWS)
        features = [network.encoder.adapt(part.to(network.device)).float().cpu() for part in parts]
    return torch.cat(features).clone()  # tensors made in inference mode cannot be changed


def save_network(folder: RunFolder, module: RepresentationModule, epoch: int) -> None:
    """Write the weights of the encoder and the objective as safetensors."""
    weights = {f"encoder.{k}": v for k, v in merged_state(module.evaluated_encoder).items()}
    weights |= {f"objective.{k}": v for k, v in module.objective.state_dict().items()}
    folder.save_weights(weights, epoch)
