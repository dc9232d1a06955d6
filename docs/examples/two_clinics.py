"""Make pictures of skin lesions that nobody has: patients of two clinics, with what real tables are like.

    python docs/examples/two_clinics.py two-clinics/
    labeltree train --data two-clinics/clinic-a.csv --table.group_column patient \
        --table.keep_columns '[lesion, device]' --out runs/clinic

Every patient has one or two lesions, and every lesion one to three pictures. Clinic A stores DICOM files (one
device in gray, of 12 bits, with a window; one in colour), clinic B TIFF files of another camera, darker
and with a cast of its own. Some lesions are labelled coarsely (``melanocytic``), some not at all, and some
patients have two diagnoses. Nothing here is medicine: the classes differ in colour, outline and texture.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SIZE = 48
#            colour,           outline's lobes, texture's frequency, its contrast
LOOKS = {
    "epithelial/carcinoma": ((0.86, 0.48, 0.46), 5, 9.0, 0.30),
    "epithelial/keratosis": ((0.72, 0.55, 0.40), 5, 4.0, 0.22),
    "melanocytic/melanoma": ((0.32, 0.22, 0.24), 3, 8.0, 0.26),
    "melanocytic/naevus": ((0.45, 0.31, 0.22), 0, 3.0, 0.12),
    "inflammatory/eczema": ((0.90, 0.58, 0.55), 8, 6.0, 0.14),
    "inflammatory/psoriasis": ((0.93, 0.66, 0.60), 8, 12.0, 0.24),
}
SHARES = (0.12, 0.16, 0.10, 0.30, 0.18, 0.14)


def lesion_picture(label: str, body: np.random.Generator, shot: np.random.Generator) -> NDArray[np.float64]:
    """A picture ``(SIZE, SIZE, 3)`` from 0 to 1: ``body`` draws what is of the lesion, ``shot`` the rest."""
    colour, lobes, frequency, contrast = LOOKS[label]
    y, x = np.mgrid[-1 : 1 : SIZE * 1j, -1 : 1 : SIZE * 1j]
    across, down = shot.normal(0, 0.10, 2)
    angle = np.arctan2(y - down, x - across) + shot.uniform(0, 2 * np.pi)
    radius = np.hypot(y - down, x - across) / shot.uniform(0.8, 1.2)
    border = body.uniform(0.42, 0.62) * (1 + 0.16 * np.cos(max(lobes, 1) * angle) * (lobes > 0))
    inside = 1 / (1 + np.exp((radius - border) / body.uniform(0.03, 0.09)))
    turn = body.uniform(0, np.pi)
    wave = np.sin(frequency * np.pi * (x * np.cos(turn) + y * np.sin(turn)) + shot.uniform(0, 6))
    skin = np.array([0.89, 0.73, 0.62]) + body.normal(0, 0.03, 3)
    tone = np.array(colour) + body.normal(0, 0.11, 3)
    picture = skin + inside[..., None] * (tone - skin + contrast * wave[..., None] * 0.5)
    return np.clip(picture * shot.uniform(0.88, 1.1) + shot.normal(0, 0.07, picture.shape), 0, 1)


def write_gray_dicom(file: Path, picture: NDArray[np.float64]) -> None:
    """Write a 12-bit gray DICOM file with a window."""
    gray = (picture @ [0.299, 0.587, 0.114] * 3000 + 400).astype(np.uint16)
    _write_dicom(file, gray, "MONOCHROME2", 16, 12, WindowCenter=1900, WindowWidth=3000)


def write_colour_dicom(file: Path, picture: NDArray[np.float64]) -> None:
    """Write an 8-bit RGB DICOM file."""
    _write_dicom(file, (picture * 255).astype(np.uint8), "RGB", 8, 8)


def _write_dicom(
    file: Path, pixels: NDArray[np.generic], kind: str, bits: int, stored: int, **more: int
) -> None:
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian, SecondaryCaptureImageStorage

    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = SecondaryCaptureImageStorage
    meta.MediaStorageSOPInstanceUID = (
        "1.2.826.0.1.3680043.8.498." + str(int.from_bytes(file.stem.encode(), "big"))[:30]
    )
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    data = FileDataset(file, {}, file_meta=meta, preamble=b"\0" * 128)
    data.SOPClassUID, data.SOPInstanceUID = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID
    data.Rows, data.Columns = pixels.shape[:2]
    data.PhotometricInterpretation, data.PixelRepresentation = kind, 0
    data.SamplesPerPixel = 3 if pixels.ndim == 3 else 1
    if pixels.ndim == 3:
        data.PlanarConfiguration = 0
    data.BitsAllocated, data.BitsStored, data.HighBit = bits, stored, stored - 1
    for name, value in more.items():
        setattr(data, name, value)
    data.PixelData = pixels.tobytes()
    data.save_as(file, enforce_file_format=True)


def write_tiff(file: Path, picture: NDArray[np.float64]) -> None:
    """Write a TIFF file of another camera: darker, with a cast, blurred, of 8 bits in colour."""
    from PIL import Image, ImageFilter

    changed = np.clip(picture**2.0 * [0.72, 0.86, 1.1], 0, 1)
    image = Image.fromarray((changed * 255).astype(np.uint8)).filter(ImageFilter.GaussianBlur(1.0))
    image.save(file, compression="tiff_lzw")


def make_clinic(folder: Path, clinic: str, patients: int, seed: int) -> Path:
    """Write the pictures of one clinic, and their table; returns the table."""
    draw = np.random.default_rng([seed, ord(clinic)])
    pictures = folder / f"clinic-{clinic}"
    pictures.mkdir(parents=True, exist_ok=True)
    labels, rows = list(LOOKS), []
    for number in range(patients):
        patient = f"{clinic.upper()}{number:04d}"
        for lesion in range(1, 2 + (draw.random() < 0.4)):
            label = labels[draw.choice(len(labels), p=SHARES)]
            said, chance = label, draw.random()
            said = "" if chance < 0.05 else label.partition("/")[0] if chance < 0.15 else label
            for shot in range(draw.integers(1, 4)):
                device = "scope" if clinic == "b" else ("dermatoscope", "camera")[draw.integers(2)]
                seeds = [seed, ord(clinic), number, lesion]
                picture = lesion_picture(
                    label, np.random.default_rng(seeds), np.random.default_rng([*seeds, shot])
                )
                name = f"{patient}-{lesion}-{shot}"
                if clinic == "b":
                    file, write = pictures / f"{name}.tif", write_tiff
                else:
                    file = pictures / f"{name}.dcm"
                    write = write_gray_dicom if device == "dermatoscope" else write_colour_dicom
                write(file, picture)
                rows.append(
                    (file.relative_to(folder), patient, lesion, f"clinic {clinic.upper()}", device, said)
                )
    table = folder / f"clinic-{clinic}.csv"
    with table.open("w", newline="", encoding="utf-8") as opened:
        csv.writer(opened).writerows([("image", "patient", "lesion", "site", "device", "label"), *rows])
    return table


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where the pictures and the two tables go")
    parser.add_argument(
        "--patients", type=int, nargs=2, default=(400, 120), help="of clinic A and of clinic B"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for clinic, patients in zip("ab", options.patients, strict=True):
        print(make_clinic(options.folder, clinic, patients, options.seed))
