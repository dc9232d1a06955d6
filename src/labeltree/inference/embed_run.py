"""Write the embeddings of a run's samples, or of others, to one table."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from labeltree.inference.load_run import load_run
from labeltree.inference.named_samples import open_other
from labeltree.inference.run_embeddings import embed_source, with_modality
from labeltree.options.answer_options import EmbedOptions
from labeltree.runs import EmbeddingTable, RunFolder

__all__ = ["Embedded", "embed_run"]


@dataclass(frozen=True)
class Embedded:
    """A table of embeddings, and where it was written.

    Attributes:
        table: The table.
        file: Its file; the taxonomy of its nodes lies beside it, as `FILE.taxonomy.json`.
    """

    table: EmbeddingTable
    file: Path


def embed_run(options: EmbedOptions) -> Embedded:
    """Write features and embeddings to one table, with the taxonomy of its nodes beside it.

    Raises:
        LabeltreeError: If the run or the samples are missing, unreadable or unsuitable.
    """
    folder = RunFolder(options.run)
    run = load_run(folder.path, options.progress, own_data=options.data is None, verify=options.verify)
    if options.data is None:
        source, name = run.source, "trained"
    else:
        source = open_other(
            run,
            options.data,
            data_path=options.data_path,
            unlabelled=options.unlabelled,
            own_labels=options.own_labels,
            table=options.table,
        )
        name = f"of-{Path(options.data).resolve().stem}"
    if options.modality != "both":
        source, name = with_modality(source, options.modality), f"{name}-{options.modality}"
    file = Path(options.out) if options.out else folder.embeddings(name)
    with folder.locked() if options.out is None else nullcontext():
        table = embed_source(
            run.network,
            source,
            answers=not options.own_labels,
            modality=options.modality,
            progress=options.progress,
        )
        if source.files is None and source.names is not None and options.out is not None:
            table = replace(table, ids=np.array(source.sample_names()))
        replace(table, encoder_digest=run.weights_digest).save(file, source.taxonomy)
        source.taxonomy.save(file.with_suffix(".taxonomy.json"))
    return Embedded(table, file)
