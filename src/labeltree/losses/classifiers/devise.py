"""DeViSE: embeddings are trained towards the word vectors of their classes' names, read from a file."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from labeltree.atomic import atomic_write
from labeltree.checks import check_choice
from labeltree.geometry.precision import answer_dtype
from labeltree.losses.batch import check_batch, check_width, follow_device
from labeltree.losses.classifiers.classes import class_members, class_nodes, class_ranges
from labeltree.losses.loss_base import Loss
from labeltree.losses.reduction import labelled_mean
from labeltree.safe_files import Reader, read_arrays
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.class_embeddings import means_of_classes

__all__ = ["DeViSELoss", "name_forms", "name_vector", "read_word_vectors"]

_VECTORS = Reader("word vectors", "expected arrays 'words' and 'vectors'")


def name_forms(name: str) -> tuple[list[str], list[str]]:
    """The spellings of a name that a vocabulary may have, in order of preference, and the words of the name.

    Example:
        >>> name_forms("Ankle boot")
        (['Ankle boot', 'ankle boot', 'ankle_boot', 'ankle-boot'], ['ankle', 'boot'])
    """
    words = [word for word in re.split(r"[\W_]+", name.lower()) if word]
    wholes = [name, name.lower(), "_".join(words), "-".join(words)]
    return list(dict.fromkeys(whole for whole in wholes if whole)), words


def name_vector(name: str, vectors: Mapping[str, Tensor]) -> Tensor | None:
    """The unit vector of a name: the vector of the whole name if it has one, else the mean over its words.

    Words without a vector are left out. Returns None if no word has a vector, or if the mean is 0.

    Args:
        name: The name of a class.
        vectors: The vector `(d,)` of each word.
    """
    wholes, words = name_forms(name)
    known = [vectors[whole] for whole in wholes if whole in vectors][:1]
    known = known or [vectors[word] for word in words if word in vectors]
    if not known:
        return None
    mean = torch.stack(known).mean(0)
    length = mean.norm()
    return mean / length if length > 1e-12 else None


def read_word_vectors(path: str | Path, words: Iterable[str]) -> dict[str, Tensor]:
    """Read the vectors `(d,)` float64 of some words from a file; words not in the file are left out.

    Args:
        path: Text in UTF-8, one line `word v1 … vd` a word, a line `n d` before them or not (GloVe's,
            word2vec's and fastText's formats); or `.npz` with `words (n,)`, text or its UTF-8 bytes, and
            `vectors (n, d)`. If a word occurs twice, the first vector counts.
        words: The words to look for.

    Raises:
        ValueError: The file is missing or unreadable, or the vector of one of the words has another width or
            non-finite values; the message names the file and the word.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"there is no file of word vectors '{path}'")
    wanted = set(words)
    read = _read_arrays if path.suffix == ".npz" else _read_text
    vectors: dict[str, Tensor] = {}
    width: int | None = None
    for word, values in read(path, wanted):
        if word in vectors:
            continue
        if width not in (None, len(values)):
            raise ValueError(
                f"'{path}' has {len(values)} numbers for the word '{word}', and {width} for others"
            )
        width = len(values)
        if not bool(values.isfinite().all()):
            raise ValueError(f"'{path}' has values that are not finite for the word '{word}'")
        vectors[word] = values
    return vectors


def _read_arrays(path: Path, wanted: set[str]) -> Iterator[tuple[str, Tensor]]:
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


def _read_text(path: Path, wanted: set[str]) -> Iterator[tuple[str, Tensor]]:
    width: int | None = None
    # Lines end at \n alone: other line separators may be words of the vocabulary.
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


