"""What an option is: its name, type, default and text, stated once for the command and for Python.

The options of a command are the fields of a frozen dataclass, a subclass of `Options`.
`labeltree.cli.command_parser` makes the flags of the command from it, and `takes` the keyword arguments
of the function behind it.

    @dataclass(frozen=True)
    class ShowOptions(Options):
        run: Annotated[Place, Option("the run folder", positional=True)]
        _: KW_ONLY
        top: Annotated[int, Option("how many rows", least=0)] = 20

    @takes(ShowOptions)
    def show(options: ShowOptions) -> str: ...

    show("runs/photos", top=3)                    # or show(ShowOptions("runs/photos", top=3))

Texts name other options in backticks: `top` reads `--top` at the terminal.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import os
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    ParamSpec,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from labeltree.checks import check_between, check_choice
from labeltree.errors import say_to_write

__all__ = [
    "Function",
    "Option",
    "OptionError",
    "OptionField",
    "Options",
    "Place",
    "RunPlace",
    "argument",
    "as_place",
    "describe_fields",
    "describes",
    "list_options",
    "takes",
]

Place = str | Path
"""A file or a folder."""

RunPlace = str | os.PathLike[str]
"""A run folder, also as a `RunFolder`, or an index, also as an `Index`."""

P = ParamSpec("P")
Given = TypeVar("Given", contravariant=True)
Result = TypeVar("Result", covariant=True)
Schema = TypeVar("Schema")
Documented = TypeVar("Documented", bound=Callable[..., Any])


def as_place(run: RunPlace) -> Place:
    """A place as a text, which may be a URL, or as a path."""
    if isinstance(run, str | Path):
        return run
    if not isinstance(run, os.PathLike):
        raise TypeError(f"a run or table is {_say_type(run)}; expected a folder or file{say_to_write(run)}")
    place = os.fspath(run)
    return place if "://" in place else Path(place)


class OptionError(ValueError):
    """Options that are not allowed, or not together.

    Args:
        text: The sentence, with the names of options in backticks.
        flags: The flags of options whose names differ.
    """

    def __init__(self, text: str, flags: Mapping[str, str] | None = None) -> None:
        super().__init__(re.sub(r"`(\w+)`", r"'\1'", text))
        self.text, self.flags = text, flags or {}

    def at_terminal(self) -> str:
        """The sentence with flags for names."""
        return with_flags(self.text, self.flags)


@dataclass(frozen=True)
class Option:
    """The text of an option, and how it is written in a command.

    Attributes:
        help: What it is, in a few words.
        more: What the help of the command leaves out, and that of the function adds.
        flag: Its name in the command, where that differs; None = it is not an option of the command.
        short: a short name of it in the command, such as `-o`.
        metavar: What stands for its value.
        positional: It is written without a flag.
        repeat: Several values are given by several flags; otherwise after one.
        least: The smallest number allowed.
        most: The largest number allowed.
        unit: The unit of the number.
        read: Makes the value of what stands in the command, where the type does not say how.
        group: The title that it stands under in the help of the command.
        either: Options of the same word here exclude each other in the command.
    """

    help: str
    more: str = ""
    flag: str | None = ""
    short: str = ""
    metavar: str | tuple[str, ...] | None = None
    positional: bool = False
    repeat: bool = False
    least: float | None = None
    most: float | None = None
    unit: str = ""
    read: Callable[[str], Any] | None = None
    group: str | None = None
    either: str | None = None


def argument(help: str, more: str = "") -> Option:
    """An option that the function has and the command has not."""
    return Option(help, more, flag=None)


@dataclass(frozen=True)
class OptionField:
    """A field of options, with what its annotation says.

    Attributes:
        name: Its name.
        option: Its texts.
        hint: Its type.
        default: Its default; `MISSING` if it must be given.
    """

    name: str
    option: Option
    hint: Any
    default: Any

    @property
    def flag(self) -> str:
        """Its flag in the command."""
        return self.option.flag or f"--{self.name.replace('_', '-')}"

    @property
    def types(self) -> tuple[Any, ...]:
        """The types that it may have, without None."""
        union = get_origin(self.hint) in (Union, UnionType)
        return tuple(t for t in (get_args(self.hint) if union else (self.hint,)) if t is not type(None))

    @property
    def several(self) -> Any:
        """The type of an item, if it holds several; else None."""
        for each in self.types:
            if get_origin(each) in (tuple, list, Sequence):
                return get_args(each)[0]
        return None

    @property
    def takes_several_texts(self) -> bool:
        """Whether it holds several texts or places, of which one alone is a list of one, not of letters."""
        several = self.several
        known = {each for each in (several, *get_args(several)) if isinstance(each, type)}
        texts = get_origin(several) is Literal or bool(known & {str, Path, os.PathLike})
        return texts and str not in self.types

    @property
    def _singular(self) -> str:
        """What one of its values is called."""
        return "text" if self.types == (str,) or self.several is str else "file or folder"

    @property
    def is_group(self) -> bool:
        """Whether it holds settings by name, each of which has a flag of its own in the command."""
        return any(get_origin(each) is Mapping for each in self.types)

    @property
    def choices(self) -> tuple[Any, ...]:
        """The values allowed, if there are few."""
        types = self.types if self.several is None else (self.several,)
        return get_args(types[0]) if len(types) == 1 and get_origin(types[0]) is Literal else ()

    def check(self, value: Any) -> None:
        """Raise a ValueError if the value is not allowed."""
        if value is None and type(None) in get_args(self.hint):
            return
        name = f"`{self.name}`"
        place = all(get_origin(each) is os.PathLike or each in (str, Path) for each in self.types)
        if self.types and place and not isinstance(value, str | os.PathLike):
            raise ValueError(
                f"{name} is {_say_type(value)}; expected a {self._singular}{say_to_write(value)}"
            )
        sequences = all(get_origin(each) in (tuple, list, Sequence) for each in self.types)
        if self.takes_several_texts and sequences and hasattr(value, "shape"):
            raise ValueError(
                f"{name} is {_say_type(value)}; expected each {self._singular} that is meant. A model takes "
                "arrays, lt.load(RUN).predict(array)"
            )
        for each in value if self.several is not None and isinstance(value, tuple) else (value,):
            if self.choices:
                check_choice(name, each, self.choices)
            elif (self.option.least, self.option.most) != (None, None) and isinstance(each, int | float):
                check_between(name, each, self.option.least, self.option.most, self.option.unit)


def _say_type(value: Any) -> str:
    """What a value of a wrong type is, in a few words."""
    if hasattr(value, "shape") and not hasattr(value, "to_parquet"):
        return f"an array of shape {tuple(value.shape)}"
    return f"a value of type {type(value).__name__}"


class Options:
    """Base of the options of a command: checks what each may be, and then what `check` says of them."""

    def __post_init__(self) -> None:
        for one in list_options(type(self)):
            value = getattr(self, one.name)
            if isinstance(value, list) and one.several is not None:
                object.__setattr__(self, one.name, value := tuple(value))
            elif isinstance(value, str | os.PathLike) and one.takes_several_texts:
                object.__setattr__(self, one.name, value := (value,))
            elif isinstance(value, str) and one.hint in (Path, Path | None):
                object.__setattr__(self, one.name, value := Path(value))
            try:
                one.check(value)
            except ValueError as error:
                raise self.refusal(str(error)) from None
        self.check()

    def check(self) -> None:
        """Raise an `OptionError` if options do not go together."""

    def is_given(self, name: str) -> bool:
        """Whether an option differs from its default."""
        (default,) = (one.default for one in list_options(type(self)) if one.name == name)
        return bool(getattr(self, name) != default)

    def require(self, other: str, why: str, *names: str) -> None:
        """Raise an `OptionError` if one of the options is given, but not the one that they are about."""
        if not self.is_given(other):
            for name in filter(self.is_given, names):
                raise self.refusal(f"`{name}` {why}")

    def refusal(self, text: str) -> OptionError:
        """The error that says what is not allowed; options are named in backticks."""
        return OptionError(text, {one.name: one.flag for one in list_options(type(self))})


def list_options(schema: Any) -> tuple[OptionField, ...]:
    """The options of a schema, those of the class itself before those of its bases."""
    return _listed(schema)


@functools.cache
def _listed(schema: Any) -> tuple[OptionField, ...]:
    hints = get_type_hints(schema, include_extras=True)
    own: dict[str, Field[Any]] = {}
    everything = {entry.name: entry for entry in fields(schema)}
    for base in schema.__mro__:
        names = [name for name in inspect.get_annotations(base) if name in everything]
        own.update({name: everything[name] for name in names if name not in own})
    return tuple(_option_field(entry, hints[entry.name]) for entry in own.values())


def _option_field(entry: Field[Any], hint: Any) -> OptionField:
    default = entry.default if entry.default_factory is MISSING else entry.default_factory()
    if get_origin(hint) is not Annotated:
        return OptionField(entry.name, Option("", flag=None), hint, default)
    plain, *extras = get_args(hint)
    (option,) = (extra for extra in extras if isinstance(extra, Option))
    return OptionField(entry.name, option, plain, default)


def with_flags(text: str, flags: Mapping[str, str]) -> str:
    """A text in which options have the names of their flags."""
    return re.sub(r"`(\w+)`", lambda m: flags.get(m[1], f"--{m[1].replace('_', '-')}"), text)


class Function(Protocol[P, Given, Result]):
    """A function of options: they are given by name, or as one object."""

    @overload
    def __call__(self, options: Given, /) -> Result: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Result: ...


def takes(schema: Callable[P, Given]) -> Callable[[Callable[[Given], Result]], Function[P, Given, Result]]:
    """Let a function of one object of options be called with the options by name; documents them, too."""

    def decorated(function: Callable[[Given], Result]) -> Function[P, Given, Result]:
        known = {one.name: one for one in list_options(schema)}

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Result:
            if len(args) == 1 and not kwargs and isinstance(args[0], schema):  # type: ignore[arg-type]
                return function(args[0])
            for name in kwargs:
                if name not in known:
                    near = difflib.get_close_matches(name, known, 1)
                    hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(known)}"
                    raise TypeError(f"{function.__name__}() has no option '{name}'; {hint}")
            _check_places(function.__name__, by_place, required, args, kwargs)
            return function(schema(*args, **kwargs))

        given = inspect.signature(schema).parameters
        by_place = [name for name in given if given[name].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
        order = [*by_place, *(name for name in known if name not in by_place)]
        required = [name for name in order if known[name].default is MISSING]
        parameters = [
            given[name].replace(
                annotation=known[name].hint,
                default=inspect.Parameter.empty if known[name].default is MISSING else known[name].default,
            )
            for name in order
        ]
        returns = function.__annotations__.get("return", inspect.Signature.empty)
        call.__signature__ = inspect.Signature(parameters, return_annotation=returns)  # type: ignore[attr-defined]
        call.__doc__ = _documented(function.__doc__ or "", "Args", [known[name] for name in order])
        return call

    return decorated


def _check_places(
    function: str, by_place: list[str], required: list[str], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Raise a TypeError, in the words of the function, for too many arguments or too few."""
    if len(args) > len(by_place):
        raise TypeError(
            f"{function}() takes {', '.join(by_place)} without a name, and {len(args)} arguments were given "
            "so; give the others by name"
        )
    left = [name for name in required if name not in (*by_place[: len(args)], *kwargs)]
    if left:
        raise TypeError(f"{function}() needs {', '.join(left)}")


