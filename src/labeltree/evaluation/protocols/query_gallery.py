"""`query-gallery`: retrieval from a gallery by a separate set of queries, as in DeepFashion and SOP."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from labeltree.counted_nouns import say_count
from labeltree.errors import DataError
from labeltree.evaluation.fewest_samples import FEW, few_note
from labeltree.evaluation.protocol_registry import Inputs, ProtocolResult, register
from labeltree.evaluation.subsampling import share_of_labels, stratified_subsample
from labeltree.metrics.search.results_left_out import have_partner
from labeltree.safe_files import Reader, read_text

__all__ = ["QueryGalleryOptions", "query_gallery"]

_QUERIES = Reader("the list of queries", "write a path or an instance id on each line")


@dataclass(frozen=True)
class QueryGalleryOptions:
    """Options of `query_gallery`. The queries are given by the first of these that is available:

    1. `listed`; 2. the splits named by `queries` and `gallery`; 3. `share`.

    Attributes:
        roles: Representations to read: `features`, `embeddings` or both.
        listed: Text file with the path or instance id of one query on each line; the gallery is the rest of
            the evaluated split.
        queries: Name of the query split.
        gallery: Name of the gallery split.
        share: Fraction of every class's samples in the evaluated split that are drawn as queries, at least
            one; the rest, at least one, is the gallery.
        ks: The k of recall@k; () = those of the settings.
    """

    roles: tuple[str, ...] = ("features", "embeddings")
    listed: str = ""
    queries: str = "query"
    gallery: str = "gallery"
    share: float = 0.2
    ks: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ValueError(f"share must lie between 0 and 1, got {self.share}")
        if self.ks and min(self.ks) < 1:
            raise ValueError(f"ks must be integers above 0, got {self.ks}")


@register(
    "query-gallery",
    summary="retrieval of a gallery's samples by those of a query set",
    source="Zhang et al. 2022, Section 4.4",
    options=QueryGalleryOptions,
)
def query_gallery(inputs: Inputs, options: QueryGalleryOptions) -> ProtocolResult:
    """Rank the gallery for every query; queries and gallery samples have finest labels."""
    queries, gallery, how = _sides(inputs, options)
    notes = [how]
    limit, seed = inputs.settings.max_retrieval_samples, inputs.settings.seed
    sides = []
    for rows, what in ((queries, "queries"), (gallery, "gallery samples")):
        kept = stratified_subsample(rows, inputs.nodes[rows], limit, seed)
        if len(kept) < len(rows):
            notes.append(f"{len(kept)} of {len(rows)} {what} were used, subsampled evenly.")
        sides.append(kept)
    queries, gallery = sides
    partnered = have_partner(
        inputs.nodes[queries], inputs.left_out(queries), inputs.nodes[gallery], inputs.left_out(gallery)
    )
    lost = len(queries) - int(partnered.sum())
    if inputs.samples.plan.groups is not None:
        notes.append("Gallery samples of the query's own group do not count (leave one group out).")
    if lost:
        where = "in the gallery" if inputs.samples.plan.groups is None else "of another group in the gallery"
        notes.append(
            f"{lost} of {len(queries)} queries {'has' if lost == 1 else 'have'} no sample of the same class "
            f"{where}: left out of recall, MAP@R and mAP."
        )
    if 0 < len(queries) - lost < FEW:
        notes.append(few_note(len(queries) - lost, "Retrieval"))
    parts = {
        role: inputs.judge_retrieval(
            reading,
            queries,
            gallery,
            ks=options.ks or inputs.settings.recall_ks,
            progress=inputs.titled(f"query to gallery by {role}"),
        )
        for role, reading in inputs.chosen(options.roles).items()
    }
    counts = {"queries": len(queries), "gallery": len(gallery), "queries without relevant": lost}
    return ProtocolResult.joined("Retrieval of a gallery", parts, counts=counts, notes=notes)


def _sides(inputs: Inputs, options: QueryGalleryOptions) -> tuple[Tensor, Tensor, str]:
    """Rows of the queries and of the gallery, and a note on how they were chosen."""
    split, nodes = inputs.table.split, inputs.nodes
    fine = (nodes > 0) & inputs.samples.finest[nodes.clamp_min(0)]
    here = fine.clone()
    if split is not None:
        here &= torch.from_numpy(np.asarray(split == inputs.split))
    known = set() if split is None else set(split.tolist())
    if options.listed:
        asked = here & _listed(inputs, options.listed)
        how = f"The queries are the samples that '{Path(options.listed).name}' lists, the gallery the others."
        sides = (asked, here & ~asked)
    elif split is not None and {options.queries, options.gallery} <= known:
        named = [torch.from_numpy(np.asarray(split == name)) for name in (options.queries, options.gallery)]
        sides = (fine & named[0], fine & named[1])
        how = f"The queries are split '{options.queries}', the gallery split '{options.gallery}'."
    elif (options.queries, options.gallery) != ("query", "gallery"):
        raise DataError(
            f"there is no split '{options.queries}' or no split '{options.gallery}' for the gallery: "
            f"the table has {sorted(known) or 'no splits'}"
        )
    else:
        rows = here.nonzero().squeeze(1)
        asked = torch.zeros_like(here)
        asked[rows[share_of_labels(nodes[rows], options.share, inputs.settings.seed)]] = True
        sides = (asked, here & ~asked)
        how = (
            f"The table does not say which samples are queries: {options.share:.0%} of every class were "
            "drawn, the others are the gallery."
        )
    queries, gallery = (side.nonzero().squeeze(1) for side in sides)
    if not len(queries) or not len(gallery):
        raise DataError(
            f"{len(queries)} queries and {len(gallery)} gallery samples have a finest label; both are needed"
        )
    return queries, gallery, how


def _listed(inputs: Inputs, path: str) -> Tensor:
    """Mask `(n,)` of the rows whose path or instance id is listed in the file."""
    lines = read_text(path, _QUERIES).splitlines()
    wanted = {line.strip() for line in lines if line.strip()}
    table = inputs.table
    ids = torch.arange(len(table)) if table.instances is None else table.instances
    names = [[str(number) for number in ids.tolist()]]
    if table.paths is not None:
        names.append(table.paths.tolist())
    lost = wanted - {name for column in names for name in column}
    if lost:
        some = ", ".join(repr(name) for name in sorted(lost)[:3])
        raise DataError(
            f"'{path}' lists {say_count(len(lost), 'sample')} not in the table, such as {some}; a line is a "
            "path or an instance id of the table"
        )
    listed = np.zeros(len(table), dtype=bool)
    for column in names:
        listed |= np.array([name in wanted for name in column])
    return torch.from_numpy(listed)
