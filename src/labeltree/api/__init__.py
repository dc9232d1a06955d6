"""The functions behind the commands and behind `import labeltree`.

The package exports these functions; `import labeltree as lt` is all that they need. Each imports what it
needs when it is called: a service that loads a model does not train.
"""

from labeltree.api.indexes import change_index, duplicates, make_index, search
from labeltree.api.labels import label_next, suspects
from labeltree.api.measuring import compare, evaluate
from labeltree.api.models import (
    calibrate,
    embed,
    export,
    extend,
    forget,
    load,
    merge,
    predict,
    train,
    zero_shot,
)
from labeltree.api.services import explore, serve, study
from labeltree.api.sharing import pull, push
from labeltree.api.suggestions import suggest_taxonomy
from labeltree.api.taxonomies import convert_taxonomy, open_taxonomy, taxonomy_suspects
from labeltree.api.taxonomy_versions import (
    apply_changes,
    compose_changes,
    diff_taxonomies,
    map_taxonomies,
    review_taxonomy,
)

__all__ = [
    "apply_changes",
    "calibrate",
    "change_index",
    "compare",
    "compose_changes",
    "convert_taxonomy",
    "diff_taxonomies",
    "duplicates",
    "embed",
    "evaluate",
    "explore",
    "export",
    "extend",
    "forget",
    "label_next",
    "load",
    "make_index",
    "map_taxonomies",
    "merge",
    "open_taxonomy",
    "predict",
    "pull",
    "push",
    "review_taxonomy",
    "search",
    "serve",
    "study",
    "suggest_taxonomy",
    "suspects",
    "taxonomy_suspects",
    "train",
    "zero_shot",
]
