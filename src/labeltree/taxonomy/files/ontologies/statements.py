"""What RDF says of classes and concepts: OWL and RDF Schema by subClassOf, SKOS by broader and narrower."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.files.entries import Entries
from labeltree.taxonomy.files.ontologies.ontology_terms import Term, entries_from_terms, plain_text

if TYPE_CHECKING:
    from labeltree.taxonomy.files.opened_file import OpenedFile

__all__ = ["RDF", "Statements", "short_id"]

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_RDFS = "http://www.w3.org/2000/01/rdf-schema#"
_OWL = "http://www.w3.org/2002/07/owl#"
_SKOS = "http://www.w3.org/2004/02/skos/core#"
_XL = "http://www.w3.org/2008/05/skos-xl#"
_TERMS = "http://purl.org/dc/terms/"
_OBO = "http://purl.obolibrary.org/obo/"
_IN_OWL = "http://www.geneontology.org/formats/oboInOwl#"
_KINDS = {
    f"{RDF}type": "type",
    f"{_SKOS}prefLabel": "name",
    f"{_RDFS}label": "label",
    f"{_TERMS}title": "label",
    "http://purl.org/dc/elements/1.1/title": "label",
    f"{_SKOS}altLabel": "alias",
    f"{_SKOS}hiddenLabel": "alias",
    f"{_IN_OWL}hasExactSynonym": "alias",
    f"{_SKOS}notation": "code",
    f"{_IN_OWL}id": "code",
    f"{_IN_OWL}hasAlternativeId": "code",
    f"{_XL}prefLabel": "name",
    f"{_XL}altLabel": "alias",
    f"{_XL}literalForm": "form",
    f"{_SKOS}broader": "broader",
    f"{_SKOS}narrower": "narrower",
    f"{_SKOS}topConceptOf": "top",
    f"{_SKOS}hasTopConcept": "tops",
    f"{_RDFS}subClassOf": "above",
    f"{_OWL}deprecated": "deprecated",
    f"{_TERMS}isReplacedBy": "replaced",
    f"{_OBO}IAO_0100001": "replaced",
    f"{_OWL}versionInfo": "version",
}
_CLASSES = {f"{_OWL}Class", f"{_RDFS}Class"}
_NO_CLASSES = {f"{_OWL}Thing", f"{_OWL}Nothing", f"{_RDFS}Resource"}
_OBO_ID = re.compile(r"([A-Za-z]+)_(\w+)")
Text = tuple[str, str]  # and its language, "" for none


class Statements:
    """Collects the statements that matter; all others are forgotten at once."""

    def __init__(self) -> None:
        self._texts: dict[str, defaultdict[str, list[Text]]] = {
            kind: defaultdict(list) for kind in ("name", "label", "alias")
        }
        self._links: dict[str, defaultdict[str, list[str]]] = {
            kind: defaultdict(list) for kind in ("name", "alias", "broader", "above", "top", "replaced")
        }
        self._codes: defaultdict[str, list[str]] = defaultdict(list)
        self._forms: dict[str, Text] = {}
        self._classes: dict[str, None] = {}
        self._concepts: dict[str, None] = {}
        self._deprecated: set[str] = set()
        self._version = ""

    @staticmethod
    def matters(predicate: str) -> bool:
        """Whether `add` would keep a statement with this predicate."""
        return predicate in _KINDS

    def add(self, subject: str, predicate: str, value: str, language: str | None = None) -> None:
        """Take a statement.

        Args:
            subject: An IRI, or an id that begins with `_:`.
            predicate: An IRI.
            value: An IRI or such an id, or else a text.
            language: Of a text, empty for none; None if the value is no text.
        """
        kind = _KINDS.get(predicate)
        if kind is None:
            return
        if language is not None:
            self._add_text(kind, subject, value, language.casefold().partition("-")[0])
        elif kind == "type":
            if value in _CLASSES:
                self._classes[subject] = None
            elif value == f"{_SKOS}Concept":
                self._concepts[subject] = None
        elif kind in ("narrower", "tops"):
            self._links["broader" if kind == "narrower" else "top"][value].append(subject)
        elif kind in self._links and not (kind in ("broader", "above") and value.startswith("_:")):
            self._links[kind][subject].append(value)

    def _add_text(self, kind: str, subject: str, value: str, language: str) -> None:
        text = plain_text(value)
        if not text:
            return
        if kind in self._texts:
            self._texts[kind][subject].append((text, language))
        elif kind == "code":
            self._codes[subject].append(text)
        elif kind == "form":
            self._forms[subject] = text, language
        elif kind == "deprecated" and text in ("true", "1"):
            self._deprecated.add(subject)
        elif kind == "replaced":
            self._links["replaced"][subject].append(text)
        elif kind == "version" and not self._version:
            self._version = text

    def entries(self, file: OpenedFile) -> Entries:
        """The hierarchy of the concepts, or of the classes if there are more of these.

        Raises:
            TaxonomyError: If there are neither.
        """
        broader, above = self._links["broader"], self._links["above"]
        is_thesaurus = len(broader) + len(self._concepts) >= len(above) + len(self._classes)
        up = broader if is_thesaurus else above
        nodes = dict.fromkeys([*(self._concepts if is_thesaurus else self._classes), *up])
        if is_thesaurus:
            nodes |= dict.fromkeys(self._links["top"])
        ids = [id for id in nodes if not id.startswith("_:") and id not in _NO_CLASSES]
        if not ids:
            raise TaxonomyError("it has neither classes (rdfs:subClassOf) nor concepts (skos:broader)")
        schemes = self._schemes(ids) if is_thesaurus else {}
        # one that is only named as a parent, if it has a name itself
        named = dict.fromkeys(parent for id in ids for parent in up.get(id, ()))
        ids += [id for id in named if id not in nodes and self._is_named(id)]
        deprecated = [id for id in ids if id in self._deprecated]
        if deprecated:
            gone = set(deprecated)
            ids = [id for id in ids if id not in gone]
            file.note(f"what is deprecated is left out: {len(deprecated):,}")
        self._resolve_labels()
        language = self._language(ids, file)
        title = None
        if len(distinct := dict.fromkeys(schemes.values())) == 1:
            title = self._name(next(iter(distinct)), language) or None
            schemes = {}
        terms = {}
        for id in dict.fromkeys([*schemes.values(), *ids]):
            name = self._name(id, language) or (self._codes.get(id) or [short_id(id)])[0]
            parents = [p for p in up.get(id, ()) if p not in self._deprecated and p not in _NO_CLASSES]
            parents = parents or ([schemes[id]] if id in schemes else [])
            terms[id] = Term(name, parents, self._aliases(id, language), f"the class {short_id(id)!r}")
        for id in deprecated:
            for other in self._links["replaced"].get(id, ()):
                other = self._full_id(other, terms)
                if other in terms:
                    terms[other].aliases += [short_id(id), id]
        entries = entries_from_terms(terms, file, title)
        return entries._replace(release=self._version or None)

    def _schemes(self, ids: list[str]) -> dict[str, str]:
        """The scheme of each top concept, if each has one; a single one names the root."""
        top = {id: schemes for id in ids if (schemes := self._links["top"].get(id))}
        if not top or any(len(set(schemes)) > 1 for schemes in top.values()):
            return {}
        return {id: schemes[0] for id, schemes in top.items()}

    def _is_named(self, id: str) -> bool:
        return any(self._texts[kind].get(id) for kind in ("name", "label")) or bool(
            self._links["name"].get(id)
        )

    def _full_id(self, id: str, terms: dict[str, Term]) -> str:
        return id if id in terms else f"{_OBO}{id.replace(':', '_')}"

    def _resolve_labels(self) -> None:
        """Take the texts of labels that are resources of their own, as in SKOS-XL."""
        for kind in ("name", "alias"):
            for subject, labels in self._links[kind].items():
                known = self._texts[kind][subject]
                known += [form for label in labels if (form := self._forms.get(label)) and form not in known]

    def _language(self, ids: Iterable[str], file: OpenedFile) -> str:
        """English if most have names in it, or else the commonest language."""
        counts: Counter[str] = Counter()
        for id in ids:
            texts = self._texts["name"].get(id) or self._texts["label"].get(id) or []
            counts.update({language for _, language in texts})
        if not counts:
            return ""
        commonest, most = counts.most_common(1)[0]
        language = "en" if 2 * counts["en"] >= most else commonest
        languages = [one for one in counts if one]
        if len(languages) > 1:
            file.note(f"names are in {len(languages)} languages, of which {language!r} is taken")
        return language

    def _name(self, id: str, language: str) -> str:
        texts = self._texts["name"].get(id) or self._texts["label"].get(id) or []
        for wanted in (language, "", "en"):
            for text, its in texts:
                if its == wanted:
                    return text
        return texts[0][0] if texts else ""

    def _aliases(self, id: str, language: str) -> list[str]:
        texts = [
            *self._texts["name"].get(id, ()),
            *self._texts["label"].get(id, ()),
            *self._texts["alias"].get(id, ()),
        ]
        named = [text for text, its in texts if its in (language, "")]
        return [*self._codes.get(id, ()), short_id(id), *named, id]


def short_id(iri: str) -> str:
    """The end of an IRI; `CL:0000540` for those of the OBO Foundry."""
    if iri.startswith(_OBO) and (match := _OBO_ID.fullmatch(iri[len(_OBO) :])):
        return f"{match[1]}:{match[2]}"
    return re.split(r"[#/]", iri.rstrip("#/"))[-1] or iri
