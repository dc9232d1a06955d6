"""The objectives that come with the library, one file per family, and those of other installed packages.

Importing this registers them. Another package adds its own through the entry point group
``labeltree.objectives``, each naming a module that registers objectives when it is imported.
"""

import importlib
import warnings
from importlib.metadata import entry_points

__all__: list[str] = []

# In the order in which they are listed.
_FAMILIES = ("contrastive", "mlcl", "coarse", "semantic", "classifiers")

for _family in _FAMILIES:
    importlib.import_module(f"{__name__}.{_family}")

for _entry in entry_points(group="labeltree.objectives"):
    try:
        _entry.load()
    except Exception as error:  # one broken package must not take all objectives away
        warnings.warn(f"the objectives of '{_entry.value}' cannot be loaded: {error}", stacklevel=1)
