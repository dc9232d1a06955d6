"""`evaluate`: evaluation of embeddings tables against a taxonomy."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import torch

from labeltree.decisions.choose_classifier import ChosenClassifier
from labeltree.decisions.classifiers import Classifiers
from labeltree.errors import DataError
from labeltree.evaluation.by_attribute import check_attribute
from labeltree.evaluation.chosen_samples import Samples, choose_samples
from labeltree.evaluation.judging_taxonomy import JudgingTaxonomy
from labeltree.evaluation.measure_method import measure
from labeltree.evaluation.protocol_registry import wanted_protocols
from labeltree.evaluation.representations import ROLES
from labeltree.evaluation.result import EvaluationResult, MethodResult
from labeltree.evaluation.sample_columns import few_groups_note
from labeltree.evaluation.search_and_answer_columns import Inputs, Second
from labeltree.options.evaluation import EvaluationSettings
from labeltree.progress import Progress, add_prefix
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import AnyTaxonomy, Taxonomy
from labeltree.taxonomy.check_nodes import last_class_number
from labeltree.taxonomy.label_sets import common_ancestors, distinct_labels

__all__ = ["evaluate"]


def evaluate(
    table: EmbeddingTable,
    taxonomy: AnyTaxonomy,
    *,
    name: str = "trained",
    baselines: Mapping[str, EmbeddingTable] | None = None,
    split: str = "test",
    settings: EvaluationSettings | None = None,
    protocols: Sequence[str] = (),
    second: Second | None = None,
    classifiers: Mapping[str, Classifiers | ChosenClassifier] | None = None,
    answers_searched: Collection[str] | None = None,
    trained_by_epochs: Collection[str] = (),
    progress: Progress | None = None,
) -> EvaluationResult:
    """Measure how well embeddings respect a taxonomy, with the standard protocols, beside baselines.

    - linear probe on the features: learned on the training split, tested on `split`;
    - nearest prototype, parent violations and pair violations on the embeddings, in their geometry;
    - if the table has `predictions`, the model's own answers within `split`;
    - retrieval within `split` on features and on embeddings, without the query itself. If the table has
      groups, the query's own group is left out too (`EvaluationSettings.leave_group_out`). If fewer than half
      of the samples have another sample of their class within `split`, the training split is searched;
    - if the table has samples with several labels, the protocol `label-sets`; the answers above are judged
      by all labels of a sample;
    - if the table has `aspects`, probe, own answers and retrieval for each aspect, and their means as the
      role `aspects`; see `evaluate_aspects`;
    - retrieval and violations in the posterior space of the classifier that answers, if there are validation
      samples and at most 2,000 classes.

    If the table has no features, all protocols read its embeddings. If it has no splits, the classifiers
    learn from one half and are tested on the other, and retrieval searches the whole table. The notes of the
    result say which samples and representations were used and what was left out.

    Args:
        table: The embeddings to evaluate.
        taxonomy: Taxonomy of the table's labels, not necessarily the one used in training. If it is a DAG,
            metrics that are defined on a DAG use it; the others use its projection to a tree (the ODIR rule),
            whose nodes the result names. See `JudgingTaxonomy`.
        name: Name of the evaluated method in the result.
        baselines: Name → further tables, preferably of the same samples: raw pixels, an untrained encoder.
        split: The split to evaluate on, if the table has splits.
        settings: Default `EvaluationSettings()`.
        protocols: Names of further protocols to run, in addition to those in the settings; `all` runs every
            protocol that is defined for the table. See `list_protocols`.
        second: Another table of the same encoder, for protocols that need one.
        classifiers: Method name → fitted classifiers, or the choice of the classifier that gives the answers;
            whatever is not given is fitted and chosen here.
        answers_searched: Names of the methods that are also measured in the posterior space of the classifier
            that answers, as the role `posterior`, see `read_posterior`; None = the evaluated one.
        trained_by_epochs: Names of the methods of whose training the validation samples chose an epoch.
        progress: Called as `progress(message, done, total)` while samples are searched.

    Raises:
        DataError: If no sample has a label, the split is missing, a label is outside the taxonomy, or a
            requested protocol is not defined for the table.
        ValueError: If a protocol does not exist, or does not have a given option.

    Example:
        >>> import torch
        >>> from labeltree.runs import EmbeddingTable
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> nodes = taxonomy.encode(["dog", "cat", "trout"]).repeat(8)
        >>> vectors = torch.eye(3).repeat(8, 1) + 0.01 * torch.arange(24)[:, None]
        >>> result = evaluate(EmbeddingTable(vectors, nodes), taxonomy)
        >>> result.main.score("top1"), result.main.score("recall_at_1")
        (1.0, 1.0)
    """
    settings = settings or EvaluationSettings()
    settings = replace(settings, protocols=tuple(dict.fromkeys((*settings.protocols, *protocols))))
    if bool(table.several.any()):
        settings = replace(settings, protocols=tuple(dict.fromkeys((*settings.protocols, "label-sets"))))
    entries = wanted_protocols(settings.protocols)
    for entry in entries:
        entry.choose(settings.options.get(entry.name, {}))  # report a wrong option before hours of work
    if baselines and name in baselines:
        raise ValueError(
            f"name is '{name}', which is also the name of a baseline; give one of them another name"
        )
    tables = {name: table, **(baselines or {})}
    for key, given in tables.items():
        _check_nodes(key, given, taxonomy)
    judging = JudgingTaxonomy.of(taxonomy)
    tables = {key: _add_label_sets(judging.table(given), judging.tree) for key, given in tables.items()}
    chosen = {}
    for key, given in tables.items():
        try:
            chosen[key] = choose_samples(given, judging.tree, split, settings)
        except DataError as error:
            raise DataError(f"table '{key}': {error}") from error
    samples = chosen[name]
    for attribute in settings.by:
        check_attribute(attribute, table.attribute(attribute)[samples.test.numpy()])
    roles = ("embeddings",) if table.features is None else ROLES
    measured = {}
    for key, given in tables.items():
        inputs = Inputs(
            given,
            judging,
            chosen[key],
            settings,
            split,
            second=second if key == name else None,
            progress=add_prefix(progress, key),
            name=key,
            evaluated=key == name,
            roles=roles,
            answers_searched=key in ((name,) if answers_searched is None else answers_searched),
            trained_by_epochs=key in trained_by_epochs,
        )
        measured[key] = measure(inputs, entries, (classifiers or {}).get(key))
    methods = {key: entry.method for key, entry in measured.items()}
    few_groups = few_groups_note(tables[name], samples.test)
    numbers = _class_numbers_note(table)
    return EvaluationResult(
        name=name,
        split=samples.split,
        methods=methods,
        counts={"samples": len(table), **samples.counts, **measured[name].counts},
        notes=[
            methods[name].classifier.sentence,
            *_reading_notes(methods, name, roles),
            *judging.notes(),
            *samples.notes,
            *few_groups,
            *numbers,
            *dict.fromkeys(note for entry in measured.values() for note in entry.notes),
            *dict.fromkeys(note for entry in measured.values() for note in entry.aspect_notes),
            *_different_samples(tables, chosen, name),
        ],
        cautions=[*numbers, *samples.cautions, *few_groups],
        search=samples.plan.described(),
        settings=settings,
        outcomes={key: entry.outcomes for key, entry in measured.items()},
        samples=samples,
        classifiers=measured[name].classifiers,
        same_features=[
            key for key, given in tables.items() if key != name and have_same_features(tables[name], given)
        ],
    )


def have_same_features(first: EmbeddingTable, other: EmbeddingTable) -> bool:
    """Whether two tables have the same features of the same samples, as before and after a frozen encoder."""
    ours, theirs = first.features, other.features
    return ours is not None and theirs is not None and torch.equal(ours, theirs)


def fit_to_table(
    table: EmbeddingTable, taxonomy: AnyTaxonomy, *, split: str, settings: EvaluationSettings
) -> Classifiers:
    """The classifiers that `evaluate` learns from the training samples of a table, and their choice.

    Args:
        table: The table.
        taxonomy: Taxonomy of its labels.
        split: The split that is measured.
        settings: Settings of the evaluation.
    """
    judging = JudgingTaxonomy.of(taxonomy)
    table = _add_label_sets(judging.table(table), judging.tree)
    samples = choose_samples(table, judging.tree, split, settings)
    roles = ("embeddings",) if table.features is None else ROLES
    return Inputs(table, judging, samples, settings, split, roles=roles).fit_classifiers()


def _class_numbers_note(table: EmbeddingTable) -> list[str]:
    last = last_class_number(table.nodes)
    if not last:
        return []
    return [
        f"The labels are exactly the nodes 0 to {last}, as class numbers are, and node 0 is the root. If "
        "they number the classes of a data set, nothing here is right: write nodes = "
        "taxonomy.nodes_of(class_names)[class_numbers], or the names of the classes as 'labels'."
    ]


def _check_nodes(name: str, table: EmbeddingTable, taxonomy: AnyTaxonomy) -> None:
    """Raise a `DataError` if a column of a table has nodes that the taxonomy does not have."""
    for what, nodes, missing in (
        ("labels", table.nodes, "no label); give the table's own"),
        ("label_sets", table.label_sets, "no further label)"),
        ("predictions", table.predictions, "no answer)"),
    ):
        if nodes is None or not nodes.numel():
            continue
        least, most = int(nodes.min()), int(nodes.max())
        if not -1 <= least <= most < taxonomy.num_nodes:
            raise DataError(
                f"table '{name}' has {what} from {least} to {most}, but the taxonomy's nodes are 0 to "
                f"{taxonomy.num_nodes - 1} (-1 = {missing}"
            )


def _add_label_sets(table: EmbeddingTable, tree: Taxonomy) -> EmbeddingTable:
    """A table in which the labels of a sample are distinct, and `nodes` the common ancestors of several."""
    if table.label_sets is None:
        return table
    sets = distinct_labels(table.label_sets, tree)
    several = (sets >= 0).sum(1) > 1
    if not bool(several.any()):
        return replace(table, label_sets=None)
    nodes = torch.where(several, common_ancestors(sets, tree), table.nodes)
    alone = torch.cat([nodes[:, None], sets.new_full(sets[:, 1:].shape, -1)], 1)
    return replace(table, nodes=nodes, label_sets=torch.where(several[:, None], sets, alone))


def _reading_notes(methods: Mapping[str, MethodResult], name: str, roles: tuple[str, ...]) -> list[str]:
    """Notes on what each protocol reads, and on methods with only one representation."""
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


def _different_samples(
    tables: Mapping[str, EmbeddingTable], chosen: Mapping[str, Samples], name: str
) -> list[str]:
    """A note for every baseline whose test samples differ from those of the evaluated method."""
    tested = {}
    for key, table in tables.items():
        rows = chosen[key].test
        instances = rows if table.instances is None else table.instances[rows]
        tested[key] = torch.stack([instances, table.nodes[rows]], dim=1)
    return [
        f"'{key}' was not tested on the same samples as '{name}': compare the two with care."
        for key, samples in tested.items()
        if not torch.equal(tested[name], samples)
    ]
