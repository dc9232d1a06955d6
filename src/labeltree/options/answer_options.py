"""What is asked of answers, and the options of `predict` and `embed`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from labeltree.checks import check_choice
from labeltree.file_kinds import is_data_file
from labeltree.options.choices import AnswerFormat, Counted, Method, Modality, Optimised
from labeltree.options.schema import Option, Options, Place
from labeltree.options.shared import (
    NO_LABELS,
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
    VerifySplit,
    choose_form,
)

__all__ = [
    "FALSE_ALARMS",
    "NOTHING_NAMED",
    "AnswerFile",
    "AnswerOptions",
    "BulkOptions",
    "EmbedOptions",
    "PredictOptions",
    "Promise",
    "check_false_alarms",
]


NOTHING_NAMED = "there is nothing to answer for: no samples are named, or an empty list of them; "
"""What refusals begin with where no sample is named."""
FALSE_ALARMS = 0.05
"""The share of samples of known classes that may be called unknown, unless another is asked for."""

_FORMATS: dict[str, AnswerFormat] = {
    ".csv": "csv",
    ".xlsx": "xlsx",
    ".parquet": "parquet",
    ".json": "json",
    ".txt": "table",
}
_PRINTED: tuple[AnswerFormat, ...] = ("table", "csv", "json")


def check_false_alarms(share: float) -> None:
    """Raise a ValueError unless it is a share from 0 to below 1."""
    if not 0 <= share < 1:
        raise ValueError(f"unknown is {share!r}; expected a share of false alarms, from 0 to below 1")


@dataclass(frozen=True)
class Promise:
    """The required coverage: the share of answers that must hold the truth.

    An answer holds the truth if it is the true node or an ancestor of it.

    Attributes:
        coverage: Required share of answers that hold the truth, above 0 and below 1.
        method: `conformal`: the answer for a new sample holds the truth with probability at least
            `coverage`, over the draw of the calibration samples and the new sample, whatever the classifier
            (split conformal prediction). `threshold`: the coverage is reached on the calibration samples
            themselves, without a guarantee for other samples.
        confidence: If given, the coverage of new samples is at least `coverage` with this probability over
            draws of calibration samples, not only on average over them (Vovk 2012; the target accuracy of
            Section 4 of Goren et al. 2024).
        counted: Unit of the guarantee with groups (such as the slides of a patient): `sample`, for one sample
            drawn from a new group; or `group`, that *all* answers for a new group hold the truth.
    """

    coverage: float = 0.9
    method: Method = "conformal"
    confidence: float | None = None
    counted: Counted = "sample"

    def __post_init__(self) -> None:
        if not 0 < self.coverage < 1:
            raise ValueError(f"coverage is {self.coverage!r}; expected a number above 0 and below 1")
        if self.confidence is not None and not 0 < self.confidence < 1:
            raise ValueError(f"confidence is {self.confidence!r}; expected a number above 0 and below 1")
        check_choice("method", self.method, Method)
        check_choice("counted", self.counted, Counted)
        if self.confidence is not None and self.method != "conformal":
            raise ValueError("confidence is given, which only the method 'conformal' has; leave it out")


@dataclass(frozen=True, kw_only=True)
class AnswerOptions(Options):
    """What is asked of answers."""

    coverage: Annotated[
        float,
        Option(
            "share of answers that hold the truth",
            "No answer holds it, as the root does. For new samples of the same kind",
        ),
    ] = Promise.coverage
    method: Annotated[Method, Option("guaranteed (default), or as on calibration samples")] = Promise.method
    confidence: Annotated[
        float | None, Option("reach it in this share of draws of calibration samples", metavar="SHARE")
    ] = Promise.confidence
    by_depth: Annotated[int | None, Option("reach it within every node at this depth", metavar="DEPTH")] = (
        None
    )
    counted: Annotated[Counted, Option("with groups: coverage of one sample of each, or of all")] = (
        Promise.counted
    )
    cost: Annotated[
        str | None,
        Option(
            "answer at least expected cost (FILE: answers × truths)",
            metavar="tree|edges|FILE",
        ),
    ] = None
    optimise: Annotated[
        Optimised | None,
        Option(
            "or for the best expected top1, hierarchical_f1, tree_distance or wu_palmer",
            "The node of least expected loss, see `labeltree.decisions.METRIC_COSTS`",
            metavar="METRIC",
        ),
    ] = None
    coarse: Annotated[
        float | None,
        Option(
            "what a right but coarse answer costs; a wrong one: 1",
            "With a cost `tree` or `edges`, see `TreeCost`",
            flag="--coarse-cost",
            metavar="SHARE",
        ),
    ] = None
    unknown: Annotated[
        float,
        Option(
            "the share of known samples that may be called unknown (default 0.05; 0: none)",
            "See `labeltree.decisions.mark_unknown`",
            metavar="SHARE",
        ),
    ] = FALSE_ALARMS
    per: Annotated[
        str | None,
        Option(
            "one answer for each 'group' or kept lesion, site …",
            "All samples with the same value in that column share it: the groups of the run (a patient's "
            "images), or a column that the run keeps; coverage holds for these, and samples of "
            "unknown classes are not marked",
            metavar="COLUMN",
        ),
    ] = None
    explained: Annotated[
        bool,
        Option(
            "name training samples that speak for and against", "At each step, as `why`", flag="--explain"
        ),
    ] = False
    top: Annotated[int, Option("how many probable classes to list", least=0)] = 3

    def check(self) -> None:
        _ = self.promise
        check_false_alarms(self.unknown)
        if self.per is not None and self.explained:
            raise self.refusal("an explanation is of a sample; leave `per` or `explained` out")
        if self.per is not None and self.unknown not in (0, FALSE_ALARMS):
            raise self.refusal(
                "unknown classes are told of samples, not of groups; leave `per` or `unknown` out"
            )
        if self.optimise is not None:
            for name in filter(
                self.is_given, ("cost", "coverage", "method", "confidence", "by_depth", "counted")
            ):
                raise self.refusal(
                    f"`optimise` and `{name}` each say what answers are to be good at; name one of them"
                )
        if self.coarse is not None and self.cost is None:
            raise self.refusal("`coarse` goes with `cost` tree or edges; leave it out, or name one")
        if self.coarse is not None and self.cost not in ("tree", "edges"):
            raise self.refusal(
                "`coarse` goes with `cost` tree or edges: a file says itself what answers cost"
            )

    @property
    def promise(self) -> Promise:
        """What the answers promise."""
        return Promise(self.coverage, self.method, self.confidence, self.counted)


@dataclass(frozen=True, kw_only=True)
class BulkOptions(Options):
    """What there is to say of a folder of parts.

    Attributes:
        folder_only: Further options that go with nothing else.
        file_only: Those that do not go with a folder of parts.
    """

    folder_only: ClassVar[tuple[str, ...]] = ()
    file_only: ClassVar[tuple[str, ...]] = ()

    devices: Annotated[
        int | None,
        Option(
            "with FOLDER/: processes, a GPU for each (default 1)",
            metavar="N",
            least=1,
            most=1024,
            unit="processes",
        ),
    ] = None
    part_size: Annotated[
        int | None,
        Option(
            "with FOLDER/: samples in a file (default 10,000)",
            metavar="N",
            least=1,
            most=10_000_000,
            unit="samples",
        ),
    ] = None
    workers: Annotated[
        int | None,
        Option(
            "with FOLDER/: threads that decode, in each process (default one per core, at most 16)",
            metavar="N",
            least=1,
            most=1024,
            unit="threads",
        ),
    ] = None

    def require_fit(self, *, folder: bool) -> None:
        """Raise an `OptionError` if an option does not go with one file, or with a folder of parts."""
        if not folder:
            for name in filter(self.is_given, ("devices", "part_size", "workers", *self.folder_only)):
                raise self.refusal(f"`{name}` goes with a folder of parts: `data` DATA `out` FOLDER/")
            return
        if not self.is_given("data"):
            raise self.refusal("`out` names a folder of parts, which holds other data; name them by `data`")
        for name in filter(self.is_given, self.file_only):
            raise self.refusal(
                f"`{name}` does not go with a folder of parts; name a file as `out`, or leave it out"
            )

    @property
    def parts(self) -> dict[str, int]:
        """What is said of parts, for a `BulkJob`."""
        said = {"part_size": self.part_size, "workers": self.workers}
        return {name: value for name, value in said.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class AnswerFile(Options):
    """Where answers are written: the name of the file, or `form`, says the format."""

    form: Annotated[AnswerFormat | None, Option("default: by `out`, or table", flag="--format")] = None
    out: Annotated[
        Place | None,
        Option(
            "write there, as .csv, .xlsx, .parquet, .json or .txt; for a table, with its columns",
            metavar="FILE",
        ),
    ] = None

    def find_data(self, given: Sequence[Place], places: Sequence[Place]) -> Place | None:
        """The one of some places that holds many samples, such as a folder or a table; None without one.

        Args:
            given: All that is to be answered for.
            places: The files and folders among it.

        Raises:
            OptionError: If there is more to answer for.
        """
        place = next((place for place in places if Path(place).is_dir() or is_data_file(place)), None)
        if place is not None and len(given) > 1:
            what = "a folder" if Path(place).is_dir() else "a file of many samples"
            raise self.refusal(f"'{place}' is {what}; answer for it alone")
        return place

    @property
    def format(self) -> AnswerFormat:
        """The format of the answers: the given one, else that of the file's name, else a table."""
        folder = " (a table to read), or in / for a folder of Parquet files (FOLDER/)"
        chosen = choose_form(self, self.out, self.form, _FORMATS, folder) or "table"
        if self.out is None and chosen not in _PRINTED:
            raise self.refusal(f"`form` {chosen} is no text to print; name a file, `out` answers.{chosen}")
        return chosen


