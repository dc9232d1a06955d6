"""The samples that coverage is calibrated on, and what else they were used for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from labeltree.counted_nouns import say_count
from labeltree.decisions.rule import DecisionRule
from labeltree.runs import EmbeddingTable
from labeltree.split_names import CALIB
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.naming import some

__all__ = [
    "CLASSIFIER",
    "EPOCH",
    "PromiseSamples",
    "StoredRule",
    "are_unpromised",
    "for_promises",
    "kept_for_probabilities",
    "say_unpromised",
]

Kind = Literal["calib", "val", "other"]
EPOCH, CLASSIFIER = "the epoch", "the classifier"
"""What validation samples choose: the epoch of a training by steps, and which classifier answers."""


@dataclass(frozen=True)
class PromiseSamples:
    """The samples that thresholds come from.

    Attributes:
        kind: `calib`, set aside for nothing else; `val`, validation samples; or `other`, samples from
            elsewhere.
        samples: Number of samples.
        groups: Number of their groups; None without groups.
        source: Where samples from elsewhere are from; empty if it is not told.
        chose: What validation samples have also chosen, such as the epoch and the classifier.
        softened: Whether they have also fitted the temperature of the probabilities, see `soften_few`.
        unit: What is answered for: `sample`, or the groups of samples that count as one.
        unpromised: The classes that were added later and have none of these samples.
    """

    kind: Kind
    samples: int
    groups: int | None
    source: str = ""
    chose: tuple[str, ...] = (EPOCH, CLASSIFIER)
    unit: str = "sample"
    softened: bool = False
    unpromised: tuple[str, ...] = ()

    @classmethod
    def of(cls, rule: DecisionRule, kind: Kind, **about: Any) -> PromiseSamples:
        """The samples of a rule; `about` are the other attributes."""
        fitted, counts = rule.fitted, rule.counts
        labelled = counts.get("calibration samples", 0) - counts.get("left out: no label", 0)
        softened = counts.get("for the probabilities", 0) + counts.get("for the thresholds", 0) > labelled
        groups = None if fitted.groups is None else fitted.num_groups
        return cls(kind, len(fitted), groups, softened=softened, **about)

    @property
    def sentence(self) -> str:
        """Which samples they are, how many, what else they were used for, and what they do not promise."""
        return f"{self._calibrated} {say_unpromised(self.unpromised)}".rstrip()

    @property
    def _calibrated(self) -> str:
        many = say_count(self.samples, f"{'validation ' * (self.kind == 'val')}{self.unit}")
        if self.groups is not None:
            many += f" of {say_count(self.groups, 'group')}"
        if self.kind == "calib":
            return f"Coverage is calibrated on {many} of the split calib, which nothing else has used."
        if self.kind == "other":
            where = f"of '{self.source}'" if self.source else "of other data"
            short = ", which have also fitted a temperature: it can fall a little short"
            short = short if self.softened else ""
            return f"Coverage is calibrated on {many} {where}{short}."
        has = "has" if self.samples == 1 else "have"
        used = [f"chosen {' and '.join(self.chose)}"] if self.chose else []
        used += ["fitted a temperature"] if self.softened else []
        if not used:
            return f"Coverage is calibrated on {many}, which {has} chosen nothing else."
        return (
            f"Coverage can fall a little short: it is calibrated on {many}, which {has} also "
            f"{' and '.join(used)} ('labeltree train --calib 0.1' sets samples aside for coverage alone)."
        )


@dataclass(frozen=True)
class StoredRule:
    """The decision rule with which a run answers, calibrated on samples that are not its own.

    Attributes:
        rule: The rule, for the scores of the classifier that answers.
        source: Where these samples are from; empty if it is not told.
    """

    rule: DecisionRule
    source: str

    @property
    def rests_on(self) -> PromiseSamples:
        """The samples that its promises rest on."""
        return PromiseSamples.of(self.rule, "other", source=self.source)


def for_promises(table: EmbeddingTable) -> Tensor:
    """Rows that coverage is calibrated on, (n,) bool: the labelled ones of the split `calib`.

    Nothing else uses these. Where there are none: the validation samples, which have also chosen.
    """
    split = np.asarray(table.split)
    set_aside = torch.from_numpy(split == CALIB) & (table.nodes > 0)
    return set_aside if bool(set_aside.any()) else torch.from_numpy(split == "val")


def kept_for_probabilities(table: EmbeddingTable) -> Tensor | None:
    """The samples that may fit probabilities but no thresholds, (n,) bool, for `fit_rule`.

    None if the table has no labelled samples of the split `calib`: then a part of all samples fits them.
    """
    if table.split is None:
        return None
    set_aside = torch.from_numpy(np.asarray(table.split) == CALIB)
    return ~set_aside if bool((set_aside & (table.nodes > 0)).any()) else None


def say_unpromised(names: Sequence[str]) -> str:
    """A sentence on the classes for which nothing is promised, by their names; empty without any."""
    if not names:
        return ""
    were = "was added later and has" if len(names) == 1 else "were added later and have"
    return f"Nothing is promised for {some(names)}, which {were} no calibration sample."


def are_unpromised(labels: Tensor, unpromised: Tensor, taxonomy: Taxonomy) -> Tensor:
    """Which labels `(n,)` bool lie at or below a class for which nothing is promised.

    Args:
        labels: `(n,)` nodes, −1 where missing.
        unpromised: `(k,)` nodes of these classes.
        taxonomy: Taxonomy of the nodes.
    """
    return torch.isin(taxonomy.ancestors[labels.clamp(min=0)], unpromised).any(1)
