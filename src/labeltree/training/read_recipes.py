"""Read recipes from YAML files, the command line and Python by one schema; find recipes by name."""

from __future__ import annotations

import argparse
import copy
import dataclasses
import difflib
import inspect
import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from jsonargparse import ArgumentParser, Namespace

import labeltree
from labeltree.data import list_datasets
from labeltree.data.object_stores import is_remote
from labeltree.data.shards.shard_files import find_shards
from labeltree.errors import RecipeError
from labeltree.safe_files import Reader, read_yaml
from labeltree.training.parser_text import HelpInWords, explain
from labeltree.training.recipe import GROUPS, Recipe, TableRecipe
from labeltree.training.registry import GIVEN, default_options, get_sum, list_objectives, objective_terms

__all__ = [
    "RecipeError",
    "RecipeParser",
    "default_folder",
    "make_recipe",
    "nested_settings",
    "objective_of",
    "parser_of",
    "read_recipe",
    "read_table_settings",
    "recipe_settings",
    "with_absolute_paths",
]


def find_recipe(name: str | Path) -> Path:
    """Find the file of a recipe.

    Args:
        name: Path of a file, or a name from `list_recipes`; `recipes/` before the name and `.yaml` after
            it are allowed, as in the documentation for a checkout.

    Raises:
        RecipeError: If there is no such file and no such name.

    Example:
        >>> find_recipe("quickstart/supcon").name
        'supcon.yaml'
    """
    path = Path(name).expanduser()
    if path.exists():
        return path
    shipped = list_recipes()
    wanted = str(name).removeprefix("./").removeprefix("recipes/").removesuffix(".yaml")
    if wanted in shipped:
        return shipped[wanted]
    near = difflib.get_close_matches(wanted, shipped, 1)
    hint = (
        f"did you mean '{near[0]}'?"
        if near
        else "'labeltree train --list-recipes' lists those that come with it"
    )
    raise RecipeError(f"no recipe at '{name}', and none of that name comes with labeltree; {hint}")


def list_recipes() -> dict[str, Path]:
    """The recipes that come with labeltree: names such as `feng2023/cifar-100-maskcon` → files."""
    package = Path(labeltree.__file__).parent
    for folder in (package / "recipes", package.parents[1] / "recipes"):  # installed, or in a checkout
        files = sorted(folder.glob("*/*.yaml"))
        if files:
            return {f"{file.parent.name}/{file.stem}": file for file in files}
    return {}


_COLUMNS = frozenset(
    f"--table.{field.name}"
    for field in dataclasses.fields(TableRecipe)
    if str(field.type).removesuffix(" | None") == "list[str]"
)


def with_found_recipe(arguments: Sequence[str]) -> list[str]:
    """Replace recipe names after `--config` in command-line arguments by their files, and put a column after
    a setting that takes several into brackets.
    """
    replaced: list[str] = []
    for argument in arguments:
        flag, equals, value = argument.partition("=")
        if replaced and replaced[-1] == "--config":
            replaced.append(str(find_recipe(argument)))
        elif flag == "--config" and equals:
            replaced.append(f"--config={find_recipe(value)}")
        elif replaced and replaced[-1] in _COLUMNS:
            replaced.append(_bracketed(argument))
        elif flag in _COLUMNS and equals:
            replaced.append(f"{flag}={_bracketed(value)}")
        else:
            replaced.append(argument)
    return replaced


def _bracketed(value: str) -> str:
    """The name of a column as a list of it; lists and `null` as they are."""
    is_list = value.strip()[:1] in ("", "[") or value == "null" or value.startswith("--")
    return value if is_list else json.dumps([value])


_RECIPE = Reader(
    "a recipe", "it must hold settings by name in YAML, such as 'objective: supcon'", RecipeError
)