@dataclass(frozen=True)
class PredictOptions(AnswerFile, AnswerOptions, BulkOptions):
    """What to answer for, and how."""

    file_only: ClassVar[tuple[str, ...]] = (
        "images", "texts", "split", "data_path", "table", "form", "explained", "per", "questions",
    )  # fmt: skip

    run: Run
    images: Annotated[
        Sequence[Place],
        Option("images, a folder, a table (.csv, .xlsx …), or vectors", positional=True),
    ] = ()
    _: KW_ONLY
    texts: Annotated[
        Sequence[str],
        Option(
            "a text; may be given several times",
            "Of a run on images and texts also one for each image",
            flag="--text",
            metavar="TEXT",
            repeat=True,
        ),
    ] = ()
    data: Annotated[Place | None, Option("a data set, a folder, a table or vectors instead")] = None
    data_path: DataPath = None
    table: TableSettings = None
    labelled: Annotated[bool, Option("with `data`: compare with its labels")] = False
    split: Annotated[
        Literal["train", "val", "calib", "test"] | None, Option("samples of the run's data instead")
    ] = None
    questions: Annotated[
        Sequence[str],
        Option(
            "probability of nodes: malignant=melanoma,carcinoma",
            "As `labeltree evaluate --question` scores it, also of groups, so that its threshold applies; "
            "several may be asked",
            flag="--question",
            metavar="Q",
            repeat=True,
        ),
    ] = ()
    classifier: Classifier = None
    taxonomy: AnswerTaxonomy = None
    mapping: AnswerMapping = None
    verify: VerifySplit = False
    progress: ShownProgress = None

    def check(self) -> None:
        AnswerOptions.check(self)
        given = [bool(self.images), bool(self.texts), self.data is not None, self.split is not None]
        if sum(given) != 1 and not (given[:2] == [True, True] and not any(given[2:])):
            raise self.refusal(
                f"{'' if any(given) else NOTHING_NAMED}name what to answer for: image "
                "files, `texts`, `data` or `split`, and one of them only; of a run on images and texts also "
                "image files with a text for each"
            )
        self.require("split", "is about the run's own samples; it goes with `split`", "verify")

    def with_data(self) -> PredictOptions:
        """The same options, with a folder, a table or vectors in place of images as if named by `data`.

        Raises:
            OptionError: If options are about `data`, and there are none.
        """
        place = self.find_data([*self.images, *self.texts], self.images)
        options = self if place is None else replace(self, images=(), data=place)
        options.require("data", NO_TABLE, "table")
        if options.split is None:
            options.require("data", NO_LABELS, "labelled")
        return options

    @property
    def format(self) -> AnswerFormat:
        """The format of the answers, see `AnswerFile.format`."""
        chosen = super().format
        if self.explained and chosen not in ("table", "json"):
            where = {"csv": "a CSV", "xlsx": "a workbook"}.get(chosen, "Parquet")
            raise self.refusal(f"`explained` has no place in {where}; take `form` json or table")
        return chosen


