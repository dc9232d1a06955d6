"""Answers without a run: by the names of a taxonomy, for texts and for images."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from labeltree.data import Source, list_datasets, open_source
from labeltree.data.images.image_files import OnError, open_images
from labeltree.data.source import digest_set, have_digest, printable
from labeltree.decisions import Answers, ClassNodes, DecisionRule, Promise, fit_rule, holds_truth
from labeltree.decisions.promise_samples import PromiseSamples
from labeltree.decisions.prototypes_from_names import name_prototypes
from labeltree.errors import DataError, TaxonomyError
from labeltree.inference.answers.answered import Answered
from labeltree.inference.named_samples import NamedSamples, has_folders, name_samples, table_settings
from labeltree.inference.predict import promise_text
from labeltree.metrics.functional import accuracy_by_depth
from labeltree.models.name_space import NameSpace, open_name_space
from labeltree.options.name_options import ZeroShotOptions
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.name_texts import IMAGE_TEMPLATE, TEXT_TEMPLATE, check_words, name_texts

__all__ = ["NameClassifier", "answer_by_names"]

_TOGETHER = 256


@dataclass(frozen=True)
class NameClassifier:
    """Scores of the leaves of a taxonomy by their names.

    Attributes:
        space: What reads samples and names.
        classes: The leaves.
        prototypes: `(C, d)` float64 unit vectors of their names.
    """

    space: NameSpace
    classes: ClassNodes
    prototypes: Tensor

    @classmethod
    def of(cls, taxonomy: Taxonomy, space: NameSpace, template: str | None = None) -> NameClassifier:
        """Read the names of a taxonomy.

        Args:
            taxonomy: The taxonomy.
            space: What reads them.
            template: See `name_texts`; None = that of texts or of images.

        Raises:
            TaxonomyError: If it has less than two classes, or their names are codes.
        """
        leaves = taxonomy.leaves[taxonomy.leaves > 0].tolist()
        check_words(taxonomy, leaves)
        usual = TEXT_TEMPLATE if space.reads == "text" else IMAGE_TEMPLATE
        texts = name_texts(taxonomy, leaves, template or usual)
        nodes = ClassNodes(torch.tensor(leaves), taxonomy)
        return cls(space, nodes, name_prototypes(texts, space.embed_texts))

    def scores(self, source: Source) -> Tensor:
        """Class scores `(n, C)` float64 of samples: cosine / temperature."""
        parts = [self._vectors(source, rows) for rows in source.rows.split(_TOGETHER)]  # type: ignore[no-untyped-call]
        return torch.cat(parts).double() @ self.prototypes.T / self.space.temperature

    def _vectors(self, source: Source, rows: Tensor) -> Tensor:
        if self.space.embed_images is None:
            assert source.texts is not None
            return self.space.embed_texts([source.texts[row] for row in rows.tolist()])
        assert source.store is not None
        return self.space.embed_images(source.store.load(rows))


def answer_by_names(options: ZeroShotOptions, taxonomy: Taxonomy) -> Answered:
    """Answer for samples by the names of the classes of a taxonomy alone; see `labeltree.zero_shot`.

    Args:
        options: The samples, the encoder and what is asked.
        taxonomy: The taxonomy that `options` names.
    """
    space = open_name_space(options.encoder)
    by_name = NameClassifier.of(taxonomy, space, options.template)
    rule, known = (None, frozenset[bytes]())
    if options.calibrate is not None:
        rule, known = _calibrated(by_name, options.calibrate)
    promise = Promise(options.coverage)
    if rule is not None:
        rule.bars(promise)  # too few samples are refused before others are read
    named = _samples(options, space, taxonomy)
    source = named.source
    asked = "guesses by names alone" if rule is None else promise_text(promise)
    scores = torch.empty(0, len(by_name.classes)).double() if source is None else by_name.scores(source)
    if rule is None:
        answers = _guesses(scores, by_name.classes, options.top)
    else:
        answers = rule.answer(scores, promise, top=options.top)
    labels = judged = seen = None
    if options.labelled and source is not None:
        labels, seen = source.nodes, torch.zeros(len(source), dtype=torch.bool)
        if known:
            seen = torch.from_numpy(have_digest(source.copy_digests(), known))
        judged = by_name.classes.judges(labels) & ~seen
    return Answered(
        named.names,
        answers,
        taxonomy,
        asked,
        labels,
        judged,
        named.skipped,
        given=named.given,
        one_each=named.one_each,
        seen=seen,
        classifier=_sentence(by_name, scores, labels),
        rests_on=_rests_on(rule, options),
        about={
            "encoder": space.name,
            "taxonomy": taxonomy.digest,
            "labeltree": version("labeltree"),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "asked": asked,
        },
    )


def _sentence(by_name: NameClassifier, scores: Tensor, labels: Tensor | None) -> str:
    said = f"The names of {len(by_name.classes):,} classes answer, as '{by_name.space.name}' reads them"
    return f"{said}.{_first_guesses(by_name.classes, scores, labels)}"


def _first_guesses(classes: ClassNodes, scores: Tensor, labels: Tensor | None) -> str:
    """How often the most probable class is right, at any depth; empty without labels."""
    if labels is None or not bool((judged := classes.judges(labels)).any()):
        return ""
    first = classes.nodes[scores[judged].argmax(1)]
    right = holds_truth(labels[judged], first, classes.taxonomy)
    at = accuracy_by_depth(first, labels[judged], classes.taxonomy).tolist()
    depths = ", ".join(f"{each:.1%} at depth {depth}" for depth, each in enumerate(at, 1) if each == each)
    share = float(right.double().mean())
    return f" The first guess is right for {share:.1%} of the labelled samples ({depths})."


def _rests_on(rule: DecisionRule | None, options: ZeroShotOptions) -> str:
    if rule is not None:
        return PromiseSamples.of(rule, "other", source=str(options.calibrate)).sentence
    return (
        "Nothing is promised: without labelled samples (--calibrate DATA) no answer is finer than the root, "
        "and the probabilities of guesses are not calibrated."
    )


def _guesses(scores: Tensor, classes: ClassNodes, top: int) -> Answers:
    """The root, which is always right, and the most probable classes."""
    probabilities = scores.softmax(1)
    order = torch.argsort(probabilities, dim=1, descending=True, stable=True)[:, :top]
    count = len(scores)
    return Answers(
        torch.zeros(count, dtype=torch.int64),
        torch.ones(count, dtype=torch.float64),
        torch.ones(count, dtype=torch.bool),
        classes.nodes[order],
        probabilities.gather(1, order),
    )


def _calibrated(by_name: NameClassifier, data: str | Path) -> tuple[DecisionRule, frozenset[bytes]]:
    """The rule that answers, fitted to labelled samples, and the digests of these."""
    taxonomy = by_name.classes.taxonomy
    assert isinstance(taxonomy, Taxonomy)
    source = _open(data, by_name.space, taxonomy, labelled=True)
    source = source.subset((source.nodes > 0).nonzero()[:, 0])
    if not len(source):
        raise DataError(f"no sample of '{data}' has a label to calibrate on")
    rule = fit_rule(by_name.scores(source), source.nodes, by_name.classes, groups=source.groups)
    return rule, frozenset(digest_set(source.copy_digests()))


def _samples(options: ZeroShotOptions, space: NameSpace, taxonomy: Taxonomy) -> NamedSamples:
    """The names of all samples, those that can be read, and why others cannot."""
    if options.data is not None:
        table = table_settings(options.table).columns
        source = _open(options.data, space, taxonomy, labelled=options.labelled, on_error="list", **table)
        return name_samples(source, options.data)
    given = [str(each) for each in (options.texts if options.texts else options.images)]
    if bool(options.texts) != (space.reads == "text"):
        texts = space.reads == "text"
        how = "texts, or a table of them as data" if texts else "image files, or a folder of them as data"
        raise DataError(f"encoder '{space.name}' reads {space.reads}s: give {how}")
    if space.images is None:
        skipped = {row: "the text is empty" for row, text in enumerate(given) if not text.strip()}
        content: dict[str, Any] = {"store": None, "texts": given}
        names = given
    else:
        look = space.images
        opened = open_images(
            given,
            given,
            image_size=look.size,
            channels=look.channels,
            preprocessing=look.preprocessing,
            on_error="return",
            cache=False,
        )
        skipped, content = dict(opened.failures), {"store": opened.store, "files": given}
        names = [printable(name) for name in given]
    rows = torch.tensor([row for row in range(len(given)) if row not in skipped], dtype=torch.int64)
    if not len(rows):
        return NamedSamples(names, None, skipped)
    nodes = torch.full((len(rows),), -1)
    return NamedSamples(names, Source("samples", taxonomy, nodes, rows, rows=rows, **content), skipped)


def _open(
    data: str | Path,
    space: NameSpace,
    taxonomy: Taxonomy,
    *,
    labelled: bool,
    on_error: OnError = "skip",
    **given: Any,
) -> Source:
    """Samples of a data set, a folder or a table, with labels of the taxonomy or without any.

    Of a table by the settings that are `given`.
    """
    spec, look = str(data), dict(given)
    named = spec in list_datasets()
    if space.images is not None:
        images = space.images
        look = {"image_size": images.size, "channels": images.channels, "preprocessing": images.preprocessing}
    if not labelled and not named and not Path(spec).is_dir():
        look["label_columns"] = []
    plain = named or (not labelled and has_folders(spec))
    source = open_source(spec, taxonomy=None if plain else taxonomy, on_error=on_error, **look)
    if space.reads not in source.modalities:
        raise DataError(
            f"encoder '{space.name}' reads {space.reads}s, but the samples of '{data}' are "
            f"{source.modalities[0]}s"
        )
    if labelled and source.taxonomy != taxonomy:
        raise TaxonomyError(f"'{data}' has another taxonomy than the one whose names answer")
    if labelled:
        return replace(source, aspects=None, aspect_taxonomies=(), ratings=None)
    missing = torch.full_like(source.nodes, -1)
    return replace(
        source,
        taxonomy=taxonomy,
        nodes=missing,
        label_sets=None,
        aspects=None,
        aspect_taxonomies=(),
        ratings=None,
    )
