"""What a recipe describes, built."""

from __future__ import annotations

from dataclasses import dataclass

from labeltree.data import Source
from labeltree.training.batches import SourceDataModule
from labeltree.training.labels import TrainingLabels
from labeltree.training.module import RepresentationModule

__all__ = ["Trainee"]


@dataclass(frozen=True)
class Trainee:
    """The data of a run, and the module that learns from them.

    Attributes:
        source: all samples, with their splits.
        labels: what training sees of their labels.
        batches: of training and validation.
        module: encoder and objective; its recipe is the settled one.
    """

    source: Source
    labels: TrainingLabels
    batches: SourceDataModule
    module: RepresentationModule
