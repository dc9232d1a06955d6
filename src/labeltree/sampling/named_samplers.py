"""The batch samplers by the names that `sampler` in a recipe and `--sampler` take."""

from __future__ import annotations

from collections.abc import Callable

from labeltree.options.choices import SamplerName
from labeltree.sampling.batch_sampler import BatchSampler, RandomBatchSampler
from labeltree.sampling.class_balanced import ClassBalancedBatchSampler
from labeltree.sampling.hierarchical import HierarchicalBatchSampler
from labeltree.sampling.samples_per_class import BalancedBatchSampler
from labeltree.taxonomy import Taxonomy

__all__ = ["NAMED_SAMPLERS"]


def _draw_at_random(taxonomy: Taxonomy, *given: object, **settings: object) -> BatchSampler:
    """Batches without regard to the taxonomy."""
    return RandomBatchSampler(*given, **settings)  # type: ignore[arg-type]


NAMED_SAMPLERS: dict[SamplerName, Callable[..., BatchSampler]] = {
    "hierarchical": HierarchicalBatchSampler,
    "random": _draw_at_random,
    "balanced": BalancedBatchSampler,
    "class-balanced": ClassBalancedBatchSampler,
}
"""Called with the taxonomy, labels `(n,)`, batch size, `seed`, `rank`, `world_size` and `drop_last`."""
