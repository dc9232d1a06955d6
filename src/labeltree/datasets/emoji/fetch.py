"""Getting the emoji: packages from npm, drawn once into the cache folder."""

from __future__ import annotations

from pathlib import Path

from labeltree.cache import data_home
from labeltree.data.progress import Progress, silent
from labeltree.datasets.emoji.images import EmojiImages, draw, read_images
from labeltree.datasets.emoji.packages import PACKAGES
from labeltree.datasets.emoji.plan import make_plan
from labeltree.datasets.emoji.render import check_renderer
from labeltree.datasets.fetching.bringing import bringing
from labeltree.datasets.fetching.npm import download_tarballs
from labeltree.errors import DataError

__all__ = ["HOME", "fetch_emoji"]

HOME = "emoji"
# Of the plan that the pinned packages give: another one would number the images otherwise.
PLAN = "2bd14fa7e3c38f63d60aaba15c21deb2b8bb7e918aeeed7bde57afd505c5cdc1"


def fetch_emoji(*, progress: Progress | None = None, force: bool = False) -> Path:
    """Bring the emoji into the cache folder: download the packages, draw every emoji in every style.

    What was downloaded before an interruption is not downloaded again.

    Raises:
        DataError: If npm or the renderer is missing, or a package cannot be had or read; with what to do.
    """
    report = progress or silent
    folder = data_home() / HOME
    if not force:
        try:
            read_images(folder, digest=True)
            return folder
        except DataError:
            pass
    check_renderer()
    with bringing(folder, "the emoji") as (work, _):
        tarballs = download_tarballs(PACKAGES, work, report)
        report("reading npm packages", 0, 0)
        plan = make_plan(tarballs)
        if plan.digest != PLAN:
            raise DataError(f"the packages hold other emoji than expected (digest {plan.digest[:12]}…)")
        _tell_failed(draw(plan, folder, report), report)
    return folder


def _tell_failed(images: EmojiImages, report: Progress) -> None:
    if images.failed:
        named = [f"{images.name(position)} ({reason})" for position, reason in images.failed.items()]
        report(f"{len(named)} emoji could not be drawn and are left out: {', '.join(named)}", 0, 0)
