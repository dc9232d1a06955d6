"""Help and error messages of the parser of recipes, in plain words."""

from __future__ import annotations

import difflib
import re
import textwrap
from argparse import Action
from collections.abc import Iterable, Sequence

from jsonargparse import DefaultHelpFormatter

from labeltree.training.recipe import GROUPS

__all__ = ["COMMON", "HelpInWords", "explain", "first_sentence", "in_words", "short_help"]

_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "NoneType": "null",
    "list": "a list",
    "dict": "settings by name",
}


def explain(message: str, known: Sequence[str]) -> str:
    """An error message of the parser in plain words; for an unknown setting, with the nearest known one.

    Args:
        message: The parser's message.
        known: Dotted names of all settings.

    Example:
        >>> explain('Parser key "epochs":   Expected a int. Got value: many', [])
        'epochs: expected a whole number; got many'
        >>> explain("unrecognized arguments: --epocs", ["epochs", "seed"])
        "unknown setting 'epocs'; did you mean 'epochs'?"
    """
    message = re.sub(r"<class '([\w.]+)'>", r"\1", " ".join(message.split()))
    unknown = _unknown(message)
    if unknown is not None:
        return f"unknown setting '{unknown}'; {_hint(unknown, known)}"
    if (key := re.match(r'Parser key "([\w.-]+)": ', message)) is None:
        return message
    name = key[1]
    if "Unable to load config" in message:
        members = [setting for setting in known if setting.startswith(f"{name}.")][:2]
        return f"'{name}' is a group of settings; set {' or '.join(members) or 'those'} instead"
    union = re.search(r"Subtypes: \[(.+)\] Errors: .*Given value:\s?(.*)$", message)
    single = re.search(r"Expected an? (.+?)\. Got value:\s?(.*)$", message)
    if (mismatch := union or single) is None:
        return f"{name}: {message.removeprefix(key[0])}"
    expected = [_describe_type(text) for text in re.split(r", (?![^\[]*\])", mismatch[1])]
    return f"{name}: expected {' or '.join(expected)}; got {mismatch[2] or 'nothing'}"


def _unknown(message: str) -> str | None:
    """The unknown name in a message; None if the message is about something else."""
    group = re.search(r"Group '([\w.+-]+)' does not accept option '([\w.-]+)'", message)
    if group is not None:
        return ".".join(group.groups())
    option = re.search(r"unrecognized arguments: --([\w.-]+)|Option '([\w.+-]+)' is not accepted", message)
    return None if option is None else option[1] or option[2]


def _hint(unknown: str, known: Sequence[str]) -> str:
    name = unknown.replace("-", "_")
    inner = [setting for setting in known if setting.endswith(f".{name}")]
    inner.sort(key=lambda setting: setting.split(".")[0] in GROUPS)  # the objective's own first
    near = inner[:1] or difflib.get_close_matches(name, known, 1, cutoff=0.4)
    return f"did you mean '{near[0]}'?" if near else "see 'labeltree train --help' for all settings"


def _describe_type(kind: str) -> str:
    """Translate a type from the parser's notation into words."""
    kind = kind.removeprefix("typing.").removeprefix("collections.abc.")
    if kind.startswith("Literal["):
        return " or ".join(kind.removeprefix("Literal[").removesuffix("]").split(", "))
    many = re.fullmatch(r"(?:list|Sequence)\[(\w+)\]", kind)
    if many is not None:
        return f"a list such as {'[a, b]' if many[1] == 'str' else '[1, 2]'}"
    return _TYPES.get(kind, kind)


COMMON = (
    "data",
    "objective",
    "config",
    "table.label_columns",
    "taxonomy",
    "encoder",
    "pretrained",
    "image_size",
    "epochs",
    "batch_size",
    "optimizer.lr",
    "limit",
    "val",
    "test",
    "seed",
    "monitor",
    "patience",
    "accelerator",
    "devices",
    "num_nodes",
    "precision",
    "workers",
)
"""The settings that the short help shows, in this order."""


