"""`sgd-probe`: the linear probe as in most papers, trained by a fixed number of epochs of SGD."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from labeltree.evaluation.fitted_probe import standardized
from labeltree.evaluation.protocol_registry import Inputs, ProtocolResult, register
from labeltree.metrics.probe_by_sgd import Schedule, SGDProbe
from labeltree.progress import Progress

__all__ = ["SGDProbeOptions", "sgd_probe"]


@dataclass(frozen=True)
class SGDProbeOptions:
    """Options of `sgd_probe`; see `labeltree.metrics.SGDProbe`.

    Attributes:
        roles: Representations to read: `features`, `embeddings` or both.
        epochs: Number of passes over the training samples.
        batch_size: Number of samples in a batch.
        learning_rate: Initial learning rate.
        momentum: Momentum of SGD.
        weight_decay: Weight decay of the weights.
        schedule: Schedule of the learning rate, `constant` or `cosine`.
        balanced: Whether all classes have the same weight in the loss.
    """

    roles: tuple[str, ...] = ("features",)
    epochs: int = 40
    batch_size: int = 512
    learning_rate: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 0.0
    schedule: Schedule = "constant"
    balanced: bool = False

    def __post_init__(self) -> None:
        self.probe(0)

    def probe(self, seed: int) -> SGDProbe:
        """An untrained probe with these options."""
        return SGDProbe(
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            schedule=self.schedule,
            balanced=self.balanced,
            seed=seed,
        )


@register(
    "sgd-probe",
    summary="linear classifier trained by SGD for 40 epochs on frozen features",
    source="Zhang et al. 2022, Section 4.2; Ghanooni et al., Section 4.2",
    options=SGDProbeOptions,
)
def sgd_probe(inputs: Inputs, options: SGDProbeOptions) -> ProtocolResult:
    """Train a linear probe on the finest labels by SGD, and predict those of the test samples."""
    title = f"Linear probe by SGD, {options.epochs} epochs"
    parts = {}
    for role, reading in inputs.chosen(options.roles).items():
        probe = options.probe(inputs.settings.seed)
        progress = inputs.titled(f"SGD probe on {role}")
        predicted = _predict(probe, reading.vectors, inputs, progress)
        parts[role] = inputs.judge(predicted)
        parts[role].scores["training_loss"] = probe.loss
    return ProtocolResult.joined(title, parts, counts={"training samples": len(inputs.learned)})


def _predict(probe: SGDProbe, vectors: Tensor, inputs: Inputs, progress: Progress | None) -> Tensor:
    train, test = vectors[inputs.learned], vectors[inputs.samples.test]
    if inputs.settings.standardize:
        train, test = standardized(train, test)
    return probe.fit(train, inputs.nodes[inputs.learned], progress).predict(test)
