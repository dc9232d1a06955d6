"""Where every page stands in the sidebar: four kinds of pages, in reading order, the guides by their use.

A page of a folder that has an ``index.md`` stands below that index, in the order in which the index links to
them; all others are named here. Names are those of the staged pages (`staging.py`), without ``.md``.
"""

from __future__ import annotations

__all__ = ["NAVIGATION"]

NAVIGATION: dict[str, list[str]] = {
    "Start": ["install", "tutorials/index", "other-libraries"],
    "How to bring labels and data": [
        "taxonomies",
        "taxonomy-files",
        "taxonomy-changes",
        "photographs",
        "images-and-texts",
        "vectors",
    ],
    "How to train": [
        "Choose an objective <choose>",
        "training",
        "encoders",
        "no-better-than-raw",
        "Vectors to answers: the ridge head <ridge-head>",
        "python",
        "own-loop",
        "several-devices",
        "add-your-own-objective",
    ],
    "How to evaluate": [
        "Evaluate a model or embeddings <evaluation>",
        "report",
        "compare",
        "Evaluate as clinical studies do <evaluation-clinical>",
        "patients",
        "studies",
    ],
    "How to answer": ["Answer only as finely as is sure <decisions>", "unknown-classes", "new-classes"],
    "How to curate": ["corrections", "Choose what to label next <label-next>"],
    "How to search": ["Make and change an index <indexing>", "searching", "explore", "search-servers"],
    "How to deploy": ["deploy", "bulk", "how-far"],
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
