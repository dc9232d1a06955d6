"""Where the files of a run lie in its folder: the only place that knows their names."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["RunFiles"]


class RunFiles:
    """The files of a folder with everything needed to repeat, evaluate and use one run.

    Args:
        path: path of the folder; it is created at the first write.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def recipe(self) -> Path:
        """All settings of the run (YAML)."""
        return self.path / "recipe.yaml"

    @property
    def folds(self) -> Path:
        """The number of folds, if the folder holds the runs of a cross-validation (JSON)."""
        return self.path / "folds.json"

    @property
    def taxonomy(self) -> Path:
        """The taxonomy of the labels."""
        return self.path / "taxonomy.json"

    @property
    def training_taxonomy(self) -> Path:
        """The taxonomy of the training labels, if the recipe names another one."""
        return self.path / "training_taxonomy.json"

    @property
    def data(self) -> Path:
        """Summary of the data: samples, classes and groups of each split, columns, warnings (JSON)."""
        return self.path / "data.json"

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

    @property
    def unused_rows(self) -> Path:
        """The rows of a table that are not used, with the reasons (CSV), if there are any."""
        return self.path / "unused-rows.csv"

    @property
    def unreadable(self) -> Path:
        """The samples that were left out because they cannot be read, with the reasons (CSV), if any."""
        return self.path / "unreadable.csv"

    @property
    def description(self) -> Path:
        """What rebuilds the model, beside its weights (JSON); see `ModelDescription`."""
        return self.path / "model.json"

    @property
    def word_vectors(self) -> Path:
        """The word vectors of the classes' names, if the objective reads some."""
        return self.path / "word_vectors.npz"

    @property
    def samples(self) -> Path:
        """The samples of the run, their contents and splits; see `SampleRecord`."""
        return self.path / "samples.npz"

    @property
    def last_checkpoint(self) -> Path:
        """The newest complete training state."""
        return self.path / "checkpoints" / "last.ckpt"

    @property
    def best_checkpoint(self) -> Path:
        """The training state at the best validation value."""
        return self.path / "checkpoints" / "best.ckpt"

    @property
    def encoder(self) -> Path:
        """The weights of the chosen encoder and heads (safetensors)."""
        return self.path / "encoder.safetensors"

    @property
    def encoder_config(self) -> Path:
        """Folder of what rebuilds the encoder without the place it came from, unless its name suffices."""
        return self.path / "encoder_config"

    @property
    def history(self) -> Path:
        """One line per epoch: losses, validation metrics, learning rate, seconds."""
        return self.path / "history.csv"

    @property
    def versions(self) -> Path:
        """Versions and device of each training session of the run (JSON)."""
        return self.path / "versions.json"

    @property
    def diverged(self) -> Path:
        """The steps at which training diverged, and the settings with which it continued (JSON)."""
        return self.path / "diverged.json"

    @property
    def metrics(self) -> Path:
        """The result of the evaluation."""
        return self.path / "metrics.json"

    @property
    def outcomes(self) -> Path:
        """The outcome of every test sample in the evaluation."""
        return self.path / "outcomes.npz"

    @property
    def measured_on(self) -> Path:
        """A fingerprint of the other taxonomy, and of the mapping to it, that the evaluation is on."""
        return self.path / "measured-on.json"

    @property
    def comparison(self) -> Path:
        """The result of a comparison of several runs."""
        return self.path / "comparison.json"

    @property
    def comparison_text(self) -> Path:
        """The comparison as Markdown."""
        return self.path / "comparison.md"

    @property
    def comparison_table(self) -> Path:
        """The metrics of a comparison as CSV."""
        return self.path / "comparison.csv"

    @property
    def comparison_page(self) -> Path:
        """The comparison as one HTML file that needs no network."""
        return self.path / "comparison.html"

    @property
    def report(self) -> Path:
        """The report: one HTML file that needs no network."""
        return self.path / "report.html"

    @property
    def decisions(self) -> Path:
        """Decision settings of the run: calibrated probabilities and thresholds (JSON)."""
        return self.path / "decisions.json"

    @property
    def classifier(self) -> Path:
        """The linear probe and the class means that were learned on the encoder (safetensors)."""
        return self.path / "classifier.safetensors"

    @property
    def chosen_classifier(self) -> Path:
        """The classifier that the run uses, and the reason (JSON)."""
        return self.path / "classifier.json"

    @property
    def calibration_samples(self) -> Path:
        """Embeddings of the samples that the run was calibrated on, if they are not its own (safetensors)."""
        return self.path / "calibration.safetensors"

    @property
    def reference(self) -> Path:
        """Features and embeddings of validation and training samples, without names (safetensors)."""
        return self.path / "reference.safetensors"

    @property
    def extension(self) -> Path:
        """What an extension of a run has added to it and taken from it (JSON); see `extensions`."""
        return self.path / "extension.json"

    @property
    def learned(self) -> Path:
        """The embeddings table of the samples that an extension learned from, with their names."""
        return self.path / "embeddings" / "learned.npz"

    @property
    def logs(self) -> Path:
        """Folder of further logs of the training, if the recipe asks for them."""
        return self.path / "logs"

    @property
    def mlflow_run(self) -> Path:
        """MLflow's id of the run, used to continue its log when training is resumed."""
        return self.path / "mlflow_run.txt"
