"""What next: commands that fit what was evaluated, for the report and the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labeltree.data.held_out_sizes import samples_for_coverage
from labeltree.data.images.image_files import look_at_files
from labeltree.decisions.conformal import advised_coverage
from labeltree.errors import typed
from labeltree.inference.load_run import TrainedRun
from labeltree.options.answer_options import AnswerOptions
from labeltree.options.evaluation import EvaluateOptions

__all__ = ["NextStep", "compare_step", "predict_steps", "steps_after_run", "steps_text", "suspects_step"]

_LARGER = 1.5  # so many times as large as they are read are pictures worth reading larger
_LARGE_ENOUGH = 224
_SHORT = 60  # characters of a command that has its purpose beside it


@dataclass(frozen=True)
class NextStep:
    """A command to type, and what it is for."""

    command: str
    purpose: str


def steps_after_run(run: TrainedRun, options: EvaluateOptions, held: int | None) -> list[NextStep]:
    """What fits a run: its labels, samples without a finest label, larger pictures, new samples.

    Args:
        run: The run.
        options: Its folder, as it was named, and the version of the taxonomy.
        held: See `predict_steps`.
    """
    place = options.place
    folder = typed(place)
    source, taxonomy = run.source, run.taxonomy
    steps = [suspects_step(folder)]
    coarse = int((~taxonomy.is_leaf[source.nodes.clamp(min=0)]).sum())
    if coarse:
        purpose = f"which of {coarse:,} samples without a finest label to label first"
        if coarse == 1:
            purpose = "the sample without a finest label"
        steps.append(NextStep(f"labeltree label-next {folder}", purpose))
    return [*steps, *_larger_pictures(run, place), *predict_steps(options, held)]


def suspects_step(words: str) -> NextStep:
    """To look for labels that look wrong, in what the words of the command name."""
    return NextStep(f"labeltree suspects {words}", "labels that look wrong")


def predict_steps(options: EvaluateOptions, held: int | None) -> list[NextStep]:
    """To answer for new samples with a run, on the version of the taxonomy that it was evaluated on.

    Args:
        options: Its folder, as it was named, and the version of the taxonomy.
        held: Number of samples, or groups, that its promises rest on: few cannot promise the usual coverage.
            None = the run cannot answer on that version, as on a DAG: then nothing is proposed.
    """
    if held is None:
        return []
    version = {"taxonomy": options.taxonomy, "mapping": options.mapping}
    words = "".join(f" --{name} {typed(file)}" for name, file in version.items() if file is not None)
    if 0 < held < samples_for_coverage(AnswerOptions.coverage):
        words += f" --coverage {advised_coverage(held):g}"
    return [NextStep(f"labeltree predict {typed(options.place)} SAMPLES{words}", "answers for new samples")]


def compare_step(place: str | Path) -> NextStep:
    """To compare an evaluation with another."""
    return NextStep(f"labeltree compare {typed(place)} OTHER", "whether another model is better")


def _larger_pictures(run: TrainedRun, place: str | Path) -> list[NextStep]:
    """Training with larger pictures, if those of the files are much larger than what the run reads."""
    shape, files = run.network.image_shape, run.source.files
    if shape is None or files is None or not len(files) or shape[1] >= _LARGE_ENOUGH:
        return []
    look, size = run.source.look or look_at_files(files), shape[1]
    if look.shorter < _LARGER * size:
        return []
    larger = min(2 * size, look.shorter // 8 * 8, _LARGE_ENOUGH)
    recipe, out = typed(Path(place) / "recipe.yaml"), typed(f"{str(place).rstrip('/')}-{larger}")
    return [
        NextStep(
            f"labeltree train --config {recipe} --image_size {larger} --out {out}",
            f"larger pictures: {look.width} × {look.height} pixels, of which {size} × {size} are seen",
        )
    ]


def steps_text(steps: Sequence[NextStep]) -> str:
    """The steps as lines of a terminal, the purpose of each as a comment of the shell, below a long one."""
    width = max((len(step.command) for step in steps if len(step.command) <= _SHORT), default=0)
    return "\n".join(
        f"  {step.command:<{width}}  # {step.purpose}"
        if len(step.command) <= _SHORT
        else f"  {step.command}\n  {'':<{width}}  # {step.purpose}"
        for step in steps
    )
