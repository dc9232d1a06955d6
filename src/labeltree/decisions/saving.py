"""A decision rule as JSON: plain numbers, a version, and which taxonomy they belong to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, get_args

import torch

from labeltree.decisions.calibrators import CALIBRATIONS, Calibrator
from labeltree.decisions.class_nodes import ClassNodes
from labeltree.decisions.paths import Descent
from labeltree.decisions.rule import DecisionRule, Fitted
from labeltree.errors import RunError
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["VERSION", "rule_from_dict", "rule_to_dict", "taxonomy_digest"]

VERSION = 1


def taxonomy_digest(taxonomy: AnyTaxonomy) -> str:
    """A fingerprint of the names and parents of all nodes."""
    document = taxonomy.to_dict()
    return hashlib.sha256(json.dumps([document["names"], document["parents"]]).encode()).hexdigest()


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
        rule = DecisionRule(
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
        if not _is_whole(rule):
            raise ValueError("parts do not go together")
        return rule
    except (KeyError, TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise RunError(
            "the decisions cannot be read: parts are missing or damaged; calibrate again"
        ) from error


def _is_whole(rule: DecisionRule) -> bool:
    """Whether the parts of a rule that was read can be one that was fitted."""
    classes, calibrator, fitted = rule.classes, rule.calibrator, rule.fitted
    numbers = torch.tensor(
        [*calibrator.temperatures, *calibrator.slopes, *calibrator.offsets], dtype=torch.float64
    )
    temperatures = {"temperature": 1, "depth": classes.taxonomy.max_depth + 1}.get(calibrator.kind, 0)
    slopes = len(classes) if calibrator.kind == "vector" else 0
    labels = fitted.labels
    return (
        rule.descent in get_args(Descent)
        and calibrator.kind in CALIBRATIONS
        and len(calibrator.temperatures) == temperatures
        and len(calibrator.slopes) == len(calibrator.offsets) == slopes
        and bool(numbers.isfinite().all())
        and all(temperature > 0 for temperature in calibrator.temperatures)
        and fitted.scores.ndim == 1
        and bool(fitted.scores.isfinite().all())
        and labels.shape == fitted.scores.shape
        and bool(((labels >= 0) & (labels < classes.taxonomy.num_nodes)).all())
        and (fitted.groups is None or fitted.groups.shape == labels.shape)
        and all(isinstance(count, int) for count in rule.counts.values())
    )
