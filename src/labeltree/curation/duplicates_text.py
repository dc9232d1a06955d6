"""Near duplicates as text for a terminal, as CSV and as JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from labeltree.counted_nouns import say_count
from labeltree.curation.duplicates import SHARE, DuplicatePair, Duplicates, percent_of
from labeltree.options.choices import Format
from labeltree.taxonomy import Taxonomy

__all__ = ["DuplicateNames", "duplicates_text", "unlisted"]

_SHOWN = 10


class DuplicateNames:
    """What is said of the samples beside their numbers.

    Args:
        ids: Of the n samples.
        nodes: Labels of the samples, -1 where missing; None: no labels.
        taxonomy: Of the labels.
        splits: Split of each sample; None: no splits.
        groups: Group of each sample; None: no groups.
        paths: File of each sample; None: no files.
    """

    def __init__(
        self,
        ids: Sequence[str],
        nodes: Sequence[int] | None = None,
        taxonomy: Taxonomy | None = None,
        splits: Sequence[str | None] | None = None,
        groups: Sequence[str | None] | None = None,
        paths: Sequence[str | None] | None = None,
    ) -> None:
        self.ids, self._nodes, self._taxonomy = ids, nodes, taxonomy
        self._splits, self._groups, self._paths = splits, groups, paths

    def of(self, row: int) -> dict[str, str | None]:
        """Id, file, split, label and group of a sample, None where there is none."""
        node = -1 if self._nodes is None else int(self._nodes[row])
        known = node >= 0 and self._taxonomy is not None
        return {
            "id": self.ids[row],
            "path": (self._paths[row] or None) if self._paths is not None else None,
            "split": (self._splits[row] or None) if self._splits is not None else None,
            "label": self._taxonomy.path_name(node) if known and self._taxonomy is not None else None,
            "group": (self._groups[row] or None) if self._groups is not None else None,
        }


def duplicates_text(duplicates: Duplicates, names: DuplicateNames, form: Format = "table") -> str:
    """What was found, ending in a line break.

    Args:
        duplicates: The duplicates.
        names: Of the samples.
        form: `table`: findings in sentences, with the closest pairs; `csv`: a row for each listed pair;
            `json`: everything, with the sets.
    """
    if form == "json":
        return json.dumps(_document(duplicates, names), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if form == "csv":
        out = io.StringIO()
        writer = csv.DictWriter(out, list(_COLUMNS), lineterminator="\n")
        writer.writeheader()
        writer.writerows(_pair(pair, duplicates, names) for pair in duplicates.pairs)
        return out.getvalue()
    return "\n".join([*_sentences(duplicates), *_closest(duplicates, names)]) + "\n"


_USUALLY = (
    "found are samples of almost equal embeddings, such as a picture saved again as JPEG of quality 90 or "
    "more; copies of lower quality or other sizes, and crops, are mostly not found (--threshold finds more)"
)
"""What the usual threshold finds and what it does not, so that nothing is taken for excluded."""
_COLUMNS = (
    "set", "distance", "identical", "labels_differ", "first", "first_path", "first_split", "first_label",
    "first_group",
    "second", "second_path", "second_split", "second_label", "second_group",
)  # fmt: skip


def _pair(pair: DuplicatePair, duplicates: Duplicates, names: DuplicateNames) -> dict[str, Any]:
    row: dict[str, Any] = {
        "set": int(duplicates.sets[pair.first]),
        "distance": pair.distance,
        "identical": pair.identical,
        "labels_differ": pair.labels_differ,
    }
    for side, sample in (("first", pair.first), ("second", pair.second)):
        said = names.of(sample)
        row[side] = said.pop("id")
        row |= {f"{side}_{name}": value for name, value in said.items()}
    return row


def _document(duplicates: Duplicates, names: DuplicateNames) -> dict[str, Any]:
    members: list[list[str]] = [[] for _ in range(duplicates.num_sets)]
    for row, number in enumerate(duplicates.sets.tolist()):
        if number >= 0:
            members[number].append(names.ids[row])
    return {
        "samples": duplicates.samples,
        "geometry": duplicates.geometry,
        "threshold": duplicates.threshold,
        "threshold_from": duplicates.how,
        "pairs_found": duplicates.num_pairs,
        "superfluous": duplicates.superfluous,
        "leaks": [dict(vars(leak)) for leak in duplicates.leaks],
        "different_labels": duplicates.different_labels,
        "across_groups": duplicates.across_groups,
        "pairs": [_pair(pair, duplicates, names) for pair in duplicates.pairs],
        "sets": members,
    }


def unlisted(duplicates: Duplicates) -> list[str]:
    """A sentence that there are more pairs than are listed, if so."""
    if len(duplicates.pairs) == duplicates.num_pairs:
        return []
    return [
        f"{len(duplicates.pairs):,} of the {duplicates.num_pairs:,} pairs are listed, those across splits "
        "first; --pairs N lists more"
    ]


def _sentences(duplicates: Duplicates) -> list[str]:
    lines = []
    for leak in duplicates.leaks:
        if leak.split == "train":  # the same pairs, seen from the other side
            continue
        what = "leakage: " if leak.other == "train" else ""
        lines.append(
            f"{what}{leak.samples:,} of the {leak.of:,} samples of {leak.split} "
            f"({percent_of(leak.samples, leak.of)}) have a near duplicate in {leak.other} "
            f"({say_count(leak.pairs, 'pair')})"
        )
    if not lines and duplicates.num_pairs:
        lines.append("no near duplicates across splits within the distance below")
    if duplicates.num_pairs:
        lines.append(
            f"{say_count(duplicates.num_pairs, 'pair')} in "
            f"{say_count(duplicates.num_sets, 'set')}, the largest of {duplicates.largest_set:,} samples; "
            f"if one of each set stays, {duplicates.superfluous:,} of {duplicates.samples:,} samples go"
        )
    else:
        lines.append(f"no near duplicates among {duplicates.samples:,} samples within the distance below")
    if duplicates.different_labels:
        lines.append(f"{duplicates.different_labels:,} of the pairs have labels that exclude each other")
    if duplicates.across_groups:
        lines.append(f"{duplicates.across_groups:,} of the pairs are of two groups")
    lines += unlisted(duplicates)
    equal = sum(pair.identical is True for pair in duplicates.pairs)
    if equal:
        listed = f" of the {len(duplicates.pairs):,} listed" if unlisted(duplicates) else ""
        lines.append(f"{equal:,}{listed} pairs have contents that are equal in every byte")
    distance = {"sphere": "chord √(2 − 2·cosine)", "poincare": "hyperbolic"}.get(
        duplicates.geometry, "Euclidean"
    )
    lines.append(f"near: a distance of at most {duplicates.threshold:.4g} ({distance}), {duplicates.how}")
    return [*lines, *([_USUALLY] if duplicates.how.startswith(f"{SHARE} times") else [])]


def _closest(duplicates: Duplicates, names: DuplicateNames) -> list[str]:
    """The pairs that matter most: across splits, then with other labels, then the rest, closest first."""
    described = [(pair, names.of(pair.first), names.of(pair.second)) for pair in duplicates.pairs[:10_000]]

    def rank(entry: tuple[DuplicatePair, dict[str, str | None], dict[str, str | None]]) -> tuple[bool, bool]:
        pair, first, second = entry
        across = bool(first["split"] and second["split"]) and first["split"] != second["split"]
        return not across, not pair.labels_differ

    described.sort(key=rank)
    if not described:
        return []
    lines = [["distance", "sample", "split", "label", "near duplicate", "split", "label", ""]]
    for pair, first, second in described[:_SHOWN]:
        notes = ["equal contents"] * (pair.identical is True) + ["other label"] * pair.labels_differ
        cells = [f"{pair.distance:.4g}"]
        for said in (first, second):
            cells += [_short(said["path"] or said["id"]), said["split"] or "–", _short(said["label"])]
        lines.append([*cells, ", ".join(notes)])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    table = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
    rest = len(duplicates.pairs) - len(lines) + 1
    return ["", *table, *([f"… and {rest:,} more; --format csv or json lists them"] if rest > 0 else [])]


def _short(text: str | None, widest: int = 36) -> str:
    words = " ".join((text or "–").split())
    return words if len(words) <= widest else f"…{words[1 - widest :]}"
