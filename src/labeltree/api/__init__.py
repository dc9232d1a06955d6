"""The functions behind the commands and behind `import labeltree`.

The package exports these functions; ``import labeltree as lt`` is all that they need. Each imports what it
needs when it is called: a service that loads a model does not train.
"""

from labeltree.api.indexes import change_index, duplicates, make_index, search
from labeltree.api.labels import label_next, suspects
from labeltree.api.measuring import compare, evaluate
from labeltree.api.models import calibrate, embed, export, extend, load, predict, train
from labeltree.api.services import explore, serve, study
from labeltree.api.taxonomies import open_taxonomy
from labeltree.data import open_source as open_data

__all__ = [
    "calibrate",
    "change_index",
    "compare",
    "duplicates",
    "embed",
    "evaluate",
    "explore",
    "export",
    "extend",
    "label_next",
    "load",
    "make_index",
    "open_data",
    "open_taxonomy",
    "predict",
    "search",
    "serve",
    "study",
    "suspects",
    "train",
]