def describe_fields(schema: type[Schema]) -> type[Schema]:
    """Add to the docstring of a class the texts of those of its fields that it leaves out."""
    left = [one for one in _unsaid(schema.__doc__, schema) if one.option.help]
    schema.__doc__ = _documented(schema.__doc__ or "", "Attributes", left)
    return schema


def describes(schema: Any) -> Callable[[Documented], Documented]:
    """Add to a docstring what a schema says of arguments that it leaves out.

    For functions that have some options of a command beside arguments of their own: the text of an option
    stands in its schema alone.
    """

    def decorated(thing: Documented) -> Documented:
        given = inspect.signature(thing).parameters
        left = [one for one in _unsaid(thing.__doc__, schema) if one.name in given]
        thing.__doc__ = _documented(thing.__doc__ or "", "Args", left)
        return thing

    return decorated


def _unsaid(text: str | None, schema: Any) -> list[OptionField]:
    """The options of a schema that a docstring says nothing of."""
    said = set(re.findall(r"^    \**(\w+): ", inspect.cleandoc(text or ""), re.MULTILINE))
    return [one for one in list_options(schema) if one.name not in said]


def _documented(text: str, section: str, known: Sequence[OptionField]) -> str:
    """A docstring with the texts of options, in its section or before that of what is returned or raised."""
    text = inspect.cleandoc(text)
    lines: list[str] = []
    for one in known:
        words = ". ".join(filter(None, [one.option.help, one.option.more]))
        lines += textwrap.wrap(
            f"{one.name}: {words[:1].upper()}{words[1:]}.",
            106,
            initial_indent="    ",
            subsequent_indent="        ",
        )
    begun = re.search(rf"^{section}:\n(?:[ \t]+.*\n?)+", text, re.MULTILINE)
    if begun is not None:
        return "\n".join([text[: begun.end()].rstrip(), *lines, text[begun.end() :]]).rstrip()
    place = re.search(r"^(Returns|Raises|Example):", text, re.MULTILINE)
    at = place.start() if place else len(text)
    return "\n\n".join(filter(None, [text[:at].rstrip(), "\n".join([f"{section}:", *lines]), text[at:]]))
