"""Where every page stands in the sidebar: four kinds of pages, each in reading order.

A page of a folder that has an ``index.md`` stands below that index, in the order in which the index links to
them; all others are named here. Names are those of the staged pages (`staging.py`), without ``.md``.
"""

from __future__ import annotations

__all__ = ["NAVIGATION"]

NAVIGATION: dict[str, list[str]] = {
    "Tutorials": ["tutorials/index"],
    "How-to guides": [
        "Choose an objective <choose>",
        "taxonomies",
        "taxonomy-files",
        "taxonomy-changes",
        "photographs",
        "vectors",
        "Vectors to answers: the ridge head <ridge-head>",
        "training",
        "no-better-than-raw",
        "encoders",
        "images-and-texts",
        "own-loop",
        "several-devices",
        "add-your-own-objective",
        "python",
        "Evaluate a model or embeddings <evaluation>",
        "Evaluate as clinical studies do <evaluation-clinical>",
        "patients",
        "report",
        "compare",
        "studies",
        "Answer only as finely as is sure <decisions>",
        "unknown-classes",
        "new-classes",
        "corrections",
        "Choose what to label next <label-next>",
        "Make and change an index <indexing>",
        "searching",
        "explore",
        "search-servers",
        "bulk",
        "how-far",
        "deploy",
    ],
    "Reference": [
        "objectives/index",
        "data/index",
        "reference/commands/index",
        "reference/recipe",
        "reference/numbers",
        "reference/api/index",
        "file-formats",
        "environment",
        "reference/errors",
        "glossary",
        "recipes",
        "what-is-in-it",
        "versions",
        "changelog",
    ],
    "Explanation": [
        "idea",
        "exact",
        "findings",
        "confirmation",
        "studies/index",
        "performance",
        "benchmarks/index",
        "reliability",
        "security",
        "contributing",
    ],
}
"""Pages by the four kinds of documentation (Diátaxis); ``title <page>`` gives a page a shorter title."""
