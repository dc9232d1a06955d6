"""A run before and after a change of its taxonomy: how often it is right, on the same samples."""

from __future__ import annotations

import numpy as np

from labeltree.errors import DataError
from labeltree.evaluation import EvaluationResult
from labeltree.evaluation.outcomes import Outcomes, load_outcomes
from labeltree.evaluation.result import PREFIX, MethodResult
from labeltree.runs import RunFolder
from labeltree.safe_files import Reader, read_json

__all__ = ["before_and_after"]

_RESULT = Reader("the result of an evaluation", "run 'labeltree evaluate' again")


def before_and_after(run: RunFolder, now: EvaluationResult) -> str | None:
    """A sentence with the top-1 of a run's answers on both versions, over the samples that count in both.

    A label that became coarser than the classes counts in none of the two.

    Args:
        run: the run, evaluated on its own taxonomy.
        now: its evaluation on another one.

    Returns:
        the sentence; None if the run was not evaluated on its own taxonomy, or no sample counts in both.
    """
    try:
        before = EvaluationResult.from_dict(read_json(run.metrics, _RESULT))
        outcomes = load_outcomes(run.outcomes)
    except DataError:
        return None  # not evaluated, or by another version
    if before.split != now.split or before.name not in outcomes or now.name not in now.outcomes:
        return None
    ours = _right(before.main, outcomes[before.name])
    theirs = _right(now.main, now.outcomes[now.name])
    common = sorted(ours.keys() & theirs.keys())
    if not common:
        return None
    first, second = (np.mean([values[sample] for sample in common]) for values in (ours, theirs))
    return (
        f"Before and after, on the same samples: of the {len(common):,} whose label is a class on both "
        f"taxonomies, the answers were right for {first:.1%} on the run's own and are right for {second:.1%} "
        "here. Fewer classes are easier to tell apart."
    )


def _right(method: MethodResult, outcomes: Outcomes) -> dict[int, float]:
    """Whether the answer is the class of the sample, by instance, for the samples that count in top-1."""
    name = f"{PREFIX[method.classifier.name]}top1"
    key = next((key for key in outcomes.values if key[1] == name and key[0] not in outcomes.protocols), None)
    if key is None:
        return {}
    pairs = zip(outcomes.instances.tolist(), outcomes.values[key].tolist(), strict=True)
    return {instance: value for instance, value in pairs if not np.isnan(value)}
