"""Mappings between versions of a taxonomy as YAML, one line a change, to be read and edited by people."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from labeltree.atomic import atomic_write
from labeltree.errors import TaxonomyError
from labeltree.links import check_regular
from labeltree.taxonomy.naming import join_path, some, split_path
from labeltree.taxonomy.tree import Taxonomy
from labeltree.taxonomy.versions.change_entries import KINDS, Change, Guess
from labeltree.taxonomy.versions.merged_labels import LabelsBelowMerged, find_hosts
from labeltree.taxonomy.versions.stable_ids import carry_aliases

__all__ = [
    "DescribedVersion",
    "describe_version",
    "described_versions",
    "is_edited",
    "lines_about_none",
    "other_version",
    "read_mapping",
    "write_mapping",
]

VERSION = 1
_PLAIN = re.compile(r"[\w(][\w ()./+×'-]*")
_HEADER = """\
# What became of each node; one line a change, to be edited by hand:
#   - {rename: a/b, to: a/c}    - {move: a/b, to: c/b}    - {merge: a/b, to: a/c}
#   - {split: a/b, to: [a/c, a/d]}    - {remove: a/b}    - {add: a/c}
# Labels of a removed node become those of the node above (or of `to`). A node without a line stays below its
# parent, wherever that goes.
"""
_UNEDITED = "# as written: "  # a digest of the lines above follows, by which edits are noticed
_GUESSES = """\
# Guesses, none of them used yet: remove the '# ' before those that are right. You need not touch other lines:
# a guess counts instead of the line that removes its class, and lines that add its new class may stay.
"""
_KEPT = "# Ids and synonyms that the new version no longer has, of classes that stay:\n"
Path_ = tuple[str, ...]

_OTHER_FORMATS = (".csv", ".tsv", ".xlsx", ".json", ".jsonl", ".parquet", ".obo", ".owl")


@dataclass(frozen=True)
class _Line:
    """A change as a file states it; `keep` changes nothing, and says what else a class was called."""

    kind: str
    old: Path_
    new: tuple[Path_, ...]
    number: int
    also: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The old node, and where the file names it."""
        return f"{join_path(self.old)} (line {self.number})"


def write_mapping(
    path: str | os.PathLike[str],
    old: Taxonomy,
    new: Taxonomy,
    changes: Sequence[Change],
    guesses: Sequence[Guess] = (),
) -> None:
    """Write a mapping, atomically; see `TaxonomyMapping.save`."""
    lines = [f"labeltree mapping: {VERSION}\n", _HEADER]
    for which, taxonomy in (("old", old), ("new", new)):
        about: dict[str, Any] = {} if taxonomy.release is None else {"release": taxonomy.release}
        about |= {"digest": taxonomy.digest[:16], "nodes": taxonomy.num_nodes, "root": taxonomy.names[0]}
        lines.append(f"{which}: {_flow(about)}\n")
    kept = _kept_names(changes, old, new)
    lines.append("changes:\n" if changes or guesses or kept else "changes: []\n")
    lines += [f"- {_entry(change, _lost_names(change, old, new))}\n" for change in changes]
    if guesses:
        lines.append(_GUESSES)
        for guess in guesses:
            lines.append(f"# - {_entry(guess.change)}  # {guess.reason}\n")
            lines += [f"# - {_entry(change)}  # comes with it\n" for change in guess.below]
    if kept:
        lines += [_KEPT, *(f"- {_flow({'keep': path, 'also': names})}\n" for path, names in kept.items())]
    lines.append(f"{_UNEDITED}{_digest(''.join(lines))}\n")
    path = Path(path)
    if path.suffix.lower() in _OTHER_FORMATS:
        name = path.with_suffix(".yaml").name
        raise TaxonomyError(f"a mapping is YAML, with comments to decide on: name it {name!r}")
    if not path.parent.is_dir():
        raise TaxonomyError(f"cannot save {path.name!r}: the folder {str(path.parent)!r} does not exist")
    with atomic_write(path) as temporary:
        temporary.write_text("".join(lines), "utf-8", newline="")


def is_edited(path: str | os.PathLike[str]) -> bool:
    """Whether a file is not as `write_mapping` wrote it: a person has edited it, or it is another file.

    Raises:
        OSError: If it cannot be read.
    """
    written, mark, digest = Path(path).read_bytes().rpartition(_UNEDITED.encode())
    return not mark or digest.decode("ascii", "replace").strip() != _digest(written)


