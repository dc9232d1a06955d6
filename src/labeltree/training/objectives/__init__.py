"""The objectives that come with the library, one file per family, and those of other installed packages.

Importing this registers them. Another package adds its own through the entry point group
``labeltree.objectives``, each naming a module that registers objectives when it is imported.
"""

import importlib

from labeltree.plugins import load_plugins

__all__: list[str] = []

# In the order in which they are listed.
_FAMILIES = ("contrastive", "coarse", "semantic", "classifiers")

for _family in _FAMILIES:
    importlib.import_module(f"{__name__}.{_family}")

load_plugins("objectives")
