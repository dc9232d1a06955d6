"""Data sets that recipes name but that labeltree cannot read yet, and what to do until it can."""

__all__ = ["AWAITED", "not_available"]

# What the folders are, coarse to fine, for those who have the files and want to train today.
AWAITED: dict[str, str] = {
    "breakhis": "benign or malignant/subtype",
    "ham10000": "benign or malignant/lesion",
    "odir-5k": "group/diagnosis",
}


def not_available(name: str) -> str | None:
    """One sentence on a data set that is known by name but cannot be read here; None for other names."""
    if name in AWAITED:
        return (
            f"data set '{name}' is not available here: labeltree has no reader for it yet; "
            f"give --data a folder of nested folders ({AWAITED[name]}), or a table, instead"
        )
    return None
