"""The options of `calibrate`, `export`, `extend`, `forget` and `merge`, which make one model of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Protocol, TypeAlias

from labeltree.options.choices import Calibration, ClassifierChoice, Descent, ExportFormat, Placing
from labeltree.options.schema import Option, Options, Place, RunPlace, argument
from labeltree.options.shared import (
    NO_TABLE,
    OWN_SAMPLES,
    WHERE_DATA,
    AnswerMapping,
    AnswerTaxonomy,
    Classifier,
    DataPath,
    Run,
    ShownProgress,
    TableSettings,
    Verify,
)

__all__ = [
    "AModel",
    "CalibrateOptions",
    "ExportOptions",
    "ExtendOptions",
    "ForgetOptions",
    "InfoOptions",
    "LoadOptions",
    "MergeOptions",
]


AModel = Annotated[RunPlace, Option("the run folder, or the folder of an exported model", positional=True)]


_LabelsMapping: TypeAlias = Annotated[
    Place | None,
    Option(
        "with `data`: what became of the taxonomy of its labels, from 'labeltree taxonomy map'",
        metavar="FILE",
    ),
]


@dataclass(frozen=True)
class InfoOptions(Options):
    """The model to describe."""

    run: AModel


class Device(Protocol):
    """A device, such as `torch.device("cpu")`."""

    @property
    def type(self) -> str:
        """Its kind: `cpu` or `cuda`."""


@dataclass(frozen=True)
class LoadOptions(Options):
    """The run to load, and what it answers with."""

    run: AModel
    _: KW_ONLY
    classifier: Classifier = None
    taxonomy: AnswerTaxonomy = None
    mapping: AnswerMapping = None
    device: Annotated[
        str | Device | None, Option("device of the network, such as `cuda:1`; None = a GPU if there is one")
    ] = None


@dataclass(frozen=True)
class CalibrateOptions(Options):
    """How to calibrate a run, and on what."""

    run: Run
    _: KW_ONLY
    data: Annotated[
        Place | None,
        Option(
            "labelled samples to calibrate on; default: those of the run: validation samples, or for "
            "thresholds those that --calib of 'labeltree train' has set aside"
        ),
    ] = None
    data_path: DataPath = None
    table: TableSettings = None
    mapping: _LabelsMapping = None
    classifier: Classifier = None
    calibration: Annotated[
        Calibration,
        Option(
            "what makes scores probabilities: one temperature, a slope and an offset per class, or a "
            "temperature per depth (default: temperature); not applied where it makes the probabilities of "
            "held-out samples worse"
        ),
    ] = "temperature"
    descent: Annotated[
        Descent,
        Option(
            "answers lie on the path to the most probable child at every depth (default), or on that to the "
            "most probable leaf"
        ),
    ] = "child"
    share: Annotated[float, argument("the share of the samples that the probabilities are fitted to")] = 0.3
    seed: Annotated[int, Option("seed of which samples fit the probabilities", least=0, most=2**32 - 1)] = 0
    verify: Verify = False
    progress: ShownProgress = None

    def check(self) -> None:
        if self.verify and self.data is not None:
            raise self.refusal(OWN_SAMPLES)
        self.require("data", WHERE_DATA, "data_path")
        self.require("data", NO_TABLE, "table")
        self.require("data", "is about the labels of `data`; name some", "mapping")


@dataclass(frozen=True)
class ExportOptions(Options):
    """What to export, and where to."""

    run: Run
    out: Annotated[Place, Option("the folder to write; it appears as a whole or not at all", metavar="OUT")]
    _: KW_ONLY
    formats: Annotated[
        Sequence[ExportFormat],
        Option(
            "onnx: the graph, labels.json, preprocess.json and predict.py; safetensors: the weights, for "
            "labeltree; torch: model.pt2, for torch.export.load (default: onnx safetensors)",
            flag="--format",
        ),
    ] = ("onnx", "safetensors")
    name: Annotated[str | None, Option("name of the model on its card (default: that of the folder)")] = None
    with_reference: Annotated[
        bool,
        Option(
            "also export the embeddings of validation and some training samples, without names: with them "
            "the model can be calibrated again without its data"
        ),
    ] = False
    replace: Annotated[bool, Option("replace an exported model in the folder")] = False
    classifier: Classifier = None
    taxonomy: AnswerTaxonomy = None
    mapping: AnswerMapping = None


@dataclass(frozen=True)
class ExtendOptions(Options):
    """New classes for a run, and classes that are retired."""

    run: Run
    data: Annotated[
        Place | None,
        Option(
            "labelled samples: a folder of nested folders, a table or a data set; samples of known classes "
            "are learned from, too",
            flag="--data",
            metavar="DATA",
        ),
    ] = None
    _: KW_ONLY
    data_path: DataPath = None
    table: TableSettings = None
    mapping: _LabelsMapping = None
    place: Annotated[
        Placing,
        Option(
            "new classes go where the path of their label leads (default), or under the node where their "
            "samples fall"
        ),
    ] = "path"
    under: Annotated[
        str | None, Option("the node below which the labels of `data` begin", metavar="NODE")
    ] = None
    names: Annotated[
        Sequence[str],
        Option(
            "new classes by name, of a run that reads texts: paths, or a .txt file with one a line and "
            "synonyms after tabs",
            metavar="NODE|FILE",
        ),
    ] = ()
    retire: Annotated[
        Sequence[str], Option("classes that no longer answer: this node, or all below it", metavar="NODE")
    ] = ()
    classifier: Annotated[
        ClassifierChoice,
        Option(
            "what answers: the nearest class mean of the features or (prototypes) of the embeddings, a "
            "discriminant analysis or a linear probe learned again on all classes, or, of a run with "
            "objective tree-ridge, its own; auto: the best on held-out samples (default)"
        ),
    ] = "auto"
    seed: Annotated[int, Option("seed of the choice of held-out samples", least=0, most=2**32 - 1)] = 0
    progress: ShownProgress = None

    def check(self) -> None:
        about = "is about the samples of `data`; name some"
        self.require(
            "data", about, "data_path", "table", "mapping", "place", *(() if self.names else ("under",))
        )
        if self.place == "nearest" and self.under is not None:
            raise self.refusal("`place` nearest finds the node above by itself; leave out `under`")


@dataclass(frozen=True)
class ForgetOptions(Options):
    """What a run forgets, and where else it is deleted."""

    run: Run
    _: KW_ONLY
    samples: Annotated[
        Sequence[str],
        Option(
            "samples by their ids, as indexes and tables of suspects name them",
            flag="--sample",
            metavar="ID",
        ),
    ] = ()
    groups: Annotated[
        Sequence[str],
        Option("all samples of these groups, such as a patient", flag="--group", metavar="NAME"),
    ] = ()
    listed: Annotated[
        Place | None,
        Option("a text file with the id of a sample on every line", flag="--list", metavar="FILE"),
    ] = None
    indexes: Annotated[
        Sequence[Place],
        Option(
            "folders of indexes to delete them from, beside the one in the folder of the run",
            flag="--index",
            metavar="FOLDER",
        ),
    ] = ()
    progress: ShownProgress = None

    def check(self) -> None:
        if isinstance(self.samples, str) or isinstance(self.groups, str):
            raise self.refusal("`samples` and `groups` are lists of names")
        if not self.samples and not self.groups and self.listed is None:
            raise self.refusal("nothing to forget: name `samples`, `groups` or a file by `listed`")


@dataclass(frozen=True)
class MergeOptions(Options):
    """The runs to make one model of, and where."""

    runs: Annotated[
        Sequence[RunPlace],
        Option("the run folders; settings are those of the first", metavar="RUN", positional=True),
    ]
    _: KW_ONLY
    out: Annotated[Place, Option("folder of the merged model, new or empty", metavar="NEW", flag="--out")]

    def check(self) -> None:
        if isinstance(self.runs, str) or len(self.runs) < 2:
            raise self.refusal("name at least two `runs`")
