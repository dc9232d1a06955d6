"""The classifiers of a run, stored in its folder, and the choice of the one that answers."""

from __future__ import annotations

import errno
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from labeltree.atomic import atomic_write
from labeltree.data.stratified import stratified_subsample
from labeltree.decisions.choose_classifier import (
    CLASSIFIER_WORDS,
    ChosenClassifier,
    ClassifierKind,
    choose_by_accuracy,
)
from labeltree.decisions.classifiers import (
    ClassifierChoice,
    Classifiers,
    LinearScores,
    classifier_from,
    fit_classifiers,
)
from labeltree.decisions.searched_space import choose_space
from labeltree.errors import DataError, RunError, typed
from labeltree.inference.load_run import TrainedRun
from labeltree.inference.run_embeddings import MOST_LEARNED, OwnSamples
from labeltree.options.evaluation import EvaluationSettings, type_settings
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.runs.run_digests import file_digest
from labeltree.safe_files import Reader, read_json, read_tensors
from labeltree.taxonomy.label_sets import finest_labels
from labeltree.training.network import Network

__all__ = [
    "OwnScores",
    "classifiers_on",
    "evaluate_again",
    "other_report",
    "own_scores",
    "run_classifiers",
    "save_classifiers",
    "write_classifiers",
]

_VERSION = 1
_ROWS = 4096


@dataclass(frozen=True)
class OwnScores:
    """The logits of the classifier that was trained with the encoder.

    Attributes:
        network: The network of the run.
        classes: (C,) nodes of the data's taxonomy; in a model on another version of its taxonomy, classes
            that were merged are the same node.
    """

    network: Network
    classes: Tensor

    def __call__(self, table: EmbeddingTable, /) -> Tensor:
        """Class scores (n, C) of a table of the same encoder."""
        assert table.features is not None
        objective, device = self.network.objective, self.network.device
        parts = []
        with torch.inference_mode():
            for part in torch.split(table.features, _ROWS):
                scores = objective.class_scores(part.to(device))
                assert scores is not None
                parts.append(scores[1].double().cpu())
        return torch.cat(parts).clone()  # tensors made in inference mode cannot be used in autograd


def own_scores(network: Network) -> OwnScores | None:
    """The network's own classifier, if all its classes are nodes of the data's taxonomy."""
    network = network.eval()
    with torch.inference_mode():
        scores = network.objective.class_scores(torch.zeros(1, network.feature_dim, device=network.device))
    if scores is None:
        return None
    nodes = network.from_training[scores[0].cpu()].clone()
    if bool((nodes < 0).any()):
        return None
    return OwnScores(network, nodes)


def run_classifiers(
    run: TrainedRun,
    asked: ClassifierChoice | None = None,
    *,
    own_samples: Callable[[], EmbeddingTable] | None = None,
    anew: bool = False,
) -> Classifiers:
    """Load the classifiers of a run and the choice of the one that answers; learn and store them if absent.

    The choice is made once, by hierarchical F1 on validation, and written to the folder, so that every
    command uses the same classifier. It is made again when the weights have changed. A requested classifier
    answers from then on, until another is requested.

    Args:
        run: The run.
        asked: The requested classifier, or `auto`; None: the one chosen before, or set in the recipe.
        own_samples: Gives the embeddings of the run's own samples; None: they are opened if needed.
        anew: Learn the classifiers again.

    Raises:
        RunError: If the stored classifiers cannot be read.
        FolderInUseError: If they must be written, and another process is writing to the folder.
        DataError: If no training sample has a label to learn, or the requested classifier is not available.
    """
    folder = run.folder
    own = own_scores(run.network)
    known = None if anew else _read(run, own)
    if known is not None and (asked is None or asked == known.chosen.asked):
        return known
    with folder.locked():
        if known is None:
            table = (own_samples or OwnSamples(folder.path))()
            learned = _learn(run, table, asked or run.recipe.classifier, own)
        else:
            offered = [name for name in CLASSIFIER_WORDS if name in known.chosen.offered]
            before = known.chosen
            chosen = choose_by_accuracy(
                offered,
                before.accuracies,
                before.samples,
                asked or "auto",
                before.hierarchical_f1,
                before.losses,
            )
            learned = replace(known, chosen=replace(chosen, one_class=before.one_class, space=before.space))
        try:
            if known is None:  # before the choice, which refers to the classifiers by their digest
                with atomic_write(folder.classifier) as temporary:
                    temporary.write_bytes(_packed(learned))
            _keep_choice(run, learned)
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
                raise  # a read-only run gets the same choice each time, without storing it
    return learned


def classifiers_on(
    run: TrainedRun, known: Classifiers, chosen: ChosenClassifier, temperatures: Mapping[str, float]
) -> Classifiers:
    """The classifiers of a run that is seen on another version of its taxonomy, as they answer there.

    Args:
        run: The run on that version.
        known: Its classifiers in its own taxonomy.
        chosen: The classifier that answers on that version.
        temperatures: See `Classifiers`.
    """
    assert run.change is not None
    places = run.change.places
    return replace(
        known,
        fitted={kind: replace(each, classes=places[each.classes]) for kind, each in known.fitted.items()},
        chosen=chosen,
        own=None if known.own is None else own_scores(run.network),
        temperatures=temperatures,
    )


def save_classifiers(
    run: TrainedRun,
    known: Classifiers,
    chosen: ChosenClassifier,
    temperatures: Mapping[str, float],
    folder: RunFolder,
) -> None:
    """Write `classifiers_on` another version to a new folder, which holds the weights of the run."""
    write_classifiers(replace(run, folder=folder), classifiers_on(run, known, chosen, temperatures))


