"""`transfer`: scores of the same encoder on another data set, with its own classes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from labeltree.errors import DataError
from labeltree.evaluation.chosen_samples import choose_samples, with_usual_splits
from labeltree.evaluation.judging_taxonomy import JudgingTaxonomy
from labeltree.evaluation.protocol_registry import Inputs, ProtocolResult, Second, register
from labeltree.evaluation.protocols.few_samples import FewSamplesOptions, few_samples
from labeltree.evaluation.protocols.knn import KNNOptions, knn
from labeltree.evaluation.statistics.sampling_units import group_equal_rows
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import load_taxonomy

__all__ = ["TransferOptions", "transfer"]


@dataclass(frozen=True)
class TransferOptions:
    """Options of `transfer`.

    Attributes:
        table: File of the other table, `.npz` or `.parquet`; not used if `evaluate` is given `second`.
        taxonomy: File of the other table's taxonomy.
        split: Evaluated split of the other table; a table without splits is halved.
        roles: Representations to read: `features`, `embeddings` or both.
        ks: Numbers of neighbours.
        main_k: Number of neighbours for the scores by depth and subtree.
        totals: Numbers of training samples for additional probes.
        seeds: Number of random draws of these training samples.
    """

    table: str = ""
    taxonomy: str = ""
    split: str = "test"
    roles: tuple[str, ...] = ("features", "embeddings")
    ks: tuple[int, ...] = (1, 5, 20)
    main_k: int = 20
    totals: tuple[int, ...] = ()
    seeds: int = 5

    def __post_init__(self) -> None:
        if bool(self.table) != bool(self.taxonomy):
            raise ValueError("table and taxonomy belong together; name both")
        KNNOptions(ks=self.ks, main_k=self.main_k)
        if self.totals:
            FewSamplesOptions(totals=self.totals, seeds=self.seeds)


@register(
    "transfer",
    summary="linear probe and k-NN on another data set, embedded by the same encoder",
    source="Ghanooni et al., Section 8.2 and Table 6",
    options=TransferOptions,
)
def transfer(inputs: Inputs, options: TransferOptions) -> ProtocolResult:
    """Fit and test classifiers on the other table only."""
    second, copies = _second(inputs, options)
    if inputs.table.geometry != second.table.geometry or (
        inputs.table.embeddings.shape[1] != second.table.embeddings.shape[1]
    ):
        raise DataError(
            f"'{second.name}' has embeddings of {second.table.embeddings.shape[1]} numbers "
            f"({second.table.geometry}), this table {inputs.table.embeddings.shape[1]} "
            f"({inputs.table.geometry}): they are not of one encoder"
        )
    judging = JudgingTaxonomy.of(second.taxonomy)
    table = judging.table(second.table)
    samples = choose_samples(table, judging.tree, options.split, inputs.settings)
    there = Inputs(
        table, judging, samples, inputs.settings, options.split, progress=inputs.progress, name=second.name
    )
    if not len(there.learned):
        raise DataError(f"'{second.name}' has no training samples with finest labels")
    parts = {
        "probe": ProtocolResult.joined(
            "",
            {
                role: there.judge(there.probe(reading).predict(reading.vectors[samples.test]))
                for role, reading in there.chosen(options.roles).items()
            },
        ),
        "knn": knn(there, KNNOptions(roles=options.roles, ks=options.ks, main_k=options.main_k)),
    }
    if options.totals:
        fewer = FewSamplesOptions(
            roles=options.roles, per_class=(), totals=options.totals, seeds=options.seeds
        )
        parts["probe_from"] = few_samples(there, fewer)
    counts = {
        "training samples there": len(samples.train),
        "test samples there": len(samples.test),
        "classes there": samples.counts["classes learned"],
    }
    title = f"Transfer to {second.name}"
    notes = [*judging.notes(), *samples.notes, *filter(None, [copies])]
    joined = ProtocolResult.joined(title, parts, counts=counts, notes=notes)
    return replace(joined, of=there)


def _second(inputs: Inputs, options: TransferOptions) -> tuple[Second, str]:
    """The other table, and a sentence about its equal rows if it is a file that has some."""
    if inputs.second is not None:
        return inputs.second, ""
    if not inputs.evaluated:
        raise DataError("the other table is of the evaluated method's encoder")
    if not options.table:
        raise DataError(
            "it needs the table of another data set: give its file and its taxonomy as the options table and "
            "taxonomy"
        )
    taxonomy = load_taxonomy(options.taxonomy)
    table = with_usual_splits(EmbeddingTable.load(options.table, taxonomy), options.split)
    table, copies = group_equal_rows(table, options.split)
    return Second(table, taxonomy, options.table), copies
