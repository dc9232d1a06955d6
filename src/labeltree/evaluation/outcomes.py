"""The per-sample outcomes of a method, as a file that comparisons and the report are computed from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeltree.atomic import atomic_write
from labeltree.errors import DataError
from labeltree.evaluation.statistics import Statistic
from labeltree.evaluation.statistics.interval_ends import Floats
from labeltree.evaluation.statistics.retrieval_jackknife import WithoutBlocks
from labeltree.metrics.catalogue import is_larger_better
from labeltree.runs.table_file_columns import number_groups
from labeltree.safe_files import Reader, read_arrays, value_from_json
from labeltree.taxonomy import Taxonomy, TaxonomyDAG
from labeltree.taxonomy.versions.paired_names import match_orders

__all__ = ["Key", "Outcomes", "is_retrieval", "load_outcomes", "renumber_nodes", "save_outcomes"]

FORMAT = 4  # format 1 lacks further protocols, format 2 statistics, format 3 what results add
_BY_METRIC = ("values", "weights", "classes", "folds")
_KEYS = ("whole", "smaller_is_better", "no_share", "among")
_OUTCOMES = Reader("the outcomes of an evaluation", "run 'labeltree evaluate' again")

Key = tuple[str, str]
"""A role and a metric, as in `MethodResult.scores`: `("features", "top1")`."""

Integers = NDArray[np.int64]
_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Outcomes:
    """The outcomes of one method for every sample that was tested or searched.

    A metric is the mean of a column over the samples that count in it, weighted by `weights` if given.

    Attributes:
        instances: `(n,)` sample ids.
        nodes: `(n,)` true nodes of the taxonomy.
        taxonomy: The tree of the nodes.
        values: Metric → `(n,)` float64, NaN where a sample does not count.
        weights: Metric → `(n,)` sample weights; metrics that are not in it have weight 1.
        classes: Metric → `(n,)` class of each sample, for metrics that are means of class means; `rows`
            keeps the weights such that all classes count the same.
        folds: Metric → `(n,)` fold of each sample, −1 in none, for metrics that are means over folds;
            `rows` keeps the weights such that all folds count the same. Missing in older files, like
            `classes`.
        among: Metrics of samples that are searched among each other: each sample is a query and a result.
        without: Metric in `among` → its values without blocks of the samples, for intervals and tests;
            missing in older files, so that these have none.
        groups: `(n,)` group of dependent samples (of one patient, of one item), −1 for a sample of its own
            group; None = all samples are independent.
        bands: `(n,)` frequency band of each sample's class in training: 0 head, 1 middle, 2 tail, −1 not in
            the training split; None if the classes do not fill all three bands.
        attributes: Name → `(n,)` str, value of each sample in the attributes that results are broken down
            by (`EvaluationSettings.by`); missing in older files.
        predicted: Classifier (`probe`, `prototypes`, `own`) → `(n,)` predicted nodes, −1 where there
            is no answer.
        search: The retrieval search, as in `EvaluationResult.search`; empty in older files.
        whole: Metrics that are meaningful only over all samples; they are omitted from tables by subtree.
        smaller_is_better: Metrics that are better when smaller, in addition to those of the catalogue.
        directions: Metric → whether larger is better, None for neither, where that was given and is not what
            its name says.
        protocols: Roles that are further protocols; their metrics are compared only on request.
        no_share: Metrics that do not lie between 0 and 1 (costs, depths), see `Column`.
        statistics: Protocol → its numbers that are not means over samples; their rows index these columns.
        dag: Taxonomy of the nodes in `statistics`, if the evaluation used a DAG.
        elsewhere: Protocol → outcomes of the samples of another table that it measured.
        ids: `(n,)` str, the samples' ids, by which comparisons pair them; None if they have none, and in
            older files.
    """

    instances: Integers
    nodes: Integers
    taxonomy: Taxonomy
    values: dict[Key, Floats]
    weights: dict[Key, Floats] = field(default_factory=dict)
    groups: Integers | None = None
    bands: Integers | None = None
    predicted: dict[str, Integers] = field(default_factory=dict)
    whole: frozenset[Key] = frozenset()
    search: dict[str, str] = field(default_factory=dict)
    smaller_is_better: frozenset[Key] = frozenset()
    directions: dict[Key, bool | None] = field(default_factory=dict)
    protocols: tuple[str, ...] = ()
    no_share: frozenset[Key] = frozenset()
    statistics: dict[str, list[Statistic]] = field(default_factory=dict)
    dag: TaxonomyDAG | None = None
    elsewhere: dict[str, Outcomes] = field(default_factory=dict)
    classes: dict[Key, Integers] = field(default_factory=dict)
    folds: dict[Key, Integers] = field(default_factory=dict)
    attributes: dict[str, NDArray[np.str_]] = field(default_factory=dict)
    among: frozenset[Key] = frozenset()
    without: dict[Key, WithoutBlocks] = field(default_factory=dict)
    ids: NDArray[np.str_] | None = None

    def __post_init__(self) -> None:
        n = len(self.instances)
        columns: dict[str, NDArray[Any] | None] = {"nodes": self.nodes, "groups": self.groups}
        columns |= {"bands": self.bands, "ids": self.ids}
        for kind in _BY_METRIC:
            columns |= {f"{kind} of {key}": column for key, column in getattr(self, kind).items()}
        columns |= {**self.predicted, **{f"attribute {k}": of for k, of in self.attributes.items()}}
        for name, column in columns.items():
            if column is not None and column.shape != (n,):
                raise DataError(
                    f"outcomes of {n} samples have '{name}' of shape {column.shape}; one a sample"
                )
        for key, part in self.without.items():
            blocks = part.values.shape[1]
            if part.blocks.shape != (n,) or (n and not -1 <= part.blocks.min() <= part.blocks.max() < blocks):
                raise DataError(f"outcomes of {n} samples have no such {blocks} blocks as those of {key}")
            if (
                part.searches.shape != (blocks,)
                or part.rows.shape != part.values.shape[:1]
                or not np.isin(part.rows, np.arange(n)).all()
            ):
                raise DataError(f"outcomes of {n} samples have values without blocks beyond them, of {key}")
        for key, column in (*self.classes.items(), *self.folds.items()):
            if n and not -1 <= column.min() <= column.max() < max(n, self.taxonomy.num_nodes):
                raise DataError(f"outcomes have no such classes or folds as those of {key}")
        for statistic in (each for several in self.statistics.values() for each in several):
            if len(statistic.rows) and not 0 <= statistic.rows.min() <= statistic.rows.max() < n:
                raise DataError(f"outcomes of {n} samples have {statistic.names} of samples beyond them")
            largest = (self.dag or self.taxonomy).num_nodes - 1
            nodes = [statistic.samples.get("target", _NONE), statistic.fixed.get("classes", _NONE)]
            told = statistic.fixed.get("told")
            if told is not None and len(told) != largest + 1:
                raise DataError(f"{statistic.names} have a mask of {len(told)} nodes, not {largest + 1}")
            if any(len(each) and not 1 - each.ndim <= each.min() <= each.max() <= largest for each in nodes):
                raise DataError(f"{statistic.names} have nodes beyond those of the taxonomy, 0 to {largest}")
        if n and not 0 <= int(self.nodes.min()) <= int(self.nodes.max()) < self.taxonomy.num_nodes:
            raise DataError(
                f"outcomes have nodes from {int(self.nodes.min())} to {int(self.nodes.max())}, but the "
                f"taxonomy's are 0 to {self.taxonomy.num_nodes - 1}"
            )

    def __len__(self) -> int:
        return len(self.instances)

    @property
    def units(self) -> Integers | None:
        """Resampling unit `(n,)` of each row: its group, else its instance; None = every row is a unit."""
        if self.groups is not None:
            return self.groups
        return self.instances if len(np.unique(self.instances)) < len(self) else None

    @property
    def keys(self) -> list[Key]:
        """Role and name of every metric."""
        joint = [(role, name) for role, of in self.statistics.items() for each in of for name in each.names]
        return list(dict.fromkeys([*self.values, *joint]))

    def joint(self, key: Key) -> list[Statistic]:
        """The statistics that are parts of a metric; empty if the metric is a mean over samples."""
        return [each for each in self.statistics.get(key[0], ()) if key[1] in each.names]

    def is_mean_over_classes(self, key: Key) -> bool:
        """Whether a metric is a mean of class means, and not of folds or of a search among the samples."""
        return key in self.classes and key not in self.folds and key not in self.among

    def counted(self, key: Key) -> NDArray[np.bool_]:
        """Mask `(n,)` of the samples that count in a metric."""
        if key in self.values:
            return ~np.isnan(self.values[key])
        mask = np.zeros(len(self), dtype=bool)
        for statistic in self.joint(key):
            mask[statistic.rows] = True
        return mask

    def block(self, key: Key) -> str:
        """What a metric is measured with, on the same samples: `answers`, `retrieval` or a protocol.

        Without a split, classifiers are tested on half of the samples, and retrieval searches all of them.
        """
        return key[0] if key[0] in self.protocols else "retrieval" if is_retrieval(key[1]) else "answers"

    def in_block(self, block: str) -> NDArray[np.bool_]:
        """Mask `(n,)` of the samples that count in any metric of a block."""
        mask = np.zeros(len(self), dtype=bool)
        for key in self.keys:
            if self.block(key) == block:
                mask |= self.counted(key)
        return mask

    def count_groups(self, rows: NDArray[np.bool_]) -> int:
        """Number of resampling units among the samples of a mask `(n,)`: groups, or else samples."""
        units = self.units
        return int(rows.sum()) if units is None else int(number_groups(units[rows]).max(initial=-1)) + 1

    def rows(self, index: NDArray[Any]) -> Outcomes:
        """The outcomes of the samples at `index`: `(m,)` positions or `(n,)` bool."""

        def of(columns: dict[Any, Any]) -> dict[Any, Any]:
            return {key: column[index] for key, column in columns.items()}

        chosen = np.flatnonzero(index) if index.dtype == bool else index
        place = np.full(len(self), -1)
        place[chosen] = np.arange(len(chosen))
        of_rows = replace(
            self,
            instances=self.instances[index],
            nodes=self.nodes[index],
            values=of(self.values),
            weights=of(self.weights),
            classes=of(self.classes),
            folds=of(self.folds),
            without={key: each.at(chosen) for key, each in self.without.items()},
            groups=None if self.groups is None else self.groups[index],
            ids=None if self.ids is None else self.ids[index],
            bands=None if self.bands is None else self.bands[index],
            predicted=of(self.predicted),
            attributes=of(self.attributes),
            statistics={role: [e.moved(place) for e in several] for role, several in self.statistics.items()},
        )
        return replace(of_rows, weights={key: of_rows._balanced(key) for key in self.weights})

    def _balanced(self, key: Key) -> Floats:
        """The weights of a metric, scaled such that its classes count the same, and so do its folds."""
        weights, fold, of_class = self.weights[key], self.folds.get(key), self.classes.get(key)
        parts = [] if fold is None else [fold + 1]
        if of_class is not None:
            cell = of_class + 1 if fold is None else (of_class + 1) * (fold.max(initial=-1) + 2) + fold + 1
            parts.insert(0, cell)
        if parts and key in self.values:
            weights = np.where(np.isnan(self.values[key]), 0.0, weights)
        for part in parts:  # the classes within each fold, then the folds
            total = np.bincount(part, weights, minlength=1)[part]
            weights = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
        return weights

    @property
    def search_words(self) -> str:
        """The retrieval search in words; retrieval metrics are comparable if it is the same."""
        where = "in the training split" if self.search.get("searched") == "train" else "among each other"
        own = self.search.get("own_group") == "left out"
        return f"{where}, {'without' if own else 'with'} the query's own group"

    def larger_is_better(self, key: Key) -> bool | None:
        """Whether a larger value of the metric is better; None: neither is."""
        if key in self.directions:
            return self.directions[key]
        return False if key in self.smaller_is_better else is_larger_better(key[1])


def renumber_nodes(outcomes: Outcomes, target: Outcomes) -> Outcomes | None:
    """Outcomes with the nodes of the taxonomy of others, if the two differ only in the order of siblings.

    Returns:
        The outcomes; None if one taxonomy has nodes that the other lacks.
    """
    if outcomes.taxonomy == target.taxonomy and outcomes.dag == target.dag:
        return outcomes
    places = match_orders(outcomes.taxonomy, target.taxonomy)
    if places is None:
        return None
    dag, judged = outcomes.dag, None if outcomes.dag is not None else places
    if outcomes.dag is not None and target.dag is not None:
        judged = match_orders(outcomes.dag, target.dag)
        dag = outcomes.dag if judged is None else target.dag

    def renumbered(columns: dict[Any, Integers]) -> dict[Any, Integers]:
        of = np.append(places, -1)  # -1 stays
        return {key: of[nodes] for key, nodes in columns.items()}

    statistics = outcomes.statistics
    if judged is not None:
        statistics = {role: [each.renumber(judged) for each in of] for role, of in statistics.items()}
    return replace(
        outcomes,
        nodes=places[outcomes.nodes],
        taxonomy=target.taxonomy,
        classes=renumbered(outcomes.classes),
        predicted=renumbered(outcomes.predicted),
        statistics=statistics,
        dag=dag,
    )


def is_retrieval(metric: str) -> bool:
    """Whether a metric is a retrieval metric, which depends on the search gallery."""
    name = metric.rpartition(".")[2]
    return name in ("h_ap", "h_ap_map", "ndcg", "asi") or name.startswith(
        ("recall_at_", "map_at_r", "mean_average_precision", "ahp", "hp_at_", "ap_at_depth_")
    )


def save_outcomes(path: str | Path, methods: Mapping[str, Outcomes]) -> None:
    """Write the outcomes of the methods atomically, as `.npz` without pickled objects.

    Raises:
        ValueError: If the outcomes have different taxonomies.
    """
    columns: dict[str, Any] = {}
    taxonomies = [outcomes.taxonomy for outcomes in methods.values()]
    if any(taxonomy != taxonomies[0] for taxonomy in taxonomies):
        raise ValueError("the outcomes are of several taxonomies; write those of each to a file of its own")
    heads = [
        {"name": name, **_packed(outcomes, f"{number}/", columns)}
        for number, (name, outcomes) in enumerate(methods.items())
    ]
    content = {"format": FORMAT, "methods": heads, "taxonomy": [t.to_dict() for t in taxonomies[:1]]}
    head = json.dumps(content, ensure_ascii=False, allow_nan=False)
    with atomic_write(path) as temporary:
        np.savez_compressed(temporary, allow_pickle=False, head=np.array(head), **columns)


def _packed(outcomes: Outcomes, prefix: str, columns: dict[str, Any]) -> dict[str, Any]:
    """Add all arrays to `columns`, with a prefix; return the rest as a JSON-compatible dictionary."""
    kept: dict[str, Any] = {"instances": outcomes.instances, "nodes": outcomes.nodes}
    kept |= {"groups": outcomes.groups, "bands": outcomes.bands, "ids": outcomes.ids}
    kept |= {f"predicted/{key}": column for key, column in outcomes.predicted.items()}
    kept |= {f"attributes/{key}": column for key, column in outcomes.attributes.items()}
    for kind in _BY_METRIC:
        entries: dict[Key, Any] = getattr(outcomes, kind)
        kept |= {f"{kind}/{role}/{metric}": column for (role, metric), column in entries.items()}
    for (role, metric), part in outcomes.without.items():
        kept |= {
            f"without/{role}/{metric}/{name}": getattr(part, name)
            for name in ("blocks", "rows", "values", "searches")
        }
    head: dict[str, Any] = {
        "search": outcomes.search,
        "protocols": outcomes.protocols,
        **{kind: sorted("/".join(key) for key in getattr(outcomes, kind)) for kind in _KEYS},
    }
    if outcomes.directions:
        head["directions"] = {"/".join(key): better for key, better in outcomes.directions.items()}
    if outcomes.statistics:
        head["statistics"] = []
    for role, several in outcomes.statistics.items():
        for each in several:
            at = f"statistics/{len(head['statistics'])}"
            head["statistics"].append({"role": role, "kind": each.kind, "names": each.names})
            kept[f"{at}/rows"] = each.rows
            kept |= {f"{at}/samples/{name}": column for name, column in each.samples.items()}
            kept |= {f"{at}/fixed/{name}": column for name, column in each.fixed.items()}
    if outcomes.dag is not None:
        head["dag"] = outcomes.dag.to_dict()
    columns |= {f"{prefix}{key}": column for key, column in kept.items() if column is not None}
    if outcomes.elsewhere:
        head["elsewhere"] = {
            name: {
                **_packed(other, f"{prefix}elsewhere/{name}/", columns),
                "taxonomy": other.taxonomy.to_dict(),
            }
            for name, other in outcomes.elsewhere.items()
        }
    return head


def load_outcomes(path: str | Path) -> dict[str, Outcomes]:
    """Read what `save_outcomes` wrote.

    Raises:
        DataError: If the file holds no outcomes, or was written by a newer version.
    """
    columns = read_arrays(path, _OUTCOMES)
    with _OUTCOMES.reading(path, "parts of it are missing, or of another kind"):
        head = value_from_json(str(columns["head"][()]))
        if head["format"] not in (1, 2, 3, FORMAT):
            raise _OUTCOMES.failure(path, f"it has format {head['format']!r}, not {FORMAT}")
        trees = [Taxonomy.from_dict(document) for document in head["taxonomy"]]
        methods = {
            str(entry["name"]): _unpacked(f"{number}/", columns, entry, trees[0])
            for number, entry in enumerate(head["methods"])
        }
        if head["format"] < 4:
            methods = {name: _searched_among(outcomes) for name, outcomes in methods.items()}
    if not methods:
        raise _OUTCOMES.failure(path, "it holds no method")
    return methods


def _unpacked(
    prefix: str, columns: Mapping[str, Any], entry: Mapping[str, Any], taxonomy: Taxonomy
) -> Outcomes:
    mine = _below(prefix, columns)
    kinds = {"values": "f", "weights": "f", "predicted": "i", "instances": "i", "nodes": "i"}
    kinds |= {"attributes": "U", "ids": "U", "groups": "i", "bands": "i", "classes": "i", "folds": "i"}
    for name, column in mine.items():
        kind = kinds.get(name.partition("/")[0])
        if kind is not None and (column.ndim != 1 or column.dtype.kind != kind):
            raise ValueError(f"{name} is {column.dtype} {column.shape}")
    without: dict[Key, WithoutBlocks] = {}
    for name, values in _below("without/", mine).items():
        key, _, part = name.rpartition("/")
        if part == "values":
            whole = [mine[f"without/{key}/{other}"] for other in ("blocks", "rows", "searches")]
            kinds_of = [each.dtype.kind for each in (values, *whole)]
            if values.ndim != 2 or kinds_of != ["f", "i", "i", "i"] or any(each.ndim != 1 for each in whole):
                raise ValueError(f"without/{name} is {values.dtype} {values.shape}")
            if values.shape[1] != whole[0].max(initial=-1) + 1:
                raise ValueError(f"without/{name} is of {values.shape[1]} blocks")
            without[_key(key)] = WithoutBlocks(whole[0], whole[1], values, whole[2])
    smaller = frozenset(map(_key, entry.get("smaller_is_better", ())))
    directions = {_key(key): better for key, better in entry.get("directions", {}).items()}
    statistics: dict[str, list[Statistic]] = {}
    for number, given in enumerate(entry.get("statistics", ())):
        of, role, names = _below(f"statistics/{number}/", mine), str(given["role"]), tuple(given["names"])
        better = directions.get((role, names[0]), False if (role, names[0]) in smaller else None)
        data = of["rows"], _below("samples/", of), _below("fixed/", of)
        try:
            statistic = Statistic(given["kind"], names, *data, larger_is_better=better)
        except DataError as error:
            raise ValueError(str(error)) from error
        statistics.setdefault(role, []).append(statistic)
    return Outcomes(
        instances=mine["instances"],
        nodes=mine["nodes"],
        taxonomy=taxonomy,
        **{kind: {_key(k): column for k, column in _below(f"{kind}/", mine).items()} for kind in _BY_METRIC},
        groups=mine.get("groups"),
        ids=mine.get("ids"),
        bands=mine.get("bands"),
        predicted=_below("predicted/", mine),
        attributes=_below("attributes/", mine),
        search=dict(entry.get("search", {})),
        protocols=tuple(entry.get("protocols", ())),
        whole=frozenset(map(_key, entry.get("whole", ()))),
        smaller_is_better=smaller,
        directions=directions,
        no_share=frozenset(map(_key, entry.get("no_share", ()))),
        among=frozenset(map(_key, entry.get("among", ()))),
        without=without,
        statistics=statistics,
        dag=TaxonomyDAG.from_dict(entry["dag"]) if "dag" in entry else None,
        elsewhere={
            name: _unpacked(f"elsewhere/{name}/", mine, other, Taxonomy.from_dict(other["taxonomy"]))
            for name, other in entry.get("elsewhere", {}).items()
        },
    )


def _searched_among(outcomes: Outcomes) -> Outcomes:
    """Outcomes of an older file, with the metrics of samples that were searched among each other."""
    own = outcomes.search.get("searched") != "train"
    among = {
        key
        for key in outcomes.values
        if is_retrieval(key[1]) and (own if key[0] not in outcomes.protocols else key[0] != "query-gallery")
    }
    return replace(outcomes, among=frozenset(among))


def _below(prefix: str, columns: Mapping[str, Any]) -> dict[str, Any]:
    """The columns whose names begin with a prefix, by name without the prefix."""
    return {name.removeprefix(prefix): column for name, column in columns.items() if name.startswith(prefix)}


def _key(name: str) -> Key:
    role, _, metric = name.partition("/")
    return role, metric
