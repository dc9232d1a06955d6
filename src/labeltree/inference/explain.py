"""Why a run answers as it does: the steps of its answers with the nearest of its training samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from labeltree.decisions import Answers
from labeltree.decisions.evidence_for_answers import Neighbour, Step, find_evidence
from labeltree.errors import RunError
from labeltree.inference.decider import Decider
from labeltree.inference.training_samples import training_samples
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

__all__ = ["explain", "explain_text"]


def explain(decider: Decider, table: EmbeddingTable, answers: Answers) -> list[list[Step]]:
    """The steps of each answer, and the one at which it stopped.

    Training samples are compared: all of them if the run folder has their embeddings, which tell their names
    as well, or else the reference samples, at most 10,000 without names. Of a run that was extended, the
    samples that its extensions learned from are among them, with their names.

    Args:
        decider: The run.
        table: n samples of the run's encoder.
        answers: Their answers.

    Raises:
        RunError: If the run folder holds no training sample.
    """
    training, names = _training(decider)
    if not len(table):
        return []
    scores, rule = decider.scores(table), decider.rule
    return find_evidence(
        table,
        training,
        rule.paths(scores).nodes,
        answers.nodes,
        rule.probabilities(scores),
        rule.classes,
        decider.run.taxonomy,
        names,
    )


def _training(decider: Decider) -> tuple[EmbeddingTable, list[str | None]]:
    """Labelled training samples, and their names where the folder tells them."""
    run = decider.run.base or decider.run
    table = training_samples(run)
    if table is None:
        raise RunError(
            f"'{run.folder.path}' holds no training sample to compare with; an exported model keeps some "
            "with --with-reference"
        )
    assert table.paths is not None
    names = [str(path) or None for path in table.paths]
    if decider.run.change is not None:
        table = replace(table, nodes=decider.run.change.to_new(table.nodes))
    return table, names


def explain_text(steps: Sequence[Step], taxonomy: Taxonomy) -> str:
    """The steps of one answer as indented lines."""
    lines = []
    for step in steps:
        word = "" if step.taken else "  (not taken)"
        lines.append(f"    {taxonomy.path_name(step.node)}  p {step.probability:.3f}{word}")
        for said, near in (("for", step.speaks_for), ("against", step.speaks_against)):
            lines.append(f"        {said:<8}{_shown(near, taxonomy)}")
    return "\n".join(lines)


def _shown(near: Neighbour | None, taxonomy: Taxonomy) -> str:
    if near is None:
        return "no training sample"
    name = "" if near.name is None else f"{near.name}, "
    return f"{name}{taxonomy.path_name(near.node)}, at {near.distance:.3f}"
