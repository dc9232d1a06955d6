"""What a study uses that a script has registered, and other processes therefore do not know."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from labeltree.data import get_dataset, list_datasets
from labeltree.evaluation.protocol_registry import wanted_protocols
from labeltree.models.encoder_registry import registered_encoders
from labeltree.plugins import is_found_everywhere
from labeltree.studies.study_plan import Method, Study

__all__ = ["only_here"]


def only_here(study: Study, methods: Sequence[Method]) -> str | None:
    """The first objective, encoder, data set or protocol that only this process knows; None if there is none.

    Args:
        study: The study.
        methods: The methods to run.

    Returns:
        A clause such as `objective 'mine' is registered by 'losses.py'`.
    """
    for entry in study.own_objectives(methods):
        if not entry.origin.is_found:
            return f"objective '{entry.name}' is registered by {entry.origin}"
    for kind, word, name, function in _registered_functions(study, methods):
        module = _module_of(function)
        if not is_found_everywhere(module, kind):
            return f"{word} '{name}' is registered by '{_readable(module)}'"
    return None


def _registered_functions(
    study: Study, methods: Sequence[Method]
) -> Iterator[tuple[str, str, str, Callable[..., Any]]]:
    """The registered functions that a study uses: kind of plug-in, what it is, its name, and the function."""
    recipes = [study.recipe(method, trial, 0) for method in methods for trial in method.trials]
    encoders = registered_encoders()
    for name in dict.fromkeys(str(recipe.encoder) for recipe in recipes):
        if name in encoders:
            yield "encoders", "encoder", name, encoders[name].factory
    known = list_datasets()
    used = [recipe.data for recipe in recipes] + [study.transfer.get("data")]
    for name in dict.fromkeys(map(str, used)):
        if name in known:
            yield "datasets", "data set", name, get_dataset(name).opener
    for protocol in wanted_protocols(study.evaluation_settings.protocols):
        yield "protocols", "protocol", protocol.name, protocol.run


def _module_of(function: Callable[..., Any]) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__module__", "__main__"))


def _readable(module: str) -> str:
    """The name of a module; of a script, its file."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return str(file) if module == "__main__" and file is not None else module
