"""``labeltree taxonomy``: show, check or convert a taxonomy; make one from a DAG or from names; versions."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from labeltree.api.taxonomies import open_taxonomy
from labeltree.cli.taxonomy_actions.taxonomy_changes import CHANGE_ACTIONS, add_changes, run_changes
from labeltree.cli.taxonomy_actions.taxonomy_forms import add_convert, convert
from labeltree.cli.taxonomy_actions.taxonomy_from_wordnet import add_from_wordnet, from_wordnet
from labeltree.cli.taxonomy_actions.taxonomy_reading import add_column, add_names
from labeltree.cli.taxonomy_actions.taxonomy_review import add_review, run_review
from labeltree.cli.taxonomy_actions.taxonomy_suggest import add_suggest, suggest
from labeltree.cli.taxonomy_actions.taxonomy_suspects import add_suspects, suspects

if TYPE_CHECKING:
    from labeltree.taxonomy import AnyTaxonomy
    from labeltree.taxonomy.project_dag import ProjectionRule

SUMMARY = "show, check, convert or make a taxonomy, and compare versions"
ELSEWHERE = "name another file"
"""What to do if the place that it writes to is full or read-only."""


def run(arguments: list[str]) -> None:
    """Show, check, convert or project the given taxonomy, or make one from class names."""
    parser = argparse.ArgumentParser(
        prog="labeltree taxonomy",
        description="A taxonomy is read from nested YAML or JSON, a CSV of edges (child,parent) or with a "
        "column per depth, a text file with one path a/b/c or A > B > C per line, Newick, nested folders, a "
        "table of images or texts with labels, a run folder, or a data set's name. Edges may give a child "
        "several parents: such a DAG can be shown, checked, evaluated on, and projected to a tree to train "
        "on.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    show = actions.add_parser(
        "show", help="draw it as an indented tree", description="Draw a taxonomy as a tree."
    )
    show.add_argument("taxonomy", help="a file, a folder, a run, a table or the name of a data set")
    show.add_argument("--depth", type=int, help="draw the tree down to this depth")
    show.add_argument(
        "--children", type=int, default=20, help="draw at most this many children of a node (default 20)"
    )
    check = actions.add_parser("check", help="say what is unusual about it", description="Check a taxonomy.")
    check.add_argument("taxonomy", help="a file, a folder, a run, a table or the name of a data set")
    for action in (show, check):
        add_column(action)
    for action in (show, check, add_convert(actions)):
        add_names(action)
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
        help="odir: the parent nearest the root, all nodes stay (default); yolo9000: the paths that "
        "add the fewest nodes, others are dropped",
    )
    project.add_argument("--out", required=True, metavar="FILE", help="the file that the tree is written to")
    add_from_wordnet(actions)
    add_suggest(actions)
    add_suspects(actions)
    add_changes(actions)
    add_review(actions)
    options = parser.parse_args(arguments)

    others = {
        "from-wordnet": from_wordnet,
        "suggest": suggest,
        "suspects": suspects,
        "review": run_review,
        "convert": convert,
    }
    others |= dict.fromkeys(CHANGE_ACTIONS, run_changes)
    if options.action in others:
        others[options.action](options)
        return
    given = () if options.action == "project" else ("names", "synonyms", "column")
    settings = {name: getattr(options, name) for name in given}
    taxonomy, nodes = open_taxonomy(options.taxonomy, **settings)
    if options.action == "show":
        if taxonomy.release is not None:
            print(f"release {taxonomy.release}")
        print(taxonomy.render(max_depth=options.depth, max_children=options.children))
    elif options.action == "check":
        print(repr(taxonomy))
        if taxonomy.release is not None:
            print(f"release {taxonomy.release}")
        for entry in taxonomy.history:
            print(f"  {entry}")
        print("\n".join(f"- {line}" for line in taxonomy.check(nodes)) or "nothing unusual")
    else:
        _project(taxonomy, options.rule, options.out)


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
