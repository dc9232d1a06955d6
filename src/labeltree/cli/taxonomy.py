"""``labeltree taxonomy``: look at a taxonomy, check it, or write it in another form."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labeltree.taxonomy import Taxonomy


def run(arguments: list[str]) -> None:
    """Show, check or convert the taxonomy that the arguments name."""
    parser = argparse.ArgumentParser(
        prog="labeltree taxonomy",
        description="A taxonomy is read from nested YAML or JSON, a CSV of edges (child,parent) or with a "
        "column per depth, a text file with one a/b/c path a line, nested folders, or a data set's name.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    show = actions.add_parser(
        "show", help="draw it as an indented tree", description="Draw a taxonomy as a tree."
    )
    show.add_argument("taxonomy", help="a file, a folder or the name of a data set")
    show.add_argument("--depth", type=int, help="draw only this deep")
    show.add_argument(
        "--children", type=int, default=20, help="draw at most so many children of a node (default 20)"
    )
    check = actions.add_parser("check", help="say what is unusual about it", description="Check a taxonomy.")
    check.add_argument("taxonomy", help="a file, a folder or the name of a data set")
    convert = actions.add_parser(
        "convert", help="write it in another form", description="Convert a taxonomy."
    )
    convert.add_argument("taxonomy", help="a file, a folder or the name of a data set")
    convert.add_argument("out", help="the file to write: .json, .yaml or .csv")
    options = parser.parse_args(arguments)

    taxonomy = _open(options.taxonomy)
    if options.action == "show":
        print(taxonomy.render(max_depth=options.depth, max_children=options.children))
    elif options.action == "check":
        print(repr(taxonomy))
        print("\n".join(f"- {line}" for line in taxonomy.check()) or "nothing unusual")
    else:
        taxonomy.save(options.out)
        print(f"{taxonomy.num_nodes} nodes: {options.out}")


def _open(name: str) -> Taxonomy:
    from labeltree.data import folder_taxonomy, list_datasets, open_source
    from labeltree.taxonomy import Taxonomy

    path = Path(name)
    if path.is_dir():
        return folder_taxonomy(path)
    if not path.exists() and name in list_datasets():
        return open_source(name).taxonomy
    return Taxonomy.from_file(path)
