"""Trees from nested folders: every folder is a node, files are not."""

import os
from pathlib import Path

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.build import Entries
from labeltree.taxonomy.naming import clean_name

__all__ = ["entries_from_folders"]


def entries_from_folders(path: str | os.PathLike[str], root_name: str = "root") -> Entries:
    """Collect a tree from nested folders, children sorted by name; see `Taxonomy.from_folders`."""
    top = Path(path)
    if not top.exists():
        raise TaxonomyError(f"the folder {str(top)!r} does not exist")
    if not top.is_dir():
        raise TaxonomyError(f"{str(top)!r} is a file, not a folder; Taxonomy.from_file reads taxonomy files")
    names, parents = [clean_name(root_name, "the root")], [-1]
    folders, identities = [str(top)], [_identity(os.stat(top))]
    for node, folder in enumerate(folders):  # the lists grow while they are walked through
        for entry in _subfolders(folder):
            identity = _identity(entry.stat())
            if entry.is_symlink():
                _refuse_loop(entry.path, identity, node, folders, identities, parents)
            names.append(clean_name(entry.name, f"the folder {entry.path!r}"))
            parents.append(node)
            folders.append(entry.path)
            identities.append(identity)
    if len(names) == 1:
        raise TaxonomyError(
            f"the folder {str(top)!r} has no subfolders; their names are the taxonomy's nodes"
        )
    return Entries(names, parents)


def _subfolders(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            found = [entry for entry in entries if not entry.name.startswith(".") and entry.is_dir()]
    except OSError as error:  # not permitted, too long a path, or a link that leads to itself
        raise TaxonomyError(
            f"the folder {error.filename or folder!r} cannot be read: {error.strerror}"
        ) from None
    return sorted(found, key=lambda entry: entry.name)


def _identity(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_dev, stat.st_ino


def _refuse_loop(
    link: str,
    identity: tuple[int, int],
    node: int,
    folders: list[str],
    identities: list[tuple[int, int]],
    parents: list[int],
) -> None:
    """A link to a folder that it lies in would make the tree endless."""
    while node >= 0:
        if identities[node] == identity:
            raise TaxonomyError(
                f"the link {link!r} leads back to {folders[node]!r}, which it lies in; remove the link"
            )
        node = parents[node]
