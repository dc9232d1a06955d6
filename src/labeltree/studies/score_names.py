"""The scores that a study file may name: which there are, and which one was meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from labeltree.evaluation import EvaluationSettings
from labeltree.evaluation.answer_columns import PREFIX
from labeltree.evaluation.protocol_registry import list_protocols, wanted_protocols

__all__ = ["check_score", "find_score", "missing_scores", "score_name", "standard_scores"]

_ANSWERS = ("top1", "hierarchical_f1", "tree_accuracy", "mistake_severity")
_RANKINGS = ("map_at_r", "mean_average_precision", "ahp")
_OF_THE_TREE = ("parent_violations", "parent_order_accuracy", "pair_violations", "cpcc")
_WHOLE_RANKINGS = ("h_ap", "h_ap_map", "ndcg", "asi")
_BY_ITSELF = "label-sets"  # the protocol that runs wherever samples have several labels
_DEPTH = re.compile(r"(?<=depth[ _])\d+$")


def standard_scores(recall_ks: Sequence[int] = EvaluationSettings.recall_ks) -> dict[str, tuple[str, ...]]:
    """The metrics of each role that an evaluation has without further protocols; `1` is any depth.

    Args:
        recall_ks: The k of recall@k.
    """
    searched = (*(f"recall_at_{k}" for k in recall_ks), *_RANKINGS)
    own = tuple(f"own_{name}" for name in _ANSWERS)
    coarsest = ("accuracy_at_depth_1", "own_accuracy_at_depth_1")
    return {
        "features": (
            *_ANSWERS,
            *(f"{prefix}_{name}" for prefix in ("lda", "feature_mean") for name in _ANSWERS),
            *searched,
        ),
        "embeddings": (
            *(f"prototype_{name}" for name in _ANSWERS),
            *_OF_THE_TREE,
            *searched,
            *_WHOLE_RANKINGS,
            "ap_at_depth_1",
        ),
        "posterior": (*_OF_THE_TREE, *searched, *_WHOLE_RANKINGS, "ap_at_depth_1"),
        "predictions": own,
        "aspects": tuple(f"aspect_{name}" for name in (*_ANSWERS, *searched, *own, *coarsest)),
        **dict.fromkeys([kind for kind in PREFIX if kind != "each-fold"], ("accuracy at depth 1",)),
    }


def score_name(column: str) -> str:
    """The name of a score as standard results have it: `features/recall_at_1` for `features/recall@1`."""
    return column.replace("@", "_at_")


def find_score(column: str, known: Iterable[str]) -> str | None:
    """The one of these scores that is meant, however its `@` is written; None if there is none."""
    return {score_name(name): name for name in known}.get(score_name(column))


def check_score(
    what: str, column: str, settings: EvaluationSettings, transfer: Mapping[str, object] | None = None
) -> str:
    """A score of a study file, by the name that results have.

    The scores of a further protocol are known only once it has run: see `missing_scores`.

    Args:
        what: The section of the study file, for the message.
        column: The score, as `role/metric`.
        settings: The study's evaluation.
        transfer: The study's other data set, if it has one.

    Raises:
        ValueError: If no run of the study can have this score; the message names the nearest that there is.
    """
    scores = standard_scores(settings.recall_ks)
    moved = column.startswith("transfer ")
    if moved and not transfer:
        raise ValueError(f"{what} has '{column}', and the study has no transfer, which names the other data")
    role, _, metric = score_name(column).removeprefix("transfer ").partition("/")
    protocols = {entry.name for entry in list_protocols() if not entry.standard}
    chosen = {entry.name for entry in wanted_protocols(settings.protocols)} - scores.keys()
    if role in protocols:
        if role not in chosen and role != _BY_ITSELF:
            raise ValueError(
                f"{what} has '{column}', and the evaluation does not run '{role}'; add it: "
                f"evaluation: {{protocols: [{', '.join([*settings.protocols, role])}]}}"
            )
        return column
    if any(e.standard and not e.run.__module__.startswith("labeltree.") for e in wanted_protocols(())):
        return column  # a standard protocol of another package has scores that nobody knows here
    if _DEPTH.sub("1", metric) in scores.get(role, ()):
        return score_name(column)
    names = [f"{of}/{name}" for of, metrics in scores.items() for name in metrics]
    raise ValueError(f"{what} has '{column}', which is not a score; {_nearest(score_name(column), names)}")


def missing_scores(columns: Iterable[str], known: Sequence[str]) -> list[str]:
    """Sentences about scores that a study names and no result has."""
    if not known:
        return []
    return [
        f"no result has the score '{column}' of columns; {_nearest(column, known)}"
        for column in columns
        if find_score(column, known) is None
    ]


def _nearest(column: str, names: Sequence[str]) -> str:
    role = column.split("/")[0]
    own = [name for name in names if name.startswith(f"{role}/")]
    if near := get_close_matches(column, own or names, 1):
        return f"did you mean '{near[0]}'?"
    listed = [name.split("/", 1)[1] for name in own]
    some = f"{role} has {', '.join(listed[:12])}{', …' if len(listed) > 12 else ''}" if own else ""
    roles = f"there are {', '.join(dict.fromkeys(name.split('/')[0] for name in names))}, and protocols"
    return f"{some or roles}; 'Scores' in docs/studies.md lists all"