class HelpInWords(DefaultHelpFormatter):  # type: ignore[misc, unused-ignore]
    """Formats the help of settings whose texts come from docstrings."""

    def _expand_help(self, action: Action) -> str:
        return in_words(str(super()._expand_help(action)))


def in_words(text: str) -> str:
    """The help of one setting without markup, and without types that its choices already imply.

    It begins with a small letter, as the help of all commands, where docstrings have a capital.

    Example:
        >>> in_words("Seed of weights.")
        'seed of weights.'
        >>> in_words("`adamw` or `sgd`. (type: Literal['adamw', 'sgd'], default: adamw)")
        'adamw or sgd. (default: adamw)'
        >>> in_words("τ; None: 0.1. (type: Union[float, list[float], null], default: null)")
        'τ; null: 0.1. (type: float | list[float] | null, default: null)'
    """
    text = re.sub(r"^(?!None\b|Nesterov)[A-Z](?=[a-z]+\b)", lambda match: match[0].lower(), text)
    text = re.sub(r"`+\"?|\"`+", "", text)
    text = re.sub(r"\bNone\b", "null", text)
    text = re.sub(r"type: Literal\[[^\]]*\], ", "", text)
    text = re.sub(r"Optional\[Literal\[([^\]]*)\]\]", lambda match: _either(f"{match[1]}, null"), text)
    text = re.sub(r"Optional\[((?:\w|\[\w+\])+)\]", r"\1 | null", text)
    return re.sub(r"Union\[((?:\w|, |\[\w+\])+)\]", lambda match: _either(match[1]), text)


def _either(choices: str) -> str:
    return choices.replace("'", "").replace(", ", " | ")


def short_help(actions: Iterable[Action], usage: str, width: int = 100) -> str:
    """The common settings, one sentence each, and where to find the others.

    Args:
        actions: Actions of the recipe parser.
        usage: The first line of the help.
        width: Line width in characters.
    """
    known = {action.dest: action for action in actions}
    shown = {f"--{name}": _short(known[name]) for name in COMMON}
    shown["--out"] = "the run folder (default: runs/NAME-OF-DATA)"
    shown["--folds"] = "cross-validation: one run for each of this many folds"
    shown["--quiet"] = "no progress; notes and warnings about the data are printed on standard error"
    column = max(map(len, shown)) + 4
    lines = [
        f"usage: {usage}",
        "",
        "Train an encoder on images or texts with taxonomy labels. The same command",
    ]
    lines += ["continues a run that was interrupted.", "", "common settings:"]
    for name, what in shown.items():
        text = f"  {name}".ljust(column) + what
        lines += textwrap.wrap(text, width, subsequent_indent=" " * column, break_on_hyphens=False)
    own = sorted(name for name in known if "." in name and name.split(".")[0] not in GROUPS)
    if own:
        lines += ["", "of the objective:"]
        lines += textwrap.wrap(
            ", ".join(f"--{name}" for name in own), width, initial_indent="  ", subsequent_indent="  "
        )
    lines += [
        "",
        "--help-all lists all settings; --list-objectives, --list-encoders and --list-recipes list",
        "the choices. Names may be written with - or _.",
    ]
    return "\n".join(lines)


def _short(action: Action) -> str:
    """A setting's first sentence, and its default if it has one."""
    default = action.default
    told = "" if default is None or default == [] or action.required else f" (default: {default})"
    return first_sentence(str(action.help or "")) + told


def first_sentence(text: str) -> str:
    """The help of a setting up to the first full stop or semicolon, without markup.

    Example:
        >>> first_sentence("samples a step, over all devices together. More is better. (type: int)")
        'samples a step, over all devices together'
    """
    return re.split(r"[.;](?: |$)", in_words(text), maxsplit=1)[0]
