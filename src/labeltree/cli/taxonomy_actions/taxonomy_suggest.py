"""`labeltree taxonomy suggest`: a tree of classes from their embeddings, and trees judged by mistakes."""

from __future__ import annotations

from labeltree.options.taxonomy_options import SuggestOptions

__all__ = ["suggest"]


def suggest(options: SuggestOptions) -> None:
    """Print the suggested tree and how it and other trees are judged."""
    from labeltree.api.suggestions import suggest_taxonomy

    done = suggest_taxonomy(options)
    tree = done.tree
    print(tree.render(max_children=20))
    if done.judged is not None:
        print(f"\nmade of {done.how}: {done.judged.sentence()}")
    else:
        print(
            "\ncannot be judged: every class needs two samples, one to make a tree of and one to judge it on"
        )
    for name, judged in done.others.items():
        print(f"{name}: {judged.sentence()}")
    print("inner nodes are called after their first and last class; rename them in the file")
    if options.out is not None:
        print(f"{tree.num_nodes} nodes, {tree.num_leaves} leaves, depth {tree.max_depth}: {options.out}")
