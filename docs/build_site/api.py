"""The reference of the Python interface, made from what the packages export and from its docstrings."""

from __future__ import annotations

import importlib
import inspect
import re
from dataclasses import dataclass, field
from functools import cached_property
from types import ModuleType
from typing import Any, get_type_hints

from docstrings import first_sentence, markdown

from labeltree.options.evaluation import EvaluationSettings
from labeltree.options.schema import Options

__all__ = ["ROOMS", "Api", "Room"]


@dataclass(frozen=True)
class Room:
    """A page of the reference.

    Attributes:
        title: of the page.
        modules: what they export is on the page.
        names: of a module with more in it than others need: the names that are on the page.
    """

    title: str
    modules: tuple[str, ...]
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def page(self) -> str:
        return f"reference/api/{self.modules[0].replace('.', '-')}"


ROOMS = (
    Room("labeltree", ("labeltree",)),
    Room("taxonomy", ("labeltree.taxonomy",)),
    Room("losses", ("labeltree.losses",)),
    Room("metrics as functions", ("labeltree.metrics.functional",)),
    Room("metrics as classes", ("labeltree.metrics",)),
    Room("sampling", ("labeltree.sampling",)),
    Room("geometry", ("labeltree.geometry",)),
    Room("pairs", ("labeltree.pairs",)),
    Room("data", ("labeltree.data", "labeltree.data.corrections")),
    Room("data sets", ("labeltree.datasets",)),
    Room("models", ("labeltree.models",)),
    Room("ridge head", ("labeltree.ridge", "labeltree.sklearn")),
    Room(
        "training",
        (
            "labeltree.training.registry",
            "labeltree.training.recipe",
            "labeltree.training.read_recipes",
            "labeltree.training.fit",
        ),
    ),
    Room("runs", ("labeltree.runs",)),
    Room(
        "inference",
        (
            "labeltree.inference.model",
            "labeltree.inference.predict",
            "labeltree.inference.answers.answered",
            "labeltree.inference.bulk",
            "labeltree.inference.bulk.batch_model",
        ),
    ),
    Room("evaluation", ("labeltree.evaluation", "labeltree.evaluation.statistics")),
    Room("decisions", ("labeltree.decisions",)),
    Room("curation", ("labeltree.curation", "labeltree.curation.suspects", "labeltree.curation.label_next")),
    Room("index", ("labeltree.index",)),
    Room("report", ("labeltree.report",)),
    Room(
        "studies", ("labeltree.studies.study_file", "labeltree.studies.run", "labeltree.studies.named_data")
    ),
    Room("serving", ("labeltree.serving",)),
    Room("errors", ("labeltree.errors",)),
)


class Api:
    """The public names and their pages."""

    def __init__(self, rooms: tuple[Room, ...] = ROOMS) -> None:
        self.rooms = rooms
        self._homes: dict[int, str] = {}

    @cached_property
    def names(self) -> dict[str, str]:
        """Every public name with the module whose page describes it."""
        found: dict[str, str] = {}
        for room in self.rooms:
            for module in room.modules:
                loaded = importlib.import_module(module)
                for name in loaded.__all__:
                    if module == "labeltree" and not _at_home(getattr(loaded, name), name):
                        continue
                    if not isinstance(getattr(loaded, name), ModuleType):
                        found.setdefault(f"{module}.{name}", module)
        seen: set[tuple[int, str]] = set()
        for full in list(found):
            name = full.rpartition(".")[2]
            thing = getattr(importlib.import_module(found[full]), name)
            if (id(thing), name) in seen and (inspect.isclass(thing) or inspect.isfunction(thing)):
                del found[full]
            seen.add((id(thing), name))
        return found

    @cached_property
    def _public(self) -> set[str]:
        """The names that have an entry, without their modules."""
        return {full.rpartition(".")[2] for full in self.names}

    @cached_property
    def _links(self) -> dict[str, str]:
        """Short names that stand for one public name only."""
        links: dict[str, list[str]] = {}
        for full in self.names:
            links.setdefault(full.rpartition(".")[2], []).append(full)
            links.setdefault(full, []).append(full)
        return {short: fulls[0] for short, fulls in links.items() if len(fulls) == 1}

    def linked(self, text: str) -> str:
        """The text, with public names between backquotes as links."""

        def link(found: re.Match[str]) -> str:
            full = self._links.get(found[2])
            return found[0] if full is None else f"{{py:obj}}`~{full}`"

        return re.sub(r"(?<![`}])(`{1,2})([A-Za-z_][\w.]*)\1(?!`)", link, text)

    def pages(self) -> dict[str, str]:
        """All pages of the reference, by their names."""
        pages = {room.page: self._page(room) for room in self.rooms}
        rows = [
            f"- [{room.title}]({room.page.rpartition('/')[2]}.md): "
            f"{first_sentence(importlib.import_module(room.modules[0]).__doc__)}"
            for room in self.rooms
        ]
        return {"reference/api/index": "\n".join(rows), **pages}

    def _page(self, room: Room) -> str:
        parts = [f"# {room.title}"]
        for module in room.modules:
            loaded = importlib.import_module(module)
            own = [name for name in loaded.__all__ if f"{module}.{name}" in self.names]
            elsewhere = [name for name in loaded.__all__ if name not in own]
            if len(room.modules) > 1:
                parts.append(f"## {module}")
            parts.append(markdown(loaded.__doc__, self.linked))
            if len(own) > 3:
                parts.append(
                    "\n".join(
                        f"- {{py:obj}}`~{module}.{name}`: {self.linked(_summary(getattr(loaded, name)))}"
                        for name in own
                    )
                )
            listed = [
                self.linked(f"`{name}`")
                for name in elsewhere
                if not isinstance(getattr(loaded, name), ModuleType)
            ]
            if listed:
                parts.append(f"On other pages: {', '.join(listed)}.")
            parts.append(f"```{{py:module}} {module}\n```")
            parts += [self._entry(module, name, getattr(loaded, name)) for name in own]
        return "\n\n".join(parts) + "\n"

    def _entry(self, module: str, name: str, thing: Any) -> str:
        if inspect.isclass(thing):
            kind = "exception" if issubclass(thing, BaseException) else "class"
            return self._class(kind, name, thing)
        if callable(thing) and hasattr(thing, "__name__"):
            return _directive("py:function", f"{name}{_signature(thing)}", self._text(thing.__doc__))
        return _directive("py:data", name, f"`{_shortened(repr(thing))}`")

    def _class(self, kind: str, name: str, thing: type[Any]) -> str:
        members = [
            self._member(member, value)
            for member, value in _members(thing, self._public).items()
            if _docstring(value)
        ]
        signature = "" if kind == "exception" else _signature(thing)
        return _directive(
            f"py:{kind}", name + signature, "\n\n".join([self._text(thing.__doc__), *members]), 6
        )

    def _member(self, name: str, value: Any) -> str:
        text = self._text(_docstring(value))
        if isinstance(value, property) or not callable(getattr(value, "__func__", value)):
            return _directive("py:property", name, text, 4)
        function = getattr(value, "__func__", value)
        option = {classmethod: ":classmethod:\n", staticmethod: ":staticmethod:\n"}.get(type(value), "")
        signature = _signature(function, drop_first=not isinstance(value, staticmethod))
        return _directive("py:method", name + signature, f"{option}\n{text}", 4)

    def _text(self, docstring: str | None) -> str:
        return markdown(docstring, self.linked)


