"""The names of a table's distinct labels: cleaned, parsed, with the accepted names of synonyms."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from labeltree.counted_nouns import say_count
from labeltree.data.names.cleaning import Cleaner, Names, merge_spellings
from labeltree.data.names.scientific import ScientificName, plain_text
from labeltree.data.names.synonyms import SynonymTable
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.naming import join_path, some

__all__ = ["LabelNames", "NamedLabels"]

Label = tuple[str | None, ...]


@dataclass
class NamedLabels:
    """Labels with their final names.

    Attributes:
        labels: The labels, in the order of those that were read; () for a label of which nothing is certain.
        notes: Sentences on what was changed, with numbers of rows.
        reasons: For the labels that are coarser than the row says, or missing, why.
    """

    labels: list[Label]
    notes: list[str] = field(default_factory=list)
    reasons: dict[int, str] = field(default_factory=dict)


class LabelNames:
    """How the names of labels are read.

    Args:
        names: `exact`: as they are; `plain`: spellings that differ in case, spaces or the composition of
            Unicode are one name under the same parent; `scientific`: canonical scientific names, see
            `parse_scientific`.
        synonyms: A table of synonyms, or its file; see `SynonymTable.load`.

    Raises:
        DataError: If `names` is unknown, or the synonyms cannot be read.
    """

    def __init__(self, names: Names = "exact", synonyms: SynonymTable | str | Path | None = None) -> None:
        if names not in ("exact", "plain", "scientific"):
            raise DataError(f"names is '{names}'; it must be exact, plain or scientific")
        self.names = names
        self._cleaner = Cleaner(names)
        self._synonyms = (
            SynonymTable.load(synonyms, self._cleaner) if isinstance(synonyms, (str, Path)) else synonyms
        )
        self._known: _Known | None = None

    @property
    def changes(self) -> bool:
        """Whether names may be changed at all."""
        return self.names != "exact" or self._synonyms is not None

    def read(
        self,
        labels: Sequence[Label],
        rows: Sequence[int],
        ranks: Sequence[str] | None = None,
        taxonomy: Taxonomy | None = None,
        whole: bool = True,
    ) -> NamedLabels:
        """The final names of distinct labels.

        Args:
            labels: Names of each label, coarse to fine; None where a coarser one is missing.
            rows: Number of rows of each label.
            ranks: Ranks, or names, of the columns that the labels are from; all labels have this length. None
                for labels from one column.
            taxonomy: The taxonomy of the labels, if it is given: labels take its spelling and its paths.
            whole: Whether these are all labels of a table; if not, as where labels are read one by one, no
                species is learned from them, and synonyms that occur nowhere are not told.
        """
        named = NamedLabels(list(labels))
        if not self.changes:
            return named
        known = None if taxonomy is None else self._known_of(taxonomy)
        if self.names == "scientific":
            if whole:
                self._cleaner.learn([name for label in labels for name in label if name is not None])
            self._parse(named, rows, ranks)
        else:
            clean = self._cleaner.clean
            named.labels = [tuple(name and clean(name) for name in label) for label in named.labels]
        if self._synonyms is not None:
            self._accept(named, rows, ranks, known, self._synonyms, whole)
        if known is not None and ranks is None:
            named.labels = [
                known.in_column(label, whole_name=len(given) == 1 or len(label) == 1)
                for label, given in zip(named.labels, labels, strict=True)
            ]
        elif known is not None:
            named.labels = [known.in_columns(label) for label in named.labels]
        elif self.names != "exact":
            named.labels, changed = merge_spellings(named.labels, rows, self._cleaner)
            if changed:
                named.notes.append(
                    f"in {say_count(changed, 'row')} the spelling of a name (case, sign of a hybrid) was "
                    "made the most frequent one under the same parent"
                )
        return named

    def read_one(self, names: tuple[str, ...], taxonomy: Taxonomy) -> tuple[str, ...]:
        """The final names of a single label, coarse to fine, in the spelling of the taxonomy."""
        (label,) = self.read([names], [1], taxonomy=taxonomy, whole=False).labels
        return tuple(name for name in label if name is not None)

    def _known_of(self, taxonomy: Taxonomy) -> _Known:
        if self._known is None or self._known.taxonomy is not taxonomy:
            if self.names == "scientific":
                self._cleaner.learn([name for tree in taxonomy.versions for name in tree.names])
            self._known = _Known(taxonomy, self._cleaner)
        return self._known

    def _parse(self, named: NamedLabels, rows: Sequence[int], ranks: Sequence[str] | None) -> None:
        cut, uncertain, unknown = 0, Counter[str](), Counter[str]()
        for number, label in enumerate(named.labels):
            reader = _Reader(self._cleaner)
            new = reader.in_column(label) if ranks is None else reader.in_columns(label, ranks)
            cut += rows[number] if reader.cut else 0
            if reader.mark:
                uncertain[reader.mark] += rows[number]
                named.reasons[number] = (
                    f"the name '{reader.text}' is uncertain, so the label is coarser or missing"
                )
            for name in reader.unknown:
                unknown[name] += rows[number]
            named.labels[number] = new
        width = max((len(label) for label in named.labels), default=0)
        if ranks is not None:  # a place more if there are names below the last column
            named.labels = [label + (None,) * (width - len(label)) for label in named.labels]
        if cut:
            named.notes.append(
                f"in {say_count(cut, 'row')} authorship and other additions to names were cut off"
            )
        if uncertain:
            signs = ", ".join(f"{sign} ({count:,})" for sign, count in uncertain.most_common(5))
            named.notes.append(
                f"in {say_count(sum(uncertain.values()), 'row')} the name is uncertain, and the label ends "
                f"at the finest certain name, mostly the genus: {signs}"
            )
        if unknown:
            named.notes.append(
                f"names that are not scientific stay as they are: {len(unknown):,} in "
                f"{say_count(sum(unknown.values()), 'row')}, "
                f"{some([name for name, _ in unknown.most_common()])}"
            )

    def _accept(
        self,
        named: NamedLabels,
        rows: Sequence[int],
        ranks: Sequence[str] | None,
        known: _Known | None,
        synonyms: SynonymTable,
        whole: bool,
    ) -> None:
        above = _Above(named.labels, synonyms, self._cleaner)
        used: Counter[tuple[str, ...]] = Counter()
        renamed = 0
        for number, label in enumerate(named.labels):
            new, keys = self._accept_label(label, synonyms, above, ranks, known)
            if keys:
                named.labels[number] = new
                renamed += rows[number]
                used.update(keys)
        if not whole:
            return
        absent = [name for key, name in synonyms.synonyms.items() if key not in used]
        more = f"; {len(absent):,} more occur in no row: {some(absent)}" if absent else ""
        named.notes.append(
            f"{say_count(len(used), 'synonym')} in {say_count(renamed, 'row')} "
            f"replaced by accepted names{more}"
        )

    def _accept_label(
        self,
        label: Label,
        synonyms: SynonymTable,
        above: _Above,
        ranks: Sequence[str] | None,
        known: _Known | None,
    ) -> tuple[Label, list[tuple[str, ...]]]:
        """A label with accepted names, and the synonyms that it had."""
        names, keys = list(label), []
        place = 0
        while place < len(names):
            name = names[place]
            path = [part for part in names[: place + 1] if part is not None]
            match = None if name is None else synonyms.accepted(path)
            if name is None or match is None:
                place += 1
                continue
            key, target = match
            keys.append(key)
            new = _place(names[:place], name, len(key), target, above, ranks, known)
            finer = [
                target[-1] + part[len(name) :] if part is not None and self._is_of(part, name) else part
                for part in names[place + 1 :]
            ]
            names = [*new, *finer]
            place = len(new)
        return tuple(names), keys

    def _is_of(self, part: str, name: str) -> bool:
        """Whether a name is that of a species in the genus, or of a subspecies of the species `name`."""
        if self.names != "scientific" or not part.startswith(f"{name} "):
            return False
        parsed = self._cleaner.parse(part)
        return parsed is not None and name in parsed.path[:-1]


class _Reader:
    """Reads one label with scientific names.

    Attributes:
        text: The uncertain name, as it is written.
        mark: The sign that makes it uncertain.
        cut: Whether something was left out of a name.
        unknown: Names that are not scientific.
    """

    def __init__(self, cleaner: Cleaner) -> None:
        self._cleaner = cleaner
        self.text = self.mark = ""
        self.cut = False
        self.unknown: list[str] = []

    def in_column(self, label: Label) -> Label:
        """The path of a label from one column: the genus becomes the node above its species."""
        names = [name for name in label if name is not None]
        path: list[str] = []
        if len(names) > 1 and names[-1].islower() and " " not in names[-1].strip():
            pair = f"{names[-2]}/{names[-1]}"  # Larus argentatus/fuscus, one of the two, is no path
            if (parsed := self._cleaner.parse(pair)) is not None and parsed.uncertain == "/":
                names = [*names[:-2], pair]
        for name in names:
            parsed = self._parse_name(name)
            if parsed is None:
                path.append(plain_text(name))
                continue
            path += [part for part in parsed.path if part not in path]
            if parsed.uncertain:
                break
        return tuple(path)

    def in_columns(self, label: Label, ranks: Sequence[str]) -> Label:
        """The names of a label from one column per rank; a place longer with a name below the last one."""
        names: list[str | None] = []
        last = len(label) - 1
        below: tuple[str, ...] = ()
        for place, (cell, rank) in enumerate(zip(label, ranks, strict=False)):
            parsed = None if cell is None else self._parse_name(cell)
            if cell is None or parsed is None:
                names.append(None if cell is None else plain_text(cell))
                continue
            if len(parsed.path) > 1 or parsed.uncertain:
                _fill(names, ranks, parsed)
            if parsed.uncertain:
                depth = {"genus": 0, "species": 1, "subspecies": 2}.get(rank, 1 if place == last else 0)
                names.append(parsed.path[depth] if depth < len(parsed.path) else None)
                break
            depth = (
                1 if (rank == "species" or place == last) and rank != "subspecies" else len(parsed.path) - 1
            )
            name = parsed.path[min(depth, len(parsed.path) - 1)]
            names.append(None if name in names else name)
            if place == last:
                below = parsed.path[depth + 1 :]
            elif rank == "species" and len(parsed.path) > 2 and label[place + 1] is None:
                names += parsed.path[-1:]
                break
        names += [None] * (len(label) - len(names))
        return (*names, *below[-1:])

    def _parse_name(self, text: str) -> ScientificName | None:
        name = self._cleaner.parse(text)
        if name is None:
            self.unknown.append(plain_text(text))
            return None
        self.cut |= name.cut
        if name.uncertain and not self.mark:
            self.mark, self.text = name.uncertain, plain_text(text)
        return name


def _fill(names: list[str | None], ranks: Sequence[str], name: ScientificName) -> None:
    """Fill in the genus and the species that a finer name tells, where they are missing."""
    for place, rank in enumerate(ranks[: len(names)]):
        depth = {"genus": 0, "species": 1}.get(rank)
        certain = len(name.path) if name.uncertain else len(name.path) - 1
        if depth is not None and names[place] is None and depth < certain:
            names[place] = name.path[depth]


class _Above:
    """The names above accepted names in the labels."""

    def __init__(self, labels: Sequence[Label], synonyms: SynonymTable, cleaner: Cleaner) -> None:
        self._cleaner = cleaner
        self._found: defaultdict[str, set[Label]] = defaultdict(set)
        for label in labels:
            path: list[str] = []
            for place, name in enumerate(label):
                if name is None:
                    continue
                path.append(name)
                if synonyms.accepted(path) is None:
                    self._found[cleaner.key(name)].add(label[:place])

    def of(self, name: str) -> Label | None:
        """What lies above a name, if all labels with it agree."""
        paths = self._found.get(self._cleaner.key(name), set())
        return next(iter(paths)) if len(paths) == 1 else None


def _place(
    coarser: list[str | None],
    name: str,
    replaced: int,
    target: tuple[str, ...],
    above: _Above,
    ranks: Sequence[str] | None,
    known: _Known | None,
) -> list[str | None]:
    """The names down to an accepted one that takes the place of a synonym of so many names."""
    place = len(coarser)
    if len(target) > 1 and ranks is None:
        if target[0] in coarser:
            return [*coarser[: coarser.index(target[0])], *target]
        return [*coarser[: place + 1 - replaced], *target] if replaced > 1 else list(target)
    if len(target) > place + 1:
        raise DataError(
            f"the accepted name '{join_path(target)}' of '{name}' has {len(target)} names, but there are "
            f"{place + 1} columns down to it; write as many names as there are columns"
        )
    if len(target) > 1:
        return [*coarser[: place + 1 - len(target)], *target]
    accepted = target[0]
    path = None if known is None else known.only(accepted)
    if path is not None:
        return [*path] if ranks is None else [*(part if part in path else None for part in coarser), path[-1]]
    others = above.of(accepted)
    if others is not None and (ranks is None or len(others) == place):
        return [*others, accepted]
    words, new_words = name.split(" "), accepted.split(" ")
    if coarser and coarser[-1] == words[0] != new_words[0] and len(new_words) > 1:
        coarser = [*coarser[:-1], new_words[0]]  # the genus of a species
    return [*coarser, accepted]


class _Known:
    """The nodes of a given taxonomy, or of both versions that it reads, by their names as they are compared.

    The older version comes first, as where labels are read as they are: the newer one's are sought only for
    names that the older one lacks.
    """

    def __init__(self, taxonomy: Taxonomy, cleaner: Cleaner) -> None:
        self.taxonomy, self._cleaner = taxonomy, cleaner
        self._trees = taxonomy.versions
        self._nodes: list[defaultdict[str, list[int]]] = [defaultdict(list) for _ in self._trees]
        for tree, nodes in zip(self._trees, self._nodes, strict=True):
            for node in range(1, len(tree.names)):
                nodes[cleaner.key(tree.names[node])].append(node)

    def _paths(self, name: str) -> list[list[tuple[str, ...]]]:
        """The paths of all nodes with a name, in each version."""
        key = self._cleaner.key(name)
        trees = zip(self._trees, self._nodes, strict=True)
        return [[tree.path(node) for node in nodes.get(key, ())] for tree, nodes in trees]

    def only(self, name: str) -> tuple[str, ...] | None:
        """The path of the only node with a name."""
        paths = next(filter(None, self._paths(name)), [])
        return paths[0] if len(paths) == 1 else None

    def in_column(self, label: Label, whole_name: bool) -> Label:
        """The path of the node that a label from one column means; the label itself if it is not certain.

        Where the label was written as one name (`whole_name`), names that the parser put above it need not
        be in the taxonomy.
        """
        path = self._fitting(label)
        if path is None and whole_name and label and label[-1]:
            path = self.only(label[-1])
        return path or label

    def in_columns(self, label: Label) -> Label:
        """A label from columns of ranks in the spelling of the taxonomy."""
        path = self._fitting(label)
        if path is None:
            return label
        spelling = {self._cleaner.key(name): name for name in path}
        return tuple(name and spelling[self._cleaner.key(name)] for name in label)

    def _fitting(self, label: Label) -> tuple[str, ...] | None:
        """The path of the only node with the last name whose path has the others in their order."""
        names = [name for name in label if name is not None]
        if not names:
            return None
        keys = [self._cleaner.key(name) for name in names]
        for paths in self._paths(names[-1]):
            fitting = [path for path in paths if _are_in_order(keys, list(map(self._cleaner.key, path)))]
            same = [path for path in fitting if path == tuple(names)]
            if chosen := same or fitting:
                return chosen[0] if len(chosen) == 1 else None
        return None


def _are_in_order(names: Sequence[str], path: Sequence[str]) -> bool:
    left = iter(path)
    return all(name in left for name in names)
