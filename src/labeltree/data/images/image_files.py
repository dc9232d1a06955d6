"""Open encoded images: find the unreadable ones at once, and cache the pixels if there is room."""

from __future__ import annotations

import csv
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np

from labeltree.atomic import atomic_write
from labeltree.cache import cache_is_ignored, data_home, has_room, new_folder, one_at_a_time
from labeltree.checks import check_choice
from labeltree.data.images.decode import ImageHead, decode, optional_decoders, read_head
from labeltree.data.images.encoded import EncodedImages, encoded
from labeltree.data.images.look import look_at
from labeltree.data.images.stores import FileStore, MappedStore, box_of, in_threads
from labeltree.data.source import DIGEST_BYTES, ImageStore, bytes_digest, combined_digests, printable
from labeltree.errors import DataError
from labeltree.preprocessing import ChooseInput, ImageInput, ImageLook, Preprocessing
from labeltree.progress import Progress, silent

__all__ = [
    "HOW_TO_SKIP",
    "LEFT_OUT",
    "ImageSettings",
    "OnError",
    "OpenedImages",
    "check_image_settings",
    "forget_pixels",
    "look_at_files",
    "open_images",
    "report_failures",
    "save_unreadable",
    "unreadable",
    "usual_input",
]

OnError = Literal["raise", "skip", "list"]
LEFT_OUT = "; they are left out"
"""The end of a note on images that cannot be read."""

HOW_TO_SKIP = '--on_error skip (in Python on_error="skip")'
"""How an error names the setting that leaves out what cannot be read, on the command line and in Python."""


class ImageSettings(TypedDict, total=False):
    """How images are read: parameters of `open_source` and of every function that opens images.

    Attributes:
        image_size: Side in pixels; None = the size of the images, at most 64; see `usual_input`.
        channels: 1 or 3; None = 1 if all images are gray, else 3.
        on_error: `raise` an error about unreadable images, `skip` them with a warning, or only `list` them,
            in `Source.unread`. Functions that open data raise by default; a recipe, and so
            `labeltree.train` and `labeltree train`, skips. Skipping is decided when opening: it never
            changes which samples an epoch sees, unless `check` is False.
        cache: Keep decoded images in the cache folder; None = if there is room.
        check: Decode all images when opening, to find the unreadable ones (the default). If False, images are
            only decoded when they are loaded, and the cache holds none; those that turn out to be unreadable
            then raise an error or, with `on_error="skip"`, are replaced; see `FileStore`.
        preprocessing: How the square is cut out of an image; None = the largest centred one.
        choose: Chooses size, channels and preprocessing, where they are not given, by a look at the images;
            None = `usual_input`.
        progress: Callback `progress(message, done, total)`.
    """

    image_size: int | None
    channels: int | None
    on_error: OnError
    cache: bool | None
    check: bool
    preprocessing: Preprocessing | None
    choose: ChooseInput | None
    progress: Progress | None


def check_image_settings(settings: ImageSettings) -> None:
    """Check settings given by a user.

    Raises:
        TypeError: If one has an unknown name.
        ValueError: If one has a wrong value.
    """
    known = ImageSettings.__annotations__
    unknown = [name for name in settings if name not in known]
    if unknown:
        raise TypeError(f"unknown setting '{unknown[0]}' of images; there are {', '.join(known)}")
    on_error = settings.get("on_error", "raise")
    channels, size = settings.get("channels"), settings.get("image_size")
    check_choice("on_error", on_error, ("raise", "skip", "list"))
    check_choice("channels", channels, (None, 1, 3))
    if isinstance(size, int) and size < 1:
        raise ValueError(f"image_size is {size}; it must be 1 or more, or None")


_VERSION = 3  # of what decode() gives; a change of it must not meet an old cache
_CACHE_BYTES = 16 << 30
_PROBES = 1000
_GLANCES = 36  # images of a data set that was read before
_NAMED = 5  # unreadable images of a message
_log = logging.getLogger("labeltree.data")
_said: set[str] = set()  # warnings of this process


@dataclass(frozen=True)
class OpenedImages:
    """Image files that were opened.

    Attributes:
        store: Store of the pixels.
        failures: Row of each unreadable image → reason.
        digests: Digests of the files' bytes and of the crop boxes, `(n, 16)` uint8.
        reduced: A sentence on how far the images were reduced, if nobody said how large they should be and
            most were much larger.
        look: What the images are like, if size or channels were chosen by it.
    """

    store: ImageStore
    failures: dict[int, str]
    digests: np.ndarray[Any, Any]
    reduced: str | None = None
    look: ImageLook | None = None

    def readable(self) -> np.ndarray[Any, Any]:
        """Rows of the readable images, ascending."""
        good = np.ones(len(self.store), bool)
        good[list(self.failures)] = False
        return np.flatnonzero(good)