class DeViSELoss(Loss):
    """A hinge loss that ranks the true class's word vector above all others (Eq. 1 of Frome et al. 2013).

        L_i = Σ_{c≠y_i} [ m − t(y_i)·z_i + t(c)·z_i ]₊

    z_i is the embedding of row i, not normalised (in the paper a linear map of the features); t(c) is the
    word vector of the name of class c, fixed and of length 1. The classes are the leaves. Beyond the paper:

    - a name that the file lacks has the mean of its words' vectors; unknown words are left out;
    - a class without a known word takes the vector of its nearest ancestor that has one, the root excepted;
      if there is none, the class is left out, with its samples;
    - classes with equal vectors do not compete with one another;
    - the target of an inner node is the normalised mean of its classes' vectors, and those do not compete.

    Args:
        taxonomy: The tree of the labels.
        vectors: The file of word vectors, see `read_word_vectors`. In `labeltree train`, None means the GloVe
            vectors that `labeltree data get glove-50d` has fetched.
        margin: m.
        negatives: `"all"` sums over all other classes (the code of Barz & Denzler 2019); `"one"` takes one of
            those that violate the margin, at random, as Frome et al. found faster.
        dim: The width of the embeddings, which must be that of the vectors; None: not checked.

    Attributes:
        dim: The width of the word vectors.
        classes: `(C,)` int64, the leaf nodes.
        targets: `(N, dim)` float64, the target t of a label at each node; 0 if it has none.
        alike: `(N,)` int64, the same number for nodes with equal targets (to nine decimals).

    Call with `embeddings (n, dim)` and `nodes (n,)`, −1 where missing. The mean is over rows whose label has
    a target, of all ranks in training; without any it is exactly 0. The root counts as missing.

    Raises:
        ValueError: No file or none that can be read, a file that knows no class, a width that is not `dim`,
            an argument of the wrong shape or type, or a node that is not in the taxonomy.
    """

    label_sets = "rows"
    classes: Tensor
    ranges: Tensor
    targets: Tensor
    alike: Tensor

    def __init__(
        self,
        taxonomy: Taxonomy,
        vectors: str | None = None,
        margin: float = 0.1,
        *,
        negatives: Literal["all", "one"] = "all",
        dim: int | None = None,
    ) -> None:
        super().__init__()
        check_choice("negatives", negatives, Literal["all", "one"])
        if not margin >= 0:
            raise ValueError(f"margin must not be negative; got {margin}")
        self.margin = margin
        self.negatives = negatives
        self.vectors = self.default_vectors() if vectors is None else str(vectors)
        targets = _targets(taxonomy, self.vectors)
        self.dim = targets.shape[1]
        if dim not in (None, self.dim):
            raise ValueError(
                f"dim is {dim}, but the word vectors of '{self.vectors}' have {self.dim} numbers"
            )
        self._taxonomy = taxonomy
        classes = class_nodes(taxonomy)
        self.register_buffer("classes", classes, persistent=False)
        self.register_buffer("ranges", class_ranges(taxonomy, classes), persistent=False)
        alike = torch.unique(targets.round(decimals=9), dim=0, return_inverse=True)[1]
        # Both are kept: the file may change after training.
        self.register_buffer("targets", targets)
        self.register_buffer("alike", alike)

    @staticmethod
    def default_vectors() -> str:
        """The file to read if `vectors` is None; raises an error unless a subclass provides one."""
        raise ValueError(
            "vectors is missing; name a file of word vectors, such as the one that 'labeltree data get "
            "glove-50d' brings"
        )

    def save_vectors(self, path: str | Path) -> None:
        """Write the word vectors of the taxonomy's names to `path` (`.npz`), which `vectors` can name."""
        by_word = _vectors_of(self._taxonomy, self.vectors)
        with atomic_write(path) as temporary:
            np.savez_compressed(
                temporary,
                words=np.array(list(by_word), dtype=np.str_),
                vectors=torch.stack(list(by_word.values())).numpy(),
            )

    def forward(self, embeddings: Tensor, nodes: Tensor) -> Tensor:
        """The loss of a batch, a scalar; see the class."""
        checked, _ = check_batch(embeddings, nodes, None, len(self.targets), self)
        self._check_width(embeddings)
        if checked is None:
            raise ValueError(f"nodes must be an integer tensor of shape ({len(embeddings)},); got None")
        targets = self.targets[checked.clamp(min=0)]
        labelled = (checked > 0) & targets.any(1)
        of_classes = self.targets[self.classes]
        competes = ~class_members(checked, self.ranges, len(self.classes)) & of_classes.any(1)
        competes &= self.alike[checked.clamp(min=0)][:, None] != self.alike[self.classes]
        with torch.autocast(embeddings.device.type, enabled=False):
            points = embeddings.to(answer_dtype(embeddings))
            own = (points * targets.to(points.dtype)).sum(1, keepdim=True)
            hinge = (self.margin - own + points @ of_classes.to(points.dtype).T).clamp(min=0)
            hinge = hinge.masked_fill(~competes, 0.0)
            if self.negatives == "one":
                order = torch.rand_like(hinge.detach()).masked_fill(hinge.detach() <= 0, -1.0)
                rows = hinge.gather(1, order.argmax(1, keepdim=True))[:, 0]
            else:
                rows = hinge.sum(1)
            return labelled_mean(rows, labelled, over_ranks=self.training)

    @torch.no_grad()
    def predict(self, embeddings: Tensor) -> Tensor:
        """The class whose word vector has the largest inner product with each row, `(n,)` int64.

        Ties go to the first. A class without a vector is never predicted.
        """
        return self.classes[self.logits(embeddings).argmax(1)]

    @torch.no_grad()
    def logits(self, embeddings: Tensor) -> Tensor:
        """The score of each class, `(n, C)`: the inner product of each row with the word vector of the class.

        A class without a vector gets a score far below all others.
        """
        self._check_width(embeddings)
        of_classes = self.targets[self.classes]
        with torch.autocast(embeddings.device.type, enabled=False):
            points = embeddings.to(answer_dtype(embeddings))
            scores = points @ of_classes.to(points.dtype).T
            return torch.where(of_classes.any(1), scores, scores.amin(1, keepdim=True) - 1e3)

    def _check_width(self, embeddings: Tensor) -> None:
        check_width(embeddings, self.dim, "the width of the word vectors")
        follow_device(self, self.targets, embeddings.device)


