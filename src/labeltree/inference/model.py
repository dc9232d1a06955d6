"""A finished run as a model that embeds new samples and predicts their labels."""

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
    """A finished run, for embedding and prediction of new samples.

    The samples that the run was trained on may be absent, except at the first prediction of a run that is not
    calibrated yet: it is then calibrated on its validation samples.

    Args:
        run: the run folder.
        classifier: the classifier to answer with from now on: ``own``, ``probe`` or ``prototypes``; None: the
            one chosen before, see `run_classifiers`.

    Raises:
        RunError: if the folder is not a finished run.
    """

    def __init__(self, run: str | Path | RunFolder, *, classifier: ClassifierChoice | None = None) -> None:
        self.folder = (run if isinstance(run, RunFolder) else RunFolder(run)).require()
        self._classifier = classifier
        _ = self.experiment  # load now, so that errors of the run are raised here

    @cached_property
    def experiment(self) -> Experiment:
        """The run as it was built for training, with the weights of its best epoch."""
        return load_run(self.folder.path, own_data=False)

    @cached_property
    def _decider(self) -> Decider:
        return open_decider(self.folder.path, self._classifier)

    @property
    def taxonomy(self) -> Taxonomy:
        """The taxonomy of the run's labels and answers."""
        return self.experiment.source.taxonomy

    @property
    def recipe(self) -> Recipe:
        """All settings that the run was trained with."""
        return self.experiment.module.recipe

    @property
    def encoder(self) -> Encoder:
        """The encoder, a PyTorch module from pixels or tokens to features."""
        return self.experiment.module.evaluated_encoder

    def embed(
        self, files: Files = (), *, texts: Sequence[str] | str = (), data: str | Path | None = None
    ) -> EmbeddingTable:
        """Features and embeddings of samples.

        Args:
            files: image files.
            texts: texts, instead of files.
            data: a folder, a table or a data set, instead of files; its labels, if any, are not read.

        Returns:
            a table with one row per sample, in the given order; ``instances`` are positions in that order.

        Raises:
            DataError: if a sample cannot be read; the message names it.
            ValueError: unless exactly one of ``files``, ``texts`` and ``data`` is given.
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
        """Predict a node of the taxonomy for every sample, at the finest depth that keeps the coverage.

        Args:
            files: image files; unreadable ones are listed in ``skipped`` of the result.
            texts: texts, instead of files.
            data: a folder, a table or a data set, instead of files.
            labelled: compare the answers with the labels of ``data``.
            coverage: the share of answers that must hold the truth, for new samples of the same kind.
            top: number of most probable classes to list beside each answer.

        Raises:
            LabeltreeError: if the run or the samples are missing, unreadable or unsuitable.
            ValueError: unless exactly one of ``files``, ``texts`` and ``data`` is given, or if an option is
                not valid.
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
    """Files and texts as tuples, after checking that exactly one of files, texts and data is given."""
    images = (str(files),) if isinstance(files, str | Path) else tuple(str(file) for file in files)
    words = (texts,) if isinstance(texts, str) else tuple(texts)
    if bool(images) + bool(words) + (data is not None) != 1:
        raise ValueError("name samples in one way: image files, texts=[...] or data=...")
    return images, words
