"""Newick trees, as used in phylogenetics: `((dog,cat)mammal,trout)animal;`, without recursion."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.files.entries import Entries, entries_of_tree
from labeltree.taxonomy.naming import clean_name

__all__ = ["entries_from_newick", "fill_names", "newick_from_tree"]

_TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<quoted>'(?:[^']|'')*')|(?P<mark>[(),:;])|(?P<plain>[^\s()\[\]{},:;']+)", re.DOTALL
)
_SUPPORT = re.compile(r"\d+(?:\.\d+)?(?:[eE]-?\d+)?(?:/\d+(?:\.\d+)?)*")


class _Token(NamedTuple):
    kind: str  # "name", or the mark itself
    text: str
    line: int


def entries_from_newick(
    text: str, root_name: str | None = "root", translation: Mapping[str, str] | None = None
) -> Entries:
    """Read one Newick tree; comments in brackets and branch lengths are ignored.

    Names are kept as they are written, quoted or not, including underscores; but where branches have lengths,
    and all named inner nodes are numbers, these are support values. An inner node without a name is
    named after the first and the last leaf below it, `dog … trout`, or after its leaf if there is only one;
    an outermost node without a name is the root, named `root_name`. A leaf needs a name.

    Args:
        text: The tree.
        root_name: Name of a root without one.
        translation: What words of the tree stand for; None: for themselves.

    Raises:
        TaxonomyError: If the text is not a Newick tree; the message gives the line.
    """
    translated = translation or {}
    names, parents, lines = [""], [-1], [1]
    measured = False
    node, opened, state = 0, 0, "start"  # start: a node begins here; named: it has ended but for its length
    for token in (tokens := _tokens(text)):
        where = f"line {token.line}"
        if token.kind == "(" and state == "start":
            opened += 1
            node = _add(names, parents, lines, node, token.line)
        elif token.kind == "name" and state in ("start", "closed"):
            text = translated.get(token.text, token.text)
            names[node], lines[node], state = clean_name(text, where), token.line, "named"
        elif token.kind == ":" and state in ("start", "closed", "named"):
            length = next(tokens, _Token("end", "the end", token.line))
            _check_length(length)
            state, measured = "measured", True
        elif token.kind == "," and opened:
            node, state = _add(names, parents, lines, parents[node], token.line), "start"
        elif token.kind == ")" and opened:
            opened, node, state = opened - 1, parents[node], "closed"
        elif token.kind == ";" and not opened:
            extra = next(tokens, None)
            if extra is not None:
                raise TaxonomyError(f"line {extra.line}: a second tree begins; a taxonomy is one")
        else:
            raise TaxonomyError(f"{where}: {token.text!r} cannot stand here in a Newick tree")
    if opened:
        raise TaxonomyError(f"the tree ends with {opened} brackets open; is the file whole?")
    inner = {node for node in parents if node > 0}
    named = [names[node] for node in inner if names[node]]
    notes: tuple[str, ...] = ()
    others = [name for node, name in enumerate(names) if node and node not in inner]
    if (
        measured
        and named
        and all(map(_SUPPORT.fullmatch, named))
        and not all(map(_SUPPORT.fullmatch, others))
    ):
        names = ["" if node in inner else name for node, name in enumerate(names)]
        notes = ("the numbers of inner nodes are support values, and no names",)
    filled = fill_names(names, parents, lines, root_name)
    return entries_of_tree(filled, parents)._replace(notes=notes)


def _add(names: list[str], parents: list[int], lines: list[int], parent: int, line: int) -> int:
    names.append("")
    parents.append(parent)
    lines.append(line)
    return len(names) - 1


def _check_length(token: _Token) -> None:
    try:
        float(token.text)
    except ValueError:
        raise TaxonomyError(
            f"line {token.line}: {token.text!r} stands where a branch length must, after a colon"
        ) from None


def _tokens(text: str) -> Iterator[_Token]:
    at, line = 0, 1
    while at < len(text):
        if text[at] == "[":
            end = text.find("]", at)
            if end < 0:
                raise TaxonomyError(f"line {line}: a comment begins with [ and does not end")
            token, kind = text[at : end + 1], "space"
        else:
            match = _TOKEN.match(text, at)
            if match is None or match.lastgroup is None:
                raise TaxonomyError(f"line {line}: {text[at]!r} cannot stand here in a Newick tree")
            token, kind = match[0], match.lastgroup
        if kind == "mark":
            yield _Token(token, token, line)
        elif kind == "quoted":
            yield _Token("name", token[1:-1].replace("''", "'"), line)
        elif kind == "plain":
            yield _Token("name", token, line)
        line += token.count("\n")
        at += len(token)


def fill_names(names: list[str], parents: list[int], lines: list[int], root_name: str | None) -> list[str]:
    """The names, with missing names filled in; parents come before children, leaves in order."""
    inner = set(parents)
    first: list[str] = [""] * len(names)
    last: list[str] = [""] * len(names)
    for node in range(len(names) - 1, -1, -1):
        if node not in inner:
            if not names[node]:
                raise TaxonomyError(f"line {lines[node]}: a leaf has no name; every leaf needs one")
            first[node] = last[node] = names[node]
        if node:
            above = parents[node]
            first[above], last[above] = first[node], last[above] or last[node]
    spans = [a if a == b else f"{a} … {b}" for a, b in zip(first, last, strict=True)]
    outermost = names[0] or clean_name("root" if root_name is None else root_name, "the root")
    return [outermost, *(name or span for name, span in zip(names[1:], spans[1:], strict=True))]


def newick_from_tree(names: Sequence[str], parents: Sequence[int]) -> str:
    """Write a tree in preorder as one line of Newick, with all names and without branch lengths."""
    out: list[str] = []
    waiting: list[int] = []  # nodes whose bracket is open, innermost last
    for node in range(len(names)):
        while waiting and waiting[-1] != parents[node]:
            out.append(")" + _quote(names[waiting.pop()]))
        follows = node + 1 < len(names) and parents[node + 1] == node
        out.append("," if out and not out[-1].endswith("(") else "")
        if follows:
            out.append("(")
            waiting.append(node)
        else:
            out.append(_quote(names[node]))
    while waiting:
        out.append(")" + _quote(names[waiting.pop()]))
    return "".join(out) + ";\n"


def _quote(name: str) -> str:
    # other programs read an unquoted underscore as a space
    if re.fullmatch(r"[^\W_][^\W_.-]*(?:[.-][^\W_.-]+)*", name):
        return name
    return "'" + name.replace("'", "''") + "'"