def _vectors_of(taxonomy: Taxonomy, path: str) -> dict[str, Tensor]:
    words = {form for name in taxonomy.names for forms in name_forms(name) for form in forms}
    return read_word_vectors(path, words)


def _targets(taxonomy: Taxonomy, path: str) -> Tensor:
    """The unit target of a label at each node, `(N, d)` float64; 0 if it has none."""
    vectors = _vectors_of(taxonomy, path)
    named = [None, *(name_vector(name, vectors) for name in taxonomy.names[1:])]  # the root's is no class
    parent = taxonomy.parent.tolist()
    leaves, class_vectors, borrowed, without = [], [], [], []
    for leaf in taxonomy.leaves.tolist():
        node = leaf
        while node and named[node] is None:
            node = parent[node]
        vector = named[node]
        if vector is None:
            without.append(leaf)
            continue
        if node != leaf:
            borrowed.append(leaf)
        leaves.append(leaf)
        class_vectors.append(vector)
    if not class_vectors:
        raise ValueError(
            f"'{path}' has no vector for any word of the {taxonomy.num_leaves} classes, such as "
            f"{', '.join(repr(taxonomy.names[leaf]) for leaf in taxonomy.leaves[:3].tolist())}"
        )
    for which, what in ((borrowed, "take that of an ancestor"), (without, "are left out")):
        if which:
            names = ", ".join(taxonomy.path_name(leaf) for leaf in which[:5])
            more = f" and {len(which) - 5} more" if len(which) > 5 else ""
            warnings.warn(
                f"{len(which)} of {taxonomy.num_leaves} classes have no word vector in '{path}' and {what}: "
                f"{names}{more}",
                stacklevel=3,
            )
    return means_of_classes(taxonomy, torch.stack(class_vectors), torch.tensor(leaves))
