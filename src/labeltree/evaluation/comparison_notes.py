"""Sentences of a comparison on what was compared, and on what its tests assume."""

from __future__ import annotations

from typing import cast

from labeltree.decisions.choice import CLASSIFIER_WORDS
from labeltree.decisions.classifier import ClassifierKind
from labeltree.evaluation.comparison import Comparison

__all__ = ["comparison_notes"]


def comparison_notes(result: Comparison) -> list[str]:
    """What to know before reading the numbers."""
    unit = "groups of samples (all of a group together)" if result.grouped else "samples"
    notes = [
        f"{result.samples} samples that all runs have in common were compared; intervals "
        f"({result.confidence:.0%}) and tests draw from {result.groups} {unit}."
    ]
    notes += _on_answers(result)
    for name, count in result.left_out.items():
        if count:
            notes.append(
                f"{count} samples of '{name}' are missing in another run and were left out: numbers differ "
                f"from those of its own report."
            )
    several = [name for name, runs in result.methods.items() if len(runs) > 1]
    single = [name for name, runs in result.methods.items() if len(runs) == 1]
    if single:
        names = ", ".join(f"'{name}'" for name in single)
        notes.append(
            f"Of {names} there is one run: what is said of it holds for that run. How much another seed "
            f"would change is not in its interval."
        )
    if several:
        notes.append(
            "Of methods with several runs, intervals and tests add the variance between runs to that of the "
            "test samples; they assume independent runs with nearly normal results."
        )
    notes.append(
        "Samples are redrawn, not what was learned or searched: classifiers and databases are held fixed."
    )
    return notes


def _on_answers(result: Comparison) -> list[str]:
    """Which classifier each method answers with; nothing where it is known of none."""
    if not any(name for names in result.classifiers.values() for name in names):
        return []
    found = []
    for method, names in result.classifiers.items():
        parts = []
        for name in dict.fromkeys(names):
            words = CLASSIFIER_WORDS.get(
                cast(ClassifierKind, name), "a classifier that its folder does not name"
            )
            count = names.count(name)
            many = "1 run" if count == 1 else f"{count} runs"
            parts.append(words if count == len(names) else f"{words} ({many})")
        found.append(f"'{method}' {' and '.join(parts)}")
    return [
        "The measures of answers are of the classifier that each run answers with, as its own report has it: "
        f"{'; '.join(found)}."
    ]
