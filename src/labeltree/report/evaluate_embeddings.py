"""Evaluation of a table of embeddings of any model."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from labeltree.data.correction_rounds import CorrectionRounds
from labeltree.errors import typed
from labeltree.evaluation import EvaluationResult
from labeltree.evaluation.chosen_samples import with_usual_splits
from labeltree.evaluation.statistics.sampling_units import group_equal_rows
from labeltree.index.index_sources import rows_of_embeddings
from labeltree.options.evaluation import EvaluateOptions
from labeltree.report.evaluation_case import Evaluated, EvaluationCase, evaluate_case
from labeltree.report.next_steps import NextStep, suspects_step
from labeltree.report.other_taxonomy import OtherTaxonomy
from labeltree.runs import EmbeddingTable, PartFolder, RunFolder
from labeltree.runs.table_taxonomies import taxonomy_beside, taxonomy_of_tables
from labeltree.taxonomy import AnyTaxonomy, Taxonomy, load_taxonomy
from labeltree.taxonomy.placeholders import placeholder_sentences

__all__ = ["evaluate_embeddings"]


def evaluate_embeddings(options: EvaluateOptions) -> Evaluated:
    """Evaluate a table of embeddings of any model, or a folder of parts.

    The files go to a folder beside it. Without a taxonomy, that of the labels is used, which a folder of
    parts holds, and for a file lies beside it, as `FILE.taxonomy.json`; otherwise the labels make one.
    Without a mapping what is certain is used, where the taxonomy of the labels is known.

    Raises:
        LabeltreeError: If the table or the taxonomy is missing, unreadable or invalid.
    """
    case = _open_case(options)
    out = options.out or _folder_beside(options.place, corrected=options.corrections is not None)
    return evaluate_case(lambda: case, RunFolder(out), options.progress)


def _open_case(options: EvaluateOptions) -> EvaluationCase:
    embeddings, split = options.place, options.split
    file, beside = options.taxonomy, taxonomy_beside(embeddings)
    judge = taxonomy_of_tables(embeddings) if file is None else load_taxonomy(file)
    own, other = None if beside is None else Taxonomy.from_file(beside), None
    if file is not None and (options.mapping is not None or (own is not None and own != judge)):
        other = OtherTaxonomy.between(own, judge, options.mapping, file)
    labels = judge if other is None else other.labels
    by_name = own is None and other is not None
    table = EmbeddingTable.load(embeddings, labels, by_name=by_name, group_column=options.group_column)
    table, copies = group_equal_rows(with_usual_splits(table, split), split)
    corrections = None
    if options.corrections is not None:
        rows, _ = rows_of_embeddings(embeddings, labels)
        corrections = CorrectionRounds.load(options.corrections).resolve(rows.ids, table.nodes, labels)
    said = [copies] if copies else []
    cautions = list(said)
    if file is None and beside is None:
        said = [_say_made_of_labels(judge), *said]
        cautions = [
            *cautions,
            *(said[:1] if judge.max_depth < 2 else []),
            *_missing_names(judge, table),
        ]
    return EvaluationCase(
        name=embeddings.stem,
        table=table,
        taxonomy=judge,
        settings=options.settings,
        title=options.title or embeddings.stem,
        split=split,
        corrections=corrections,
        other=other,
        remarks=[partial(EvaluationResult.with_notes, last=said, cautions=cautions)],
        steps=_suspects_steps(embeddings, own, judge, file) if own or not options.mapping else [],
        shown={"group_column": options.group_column},
    )


def _suspects_steps(
    embeddings: Path, own: Taxonomy | None, judge: AnyTaxonomy, file: str | Path | None
) -> list[NextStep]:
    """To look for labels that look wrong, on the taxonomy that the labels are of, if that is a tree.

    Args:
        embeddings: The table.
        own: The taxonomy that lies beside it, if one does.
        judge: The one that it was measured on.
        file: Of that one; None where it is not that of the labels.
    """
    named = f"--embeddings {typed(embeddings)}"
    if own is not None and own != judge:
        return [suspects_step(named)]
    if not isinstance(judge, Taxonomy):
        return []
    if file is None:
        return [suspects_step(named)]
    return [suspects_step(f"{named} --taxonomy {typed(file)}")]


def _folder_beside(embeddings: Path, *, corrected: bool) -> Path:
    """Where the evaluation of a table goes, unless a folder is named."""
    if PartFolder(embeddings).exists():
        return embeddings.with_name(f"{embeddings.name}-evaluation")
    return embeddings.with_name(f"{embeddings.stem}-corrected") if corrected else embeddings.with_suffix("")


def _missing_names(taxonomy: AnyTaxonomy, table: EmbeddingTable) -> list[str]:
    """Sentences on classes whose names suggest that their samples have no label."""
    remedy = "write an empty label for each of them"
    return [f"{said[0].upper()}{said[1:]}." for said in placeholder_sentences(taxonomy, table.nodes, remedy)]


def _say_made_of_labels(taxonomy: AnyTaxonomy) -> str:
    """A sentence on the taxonomy that was made of the labels of a table."""
    if taxonomy.max_depth < 2:
        return (
            "The labels are names without paths, so that no class is nearer than another; --taxonomy FILE "
            "names a tree"
        )
    return "The taxonomy is the tree of the labels, which are paths; --taxonomy FILE names another"
