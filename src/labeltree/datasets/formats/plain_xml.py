"""XML without a document type, as data sets have it."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

__all__ = ["read_xml"]


class _NoDoctype(ElementTree.TreeBuilder):
    def doctype(self, *_: object) -> None:
        """Stop before entities are declared, of which a few lines can stand for any amount of text."""
        raise ValueError("it declares a document type, which no official file does")


def read_xml(path: Path) -> ElementTree.Element:
    """The root of a document.

    Raises:
        ValueError: If it is no XML, or declares a document type.
    """
    try:
        return ElementTree.parse(path, ElementTree.XMLParser(target=_NoDoctype())).getroot()
    except ElementTree.ParseError as error:
        raise ValueError(str(error)) from error