class RecipeParser(ArgumentParser):  # type: ignore[misc, unused-ignore]
    """Parser of recipes with a given objective, including the options of the objective's terms."""

    def __init__(self, objective: str, **options: Any) -> None:
        super().__init__(
            exit_on_error=False,
            default_env=False,
            allow_abbrev=False,
            formatter_class=HelpInWords,
            **options,
        )
        self.terms = objective_terms(objective)
        self.known: dict[str, Recipe] = {}  # by the settings of their files
        self.add_argument(
            "--config",
            action="config",
            help="a recipe: a YAML file, or one of --list-recipes by name; what follows it overrides it",
        )
        self.add_class_arguments(Recipe, as_group=False, skip={"options"})
        self.set_defaults({"objective": objective})
        for term in self.terms:
            self.add_class_arguments(term.loss, term.name, skip=_given_settings(term.loss))
        if get_sum(objective) is not None:
            usual = default_options(objective)
            self.set_defaults({f"{_key(n)}.{k}": value for n in usual for k, value in usual[n].items()})

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Raise a `RecipeError` that says what is wrong and, for an unknown key, which is nearest."""
        raise RecipeError(self._explain(message)) from ex

    def recipe(
        self, arguments: Sequence[str] | None = None, settings: dict[str, Any] | None = None
    ) -> Recipe:
        """Build a recipe from command-line arguments or nested settings."""
        try:
            if arguments is not None:
                given = self.parse_args(with_found_recipe(arguments), defaults=False)
            else:
                given = self.parse_object(settings or {}, defaults=False)
        except (argparse.ArgumentError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, RecipeError):
                raise
            raise RecipeError(self._explain(str(error))) from error
        parsed = self._all_defaults.clone()  # jsonargparse would parse them anew, ten times as slow
        parsed.update(given)
        return self.build(parsed)

    @cached_property
    def _all_defaults(self) -> Namespace:
        return self.get_defaults()

    def build(self, parsed: Namespace) -> Recipe:
        """Build a recipe from parsed settings."""
        values = parsed.as_dict()
        fields = {f.name for f in dataclasses.fields(Recipe)} - {"options"}
        settings = {name: value for name, value in values.items() if name in fields}
        for name, group in GROUPS.items():
            if not isinstance(settings[name], dict):
                given = "empty" if settings[name] is None else f"{settings[name]!r}"
                raise RecipeError(f"{name} is {given}; give settings below it, or leave it out")
            settings[name] = group(**settings[name])
        options = {term.name: dict(values.get(_key(term.name)) or {}) for term in self.terms}
        for term in self.terms:
            parameters = inspect.signature(term.loss).parameters
            for name, value in options[term.name].items():
                default = parameters[name].default
                if value is None and default is not None:
                    raise RecipeError(
                        f"{term.name}.{name}: null is not a value for it; leave it at {default!r}"
                    )
        return Recipe(**settings, options=options)

    def _explain(self, message: str) -> str:
        if not self.terms:
            for entry in list_objectives():
                if re.search(rf"\b{_key(entry.name)}\.\w", _key(message)):
                    return (
                        f"{message}: a setting of '{entry.name}', but the objective is left to the samples; "
                        f"name one that has it, such as objective '{entry.name}'"
                    )
        return explain(message, [a.dest for a in self._actions if a.dest not in ("help", "config")])


_MOST_KNOWN = 16
_parsers = threading.local()  # parsers of argparse are not made for several threads


def parser_of(objective: str) -> RecipeParser:
    """The parser of recipes with a given objective; made once, which takes longer than reading with it."""
    known: dict[str, tuple[object, RecipeParser]] = vars(_parsers)
    registered = (objective_terms(objective), get_sum(objective))
    if objective not in known or known[objective][0] != registered:
        known[objective] = (registered, RecipeParser(objective))
    return known[objective][1]


def _key(name: str) -> str:
    """The name of an objective as the parser writes it; it accepts `-` and `_`."""
    return name.replace("-", "_")


def _given_settings(loss: Any) -> set[str]:
    return set(GIVEN) & set(inspect.signature(loss).parameters)


def read_recipe(path: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe file.

    Args:
        path: a YAML file with the settings of `Recipe`, and each objective's options under its name.
        overrides: Settings in command-line form, such as `["--epochs", "20"]`.

    Raises:
        RecipeError: If the file is not YAML, or holds an unknown key (the nearest valid one is named) or a
            value of the wrong kind.
    """
    arguments = ["--config", str(path), *overrides]
    if overrides:
        parser, key = parser_of(objective_of(arguments)), ""
    else:
        settings = recipe_settings(find_recipe(path))
        parser, key = parser_of(str(settings.get("objective") or Recipe.objective)), repr(settings)
    if key in parser.known:
        return copy.deepcopy(parser.known[key])  # its lists and options can be changed
    try:
        recipe = parser.recipe(arguments)
    except RecipeError as error:
        raise RecipeError(f"recipe '{path}': {error}") from error
    if key:
        if len(parser.known) >= _MOST_KNOWN:
            parser.known.clear()
        parser.known[key] = copy.deepcopy(recipe)
    return recipe


def recipe_settings(path: str | Path) -> dict[str, Any]:
    """The settings of a recipe file, as written.

    Raises:
        RecipeError: If there is no such file, or it does not hold settings by name in YAML.
    """
    return read_yaml(path, _RECIPE)


