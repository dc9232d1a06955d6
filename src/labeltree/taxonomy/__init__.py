"""The label taxonomy: build it, check it, number it, and ask it how labels are related."""

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.dag import AnyTaxonomy, TaxonomyDAG, load_taxonomy
from labeltree.taxonomy.relations import RelationTable, num_relations, relation_code, relation_from_paths
from labeltree.taxonomy.tree import Taxonomy
from labeltree.taxonomy.version_history import Revision
from labeltree.taxonomy.versions.change_entries import Change, Guess
from labeltree.taxonomy.versions.matching import Matching, match_nodes
from labeltree.taxonomy.versions.taxonomy_mapping import TaxonomyMapping, diff

__all__ = [
    "AnyTaxonomy",
    "Change",
    "Guess",
    "Matching",
    "RelationTable",
    "Revision",
    "Taxonomy",
    "TaxonomyDAG",
    "TaxonomyError",
    "TaxonomyMapping",
    "diff",
    "load_taxonomy",
    "match_nodes",
    "num_relations",
    "relation_code",
    "relation_from_paths",
]