def write_classifiers(run: TrainedRun, classifiers: Classifiers) -> None:
    """Write classifiers and the choice among them to the folder of a run, which nobody reads yet."""
    run.folder.classifier.write_bytes(_packed(classifiers))
    _keep_choice(run, classifiers)


def _keep_choice(run: TrainedRun, classifiers: Classifiers) -> None:
    folder = run.folder
    folder.write_json(
        folder.chosen_classifier,
        {
            "version": _VERSION,
            "encoder": run.weights_digest,
            "classifiers": file_digest(folder.classifier),
            "classifier": classifiers.chosen.to_dict(),
            "probe_gap": classifiers.gap,
            **({"merging_temperatures": dict(classifiers.temperatures)} if classifiers.temperatures else {}),
        },
    )


def _packed(known: Classifiers) -> bytes:
    """The fitted classifiers as safetensors."""
    from safetensors.torch import save

    parts = {kind: each.tensors() for kind, each in known.fitted.items()}
    return save({f"{part}.{k}": v.contiguous() for part, named in parts.items() for k, v in named.items()})


def _learn(
    run: TrainedRun, table: EmbeddingTable, asked: ClassifierChoice, own: OwnScores | None
) -> Classifiers:
    several = table.several
    if table.label_sets is not None:  # each label of a sample is learned
        repeated, labels = table.one_label_a_row(torch.arange(len(table)))
        table, several = replace(table.rows(repeated), nodes=labels, label_sets=None), several[repeated]
    taxonomy, nodes = run.taxonomy, table.nodes
    finest = finest_labels(nodes, taxonomy)[nodes.clamp(min=0)]
    split = table.split
    rows = {
        name: (finest if split is None else finest & torch.from_numpy(split == name)).nonzero()[:, 0]
        for name in ("train", "val")
    }
    held = rows["val"][~several[rows["val"]]] if split is not None else rows["val"][:0]
    learned = stratified_subsample(rows["train"], nodes[rows["train"]], MOST_LEARNED, 0)
    fitted = fit_classifiers(table, taxonomy, learned=learned, held=held, asked=asked, own=own)
    space = choose_space(table, taxonomy, learned=learned, held=held)
    return replace(fitted, chosen=replace(fitted.chosen, space=space))


def _read(run: TrainedRun, own: OwnScores | None) -> Classifiers | None:
    """The stored classifiers of the present weights; None if there are none."""
    folder = run.folder
    if not (folder.chosen_classifier.is_file() and folder.classifier.is_file()):
        return None
    reader = Reader(
        "the classifiers of a run", f"'labeltree calibrate {typed(folder.path)}' makes them again", RunError
    )
    content = read_json(folder.chosen_classifier, reader)
    if content.get("version") != _VERSION or content.get("encoder") != run.weights_digest:
        return None
    tensors = read_tensors(folder.classifier, reader)
    if content.get("classifiers") != file_digest(folder.classifier):
        return None  # a process was killed after writing only one of the two files
    geometry, curvature = run.network.objective.geometry.name, run.recipe.curvature
    parts: dict[ClassifierKind, dict[str, Tensor]] = {
        part: {k.removeprefix(f"{part}."): v for k, v in tensors.items() if k.startswith(f"{part}.")}
        for part in CLASSIFIER_WORDS
    }
    try:
        fitted = {  # runs of earlier versions have the probe and the prototypes alone
            kind: classifier_from(part, geometry, curvature, of_features=kind == "feature-means")
            for kind, part in parts.items()
            if part or (tensors and kind in ("probe", "prototypes"))  # a merged model has its own alone
        }
        chosen = ChosenClassifier.from_dict(dict(content["classifier"]))
        gap = float(content["probe_gap"])
        temperatures = {
            str(name): float(value) for name, value in content.get("merging_temperatures", {}).items()
        }
        if not all(0 < value < math.inf for value in temperatures.values()):
            raise ValueError("merging_temperatures")
    except (AttributeError, DataError, KeyError, TypeError, ValueError) as error:
        raise RunError(
            f"'{folder.classifier}' and '{folder.chosen_classifier.name}' do not hold the classifiers of a "
            f"run; 'labeltree calibrate {typed(folder.path)}' makes them again"
        ) from error
    linear = {kind: isinstance(each, LinearScores) for kind, each in fitted.items()}
    right = all(is_linear == (kind in ("lda", "probe")) for kind, is_linear in linear.items())
    if not right or not (chosen.name in fitted or (chosen.name == "own" and own is not None)):
        return None
    return Classifiers(fitted, chosen, own, gap, temperatures)


def other_report(path: str | Path, chosen: ChosenClassifier) -> str | None:
    """A warning if the report in the folder shows another classifier than the one that answers now."""
    folder = RunFolder(path)
    try:
        content = json.loads(folder.metrics.read_text("utf-8"))
        shown = content["methods"][content["name"]].get("classifier", {"name": "probe"})["name"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # there is no report to differ from
    if shown == chosen.name:
        return None
    return (
        f"{folder.metrics} and the report show classifier '{shown}', these answers are of '{chosen.name}'; "
        f"'{evaluate_again(folder)}' brings them in line"
    )


def evaluate_again(folder: RunFolder) -> str:
    """The command that evaluates a run as before: with its questions, protocols and columns."""
    command = f"labeltree evaluate {typed(folder.path)}"
    try:
        settings = EvaluationSettings(**json.loads(folder.metrics.read_text("utf-8"))["settings"])
    except (OSError, ValueError, KeyError, TypeError):
        return command  # another version wrote it
    return command + type_settings(replace(settings, classifier="auto"))