def described_versions(path: str | os.PathLike[str]) -> dict[str, dict[str, str]]:
    """What a file says of the versions for which it was made: release, digest, nodes and root of old and new.

    Raises:
        TaxonomyError: If it is no mapping.
    """
    return _parse(Path(path))[0]


@dataclass(frozen=True)
class DescribedVersion:
    """A version for which a file says that it was made.

    Attributes:
        digest: The beginning of its digest.
        nodes: Its number of nodes; None if the file does not say it.
        release: What people call it; None likewise.
    """

    digest: str
    nodes: str | None = None
    release: str | None = None

    def __str__(self) -> str:
        name = "a version" if self.release is None else f"release {self.release}"
        count = "" if self.nodes is None else f"{self.nodes} nodes and "
        return f"{name} with {count}the digest {self.digest}"


def other_version(path: str | os.PathLike[str], which: str, taxonomy: Taxonomy) -> DescribedVersion | None:
    """The `old` or `new` version for which a file was made, if it is not this taxonomy.

    Raises:
        TaxonomyError: If it is no mapping.
    """
    described = described_versions(path).get(which, {})
    if taxonomy.digest.startswith(described.get("digest", "")):
        return None
    return DescribedVersion(described["digest"], described.get("nodes"), described.get("release"))


def describe_version(taxonomy: Taxonomy) -> str:
    """A version in words: its release, its size and its digest."""
    release = "" if taxonomy.release is None else f"release {taxonomy.release}, "
    return f"{release}{taxonomy.num_nodes} nodes, digest {taxonomy.digest[:16]}"


def lines_about_none(path: str | os.PathLike[str], known: Container[Path_]) -> list[str]:
    """The old classes that the lines of a file name and that nobody knows, each with its line.

    Args:
        path: The file.
        known: Paths of the old classes.

    Raises:
        TaxonomyError: If it is no mapping.
    """
    lines = _parse(Path(path))[1]
    return [line.place for line in lines if line.kind != "add" and line.old not in known]


def _digest(text: str | bytes) -> str:
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()[:16]


def _lost_names(change: Change, old: Taxonomy, new: Taxonomy) -> list[str]:
    """The ids and synonyms of a changed node that the new version does not know."""
    node = old.follow(change.old) if change.old else None
    return [] if node is None else [name for name in old.aliases_of(node) if not new.candidates(name)]


def _kept_names(changes: Sequence[Change], old: Taxonomy, new: Taxonomy) -> dict[str, list[str]]:
    """By path, the ids and synonyms of the other nodes that the new version does not know."""
    changed = {old.follow(change.old) for change in changes if change.old}
    lost = {
        node: [name for name in old.aliases_of(node) if not new.candidates(name)]
        for node in range(1, old.num_nodes)
        if node not in changed
    }
    return {old.path_name(node): names for node, names in lost.items() if names}


def _entry(change: Change, also: Sequence[str] = ()) -> str:
    there = [join_path(path) or "/" for path in change.new]
    if change.kind == "add":
        return _flow({"add": there[0]})
    content: dict[str, Any] = {change.kind: join_path(change.old)}
    if there:
        content["to"] = there if len(there) > 1 else there[0]
    if also:
        content["also"] = list(also)
    return _flow(content)


def _flow(content: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{key}: {_scalar(value)}" for key, value in content.items()) + "}"


def _scalar(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_scalar, value))}]"
    text = str(value)
    return text if _PLAIN.fullmatch(text) and text == text.strip() else json.dumps(text, ensure_ascii=False)


def read_mapping(
    path: str | os.PathLike[str], old: Taxonomy | None, new: Taxonomy | None
) -> tuple[Taxonomy, Taxonomy, list[list[int]], list[bool]]:
    """Read a mapping; see `TaxonomyMapping.load`.

    Returns:
        The old and the new version, and for every old node its targets and whether it was removed.
    """
    path = Path(path)
    if old is None and new is None:
        raise TaxonomyError(f"'{path}' says what changed; give the old or the new taxonomy, too")
    try:
        about, lines = _parse(path)
        is_known = old is not None
        if old is None:
            assert new is not None
            earlier = about.get("old", {})
            old = _undone(new, lines, earlier.get("root", new.names[0])).with_release(earlier.get("release"))
            _check_complete(old, new, earlier, about.get("new", {}))
        later = about.get("new", {})
        old, made, targets, removed = _carry_out(old, new, lines, later.get("root", old.names[0]))
        if not is_known:
            old = LabelsBelowMerged(old, _hosts(old, _lines_of_nodes(old, lines))).taxonomy
        return old, made if new is not None else made.with_release(later.get("release")), targets, removed
    except TaxonomyError as error:
        raise TaxonomyError(f"{path}: {error}") from None


