"""An index of all error messages, made from the source, so that the search of the site finds them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from docstrings import first_sentence

from labeltree import errors

__all__ = ["error_page", "messages"]


def messages(root: Path) -> dict[str, list[tuple[str, str, str]]]:
    """The messages of each package of labeltree: file, exception and message, in the order of the source."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    package = root / "src" / "labeltree"
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package)
        room = name.parts[0] if len(name.parts) > 1 else "labeltree"
        found.setdefault(room, []).extend(
            (name.as_posix(), error, message) for error, message in _of_file(path.read_text("utf-8"))
        )
    return {room: said for room, said in found.items() if said}


def error_page(root: Path) -> str:
    """What the page says after its introduction."""
    public = [getattr(errors, name) for name in errors.__all__]
    classes = [each for each in public if isinstance(each, type)]
    parts = [
        "\n".join(
            f"- {{py:obj}}`~labeltree.errors.{error.__name__}`: {first_sentence(error.__doc__)}"
            for error in classes
        )
    ]
    for room, said in messages(root).items():
        parts.append(f"## {room}")
        file = None
        lines: list[str] = []
        for path, error, message in said:
            if path != file:
                lines += ["", f"`{path}`", ""]
                file = path
            fence = "``" if "`" in message else "`"
            lines.append(f"- {fence}{message}{fence} ({error})")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _of_file(source: str) -> Iterator[tuple[str, str]]:
    seen = set()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        name = "OptionError" if name == "refusal" else name
        if not name.endswith("Error") or name.startswith("_"):
            continue
        message = " ".join(_template(node.args[0]).split())
        if " " in message and (name, message) not in seen:
            seen.add((name, message))
            yield name, message


def _template(node: ast.expr) -> str:
    """The text of a message, with ``<name>`` for what is put into it."""
    if isinstance(node, ast.Constant):
        return str(node.value) if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_template(part) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return _placeholder(node.value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _template(node.left) + _template(node.right)
    if isinstance(node, ast.IfExp):
        return f"{_template(node.body)} / {_template(node.orelse)}"
    return _placeholder(node)


def _placeholder(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return f"<{node.id.strip('_')}>"
    if isinstance(node, ast.Attribute):
        return f"<{node.attr.strip('_')}>"
    return "…"
