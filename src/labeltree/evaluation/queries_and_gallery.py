"""Which samples are searched among which, the queries and the gallery, and which results do not count."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.evaluation.fewest_samples import FEW, few_note
from labeltree.metrics.search.results_left_out import LeaveGroupOut, have_partner, leaves_group_out
from labeltree.runs import EmbeddingTable

__all__ = ["SearchPlan", "plan_search"]

_LEFT_OUT = (
    "Results of the query's own group do not count in retrieval and among nearest neighbours (leave one "
    "group out)."
)


@dataclass(frozen=True)
class SearchPlan:
    """Queries and gallery of a retrieval search.

    Attributes:
        queries: `(q,)` rows of the queries.
        gallery: `(g,)` rows of the gallery; None = each query is searched among the other queries.
        groups: `(n,)` groups of all rows of the table, −1 for a row that is its own group, if results of
            the query's own group are left out; None if they count, or there are no groups.
        found: Number of queries with another sample of their class to find.
        among_themselves: Number of queries with another sample of their class among the queries.
        one_class: Whether queries and gallery have a single class, so that every result is correct.
        grouped: Whether the table has groups of several samples.
    """

    queries: Tensor
    gallery: Tensor | None
    groups: Tensor | None
    found: int
    among_themselves: int
    one_class: bool
    grouped: bool

    @property
    def undefined(self) -> bool:
        """Whether retrieval is not defined for this search."""
        return self.one_class or not self.found

    def counts(self) -> dict[str, int]:
        """Numbers of queries, of gallery samples, and of queries without a sample of their class to find."""
        counts = {"queries": len(self.queries)}
        if self.gallery is not None:
            counts["gallery samples"] = len(self.gallery)
        return counts | {"queries without a sample of their class to find": len(self.queries) - self.found}

    def described(self) -> dict[str, str]:
        """The search in words, as in `EvaluationResult.search`: `searched` and `own_group`."""
        own = "left out" if self.groups is not None else "counted" if self.grouped else "no groups"
        return {"searched": "queries" if self.gallery is None else "train", "own_group": own}

    def _groups_matter(self, groups: Tensor) -> bool:
        """Whether any group has several of the samples that are searched or are queries."""
        searched = self.queries if self.gallery is None else torch.cat([self.queries, self.gallery])
        named = groups[searched]
        named = named[named >= 0]
        return len(torch.unique(named)) < len(named)

    def notes(self, where: str) -> list[str]:
        """Notes on the search and on undefined numbers; `where` names the searched samples."""
        notes = []
        total = len(self.queries)
        other = " in another group" if self.groups is not None else ""
        if self.groups is not None:
            notes += [_LEFT_OUT] if self._groups_matter(self.groups) else []
        elif self.grouped:
            notes.append("Results of the query's own group count in retrieval (leave_group_out).")
        if self.gallery is not None:
            few = f"Only {self.among_themselves}" if self.among_themselves else "None"
            has = "has" if self.among_themselves == 1 else "have"
            notes.append(
                f"{few} of {total} samples of {where} {has} another of their class among them{other}, so "
                f"retrieval searched for each in the training split ({len(self.gallery)} samples)."
            )
        lost = total - self.found
        if self.one_class:
            notes.append(
                "All samples that were searched are of one class, so that whatever is found is right: "
                "retrieval is not defined here."
            )
        elif not self.found:
            notes.append(
                f"No sample of {where} has another of its class to find{other}: retrieval is not defined."
                + (" With leave_group_out 'never', its own group counts." if self.groups is not None else "")
            )
        elif lost:
            notes.append(
                f"{lost} of {total} queries {'has' if lost == 1 else 'have'} no sample of the same class to "
                f"find{other}: left out of recall, MAP@R and mAP."
            )
        if not self.undefined and self.found < FEW:
            notes.append(few_note(self.found, "Retrieval"))
        return notes


def plan_search(
    table: EmbeddingTable,
    finest: Tensor,
    queries: Tensor,
    gallery: Tensor,
    choice: LeaveGroupOut = "auto",
) -> SearchPlan:
    """Choose whether to search the queries among each other or in the gallery.

    The gallery is searched if fewer than half of the queries have another sample of their class among the
    queries, or all queries are of one class, and the gallery has their class for more of them. Validation in
    training uses the same threshold of one half.

    Args:
        table: Table of the rows.
        finest: `(num_nodes,)` bool, which labels are classes.
        queries: `(q,)` rows, all with a class.
        gallery: `(g,)` training rows with a class; may be empty.
        choice: See `leaves_group_out`; `auto` considers all rows of the table.
    """
    known = (table.nodes > 0) & finest[table.nodes.clamp_min(0)]
    classes = torch.where(known, table.nodes, -1)
    groups = table.groups if leaves_group_out(choice, classes, table.groups) else None
    grouped = leaves_group_out("always", classes, table.groups)

    def partners(keys: Tensor | None) -> int:
        nodes = None if keys is None else table.nodes[keys]
        mine = None if groups is None else groups[queries]
        theirs = None if groups is None or keys is None else groups[keys]
        return int(have_partner(table.nodes[queries], mine, nodes, theirs).sum())

    themselves = partners(None)
    single = len(torch.unique(table.nodes[queries])) == 1
    if (2 * themselves < len(queries) or single) and len(gallery):
        partnered = partners(gallery)
        several = len(torch.unique(table.nodes[torch.cat([queries, gallery])])) > 1
        if partnered > themselves or (single and several and partnered):
            return SearchPlan(queries, gallery, groups, partnered, themselves, not several, grouped)
    return SearchPlan(queries, None, groups, themselves, themselves, single, grouped)
