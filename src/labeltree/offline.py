"""Whether anything may be fetched from a network."""

from __future__ import annotations

import os

__all__ = ["OFFLINE", "offline"]

OFFLINE = "LABELTREE_OFFLINE"
_TRUE = {"1", "on", "true", "yes"}


def offline() -> bool:
    """Whether `LABELTREE_OFFLINE` or `HF_HUB_OFFLINE` says that nothing may be fetched.

    Example:
        >>> import os
        >>> from labeltree.offline import offline
        >>> os.environ["LABELTREE_OFFLINE"] = "1"
        >>> offline()
        True
        >>> del os.environ["LABELTREE_OFFLINE"]
    """
    return any(os.environ.get(name, "").strip().lower() in _TRUE for name in (OFFLINE, "HF_HUB_OFFLINE"))
