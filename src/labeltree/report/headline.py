"""The first paragraph: what the model is, how good it is, and next to what."""

from __future__ import annotations

import math
from dataclasses import dataclass

from labeltree.evaluation import EvaluationResult, MethodResult
from labeltree.report.wording import percent, plural
from labeltree.taxonomy import Taxonomy

__all__ = ["Tile", "headline", "tiles", "tree_in_words"]


@dataclass(frozen=True)
class Tile:
    """A large number with what it says and what the baselines have."""

    number: str
    title: str
    detail: str


def tree_in_words(taxonomy: Taxonomy, classes: int) -> str:
    """How many classes in what tree, with the names of the main branches."""
    top = 0
    while len(taxonomy.children(top)) == 1:
        top = taxonomy.children(top)[0]
    branches = taxonomy.children(top)
    names = ", ".join(taxonomy.names[node] for node in branches[:4]) + (" …" if len(branches) > 4 else "")
    tree = f"a tree {plural(taxonomy.max_depth, 'step')} deep"
    if len(branches) < 2:
        return f"{plural(classes, 'class', 'classes')} in {tree}"
    return f"{plural(classes, 'class', 'classes')} in {tree}, with {len(branches)} main branches ({names})"


def headline(result: EvaluationResult, samples: str) -> list[str]:
    """Sentences: how good, whether better than each baseline, and how bad the mistakes are."""
    main, errors = result.main, result.main.errors
    top1 = main.score("top1")
    if math.isnan(top1):
        return [f"No test {samples} had a label fine enough to judge a class."]
    sentences = [
        f"Shown {errors.samples:,} {samples} it had not learned from, it gives {percent(top1)} of them exactly the "
        f"right class{_margin(top1, errors.samples)}."
    ]
    sentences += [_beside(main, other) for key, other in result.methods.items() if key != result.name]
    if errors.errors and len(errors.by_depth) > 1:
        near = 1 - errors.by_depth[0] / errors.errors
        sentences.append(
            f"Of its {plural(errors.errors, 'mistake')}, {percent(near, 0)} stay within the right main branch of the tree."
        )
    elif not errors.errors:
        sentences.append("It made no mistake.")
    return sentences


def tiles(result: EvaluationResult, samples: str) -> list[Tile]:
    """The four numbers to remember."""
    main = result.main
    others = [method for key, method in result.methods.items() if key != result.name]
    probe = main.by_depth.get("probe", [])
    found = [
        Tile(percent(main.score("top1")), "exact class right", _others(others, lambda m: m.score("top1"))),
    ]
    if len(probe) > 1:
        found.append(
            Tile(
                percent(probe[0]),
                "right at the coarsest depth",
                _others(others, lambda m: _first(m.by_depth)),
            )
        )
    found.append(
        Tile(
            percent(main.score("recall_at_1")),
            "most similar one is of the same class",
            _others(others, lambda m: m.score("recall_at_1")),
        )
    )
    violations = main.score("parent_violations")
    if not math.isnan(violations):
        found.append(
            Tile(
                percent(violations),
                "lie nearer to a wrong group (less is better)",
                _others(others, lambda m: m.score("parent_violations")),
            )
        )
    return found


def _first(by_depth: dict[str, list[float]]) -> float:
    return next(iter(by_depth.get("probe", [])), math.nan)


def _others(methods: list[MethodResult], score: object) -> str:
    assert callable(score)
    return ", ".join(f"{method.name} {percent(score(method))}" for method in methods)


def _margin(share: float, samples: int) -> str:
    """Half the 95 % interval of a share, by Wilson's formula, for as many independent samples."""
    z = 1.96
    half = z / (1 + z**2 / samples) * math.sqrt(share * (1 - share) / samples + z**2 / (4 * samples**2))
    return f" (± {100 * half:.1f} points, since that many {'' if samples != 1 else 'single '}were looked at)"


def _beside(main: MethodResult, other: MethodResult) -> str:
    ours, theirs = main.score("top1"), other.score("top1")
    gain = 100 * (ours - theirs)
    if math.isnan(gain):
        return f"{other.name} could not be judged."
    name = other.name[:1].upper() + other.name[1:]
    if abs(gain) < 0.05:
        return f"{name} does just as well, with {percent(theirs)}."
    verdict = (
        f"{gain:.1f} points fewer"
        if gain > 0
        else f"{-gain:.1f} points more, which is better than this model"
    )
    return f"{name} reaches {percent(theirs)}: {verdict}."
