"""`labeltree taxonomy suspects`: places where a tree does not fit the samples of its nodes."""

from __future__ import annotations

from labeltree.options.taxonomy_options import TreeSuspectsOptions

__all__ = ["suspects"]


def suspects(options: TreeSuspectsOptions) -> None:
    """Print what does not fit, and write the changes."""
    from labeltree.api.taxonomies import taxonomy_suspects

    suspected, only = taxonomy_suspects(options), options.only_significant
    print(suspected.sentence())
    for kind in options.kinds:
        some = [one for one in suspected.of(kind) if one.significant or not only]
        for one in some[: options.top]:
            mark = "significant" if one.significant else "not significant"
            print(f"{kind} ({mark}): {suspected.taxonomy.path_name(one.node)}: {one.reason}")
        if len(some) > options.top:
            print(f"… and {len(some) - options.top:,} more to {kind}")
    for note in suspected.notes:
        print(note)
    if options.out is not None:
        count = len(suspected.guesses(only_significant=only))
        print(f"{count} changes, each a comment until a person accepts it: {options.out}")