_LEAST, _LARGEST = 32, 64
_STEP = 8


def usual_input(look: ImageLook) -> ImageInput:
    """The images that an encoder with fresh weights reads: at most 64 × 64 pixels.

    Smaller images keep the side that all have if they are square and equal; otherwise the side is the shorter
    median side, rounded down to a multiple of 8, and at least 32.

    Example:
        >>> from labeltree.preprocessing import ImageLook
        >>> [usual_input(ImageLook(w, h, None, False)).size for w, h in ((640, 480), (64, 50), (9, 3))]
        [64, 48, 32]
    """
    if look.side is not None:
        return ImageInput(look.channels, min(look.side, _LARGEST))
    return ImageInput(look.channels, min(max(look.shorter // _STEP * _STEP, _LEAST), _LARGEST))


def _heads(images: EncodedImages, most: int = _PROBES) -> list[ImageHead]:
    """The headers of so many evenly spaced images at most that can be read."""
    chosen = np.unique(np.linspace(0, len(images) - 1, min(len(images), most)).round().astype(int))

    def head_of(row: int) -> ImageHead | None:
        try:
            return read_head(images.read(row))
        except DataError:
            return None

    return [head for head in in_threads(head_of, chosen.tolist()) if head]


def look_at_files(files: Sequence[str]) -> ImageLook:
    """What the images in files are like, by the headers of a few dozen of them."""
    return look_at(_heads(encoded(files), _GLANCES))


_MUCH = 1.5  # so many times as large as they are made are images whose reduction is worth a sentence


def _reduction(look: ImageLook, size: int) -> str | None:
    """A sentence on images that are much larger than the size which was chosen for them."""
    if look.shorter < _MUCH * size:
        return None
    return (
        f"images of {look.width} × {look.height} pixels (the median) are reduced to {size} × {size}; "
        "--image-size keeps more of their detail"
    )


def open_images(
    files: Sequence[str] | EncodedImages,
    names: Sequence[str],
    *,
    boxes: np.ndarray[Any, Any] | None = None,
    image_size: int | None = None,
    channels: int | None = None,
    on_error: OnError | Literal["return"] = "raise",
    cache: bool | None = None,
    check: bool = True,
    preprocessing: Preprocessing | None = None,
    choose: ChooseInput | None = None,
    progress: Progress | None = None,
) -> OpenedImages:
    """Decode image files, find those that cannot be read, and cache the pixels.

    All files are decoded once, in threads. Pixels go to a file in the cache folder that is mapped from then
    on, under a key made of names, sizes, times of change and the image size. Where that would take more
    than 16 GiB or half the free disk, only the list of unreadable files and the digests are kept, and images
    are decoded whenever they are loaded. Within `ignore_cache` all files are read again,
    and decoded again if a digest differs.

    Args:
        files: Paths of the files, or other encoded images.
        names: Name of each image in the cache key, usually the file's path below the folder.
        boxes: Crop box of each image `(n, 4)`: left, top, width, height in pixels; a row of NaN is the
            whole image.
        image_size: Side of the images; see `ImageSettings` for this and the other settings.
        channels: 1 or 3.
        on_error: As in `ImageSettings`, or `return` to only report the failures in the result.
        cache: Keep decoded images in the cache folder.
        check: Decode all images now. If False, missing, empty and unopenable ones are still found, and
            digests are of the size and the first and last 4 kB of each; see `EncodedImages`.
        preprocessing: How the square is cut out.
        choose: Chooses what is not given.
        progress: Callback that reports progress.

    Raises:
        ValueError: If `cache` is True and `check` is False.
        DataError: If images cannot be read; the message names the files and the reasons.
    """
    if cache and not check:
        raise ValueError("cache is True, so all images are decoded now; leave check out, or cache")
    images = encoded(files)
    look, reduced = None, None
    if image_size is None or channels is None or choose is not None:
        look = look_at(_heads(images), images if choose is not None else None)
        chosen = (choose or usual_input)(look)
        if image_size is None and choose is None:
            reduced = _reduction(look, chosen.size or _LARGEST)
        if image_size is None or choose is not None:
            preprocessing = preprocessing or chosen.preprocessing
        image_size = image_size or chosen.size or _LARGEST
        channels = channels or chosen.channels or look.channels
    size = image_size
    shape = (len(images), channels, size, size)
    stamps = images.stamps()
    key = _key(names, stamps, size, channels, boxes, preprocessing)
    folder = data_home() / "images" / (key if check else f"{key}-unchecked")
    needed = int(np.prod(shape))
    keep = check and (needed <= _CACHE_BYTES and has_room(needed) if cache is None else cache)
    findings = _read_findings(folder, shape, keep)
    if findings is not None and cache_is_ignored():
        now = _digest_boxes([*in_threads(images.digest, range(len(images)))], boxes) if check else None
        findings = findings if now is not None and np.array_equal(now, findings[1]) else None
    if findings is None:
        try:
            with one_at_a_time(folder):
                findings = None if cache_is_ignored() else _read_findings(folder, shape, keep)
                if findings is None and check:
                    findings = _decode_all(
                        images, boxes, folder, shape, keep, progress or silent, preprocessing
                    )
                elif findings is None:
                    findings = _look_at_all(images, boxes, folder, progress or silent)
        except OSError as error:
            raise DataError(
                f"cannot write what was decoded to '{folder.parent}' ({error.strerror}); "
                "choose another cache folder with LABELTREE_DATA"
            ) from error
    failures, digests = findings
    if on_error != "return":
        places = (
            [images.where(row) if row in failures else "" for row in range(len(images))] if failures else []
        )
        report_failures(places, failures, on_error)
    mapped = folder / "images.bin"
    if keep:
        store: ImageStore = MappedStore(mapped, shape, preprocessing=preprocessing)
        return OpenedImages(store, failures, digests, reduced, look)
    unchecked: Any = None if check else {"skip": "replace", "list": "replace"}.get(on_error, "raise")
    store = FileStore(
        images, size, channels, boxes, stamps, digests, preprocessing=preprocessing, unchecked=unchecked
    )
    return OpenedImages(store, failures, digests, reduced, look)


def _key(
    names: Sequence[str],
    stamps: np.ndarray[Any, Any],
    size: int,
    channels: int,
    boxes: np.ndarray[Any, Any] | None,
    preprocessing: Preprocessing | None = None,
) -> str:
    files = hashlib.sha256(stamps.tobytes())
    for name in names:
        files.update(os.fsencode(name) + b"\0")
    how = f"{_VERSION} {size} {channels} {optional_decoders()}"
    digest = hashlib.sha256(f"{how}\n{files.hexdigest()}".encode())
    if boxes is not None:
        digest.update(np.ascontiguousarray(boxes, dtype=np.float64).tobytes())
    if preprocessing is not None:
        digest.update(repr(preprocessing.to_dict()).encode())
    return digest.hexdigest()[:32]


def _digest_boxes(digests: Sequence[bytes], boxes: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
    """Digests of files `(n, 16)`; if only a part of an image counts, of the file and the part."""
    rows = np.frombuffer(b"".join(digests), np.uint8).reshape(-1, DIGEST_BYTES)
    if boxes is None:
        return rows
    values = np.ascontiguousarray(boxes, dtype=np.float64)
    cut = combined_digests(rows, values.view(np.uint8).reshape(len(rows), -1))
    return np.where(np.isnan(values).any(1, keepdims=True), rows, cut)


def forget_pixels(digests: np.ndarray[Any, Any] | None) -> int:
    """Delete the decoded images of data sets that hold one of these files; they are decoded anew when needed.

    Args:
        digests: `(m, 16)` uint8 of files, see `OpenedImages`; None = those of all data sets.

    Returns:
        How many data sets' images were deleted.
    """
    home, deleted = data_home() / "images", 0
    unwanted = None if digests is None else {row.tobytes() for row in digests}
    for folder in sorted(home.iterdir()) if home.is_dir() else ():
        try:
            known = np.load(folder / "digests.npy", allow_pickle=False)
        except (OSError, ValueError, EOFError):
            known = np.zeros((0, DIGEST_BYTES), np.uint8)
        if folder.is_dir() and (unwanted is None or unwanted & {row.tobytes() for row in known}):
            shutil.rmtree(folder)
            deleted += 1
    return deleted


_Findings = tuple[dict[int, str], np.ndarray[Any, Any]]  # the failures and the digests


def _read_findings(folder: Path, shape: tuple[int, ...], keep: bool) -> _Findings | None:
    """Failures and digests that an earlier decoding found; None if there was none."""
    try:
        known = json.loads((folder / "failures.json").read_text("utf-8"))
        digests = np.load(folder / "digests.npy", allow_pickle=False)
        if keep and (folder / "images.bin").stat().st_size != int(np.prod(shape)):
            return None
        if digests.shape != (shape[0], DIGEST_BYTES) or digests.dtype != np.uint8:
            return None
        return {int(row): str(reason) for row, reason in known.items()}, digests
    except (OSError, ValueError, AttributeError, EOFError):
        return None


def _decode_all(
    images: EncodedImages,
    boxes: np.ndarray[Any, Any] | None,
    folder: Path,
    shape: tuple[int, ...],
    keep: bool,
    progress: Progress,
    preprocessing: Preprocessing | None,
) -> _Findings:
    """Decode every file and write what was found to `folder`, all at once by renaming it."""
    _, channels, size, _ = shape

    def attempt(row: int) -> tuple[bytes, np.ndarray[Any, Any] | str]:
        digest = bytes(DIGEST_BYTES)
        try:
            image = images.read(row)
            digest = images.digest(row) if isinstance(image, Path) else bytes_digest(image)
            box = box_of(boxes, row)
            return digest, decode(image, size, channels, box, preprocessing=preprocessing)
        except DataError as error:
            return digest, str(error)

    failures: dict[int, str] = {}
    bytes_of: list[bytes] = []
    black = np.zeros(shape[1:], np.uint8)
    with new_folder(folder) as fresh:
        with (fresh / "images.bin").open("wb") as out:
            for row, (digest, result) in enumerate(in_threads(attempt, range(len(images)))):
                bytes_of.append(digest)
                if isinstance(result, str):
                    failures[row] = result
                if keep:
                    out.write((black if isinstance(result, str) else result).tobytes())
                if row % 256 == 0 or row + 1 == len(images):
                    progress("decoding images", row + 1, len(images))
        digests = _digest_boxes(bytes_of, boxes)
        np.save(fresh / "digests.npy", digests)
        (fresh / "failures.json").write_text(json.dumps(failures), "utf-8")
    return failures, digests


def _look_at_all(
    images: EncodedImages,
    boxes: np.ndarray[Any, Any] | None,
    folder: Path,
    progress: Progress,
) -> _Findings:
    """Find the images that cannot be opened, and digests of parts of the others, without decoding any."""
    n = len(images)
    failures: dict[int, str] = {}
    digests_of_parts: list[bytes] = []

    def look(rows: range) -> list[bytes | str]:
        seen: list[bytes | str] = []
        for row in rows:
            try:
                seen.append(images.quick_digest(row))
            except DataError as error:
                seen.append(str(error))
        return seen

    with new_folder(folder) as fresh:
        for some in in_threads(look, [range(at, min(at + 256, n)) for at in range(0, n, 256)]):
            for result in some:
                if isinstance(result, str):
                    failures[len(digests_of_parts)] = result
                digests_of_parts.append(bytes(DIGEST_BYTES) if isinstance(result, str) else result)
            progress("looking at images", len(digests_of_parts), n)
        digests = _digest_boxes(digests_of_parts, boxes)
        np.save(fresh / "digests.npy", digests)
        (fresh / "failures.json").write_text(json.dumps(failures), "utf-8")
    return failures, digests


def unreadable(names: Sequence[str], failures: dict[int, str]) -> str:
    """How many images cannot be read, and which are the first of them, with the reasons.

    Args:
        names: Names of all images.
        failures: Row → reason; not empty.
    """
    listed = [f"'{printable(names[row])}' ({reason})" for row, reason in sorted(failures.items())[:_NAMED]]
    more = f" and {len(failures) - len(listed)} more" if len(failures) > len(listed) else ""
    return f"{len(failures)} of {len(names)} images cannot be read: {'; '.join(listed)}{more}"


def save_unreadable(path: Path, rows: Iterable[tuple[str, str]]) -> None:
    """Write what cannot be read as a CSV file with the columns `name` and `reason`, atomically.

    Args:
        path: The file.
        rows: Pairs of a name and a reason.
    """
    with atomic_write(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "reason"])
        writer.writerows(rows)


def _all_listed(names: Sequence[str], failures: dict[int, str]) -> Path | None:
    """A file in the cache folder that lists all unreadable images; None if it cannot be written."""
    rows = [(printable(names[row]), reason) for row, reason in sorted(failures.items())]
    name = hashlib.sha256(repr(rows).encode()).hexdigest()[:16]
    path = data_home() / "unreadable" / f"{name}.csv"
    try:
        if not path.is_file():
            save_unreadable(path, rows)
    except OSError:
        return None
    return path


def report_failures(names: Sequence[str], failures: dict[int, str], on_error: OnError) -> None:
    """Raise an error about images that cannot be read, or warn about them, once, if they are skipped.

    If they are more than are named, a file in the cache folder lists all of them.

    Args:
        names: Names of all images.
        failures: Row → reason.
        on_error: `raise`, `skip` or `list`.

    Raises:
        DataError: If `on_error` is `raise` and an image cannot be read, or if no image can be read.
    """
    if not failures:
        return
    what = unreadable(names, failures)
    if len(failures) > _NAMED and (place := _all_listed(names, failures)):
        what += f", all listed in '{place}'"
    if on_error == "raise":
        raise DataError(f"{what}. Repair or remove them, or skip them with {HOW_TO_SKIP}")
    if len(failures) == len(names):
        raise DataError(what)
    if on_error == "skip" and what not in _said:  # a run opens its data several times
        _said.add(what)
        _log.warning("%s. They are skipped", what)
