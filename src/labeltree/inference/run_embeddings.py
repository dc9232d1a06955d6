"""Embeddings tables of a run and of its two baselines: the encoder before training, and the raw samples."""

from __future__ import annotations

import errno
import warnings
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from labeltree.data import Source
from labeltree.data.stratified import stratified_subsample
from labeltree.decisions.classifiers import features_as_embeddings
from labeltree.errors import DataError, WriteError
from labeltree.inference.load_run import TrainedRun, load_run, seen_by_start
from labeltree.models import encoder_modality
from labeltree.models.encoder import Modality
from labeltree.models.hub import only_cached
from labeltree.models.paired import PairedEncoder, only
from labeltree.models.vector_encoder import VectorEncoder
from labeltree.progress import Progress
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.runs.embedding_table import RAW_VECTORS, STANDARDISED_VECTORS
from labeltree.split_names import CALIB
from labeltree.training.features.frozen import encode_rows
from labeltree.training.network import Network, move_to_usual_device
from labeltree.training.recipe import Recipe
from labeltree.training.tokens_and_views import open_inputs

__all__ = [
    "MOST_CALIBRATED",
    "MOST_LEARNED",
    "RAW_NAMES",
    "START_NAMES",
    "OwnSamples",
    "TableName",
    "embed_source",
    "head_fits_labels",
    "kept_table",
    "raw_table",
    "run_tables",
    "start_name",
    "with_modality",
]

TableName = Literal["trained", "untrained", "raw"]
START_NAMES = ("pretrained encoder", "untrained encoder", STANDARDISED_VECTORS)
"""What the encoder before training is called."""

RAW_NAMES: dict[Modality, str] = {
    "image": "raw pixels",
    "text": "raw words",
    "both": "raw pixels and words",
    "vector": RAW_VECTORS,
}

_WORDS_DIM = 256
_ALL = 200_000  # samples of a run that are embedded together
MOST_LEARNED = 50_000  # training samples of the probe, as `EvaluationSettings.max_probe_samples`
MOST_CALIBRATED = 20_000  # validation samples


def embed_source(
    network: Network,
    source: Source,
    batch_size: int = 512,
    *,
    answers: bool = False,
    adapted: bool = True,
    keep: bool = True,
    progress: Progress | None = None,
    modality: Modality = "both",
) -> EmbeddingTable:
    """Features and embeddings of all samples of a source, unaugmented, in order.

    Where the network reads images and texts, the table has those of both together (of the one that a sample
    has), and beside them the embeddings of each image and each text alone.

    Args:
        network: Network of the run.
        source: The samples.
        batch_size: Number of samples in a batch.
        answers: If the network has a classifier, include its own answers, as nodes of the data's taxonomy.
        adapted: If the run has an adapter, return its features; False: the features of the encoder below,
            since a fresh adapter is not part of the encoder that training starts from.
        keep: Keep features of a frozen encoder in the cache, for further runs on the same samples.
        progress: Called with the number of samples that the encoder has read.
        modality: For a network that reads images and texts: `image` or `text` alone, or `both`.

    Raises:
        DataError: If `modality` names one that a sample lacks, see `with_modality`.
    """
    if modality != "both":
        _check_alone(network, source, modality)
    if network.training:
        network.eval()
    objective = network.objective
    inputs = open_inputs(source, network.encoder, network.recipe)
    known: Tensor | None = None
    if source.vectors is None:  # vectors are encoded as they are read, so that they are held once
        rows, places = source.rows.unique(return_inverse=True)  # type: ignore[no-untyped-call]
        known = encode_rows(network, source, inputs, rows, progress, keep=keep)[places]
    device = network.device
    width = network.feature_dim if adapted else network.encoder.without_adapter.feature_dim
    features = torch.empty(len(source), width)
    embeddings, answered, by_depth, aspects = [], [], [], []
    alone: dict[str, list[Tensor]] = {}
    with torch.inference_mode():
        for positions in torch.arange(len(source)).split(batch_size):  # type: ignore[no-untyped-call]
            if known is None:
                below = encode_rows(network, source, inputs, source.rows[positions], keep=False).to(device)
            else:
                below = known[positions].to(device)
            if isinstance(network.encoder, PairedEncoder):
                if modality == "both" and adapted:
                    for name, points in _each_alone(network, below).items():
                        alone.setdefault(name, []).append(points)
                below = only(below, modality)
            some = network.encoder.adapt(below).float()
            features[positions] = (some if adapted else below).cpu()
            embeddings.append(objective.embed(some).float().cpu())
            answer = objective.predict(some) if answers else None
            if answer is not None:
                answered.append(network.from_training[answer.cpu()])
            separate = objective.predict_depths(some) if answers else None
            if separate is not None:
                by_depth.append(network.from_training[separate.cpu()])
            by_aspect = objective.predict_aspects(some) if source.aspects is not None else None
            if by_aspect is not None:
                aspects.append(by_aspect.cpu())
    return _table_of(
        source,
        torch.cat(embeddings),
        features=features,
        geometry=objective.geometry.name,
        curvature=network.recipe.curvature,
        predictions=torch.cat(answered) if answered else None,
        depth_predictions=torch.cat(by_depth) if by_depth else None,
        aspect_predictions=torch.cat(aspects) if aspects else None,
        **{name: torch.cat(parts) for name, parts in alone.items()},
    )


