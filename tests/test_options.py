"""Options are stated once: as flags of a command, and as arguments of the function behind it."""

import argparse
import ast
import importlib
import inspect
import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pytest
import torch

import labeltree as lt
from labeltree.cli.command_parser import make_parser, read_options
from labeltree.cli.main import main
from labeltree.options.answer_options import PredictOptions
from labeltree.options.comparison_options import CompareOptions
from labeltree.options.evaluation import EvaluateOptions, EvaluationSettings
from labeltree.options.model_options import LoadOptions
from labeltree.options.schema import Option, OptionError, Options, describes, list_options, takes
from labeltree.plugins import own_parts
from labeltree.runs import RunFolder

SOURCE = Path(lt.__file__).parent


@dataclass(frozen=True)
class ShowOptions(Options):
    """What is shown."""

    run: Annotated[str, Option("the run", positional=True)]
    _: KW_ONLY
    top_rows: Annotated[int, Option("rows", least=0, most=50, unit="rows")] = 20
    kind: Annotated[Literal["a", "b"], Option("the kind, a (default) or b")] = "a"
    names: Annotated[Sequence[str], Option("names", flag="--name", repeat=True)] = ()
    files: Annotated[Sequence[str], Option("with `top_rows`: files", metavar="FILE")] = ()
    fast: Annotated[bool, Option("be fast")] = False
    told: Annotated[int | None, Option("of Python alone", "It has no flag", flag=None)] = None

    def check(self) -> None:
        self.require("files", "goes with `files`", "fast")


@takes(ShowOptions)
def show(options: ShowOptions) -> ShowOptions:
    """Show a run.

    Raises:
        ValueError: if it is not allowed.
    """
    return options


def parsed(*words: str) -> ShowOptions:
    return read_options(ShowOptions, make_parser("show", ShowOptions, description="Show.").parse_args(words))


def test_a_command_and_a_function_make_the_same_options() -> None:
    words = (
        "r",
        "--top-rows",
        "3",
        "--kind",
        "b",
        "--name",
        "x",
        "--name",
        "y",
        "--files",
        "f",
        "g",
    )
    expected = ShowOptions("r", top_rows=3, kind="b", names=("x", "y"), files=("f", "g"))
    assert parsed(*words) == expected
    assert show("r", top_rows=3, kind="b", names=["x", "y"], files=["f", "g"]) == expected
    assert show(expected) is expected
    assert parsed("r") == show("r") == ShowOptions("r")


@pytest.mark.parametrize(
    ("options", "python", "terminal"),
    [
        ({"top_rows": 51}, "'top_rows' is 51; it must be from 0 to 50 rows", "--top-rows is 51;"),
        ({"top_rows": -1}, "'top_rows' is -1", "--top-rows is -1"),
        ({"kind": "c"}, "'kind' is 'c'; expected 'a' or 'b'", "--kind is 'c'"),
        ({"fast": True}, "'fast' goes with 'files'", "--fast goes with --files"),
    ],
)
def test_a_refusal_names_options_as_the_caller_writes_them(
    options: dict[str, object], python: str, terminal: str
) -> None:
    with pytest.raises(OptionError) as refused:
        show("r", **options)  # type: ignore[arg-type]
    assert python in str(refused.value)
    assert terminal in refused.value.at_terminal()


def test_paths_may_be_texts(tmp_path: Path) -> None:
    for name, leaves in (("old", ["a/x", "a/y"]), ("new", ["a/x", "b/y"])):
        lt.Taxonomy.from_paths(leaves).save(tmp_path / f"{name}.json")
    out = str(tmp_path / "changes.yaml")
    lt.map_taxonomies(str(tmp_path / "old.json"), str(tmp_path / "new.json"), out=out)  # type: ignore[arg-type]
    assert Path(out).is_file()


def test_an_unknown_option_names_the_nearest() -> None:
    with pytest.raises(TypeError, match=r"show\(\) has no option 'top_row'; did you mean 'top_rows'\?"):
        show("r", top_row=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"evaluate\(\) has no option 'resample'; did you mean 'resamples'\?"):
        lt.evaluate("run", resample=3)


