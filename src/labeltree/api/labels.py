"""Labels that look wrong, and samples whose labels would teach most."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from labeltree.options.curation import LabelNextOptions, SuspectsOptions
from labeltree.options.schema import RunPlace, as_place, takes

if TYPE_CHECKING:
    from labeltree.curation.label_next import LabelRequests
    from labeltree.curation.suspects import Suspects
    from labeltree.runs import EmbeddingTable

__all__ = ["LabelNext", "label_next", "suspects"]


@takes(SuspectsOptions)
def suspects(options: SuspectsOptions) -> Suspects:
    """Find the labels of a run, an index or embeddings that look wrong.

    A run and an index have a taxonomy of their own. `corrections` of `train` and `evaluate` read the table
    that is written, once a person has decided in it.

    Returns:
        The suspects, most suspicious first: `found`, the `scores` of all samples, and how many labels are
        `expected` to be wrong.

    Raises:
        LabeltreeError: If there is nothing of the kind, it cannot be read, or somebody has decided in
            `out`.
        TaxonomyError: If there is no such node.
        ValueError: If a setting is out of range, `out` does not end in `.csv`, or a taxonomy is given for a
            run or an index.
    """
    from labeltree.curation.judged_samples import open_judged
    from labeltree.curation.suspects import check_free, write_suspects
    from labeltree.curation.table_suspects import find_table_suspects
    from labeltree.data.object_stores import local_copy

    if options.out is not None:
        check_free(options.out)  # before samples are embedded
    what = local_copy(options.embeddings or as_place(options.what or ""))
    if options.embeddings is not None and not Path(what).exists():
        raise options.refusal(f"`embeddings`: there is no file '{options.embeddings}'")
    judged = open_judged(
        _find_place(what, options),
        taxonomy=options.taxonomy,
        progress=options.progress,
        verify=options.verify,
    )
    suspected = find_table_suspects(judged, options)
    if options.out is not None:
        write_suspects(suspected, options.out)
    return suspected


@dataclass(frozen=True)
class LabelNext:
    """What to label next.

    Attributes:
        requests: The samples asked for, with depths and reasons.
        samples: All samples, whose rows the requests name.
    """

    requests: LabelRequests
    samples: EmbeddingTable


@takes(LabelNextOptions)
def label_next(options: LabelNextOptions) -> LabelNext:
    """Choose what to label next, and how finely, and write a table for an annotator.

    For vectors in memory, `labeltree.curation.label_next` chooses the same and writes nothing.

    Raises:
        DataError: If there is nothing to choose from, or somebody has decided in `out`.
        ValueError: For a setting out of range, if costs make an answer free, or for a taxonomy of a run or
            an index.
    """
    from labeltree.curation.answer_costs import read_costs
    from labeltree.curation.label_next import label_next as choose
    from labeltree.curation.label_requests import may_be_labelled, write_requests
    from labeltree.index import open_table

    costs = read_costs(options.costs) if isinstance(options.costs, str) else options.costs
    samples = open_table(_find_place(options.what, options), taxonomy=options.taxonomy)
    requests = choose(
        samples.vectors,
        samples.nodes,
        samples.tree,
        budget=options.budget,
        costs=costs,
        reliability=options.reliability,
        depth=options.depth,
        groups=samples.groups,
        candidates=may_be_labelled(samples, split=options.split, within=options.within),
        seed=options.seed,
        **({} if options.strategy is None else {"strategy": options.strategy}),
    )
    if options.out is not None:
        write_requests(requests, samples, options.out)
    return LabelNext(requests, samples)


def _find_place(what: RunPlace, options: SuspectsOptions | LabelNextOptions) -> str | Path:
    """Where samples are here; a taxonomy may be named for embeddings alone."""
    from labeltree.data.object_stores import local_copy
    from labeltree.runs import PartFolder

    place = local_copy(as_place(what))
    if options.taxonomy is not None and not (Path(place).is_file() or PartFolder(place).exists()):
        raise options.refusal(
            "`taxonomy` goes with embeddings, a file or a folder of parts; a run and an index have their own"
        )
    return place
