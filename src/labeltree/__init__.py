"""labeltree: representation learning that respects a label taxonomy.

    import labeltree as lt

    taxonomy = lt.Taxonomy.from_paths([("animal", "mammal", "dog"), ("animal", "fish", "trout")])
    loss = lt.losses.HWCLoss(taxonomy, gamma=0.5, temperature=0.1)

Subpackages are loaded at first use, so importing the package is fast.
"""

TYPE_CHECKING = False  # as in typing, which is slow to load: Ctrl-C is not handled yet at this point
if TYPE_CHECKING:
    from typing import Any

    from labeltree import (
        curation,
        data,
        datasets,
        errors,
        evaluation,
        geometry,
        index,
        losses,
        metrics,
        models,
        pairs,
        report,
        ridge,
        runs,
        sampling,
        taxonomy,
        training,
    )
    from labeltree.api import (
        apply_changes,
        calibrate,
        change_index,
        compare,
        compose_changes,
        convert_taxonomy,
        diff_taxonomies,
        duplicates,
        embed,
        evaluate,
        explore,
        export,
        extend,
        forget,
        label_next,
        load,
        make_index,
        map_taxonomies,
        merge,
        open_taxonomy,
        predict,
        pull,
        push,
        review_taxonomy,
        search,
        serve,
        study,
        suggest_taxonomy,
        suspects,
        taxonomy_suspects,
        train,
        zero_shot,
    )
    from labeltree.data import open_source as open_data
    from labeltree.errors import DataError, LabeltreeError, RunError, TaxonomyError
    from labeltree.index import Index, open_table
    from labeltree.inference.bulk.batch_model import BatchModel
    from labeltree.taxonomy import Taxonomy, TaxonomyDAG, load_taxonomy

__all__ = [
    "BatchModel",
    "DataError",
    "Index",
    "LabeltreeError",
    "RunError",
    "Taxonomy",
    "TaxonomyDAG",
    "TaxonomyError",
    "apply_changes",
    "calibrate",
    "change_index",
    "compare",
    "compose_changes",
    "convert_taxonomy",
    "curation",
    "data",
    "datasets",
    "diff_taxonomies",
    "duplicates",
    "embed",
    "errors",
    "evaluate",
    "evaluation",
    "explore",
    "export",
    "extend",
    "forget",
    "geometry",
    "index",
    "label_next",
    "load",
    "load_taxonomy",
    "losses",
    "make_index",
    "map_taxonomies",
    "merge",
    "metrics",
    "models",
    "open_data",
    "open_table",
    "open_taxonomy",
    "pairs",
    "predict",
    "pull",
    "push",
    "report",
    "review_taxonomy",
    "ridge",
    "runs",
    "sampling",
    "search",
    "serve",
    "study",
    "suggest_taxonomy",
    "suspects",
    "taxonomy",
    "taxonomy_suspects",
    "train",
    "training",
    "zero_shot",
]


def __getattr__(name: str) -> "Any":
    import importlib
    import importlib.util

    if name in ("Taxonomy", "TaxonomyDAG", "load_taxonomy"):
        return getattr(importlib.import_module("labeltree.taxonomy"), name)
    if name in ("Index", "open_table"):
        return getattr(importlib.import_module("labeltree.index"), name)
    if name == "BatchModel":
        return importlib.import_module("labeltree.inference.bulk.batch_model").BatchModel
    if name == "open_data":
        return importlib.import_module("labeltree.data").open_source
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("labeltree")
    if name not in __all__:
        raise AttributeError(f"module 'labeltree' has no attribute '{name}'")
    if name.endswith("Error"):
        return getattr(importlib.import_module("labeltree.errors"), name)
    if importlib.util.find_spec(f"labeltree.{name}") is not None:
        return importlib.import_module(f"labeltree.{name}")
    return getattr(importlib.import_module("labeltree.api"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