def _each_alone(network: Network, below: Tensor) -> dict[str, Tensor]:
    """Embeddings of each image alone and of each text alone, NaN where there is none."""
    encoder = network.encoder
    assert isinstance(encoder, PairedEncoder)
    images, texts, present = encoder.each(below)
    parts_of = {}
    for name, points, there in zip(("image", "text"), (images, texts), present.unbind(1), strict=True):
        embedded = network.objective.embed(points.float()).float()
        parts_of[f"{name}_embeddings"] = embedded.masked_fill(~there[:, None], torch.nan).cpu()
    return parts_of


def with_modality(source: Source, modality: Modality) -> Source:
    """The samples that have an image, or a text; for `both` all samples.

    Raises:
        DataError: If there are none.
    """
    if modality == "both":
        return source
    there = source.present(source.rows)[:, 0 if modality == "image" else 1]
    if not bool(there.any()):
        raise DataError(f"no sample of '{source.name}' has {_a(modality)}")
    return source if bool(there.all()) else source.subset(there.nonzero()[:, 0])


def _check_alone(network: Network, source: Source, modality: Modality) -> None:
    reads = network.encoder.modality
    if reads not in ("both", modality):
        raise DataError(f"the run reads {reads}s alone, so it cannot embed {modality}s")
    lost = len(source) - int(source.present(source.rows)[:, 0 if modality == "image" else 1].sum())
    if lost:
        raise DataError(f"{lost} of {len(source)} samples have no {modality} to embed; leave them out")


def _a(modality: Modality) -> str:
    return f"{'an' if modality == 'image' else 'a'} {modality}"


def run_tables(
    path: str | Path,
    names: Sequence[TableName] = ("trained", "untrained", "raw"),
    progress: Progress | None = None,
    *,
    verify: bool = False,
) -> tuple[TrainedRun, dict[str, EmbeddingTable]]:
    """The named embeddings tables of a finished run; each is computed once and then read from the folder.

    `trained` is the table of the run itself, `untrained` that of the encoder with its initial weights,
    and `raw` that of the samples themselves, without an encoder. `progress` is called as the computation
    proceeds. With `verify`, all files of the samples are read again and the tables are recomputed.
    `untrained` is left out, with a warning, if the weights that training started from are gone, and without
    one where vectors are read as they are, which is `raw`; that is left out where there is a pretrained
    image encoder, beside which pixels say little.
    """
    run = load_run(path, progress, verify=verify, encoder="later")
    tables: dict[str, EmbeddingTable] = {}
    for name in names:
        if name == "raw" and "untrained" in tables and _starts_with_pictures(run):
            continue
        if name == "untrained" and _reads_raw_vectors(run):
            continue
        try:
            tables[name] = _kept_table(name, run, progress, verify=verify)
        except _StartIsGone as gone:
            warnings.warn(f"left out: the encoder before training; {gone}", stacklevel=2)
    if "trained" in tables:
        known = {
            "learned_features": _has_learned_features(run),
            "head_fits_labels": head_fits_labels(run.folder, run.recipe),
        }
        tables["trained"] = replace(tables["trained"], **known)  # type: ignore[arg-type]
    return run, {
        key: table if key == "trained" else replace(table, learned_features=False)
        for key, table in tables.items()
    }


def head_fits_labels(folder: RunFolder, recipe: Recipe) -> bool:
    """Whether a head has drawn the embeddings of a run to its labels, of features that it does not change.

    The encoder was frozen, or the head was solved.
    """
    return not _trains_encoder(recipe) or folder.ridge.is_file()


def _trains_encoder(recipe: Recipe) -> bool:
    """Whether training changes the features: the encoder is not frozen, or has an adapter."""
    return recipe.trainable != "head" or recipe.adapter is not None


