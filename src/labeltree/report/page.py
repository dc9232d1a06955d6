"""The report: one HTML page that needs no network, from one result."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from labeltree.atomic import atomic_write
from labeltree.errors import DataError
from labeltree.evaluation import EvaluationResult, choose_samples, read
from labeltree.evaluation.samples import thin_out
from labeltree.report.charts import METHOD_SHAPES, DotRow, Line, clip, dot_chart, line_chart, sparkline
from labeltree.report.confusions import confusion_rows
from labeltree.report.error_tree import error_rows
from labeltree.report.gallery import search_legend, search_rows
from labeltree.report.headline import headline, opening, tiles
from labeltree.report.metric_table import metric_table
from labeltree.report.names import NodeNames
from labeltree.report.palette import TreeColours
from labeltree.report.projection import draw_plane, project
from labeltree.report.retrieval_rows import choose_searches
from labeltree.report.svg import legend_mark
from labeltree.report.wording import percent, plural
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

__all__ = ["render_report", "write_report"]

_HISTORY_LEFT_OUT = ("epoch", "step", "seconds")


def write_report(
    result: EvaluationResult,
    table: EmbeddingTable,
    taxonomy: Taxonomy,
    path: str | Path,
    *,
    images: Callable[[Tensor], Tensor] | None = None,
    title: str = "How well the embeddings follow the tree",
    history: Sequence[Mapping[str, float]] | None = None,
    recipe: Mapping[str, Any] | None = None,
    projection: str = "t-SNE",
    max_points: int = 3000,
) -> Path:
    """Write the report of an evaluation as one HTML file, atomically; see `render_report`.

    Returns:
        the path of the file.
    """
    page = render_report(
        result,
        table,
        taxonomy,
        images=images,
        title=title,
        history=history,
        recipe=recipe,
        projection=projection,
        max_points=max_points,
    )
    with atomic_write(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return Path(path)


def render_report(
    result: EvaluationResult,
    table: EmbeddingTable,
    taxonomy: Taxonomy,
    *,
    images: Callable[[Tensor], Tensor] | None = None,
    title: str = "How well the embeddings follow the tree",
    history: Sequence[Mapping[str, float]] | None = None,
    recipe: Mapping[str, Any] | None = None,
    projection: str = "t-SNE",
    max_points: int = 3000,
) -> str:
    """The report as a string of HTML: the same for the same input.

    Args:
        result: of `labeltree.evaluation.evaluate`.
        table: the table that was evaluated.
        taxonomy: the one it was evaluated with.
        images: gives the ``(m, c, h, w)`` uint8 images of ``(m,)`` instances; without, searches show names.
        title: of the page.
        history: a row an epoch, as `RunFolder.read_history` gives it.
        recipe: the settings of the run, nested or flat.
        projection: ``t-SNE`` or ``PCA``.
        max_points: how many samples are projected at most.

    Raises:
        DataError: if the table is not the one that the result comes from.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    sample, samples = ("image", "images") if images is not None else ("sample", "samples")
    split = "test" if result.split == "half" else result.split
    chosen = choose_samples(table, taxonomy, split, result.settings)
    if (
        len(table) != result.counts["samples"]
        or chosen.counts["test samples"] != result.counts["test samples"]
    ):
        raise DataError("the table is not the one that was evaluated: it has another number of samples")
    names = NodeNames(taxonomy)
    colours = TreeColours(taxonomy, table.nodes[chosen.search])
    features, embeddings = read(table, "features"), read(table, "embeddings")
    searches = choose_searches(features, table.nodes, chosen.search, taxonomy)
    shown = thin_out(chosen.search, table.nodes[chosen.search], max_points, result.settings.seed)
    plane = project(embeddings, shown, table.nodes[shown], method=projection, seed=result.settings.seed)
    environment = Environment(
        loader=PackageLoader("labeltree.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = percent
    return environment.get_template("report.html").render(
        title=title,
        sample=sample,
        samples=samples,
        opening=opening(result, taxonomy, samples, trained=recipe is not None),
        sentences=headline(result, samples),
        tiles=tiles(result, samples),
        methods=list(result.methods),
        groups=metric_table(result, sample, samples),
        depth=_depths(result, taxonomy, chosen.test, table),
        errors=result.main.errors,
        error_rows=error_rows(result.main.errors, taxonomy, colours, names),
        whole_tree=len(result.main.errors.nodes),
        confusions=confusion_rows(result.main.errors, taxonomy, names),
        curve=_curve(result),
        plane=draw_plane(plane, taxonomy, colours, title=f"Map of {len(shown)} {samples} by {plane.method}"),
        plane_method=plane.method,
        plane_count=len(shown),
        plane_reads=embeddings.representation,
        branches=colours.branches,
        branch_marks=[legend_mark(b.shape, colour=b.colour) for b in colours.branches],
        method_marks=[
            legend_mark(shape, css=f"dot m{i}") for i, shape in enumerate(_shapes(len(result.methods)))
        ],
        other_branches=colours.others,
        searches=search_rows(searches, table, taxonomy, names, images),
        searched=len(chosen.search),
        search_reads=features.representation,
        legend=search_legend(taxonomy),
        with_pictures=images is not None,
        history=_history(history or []),
        epochs=len(history or []),
        notes=result.notes,
        counts=result.counts,
        settings=list(_flat(_plain_settings(result))),
        recipe=list(_flat(recipe or {})),
        split="half of each class, the table has no splits" if result.split == "half" else result.split,
    )


def _depths(
    result: EvaluationResult, taxonomy: Taxonomy, test: Tensor, table: EmbeddingTable
) -> dict[str, Any]:
    """The chart and the table of the accuracy by depth."""
    labels = taxonomy.paths[table.nodes[test]]
    names = NodeNames(taxonomy)
    rows = []
    for depth in range(1, taxonomy.max_depth + 1):
        groups = labels[:, depth - 1]
        found = torch.unique(groups[groups > 0]).tolist()
        last = depth == taxonomy.max_depth
        what = ", the exact class" if last else ", the coarsest" if depth == 1 else ""
        detail = _as_many_as_fit([names.short(node) for node in found], 31 - len(str(len(found))))
        values = [method.by_depth["probe"][depth - 1] for method in result.methods.values()]
        rows.append(
            DotRow(
                f"Depth {depth}{what}",
                plural(len(found), "group") + f": {detail}"
                if not last
                else plural(len(found), "class", "classes") + f": {detail}",
                values,
            )
        )
    classifiers = {
        "probe": f"linear classifier on {next(iter(result.main.representations.values())).source}",
        "prototypes": "nearest class average of embeddings",
    }
    table_rows = [
        (method.name, classifiers.get(protocol, protocol), [percent(v) for v in values])
        for method in result.methods.values()
        for protocol, values in method.by_depth.items()
    ]
    chart = dot_chart(rows, list(result.methods), title="Accuracy of every method at every depth of the tree")
    return {"chart": chart, "rows": table_rows, "depths": list(range(1, taxonomy.max_depth + 1))}


def _as_many_as_fit(names: list[str], limit: int) -> str:
    text = ""
    for i, name in enumerate(names):
        longer = f"{text}, {name}" if text else name
        if len(longer) + 3 * (i < len(names) - 1) > limit:
            return f"{text}, …" if text else clip(name, limit)
        text = longer
    return text


def _curve(result: EvaluationResult) -> Any:
    """HP@k of all methods; of the evaluated one by both representations."""
    lines = []
    for style, (key, method) in enumerate(result.methods.items()):
        for role, values in method.hp_curve.items():
            if key != result.name and role != next(iter(method.hp_curve)):
                continue
            both = key == result.name and len(method.hp_curve) > 1
            name = f"{method.name}, {role}" if both else method.name
            lines.append(Line(name, values, style, dashed=both and role == "embeddings"))
    return line_chart(
        lines,
        title="Hierarchical precision of the first k results, for every method",
        x_label="length of the list of results, k",
        y_label="share of the best possible list (HP@k)",
    )


def _history(rows: Sequence[Mapping[str, float]]) -> list[dict[str, Any]]:
    """A small chart for every quantity that training recorded and that changed."""
    columns = list(dict.fromkeys(key for row in rows for key in row if key not in _HISTORY_LEFT_OUT))
    first = float(rows[0].get("epoch", 1)) if rows else 1.0
    charts = []
    for name in columns:
        values = [float(row.get(name, math.nan)) for row in rows]
        known = [value for value in values if math.isfinite(value)]
        if len(known) > 1 and min(known) < max(known):
            words = name.replace("_", " ")
            text = f"{words} over {plural(len(rows), 'epoch')}: from {known[0]:.3g} to {known[-1]:.3g}"
            charts.append(
                {
                    "name": words,
                    "start": f"{known[0]:.3g}",
                    "end": f"{known[-1]:.3g}",
                    "chart": sparkline(values, title=text, first=first),
                }
            )
    return charts


def _shapes(count: int) -> list[str]:
    return [METHOD_SHAPES[i % len(METHOD_SHAPES)] for i in range(count)]


def _plain_settings(result: EvaluationResult) -> dict[str, Any]:
    return dict(result.to_dict()["settings"])


def _flat(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested settings as ``a.b`` and value."""
    for key, value in content.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            shown = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            yield f"{prefix}{key}", shown
