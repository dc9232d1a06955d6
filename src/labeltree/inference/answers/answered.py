"""Answers for named samples: a sequence of rows, a table, files, and a page of a notebook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from torch import Tensor

from labeltree.atomic import atomic_write, write_text
from labeltree.counted_nouns import say_count
from labeltree.data.given_columns import GivenColumns, plain_value
from labeltree.decisions.answers import Answers, answer_scores, holds_truth
from labeltree.decisions.drift import Drift
from labeltree.decisions.evidence_for_answers import DISTANCES, Step
from labeltree.inference.answers.answer_table import AnswerTable, list_free_names
from labeltree.inference.answers.answers_html import MOST_SHOWN, html_answers
from labeltree.inference.answers.format_answers import answer_cells, answer_rows, show_rows, skipped_row
from labeltree.inference.explain import explain_text
from labeltree.options.choices import AnswerFormat
from labeltree.taxonomy import Taxonomy

if TYPE_CHECKING:
    import pandas as pd

    from labeltree.inference.coverage import CalledUnknown, Coverage

__all__ = ["Answered"]


@dataclass(frozen=True)
class Answered:
    """Answers for named samples: a sequence of rows, each as in JSON.

    Attributes:
        samples: Names of all samples, including unreadable ones.
        answers: Answers of the run for the n readable samples, in the same order.
        taxonomy: Taxonomy of the answers.
        asked: Description of the required coverage or cost.
        labels: (n,) true nodes, if the answers are compared with labels.
        judged: (n,) bool, True where the label decides whether an answer is right, and the sample is new.
        skipped: Maps positions in `samples` to the reason why that sample could not be read.
        classifier: a sentence that names the classifier.
        rests_on: a sentence on the samples that the promised coverage rests on.
        warning: a sentence if the run's report shows another classifier.
        about: Which model answered, when and with what promise; see `Decider.about`.
        drift: Whether the samples are like those that the promise rests on, or why this cannot be tested;
            None if they are too few to tell, are the run's own, or there is nothing to compare them with.
        why: The steps of each answer with the training samples that speak for and against them, if asked for.
        coverage: How often the answers hold the truth, also by group and by attribute, beside the promise;
            None without labels, for answers by cost, and for those of groups.
        called_unknown: How many samples of known classes are called unknown, beside the promise; None without
            labels, and where nothing can be called unknown.
        given: The columns of the table whose rows were answered for, a row for each of `samples`; None if it
            was no table.
        one_each: Whether no row of that table has several samples.
        seen: (n,) bool, True where the sample (of a group, one of its samples) is of training or calibration,
            so that its answer measures nothing; None if that was not looked up.
        contradictory: (n,) bool, True where the labels of a group's samples contradict each other, so that it
            has none; None for answers of samples.
        geometry: Of the embeddings between which `why` has distances.
        questions: By name, the score (n,) of each question that was asked.
        unreadable: Of answers for groups of samples, by position in `samples`, how many of a group's samples
            could not be read, in words; None for answers of samples.
    """

    samples: list[str]
    answers: Answers
    taxonomy: Taxonomy
    asked: str
    labels: Tensor | None = None
    judged: Tensor | None = None
    skipped: Mapping[int, str] = field(default_factory=dict)
    classifier: str = ""
    rests_on: str = ""
    warning: str | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    drift: Drift | str | None = None
    why: Sequence[Sequence[Step]] | None = None
    coverage: Coverage | None = None
    called_unknown: CalledUnknown | None = None
    given: GivenColumns | None = None
    one_each: bool = True
    seen: Tensor | None = None
    contradictory: Tensor | None = None
    geometry: str = "sphere"
    questions: Mapping[str, Tensor] = field(default_factory=dict)
    unreadable: Mapping[int, str] | None = None

    def __len__(self) -> int:
        return len(self.samples)

    @overload
    def __getitem__(self, place: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, place: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, place: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        """The row of a sample, as in JSON, or those of several."""
        return self._shown[place]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._shown)

    @cached_property
    def _shown(self) -> list[dict[str, Any]]:
        """The rows as JSON has them."""
        return self._rows(explained=True)

    def text(self, form: AnswerFormat) -> str:
        """The answers as a table, CSV or JSON; the row of an unreadable sample gives the reason.

        JSON holds `about` and `answers`, a list of rows; every row of a CSV ends in the values of
        `about`. A table, which is for people to read, goes without them.
        """
        if form == "xlsx" or form == "parquet":
            raise ValueError(f"{form} is no text; write it with save('answers.{form}', '{form}')")
        if form == "csv":
            self._refuse_explanation("a CSV")
            return self._table().text(self.about)
        shown = show_rows(
            self._shown if form == "json" else self._rows(), form, self.about, [*self.questions]
        )
        if self.why is not None and form == "table":
            blocks = [
                f"{name}\n{explain_text(s, self.taxonomy)}"
                for name, s in zip(self._read(), self.why, strict=True)
            ]
            shown += "\n" + "\n".join(blocks) + "\n"
            shown += f"at: the distance between embeddings, {DISTANCES[self.geometry]}\n"
        return shown

    def save(self, path: str | Path, form: AnswerFormat) -> None:
        """Write the answers, as a whole or not at all.

        A workbook has `about` on a sheet of its own, Parquet in its metadata.

        Raises:
            ImportError: If a package that writes the format is not installed.
            ValueError: If the format has no place for what there is to write.
            WriteError: If the disk is full or writing is not permitted.
        """
        if form == "xlsx" or form == "parquet":
            self._refuse_explanation("a workbook" if form == "xlsx" else "Parquet")
            table = self._table()
            with atomic_write(path) as temporary:
                table.write(temporary, form, self.about)
        else:
            write_text(path, self.text(form))

    def _refuse_explanation(self, where: str) -> None:
        if self.why is not None:
            raise ValueError(f"an explanation has no place in {where}; take format 'json' or 'table'")

    def _table(self) -> AnswerTable:
        return AnswerTable(self._rows(), self.given, named=self.given is None or not self.one_each)

    def to_pandas(self) -> pd.DataFrame:
        """A row for each sample, as in the CSV: answer, probability, guesses, and why there is none.

        For the rows of a table, its columns come first.
        """
        return self._table().frame()

    def __repr__(self) -> str:
        """The first answers as a table, and the sentence about all."""
        more = len(self) - MOST_SHOWN
        further = f"… {more:,} more\n" if more > 0 else ""
        table = show_rows(self._rows()[:MOST_SHOWN], "table", questions=[*self.questions])
        return "\n".join([f"{table}{further}".rstrip(), *self.promises(), *self.sentences(), *self.caveats()])

    def _repr_html_(self) -> str:
        rows = self._rows()
        promises = [line for text in self.promises() for line in text.splitlines()]
        return html_answers(
            rows, answer_cells(rows, [*self.questions]), [*promises, *self.sentences(), *self.caveats()]
        )

    def promises(self) -> list[str]:
        """What was promised of the answers, and whether labels bear it out; empty without labels."""
        return [each.text() for each in (self.coverage, self.called_unknown) if each is not None]

    def caveats(self, *, full: bool = False) -> list[str]:
        """What limits the answers, a sentence each, such as that the samples are unlike those of training.

        Args:
            full: Also what the answers come from.
        """
        drift = ""
        if isinstance(self.drift, str):
            drift = f"not tested whether these samples are like those of training: {self.drift}"
        elif self.drift is not None:
            drift = self.drift.sentence()
        rests_on = self.rests_on if len(self.answers) else ""  # of no answer nothing is promised
        said = [self.classifier if full else "", rests_on, self.warning or "", drift]
        return [sentence for sentence in said if sentence]

    def _read(self) -> list[str]:
        """The names of the samples that could be read."""
        return [name for place, name in enumerate(self.samples) if place not in self.skipped]

    def _rows(self, *, explained: bool = False) -> list[dict[str, Any]]:
        """A row for each sample, also for those without an answer; with all that JSON says, if asked for."""
        rows = answer_rows(self.answers, self._read(), self.taxonomy, self.labels, self.judged)
        for name, scores in self.questions.items():
            for row, score in zip(rows, scores.tolist(), strict=True):
                row[name] = round(score, 12)
        if self.why is not None and explained:
            for row, steps in zip(rows, self.why, strict=True):
                row["why"] = [step.to_dict(self.taxonomy) for step in steps]
        if self.unreadable is not None:
            for place, row in enumerate(rows):
                row["unreadable"] = self.unreadable.get(place)
        for place, reason in sorted(self.skipped.items()):
            row = skipped_row(self.samples[place], reason, rows, compared=self.answers.p_known is not None)
            rows.insert(place, row)
        if self.given is not None and explained:
            names = list_free_names(self.given.names, ())
            values = [[plain_value(value) for value in column] for column in self.given.values()]
            for row, cells in zip(rows, zip(*values, strict=True), strict=True):
                row["input"] = dict(zip(names, cells, strict=True))
        return rows

    def sentence(self, form: AnswerFormat = "table") -> str:
        """The `sentences` as one."""
        return "; ".join(self.sentences(form))

    def sentences(self, form: AnswerFormat = "table") -> list[str]:
        """How many answers there are, were cut, miss the first guess and, with labels, hold the truth.

        Args:
            form: The form in which the answers are shown, which says where unknown samples are marked.
        """
        nothing = self.answers.nodes == 0
        none, n = int(nothing.sum()), len(self.answers)
        given, cut = n - none, int((self.answers.cut & ~nothing).sum())
        said = f"{say_count(given, 'answer')} ({self.asked})"
        if given == 1 and cut:
            said += ", coarser than the classes"
        elif given > 1:
            said += f", {cut} of them coarser than the classes"
            unknown = self.answers.unknown
            if cut and unknown is not None and bool(unknown[self.answers.cut & ~nothing].all()):
                said += " since no known class fits"
        if none:
            said += f"; {none} got none ({self._why_none(nothing)})"
        parts = [said]
        if self.answers.unknown is not None and (count := int(self.answers.unknown.sum())):
            parts.append(_unknown(count, form))
        if self._off_first_guess:
            parts.append(_off_first_guess(self._off_first_guess))
        seen = 0 if self.seen is None else int(self.seen.sum())
        if seen:
            parts.append(_seen(seen, n))
        if self.labels is None or self.judged is None or not bool(self.judged.any()):
            return parts
        judged, others = int(self.judged.sum()), n - seen
        scores = answer_scores(self.answers.nodes[self.judged], self.labels[self.judged], self.taxonomy)
        if seen:
            which = "other one" if judged == 1 else f"{judged} others"
        else:
            which = "one" if judged == 1 else f"{judged}"
        of = f"of the {which} whose label is known"
        if judged < others:
            of += f" ({self._why_not_judged()})"
        held = f"{scores['coverage']:.2%} hold the truth"
        if 0 < scores["root"] < 1:
            held += f" ({scores['accuracy_below_root']:.2%} without those that got none, which are not wrong)"
        elif scores["root"] == 1:
            held += " (none names anything)"
        depths = f"at a mean depth of {scores['depth']:.2f} (labels: {scores['true_depth']:.2f})"
        return [*parts, f"{of}, {held}, {depths}"]

    @property
    def _off_first_guess(self) -> int:
        """How many answers, found step by step, are neither the most probable class nor above it."""
        answers = self.answers
        if answers.costs is not None or not answers.guesses.shape[1]:
            return 0
        return int((~holds_truth(answers.nodes, answers.guesses[:, 0], self.taxonomy)).sum())

    def _why_not_judged(self) -> str:
        """Why the labels of new samples say nothing of their answers."""
        assert self.labels is not None
        assert self.judged is not None
        left = ~self.judged if self.seen is None else ~self.judged & ~self.seen
        missing, coarse = left & (self.labels < 0), left & (self.labels >= 0)
        torn = missing & False if self.contradictory is None else missing & self.contradictory
        reasons = {"missing": missing & ~torn, "too coarse": coarse, "contradictory": torn}
        counts = {why: int(those.sum()) for why, those in reasons.items()}
        first, *others = [(count, why) for why, count in counts.items() if count]
        return ", ".join([f"of {first[0]} it is {first[1]}", *(f"of {count} {why}" for count, why in others)])

    def _why_none(self, nothing: Tensor) -> str:
        """Why samples have the root as their answer."""
        unknown = self.answers.unknown
        strange = 0 if unknown is None else int((unknown & nothing).sum())
        unsure = int(nothing.sum()) - strange
        if not strange:
            return "nothing is sure enough"
        return (
            f"for {strange} no known class fits, for {unsure} nothing is sure enough"
            if unsure
            else "no known class fits"
        )


def _seen(count: int, n: int) -> str:
    """How many answers are for samples of training or calibration, and what that means."""
    known = "of samples of training or calibration"
    if count == n:
        return f"all are {known}, so nothing can be measured on them"
    return f"{count:,} of all {n:,} are {known}: left out of what is measured"


def _off_first_guess(count: int) -> str:
    """How many answers do not hold the most probable class, and why."""
    return (
        f"{say_count(count, 'answer does', 'answers do')} not hold the first guess, since an answer goes "
        "down the tree step by step, to the most probable branch each time"
    )


def _unknown(count: int, form: AnswerFormat) -> str:
    """How many samples fit no known class, and where they are marked."""
    where = "marked '?'" if form in ("table", "txt") else "'unknown' is true"
    if count == 1:
        return f"1 fits no known class ({where}: its guesses are the known classes most like it)"
    return f"{count} fit no known class ({where}: their guesses are the known classes most like them)"