def _has_learned_features(run: TrainedRun) -> bool | None:
    """Whether the encoder has learned from labels of the run's own samples; None if that is not known."""
    if _trains_encoder(run.recipe):
        return True
    if run.recipe.weights is None:
        return False
    seen = seen_by_start(run.recipe, run.source.copy_digests())
    return None if seen is None else seen > 0


def _starts_with_pictures(run: TrainedRun) -> bool:
    """Whether a run began with a pretrained encoder of images alone."""
    return start_name(run.recipe) == START_NAMES[0] and run.network.modality == "image"


def _reads_raw_vectors(run: TrainedRun) -> bool:
    """Whether a run reads vectors without standardising them."""
    if encoder_modality(run.recipe.encoder) != "vector":  # others are built when they are needed
        return False
    encoder = run.network.encoder.without_adapter
    return isinstance(encoder, VectorEncoder) and encoder.is_identity


class _StartIsGone(Exception):
    """The encoder that training started from cannot be built any more."""


class OwnSamples:
    """Embeddings of a run's own samples, to learn classifiers and calibrate; made at the first call.

    Of a run on more than 200,000 samples, only as many are embedded as these take: 50,000 training samples
    and 20,000 validation samples (and as many of the split `calib`), drawn evenly over the labels, unless
    the table of all is in the folder.

    Args:
        path: The run folder.
        progress: Called while samples are embedded.
        verify: Read all files of the samples again, and embed them anew.
    """

    def __init__(self, path: str | Path, progress: Progress | None = None, *, verify: bool = False) -> None:
        self._path = path
        self._progress = progress
        self._verify = verify
        self._table: EmbeddingTable | None = None

    def __call__(self) -> EmbeddingTable:
        """The embeddings table."""
        if self._table is None:
            run = load_run(self._path, self._progress, verify=self._verify, encoder="later")
            if len(run.source) <= _ALL or (_is_kept("trained", run) and not self._verify):
                self._table = _kept_table("trained", run, self._progress, verify=self._verify)
            else:
                some = run.source.subset(_some(run.source))
                self._table = embed_source(run.network, some, answers=True, progress=self._progress)
        return self._table


def _some(source: Source) -> Tensor:
    """Rows of training, validation and calibration samples with labels, drawn evenly over the labels."""
    chosen = []
    limits = {"train": MOST_LEARNED, "val": MOST_CALIBRATED, CALIB: MOST_CALIBRATED}
    for split, most in limits.items():
        rows = torch.from_numpy(np.flatnonzero(np.asarray(source.split) == split))
        rows = rows[source.nodes[rows] >= 0]
        chosen.append(stratified_subsample(rows, source.nodes[rows], most, 0))
    return torch.cat(chosen).sort().values


def kept_table(run: TrainedRun) -> EmbeddingTable | None:
    """The table of all samples of a run, if it is in the folder and belongs to the present weights."""
    if not _is_kept("trained", run):
        return None
    return EmbeddingTable.load(run.folder.embeddings("trained"), run.folder.load_taxonomy())


def _is_kept(name: TableName, run: TrainedRun) -> bool:
    """Whether a table is in the folder and belongs to the present weights."""
    file = run.folder.embeddings(name)
    if not file.is_file():
        return False
    digest = _made_by(file)
    if digest:
        return digest == run.weights_digest
    # a table of an older version; a copied run has other times, so that it may be made anew
    return file.stat().st_mtime >= run.folder.encoder.stat().st_mtime


def _made_by(file: Path) -> str:
    """The fingerprint of the weights in an `.npz` table, without reading its columns; empty if unknown."""
    try:
        with np.load(file, allow_pickle=False) as columns:
            return str(columns["encoder_digest"]) if "encoder_digest" in columns else ""
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        return ""  # what is wrong with it is said where it is read


def _kept_table(
    name: TableName, run: TrainedRun, progress: Progress | None, *, verify: bool
) -> EmbeddingTable:
    """A table of a run with its own samples, from the folder or made and kept there."""
    source, file = run.source, run.folder.embeddings(name)
    if verify or not _is_kept(name, run):
        made = replace(_make_table(name, run, progress), encoder_digest=run.weights_digest)
        try:
            made.save(file)
        except WriteError as error:  # a read-only run can still be measured
            if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
                raise
            return replace(made, groups=source.groups)
    # tables of older versions have no groups; the samples are the same, so take the groups of the data
    table = EmbeddingTable.load(file, run.taxonomy)
    kept = dict(source.attributes)
    return replace(table, groups=source.groups, group_names=source.group_names, attributes=kept)


