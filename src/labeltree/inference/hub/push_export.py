"""`labeltree push`: an exported model, or a run that is exported for it, as a repository of the hub.

Only what an export writes is sent, and nothing of it names a sample, its place or a place on this disk.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from labeltree.errors import DataError, LabeltreeError, RunError, typed
from labeltree.inference.export.export_folder import is_exported
from labeltree.inference.hub.hub_files import (
    CARD,
    check_export,
    read_export_config,
    repository_name,
    sent_files,
)
from labeltree.inference.hub.pull_export import HUB_PREFIX, need_hub
from labeltree.inference.info_text import size_text
from labeltree.inference.model import Model
from labeltree.inference.model_facts import CONFIG
from labeltree.inference.public_settings import EXPORTED
from labeltree.links import refuse_links
from labeltree.models.hub_answers import error_kind, hub_host, quiet_hub
from labeltree.models.hub_cache import HubName
from labeltree.offline import offline
from labeltree.options.choices import ExportFormat
from labeltree.options.hub_options import PushOptions
from labeltree.options.schema import as_place
from labeltree.runs import RunFolder

__all__ = ["Pushed", "push_export"]

_FORMATS: tuple[ExportFormat, ...] = ("safetensors",)
_TEXTS = (".json", ".md", ".py", ".txt")
_LICENCE = re.compile(r"[A-Za-z0-9][\w.+-]*")
_SNIPPET = 'lt.load(".")'


@dataclass(frozen=True)
class Pushed:
    """What was sent to a hub, or would be.

    Attributes:
        repository: Its name there.
        address: Its page.
        public: Whether everybody may see it.
        files: The size of each file in bytes.
        left: The files of the folder that stay here.
        commit: The commit that has them; None = nothing was sent.
    """

    repository: str
    address: str
    public: bool
    files: Mapping[str, int]
    left: tuple[str, ...] = ()
    commit: str | None = None

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(self.files.values())

    def text(self) -> str:
        """What is sent, as the command shows it before."""
        width = max(map(len, self.files), default=0)
        lines = [f"  {name:<{width}}  {size_text(size)}" for name, size in self.files.items()]
        seen = "public: everybody may see it" if self.public else "private"
        rest = f"\nstays here: {', '.join(self.left)}" if self.left else ""
        files = f"{len(self.files)} files, {size_text(self.size)}"
        return "\n".join([f"to {self.address} ({seen}): {files}", *lines]) + rest


def push_export(options: PushOptions) -> Pushed:
    """Send an exported model to the hub; a run is exported first, into a folder that is deleted afterwards.

    Raises:
        RunError: The folder is neither a run nor an exported model, or is not what it says.
        DataError: There is no token, the network is not to be used, the hub refuses, or a file would name a
            place on this disk.
        ImportError: huggingface_hub is missing.
    """
    need_hub()
    hub = repository_name(options.repository)
    if hub.revision is not None:
        raise DataError(
            f"'{options.repository}' names a revision, and what is pushed makes one; leave it out"
        )
    if options.license is not None and not _LICENCE.fullmatch(options.license):
        raise DataError(
            f"'{options.license}' does not name a licence; expected one such as apache-2.0 or mit"
        )
    if not options.dry_run:
        token = _need_token(hub)
    with _exported(options, hub) as folder:
        contents = _read(folder, hub, options.license)
        plan = Pushed(
            repository=hub.repository,
            address=f"{_endpoint()}/{hub.repository}",
            public=options.public,
            files={
                name: len(content) if isinstance(content, bytes) else content.stat().st_size
                for name, content in contents.items()
            },
            left=tuple(sorted({*_files_below(folder)} - {*contents})),
        )
        if options.on_plan is not None:
            options.on_plan(plan)
        return plan if options.dry_run else _send(plan, contents, token)


@contextmanager
def _exported(options: PushOptions, hub: HubName) -> Iterator[Path]:
    """The folder of an exported model; of a run it is made for the duration of the block."""
    place = Path(as_place(options.run))
    if is_exported(place):
        if options.formats is not None:
            raise RunError(f"'{place}' is exported already; leave out the formats, or name the run")
        yield place
        return
    if not place.is_dir() or not (RunFolder(place).recipe.is_file() or RunFolder(place).folds.is_file()):
        raise RunError(
            f"'{place}' is not a labeltree export, and not a run; 'labeltree export RUN --out "
            f"{typed(place)}' makes one"
        )
    with tempfile.TemporaryDirectory() as temporary:
        name = hub.repository.rpartition("/")[2]
        yield Model(place, device="cpu").export(
            Path(temporary) / "model", tuple(options.formats or _FORMATS), name=name
        )


def _read(folder: Path, hub: HubName, licence: str | None) -> dict[str, Path | bytes]:
    """The files that are sent, in the order of their names: a place on this disk, or the bytes."""
    what = f"'{folder}'"
    again = f"export the run again: 'labeltree export RUN --out {typed(folder)} --replace'"
    refuse_links(folder)
    names = sent_files(_files_below(folder))
    check_export(folder, what, again)
    run = RunFolder(folder)
    if run.extensions:
        raise RunError(
            f"{what} was extended after its export; 'labeltree export {typed(folder)} --out NEW' makes a "
            "folder that answers with the new classes"
        )
    if run.decisions.is_file():
        on = json.loads(run.decisions.read_text("utf-8")).get("calibrated_on", EXPORTED)
        if on not in (EXPORTED, "validation samples"):
            raise RunError(
                f"{what} was calibrated after its export, and names the samples; 'labeltree export "
                f"{typed(folder)} --out NEW' makes a folder that does not"
            )
    contents: dict[str, Path | bytes] = {name: folder / name for name in names}
    for name in names:
        if Path(name).suffix not in _TEXTS:
            continue
        text = (folder / name).read_text("utf-8", errors="replace")
        _refuse_places(f"'{folder / name}'", text, folder)
        if name == CARD:
            card = text.replace(_SNIPPET, f'lt.load("{HUB_PREFIX}{hub.repository}")')
            contents[name] = _name_licence(card, licence).encode()
    return contents


def _files_below(folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]


def _name_licence(card: str, licence: str | None) -> str:
    """A card that names the licence in its front matter."""
    if licence is None:
        return card
    parts = card.split("---\n", 2)
    begin, front, text = parts if card.startswith("---\n") and len(parts) == 3 else ["", "", card]
    kept = [line for line in front.splitlines() if not re.match(r"(# )?license:", line)]
    return "\n".join([f"{begin}---", *kept, f"license: {licence}", "---", ""]) + text


def _refuse_places(file: str, text: str, folder: Path) -> None:
    """Refuse a file that names the user's home, or the place of the folder."""
    for place in (Path.home(), folder.resolve().parent):
        name = str(place)
        if place.parent == place:  # '/' stands in every path
            continue
        for form in {name, json.dumps(name)[1:-1]}:
            if re.search(rf"(?<![\w/.-]){re.escape(form)}(?![\w.-])", text):
                raise DataError(
                    f"{file} names a place on this disk, '{name}', which would be sent; take it out of "
                    "the file"
                )


