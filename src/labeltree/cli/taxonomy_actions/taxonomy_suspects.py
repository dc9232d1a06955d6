"""``labeltree taxonomy suspects``: places where a tree does not fit the samples of its nodes."""

from __future__ import annotations

from pathlib import Path

from labeltree.options.taxonomies import TreeSuspectsOptions

__all__ = ["suspects"]


def suspects(options: TreeSuspectsOptions) -> None:
    """Print what does not fit, and write the changes."""
    from labeltree.api.taxonomies import open_table
    from labeltree.curation.tree_suspects import find_tree_suspects
    from labeltree.errors import DataError

    if options.out is not None and Path(options.out).exists():
        raise DataError(
            f"'{options.out}' exists, and somebody may have accepted changes in it; name another file"
        )
    table, taxonomy = open_table(options.embeddings, options.taxonomy)
    if options.split is not None:
        table = table.select(options.split)
    tree_suspects = find_tree_suspects(
        table.features if table.features is not None else table.embeddings,
        table.nodes,
        taxonomy,
        groups=table.groups,
        kinds=tuple(options.kinds),
        level=options.level,
        apart=options.apart,
        seed=options.seed,
    )
    print(tree_suspects.sentence())
    for kind in options.kinds:
        some = [one for one in tree_suspects.of(kind) if one.significant or not options.only_significant]
        for one in some[: options.top]:
            mark = "significant" if one.significant else "not significant"
            print(f"{kind} ({mark}): {taxonomy.path_name(one.node)}: {one.reason}")
        if len(some) > options.top:
            print(f"… and {len(some) - options.top:,} more to {kind}")
    for note in tree_suspects.notes:
        print(note)
    if options.out is not None:
        count = tree_suspects.save_mapping(options.out, only_significant=options.only_significant)
        print(f"{count} changes, each a comment until a person accepts it: {options.out}")
