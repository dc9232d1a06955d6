"""A download of occurrences as GBIF makes them, drawn at random, and a later revision of its taxonomy.

Everything that makes real downloads hard is in it: ranks that are missing, names with authors, synonyms,
hybrids, doubtful and unfinished identifications, two genera of one name, images given only by addresses,
occurrences without an image.
"""

import io
import random
import zipfile
from pathlib import Path

from PIL import Image, ImageDraw

from labeltree.taxonomy import Taxonomy, TaxonomyMapping

RANKS = ("kingdom", "phylum", "class", "order", "family", "genus", "species")

_SPECIES = """
Animalia Chordata Aves Passeriformes Paridae Parus | Parus major Linnaeus, 1758
Animalia Chordata Aves Passeriformes Paridae Cyanistes | Cyanistes caeruleus (Linnaeus, 1758)
Animalia Chordata Aves Passeriformes Paridae Periparus | Periparus ater (Linnaeus, 1758)
Animalia Chordata Aves Passeriformes Paridae Poecile | Poecile montanus (Conrad von Baldenstein, 1827)
Animalia Chordata Aves Passeriformes Prunellidae Prunella | Prunella modularis (Linnaeus, 1758)
Animalia Chordata Aves Passeriformes Prunellidae Prunella | Prunella collaris (Scopoli, 1769)
Animalia Chordata Aves Passeriformes Turdidae Turdus | Turdus merula Linnaeus, 1758
Animalia Chordata Aves Passeriformes Turdidae Turdus | Turdus philomelos C. L. Brehm, 1831
Animalia Chordata Aves Suliformes Sulidae Morus | Morus bassanus (Linnaeus, 1758)
Animalia Chordata Aves Anseriformes Anatidae Anas | Anas platyrhynchos Linnaeus, 1758
Animalia Chordata Aves Anseriformes Anatidae Anas | Anas crecca Linnaeus, 1758
Animalia Chordata Aves Anseriformes Anatidae Mareca | Mareca penelope (Linnaeus, 1758)
Animalia Chordata Actinopterygii - Pomacentridae Chromis | Chromis chromis (Linnaeus, 1758)
Animalia Chordata Actinopterygii - Pomacentridae Chromis | Chromis viridis (Cuvier, 1830)
Animalia Chordata Actinopterygii - Pomacentridae Dascyllus | Dascyllus aruanus (Linnaeus, 1758)
Animalia Arthropoda Insecta Lepidoptera Nymphalidae Vanessa | Vanessa atalanta (Linnaeus, 1758)
Animalia Arthropoda Insecta Lepidoptera Nymphalidae Vanessa | Vanessa cardui (Linnaeus, 1758)
Animalia Arthropoda Insecta Lepidoptera Nymphalidae Aglais | Aglais io (Linnaeus, 1758)
Animalia Arthropoda Insecta Lepidoptera Pieridae Pieris | Pieris brassicae (Linnaeus, 1758)
Animalia Arthropoda Insecta Lepidoptera Pieridae Pieris | Pieris rapae (Linnaeus, 1758)
Animalia Arthropoda Insecta Coleoptera Coccinellidae Coccinella | Coccinella septempunctata Linnaeus, 1758
Animalia Arthropoda Insecta Coleoptera Coccinellidae Adalia | Adalia bipunctata (Linnaeus, 1758)
Plantae Tracheophyta Magnoliopsida Lamiales Lamiaceae Prunella | Prunella vulgaris L.
Plantae Tracheophyta Magnoliopsida Lamiales Lamiaceae Mentha | Mentha aquatica L.
Plantae Tracheophyta Magnoliopsida Lamiales Lamiaceae Mentha | Mentha × piperita L.
Plantae Tracheophyta Magnoliopsida Rosales Moraceae Morus | Morus alba L.
Plantae Tracheophyta Magnoliopsida Fagales Fagaceae Quercus | Quercus robur L.
Plantae Tracheophyta Magnoliopsida Fagales Fagaceae Quercus | Quercus petraea (Matt.) Liebl.
Plantae Tracheophyta Magnoliopsida Asterales Asteraceae Bellis | Bellis perennis L.
Plantae Tracheophyta Magnoliopsida Asterales Asteraceae Taraxacum | Taraxacum officinale F.H.Wigg.
"""

