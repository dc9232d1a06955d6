"""What retrieval searches each sample among, and whether the samples of its own group count."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.metrics.partners import LeaveGroupOut, have_partner, leaves_group_out
from labeltree.runs import EmbeddingTable

__all__ = ["FEW", "SearchPlan", "few_note", "plan_search"]

FEW = 10
"""A share of fewer samples than this is shown with a warning."""


@dataclass(frozen=True)
class SearchPlan:
    """How some rows of a table look for others of their class.

    Attributes:
        queries: ``(q,)`` rows that are searched for.
        gallery: ``(g,)`` rows that they are searched among; None = each among the other queries.
        groups: ``(n,)`` groups of all rows of the table, where the samples of a query's own group are left
            out of its results, −1 for a row that stands alone; None where they count, or there are none.
        found: how many queries have a sample of their class to find.
        among_themselves: how many would have one among the other queries.
        one_class: whether queries and gallery are of one class, so that whatever is found is right.
        grouped: whether the table has groups of several samples.
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
        """Whether no search says anything."""
        return self.one_class or not self.found

    def counts(self) -> dict[str, int]:
        """How many samples are searched for and among, and for how many there is nothing to find."""
        counts = {"queries": len(self.queries)}
        if self.gallery is not None:
            counts["gallery samples"] = len(self.gallery)
        return counts | {"queries without a sample of their class to find": len(self.queries) - self.found}

    def described(self) -> dict[str, str]:
        """The same choices as words for a result: ``searched`` and ``own_group``."""
        own = "left out" if self.groups is not None else "counted" if self.grouped else "no groups"
        return {"searched": "queries" if self.gallery is None else "train", "own_group": own}

    def notes(self, where: str) -> list[str]:
        """Sentences on what was searched and what is not defined."""
        notes = []
        total = len(self.queries)
        other = " in another group" if self.groups is not None else ""
        if self.groups is not None:
            notes.append(
                "Results of the query's own group do not count in retrieval and among nearest neighbours "
                "(leave one group out)."
            )
        elif self.grouped:
            notes.append("Results of the query's own group count in retrieval (leave_group_out).")
        if self.gallery is not None:
            notes.append(
                f"Only {self.among_themselves} of {total} samples of {where} have another of their class "
                f"among them{other}, so retrieval searched for each in the training split "
                f"({len(self.gallery)} samples)."
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
                f"{lost} of {total} queries have no sample of their class to find{other}: they are left out "
                "of recall, MAP@R and mAP."
            )
        if not self.undefined and self.found < FEW:
            notes.append(few_note(self.found, "Retrieval"))
        return notes


def few_note(count: int, measure: str) -> str:
    """A sentence that says how few samples a number stands on."""
    return (
        f"{measure} stands on {count} {'sample' if count == 1 else 'samples'} only: such numbers say little."
    )


def plan_search(
    table: EmbeddingTable,
    finest: Tensor,
    queries: Tensor,
    gallery: Tensor,
    choice: LeaveGroupOut = "auto",
) -> SearchPlan:
    """Search the queries among themselves, or in the gallery where hardly any would find something.

    Hardly any: fewer than half of them have another of their class, as validation has it.

    Args:
        table: of the rows.
        finest: ``(num_nodes,)`` bool, which labels are classes.
        queries: ``(q,)`` rows, all with a class.
        gallery: ``(g,)`` training rows with a class; may be empty.
        choice: see `labeltree.metrics.partners.leaves_group_out`; ``auto`` looks at all rows of the table.
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
        found = partners(gallery)
        several = len(torch.unique(table.nodes[torch.cat([queries, gallery])])) > 1
        if found > themselves or (single and several and found):
            return SearchPlan(queries, gallery, groups, found, themselves, not several, grouped)
    return SearchPlan(queries, None, groups, themselves, themselves, single, grouped)