def _make_table(name: TableName, run: TrainedRun, progress: Progress | None) -> EmbeddingTable:
    if name == "raw":
        return raw_table(run.source, run.network.modality)
    if name == "untrained":
        from labeltree.training.experiment import prepare
        from labeltree.training.read_recipes import read_recipe

        try:
            with only_cached():
                start = move_to_usual_device(prepare(read_recipe(run.folder.recipe), run.source).network)
        except (DataError, ImportError) as error:
            raise _StartIsGone(error) from error
        # its head is random: what it searches with, and has class means of, are its features
        return features_as_embeddings(embed_source(start, run.source, adapted=False, progress=progress))
    return embed_source(run.network, run.source, answers=True, progress=progress)


def start_name(recipe: Recipe) -> str:
    """Display name of the encoder before training, from a resolved recipe."""
    if encoder_modality(recipe.encoder) == "vector":
        return START_NAMES[2]
    trained = recipe.pretrained or recipe.weights is not None
    return START_NAMES[0 if trained else 1]


def raw_table(source: Source, modality: Modality, batch_size: int = 512) -> EmbeddingTable:
    """The samples' own values as features and embedding.

    For images: the pixels, centred by channel; larger images are first reduced to 32 pixels per side. For
    texts: tf-idf with sublinear counts over words of two letters or more (over single characters if there are
    no such words), fitted on the training samples and reduced to 256 dimensions by a truncated singular value
    decomposition (latent semantic analysis, Deerwester et al. 1990). For both: one beside the other. For
    vectors: these as they are.
    """
    if source.vectors is not None:
        points = source.vectors.load(source.rows)
        return _table_of(source, points, features=points, geometry="sphere")
    if modality == "both":  # each at length 1, so that neither drowns the other
        sides = (_pixels(source, batch_size), _words(source))
        points = torch.cat([torch.nn.functional.normalize(side, dim=1) for side in sides], 1)
    else:
        points = _words(source) if modality == "text" else _pixels(source, batch_size)
    return _table_of(source, points, features=points, geometry="sphere")


def _train_mask(source: Source) -> np.ndarray[Any, Any]:
    mask: np.ndarray[Any, Any] = np.asarray(source.split) == "train"
    return mask


def _pixels(source: Source, batch_size: int) -> torch.Tensor:
    rows = []
    for positions in torch.arange(len(source)).split(batch_size):  # type: ignore[no-untyped-call]
        images = source.load(positions).float().div(255)
        if images.shape[-1] > 32:
            images = torch.nn.functional.interpolate(images, size=(32, 32), mode="area")
        rows.append(images.flatten(1))
    pixels = torch.cat(rows)
    return pixels - pixels[torch.from_numpy(_train_mask(source))].mean(0)


def _words(source: Source) -> torch.Tensor:
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = np.asarray(source.read(torch.arange(len(source))), dtype=object)
    learned = texts[_train_mask(source)]
    vectorizer = TfidfVectorizer(sublinear_tf=True)
    try:
        vectorizer.fit(learned)
    except ValueError:  # no word of two letters: every character is a word
        vectorizer = TfidfVectorizer(sublinear_tf=True, token_pattern=r"\S").fit(learned)
    words = vectorizer.transform(texts)
    dim = min(_WORDS_DIM, min(words.shape) - 1)
    if dim < 1:
        return torch.from_numpy(words.toarray()).float()
    with np.errstate(invalid="ignore"):  # with a single text, sklearn divides by a variance of 0
        svd = TruncatedSVD(dim, random_state=0).fit(words[_train_mask(source)])
    return torch.from_numpy(svd.transform(words)).float()


def _table_of(source: Source, embeddings: Tensor, **columns: object) -> EmbeddingTable:
    """The table of embeddings `(n, d)`, with the labels and other columns of the source's n samples."""
    paths = source.paths(torch.arange(len(source)))
    nodes, sets = source.nodes, source.label_sets
    if unreadable := getattr(
        source.store, "unreadable", None
    ):  # they have no pixels, and count as unlabelled
        lost = torch.isin(source.rows, torch.tensor(sorted(unreadable)))
        nodes = torch.where(lost, -1, nodes)
        sets = None if sets is None else sets.masked_fill(lost[:, None], -1)
    return EmbeddingTable(
        embeddings=embeddings,
        nodes=nodes,
        split=None if source.split is None else np.asarray(source.split, dtype=str),
        instances=source.instances,
        groups=source.groups,
        group_names=source.group_names,
        attributes=dict(source.attributes),
        paths=np.asarray(paths, dtype=str) if paths else None,
        aspects=source.aspects,
        aspect_taxonomies=source.aspect_taxonomies,
        label_sets=sets,
        **columns,  # type: ignore[arg-type]
    )