def _at_home(thing: object, name: str) -> bool:
    """Whether what the top of the package exports is described there, rather than where it comes from."""
    module, own = getattr(thing, "__module__", ""), getattr(thing, "__name__", name)
    return module.startswith("labeltree.api") or own != name


def _directive(kind: str, argument: str, body: str, ticks: int = 5) -> str:
    fence = "`" * ticks
    return f"{fence}{{{kind}}} {argument}\n{body}\n{fence}"


def _summary(thing: Any) -> str:
    return (
        first_sentence(thing.__doc__) if inspect.isclass(thing) or inspect.isroutine(thing) else "a constant"
    )


def _docstring(value: Any) -> str | None:
    plain = getattr(value, "__func__", value)
    return (
        plain.__doc__
        if inspect.isroutine(plain) or hasattr(plain, "fget") or hasattr(plain, "func")
        else None
    )


def _members(thing: type[Any], public: set[str]) -> dict[str, Any]:
    """Public methods and properties, also those of bases of ours that have no entry themselves.

    Args:
        thing: the class.
        public: names that have an entry.
    """
    found: dict[str, Any] = {}
    for base in thing.__mro__:
        if base.__module__.startswith("labeltree") and (base is thing or base.__name__ not in public):
            for name, value in vars(base).items():
                if not name.startswith("_") or (name == "__call__" and _docstring(value)):
                    found.setdefault(name, value)
    return found


def _signature(thing: Any, *, drop_first: bool = False) -> str:
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return "()"
    parameters = list(signature.parameters.values())[1 if drop_first else 0 :]
    if inspect.isclass(thing) and issubclass(thing, Options | EvaluationSettings):
        hints = get_type_hints(thing)  # without the texts of options
        parameters = [each.replace(annotation=hints[each.name]) for each in parameters]
    words: list[str] = []
    star = False
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            star = True
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            words.append("*")
            star = True
        words.append(_parameter(parameter))
    returns = signature.return_annotation
    arrow = "" if returns is signature.empty or inspect.isclass(thing) else f" -> {_annotation(returns)}"
    return f"({', '.join(words)}){arrow}"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    kind = "" if parameter.annotation is parameter.empty else f": {_annotation(parameter.annotation)}"
    if parameter.default is parameter.empty:
        return f"{stars}{parameter.name}{kind}"
    default = repr(parameter.default)
    if "<" in default or len(default) > 60:  # an object without a readable form
        default = "..."
    return f"{parameter.name}{kind} = {default}" if kind else f"{parameter.name}={default}"


def _annotation(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:typing|collections\.abc|torch|numpy)\.(?=[A-Z])", "", " ".join(text.split()))


def _shortened(text: str) -> str:
    return text if len(text) <= 300 else f"{text[:300]} …"
