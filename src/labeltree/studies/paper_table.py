"""A paper's figures beside ours: other data and another scale, so orders compare and values do not."""

from __future__ import annotations

from labeltree.studies.blocks import Block, Cell, Heading, Table, Text
from labeltree.studies.paper import PaperTable
from labeltree.studies.plan import Study
from labeltree.studies.summary import Entry, Summary, lower_is_better, metric_title

__all__ = ["paper_blocks"]


def paper_blocks(study: Study, summary: Summary) -> list[Block]:
    """A heading, a sentence and a table for each table of a paper that the study is modelled on."""
    blocks: list[Block] = []
    for table in study.paper:
        ours = summary.entries(table.column, table.rows)
        blocks += [
            Heading(f"Beside the paper: {table.source}"),
            Text(
                f"The paper's figures are of {table.data}; ours are of this study's data and budget. So the "
                f"values do not compare; which method is ahead may.{_agreement(table, ours)}"
            ),
            _side_by_side(table, ours),
        ]
    return blocks


def _side_by_side(table: PaperTable, ours: dict[str, Entry]) -> Table:
    best = (min if table.lower else max)(table.rows.values())
    rows = []
    for name, value in table.rows.items():
        entry = ours.get(name)
        spread = f" ± {entry.sd:.4f}" if entry and entry.sd is not None else ""
        cell = Cell(f"{entry.mean:.4f}{spread}", entry.best) if entry else Cell("not run")
        rows.append([Cell(name), Cell(f"{value:g}", value == best), cell])
    return Table(
        ["method", "paper", f"ours: {table.column.split('/')[0]} {metric_title(table.column)}"], rows
    )


def _agreement(table: PaperTable, ours: dict[str, Entry]) -> str:
    """Kendall's τ-b of the two orders, where there are three methods or more."""
    names = [name for name in table.rows if name in ours]
    if len(names) < 3:
        return ""
    from scipy.stats import kendalltau

    sign = 1 if table.lower == lower_is_better(table.column) else -1
    tau = sign * float(kendalltau([table.rows[n] for n in names], [ours[n].mean for n in names]).statistic)
    if tau != tau:
        return ""
    pairs = len(names) * (len(names) - 1) // 2
    return (
        f" Of the {pairs} pairs of methods, Kendall's τ of the two orders is {tau:.2f} (1 = the same order)."
    )