def test_wrong_arguments_are_refused_in_the_words_of_the_function(tmp_path: Path) -> None:
    for call, message in (
        (
            lambda: lt.compare("a.npz", "b.npz"),
            r"^compare\(\) takes methods without a name, and 2 arguments were",
        ),
        (lambda: lt.embed("run", np.zeros((3, 2))), r"^embed\(\) takes run without a name, and 2"),
        (lambda: lt.predict(), r"^predict\(\) needs run$"),
    ):
        with pytest.raises(TypeError, match=message):
            call()  # type: ignore[no-untyped-call]
    for call, message in (
        (
            lambda: lt.predict("run", np.zeros((3, 2))),
            r"'images' is an array of shape \(3, 2\); expected each file",
        ),
        (
            lambda: lt.predict("run", texts=np.zeros(3)),
            r"'texts' is an array of shape \(3,\); expected each text",
        ),
        (lambda: lt.evaluate(3), "'what' is a value of type int; expected a file or folder"),
        (lambda: lt.compare(["a", "a"]), "'a' is named twice"),
    ):
        with pytest.raises(ValueError, match=message):
            call()  # type: ignore[no-untyped-call]
    assert lt.__version__ == version("labeltree")


def test_a_device_of_torch_is_a_device() -> None:
    assert LoadOptions("run", device=torch.device("cpu")).device == torch.device("cpu")


def test_runs_that_are_compared_are_named_by_their_folders(tmp_path: Path) -> None:
    runs = [RunFolder(tmp_path / name) for name in ("one/run", "two/run", "supcon")]
    options = CompareOptions(runs)
    assert list(options.methods) == [str(tmp_path / "one/run"), str(tmp_path / "two/run"), "supcon"]
    assert CompareOptions([str(tmp_path / "x.npz"), "y"]).methods == {"x": str(tmp_path / "x.npz"), "y": "y"}


def test_help_of_both_has_every_option() -> None:
    text = make_parser("show", ShowOptions, description="Show.").format_help()
    assert "with --top-rows: files" in text
    assert "(default 20)" in text
    assert "told" not in text
    assert list(inspect.signature(show).parameters) == [kind.name for kind in list_options(ShowOptions)]
    assert inspect.signature(show).parameters["top_rows"].annotation is int
    said = inspect.getdoc(show) or ""
    assert "    told: Of Python alone. It has no flag.\n" in said
    assert said.index("Args:") < said.index("Raises:")


def schemas() -> list[type]:
    """All options of the package."""
    found = []
    for file in sorted((SOURCE / "options").glob("[a-z]*.py")):
        module = importlib.import_module(f"labeltree.options.{file.stem}")
        found += [
            each
            for _, each in inspect.getmembers(module, inspect.isclass)
            if issubclass(each, Options) and each.__module__ == module.__name__ and each is not Options
        ]
    return found


def test_every_option_has_a_text() -> None:
    assert len(schemas()) > 30
    for schema in schemas():
        for kind in list_options(schema):
            assert kind.option.help, f"{schema.__name__}.{kind.name}"


def test_no_text_stands_twice_in_the_files() -> None:
    """What two commands share is one alias: a long text that is written again would drift apart."""
    texts: dict[str, str] = {}
    for file in sorted((SOURCE / "options").glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) > 40:
                place = f"{file.name}:{node.lineno}"
                assert node.value not in texts, f"{place} and {texts[node.value]} say: {node.value}"
                texts[node.value] = place


@pytest.mark.parametrize("command", own_parts("commands"))
def test_commands_state_no_option_by_hand(command: str) -> None:
    by_hand = {"train": 6, "cache": 1}  # the recipe has a parser of its own; names that may be left out
    (file,) = (SOURCE / "cli" / "commands").rglob(f"{command.replace('-', '_')}_command.py")
    assert file.read_text("utf-8").count("add_argument(") <= by_hand.get(command, 0)


