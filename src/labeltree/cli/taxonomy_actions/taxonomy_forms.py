"""``labeltree taxonomy convert``: also of forms that a file alone does not tell, such as codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labeltree.api.taxonomies import open_taxonomy
from labeltree.options.taxonomies import ConvertOptions

if TYPE_CHECKING:
    from labeltree.taxonomy import AnyTaxonomy

__all__ = ["convert"]

_OF_FORM = ("levels", "describe", "separator", "column", "descriptions", "child", "parent")
_USED = {
    "google": (),
    "breadcrumbs": ("separator", "column"),
    "codes": ("levels", "describe", "column", "descriptions"),
    "rf2": ("descriptions",),
    "edges": ("descriptions", "child", "parent"),
}


def convert(options: ConvertOptions) -> None:
    """Read a taxonomy, of a given form if there is one, and write it."""
    from labeltree.errors import TaxonomyError

    out = options.out
    if options.release is not None and not out.casefold().endswith(".json"):
        raise TaxonomyError(f"only a .json file keeps a release, and '{out}' is none")
    taxonomy = _read(options)
    if options.release is not None:
        taxonomy = taxonomy.with_release(options.release)
    taxonomy.save(out)
    print(f"{taxonomy.num_nodes} nodes: {out}")


def _read(options: ConvertOptions) -> AnyTaxonomy:
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