def _need_token(hub: HubName) -> str:
    from huggingface_hub import constants, get_token

    if offline() or constants.HF_HUB_OFFLINE:
        raise DataError(
            f"'{hub.repository}' cannot be sent: the network is not to be used (LABELTREE_OFFLINE, "
            "HF_HUB_OFFLINE); unset them, or see what would be sent with --dry-run"
        )
    token: str | None = get_token()
    if token is None:
        raise DataError(
            f"there is no token for {hub_host()}: log in with 'hf auth login', or put a token that may write "
            "into the environment variable HF_TOKEN"
        )
    return token


def _endpoint() -> str:
    from huggingface_hub import constants

    return str(constants.ENDPOINT).rstrip("/")


def _send(plan: Pushed, contents: Mapping[str, Path | bytes], token: str) -> Pushed:
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, errors

    api, name = HfApi(endpoint=_endpoint(), token=token), plan.repository
    operations: list[Any] = [
        CommitOperationAdd(path_in_repo=path, path_or_fileobj=content) for path, content in contents.items()
    ]
    with _explained(name), quiet_hub(), _bars_on_terminals():
        try:
            there = api.model_info(name)
        except errors.RepositoryNotFoundError:
            there = None
            api.create_repo(name, private=not plan.public)
        if there is not None:
            _check_visibility(there, plan)
            known = [file.rfilename for file in there.siblings or ()]
            _check_content(api, name, known)
            old = set(sent_files(known)) - contents.keys()
            operations += [CommitOperationDelete(path_in_repo=path) for path in sorted(old)]
        done = api.create_commit(name, operations, commit_message="Model by labeltree")
    return replace(plan, commit=str(done.oid))


def _check_visibility(there: Any, plan: Pushed) -> None:
    """Refuse a repository that others see than was asked for."""
    if there.private is False and not plan.public:
        raise DataError(
            f"'{plan.repository}' is public, so everybody would see the model; say --public if that is "
            "meant, or name another repository"
        )
    if there.private and plan.public:
        raise DataError(
            f"'{plan.repository}' is private, and --public does not change that; change it in its settings "
            f"at {plan.address}/settings, or leave out --public"
        )


def _check_content(api: Any, name: str, known: Sequence[str]) -> None:
    """Refuse a repository with something else, of which the commit would leave a mixture."""
    if not {*known} - {CARD, ".gitattributes", "LICENSE"}:
        return
    with tempfile.TemporaryDirectory() as temporary:
        if CONFIG in known:
            api.hf_hub_download(name, CONFIG, local_dir=temporary)
        try:
            read_export_config(Path(temporary), f"what is in '{name}'")
        except RunError as error:
            raise RunError(f"{error}; name another repository") from error


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turn what the hub answers, or that it does not, into one sentence without addresses or a token."""
    from huggingface_hub.errors import HfHubHTTPError

    try:
        yield
    except LabeltreeError:
        raise
    except Exception as error:
        cause = error.__cause__ if type(error) is RuntimeError else error
        status = getattr(getattr(cause, "response", None), "status_code", None)
        if type(error) is ValueError and "README.md" in str(error):
            raise DataError(f"{hub_host()} does not take the first lines of {CARD}: {error}") from error
        if status == 401:
            reason = "it does not know the token; log in again with 'hf auth login'"
        elif status in (403, 404):
            reason = (
                f"the token may not write to '{name}'; take one that may write, or a repository of your own"
            )
        elif isinstance(cause, HfHubHTTPError):
            reason = f"{error_kind(cause)}; try again later"
        else:
            raise DataError(
                f"{hub_host()} cannot be reached, or broke off ({error_kind(error)}); a model appears "
                "there as a whole or not at all, and the same command tries again"
            ) from error
        raise DataError(f"{hub_host()} does not take '{name}': {reason}") from error


@contextmanager
def _bars_on_terminals() -> Iterator[None]:
    """Show progress of an upload on terminals alone."""
    from huggingface_hub import utils

    shown = sys.stderr.isatty() or utils.are_progress_bars_disabled()
    if not shown:
        utils.disable_progress_bars()
    try:
        yield
    finally:
        if not shown:
            utils.enable_progress_bars()