def test_evaluation_settings_are_options_of_evaluate() -> None:
    chosen = EvaluateOptions("run", resamples=7, questions=["malignant=a,b"], protocols=("knn",)).settings
    assert chosen == EvaluationSettings(
        resamples=7,
        protocols=("knn", "node-scores"),
        options={"node-scores": {"questions": ("malignant=a+b",)}},
    )
    for wrong in ({"resamples": "many"}, {"hp_k": 0}, {"confidence": 2}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            lt.evaluate("run", **wrong)


@pytest.mark.parametrize("name", [n for n in lt.__all__ if inspect.isfunction(getattr(lt, n))])
def test_functions_of_the_package_say_what_they_take(name: str) -> None:
    function = getattr(lt, name)
    said = inspect.getdoc(function) or ""
    for parameter in inspect.signature(function).parameters.values():
        assert (
            f"    {parameter.name}: " in said
            or parameter.name == "settings"
            or not hasattr(function, "__wrapped__")
        ), parameter.name


def test_a_command_refuses_in_its_own_words(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    table = tmp_path / "t.npz"
    table.write_bytes(b"")
    assert main(["evaluate", "--embeddings", str(table), "--taxonomy", "t", "--beside", "other"]) == 2
    assert f"--beside does not go with the embeddings in '{table}'" in capsys.readouterr().err
    with pytest.raises(ValueError, match="'beside' does not go with the embeddings"):
        lt.evaluate(embeddings=table, taxonomy="t", beside=["other"])


def test_parsers_are_those_of_argparse() -> None:
    parser = make_parser("show", ShowOptions, description="Show.")
    assert type(parser).__mro__[1] is argparse.ArgumentParser


@pytest.mark.parametrize("parse", ["parse_args", "parse_intermixed_args"])
def test_settings_of_a_group_have_a_flag_each(parse: str) -> None:
    parser = make_parser("predict", PredictOptions, description="Predict.")
    words = ["run", "new.xlsx", "--table.sheet", "a=b", "--table.text-column=Title", "--top", "0"]
    options = read_options(PredictOptions, getattr(parser, parse)(words)).with_data()
    assert options.table == {"sheet": "a=b", "text_column": "Title"}
    assert "--table.SETTING V " in parser.format_help()
    with pytest.raises(SystemExit):
        parser.parse_args(["run", "--table.sheet"])


def test_arguments_that_are_options_have_the_text_of_their_schema() -> None:
    from labeltree.curation.suspects import find_suspects
    from labeltree.inference.bulk import BulkJob
    from labeltree.inference.calibrate_run import open_decider
    from labeltree.inference.export.export_folder import export_model
    from labeltree.inference.model import Model
    from labeltree.options.curation import SuspectsOptions
    from labeltree.options.model_options import CalibrateOptions, ExportOptions, LoadOptions

    for thing, schema, names in (
        (Model, LoadOptions, ("classifier", "taxonomy", "mapping", "device")),
        (Model.predict, PredictOptions, ("coverage", "unknown", "per", "top")),
        (open_decider, CalibrateOptions, ("classifier", "verify")),
        (export_model, ExportOptions, ("formats", "with_reference", "replace")),
        (find_suspects, SuspectsOptions, ("ranking", "least_score", "folds", "seed")),
        (BulkJob, PredictOptions, ("classifier", "taxonomy", "coverage")),
    ):
        text = " ".join((inspect.getdoc(thing) or "").split())
        help_of = {one.name: one.option.help for one in list_options(schema)}
        for name in names:
            words = " ".join(help_of[name].split())
            assert f"{name}: {words[:1].upper()}{words[1:]}" in text, (thing, name)
        assert len(set(re.findall(r"\b(Args|Attributes):", text))) == 1


def test_what_a_docstring_says_of_an_argument_is_kept() -> None:
    @describes(ShowOptions)
    def show(run: str, depth: int, top_rows: int = 20) -> None:
        """Show it.

        Args:
            depth: how deep.
            run: the run, or what is like one.

        Raises:
            ValueError: always.
        """

    assert (inspect.getdoc(show) or "").splitlines() == [
        "Show it.",
        "",
        "Args:",
        "    depth: how deep.",
        "    run: the run, or what is like one.",
        "    top_rows: Rows.",
        "",
        "Raises:",
        "    ValueError: always.",
    ]
