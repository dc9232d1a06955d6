"""The options of the actions of `labeltree taxonomy`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from labeltree.file_kinds import SHEETS, is_table_file
from labeltree.options.choices import Form, Linkage, NameReading, ProjectionRule, SuspectKind
from labeltree.options.schema import Option, Options, Place
from labeltree.options.shared import NO_TABLE, OfSplit, TableSettings
from labeltree.text_files import split_packed

__all__ = [
    "ApplyOptions",
    "CheckOptions",
    "ComposeOptions",
    "ConvertOptions",
    "DiffOptions",
    "FromWordnetOptions",
    "MapOptions",
    "ProjectOptions",
    "ReviewOptions",
    "ShowOptions",
    "SuggestOptions",
    "TreeSuspectsOptions",
]

ANY = "a file, a folder, a run, a table or the name of a data set"


AnyTaxonomyName = Annotated[str, Option(ANY, positional=True)]
Column = Annotated[
    str | None, Option("the column of a .csv or .tsv that holds whole paths, A > B > C", metavar="NAME")
]
Columns = Annotated[
    Sequence[str] | None,
    Option(
        "the column of a table that holds whole paths, A > B > C; or, given several times, the columns of "
        "its levels, coarse to fine",
        metavar="NAME",
        repeat=True,
    ),
]
WhichForm = Annotated[
    Form | None,
    Option(f"what the file holds, if its content does not tell: {', '.join(get_args(Form))}", metavar="FORM"),
]
Names = Annotated[NameReading | None, Option("how names in a table are read (default: exact)")]
_SYNONYMS = Option("a table with the columns synonym and accepted", metavar="FILE")
Synonyms = Annotated[str | None, _SYNONYMS]
VersionSynonyms = Annotated[Path | None, _SYNONYMS]
Old = Annotated[str, Option(f"the old version: {ANY}", metavar="OLD", positional=True)]
New = Annotated[str, Option("the new version", metavar="NEW", positional=True)]
LABEL_SETTINGS = ("sheet", "encoding", "label_columns", "fill_down", "gaps", "separator")
"""The settings of a table that say how its labels are read."""
TaxonomyTable = Annotated[
    Mapping[str, Any] | None,
    Option(
        f"of a table, as for 'train': {', '.join(LABEL_SETTINGS)}",
        "`{'sheet': 'Products'}`",
        flag="--table.SETTING",
        metavar="V",
    ),
]
Replace = Annotated[bool, Option("overwrite the file even if a person has edited it")]
LabelledTable = Annotated[
    str,
    Option(
        "a run, or a table of embeddings with labels (.npz, .parquet)",
        metavar="RUN|FILE",
        positional=True,
    ),
]
TableTaxonomy = Annotated[str | None, Option("of the labels of FILE, if these are nodes", metavar="FILE")]


@dataclass(frozen=True)
class ShowOptions(Options):
    """How a taxonomy is drawn."""

    taxonomy: AnyTaxonomyName
    _: KW_ONLY
    depth: Annotated[int | None, Option("draw the tree down to this depth")] = None
    children: Annotated[int, Option("draw at most this many children of a node")] = 20
    form: WhichForm = None
    column: Columns = None
    names: Names = None
    synonyms: Synonyms = None
    table: TaxonomyTable = None

    def check(self) -> None:
        _check_table(self, self.taxonomy, self.table)


@dataclass(frozen=True)
class CheckOptions(Options):
    """Which taxonomy is checked."""

    taxonomy: AnyTaxonomyName
    _: KW_ONLY
    form: WhichForm = None
    column: Columns = None
    names: Names = None
    synonyms: Synonyms = None
    table: TaxonomyTable = None

    def check(self) -> None:
        _check_table(self, self.taxonomy, self.table)


_OF_FORM = ("levels", "describe", "separator", "column", "descriptions", "child", "parent")
_USED: dict[Form, tuple[str, ...]] = {
    "breadcrumbs": ("separator", "column"),
    "codes": ("levels", "describe", "column", "descriptions"),
    "rf2": ("descriptions",),
    "edges": ("descriptions", "child", "parent"),
}


@dataclass(frozen=True)
class ConvertOptions(Options):
    """What to read a taxonomy from, and where to write it."""

    taxonomy: Annotated[str, Option("a file, a folder, a table or the name of a data set", positional=True)]
    out: Annotated[
        str, Option("the file to write: .json, .csv, or for a tree also .yaml, .txt, .nwk", positional=True)
    ]
    _: KW_ONLY
    release: Annotated[
        str | None, Option("what people call this version, such as 2024 (.json only)", metavar="TEXT")
    ] = None
    form: WhichForm = None
    levels: Annotated[
        str | None,
        Option(
            "codes: letters and digits of each level, or icd10, atc, naics, isco, hs, nace, soc, unspsc, "
            "dewey (default: found from marks, and from codes that others begin with)",
            metavar="1,3,4",
        ),
    ] = None
    describe: Annotated[bool, Option("codes: name nodes 'A00 Cholera' instead of 'A00'")] = False
    separator: Annotated[str | None, Option("breadcrumbs: what separates names", metavar="TEXT")] = None
    column: Annotated[
        Sequence[str] | None,
        Option(
            "the column of a table that holds whole paths or, with --form codes, codes; or, given several "
            "times, the columns of its levels, coarse to fine",
            metavar="NAME",
            repeat=True,
        ),
    ] = None
    descriptions: Annotated[
        str | None,
        Option(
            "rf2: the description file; edges, codes: the column of names or descriptions",
            metavar="FILE|COLUMN",
        ),
    ] = None
    child: Annotated[str | None, Option("edges: the column of the child", metavar="COLUMN")] = None
    parent: Annotated[str | None, Option("edges: the column of its parent", metavar="COLUMN")] = None
    names: Names = None
    synonyms: Synonyms = None
    table: TaxonomyTable = None

    def check(self) -> None:
        _check_table(self, self.taxonomy, self.table)
        if self.form is not None and {*(self.table or ())} - {"sheet"}:
            raise self.refusal("with `form`, `table` names the sheet alone; leave out the others, or `form`")
        if self.release is not None and not self.out.casefold().endswith(".json"):
            raise self.refusal(
                f"only a .json file keeps a release, not '{self.out}'; name a file that ends in .json"
            )
        used = ("column",) if self.form is None else _USED.get(self.form, ())
        if idle := [f"`{name}`" for name in self.form_settings if name not in used]:
            fits = [form for form, names in _USED.items() if set(self.form_settings) <= set(names)]
            what = "" if self.form is None else f" to `form` {self.form}"
            raise self.refusal(
                f"{' and '.join(idle)} does not apply{what}; "
                + (f"say `form` {' or '.join(fits)}" if fits else "no form takes all of these options")
            )
        if self.form is not None and len(self.column or ()) > 1:
            raise self.refusal(f"`form` {self.form} reads one `column`; name one, or leave out `form`")
        if self.form is not None and (self.names is not None or self.synonyms is not None):
            raise self.refusal("`names` and `synonyms` are for tables of samples, and do not apply to `form`")

    @property
    def form_settings(self) -> dict[str, Any]:
        """What is said of the form of the file."""
        given = {name: getattr(self, name) for name in _OF_FORM if self.is_given(name)}
        return given | ({"column": self.column[0]} if self.column else {})


@dataclass(frozen=True)
class ProjectOptions(Options):
    """How a DAG becomes a tree."""

    taxonomy: Annotated[
        str, Option("a DAG: OBO, edges (.csv or .tsv of child,parent), .json …", positional=True)
    ]
    out: Annotated[str, Option("the file that the tree is written to", metavar="FILE")]
    _: KW_ONLY
    rule: Annotated[
        ProjectionRule,
        Option(
            "odir: the parent nearest the root, all nodes stay (default); yolo9000: the paths that add the "
            "fewest nodes, others are dropped"
        ),
    ] = "odir"
    dropped: Annotated[
        Path | None,
        Option(
            "write a table of the nodes that had several parents: the parent kept, and those dropped",
            metavar="FILE.csv",
        ),
    ] = None


@dataclass(frozen=True)
class FromWordnetOptions(Options):
    """Which names become a tree, and what they mean."""

    names: Annotated[
        Path, Option("a text file, one name per line: a noun, its plural, or a synset", positional=True)
    ]
    out: Annotated[Path, Option("the taxonomy to write: .yaml, .csv, …", short="-o", metavar="OUT")]
    _: KW_ONLY
    senses: Annotated[
        Path | None,
        Option("the file of decisions (default: that of names, with .senses.txt)", metavar="SENSES"),
    ] = None
    wordnet: Annotated[
        Path | None,
        Option(
            "with data.noun and index.noun (default: what 'labeltree data get wordnet' fetched)",
            metavar="FOLDER",
        ),
    ] = None
    rule: Annotated[
        Literal["ask", "first"],
        Option("names with several senses: ask (default), or take the first, most frequent one"),
    ] = "ask"
    collapse: Annotated[bool, Option("leave out inner nodes that have a single child")] = False


@dataclass(frozen=True)
class SuggestOptions(Options):
    """What a tree is made of, and which others are judged."""

    embeddings: LabelledTable
    _: KW_ONLY
    taxonomy: TableTaxonomy = None
    column: Annotated[
        Literal["features", "embeddings"] | None,
        Option("of the encoder, or of the head (default: features if there are any)"),
    ] = None
    linkage: Annotated[
        Linkage, Option("distance of two groups: the largest of their classes (default), the mean, or Ward's")
    ] = "complete"
    depth: Annotated[int | None, Option("depth of the tree (default: by the number of classes)")] = None
    judge: Annotated[Sequence[str], Option("judge these trees of the same classes, too", metavar="TREE")] = ()
    seed: Annotated[int, Option("seed of the halves and the random trees", least=0, most=2**32 - 1)] = 0
    out: Annotated[
        str | None, Option("write the tree there: .yaml, .csv, .json …", short="-o", metavar="FILE")
    ] = None


@dataclass(frozen=True)
class TreeSuspectsOptions(Options):
    """Where a tree may not fit its samples, and what is significant."""

    embeddings: LabelledTable
    _: KW_ONLY
    taxonomy: TableTaxonomy = None
    split: OfSplit = None
    kinds: Annotated[Sequence[SuspectKind], Option("what to look for (default: all four)")] = (
        "move",
        "dissolve",
        "merge",
        "split",
    )
    level: Annotated[
        float, Option("largest p value, corrected for many nodes, of what is called significant")
    ] = 0.05
    apart: Annotated[float, Option("AUC below which leaves are not told apart")] = 0.7
    only_significant: Annotated[bool, Option("list and write only these")] = False
    top: Annotated[int, Option("list at most this many of each kind")] = 10
    seed: Annotated[int, Option("of folds, clusters and draws", least=0, most=2**32 - 1)] = 0
    out: Annotated[
        str | None, Option("write the changes there, as a mapping (.yaml)", short="-o", metavar="FILE")
    ] = None


@dataclass(frozen=True)
class DiffOptions(Options):
    """Which versions are compared."""

    old: Old
    new: New
    _: KW_ONLY
    synonyms: VersionSynonyms = None
    data: Annotated[
        str | None, Option(f"data labelled with OLD, whose samples are counted: {ANY}", metavar="DATA")
    ] = None
    table: TableSettings = None
    mapping: Annotated[
        str | None, Option("the confirmed changes, a file of 'taxonomy map'", metavar="FILE")
    ] = None
    format: Annotated[Literal["table", "json"], Option("(default: table)")] = "table"

    def check(self) -> None:
        if self.mapping is not None and self.synonyms is not None:
            raise self.refusal("`mapping` says what changed, so `synonyms` has no use; leave one of them out")
        self.require("data", NO_TABLE, "table")


@dataclass(frozen=True)
class MapOptions(Options):
    """Which changes are written down, and where."""

    old: Old
    new: New
    _: KW_ONLY
    synonyms: VersionSynonyms = None
    accept: Annotated[
        bool, Option("accept the guesses that names speak for; those by place alone stay comments")
    ] = False
    out: Annotated[Path, Option("(default: changes.yaml)", metavar="FILE")] = Path("changes.yaml")
    replace: Replace = False


@dataclass(frozen=True)
class ApplyOptions(Options):
    """Which changes are carried out."""

    changes: Annotated[Path, Option("the file of changes", metavar="CHANGES", positional=True)]
    old: Old
    out: Annotated[
        str,
        Option(
            "the new version, of which .json keeps release and history; or with `data`, the new table",
            metavar="FILE",
        ),
    ]
    _: KW_ONLY
    release: Annotated[
        str | None, Option("what people call the new version, such as 2024", metavar="TEXT")
    ] = None
    data: Annotated[
        Place | None,
        Option(
            "a table labelled with OLD (.csv, .tsv, .xlsx, .jsonl, .parquet), to be written with the labels "
            "of the new version",
            metavar="TABLE",
        ),
    ] = None
    table: TableSettings = None

    def check(self) -> None:
        self.require("data", NO_TABLE, "table")
        if self.data is not None and self.release is not None:
            raise self.refusal("`release` is what a taxonomy is called, and `out` is a table; leave it out")
        if self.release is not None and not self.out.casefold().endswith(".json"):
            raise self.refusal(f"only a .json file keeps a release, and `out` is '{self.out}'")


@dataclass(frozen=True)
class ComposeOptions(Options):
    """Which two steps are joined."""

    first: Annotated[Path, Option("the changes from the old version", metavar="FIRST", positional=True)]
    second: Annotated[Path, Option("the changes that came next", metavar="SECOND", positional=True)]
    old: Annotated[str, Option(f"the old version: {ANY}", metavar="OLD")]
    out: Annotated[Path, Option("the changes of both steps", metavar="FILE")]
    _: KW_ONLY
    replace: Replace = False


@dataclass(frozen=True)
class ReviewOptions(Options):
    """What is reviewed, and where proposals are written."""

    taxonomy: Annotated[str, Option(ANY, metavar="TAXONOMY", positional=True)]
    _: KW_ONLY
    column: Columns = None
    table: Annotated[
        Mapping[str, Any] | None,
        Option(
            f"of a table, as for 'train': {', '.join(LABEL_SETTINGS)}; with `data`, of its table, and of a "
            "taxonomy in a workbook the sheet alone",
            "`{'label_columns': ['Product group']}`",
            flag="--table.SETTING",
            metavar="V",
        ),
    ] = None
    data: Annotated[
        str | None,
        Option(
            "labelled data, whose samples are counted; labels that TAXONOMY lacks are listed", metavar="DATA"
        ),
    ] = None
    scientific: Annotated[bool, Option("compare scientific names without authorship")] = False
    out: Annotated[Path | None, Option("write the proposals, such as changes.yaml", metavar="FILE")] = None
    replace: Replace = False

    @property
    def taxonomy_table(self) -> dict[str, Any]:
        """The settings of the table of the taxonomy; of a workbook, beside data, the sheet."""
        given = dict(self.table or {})
        if self.data is None:
            return given
        return {"sheet": given["sheet"]} if "sheet" in given and _is_workbook(self.taxonomy) else {}

    @property
    def data_table(self) -> dict[str, Any]:
        """The settings of the table of `data`; a sheet is that of the taxonomy, if given another workbook."""
        of_data = dict(self.table or {}) if self.data is not None else {}
        if _is_workbook(self.taxonomy) and self.data != self.taxonomy:
            of_data.pop("sheet", None)
        return of_data

    def check(self) -> None:
        if self.data is None:
            _check_table(self, self.taxonomy, self.table)


def _check_table(options: Options, taxonomy: str, table: Mapping[str, Any] | None) -> None:
    """Refuse settings that say nothing of how the labels of the taxonomy's table are read."""
    if not table:
        return
    if others := sorted({*table} - {*LABEL_SETTINGS}):
        raise options.refusal(
            f"`table` names {', '.join(others)}; of a taxonomy it names {' or '.join(LABEL_SETTINGS)}"
        )
    if not is_table_file(taxonomy):
        raise options.refusal(f"`table` is of tables; '{taxonomy}' is something else. Leave it out")
    if "sheet" in table and not _is_workbook(taxonomy):
        raise options.refusal(f"`table` names a sheet, and '{taxonomy}' is no workbook (.xlsx); leave it out")


def _is_workbook(taxonomy: str) -> bool:
    return split_packed(Path(taxonomy))[0] in SHEETS
