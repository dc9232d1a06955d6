"""Where the files of a run lie in its folder: the only place that knows their names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from labeltree.taxonomy.files.taxonomy_files import IN_FOLDER

__all__ = ["RunFiles"]


class FileInFolder:
    """The path of a file, or folder, in the folder of the object that has it as attribute."""

    def __init__(self, *parts: str) -> None:
        self._parts = parts

    def __get__(self, folder: RunFiles, _: type[RunFiles]) -> Path:
        return folder.path.joinpath(*self._parts)


class RunFiles:
    """The files of a folder with everything needed to repeat, evaluate and use one run.

    Args:
        path: Path of the folder; it is created at the first write.
    """

    recipe = FileInFolder("recipe.yaml")
    """All settings of the run (YAML)."""

    folds = FileInFolder("folds.json")
    """The number of folds, if the folder holds the runs of a cross-validation (JSON)."""

    taxonomy = FileInFolder(IN_FOLDER)
    """The taxonomy of the labels."""

    training_taxonomy = FileInFolder("training_taxonomy.json")
    """The taxonomy of the training labels, if the recipe names another one."""

    data = FileInFolder("data.json")
    """Summary of the data: samples, classes and groups of each split, columns, warnings (JSON)."""

    unused_rows = FileInFolder("unused-rows.csv")
    """The rows of a table that are not used, with the reasons (CSV), if there are any."""

    unreadable = FileInFolder("unreadable.csv")
    """The samples that were left out because they cannot be read, with the reasons (CSV), if any."""

    description = FileInFolder("model.json")
    """What rebuilds the model, beside its weights (JSON); see `ModelDescription`."""

    word_vectors = FileInFolder("word_vectors.npz")
    """The word vectors of the classes' names, if the objective reads some."""

    samples = FileInFolder("samples.npz")
    """The samples of the run, their contents and splits; see `SampleRecord`."""

    last_checkpoint = FileInFolder("checkpoints", "last.ckpt")
    """The newest complete training state."""

    best_checkpoint = FileInFolder("checkpoints", "best.ckpt")
    """The training state at the best validation value."""

    encoder = FileInFolder("encoder.safetensors")
    """The weights of the chosen encoder and heads (safetensors)."""

    ridge = FileInFolder("ridge.safetensors")
    """The sums and settings of the ridge head (safetensors), if the objective is `tree-ridge`."""

    encoder_config = FileInFolder("encoder_config")
    """Folder of what rebuilds the encoder without the place it came from, unless its name suffices."""

    history = FileInFolder("history.csv")
    """One line per epoch: losses, validation metrics, learning rate, seconds."""

    versions = FileInFolder("versions.json")
    """Versions and device of each training session of the run (JSON)."""

    diverged = FileInFolder("diverged.json")
    """The steps at which training diverged, and the settings with which it continued (JSON)."""

    metrics = FileInFolder("metrics.json")
    """The result of the evaluation."""

    outcomes = FileInFolder("outcomes.npz")
    """The outcome of every test sample in the evaluation."""

    measured_on = FileInFolder("measured-on.json")
    """A fingerprint of the other taxonomy, and of the mapping to it, that the evaluation is on."""

    comparison = FileInFolder("comparison.json")
    """The result of a comparison of several runs."""

    comparison_text = FileInFolder("comparison.md")
    """The comparison as Markdown."""

    comparison_table = FileInFolder("comparison.csv")
    """The metrics of a comparison as CSV."""

    comparison_page = FileInFolder("comparison.html")
    """The comparison as one HTML file that needs no network."""

    report = FileInFolder("report.html")
    """The report: one HTML file that needs no network."""

    decisions = FileInFolder("decisions.json")
    """Decision settings of the run: calibrated probabilities and thresholds (JSON)."""

    classifier = FileInFolder("classifier.safetensors")
    """The linear probe and the class means that were learned on the encoder (safetensors)."""

    chosen_classifier = FileInFolder("classifier.json")
    """The classifier that the run uses, and the reason (JSON)."""

    calibration_samples = FileInFolder("calibration.safetensors")
    """Embeddings of the samples that the run was calibrated on, if they are not its own (safetensors)."""

    reference = FileInFolder("reference.safetensors")
    """Features and embeddings of validation and training samples, without names (safetensors)."""

    extension = FileInFolder("extension.json")
    """What an extension of a run has added to it and taken from it (JSON); see `extensions`."""

    learned = FileInFolder("embeddings", "learned.npz")
    """The embeddings table of the samples that an extension learned from, with their names."""

    suspects = FileInFolder("suspects.csv")
    """The labels that `labeltree suspects` has found (CSV), with a person's decisions."""

    logs = FileInFolder("logs")
    """Folder of further logs of the training, if the recipe asks for them."""

    mlflow_run = FileInFolder("mlflow_run.txt")
    """MLflow's id of the run, used to continue its log when training is resumed."""

    wandb_run = FileInFolder("wandb_run.txt")
    """The same of Weights & Biases."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def corrections(self) -> Path:
        """The corrections of labels that the run began with (CSV), or the first of several tables."""
        return self.correction_file(1)

    def correction_file(self, number: int) -> Path:
        """The first, second … table of the corrections that the run began with, in the order of their use."""
        return self.path / ("corrections.csv" if number == 1 else f"corrections-{number}.csv")

    @property
    def correction_files(self) -> list[Path]:
        """The tables of corrections that the run began with."""
        files: list[Path] = []
        while (file := self.correction_file(len(files) + 1)).is_file():
            files.append(file)
        return files

    def corrected(self, files: Sequence[str | os.PathLike[str]], on: str = "") -> Path:
        """The folder for the evaluation on labels that tables correct; on another taxonomy, by its name."""
        name = "+".join(Path(file).stem for file in files)
        return self.path / (f"corrected-{name}" + (f"-on-{on}" if on else ""))