SYNONYMS = {
    "Cyanistes caeruleus": "Parus caeruleus Linnaeus, 1758",
    "Periparus ater": "Parus ater Linnaeus, 1758",
    "Mareca penelope": "Anas penelope Linnaeus, 1758",
    "Aglais io": "Inachis io (Linnaeus, 1758)",
}
"""Earlier names, under which some occurrences were published."""

_PLACES = {
    "BIRDS": "Animalia/Chordata/Aves",
    "FISH": "Animalia/Chordata/Actinopterygii/Pomacentridae (order incertae sedis)/Pomacentridae/Chromis",
    "BUTTERFLIES": "Animalia/Arthropoda/Insecta/Lepidoptera",
    "OAKS": "Plantae/Tracheophyta/Magnoliopsida/Fagales/Fagaceae/Quercus",
}
_CHANGES = """labeltree mapping: 1
changes:
- {move: BIRDS/Anseriformes/Anatidae/Anas/Anas crecca, to: BIRDS/Anseriformes/Anatidae/Mareca/Anas crecca}
- {move: BUTTERFLIES/Nymphalidae/Vanessa/Vanessa cardui, to: BUTTERFLIES/Nymphalidae/Aglais/Vanessa cardui}
- {merge: OAKS/Quercus petraea, to: OAKS/Quercus robur}
- {merge: FISH/Chromis chromis, to: FISH/Chromis viridis}
- {split: BUTTERFLIES/Pieridae/Pieris/Pieris rapae, to: [
    BUTTERFLIES/Pieridae/Pieris/Pieris rapae, BUTTERFLIES/Pieridae/Pieris/Pieris mannii]}
- {rename: BUTTERFLIES/Nymphalidae/Aglais/Aglais io, to: BUTTERFLIES/Nymphalidae/Aglais/Inachis io}
"""
"""A revision: two moves, two merges, a split and a rename, as a mapping file states them."""

_COLUMNS = (
    *("gbifID", "occurrenceID", "basisOfRecord", "recordedBy", "eventDate", "decimalLatitude"),
    *("decimalLongitude", "license", "scientificName", *RANKS, "taxonRank", "identificationQualifier"),
)
_META = """<?xml version="1.0" encoding="UTF-8"?>
<archive xmlns="http://rs.tdwg.org/dwc/text/">
<core encoding="UTF-8" fieldsTerminatedBy="\\t" linesTerminatedBy="\\n" fieldsEnclosedBy=""
 ignoreHeaderLines="1" rowType="http://rs.tdwg.org/dwc/terms/Occurrence"><files><location>occurrence.txt</location></files>
<id index="0"/>{fields}</core>
<extension encoding="UTF-8" fieldsTerminatedBy="\\t" linesTerminatedBy="\\n" fieldsEnclosedBy=""
 ignoreHeaderLines="1" rowType="http://rs.gbif.org/terms/1.0/Multimedia">
<files><location>multimedia.txt</location></files><coreid index="0"/>
<field index="1" term="http://purl.org/dc/terms/type"/>
<field index="2" term="http://purl.org/dc/terms/identifier"/></extension>
</archive>
"""


def species() -> list[tuple[tuple[str, ...], str]]:
    """The path of each species, an empty name where a rank is missing, and its author."""
    found = []
    for line in _SPECIES.strip().splitlines():
        above, _, name = line.partition(" | ")
        words = name.split(" ")
        end = 3 if words[1] == "×" else 2
        path = ("" if rank == "-" else rank for rank in above.split(" "))
        found.append(((*path, " ".join(words[:end])), " ".join(words[end:])))
    return found


