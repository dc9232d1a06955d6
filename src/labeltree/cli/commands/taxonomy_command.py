"""`labeltree taxonomy`: show, check or convert a taxonomy; make one from a DAG or from names; versions."""

from __future__ import annotations

from typing import Any

from labeltree.cli.command_parser import add_action, make_parser, read_options
from labeltree.cli.taxonomy_actions.taxonomy_changes import apply, compose, diff, map_changes
from labeltree.cli.taxonomy_actions.taxonomy_from_wordnet import from_wordnet
from labeltree.cli.taxonomy_actions.taxonomy_project import project
from labeltree.cli.taxonomy_actions.taxonomy_review import run_review
from labeltree.cli.taxonomy_actions.taxonomy_suggest import suggest
from labeltree.cli.taxonomy_actions.taxonomy_suspects import suspects
from labeltree.options.taxonomy_options import (
    ApplyOptions,
    CheckOptions,
    ComposeOptions,
    ConvertOptions,
    DiffOptions,
    FromWordnetOptions,
    MapOptions,
    ProjectOptions,
    ReviewOptions,
    ShowOptions,
    SuggestOptions,
    TreeSuspectsOptions,
)

SUMMARY = "show, check, convert or make a taxonomy, and compare versions"
ELSEWHERE = "name another file"
"""What to do if the place that it writes to is full or read-only."""


def run(arguments: list[str]) -> None:
    """Do the action that the arguments name."""
    parser = make_parser(
        "taxonomy",
        description="A taxonomy is read from nested YAML or JSON, a CSV of edges (child,parent) or with a "
        "column per depth, a text file with one path a/b/c or A > B > C per line, Newick, nested folders, a "
        "table of images or texts with labels, a run folder, or a data set's name. Edges may give a child "
        "several parents: such a DAG can be shown, checked, evaluated on, and projected to a tree to train "
        "on.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, (_, schema, help, description) in _ACTIONS.items():
        add_action(actions, name, schema, help=help, description=description)
    words = parser.parse_args(arguments)
    function, schema, _, _ = _ACTIONS[words.action]
    function(read_options(schema, words))


def _show(options: ShowOptions) -> None:
    from labeltree.api.taxonomies import open_labels

    given = options.taxonomy, options.names, options.synonyms, options.column, options.form
    taxonomy, _ = open_labels(*given, table=options.table)
    if taxonomy.release is not None:
        print(f"release {taxonomy.release}")
    print(taxonomy.render(max_depth=options.depth, max_children=options.children))


def _check(options: CheckOptions) -> None:
    from labeltree.api.taxonomies import open_labels

    given = options.taxonomy, options.names, options.synonyms, options.column, options.form
    taxonomy, nodes = open_labels(*given, table=options.table)
    print(repr(taxonomy))
    if taxonomy.release is not None:
        print(f"release {taxonomy.release}")
    for entry in taxonomy.history:
        print(f"  {entry}")
    print("\n".join(f"- {line}" for line in taxonomy.check(nodes)) or "nothing unusual")


def _convert(options: ConvertOptions) -> None:
    from labeltree.api.taxonomies import convert_taxonomy

    print(f"{convert_taxonomy(options).num_nodes} nodes: {options.out}")


_ACTIONS: dict[str, tuple[Any, type[Any], str, str]] = {
    "show": (_show, ShowOptions, "draw it as an indented tree", "Draw a taxonomy as a tree."),
    "check": (_check, CheckOptions, "say what is unusual about it", "Check a taxonomy."),
    "convert": (_convert, ConvertOptions, "write it in another form, or read codes", "Convert a taxonomy."),
    "project": (
        project,
        ProjectOptions,
        "make a tree of a DAG, to train on",
        "Choose one parent for every node of a DAG.",
    ),
    "from-wordnet": (
        from_wordnet,
        FromWordnetOptions,
        "make a tree of class names",
        "Look up class names in WordNet and write WordNet's tree above them. Names with several senses, and "
        "unknown ones, are listed with their definitions in a file. Decide there, then run the command "
        "again.",
    ),
    "suggest": (
        suggest,
        SuggestOptions,
        "make a tree of classes from their embeddings, and judge trees",
        "Cluster the mean embeddings of classes to a tree, and say how well the mistakes between classes "
        "follow it. The judged tree is made of training samples, or of half of the samples, and judged on "
        "the others. For class names alone: 'labeltree taxonomy from-wordnet'.",
    ),
    "suspects": (
        suspects,
        TreeSuspectsOptions,
        "find nodes to move, dissolve, merge or split, by their samples",
        "Find where a taxonomy does not fit the embeddings of labelled samples: nodes whose samples lie in "
        "another branch (move), inner nodes whose children are no more alike than random ones (dissolve), "
        "pairs of leaves that cannot be told apart (merge), leaves that fall into two clusters (split). With "
        "--out FILE the changes are written as a mapping, each as a comment: remove the '# ' before those "
        "that are right, and give the file to 'labeltree taxonomy apply'. An encoder that was trained with "
        "this tree has put the nodes where the tree says: take one that was not, or --split test.",
    ),
    "diff": (
        diff,
        DiffOptions,
        "say what changed between two versions",
        "Say what was renamed, moved, merged, split, removed and added between two versions of a taxonomy, "
        "and how many samples that touches.",
    ),
    "map": (
        map_changes,
        MapOptions,
        "write down what changed, to be edited by hand",
        "Write what became of each class of OLD in NEW, one line per change. What is likely but not certain "
        "is guessed, and written as comments; remove the '#' of those that are right.",
    ),
    "apply": (
        apply,
        ApplyOptions,
        "make the new version of a taxonomy from the changes",
        "Carry out the changes of a file from 'map', or of one written by hand.",
    ),
    "compose": (
        compose,
        ComposeOptions,
        "join the changes of two steps",
        "From the changes A to B and B to C, write those of A to C.",
    ),
    "review": (
        run_review,
        ReviewOptions,
        "propose what to repair: duplicates, misspelt and empty names",
        "Find likely duplicates and names that mean nothing. Nothing is changed: proposals are written as "
        "comments; remove the '#' of those that are right, and 'labeltree taxonomy apply' carries them out.",
    ),
}
