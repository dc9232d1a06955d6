"""From a drawing to pixels: SVG with resvg, raster files with Pillow; white where nothing is drawn."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from labeltree.errors import DataError

__all__ = ["SIZE", "check_renderer", "pixels_of_raster", "pixels_of_svg"]

SIZE = 64
"""Side in pixels."""

Array = np.ndarray[Any, Any]


def check_renderer() -> None:
    """See that SVG can be rendered.

    Raises:
        DataError: With the command that installs what is missing.
    """
    try:
        import resvg_py  # noqa: F401
    except ImportError as error:
        raise DataError(
            "rendering emoji needs the Python package resvg-py: pip install 'labeltree[emoji]'"
        ) from error


def pixels_of_svg(svg: str) -> Array:
    """Render a document, ``(3, 64, 64)`` uint8.

    Raises:
        DataError: With the reason.
    """
    import resvg_py

    # Beside what it renders, resvg needs the size: a drawing that is not square keeps its proportions.
    try:
        png = resvg_py.svg_to_bytes(svg_string=_square(svg), width=SIZE, height=SIZE, skip_system_fonts=True)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the renderer is no Exception
        raise DataError(str(error).strip() or type(error).__name__) from error
    return pixels_of_raster(png)


def _square(svg: str) -> str:
    return svg.replace("<svg ", f'<svg width="{SIZE}" height="{SIZE}" ', 1)


def pixels_of_raster(data: bytes) -> Array:
    """Decode an image file and lay it on white, ``(3, 64, 64)`` uint8; its proportions are kept.

    Raises:
        DataError: If it cannot be decoded, with the reason.
    """
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data)) as opened:
            if max(opened.size) > 4096:
                raise DataError(f"it has {opened.width} x {opened.height} pixels")
            image = opened.convert("RGBA")
    except DataError:
        raise
    except Exception as error:  # Pillow raises whatever its decoders do
        raise DataError(str(error) or type(error).__name__) from error
    side = max(image.size)
    canvas = Image.new("RGBA", (side, side), "white")
    canvas.alpha_composite(image, ((side - image.width) // 2, (side - image.height) // 2))
    flat = canvas.convert("RGB")
    if side != SIZE:
        flat = flat.resize(
            (SIZE, SIZE), Image.Resampling.BOX if side % SIZE == 0 else Image.Resampling.LANCZOS
        )
    return np.ascontiguousarray(np.asarray(flat).transpose(2, 0, 1))