def _check_complete(old: Taxonomy, new: Taxonomy, earlier: dict[str, str], later: dict[str, str]) -> None:
    """Refuse a file that does not lead from its own new version back to its old one."""
    digest, nodes = later.get("digest"), earlier.get("nodes")
    same = bool(digest) and new.digest.startswith(str(digest))
    if same and nodes is not None and nodes.isdecimal() and old.num_nodes > int(nodes):
        raise TaxonomyError(
            f"the lines are about {old.num_nodes} nodes of the old version, which had {nodes}: correct or "
            "remove those that name a class that it never had; 'labeltree taxonomy diff OLD NEW --mapping "
            "FILE' names them"
        )
    if same and nodes is not None and nodes != str(old.num_nodes):
        raise TaxonomyError(
            f"the changes lead back to {old.num_nodes} nodes, and the old version has {nodes}: lines of "
            "nodes that were merged, split or removed, or of those below them, are missing; give the old "
            "version, too, and save the mapping again"
        )


def _parse(path: Path) -> tuple[dict[str, dict[str, str]], list[_Line]]:
    import yaml

    try:
        check_regular(path)
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        raise TaxonomyError("there is no such file; 'labeltree taxonomy map OLD NEW' writes one") from None
    except UnicodeDecodeError:
        raise TaxonomyError("not UTF-8 text; save it as UTF-8") from None
    except OSError as error:
        raise TaxonomyError(f"cannot be read: {error.strerror}") from None
    try:
        document = yaml.compose(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark is not None else ""
        raise TaxonomyError(f"{where}not readable as YAML: {getattr(error, 'problem', error)}") from None
    except RecursionError:
        raise TaxonomyError("no mapping: it is nested too deeply") from None
    top = _mapping_of(document) if isinstance(document, yaml.MappingNode) else {}
    if "labeltree mapping" not in top:
        raise TaxonomyError("no mapping: its first line is not 'labeltree mapping: 1'")
    version = top["labeltree mapping"].value
    if version != str(VERSION):
        raise TaxonomyError(f"a mapping of version {version!r}, this labeltree reads version {VERSION}")
    unknown = set(top) - {"labeltree mapping", "old", "new", "changes"}
    if unknown:
        raise TaxonomyError(f"has the unknown entry {sorted(unknown)[0]!r}; there are old, new and changes")
    about: dict[str, dict[str, str]] = {}
    for which in ("old", "new"):
        if which in top:
            if not isinstance(top[which], yaml.MappingNode):
                _refuse(top[which], f"{which} says which version it is, as in {{release: 2024}}")
            about[which] = {key: str(node.value) for key, node in _mapping_of(top[which]).items()}
    if "changes" not in top:
        raise TaxonomyError("has no entry 'changes', the list of changes; [] if there are none")
    entries = top["changes"]
    if not isinstance(entries, yaml.SequenceNode) and entries.value != "":
        _refuse(entries, "changes is a list: each change is a line that begins with '-'")
    return about, [_line(entry) for entry in entries.value]


def _mapping_of(node: Any) -> dict[str, Any]:
    """The values of a mapping by key; each key once."""
    values: dict[str, Any] = {}
    for key, value in node.value if isinstance(node.value, list) else ():
        if not isinstance(key.value, str):
            _refuse(key, "a key is not text")
        if key.value in values:
            _refuse(key, f"{key.value!r} is given twice")
        values[key.value] = value
    return values


def _refuse(node: Any, what: str) -> NoReturn:
    raise TaxonomyError(f"line {node.start_mark.line + 1}: {what}")


def _line(entry: Any) -> _Line:
    fields = _mapping_of(entry) if type(entry).__name__ == "MappingNode" else {}
    kinds = [kind for kind in (*KINDS, "keep") if kind in fields]
    if len(kinds) != 1 or set(fields) - {*kinds, "to", "also"}:
        _refuse(
            entry,
            f"expected one of {', '.join(KINDS)} and perhaps 'to' and 'also', as in {{rename: a/b, to: a/c}}",
        )
    kind = kinds[0]
    here, there = _paths(fields[kind]), _paths(fields["to"]) if "to" in fields else ()
    if len(here) != 1 or not here[0]:
        _refuse(entry, f"{kind} names one node, by its path")
    if kind == "add":
        if there or "also" in fields:
            _refuse(entry, f"what is added has no '{'to' if there else 'also'}'")
        here, there = ((),), here
    elif kind == "keep":
        if there or "also" not in fields:
            _refuse(entry, "keep has ids and synonyms of a class that stays, as in {keep: a/b, also: [flu]}")
    elif kind != "remove" and len(there) != 1 and not (kind == "split" and there):
        _refuse(entry, f"{kind} needs the path 'to' which the node went, as in {{{kind}: a/b, to: a/c}}")
    elif kind in ("rename", "move", "merge") and not there[0]:
        _refuse(entry, "a node cannot become the root")
    also = _texts(fields["also"]) if "also" in fields else ()
    return _Line(kind, here[0], there, entry.start_mark.line + 1, also)


def _texts(node: Any) -> tuple[str, ...]:
    parts = [node] if isinstance(node.value, str) else node.value
    if not all(isinstance(getattr(part, "value", None), str) for part in parts):
        _refuse(node, "also lists the ids and synonyms of the old node, as in also: [A01, flu]")
    return tuple(part.value for part in parts)


def _paths(node: Any) -> tuple[Path_, ...]:
    if isinstance(node.value, str):
        return (split_path(node.value),)
    return tuple(path for part in node.value if hasattr(part, "value") for path in _paths(part))


def _carry_out(
    old: Taxonomy, new: Taxonomy | None, lines: list[_Line], root: str
) -> tuple[Taxonomy, Taxonomy, list[list[int]], list[bool]]:
    """Carry out the changes."""
    of_node = _lines_of_nodes(old, lines)
    hosts = _hosts(old, of_node)
    added = {path for line in lines if line.kind == "add" for path in line.new}
    places: list[Path_] = [()]  # of labels
    there: list[tuple[Path_, ...]] = [((),)]
    parent, names = old.numbering.main_parent.tolist(), old.names
    removed = [False]
    for node in range(1, old.num_nodes):
        line = of_node.get(node)
        if line is None:
            after: tuple[Path_, ...] = ((*places[parent[node]], names[node]),)
            is_new = after[0] in added if new is None else new.follow(after[0]) is not None
            line = None if is_new else _line_of_namesake(old, node, hosts, of_node)
        if line is not None:
            of_node[node] = line
            after = line.new or (places[parent[node]],)
        removed.append(line is not None and line.kind == "remove")
        there.append(after)
        places.append(_common_path(after))
    made = new is None
    if new is None:
        paths = [path for after in there for path in after if path]
        paths += [path for line in lines for path in line.new if path]
        if not paths:
            raise TaxonomyError("after the changes no class is left")
        new = Taxonomy.from_paths(paths, root)
    silent: dict[str, str] = {}  # old nodes that no line names and the new version lacks: where they would be
    stated: list[str] = []
    targets: list[list[int]] = []
    for node, after in enumerate(there):
        at = [new.follow(path) for path in after]
        if None in at:
            lost = join_path(next(path for path, target in zip(after, at, strict=True) if target is None))
            if (line := of_node.get(node)) is not None:
                stated.append(f"{lost} (line {line.number})")
            else:
                silent[old.path_name(node)] = lost
        targets.append([target for target in at if target is not None])
    if stated:
        raise TaxonomyError(f"made for another version: the new taxonomy has no {some(stated, 3)}")
    if silent:
        named = [here if here == lost else f"{here} (now {lost})" for here, lost in silent.items()]
        raise TaxonomyError(
            f"made for another version: it has no line about {some(named, 3)}, and the new taxonomy has no "
            "such class. If it stays, add it to the new taxonomy; if not, add a line such as "
            f"'- {_flow({'remove': next(iter(silent))})}' to this file. A class that 'labeltree "
            "extend' added is not in a file from before"
        )
    if made:
        stays = [[] if gone else several for several, gone in zip(targets, removed, strict=True)]
        new = _without(carry_aliases(old, new, stays), [name for line in lines for name in line.also])
    return old, new, targets, removed


def _without(new: Taxonomy, names: Sequence[str]) -> Taxonomy:
    """A version that has none of these ids and synonyms, which lines of changes say of the old one."""
    if not names:
        return new
    lost = set(names)
    return new.with_aliases(
        [[name for name in new.aliases_of(node) if name not in lost] for node in range(new.num_nodes)]
    )


def _hosts(old: Taxonomy, of_node: dict[int, _Line]) -> dict[int, int]:
    merged = {node: line.new[0] for node, line in of_node.items() if line.kind == "merge"}
    return find_hosts(old, merged, of_node)


def _line_of_namesake(
    old: Taxonomy, node: int, hosts: dict[int, int], of_node: dict[int, _Line]
) -> _Line | None:
    """The change of the node of the same name below the one that the parent of a node is merged into.

    `hosts` gets the namesake, whose place that of the node is, or what it is merged into.
    """
    host = hosts.get(int(old.numbering.main_parent[node]))
    namesake = None if host is None else old.follow((*old.path(host), old.names[node]))
    if namesake is None or namesake in old.ancestors_of(node):
        return None
    line = of_node.get(namesake)
    if line is None:
        hosts[node] = namesake
    elif namesake in hosts:
        hosts[node] = hosts[namesake]
    return line


def _lines_of_nodes(old: Taxonomy, lines: list[_Line]) -> dict[int, _Line]:
    """The change of each old node; a guess that was accepted replaces the line that removes the node."""
    line_of: dict[int, _Line] = {}
    unknown = []
    for line in lines:
        if line.kind == "add":
            continue
        node = old.follow(line.old)
        if node is None:
            unknown.append(line.place)
            continue
        before = line_of.get(node)
        if before is not None and not {"remove", "keep"} & {before.kind, line.kind}:
            raise TaxonomyError(
                f"lines {before.number} and {line.number} are both about {join_path(line.old)!r}; remove one"
            )
        if line.kind != "keep" and (before is None or before.kind == "remove"):
            line_of[node] = line
    if unknown:
        s = "" if len(unknown) == 1 else "s"
        raise TaxonomyError(
            f"made for another version: the old taxonomy has no {some(unknown, 3)}; correct the path{s}, or "
            f"remove the line{s}"
        )
    return line_of


def _common_path(paths: Iterable[Path_]) -> Path_:
    """The path of the lowest node above all."""
    several = list(paths)
    length = 0
    for names in zip(*several, strict=False):
        if len(set(names)) > 1:
            break
        length += 1
    return several[0][:length]


def _undone(new: Taxonomy, lines: list[_Line], root: str) -> Taxonomy:
    """The old version: each new node that was not added, and each node that a line begins with."""
    unknown = [
        f"{join_path(path)} (line {x.number})" for x in lines for path in x.new if new.follow(path) is None
    ]
    if unknown:
        raise TaxonomyError(f"made for another version: the new taxonomy has no {some(unknown, 3)}")
    added = {new.follow(path) for line in lines if line.kind in ("add", "split") for path in line.new}
    sources: dict[int | None, list[_Line]] = {}
    for line in lines:
        if line.kind in ("rename", "move", "merge"):
            sources.setdefault(new.follow(line.new[0]), []).append(line)
    parent = new.numbering.main_parent.tolist()
    carrier: list[Path_ | None] = [()]  # the old node whose children without a line are children here
    paths: list[Path_] = []
    origins: list[Path_ | None] = [()]  # the old node, or one of them, that has the ids of a new one
    for node in range(1, new.num_nodes):
        from_lines = sources.get(node, [])
        alone = node in added or any(line.kind != "merge" for line in from_lines)
        above = carrier[parent[node]]
        same = None if alone or above is None else (*above, new.names[node])
        if same is not None:
            paths.append(same)
            carrier.append(same)
        else:
            carrier.append(from_lines[0].old if len(from_lines) == 1 else None)
        origins.append(same if same is not None else from_lines[0].old if from_lines else None)
    paths += [line.old for line in lines if line.old]
    if not paths:
        raise TaxonomyError("every node of the new taxonomy was added, so there is no old one")
    old = Taxonomy.from_paths(paths, root)
    if not new.aliases and not any(line.also for line in lines):
        return old
    further: dict[int | None, list[str]] = {}
    for line in lines:
        further.setdefault(old.follow(line.old), []).extend(line.also)
    for node, names in enumerate(new.aliases):
        if (origin := origins[node]) is not None:
            further.setdefault(old.follow(origin), []).extend(names)
    return old.with_aliases([further.get(node, []) for node in range(old.num_nodes)])
