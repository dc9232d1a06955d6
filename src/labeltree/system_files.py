"""Files and folders that systems and programs leave among a person's own: never samples, never classes."""

from __future__ import annotations

import re

__all__ = ["is_system_file"]

_NAMES = frozenset(
    (
        "$recycle.bin",  # Windows
        "desktop.ini",
        "ehthumbs.db",
        "ehthumbs_vista.db",
        "system volume information",
        "thumbs.db",
        "__macosx",  # what a Mac puts into zip files, with a ._ file for each file
        "icon\r",
        "network trash folder",
        "temporary items",
        "#recycle",  # Synology
        "#snapshot",
        "@eadir",
        "@tmp",
        "@__thumb",  # QNAP
        "@recently-snapshot",
        "@recycle",
        "__pycache__",
        "lost+found",
    )
)
_NUMBERED = re.compile(r"found\.\d{3}", re.IGNORECASE)  # what Windows saves from a damaged disk


def is_system_file(name: str) -> bool:
    """Whether a name, of a file or a folder, is one that a system or program uses for itself.

    Those are all names that begin with a dot (`.git`, `.DS_Store`, `._photo.jpg`,
    `.ipynb_checkpoints`), and such as `__MACOSX`, `@eaDir`, `$RECYCLE.BIN`, `lost+found`,
    `Thumbs.db` and `desktop.ini`, in capital or small letters.

    Args:
        name: The name, without the folders above it.

    Example:
        >>> [name for name in ("cats", "@eaDir", ".git", "THUMBS.DB", "thumbs") if is_system_file(name)]
        ['@eaDir', '.git', 'THUMBS.DB']
    """
    return name.startswith(".") or name.lower() in _NAMES or _NUMBERED.fullmatch(name) is not None
