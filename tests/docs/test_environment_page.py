"""The page of environment variables has every one that the source reads or names."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import labeltree
from labeltree import installation

SOURCE = Path(labeltree.__file__).parent
PAGE = (Path(__file__).parents[2] / "docs" / "environment.md").read_text("utf-8")
NAME = re.compile(r"(?=.{3})_?[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*")
# Variables of these are also known by messages and settings that name them.
LIBRARIES = "AWS CUDA HF LABELTREE MLFLOW PG QDRANT TRITON WANDB XDG"
# Reads of a variable whose name the user gives, by file.
NAMED_BY_THE_USER = {"serving/server.py": "--token-env NAME"}


def is_internal(name: str) -> bool:
    """The one rule: a variable by which processes of one command talk to each other begins with `_`."""
    return name.startswith("_")


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))


def parts(node: ast.AST) -> Iterator[ast.AST]:
    """The expressions of a statement, without the statements in it; of a dictionary, without its keys.

    The keys of a dictionary beside `os.environ` are what a child process is told.
    """
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.stmt | ast.ExceptHandler):
                continue
            if isinstance(node, ast.Dict) and name == "keys":
                continue
            yield child
            yield from parts(child)


def is_environment(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv", "environb")


def strings(node: ast.AST) -> Iterator[str]:
    for child in ast.walk(node):
        if isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child.value


def defined(file: Path, name: str) -> ast.AST | None:
    """What a name stands for at the level of a module, also of the one that it is imported from."""
    for node in parsed(file).body:
        if isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == name for t in node.targets
        ):
            return node.value
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("labeltree"):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    place = SOURCE.parent.joinpath(*str(node.module).split("."))
                    there = place.with_suffix(".py")
                    return defined(there if there.is_file() else place / "__init__.py", alias.name)
    return None


def variables(file: Path) -> Iterator[tuple[str, set[str]]]:
    """The place of every statement of a file that reads the environment, and the variables in it."""
    for node in ast.walk(parsed(file)):
        if not isinstance(node, ast.stmt | ast.ExceptHandler):
            continue
        inside = list(parts(node))
        if not any(map(is_environment, inside)):
            continue
        words = {
            each.value for each in inside if isinstance(each, ast.Constant) and isinstance(each.value, str)
        }
        for each in inside:
            if isinstance(each, ast.Name) and (value := defined(file, each.id)) is not None:
                words.update(strings(value))
        yield f"{file.relative_to(SOURCE)}:{node.lineno}", {word for word in words if NAME.fullmatch(word)}


FILES = sorted(SOURCE.rglob("*.py"))
READ = [(place, names) for file in FILES for place, names in variables(file)]


def test_what_is_read_is_known_by_name() -> None:
    """A variable that is read by a name which no constant says would not be in the list below."""
    passed_on = re.compile(r"os\.environ \||\*\*os\.environ")  # to a child process, with what it is told
    for place, names in READ:
        file, line = place.split(":")
        text = (SOURCE / file).read_text("utf-8").splitlines()[int(line) - 1]
        assert names or file in NAMED_BY_THE_USER or passed_on.search(text), f"{place}: {text.strip()}"
    for option in NAMED_BY_THE_USER.values():
        assert f"`{option}`" in PAGE


def test_the_page_has_every_variable_that_is_read() -> None:
    names = {name: place for place, found in READ for name in found if not is_internal(name)}
    assert {"LABELTREE_DATA", "HF_HUB_OFFLINE", "QDRANT_API_KEY", "DISPLAY", "XDG_CACHE_HOME"} <= names.keys()
    assert {name: place for name, place in names.items() if f"`{name}`" not in PAGE} == {}


def test_the_page_has_every_variable_that_is_named() -> None:
    """In messages, help and settings, whoever reads it."""
    word = re.compile(rf"(?<!\w)(?:{'|'.join(LIBRARIES.split())})[A-Z0-9]*(?:_[A-Z0-9]+)+(?!\w)")
    named = {
        name: str(file.relative_to(SOURCE))
        for file in FILES
        for text in strings(parsed(file))
        for name in word.findall(text)
    }
    assert len(named) > 10
    assert {name: file for name, file in named.items() if f"`{name}`" not in PAGE} == {}


def test_other_pages_name_none_that_is_missing() -> None:
    word = re.compile(rf"`((?:{'|'.join(LIBRARIES.split())})[A-Z0-9]*(?:_[A-Z0-9]+)+)`")
    for page in sorted((Path(__file__).parents[2] / "docs").glob("*.md")):
        for name in word.findall(page.read_text("utf-8")):
            assert f"`{name}`" in PAGE, f"{page.name}: {name}"


def test_doctor_knows_what_is_on_the_page() -> None:
    assert [name for name in installation.VARIABLES if f"`{name}`" not in PAGE] == []


@pytest.mark.parametrize("name", ["HF_TOKEN", "QDRANT_API_KEY"])
def test_doctor_shows_no_secret(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "a secret")
    examined = installation.examine_installation()
    assert name in examined.variables
    assert "a secret" not in str(examined.to_dict())
    assert "a secret" not in examined.text()
