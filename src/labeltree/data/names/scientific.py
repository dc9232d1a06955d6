"""Scientific names: what is name, what is authorship, and how much of a name is certain.

The rules are those of the codes (ICN, ICZN) and of open nomenclature (Bengtson 1988; Sigovini et al. 2016).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass, field

__all__ = ["ScientificName", "parse_scientific", "plain_text"]

_SPACES = re.compile(r"[\s\u00a0\u200b-\u200d\u2060\ufeff]+")
_ITALICS = re.compile(r"</?(?:i|em|b|sup|sub)>", re.IGNORECASE)
# ICN Art. 60.7 and ICZN Art. 32.5.2: names are written without diacritical signs.
_LATIN = str.maketrans(
    {
        "ä": "ae",
        "ö": "oe",
        "ü": "ue",
        "ø": "oe",
        "å": "ao",
        "æ": "ae",
        "œ": "oe",
        "ß": "ss",
        "ë": "e",
        "ï": "i",
    }
)
_GENUS = re.compile(r"[A-Z][a-z]+(?:-[A-Za-z]?[a-z]+)?")
_EPITHET = re.compile(r"(?:[0-9]{1,2}-)?[a-z]{2,}(?:-[a-z]+)*")
_ONE_OF = re.compile(r"[a-z-]+(?:/[a-z-]+)+")
_YEAR = re.compile(r"[(\[]?1[5-9][0-9]{2}[a-z]?|[(\[]?20[0-9]{2}[a-z]?")
_TOKEN = re.compile(r"'[^']+'|\"[^\"]+\"|‘[^’]+’|“[^”]+”|[^\s]+")
_SIGNS = ("×", "✕", "⨯")
_RANKS = {
    **dict.fromkeys(("subsp", "ssp", "subspec", "subspecies", "nothosubsp", "nssp"), ""),
    **dict.fromkeys(("var", "varietas", "variety", "nothovar"), "var."),
    **dict.fromkeys(("f", "fo", "forma", "form", "nothof"), "f."),
    **{rank: f"{rank}." for rank in ("subvar", "subf", "convar", "prol", "lusus", "ab", "pv", "bv")},
}
_INFRAGENERIC = {"sect", "subsect", "subg", "subgen", "subgenus", "ser", "subser", "section"}
_UNNAMED = {"sp", "spp", "spec", "species", "indet", "undet", "ined", "gen", "nov", "n"}
_COMPARED = {"cf", "cfr", "conf", "aff", "affin", "nr", "near", "prope", "gr", "?"}
_GROUPS = {"agg", "aggregate", "complex", "group", "coll"}
_ENDS = {
    *("sensu", "auct", "auctt", "non", "nec", "nom", "nomen", "emend", "sec", "strain", "isolate", "hort"),
    *("s", "sl", "ss", "str", "stricto", "lato", "misapplied", "pro", "partim", "orth"),
}
_PARTICLES = {
    *(
        "de",
        "von",
        "van",
        "der",
        "den",
        "da",
        "du",
        "des",
        "del",
        "della",
        "di",
        "dos",
        "das",
        "do",
        "la",
        "le",
    ),
    *(
        "ex",
        "et",
        "in",
        "and",
        "al",
        "fil",
        "filius",
        "bis",
        "y",
        "e",
        "zu",
        "zur",
        "vom",
        "ter",
        "ten",
        "st",
    ),
    *("apud", "und", "zum", "af", "av", "los", "el", "mc"),
}
_NO_NAMES = re.compile(
    r"\b(?:virus|viroid|phage|prion|satellite|environmental|uncultured|unknown|unidentified|undetermined|"
    r"unclassified|incertae sedis|not applicable|no name)\b|virus\b|^(?:other|none|null|missing|na|n/a)$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class ScientificName:
    """A scientific name as the nodes of a tree.

    Attributes:
        path: Genus, species and what is below, as far as the name is certain, each in its canonical form; for
            a name above the genus that name alone. Empty if already the genus is uncertain.
        uncertain: The sign of open nomenclature at which the path ends, such as `sp.` or `cf.`; "" for a
            certain name.
        cut: Whether something was left out: authorship, a subgenus, `agg.`, `sensu lato`.
    """

    path: tuple[str, ...]
    uncertain: str = ""
    cut: bool = False


def plain_text(text: str) -> str:
    """The text in Unicode's composed form (NFC), with single spaces and none around it.

    Example:
        >>> plain_text("  Passer  domesticus ")
        'Passer domesticus'
    """
    return _SPACES.sub(" ", unicodedata.normalize("NFC", text)).strip()


def parse_scientific(text: str, binomials: Collection[str] = ()) -> ScientificName | None:
    """Parse a scientific name; None if the text is not one, as far as its form tells.

    - Authorship is cut off: `Parus major Linnaeus, 1758` is `Parus major`.
    - Signs of hybrids are written `×`: `Platanus x acerifolia` is `Platanus × acerifolia`. Crosses are
      named by both parents: `Mentha aquatica × M. spicata` is `Mentha aquatica × Mentha spicata`.
    - `subsp.` and `ssp.` are left out, as in zoology; `var.`, `f.` and other ranks stay.
    - `Larus argentatus/fuscus` is one of the two: `Larus`.
    - The path ends above the first uncertain name: `Parus sp.`, `Parus cf. major`, `Parus aff. major`
      and `Parus major?` are `Parus`; `Parus major cf. newtoni` is `Parus major`.
    - Names in capitals or small letters only are written as usual. In capitals, what follows the species may
      be a subspecies or an author, so it is left out.
    - Groups (`agg.`, `s.l.`) are their species, cultivars lie below their species.

    Args:
        text: The name.
        binomials: Names of species in small letters that are known from elsewhere; with `parus major` among
            them `Parus Major` is the species, and else the genus with an author.

    Example:
        >>> parse_scientific("Quercus robur L. subsp. pedunculiflora (K.Koch) Menitsky").path
        ('Quercus', 'Quercus robur', 'Quercus robur pedunculiflora')
        >>> parse_scientific("Parus sp.")
        ScientificName(path=('Parus',), uncertain='sp.', cut=False)
    """
    text = plain_text(_ITALICS.sub("", text))
    if " " not in text:
        text = plain_text(text.replace("_", " "))
    if not text or _NO_NAMES.search(text):
        return None
    for sign in _SIGNS:
        text = text.replace(sign, " × ")
    tokens = [token.strip(",;") or token for token in _TOKEN.findall(text)]
    # the commas are gone, but a year or a comma tells that the word before it is an author
    ends = [token.endswith((",", ";")) for token in _TOKEN.findall(text)]
    capitals = sum(map(str.isalpha, text)) > 3 and text.upper() == text
    if capitals:
        tokens = [token.lower() for token in tokens]
    return _Parser(tokens, ends, capitals, binomials).name()


def _word(token: str) -> str:
    """A token in small letters without marks around it, to compare with the words that have a meaning."""
    return token.lower().strip(".,;:()[]")


def _letters(token: str) -> str:
    """A word of a name, without diacritical signs."""
    if token.isascii():
        return token if token.islower() else token[:1] + token[1:].lower()
    token = token.translate(_LATIN) if token.islower() else (token[:1] + token[1:].lower().translate(_LATIN))
    text = unicodedata.normalize("NFD", token)
    return "".join(letter for letter in text if not unicodedata.combining(letter))


@dataclass
class _Parser:
    """Reads the tokens of one name from left to right."""

    tokens: list[str]
    ends: list[bool]
    capitals: bool
    binomials: Collection[str]
    place: int = 0
    path: list[str] = field(default_factory=list)
    uncertain: str = ""
    cut: bool = False

    def name(self) -> ScientificName | None:
        tokens = self.tokens
        first = _word(tokens[0])
        if first in _COMPARED or first in ("?", "") or tokens[0].startswith("?"):
            rest = _Parser(tokens[1:], self.ends[1:], self.capitals, self.binomials)
            is_name = tokens[0].startswith("?") and len(tokens[0]) > 1
            known = is_name or (bool(rest.tokens) and rest.genus() is not None)
            return ScientificName((), tokens[0] if not is_name else "?") if known else None
        genus = self.genus()
        if genus is None:
            return None
        if self.uncertain:
            return ScientificName((), self.uncertain)
        self.path.append(genus)
        self.below()
        return ScientificName(tuple(self.path), self.uncertain, self.cut)

    def genus(self) -> str | None:
        """The first word, or two with a sign of a hybrid before it; None if it is no genus or higher name."""
        hybrid = False
        if len(self.tokens) > 1 and self.tokens[0] in ("×", "x", "X"):
            hybrid, self.place = True, 1
        token = self.tokens[self.place]
        if token.endswith("?"):
            token, self.uncertain = token[:-1], "?"
        word = _letters(token[:1].upper() + token[1:])
        if token.endswith(".") or not _GENUS.fullmatch(word):
            return None
        self.place += 1
        return f"× {word}" if hybrid else word

    def below(self) -> None:
        """Read what follows the genus."""
        author = False  # within authorship
        rank: str | None = None  # of the epithet that follows; None without one
        hybrid = False
        joined = False  # after "&" or "ex": an author follows
        while self.place < len(self.tokens) and not self.uncertain:
            token, after = self.tokens[self.place], self.tokens[self.place + 1 : self.place + 2]
            following = after[0] if after else ""
            word = _word(token)
            self.place += 1
            if token == "×" or (token in ("x", "X") and following):
                if self.formula():
                    return
                hybrid = True
                continue
            if len(self.path) == 1 and _ONE_OF.fullmatch(token) is not None:
                self.uncertain = "/"  # Larus argentatus/fuscus: one of the two
                return
            if self.is_mark(token, word, following):
                return
            if word in _GROUPS and not following:
                self.cut = True
            elif word in _INFRAGENERIC and token[0].islower() and following[:1].isupper():
                self.cut, author = True, True
            elif word in _ENDS and token[0].islower() and len(self.path) > 1 and rank is None:
                self.cut = True
                return
            elif len(self.path) == 1 and re.fullmatch(r"\([A-Z][a-z]+\)", token) and following[:1].islower():
                self.cut = True  # the subgenus
            elif self.is_rank(token, word, following):
                if not following or _word(following) in _UNNAMED:  # "Parus major ssp."
                    self.uncertain = token
                    return
                rank, author, joined = _RANKS[word], False, False
            elif token[0] in "'\"‘“" or (word == "cv" and following):
                self.cultivar(token, following, word)
                author = True
            elif not joined and self.is_epithet(token, author, rank):
                if self.capitals and len(self.path) > 1 and rank is None:
                    self.cut = True  # a subspecies, or an author
                    return
                uncertain = token.endswith("?")
                if uncertain:
                    self.uncertain = "?"
                    return
                self.epithet(_letters(token), rank or "", hybrid)
                rank, hybrid, author = None, False, False
            elif self.is_capital_epithet(token):
                self.epithet(_letters(token.lower()), "", hybrid)
                hybrid = False
            else:
                self.cut, author, rank = True, True, None
                joined = token in ("&", "et", "ex", "and", "in", "y", "und")

    def is_mark(self, token: str, word: str, following: str) -> bool:
        """Whether a token says that what follows, or the name before it, is uncertain."""
        if token.strip("()[]") == "?" or (word in _COMPARED - {"near", "gr"} and token[0] in "cfanp(["):
            self.uncertain = token
            if not following and len(self.path) > 1:  # "Parus major ?"
                self.path.pop()
            return True
        if word in ("near", "gr") and len(self.path) == 1 and following[:1].islower():
            self.uncertain = token
            return True
        numbered = re.fullmatch(r"(?:sp|spp|spec|morphosp|morphospecies)[._-]?[0-9]*[a-z]?", word) is not None
        if len(self.path) == 1 and (numbered or word in _UNNAMED) and token[0].islower():
            self.uncertain = token
            return True
        return False

    def is_rank(self, token: str, word: str, following: str) -> bool:
        if word not in _RANKS or len(self.path) < 2 or not token[0].islower():
            return False
        if word != "f" and word != "fo":
            return token.endswith(".") or not following or following[:1].islower()
        return bool(_EPITHET.fullmatch(_letters(following))) and _word(following) not in _PARTICLES | _ENDS

    def is_epithet(self, token: str, author: bool, rank: str | None) -> bool:
        bare = token.removesuffix("?")
        if not _EPITHET.fullmatch(_letters(bare)) or (not bare[:1].islower() and not bare[:1].isdigit()):
            return False
        if rank is not None:
            return True
        if _word(bare) in _PARTICLES:
            return False
        following = self.tokens[self.place] if self.place < len(self.tokens) else ""
        if len(self.path) == 1:
            return not author
        # in a name in small letters "linnaeus, 1758" is an author
        dated = self.ends[self.place - 1] or _YEAR.fullmatch(_word(following)) is not None
        return not dated and not (author and len(bare) < 3) and len(self.path) < 4

    def is_capital_epithet(self, token: str) -> bool:
        if len(self.path) != 1 or not token.isalpha():
            return False
        return f"{self.path[0]} {_letters(token.lower())}".lower() in self.binomials

    def epithet(self, word: str, rank: str, hybrid: bool) -> None:
        sign = "× " if hybrid else ""
        self.path.append(" ".join(part for part in (self.path[-1], rank, sign + word) if part))

    def cultivar(self, token: str, following: str, word: str) -> None:
        name = following if word == "cv" else token[1:-1]
        if word == "cv":
            self.place += 1
        self.path.append(f"{self.path[-1]} '{name.strip(' .')}'")

    def formula(self) -> bool:
        """Read the second parent of a cross; False if the sign is that of a named hybrid."""
        rest = self.tokens[self.place :]
        if not rest:
            return False
        if rest[0][:1].islower():
            if len(self.path) < 2:
                return False  # Platanus × acerifolia
            named = _letters(rest[0])  # Anas platyrhynchos × rubripes
            if not _EPITHET.fullmatch(named):
                return False
            other: tuple[str, ...] = (self.path[0], f"{self.path[0]} {named}")
        else:
            genus = self.path[0].removeprefix("× ")
            if re.fullmatch(r"[A-Z][a-z]?\.", rest[0]) and genus.startswith(rest[0][:-1]):
                rest = [genus, *rest[1:]]
            second = _Parser(rest, [False] * len(rest), self.capitals, self.binomials).name()
            if second is None or not second.path or len(second.path) != len(self.path):
                self.uncertain = "×"  # a cross with something that has no name
                return True
            other = second.path
        name = f"{self.path[-1]} × {other[-1]}"
        self.path = [*self.path[: 1 if other[0] == self.path[0] and len(other) > 1 else 0], name]
        return True
