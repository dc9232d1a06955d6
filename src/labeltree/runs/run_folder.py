"""The run folder, with the names of all its files."""

from __future__ import annotations

import csv
import filecmp
import io
import json
import math
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from labeltree.atomic import atomic_write, clear_leftovers, new_folder_in, writing
from labeltree.errors import FolderInUseError, RunError, WriteError, typed
from labeltree.file_kinds import near_path
from labeltree.links import refuse_links
from labeltree.lock import LOCK, lock_folder, writer_of
from labeltree.runs.change_at_once import CHANGE, change_at_once, finish_change
from labeltree.runs.run_files import RunFiles
from labeltree.runs.run_html import run_html
from labeltree.runs.sample_record import SampleRecord
from labeltree.safe_files import Reader, fits, read_json, read_tensors, read_text, read_torch
from labeltree.taxonomy import Taxonomy

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RunFolder", "plain_json"]

_EXTENSIONS = "extensions"
_FOLDERS = {"checkpoints", "embeddings", "encoder_config", _EXTENSIONS, "logs", CHANGE}
_VERSION = r"\d+(\.\d+){0,4}((a|b|rc|\.?dev|\.post)\d+)?(\+[a-z0-9.]+)?"
_STATE: dict[str, Any] = {  # entries of every training state, written by Lightning or labeltree
    "pytorch-lightning_version": str,
    "epoch": int,
    "global_step": int,
    "state_dict": dict[str, torch.Tensor],
    "loops": dict[str, dict[str, dict[str, Any]]],
    "callbacks": dict[str, dict[str, Any]],
    "optimizer_states": list[dict[str, dict[int, dict[str, torch.Tensor | float]] | list[dict[str, Any]]]],
    "lr_schedulers": list[dict[str, Any]],
}
_TRAIN_AGAIN = "restore it, or train again into another --out"