def write_download(
    folder: Path, occurrences: int = 3000, seed: int = 0, size: int = 16, interpreted: bool = False
) -> Path:
    """Write ``download.zip``, a Darwin Core archive, and its images in ``photos``, named ``GBIFID_N.png``.

    The accepted names of synonyms are in ``synonyms.csv``.

    Args:
        folder: An existing folder.
        occurrences: Number of occurrences; every 100th has no image, every 25th has two.
        seed: Seed of the draws.
        size: Side of the images in pixels.
        interpreted: Whether there is a column ``species`` with the accepted names, which GBIF adds.

    Returns:
        The path of the archive.
    """
    draw, known = random.Random(seed), species()
    photos = folder / "photos"
    photos.mkdir()
    columns = [name for name in _COLUMNS if interpreted or name != "species"]
    rows, media = [], []
    for number in range(occurrences):
        kind = number % len(known)
        path, author = known[kind]
        names, rank, qualifier = list(path), "SPECIES", ""
        given = SYNONYMS[path[-1]] if path[-1] in SYNONYMS and draw.random() < 0.3 else f"{path[-1]} {author}"
        given = path[-1] if draw.random() < 0.2 else given
        chance = draw.random()
        if chance < 0.04:
            names[6], rank, given = "", "GENUS", draw.choice([names[5], f"{names[5]} sp."])
        elif chance < 0.06:
            names[5:], rank, given = ["", ""], "FAMILY", names[4]
        elif chance < 0.10:
            names[draw.choice([3, 4])] = ""
        elif chance < 0.12:
            qualifier = f"cf. {path[-1].split(' ')[-1]}"
        elif chance < 0.125:
            names, rank, given = [""] * 7, "UNRANKED", "incertae sedis"
        key = str(4_000_000_000 + number)
        place = f"{draw.uniform(35, 60):.5f}", f"{draw.uniform(-10, 30):.5f}"
        day = f"20{draw.randrange(10, 24)}-0{draw.randrange(1, 10)}-1{draw.randrange(10)}"
        terms = draw.choice(["CC0_1_0", "CC_BY_4_0", "CC_BY_NC_4_0"])
        person = draw.choice(["A. Finch", 'B. "Bee" Keeper', "C. Moss", "Ö. Ö."])
        about = (key, f"urn:catalog:{key}", "HUMAN_OBSERVATION", person, day, *place, terms)
        rows.append((*about, given, *names[: 7 if interpreted else 6], rank, qualifier))
        for image in range(0 if number % 100 == 99 else 2 if number % 25 == 0 else 1):
            shown = kind if draw.random() < 0.8 else max(kind - 1, 0)  # similar species look alike
            _draw(shown, draw, size).save(photos / f"{key}_{image + 1}.png")
            media.append((key, "StillImage", f"https://images.example/{key}/{image + 1}.png"))
    fields = "".join(
        f'<field index="{place}" term="http://rs.tdwg.org/dwc/terms/{name}"/>'
        for place, name in enumerate(columns)
    )
    lines = [f'"{synonym}","{accepted}"' for accepted, synonym in SYNONYMS.items()]
    (folder / "synonyms.csv").write_text("\n".join(["synonym,accepted", *lines]) + "\n", "utf-8")
    file = folder / "download.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("meta.xml", _META.format(fields=fields))
        archive.writestr("occurrence.txt", _table([tuple(columns), *rows]))
        archive.writestr("multimedia.txt", _table([("gbifID", "type", "identifier"), *media]))
        archive.writestr("citations.txt", "Cite all data sets.\n")
    return file


def write_revision(folder: Path, taxonomy: Taxonomy) -> tuple[Path, Path]:
    """Write the revised taxonomy, ``revised.csv``, and what changed, ``changes.yaml``."""
    mapping, revised = folder / "changes.yaml", folder / "revised.csv"
    text = _CHANGES
    for short, place in _PLACES.items():
        text = text.replace(f"{short}/", f"{place}/")
    mapping.write_text(text, "utf-8")
    TaxonomyMapping.load(mapping, old=taxonomy).new.save(revised)
    return revised, mapping


def _table(rows: list[tuple[str, ...]]) -> str:
    text = io.StringIO()
    text.writelines("\t".join(row) + "\n" for row in rows)
    return text.getvalue()


def _draw(kind: int, draw: random.Random, size: int) -> Image.Image:
    """A picture whose colour tells the class and whose shape and place tell the species, with some noise."""
    colours = [(60, 90, 200), (200, 120, 40), (60, 160, 70)]
    ground = colours[0 if kind < 15 else 1 if kind < 22 else 2]
    shade = tuple(min(255, max(0, value + draw.randrange(-25, 26))) for value in ground)
    image = Image.new("RGB", (size, size), shade)
    pen = ImageDraw.Draw(image)
    x, y = (kind % 4) * size // 4 + draw.randrange(2), (kind // 4 % 4) * size // 4 + draw.randrange(2)
    box = (x, y, x + size // 3, y + size // 3)
    (pen.ellipse if kind % 2 else pen.rectangle)(box, fill=(240, 240, 40 * (kind // 8)))
    return image
