"""`labeltree taxonomy project`: a tree of a DAG, and which parents it does not have."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from labeltree.counted_nouns import say_count
from labeltree.options.taxonomy_options import ProjectOptions

if TYPE_CHECKING:
    from labeltree.taxonomy import TaxonomyDAG
    from labeltree.taxonomy.project_dag import Choice

__all__ = ["project"]


def project(options: ProjectOptions) -> None:
    """Write the tree, and say which parents were kept by what rule."""
    from labeltree.api.taxonomies import open_labels
    from labeltree.taxonomy import TaxonomyDAG
    from labeltree.taxonomy.project_dag import list_choices

    taxonomy, out = open_labels(options.taxonomy)[0], options.out
    if not isinstance(taxonomy, TaxonomyDAG):
        taxonomy.save(out)
        print(f"this is a tree already: {out}")
        return
    tree, nodes = taxonomy.project(options.rule)
    tree.save(out)
    lost = int((nodes < 0).sum())
    print(f"{tree.num_nodes} nodes, {tree.num_leaves} leaves: {out}")
    if lost:
        print(f"{say_count(lost, 'node')} on no chosen path fell out")
    choices = list_choices(taxonomy, tree, nodes)
    if options.dropped is not None:
        from labeltree.atomic import write_text

        write_text(options.dropped, _table(taxonomy, choices))
    print(_sentence(taxonomy, choices, options))


def _sentence(dag: TaxonomyDAG, choices: Sequence[Choice], options: ProjectOptions) -> str:
    """How many nodes had several parents, which they kept, and where all are listed."""
    if not choices:
        return "no node of the tree had several parents"
    kept = "the one on the path that adds the fewest nodes (rule yolo9000)"
    if options.rule == "odir":
        depth = dag.depth.tolist()
        ties = sum(depth[each.kept] in {depth[parent] for parent in each.dropped} for each in choices)
        kept = "the one nearest the root (rule odir)"
        if ties:
            kept += f", and of equally near ones ({say_count(ties, 'node')}) the first by id, else by name"
    others = sum(len(each.dropped) for each in choices)
    dropped = say_count(others, "other parent was", "other parents were")
    where = f"see {options.dropped}" if options.dropped is not None else "--dropped FILE.csv lists them"
    return (
        f"{say_count(len(choices), 'node')} had several parents and kept {kept}; {dropped} dropped: {where}"
    )


def _table(dag: TaxonomyDAG, choices: Sequence[Choice]) -> str:
    """A row for each parent that was dropped."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["node", "kept", "dropped"])
    for each in choices:
        names = dag.names[each.node], dag.path_name(each.kept) or "/"
        writer.writerows([*names, dag.path_name(parent) or "/"] for parent in each.dropped)
    return out.getvalue()
