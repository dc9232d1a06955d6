"""``labeltree taxonomy convert``: also of forms that a file alone does not tell, such as codes."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from labeltree.api.taxonomies import open_taxonomy

if TYPE_CHECKING:
    from labeltree.taxonomy import AnyTaxonomy

__all__ = ["add_convert", "convert"]

_OF_FORM = ("levels", "describe", "separator", "column", "descriptions", "child", "parent")
_USED = {
    "google": (),
    "breadcrumbs": ("separator", "column"),
    "codes": ("levels", "describe", "column", "descriptions"),
    "rf2": ("descriptions",),
    "edges": ("descriptions", "child", "parent"),
}


def add_convert(actions: argparse._SubParsersAction[Any]) -> argparse.ArgumentParser:
    """Add the action ``convert`` and its options; returns its parser."""
    parser: argparse.ArgumentParser = actions.add_parser(
        "convert", help="write it in another form, or read codes", description="Convert a taxonomy."
    )
    parser.add_argument("taxonomy", help="a file, a folder, a table or the name of a data set")
    parser.add_argument("out", help="the file to write: .json, .csv, or for a tree also .yaml, .txt, .nwk")
    parser.add_argument(
        "--release", metavar="TEXT", help="what people call this version, such as 2024 (.json only)"
    )
    parser.add_argument(
        "--form",
        choices=tuple(_USED),
        help="what the file is, if its content does not tell: Google's product taxonomy, breadcrumbs "
        "A > B > C, codes whose beginnings are their parents, SNOMED CT's RF2, or edges with columns of any "
        "descriptions",
    )
    parser.add_argument(
        "--levels",
        metavar="1,3,4",
        help="codes: letters and digits of each level, or icd10, atc, naics, isco, hs, unspsc, dewey "
        "(default: found from marks, and from codes that others begin with)",
    )
    parser.add_argument(
        "--describe", action="store_true", help="codes: name nodes 'A00 Cholera' instead of 'A00'"
    )
    parser.add_argument("--separator", metavar="TEXT", help="breadcrumbs: what separates names")
    parser.add_argument("--column", help="breadcrumbs, codes: the column of a table that holds them")
    parser.add_argument(
        "--descriptions",
        metavar="FILE|COLUMN",
        help="rf2: the description file; edges, codes: the column of names or descriptions",
    )
    parser.add_argument("--child", metavar="COLUMN", help="edges: the column of the child")
    parser.add_argument("--parent", metavar="COLUMN", help="edges: the column of its parent")
    return parser


def convert(options: argparse.Namespace) -> None:
    """Read a taxonomy, of a given form if there is one, and write it."""
    from labeltree.errors import TaxonomyError

    out: str = options.out
    if options.release is not None and not out.casefold().endswith(".json"):
        raise TaxonomyError(f"only a .json file keeps a release, and '{out}' is none")
    taxonomy = _read(options)
    if options.release is not None:
        taxonomy = taxonomy.with_release(options.release)
    taxonomy.save(out)
    print(f"{taxonomy.num_nodes} nodes: {out}")


def _read(options: argparse.Namespace) -> AnyTaxonomy:
    from labeltree.errors import TaxonomyError
    from labeltree.taxonomy.forms import read_form

    given = {name: getattr(options, name) for name in _OF_FORM if getattr(options, name)}
    used = () if options.form is None else _USED[options.form]
    if idle := [f"--{name}" for name in given if name not in used]:
        fits = [form for form, names in _USED.items() if set(given) <= set(names)]
        what = "" if options.form is None else f" {options.form}"
        raise TaxonomyError(
            f"{' and '.join(idle)} does not apply{' to --form' + what if what else ''}; "
            + (f"say --form {' or '.join(fits)}" if fits else "no form takes all of these options")
        )
    if options.form is None:
        return open_taxonomy(options.taxonomy, options.names, options.synonyms)[0]
    if options.names is not None or options.synonyms is not None:
        raise TaxonomyError("--names and --synonyms are for tables of samples, and do not apply to --form")
    return read_form(options.taxonomy, options.form, **given)
