"""Sentences of a comparison on what was compared, and on what its tests assume."""

from __future__ import annotations

from labeltree.evaluation.comparison import Comparison

__all__ = ["comparison_notes"]


def comparison_notes(result: Comparison) -> list[str]:
    """What to know before reading the numbers."""
    unit = "groups of samples (all of a group together)" if result.grouped else "samples"
    notes = [
        f"{result.samples} samples that all runs have in common were compared; intervals "
        f"({result.confidence:.0%}) and tests draw from {result.groups} {unit}."
    ]
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
