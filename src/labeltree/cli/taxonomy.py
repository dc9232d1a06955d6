"""``labeltree taxonomy``: show, check or convert a taxonomy; make a tree from a DAG or from class names."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from labeltree.cli.taxonomy_from_wordnet import add_from_wordnet, from_wordnet

if TYPE_CHECKING:
    from torch import Tensor

    from labeltree.taxonomy import AnyTaxonomy
    from labeltree.taxonomy.projection import ProjectionRule


def run(arguments: list[str]) -> None:
    """Show, check, convert or project the given taxonomy, or make one from class names."""
    parser = argparse.ArgumentParser(
        prog="labeltree taxonomy",
        description="A taxonomy is read from nested YAML or JSON, a CSV of edges (child,parent) or with a "
        "column per depth, a text file with one a/b/c path a line, Newick, nested folders, a table of images "
        "or texts with labels, or a data set's name. Edges may give a child several parents: such a DAG can "
        "be shown, checked, evaluated on, and projected to a tree to train on.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    show = actions.add_parser(
        "show", help="draw it as an indented tree", description="Draw a taxonomy as a tree."
    )
    show.add_argument("taxonomy", help="a file, a folder, a table or the name of a data set")
    show.add_argument("--depth", type=int, help="draw only this deep")
    show.add_argument(
        "--children", type=int, default=20, help="draw at most so many children of a node (default 20)"
    )
    check = actions.add_parser("check", help="say what is unusual about it", description="Check a taxonomy.")
    check.add_argument("taxonomy", help="a file, a folder, a table or the name of a data set")
    convert = actions.add_parser(
        "convert", help="write it in another form", description="Convert a taxonomy."
    )
    convert.add_argument("taxonomy", help="a file, a folder, a table or the name of a data set")
    convert.add_argument("out", help="the file to write: .json, .csv, or for a tree also .yaml, .txt, .nwk")
    project = actions.add_parser(
        "project",
        help="make a tree of a DAG, to train on",
        description="Choose one parent for every node of a DAG.",
    )
    project.add_argument("taxonomy", help="a .csv or .tsv of edges (child,parent), or a .json of a DAG")
    project.add_argument(
        "--rule",
        choices=("odir", "yolo9000"),
        default="odir",
        help="odir: the parent nearest the root, all nodes stay (default); yolo9000: the paths that add the "
        "fewest nodes, the others fall out",
    )
    project.add_argument("--out", required=True, metavar="FILE", help="the file that the tree is written to")
    add_from_wordnet(actions)
    options = parser.parse_args(arguments)

    if options.action == "from-wordnet":
        from_wordnet(options)
        return
    taxonomy, nodes = _open(options.taxonomy)
    if options.action == "show":
        print(taxonomy.render(max_depth=options.depth, max_children=options.children))
    elif options.action == "check":
        print(repr(taxonomy))
        print("\n".join(f"- {line}" for line in taxonomy.check(nodes)) or "nothing unusual")
    elif options.action == "project":
        _project(taxonomy, options.rule, options.out)
    else:
        taxonomy.save(options.out)
        print(f"{taxonomy.num_nodes} nodes: {options.out}")


def _project(taxonomy: AnyTaxonomy, rule: ProjectionRule, out: str) -> None:
    from labeltree.taxonomy import TaxonomyDAG

    if not isinstance(taxonomy, TaxonomyDAG):
        taxonomy.save(out)
        print(f"this is a tree already: {out}")
        return
    tree, nodes = taxonomy.project(rule)
    tree.save(out)
    lost = int((nodes < 0).sum())
    print(f"{tree.num_nodes} nodes, {tree.num_leaves} leaves: {out}")
    if lost:
        print(f"{lost} {'node' if lost == 1 else 'nodes'} on no chosen path fell out")


def _open(name: str) -> tuple[AnyTaxonomy, Tensor | None]:
    """The taxonomy, and the labels of the samples if there are any."""
    from labeltree.data import folder_labels, is_data_table, list_datasets, open_source, table_labels
    from labeltree.data.shards.finding import find_shards
    from labeltree.data.tables import shard_labels
    from labeltree.taxonomy import load_taxonomy

    path = Path(name)
    if (shards := find_shards(name)) is not None:
        return shard_labels(shards)
    if path.is_dir():
        return folder_labels(path)
    if not path.exists() and name in list_datasets():
        source = open_source(name)
        return source.taxonomy, source.nodes
    if is_data_table(path):
        return table_labels(path)
    return load_taxonomy(path), None
