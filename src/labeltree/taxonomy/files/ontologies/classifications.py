"""Classifications of medicine as published: ClaML and ICD-10-CM's tabular list, MedDRA's hierarchy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.files.entries import Entries
from labeltree.taxonomy.files.ontologies.ontology_terms import Term, entries_from_terms, plain_text
from labeltree.taxonomy.files.ontologies.xml_events import xml_events

if TYPE_CHECKING:
    from labeltree.taxonomy.files.opened_file import OpenedFile

__all__ = ["entries_from_claml", "entries_from_icd_tabular", "entries_from_meddra"]

_LEVELS = 4  # of MedDRA: terms, high level terms, their groups, system organ classes
_PREFERRED = ("preferred", "preferredLong")


def entries_from_claml(file: OpenedFile) -> Entries:
    """Read a classification in ClaML, such as ICD-10, ICD-10-GM or ICPC.

    A class is named by its code and its preferred rubric, `A00 Cholera`; its aliases are both of these, and
    inclusions. Modifiers are left out.
    """
    terms: dict[str, Term] = {}
    term: Term | None = None
    code = rubric = title = release = ""
    texts: list[str] = []
    for event in xml_events(file):
        if event.kind == "start":
            given = event.attributes
            if event.name == "Title":
                title, release = plain_text(given.get("name")), plain_text(given.get("version"))
            elif event.name == "Class":
                code = plain_text(given.get("code"))
                term = (
                    terms.setdefault(code, Term(where=f"line {event.line}: the class {code!r}"))
                    if code
                    else None
                )
            elif event.name == "SuperClass" and term is not None:
                term.parents.append(plain_text(given.get("code")))
            elif event.name == "Rubric":
                rubric = given.get("kind", "")
            elif event.name == "Label":
                texts = []
        elif event.name == "Class":
            term = None
        elif event.name in ("Label", "Para", "Fragment"):
            texts.append(event.text)
            if event.name == "Label" and term is not None and (text := plain_text(" ".join(texts))):
                if rubric in _PREFERRED and not term.name:
                    term.name = f"{code} {text}"
                    term.aliases = [code, text, *term.aliases]
                elif rubric == "inclusion":
                    term.aliases.append(text)
    entries = entries_from_terms(terms, file, title or None)
    return entries._replace(release=release or None)


def entries_from_icd_tabular(file: OpenedFile) -> Entries:
    """Read the tabular list of ICD-10-CM: chapters, blocks, and codes such as `A00 Cholera`.

    The aliases of a code are the code, its description, and the inclusion terms. Blocks and chapters without
    codes are left out, and so are seventh characters.
    """
    terms: dict[str, Term] = {}
    above: list[str] = []  # the open chapter, block and codes
    tags: list[str] = []
    release = name = ""
    for event in xml_events(file):
        if event.kind == "start":
            tags.append(event.name)
            if event.name in ("chapter", "section", "diag"):
                id = event.attributes.get("id") or str(len(terms))
                where = f"line {event.line}: <{event.name}>"
                above.append(f"{event.name} {id}")
                terms[above[-1]] = Term("", above[-2:-1], [], where)
            continue
        tags.pop()
        inside = tags[-1] if tags else ""
        text = plain_text(event.text)
        if event.name in ("chapter", "section", "diag"):
            above.pop()
        elif event.name == "version" and not above:
            release = text
        elif above and inside in ("chapter", "section", "diag"):
            term = terms[above[-1]]
            if event.name == "name":
                name = text
                term.aliases.insert(0, text)
            elif event.name == "desc":
                term.name = f"{name} {text}" if inside == "diag" else text
                term.aliases.append(text)
                if inside == "section":
                    term.aliases.append(above[-1].partition(" ")[2])
        elif above and event.name == "note" and inside == "inclusionTerm":
            terms[above[-1]].aliases.append(text)
    used = {parent for id, term in terms.items() if id.startswith("diag") for parent in term.parents}
    used |= {parent for id in used for parent in terms[id].parents}
    empty = [id for id in terms if not id.startswith("diag") and id not in used]
    for id in empty:
        del terms[id]
    if empty:
        file.note(f"{len(empty)} blocks or chapters without codes of their own are left out")
    return entries_from_terms(terms, file, "ICD-10-CM")._replace(release=release or None)


def entries_from_meddra(file: OpenedFile) -> Entries:
    """Read MedDRA's hierarchy, `mdhier.asc`: system organ classes down to preferred terms; codes are aliases.

    A line has the codes of a term and of what is above it, and then their names, with `$` between them. Where
    a node has one parent, it is below the class that is primary.

    Raises:
        TaxonomyError: If a line is something else, as in the other files of a release.
    """
    terms: dict[str, Term] = {}
    secondary = 0
    for number, line in file.lines:
        cells = [cell.strip() for cell in line.split("$")]
        codes, names = cells[:_LEVELS], cells[_LEVELS : 2 * _LEVELS]
        if not all(names) or len(names) < _LEVELS or not all(map(str.isdecimal, codes)):
            raise TaxonomyError(
                f"line {number} does not hold the codes and names of four levels; of MedDRA's files, "
                "mdhier.asc has its hierarchy: give that one"
            )
        if not file.several_parents and cells[-2:-1] == ["N"]:
            secondary += 1
            continue
        for code, name, above in zip(codes, names, [*codes[1:], None], strict=True):
            term = terms.setdefault(code, Term(name, aliases=[code], where=f"line {number}"))
            term.parents += [above] if above is not None and above not in term.parents else []
    file.note(
        "each line is a preferred term with what is above it; codes are further names"
        + (f"; left out: {secondary} of a class that is not primary" if secondary else "")
    )
    return entries_from_terms(terms, file)
