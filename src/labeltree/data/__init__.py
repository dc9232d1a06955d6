"""Sources of images or texts with labels of a taxonomy: folders, tables, registered names; splits; views."""

from labeltree.lazy import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
