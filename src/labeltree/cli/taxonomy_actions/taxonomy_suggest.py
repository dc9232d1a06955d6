"""``labeltree taxonomy suggest``: a tree of classes from their embeddings, and trees judged by mistakes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeltree.cli.taxonomy_actions.taxonomy_changes import refuse_inputs
from labeltree.errors import typed

if TYPE_CHECKING:
    from torch import Tensor

    from labeltree.evaluation.suggested_tree import ClassPoints
    from labeltree.runs import EmbeddingTable
    from labeltree.taxonomy import Taxonomy

__all__ = ["add_suggest", "open_table", "suggest"]


def add_suggest(actions: Any) -> None:
    """Add the action to the command's parser."""
    action = actions.add_parser(
        "suggest",
        help="make a tree of classes from their embeddings, and judge trees",
        description="Cluster the mean embeddings of classes to a tree, and say how well the mistakes "
        "between classes follow it. The judged tree is made of training samples, or of half of the samples, "
        "and judged on the others. For class names alone: 'labeltree taxonomy from-wordnet'.",
    )
    action.add_argument(
        "embeddings", metavar="RUN|FILE", help="a run, or a table of embeddings with labels (.npz, .parquet)"
    )
    action.add_argument("--taxonomy", metavar="FILE", help="of the labels of FILE, if these are nodes")
    action.add_argument(
        "--column",
        choices=("features", "embeddings"),
        help="of the encoder, or of the head (default: features if there are any)",
    )
    action.add_argument(
        "--linkage",
        choices=("complete", "average", "ward"),
        default="complete",
        help="distance of two groups: the largest of their classes (default), the mean, or Ward's",
    )
    action.add_argument("--depth", type=int, help="depth of the tree (default: by the number of classes)")
    action.add_argument(
        "--judge", nargs="+", default=[], metavar="TREE", help="judge these trees of the same classes, too"
    )
    action.add_argument(
        "--seed", type=int, default=0, help="seed of the halves and the random trees (default 0)"
    )
    action.add_argument("-o", "--out", metavar="FILE", help="write the tree there: .yaml, .csv, .json …")


def suggest(options: argparse.Namespace) -> None:
    """Print the suggested tree, judge it and other trees, and write it."""
    from labeltree.evaluation.suggested_tree import class_points, halves, judge_tree, suggest_tree

    if options.out is not None:
        refuse_inputs(options.out, options.embeddings, *([options.taxonomy] if options.taxonomy else []))
    table, taxonomy = open_table(options.embeddings, options.taxonomy)
    samples = class_points(table, taxonomy, options.column)
    others = [(name, _tree(name)) for name in options.judge]
    made, judged, how = _parts(samples, halves(samples, options.seed))
    tree = suggest_tree(samples, options.linkage, options.depth)
    print(tree.render(max_children=20))
    if bool((made.classes.bincount(minlength=len(made.names)) > 0).all()):
        part = suggest_tree(made, options.linkage, options.depth)
        print(f"\nmade of {how}: {judge_tree(part, judged, options.seed).sentence()}")
    else:
        print(
            "\ncannot be judged: every class needs two samples, one to make a tree of and one to judge it on"
        )
    for name, other in others:
        print(f"{name}: {judge_tree(other, judged, options.seed).sentence()}")
    print("inner nodes are called after their first and last class; rename them in the file")
    if options.out is not None:
        tree.save(options.out)
        print(f"{tree.num_nodes} nodes, {tree.num_leaves} leaves, depth {tree.max_depth}: {options.out}")


def _parts(samples: ClassPoints, half: Tensor) -> tuple[ClassPoints, ClassPoints, str]:
    """The samples that the judged tree is made of, those it is judged on, and which these are."""
    learned = samples.learned
    how = "the training samples and judged on the others"
    if learned is None or learned.all() or not samples.has_all_classes(learned):
        learned, how = half, "half of the samples and judged on the other half"
    return samples.rows(learned.nonzero()[:, 0]), samples.rows((~learned).nonzero()[:, 0]), how


def open_table(name: str, taxonomy_file: str | None) -> tuple[EmbeddingTable, Taxonomy]:
    """The table of a run or a file, and the taxonomy of its labels."""
    from labeltree.inference.run_embeddings import OwnSamples
    from labeltree.runs import EmbeddingTable, RunFolder

    path = Path(name)
    if path.is_dir() and RunFolder(path).taxonomy.is_file():
        return OwnSamples(path)(), RunFolder(path).load_taxonomy()
    if taxonomy_file is not None:
        taxonomy = _tree(taxonomy_file)
        return EmbeddingTable.load(path, taxonomy), taxonomy
    taxonomy = _read_labels(path)
    return EmbeddingTable.load(path, taxonomy), taxonomy


def _read_labels(path: Path) -> Taxonomy:
    """The taxonomy of the labels, names or paths, of a table of embeddings."""
    from labeltree.errors import DataError
    from labeltree.runs.table_file_columns import read_columns
    from labeltree.taxonomy import Taxonomy

    if not path.is_file():
        raise DataError(f"no embeddings at '{path}'")
    if path.suffix.casefold() in (".txt", ".csv", ".tsv"):
        raise DataError(
            f"'{path}' holds no embeddings. Of class names, 'labeltree taxonomy from-wordnet {typed(path)} "
            f"--out FILE' makes a taxonomy; of codes, 'labeltree taxonomy convert {typed(path)} FILE --form "
            "codes'"
        )
    columns = read_columns(path)
    labels = columns.get("labels", columns.get("label"))
    if labels is None:
        raise DataError(
            f"'{path}' has no column of labels; --taxonomy FILE says what its numbers of nodes mean"
        )
    return Taxonomy.from_paths(dict.fromkeys(str(label) for label in labels if str(label).strip()))


def _tree(name: str) -> Taxonomy:
    from labeltree.errors import TaxonomyError
    from labeltree.taxonomy import Taxonomy, load_taxonomy

    taxonomy = load_taxonomy(name)
    if not isinstance(taxonomy, Taxonomy):
        raise TaxonomyError(f"'{name}' is a DAG; 'labeltree taxonomy project' makes a tree of it")
    return taxonomy
