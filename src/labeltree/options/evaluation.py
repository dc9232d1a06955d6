"""What can be chosen about an evaluation: its settings, and the options of `labeltree evaluate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

from labeltree.checks import check_choice
from labeltree.errors import typed
from labeltree.options.choices import ClassifierChoice, FeatureGeometry, LeaveGroupOut, Subject
from labeltree.options.schema import (
    Option,
    Options,
    Place,
    RunPlace,
    argument,
    describe_fields,
    list_options,
)
from labeltree.options.shared import NO_TABLE, Classifier, DataPath, ShownProgress, TableSettings, Verify

__all__ = ["EvaluateOptions", "EvaluationSettings", "type_settings"]


MOST_RESAMPLES = 100_000
"""More bootstrap draws than this are refused: they cost memory and change no digit that matters."""

_MOST = 2**32


@describe_fields
@dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """What can be chosen about an evaluation; the defaults are those of the published protocols."""

    recall_ks: Annotated[tuple[int, ...], argument("the k of recall@k")] = (1, 2, 5, 10)
    hp_k: Annotated[
        int,
        argument(
            "HP@k is computed for every k up to this one, or up to the number of candidates if that is less"
        ),
    ] = 250
    standardize: Annotated[
        bool,
        argument(
            "give every column the mean 0 and the standard deviation 1 of the training samples before the "
            "linear probe, so that its penalty means the same for every method"
        ),
    ] = True
    max_probe_samples: Annotated[
        int, argument("more training samples than this are subsampled evenly over the labels")
    ] = 50_000
    max_retrieval_samples: Annotated[
        int, argument("the same for the samples that retrieval searches among")
    ] = 20_000
    max_graded_queries: Annotated[
        int,
        argument(
            "with more queries, H-AP, NDCG, ASI and AP at each depth, which sort all results of a query, are "
            "those of so many queries drawn at random"
        ),
    ] = 2_500
    max_pairs: Annotated[
        int,
        argument(
            "pair violations are counted over at most about this many pairs, and CPCC takes as many pairs of "
            "classes"
        ),
    ] = 200_000
    confusions: Annotated[int, argument("how many of the most frequent wrong pairs are kept")] = 50
    feature_geometry: Annotated[
        FeatureGeometry,
        Option(
            "compare features L2-normalised (sphere, the default) or as they are (euclidean)",
            "The linear probe reads the same for both",
        ),
    ] = "sphere"
    classifier: Annotated[
        ClassifierChoice,
        Option(
            "which one the headline numbers, the errors and the protocol `decisions` are of; `auto` "
            "takes the best on validation samples, see `labeltree.decisions.classifiers.choose_classifier`. "
            "Baselines without an own one take the best of theirs"
        ),
    ] = "auto"
    protocols: Annotated[
        Sequence[str],
        Option(
            "further protocols for metrics.json, or 'all'",
            "See `labeltree.evaluation.list_protocols`",
            metavar="NAME",
        ),
    ] = ()
    options: Annotated[
        Mapping[str, Mapping[str, Any]],
        Option(
            "option of a protocol, such as knn.ks=1,5; repeatable",
            'In Python a mapping: protocol → option → value, such as `{"knn": {"ks": (1, 5)}}`',
            flag="--option",
            metavar="NAME.OPTION=VALUE",
            repeat=True,
        ),
    ] = field(default_factory=dict)
    frequency_bounds: Annotated[
        tuple[int, ...],
        Option(
            "tail classes have at most FEW training samples, head classes more than MANY (default: thirds)",
            metavar=("FEW", "MANY"),
        ),
    ] = ()
    by: Annotated[
        Sequence[str],
        Option(
            "also give results by kept columns, such as the site",
            "See `labeltree.evaluation.by_attribute`",
            metavar="COLUMN",
        ),
    ] = ()
    leave_group_out: Annotated[
        LeaveGroupOut,
        Option(
            "leave results of the query's own group (its patient's other samples) out of retrieval; auto, "
            "the default, does so unless every group is a class of its own",
            "As with the photographs of a product",
        ),
    ] = "auto"
    confidence: Annotated[float, argument("confidence level of the intervals")] = 0.95
    resamples: Annotated[
        int, argument("number of draws of the bootstrap that gives them; 0 leaves them out")
    ] = 2000
    seed: Annotated[
        int,
        argument(
            "random seed of the bootstrap, of the half split of a table without splits, and of subsampling"
        ),
    ] = 0

    def __post_init__(self) -> None:
        self._check_kinds()
        if not self.recall_ks or min(self.recall_ks) < 1:
            raise ValueError(f"recall_ks must be one or more integers above 0, got {self.recall_ks}")
        for name in ("hp_k", "max_probe_samples", "max_retrieval_samples", "max_graded_queries", "max_pairs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.frequency_bounds and (
            len(self.frequency_bounds) != 2 or not 0 < self.frequency_bounds[0] <= self.frequency_bounds[1]
        ):
            raise ValueError(
                f"frequency_bounds must be (few, many), two rising numbers of samples, or (); got "
                f"{self.frequency_bounds}"
            )
        if not 0 < self.confidence < 1 or self.resamples < 0:
            raise ValueError(
                f"confidence must lie between 0 and 1 and resamples be at least 0, got {self.confidence} and "
                f"{self.resamples}"
            )
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed is {self.seed}; it must be from 0 to 2^32 - 1")
        if self.confusions < 0:
            raise ValueError(f"confusions must be at least 0, got {self.confusions}")

    def _check_kinds(self) -> None:
        """Check the type of every setting, which may come from a file, and that no number is absurd."""
        from labeltree.safe_files import fits  # numpy takes a while to load, and help has no use for it

        for one in list_options(EvaluationSettings):
            value = getattr(self, one.name)
            if not fits(value, one.hint):
                options = one.name == "options"
                like = "options by name, under a protocol each" if options else repr(one.default)
                if one.choices:
                    check_choice(one.name, value, one.choices)
                raise ValueError(f"{one.name} is {value!r}; it must be of the kind of {like}")
            for number in value if isinstance(value, tuple | list) else [value]:
                if isinstance(number, int | float) and not abs(number) <= _MOST:
                    raise ValueError(f"{one.name} is {value}; {_MOST:,} is the most")
        if self.resamples > MOST_RESAMPLES:
            raise ValueError(f"resamples is {self.resamples}; {MOST_RESAMPLES:,} are the most")


def type_settings(settings: EvaluationSettings) -> str:
    """The options of `labeltree evaluate` that ask for the same again, each after a blank.

    Settings that only Python has, such as the number of draws, are left out.
    """
    plain = EvaluationSettings()
    options = {name: dict(chosen) for name, chosen in settings.options.items()}
    asked = options.get(_QUESTIONS, {}).pop("questions", ())
    protocols = [name for name in settings.protocols if name != _QUESTIONS or not asked]
    words = [word for text in asked for word in ("--question", text.replace("+", ","))]
    words += ["--protocols", *protocols] if protocols else []
    for name, chosen in options.items():
        for option, value in chosen.items():
            several = isinstance(value, tuple | list)
            words += ["--option", f"{name}.{option}={','.join(map(str, value)) if several else value}"]
    words += ["--by", *settings.by] if settings.by else []
    if settings.frequency_bounds:
        words += ["--frequency-bounds", *map(str, settings.frequency_bounds)]
    for name in ("classifier", "feature_geometry", "leave_group_out"):
        if getattr(settings, name) != getattr(plain, name):
            words += [f"--{name.replace('_', '-')}", getattr(settings, name)]
    return "".join(f" {typed(word)}" for word in words)


_QUESTIONS = "node-scores"  # the protocol that `questions` are put to
_FOLD = "evaluate a fold by itself"
_GROUPS = {
    "group_column": "it names a column of embeddings; the groups of a run are named in training, by "
    "table.group_column"
}
_TABLE = {"table": f"it {NO_TABLE}"}
_REFUSED: dict[Subject, dict[str, str]] = {
    "embeddings": {
        "beside": "it names runs to show beside a run",
        "verify": "it is about the samples of a run",
        "data": "it names other samples that a run is measured on",
        **_TABLE,
    },
    "other data": {
        "corrections": "it holds labels of the run's own samples",
        "beside": "evaluate each run on them, then compare the folders",
        "split": "all samples of `data` are measured",
        **_GROUPS,
    },
    "folds": dict.fromkeys(("taxonomy", "mapping", "corrections", "beside", "out", "split"), _FOLD)
    | _GROUPS
    | _TABLE,
    "run": _GROUPS | _TABLE,
}


@dataclass(frozen=True)
class EvaluateOptions(EvaluationSettings, Options):
    """What to evaluate, on what, and where to write."""

    what: Annotated[
        RunPlace | None,
        Option(
            "the folder of a trained run",
            "Or, as `embeddings`, a file of embeddings (`.npz` or `.parquet`) or a folder of parts",
            metavar="run",
            positional=True,
        ),
    ] = None
    taxonomy: Annotated[
        Place | None,
        Option(
            "the taxonomy of the labels of embeddings; for a run, another one to be measured on (tree or "
            "DAG)",
            "Without it, that beside FILE or in the folder of parts, or else the tree of the labels",
            metavar="FILE",
        ),
    ] = None
    _: KW_ONLY
    beside: Annotated[Sequence[Place], Option("other runs on the same samples", metavar="RUN")] = ()
    data: Annotated[
        Place | None,
        Option(
            "other labelled samples: a folder, table or data set",
            "See `labeltree.report.evaluate_other_data.evaluate_on_data`",
        ),
    ] = None
    data_path: DataPath = None
    table: TableSettings = None
    embeddings: Annotated[
        Place | None,
        Option(
            ".npz, .parquet or .csv with embeddings and labels or nodes, or a folder that 'labeltree "
            "embed' wrote",
            metavar="FILE",
        ),
    ] = None
    group_column: Annotated[
        str | None,
        Option(
            "the column of FILE that says which samples belong together (default groups)",
            "The groups of a run are named in training, by `table.group_column`",
            metavar="NAME",
        ),
    ] = None
    mapping: Annotated[
        Place | None,
        Option(
            "what became of old nodes, by 'taxonomy map'",
            "None = what is certain: nodes are found by path or by name, a removed one becomes the node "
            "above; in a DAG, every label must be found",
            metavar="FILE",
        ),
    ] = None
    corrections: Annotated[
        Place | Sequence[Place] | None,
        Option(
            "measure on corrected labels",
            "A table as `labeltree suspects` writes it and a person has gone through it, or several in "
            "order; the run answers as it did",
            metavar="CSV",
        ),
    ] = None
    split: Annotated[str, Option("the split to measure")] = "test"
    out: Annotated[
        Place | None,
        Option(
            "where to write; default: the run, a folder in it (`taxonomy`, `data`), or FILE without suffix",
            metavar="FOLDER",
        ),
    ] = None
    questions: Annotated[
        Sequence[str],
        Option(
            "judge nodes as one test (node-scores; repeatable), such as malignant=melanoma,carcinoma",
            flag="--question",
            metavar="NAME=NODE,NODE",
            repeat=True,
        ),
    ] = ()
    title: Annotated[str | None, Option("of the report")] = None
    classifier: Classifier = None  # type: ignore[assignment]
    verify: Verify = False
    progress: ShownProgress = None

    def __post_init__(self) -> None:
        Options.__post_init__(self)

    def check(self) -> None:
        if (self.what is None) == (self.embeddings is None):
            raise self.refusal("name either a run folder, or `embeddings` FILE")
        _ = self.settings

    @property
    def place(self) -> Path:
        """Where that lies which is evaluated."""
        return Path(self.embeddings or self.what or "")

    @property
    def settings(self) -> EvaluationSettings:
        """What is computed, and how."""
        chosen = {entry.name: getattr(self, entry.name) for entry in fields(EvaluationSettings)}
        if self.questions:
            asked = {"questions": tuple(question.replace(",", "+") for question in self.questions)}
            chosen["options"] = {**self.options, _QUESTIONS: {**self.options.get(_QUESTIONS, {}), **asked}}
            chosen["protocols"] = tuple(dict.fromkeys((*self.protocols, _QUESTIONS)))
        return EvaluationSettings(**{**chosen, "classifier": self.classifier or "auto"})

    def require_fit(self, subject: Subject) -> None:
        """Raise an `OptionError` if an option does not go with what is evaluated."""
        with_what = "`data`" if subject == "other data" else f"the {subject} in '{self.place}'"
        for name, reason in _REFUSED[subject].items():
            if self.is_given(name):
                raise self.refusal(f"`{name}` does not go with {with_what}: {reason}")
