"""Word vectors from a file, and from them the vectors of names that may have several words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from labeltree.safe_files import Reader, read_arrays

__all__ = ["name_forms", "name_vector", "read_word_vectors"]

_VECTORS = Reader("word vectors", "expected arrays 'words' and 'vectors'")


def name_forms(name: str) -> tuple[list[str], list[str]]:
    """What a name may be called in a vocabulary: as a whole, in the order of preference, and its words.

    Example:
        >>> name_forms("Ankle boot")
        (['Ankle boot', 'ankle boot', 'ankle_boot', 'ankle-boot'], ['ankle', 'boot'])
    """
    words = [word for word in re.split(r"[\W_]+", name.lower()) if word]
    wholes = [name, name.lower(), "_".join(words), "-".join(words)]
    return list(dict.fromkeys(whole for whole in wholes if whole)), words


def name_vector(name: str, vectors: Mapping[str, Tensor]) -> Tensor | None:
    """The vector of a name at length 1: that of the whole name if it has one, else the mean of its words'.

    Words without a vector do not count. None if nothing is left, or what is left adds up to 0.

    Args:
        name: of a class.
        vectors: words and their vectors `(d,)`.
    """
    wholes, words = name_forms(name)
    found = [vectors[whole] for whole in wholes if whole in vectors][:1]
    found = found or [vectors[word] for word in words if word in vectors]
    if not found:
        return None
    mean = torch.stack(found).mean(0)
    length = mean.norm()
    return mean / length if length > 1e-12 else None


def read_word_vectors(path: str | Path, words: Iterable[str]) -> dict[str, Tensor]:
    """The vectors `(d,)` float64 of those of the words that a file has.

    Args:
        path: text in UTF-8, one line `word v1 … vd` a word, a line `n d` before them or not (GloVe's,
            word2vec's and fastText's formats); or `.npz` with `words (n,)`, text or its UTF-8 bytes, and
            `vectors (n, d)`. Of a word that is there twice, the first counts.
        words: which to look for.

    Raises:
        ValueError: the file is missing, unreadable, or a vector that is wanted has another width or values
            that are not finite numbers; the message names the file and the word.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"there is no file of word vectors '{path}'")
    wanted = set(words)
    read = _from_arrays if path.suffix == ".npz" else _from_text
    found: dict[str, Tensor] = {}
    width: int | None = None
    for word, values in read(path, wanted):
        if word in found:
            continue
        if width not in (None, len(values)):
            raise ValueError(
                f"'{path}' has {len(values)} numbers for the word '{word}', and {width} for others"
            )
        width = len(values)
        if not bool(values.isfinite().all()):
            raise ValueError(f"'{path}' has values that are not finite for the word '{word}'")
        found[word] = values
    return found


def _from_arrays(path: Path, wanted: set[str]) -> Iterator[tuple[str, Tensor]]:
    arrays = read_arrays(path, _VECTORS)
    if not {"words", "vectors"} <= arrays.keys():
        raise _VECTORS.failure(path, f"it has {sorted(arrays)[:5]}")
    words, vectors = arrays["words"], arrays["vectors"]
    if (
        words.ndim != 1
        or vectors.ndim != 2
        or len(words) != len(vectors)
        or words.dtype.kind not in "US"
        or vectors.dtype.kind not in "fiu"
    ):
        raise ValueError(
            f"'{path}' has words of shape {words.shape} and type {words.dtype}, and vectors of shape "
            f"{vectors.shape}; expected (n,) text and (n, d)"
        )
    if not len(wanted):
        return
    keys = sorted(wanted)
    asked = np.array([key.encode() for key in keys] if words.dtype.kind == "S" else keys)
    for row in np.flatnonzero(np.isin(words, asked)).tolist():
        word = words[row].decode() if words.dtype.kind == "S" else str(words[row])
        yield word, torch.from_numpy(vectors[row].astype(np.float64))


def _from_text(path: Path, wanted: set[str]) -> Iterator[tuple[str, Tensor]]:
    width: int | None = None
    # Lines end at \n alone: a vocabulary may hold other separators as words.
    with path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
        for number, line in enumerate(lines, 1):
            if width is None:
                first = line.split()
                if number == 1 and len(first) == 2 and all(part.isdecimal() for part in first):
                    width = int(first[1])
                    continue
                width = len(first) - 1
            word = re.split(r"[ \t]", line, maxsplit=1)[0]
            if word not in wanted:
                continue
            parts = line.split()
            if len(parts) > width + 1:  # the vocabulary has words with blanks: this is not the word
                continue
            try:
                values = [float(part) for part in parts[1:]]
            except ValueError:
                values = []
            if len(values) != width or not width:
                raise ValueError(
                    f"line {number} of '{path}' is not a word and {width or 'its'} numbers: {line[:40]!r}"
                )
            yield word, torch.tensor(values, dtype=torch.float64)
