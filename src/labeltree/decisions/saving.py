"""A decision rule as JSON: plain numbers, a version, and which taxonomy they belong to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import torch

from labeltree.decisions.calibrators import Calibrator
from labeltree.decisions.class_nodes import ClassNodes
from labeltree.decisions.rule import DecisionRule, Fitted
from labeltree.errors import RunError
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["VERSION", "rule_from_dict", "rule_to_dict", "taxonomy_digest"]

VERSION = 1


def taxonomy_digest(taxonomy: AnyTaxonomy) -> str:
    """A fingerprint of the names and parents of all nodes."""
    return hashlib.sha256(json.dumps(list(taxonomy.entries())).encode()).hexdigest()


def rule_to_dict(rule: DecisionRule) -> dict[str, Any]:
    """The rule as what JSON can hold; every number is read back as it was."""
    fitted = rule.fitted
    return {
        "version": VERSION,
        "taxonomy": taxonomy_digest(rule.classes.taxonomy),
        "classes": rule.classes.nodes.tolist(),
        "calibrator": {
            "kind": rule.calibrator.kind,
            "temperatures": list(rule.calibrator.temperatures),
            "slopes": list(rule.calibrator.slopes),
            "offsets": list(rule.calibrator.offsets),
        },
        "descent": rule.descent,
        "counts": rule.counts,
        "fitted": {
            "scores": fitted.scores.tolist(),
            "labels": fitted.labels.tolist(),
            "groups": None if fitted.groups is None else fitted.groups.tolist(),
        },
    }


def rule_from_dict(content: Mapping[str, Any], taxonomy: AnyTaxonomy) -> DecisionRule:
    """Read what `rule_to_dict` gave.

    Raises:
        RunError: if it is of another version or taxonomy, or something is missing.
    """
    version = content.get("version")
    if version != VERSION:
        raise RunError(
            f"the decisions have version {version}, this labeltree reads {VERSION}; calibrate again"
        )
    if content.get("taxonomy") != taxonomy_digest(taxonomy):
        raise RunError("the decisions were fitted to another taxonomy; calibrate again")
    try:
        calibrator, fitted = content["calibrator"], content["fitted"]
        groups = fitted["groups"]
        return DecisionRule(
            ClassNodes(torch.tensor(content["classes"], dtype=torch.int64), taxonomy),
            Calibrator(
                calibrator["kind"],
                tuple(calibrator["temperatures"]),
                tuple(calibrator["slopes"]),
                tuple(calibrator["offsets"]),
            ),
            content["descent"],
            Fitted(
                torch.tensor(fitted["scores"], dtype=torch.float64),
                torch.tensor(fitted["labels"], dtype=torch.int64),
                None if groups is None else torch.tensor(groups, dtype=torch.int64),
            ),
            dict(content["counts"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"the decisions cannot be read ({error}); calibrate again") from error