def nested_settings(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Nest dotted settings: `{"optimizer.lr": 0.1}` becomes `{"optimizer": {"lr": 0.1}}`.

    Raises:
        ValueError: If a group and a setting within it are both given.
    """
    nested: dict[str, Any] = {}
    for key, value in flat.items():
        *parents, last = key.split(".")
        place = nested
        for parent in parents:
            place = place.setdefault(parent, {})
            if not isinstance(place, dict):
                raise ValueError(f"'{key}' is set beside '{parent}' itself; leave out one of them")
        inner = place.get(last)
        place[last] = {**inner, **value} if isinstance(inner, dict) and isinstance(value, Mapping) else value
    return nested


def make_recipe(settings: Mapping[str, Any], config: str | Path | None = None) -> Recipe:
    """Build a recipe from settings, on top of a recipe file if one is given.

    Args:
        settings: Settings as in a recipe file; groups are nested (`optimizer={"lr": 0.1}`) or dotted
            (`{"optimizer.lr": 0.1}`).
        config: a YAML file, or the name of a recipe that comes with labeltree.

    Raises:
        RecipeError: If a setting is unknown (the message names the nearest one) or its value is invalid.
    """
    below = {} if config is None else recipe_settings(find_recipe(str(config)))
    merged = nested_settings(below)
    for key, value in nested_settings({name: _make_text(value) for name, value in settings.items()}).items():
        known = merged.get(key)
        merged[key] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value
    return parser_of(str(merged.get("objective", Recipe.objective))).recipe(settings=merged)


def read_table_settings(given: Mapping[str, Any]) -> TableRecipe:
    """Settings of a table by name, as recipes have them: values of Python, or the words of a command.

    Raises:
        RecipeError: If a setting is unknown (the message names the nearest one) or its value is not allowed.
        TypeError: If they are not given by name.
    """
    if not isinstance(given, Mapping):
        raise TypeError(
            f"table is {given!r}; expected the settings of the table, such as {{'text_column': 'Title'}}"
        )
    settings = {
        name: _bracketed(value) if isinstance(value, str) and f"--table.{name}" in _COLUMNS else value
        for name, value in given.items()
    }
    return make_recipe({"data": "samples", "table": settings}).table


def _make_text(value: Any) -> Any:
    """A setting from Python as a recipe file would have it: paths as texts."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {name: _make_text(one) for name, one in value.items()}
    return [_make_text(one) for one in value] if isinstance(value, list | tuple) else value


def with_absolute_paths(recipe: Recipe) -> Recipe:
    """Make the paths in a recipe absolute, so that it works from any folder."""
    from labeltree.models import encoder_with_absolute_path

    def whole(value: str | None) -> str | None:
        if value is None or value in list_datasets() or is_remote(value):
            return value
        path = Path(value).expanduser()
        if not path.exists():  # a pattern of shards, or no path
            return str(path.absolute()) if find_shards(value) is not None else value
        return str(path.resolve())

    def is_file(value: object) -> bool:  # a word such as "all" is a choice even if a file has that name
        return isinstance(value, str) and bool(Path(value).suffix) and Path(value).expanduser().is_file()

    options = {
        name: {key: whole(value) if is_file(value) else value for key, value in chosen.items()}
        for name, chosen in recipe.options.items()
    }
    return dataclasses.replace(
        recipe,
        options=options,
        data=whole(recipe.data) or recipe.data,
        data_path=whole(recipe.data_path),
        table=dataclasses.replace(
            recipe.table,
            image_folder=whole(recipe.table.image_folder),
            synonyms=whole(recipe.table.synonyms),
            label_file=whole(recipe.table.label_file),
        ),
        encoder=encoder_with_absolute_path(recipe.encoder),
        taxonomy=whole(recipe.taxonomy),
        mapping=whole(recipe.mapping),
        corrections=_one_or_more(recipe.corrections, whole),
        train_taxonomy=whole(recipe.train_taxonomy),
        weights=whole(recipe.weights),
        logger_folder=None
        if recipe.logger_folder is None
        else str(Path(recipe.logger_folder).expanduser().resolve()),
    )


def _one_or_more(
    files: list[str] | str | None, whole: Callable[[str | None], str | None]
) -> list[str] | str | None:
    """Files as absolute paths; a list of one is that one."""
    if files is None or isinstance(files, str):
        return whole(files)
    paths = [whole(file) or file for file in files]
    return paths[0] if len(paths) == 1 else paths or None


def default_folder(recipe: Recipe) -> Path:
    """The default folder of a run: below `runs/`, named after its data."""
    data = Path(recipe.data)
    if "{" in data.name and not data.exists():  # a pattern of shards: what comes before its braces
        return Path("runs") / (data.name.partition("{")[0].rstrip("-_.") or data.parent.name or "shards")
    return Path("runs") / (data.name if data.is_dir() else data.stem)


def objective_of(arguments: Sequence[str]) -> str:
    """The objective named by raw command-line arguments or by a recipe file among them.

    Raises:
        RecipeError: If one of these files cannot be read as a recipe. The check comes first because the
            argument parser is not protected against YAML aliases that expand to billions of values, or
            against endless nesting.
    """
    objectives = _values(arguments, "objective")
    for config in _values(arguments, "config"):
        named = recipe_settings(find_recipe(config)).get("objective")
        objectives += [] if named is None else [str(named)]
    return next(iter(objectives), "") or Recipe.objective


def _values(arguments: Sequence[str], name: str) -> list[str]:
    """The values of `--name` among raw arguments, in order."""
    flag, values = f"--{name}", []
    for position, argument in enumerate(arguments):
        if argument == flag and position + 1 < len(arguments):
            values.append(arguments[position + 1])
        elif argument.startswith(f"{flag}="):
            values.append(argument.removeprefix(f"{flag}="))
    return values
