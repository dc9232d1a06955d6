"""A finished run as a model: embed samples that it has not seen, and answer for them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from labeltree.data import Source
from labeltree.decisions import Promise
from labeltree.decisions.classifiers import ClassifierChoice
from labeltree.errors import DataError
from labeltree.inference.calibrate import Decider, open_decider
from labeltree.inference.classifiers import other_report
from labeltree.inference.embeddings import embed_source
from labeltree.inference.loading import load_run
from labeltree.inference.predict import Answered, Request, answer_with
from labeltree.inference.samples import open_images, open_other, open_texts
from labeltree.models import Encoder
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.taxonomy import Taxonomy
from labeltree.training.experiment import Experiment
from labeltree.training.recipe import Recipe

__all__ = ["Model"]

Files = Sequence[str | Path] | str | Path


class Model:
    """A finished run, ready for samples that it has not seen.

    The samples that it was trained on need not be there, except where a run answers for the first time: then
    it is calibrated on its validation samples.

    Args:
        run: the run folder.
        classifier: to answer with from now on: ``own``, ``probe`` or ``prototypes``; None: the one that was
            decided on, see `run_classifiers`.

    Raises:
        RunError: if it is no finished run.
    """

    def __init__(self, run: str | Path | RunFolder, *, classifier: ClassifierChoice | None = None) -> None:
        self.folder = (run if isinstance(run, RunFolder) else RunFolder(run)).require()
        self._classifier = classifier
        _ = self.experiment  # what is wrong with the run shows now, not at the first sample

    @cached_property
    def experiment(self) -> Experiment:
        """The run as it was built for training, with the weights of its best epoch."""
        return load_run(self.folder.path, own_data=False)

    @cached_property
    def _decider(self) -> Decider:
        return open_decider(self.folder.path, self._classifier)

    @property
    def taxonomy(self) -> Taxonomy:
        """Of the run's labels and answers."""
        return self.experiment.source.taxonomy

    @property
    def recipe(self) -> Recipe:
        """All settings that the run was trained with."""
        return self.experiment.module.recipe

    @property
    def encoder(self) -> Encoder:
        """Pixels or tokens in, features out: a PyTorch module."""
        return self.experiment.module.evaluated_encoder

    def embed(
        self, files: Files = (), *, texts: Sequence[str] | str = (), data: str | Path | None = None
    ) -> EmbeddingTable:
        """Features and embeddings of samples.

        Args:
            files: image files.
            texts: texts instead.
            data: a folder, a table or a data set instead; labels, where it has any, are not read.

        Returns:
            a table with a row for each sample, in the order given; ``instances`` are their places.

        Raises:
            DataError: if a sample cannot be read; the message names it.
            ValueError: if not exactly one of the three is given.
        """
        images, words = _named(files, texts, data)
        if data is not None:
            source = open_other(self.experiment, str(data), unlabelled=True)
        else:
            named = open_images(self.experiment, images) if images else open_texts(self.experiment, words)
            for place, reason in sorted(named.skipped.items()):
                raise DataError(f"'{named.names[place]}' cannot be embedded: {reason}; leave it out")
            assert isinstance(named.source, Source)
            source = named.source
        return embed_source(self.experiment.module, source)

    def predict(
        self,
        files: Files = (),
        *,
        texts: Sequence[str] | str = (),
        data: str | Path | None = None,
        labelled: bool = False,
        coverage: float = 0.9,
        top: int = 3,
    ) -> Answered:
        """A node of the taxonomy for every sample, as fine as is sure.

        Args:
            files: image files; one that cannot be read is in ``skipped`` of the answers.
            texts: texts instead.
            data: a folder, a table or a data set instead.
            labelled: compare the answers with the labels of ``data``.
            coverage: the share of answers that hold the truth, for new samples of the same kind.
            top: how many classes to name beside each answer.

        Raises:
            LabeltreeError: if the run or the samples are not what they should be.
            ValueError: if not exactly one of the three is given, or what is asked makes no sense.
        """
        images, words = _named(files, texts, data)
        request = Request(images, words, None if data is None else str(data), labelled=labelled)
        decider = self._decider
        warning = other_report(self.folder.path, decider.chosen)
        return answer_with(decider, request, Promise(coverage), top=top, warning=warning)

    def __repr__(self) -> str:
        classes = len(self.taxonomy.leaves)
        return f"Model({str(self.folder.path)!r}: {self.recipe.objective}, {classes} classes)"


def _named(
    files: Files, texts: Sequence[str] | str, data: str | Path | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Files and texts as tuples, of which just one is given, or neither beside data."""
    images = (str(files),) if isinstance(files, str | Path) else tuple(str(file) for file in files)
    words = (texts,) if isinstance(texts, str) else tuple(texts)
    if bool(images) + bool(words) + (data is not None) != 1:
        raise ValueError("name samples in one way: image files, texts=[...] or data=...")
    return images, words