class RunFolder(RunFiles):
    """A folder with everything needed to repeat, evaluate and use one run.

    Args:
        path: Path of the folder; it is created at the first write.
    """

    def to_pandas(self) -> pd.DataFrame:
        """The history of the training: a row for each epoch."""
        import pandas as pd

        return pd.DataFrame(self.read_history())

    def _repr_html_(self) -> str:
        return run_html(self, self.read_history, self.load_samples)

    @property
    def home(self) -> RunFolder:
        """The run that this one extends; itself if it extends no other."""
        there = self.path.parent.name == _EXTENSIONS and self.extension.is_file()
        return RunFolder(self.path.parent.parent) if there else self

    @property
    def new_extension(self) -> Path:
        """Where the next extension goes."""
        known = self.extensions
        return self.path / _EXTENSIONS / str(1 + int(known[-1].path.name) if known else 1)

    @property
    def extensions(self) -> list[RunFolder]:
        """The extensions of the run by further classes, each a model of its own, the oldest first."""
        place = self.path / _EXTENSIONS
        if not place.is_dir():
            return []
        numbers = sorted(int(entry.name) for entry in place.iterdir() if entry.name.isdecimal())
        return [RunFolder(place / str(number)) for number in numbers]

    def answering(self) -> RunFolder:
        """The folder of what answers: the newest extension of the run, or the run itself.

        Raises:
            RunError: If the weights of the run are no longer those of the extension.
        """
        known = self.extensions
        if not known:
            return self
        ours, theirs = self.encoder, known[-1].encoder
        if ours.is_file() and not (theirs.is_file() and _same_content(ours, theirs)):
            raise RunError(
                f"run '{self.path}' was extended when it had other weights, which the extension needs; "
                f"'labeltree extend {typed(self.path)} --undo' removes it, then extend the run again"
            )
        return known[-1]

    def embeddings(self, name: str = "trained") -> Path:
        """The embeddings table of that name: `trained`, `untrained` or `raw`."""
        return self.path / "embeddings" / f"{name}.npz"

    def require(self) -> RunFolder:
        """Return self, or raise a `RunError` that says why this is not the folder of a run.

        Raises:
            DataError: If a file in it is a link; see `refuse_links`.
        """
        if not self.path.is_dir():
            name = str(self.path)
            if name.startswith("hf:"):
                raise RunError(
                    f"'{name}' is on the Hugging Face hub: 'labeltree pull {name.removeprefix('hf:')}' "
                    "fetches it into a folder; name that"
                )
            near = near_path(self.path)
            hint = f"; did you mean '{near}'?" if near else ""
            raise RunError(f"no run at '{self.path}': the folder does not exist{hint}")
        if self.folds.is_file():
            raise RunError(
                f"'{self.path}' holds the runs of a cross-validation, each of which was trained on a part of "
                f"the data: name one of them ('{self.path / 'fold-1'}'), or train a run on all"
            )
        if not self.recipe.is_file() and not self.description.is_file():
            raise RunError(f"'{self.path}' is not a run folder: it has no {self.recipe.name}")
        refuse_links(self.home.path)
        finish_change(self.path, self.made_from_samples)
        return self

    @property
    def made_from_samples(self) -> list[Path]:
        """What is made of the samples of the run after training: all of it can be made again."""
        return [self.metrics, self.outcomes, self.measured_on, self.comparison, self.comparison_text,
                self.comparison_table, self.comparison_page, self.report, self.decisions, self.classifier,
                self.chosen_classifier, self.reference, self.calibration_samples,
                self.suspects.with_suffix(".json"), self.path / "embeddings",
                self.path / "checkpoints", *sorted(self.path.glob("on-*")),
                *sorted(self.path.glob("elsewhere-*"))]  # fmt: skip

    def change(self, write: Callable[[Path], object]) -> None:
        """Replace files of the run by those that `write(folder)` writes, and remove `made_from_samples`.

        Either all of it is done or nothing, whenever the process ends; see `change_at_once`.
        """
        change_at_once(self.path, write, self.made_from_samples)

    def keep_encoder_config(self, write: Callable[[Path], object]) -> None:
        """Make the folder `encoder_config` of the files that `write(folder)` writes, if any."""
        shutil.rmtree(self.encoder_config, ignore_errors=True)
        with writing(self.encoder_config), new_folder_in(self.path) as fresh:
            write(fresh)
            if any(fresh.iterdir()):
                fresh.rename(self.encoder_config)

    def drop_checkpoints(self) -> None:
        """Delete the training states of a finished run: its weights stay, but training cannot continue."""
        if self.encoder.is_file():
            shutil.rmtree(self.path / "checkpoints", ignore_errors=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder for writing, and remove files that killed processes have left there.

        See `lock_folder`. Reading needs no lock, even by other processes.

        Raises:
            FolderInUseError: If another process writes there.
            WriteError: If the folder cannot be written to.
            DataError: If a file of the run is a link; see `refuse_links`.
        """
        files = (self.recipe, self.taxonomy, self.training_taxonomy, self.description, self.samples,
                 self.corrections, self.last_checkpoint, self.best_checkpoint, self.encoder, self.ridge,
                 self.history, self.versions, self.metrics, self.outcomes, self.measured_on, self.comparison,
                 self.comparison_text, self.comparison_table, self.comparison_page, self.report,
                 self.decisions, self.classifier, self.chosen_classifier, self.reference,
                 self.embeddings("*"),
                 *map(self.correction_file, range(2, 2 + len(self.correction_files))))  # fmt: skip
        if self.home.path == self.path:
            refuse_links(self.path, _FOLDERS | {LOCK} | {file.name for file in files})
        else:
            refuse_links(self.home.path)
        with lock_folder(self.path):
            clear_leftovers(*files, self.embeddings("*").with_suffix(".parquet"))
            yield

    def clear_after_kill(self) -> None:
        """Remove files left by a process that was killed at the end, unless another process is writing."""
        if (self.path / LOCK).is_file():
            with suppress(FolderInUseError, WriteError), self.locked():
                pass

    def load_taxonomy(self) -> Taxonomy:
        """Read the taxonomy of the run."""
        if not self.taxonomy.is_file():
            raise RunError(f"run '{self.path}' has no {self.taxonomy.name}; train it again")
        return Taxonomy.from_file(self.taxonomy)

    def write_json(self, path: Path, content: Mapping[str, Any]) -> None:
        """Write `content` as JSON, atomically; NaN and infinities become null."""
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps(plain_json(content), indent=2, allow_nan=False) + "\n", "utf-8")

    def write_history(self, rows: Sequence[Mapping[str, float | int]]) -> None:
        """Write the history, one row per epoch; columns in order of first appearance."""
        columns = list(dict.fromkeys(key for row in rows for key in row))
        with (
            atomic_write(self.history) as temporary,
            temporary.open("w", newline="", encoding="utf-8") as file,
        ):
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(rows)

    def read_history(self) -> list[dict[str, float]]:
        """Read the history: one dictionary per epoch, without empty cells.

        Raises:
            RunError: If the file is damaged: it has no epoch, or a row that does not consist of numbers for
                the columns of the first line.
        """
        if not self.history.is_file():
            return []
        reader = Reader("the history of a run", _TRAIN_AGAIN, RunError)
        with reader.reading(self.history, "it is not a table of numbers"):
            text = read_text(self.history, reader)
            rows = [
                {k: float(v) for k, v in row.items() if v not in ("", None)}
                for row in csv.DictReader(io.StringIO(text, newline=""), strict=True)
            ]
        if not rows or not all("epoch" in row and math.isfinite(row["epoch"]) for row in rows):
            raise reader.failure(self.history, "epochs are missing")
        return rows

    def read_summary(self) -> dict[str, Any]:
        """The summary of the data, which is for information only: empty if it is missing or damaged."""
        try:
            content = json.loads(self.data.read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    def load_samples(self) -> SampleRecord:
        """Read the record of the samples that the run began with."""
        return SampleRecord.load(self.samples)

    def load_checkpoint(self, path: Path) -> dict[str, Any]:
        """Read a training state; nothing in it is executed."""
        reader = Reader("a training state", "delete it and the same command starts again", RunError)
        content = read_torch(path, reader)
        if not isinstance(content, dict):
            raise reader.failure(path, "it holds no values by name")
        for name, kind in _STATE.items():
            if not fits(content.get(name), kind):
                raise reader.failure(path, f"its {name.replace('_', ' ')} is missing or damaged")
        if not re.fullmatch(_VERSION, content["pytorch-lightning_version"]):
            raise reader.failure(path, "it does not say which version of Lightning wrote it")
        return content

    def add_versions(self, entry: Mapping[str, Any]) -> None:
        """Append an entry for a training session."""
        self.write_json(self.versions, {"trained": [*self.read_versions(), entry]})

    def read_versions(self) -> list[dict[str, Any]]:
        """The entries of all training sessions; [] for a run without such a record."""
        if not self.versions.is_file():
            return []
        try:
            entries = read_json(self.versions, Reader("versions", "delete it", RunError)).get("trained")
        except RunError:  # for information only: damage must not stop a run
            return []
        return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []

    def save_weights(self, state: Mapping[str, torch.Tensor], epoch: int) -> None:
        """Write the weights of encoder and heads as safetensors; those of equal trainings are equal files."""
        from safetensors.torch import save

        tensors = {name: value.detach().cpu().contiguous() for name, value in state.items()}
        with atomic_write(self.encoder) as temporary:
            # One entry alone: safetensors writes several in an order that differs from process to process.
            temporary.write_bytes(save(tensors, {"epoch": str(epoch)}))

    def load_weights(self) -> dict[str, torch.Tensor]:
        """Read what `save_weights` wrote."""
        if not self.encoder.is_file():
            writer = writer_of(self.path)
            raise RunError(
                f"run '{self.path}' has no {self.encoder.name}: its training has not finished. "
                + (
                    f"It is under way: {writer}"
                    if writer
                    else "The same 'labeltree train' command continues it"
                )
            )
        return read_tensors(self.encoder, Reader("the weights of a run", _TRAIN_AGAIN, RunError))


def _same_content(first: Path, second: Path) -> bool:
    """Whether two files are the same, or hold the same bytes."""
    return first.samefile(second) or filecmp.cmp(first, second, shallow=False)


def plain_json(value: Any) -> Any:
    """Make `value` valid JSON: tensors to numbers or lists, NaN and infinities to None."""
    if isinstance(value, torch.Tensor):
        return plain_json(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value
