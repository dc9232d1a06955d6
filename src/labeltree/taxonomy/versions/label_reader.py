"""Labels that a person writes one at a time, read as those of a data set were."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from labeltree.taxonomy.files.breadcrumbs import breadcrumbs_of, written_paths
from labeltree.taxonomy.label_index import Label, LabelIndex
from labeltree.taxonomy.named_graph import NamedGraph
from labeltree.taxonomy.naming import join_path, split_path

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["LabelReader"]


@dataclass(frozen=True, eq=False)
class LabelReader:
    """Finds the nodes of labels that are written as those of a data set are.

    Attributes:
        taxonomy: What looks labels up; with `LabelsOfBoth` labels of two versions.
        places: The steps from its nodes to those that are told: for each the `(N,)` next nodes, -1 where
            there is none.
        separator: What separates the names of paths in the data, besides `/`; see `open_table`.
        clean: The names of a label as those of the data are cleaned; None = they are not.
        newest_first: A label that both versions have is one of the new version, not of the old one.
    """

    taxonomy: NamedGraph
    places: tuple[Tensor, ...] = ()
    separator: str | None = None
    clean: Callable[[tuple[str, ...]], tuple[str, ...]] | None = None
    newest_first: bool = False

    def find(self, text: str) -> int:
        """The node of a label, which may be the root; -1 if there is none, or not only one."""
        nodes = self._candidates(text)
        node = nodes[0] if len(nodes) == 1 else -1
        for places in self.places:
            node = int(places[node]) if node >= 0 else -1
        return node

    def then(self, places: Tensor) -> LabelReader:
        """The same labels as nodes of another taxonomy: `places` `(N,)` of the nodes that are told now."""
        return dataclasses.replace(self, places=(*self.places, places))

    def for_texts(self, texts: Sequence[str], pairs: Sequence[tuple[str, int]]) -> LabelReader:
        """The reader that suits labels of one table, which are all of one version.

        They are of the old version if that has more of them than the new one, or as many, and they then fit
        better to what is known; otherwise they are of the new one.

        Args:
            texts: The labels.
            pairs: Labels and the nodes that they were, or -1.
        """
        if len(self.taxonomy.versions) < 2:
            return self
        old, new = (self._count(texts, tree) for tree in self.taxonomy.versions)
        other = dataclasses.replace(self, newest_first=True)
        fits, other_fits = (sum(each.find(text) == node for text, node in pairs) for each in (self, other))
        return self if (old, fits) > (new, other_fits) else other

    def _candidates(self, text: str) -> list[int]:
        for label in self._readings(text):
            newest = self.taxonomy.versions[-1].candidates(label) if self.newest_first else []
            if there := newest or self.taxonomy.candidates(label):
                return there
        return []

    def _count(self, texts: Sequence[str], tree: LabelIndex) -> int:
        """How many texts are labels of a version."""
        return sum(any(map(tree.candidates, self._readings(text))) for text in texts)

    def _readings(self, text: str) -> Iterator[Label]:
        """What a text may mean: itself, paths by the separator of the data, and their names cleaned."""
        yield text
        paths = written_paths(text) if self.separator is None else []
        if self.separator not in (None, "none", "/") and (read := breadcrumbs_of([text], self.separator)):
            paths = [path for path in read.paths if len(path) > 1]
        yield from paths
        if self.clean is not None:
            yield join_path(self.clean(paths[0] if paths else split_path(text)))