@dataclass(frozen=True)
class EmbedOptions(BulkOptions):
    """What to embed, and where to write it."""

    folder_only: ClassVar[tuple[str, ...]] = ("features", "dtype")
    file_only: ClassVar[tuple[str, ...]] = ("own_labels", "data_path", "table", "verify", "modality")

    run: Run
    _: KW_ONLY
    data: Annotated[Place | None, Option("embed these instead: a data set, a folder or a table")] = None
    data_path: Annotated[
        Place | None,
        Option(
            "with `data` NAME: the folder of that data set; by default the run's, if it is one of the same "
            "files, or else that in the cache",
            metavar="PATH",
        ),
    ] = None
    table: TableSettings = None
    unlabelled: Annotated[bool, Option("with `data`: ignore its labels", either="labels")] = False
    own_labels: Annotated[
        bool,
        Option(
            "with `data`: keep the labels that the data have, of another taxonomy than the run's",
            either="labels",
        ),
    ] = False
    modality: Annotated[
        Modality,
        Option(
            "of a run on images and texts: embed what a sample has (default), or one of them alone; samples "
            "without it are left out"
        ),
    ] = "both"
    out: Annotated[
        Place | None,
        Option(".npz or .parquet, or FOLDER/; default: in the run folder, under embeddings/", metavar="OUT"),
    ] = None
    features: Annotated[bool, Option("with FOLDER/: write features, too")] = False
    dtype: Annotated[
        Literal["float32", "float16"], Option("with FOLDER/: of the numbers in the files (default float32)")
    ] = "float32"
    verify: Verify = False
    progress: ShownProgress = None

    def check(self) -> None:
        self.require("data", WHERE_DATA, "data_path")
        self.require("data", NO_TABLE, "table")
        self.require("data", "is about the samples of `data`; name them", "unlabelled", "own_labels")
        if self.unlabelled and self.own_labels:
            raise self.refusal("`unlabelled` and `own_labels` exclude each other; name one")
        if self.verify and self.data is not None:
            raise self.refusal(OWN_SAMPLES)
