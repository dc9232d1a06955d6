"""Evaluation on another taxonomy than that of the labels: tables moved to it, and what is said of that."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch

from labeltree.decisions.classifiers import ClassScores
from labeltree.errors import DataError, typed
from labeltree.evaluation import EvaluationResult, carry_over, translate
from labeltree.evaluation.answer_columns import PREFIX
from labeltree.evaluation.judging_taxonomy import JudgingTaxonomy
from labeltree.evaluation.outcomes import Outcomes, load_outcomes
from labeltree.evaluation.result import MethodResult
from labeltree.options.evaluation import EvaluateOptions
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.taxonomy import AnyTaxonomy, Taxonomy
from labeltree.taxonomy.versions.between_versions import VersionChange, mapping_digest

__all__ = ["OtherTaxonomy", "compare_with_before", "name_version"]


@dataclass(frozen=True)
class OtherTaxonomy:
    """The taxonomy that an evaluation is judged by, where it is not that of the labels.

    Attributes:
        labels: Taxonomy of the labels.
        judge: The taxonomy that judges.
        file: Its file.
        change: The step from one version to the other, of a DAG to its projection; None to a DAG without a
            mapping, in which labels are found by name.
    """

    labels: AnyTaxonomy
    judge: AnyTaxonomy
    file: str | Path
    change: VersionChange | None

    @classmethod
    def between(
        cls, labels: Taxonomy | None, judge: AnyTaxonomy, mapping: str | Path | None, file: str | Path
    ) -> OtherTaxonomy:
        """The step from a taxonomy; where that of the labels is not known, it follows from the mapping.

        Raises:
            TaxonomyError: If the mapping cannot be read, or is between other taxonomies.
        """
        if not isinstance(judge, Taxonomy) and mapping is None:
            assert labels is not None
            return cls(labels, judge, file, None)
        new = JudgingTaxonomy.of(judge).reading_every_path()
        if labels is not None:
            return cls(labels, judge, file, VersionChange.of(labels, new, mapping))
        assert mapping is not None
        change = VersionChange.from_file(mapping, None, new)
        return cls(change.mapping.old, judge, file, change)

    @property
    def name(self) -> str:
        """The name of the file."""
        return Path(self.file).name

    @property
    def digest(self) -> str:
        """A fingerprint of the taxonomy that judges and of the mapping to it."""
        mapped = "" if self.change is None else mapping_digest(self.change.mapping)
        return hashlib.sha256(f"{self.judge.digest} {mapped}".encode()).hexdigest()

    def table(self, table: EmbeddingTable, own_scores: ClassScores | None = None) -> EmbeddingTable:
        """A table with its labels and answers on the taxonomy that judges.

        Args:
            table: With nodes of the taxonomy of the labels.
            own_scores: The classifier that gave its answers; see `carry_over`.
        """
        if self.change is not None:
            moved = carry_over(table, self.change, f"'{self.file}'", own_scores)
            return JudgingTaxonomy.of(self.judge).table_of_judge(moved)
        try:
            return translate(table, self.labels, self.judge, f"'{self.file}'")
        except DataError as error:
            raise DataError(
                f"{error}, or say with --mapping what became of them: 'labeltree taxonomy project "
                f"{typed(self.file)} --out tree.json' makes a tree of the DAG, 'labeltree taxonomy map OLD "
                "tree.json' a mapping to edit, and --mapping takes it with the DAG"
            ) from None

    def remark(self, result: EvaluationResult, table: EmbeddingTable) -> EvaluationResult:
        """A result that says what the change of the taxonomy did to the samples of the evaluated split.

        Args:
            result: The result.
            table: The table as it was, with labels of the old taxonomy.
        """
        if self.change is None:
            return result
        nodes = table.nodes
        if table.split is not None and result.split != "half":
            nodes = nodes[torch.from_numpy(np.asarray(table.split) == result.split)]
        samples = f"{result.split} samples" if table.split is not None else "samples"
        said = self.change.sentence(nodes, self.name, samples)
        said = f"{said} {self.change.split_advice(nodes)}".rstrip()
        counts = {kind: asdict(count) for kind, count in self.change.counts(nodes).items()}
        result = result.with_notes([said], cautions=[said] if counts or self.change.guesses else [])
        return replace(result, taxonomy_changes=counts)


def name_version(options: EvaluateOptions) -> dict[str, str]:
    """The files of the other version of a taxonomy that is measured on, by the option that takes them."""
    files = {"taxonomy": options.taxonomy, "mapping": options.mapping}
    return {name: str(file) for name, file in files.items() if file is not None}


def compare_with_before(run: RunFolder, now: EvaluationResult) -> str | None:
    """A sentence with the top-1 of a run's answers on both versions, over the samples that count in both.

    A label that became coarser than the classes counts in none of the two.

    Args:
        run: The run, evaluated on its own taxonomy.
        now: Its evaluation on another one.

    Returns:
        The sentence; None if the run was not evaluated on its own taxonomy, or no sample counts in both.
    """
    try:
        before = EvaluationResult.load(run.metrics)
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
    easier = " Fewer classes are easier to tell apart." if second > first else ""
    return (
        f"Before and after, on the same samples: of the {len(common):,} whose label is a class on both "
        f"taxonomies, the answers were right for {first:.1%} on the run's own and are right for {second:.1%} "
        f"here.{easier} Here classifiers learned the mapped labels anew; 'predict' answers with the run's "
        "own, so its answers may differ."
    )


def _right(method: MethodResult, outcomes: Outcomes) -> dict[int, float]:
    """Whether the answer is the class of the sample, by instance, for the samples that count in top-1."""
    name = f"{PREFIX[method.classifier.name]}top1"
    key = next((key for key in outcomes.values if key[1] == name and key[0] not in outcomes.protocols), None)
    if key is None:
        return {}
    pairs = zip(outcomes.instances.tolist(), outcomes.values[key].tolist(), strict=True)
    return {instance: value for instance, value in pairs if not np.isnan(value)}
