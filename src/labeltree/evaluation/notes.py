"""Sentences of a result on what was read, and on what can be compared."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from labeltree.evaluation.result import MethodResult
from labeltree.evaluation.samples import Samples
from labeltree.runs import EmbeddingTable

__all__ = ["different_samples", "reading_notes"]


def reading_notes(methods: Mapping[str, MethodResult], name: str, roles: list[str]) -> list[str]:
    """What each protocol reads, and which methods have one representation only."""
    main = methods[name].representations
    if len(roles) == 1:
        notes = [f"Every number reads {main['embeddings']}: the table holds no other representation."]
    else:
        notes = [
            f"The linear probe reads {main['features']}; "
            f"prototypes and violations read {main['embeddings']}; retrieval is measured on both."
        ]
    for key, method in methods.items():
        if key != name and len(roles) == 2 and method.representations["features"].source == "embeddings":
            notes.append(
                f"'{key}' has one representation only ({method.representations['features']}), read for both."
            )
    if any(r.geometry == "poincare" for method in methods.values() for r in method.representations.values()):
        notes.append(
            "Of points of the Poincaré ball, the linear probe reads the tangent vectors at its centre."
        )
    return notes


def different_samples(
    tables: Mapping[str, EmbeddingTable], chosen: Mapping[str, Samples], name: str
) -> list[str]:
    """A note for every baseline that was tested on other samples than the evaluated method."""
    own = _tested(tables[name], chosen[name])
    return [
        f"'{key}' was not tested on the same samples as '{name}': compare the two with care."
        for key in tables
        if key != name and not torch.equal(own, _tested(tables[key], chosen[key]))
    ]


def _tested(table: EmbeddingTable, samples: Samples) -> torch.Tensor:
    rows = samples.test
    instances = rows if table.instances is None else table.instances[rows]
    return torch.stack([instances, table.nodes[rows]], dim=1)
