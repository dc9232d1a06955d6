"""A run seen on another version of its taxonomy: merged classes are one, and labels and answers are of it."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

from labeltree.data import Source
from labeltree.inference.load_run import TrainedRun
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.check_nodes import trust_labels
from labeltree.taxonomy.versions.between_versions import VersionChange

__all__ = ["run_by", "run_on"]


def run_on(run: TrainedRun, taxonomy: str | Path, mapping: str | Path | None = None) -> TrainedRun:
    """See a run on another version of its taxonomy; nothing in its folder changes.

    Args:
        run: The run.
        taxonomy: File of the new taxonomy, a tree.
        mapping: File that says what became of each node of the run's taxonomy; None = what is certain, see
            `TaxonomyMapping.between`.

    Returns:
        The run with the same weights. Classes of its classifiers that are one node now add their
        probabilities up, a class that was split answers the node above its parts, a removed one the node
        above.

    Raises:
        TaxonomyError: If a file cannot be read, or is of other taxonomies.
    """
    new = Taxonomy.from_file(taxonomy)
    if mapping is None and new == run.taxonomy:
        return run
    return run_by(run, VersionChange.of(run.taxonomy, new, mapping))


def run_by(run: TrainedRun, change: VersionChange) -> TrainedRun:
    """See a run on the new version of this step from its taxonomy, as `run_on` does."""
    new = change.mapping.new
    trust_labels(new)
    nodes = change.to_new(run.network.from_training)
    network = copy.copy(run.network)  # the same modules and weights
    network.taxonomy, network.from_training = new, nodes
    return TrainedRun(
        run.folder,
        network,
        replace(run.description, from_training=tuple(nodes.tolist())),
        run.training_taxonomy or run.taxonomy,
        None if run.own_samples is None else _source_on(run.own_samples, change),
        base=run,
        change=change,
    )


def _source_on(source: Source, change: VersionChange) -> Source:
    return source.on_taxonomy(change.mapping.new, change.to_new(source.nodes), change.places)
