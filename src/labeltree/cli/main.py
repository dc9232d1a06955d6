"""The `labeltree` program: finds the command, and turns errors into one sentence."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as in typing, which takes a while to load: here nobody catches a Ctrl-C yet
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TextIO

    from labeltree.processes import Stop

_USUAL_ORDER = """demo train evaluate compare study calibrate predict embed export push pull extend info serve
suspects label-next index search duplicates explore taxonomy data cache doctor"""
"""In which people need the commands; others come last."""

_STOPPED = {2: "interrupted", 15: "terminated"}
# What libraries say in errors of their own kinds: lance, pyarrow and safetensors; torch.
_FULL = r"os error 28\b|[Nn]o space left on device|StorageFull|PytorchStreamWriter failed writing"
_NO_MEMORY = r"can't allocate memory|[Cc]annot allocate memory|out of memory|os error 12\b"

EPILOG = """a first run:
  labeltree demo                                         drawn birds, a model of them, its report: no network
  labeltree train --data photos/                         nested folders are the taxonomy
  labeltree evaluate runs/photos                         writes metrics.json and report.html

'labeltree COMMAND --help' explains a command. With --debug, an error shows its traceback."""


_LONGEST = 2000  # maximum number of characters of an error message


def usage() -> str:
    """The text of `labeltree --help`."""
    summaries = command_summaries()
    width = max(map(len, summaries))
    lines = [f"  {name:<{width}}  {summary}" for name, summary in summaries.items()]
    return "\n".join(
        [
            "usage: labeltree [--debug] [--version] COMMAND ...",
            "",
            "Representation learning that respects a label taxonomy.",
            "",
            "commands:",
            *lines,
            "",
            EPILOG,
        ]
    )


def command_summaries() -> dict[str, str]:
    """What each command does, in one line; those of other packages come last."""
    from labeltree.plugins import load_each

    loaded = load_each("commands")
    usual = [name for name in _USUAL_ORDER.split() if name in loaded]
    others = sorted(loaded.keys() - set(usual))
    return {name: str(getattr(loaded[name], "SUMMARY", "")) for name in (*usual, *others)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit code: 0 done; 1 done except for some samples, which the output names; 2 an error, such as
        that no sample can be read; 130 interrupted by Ctrl-C; 143 ended by SIGTERM; 141 if the
        reader of the output has closed it.
    """
    if "_ARGCOMPLETE" in os.environ and arguments is None:
        from labeltree.cli.completion import complete

        complete()
    try:
        from labeltree.processes import stop_signals

        with stop_signals() as stop:
            _open_closed_outputs()
            code = _run(list(sys.argv[1:] if arguments is None else arguments), stop)
            try:
                sys.stdout.flush()
            except OSError as error:
                code = _output_failed(error)
    except KeyboardInterrupt:  # before the signal handlers were installed, or after they were removed
        code = _fail(_STOPPED[2], 130)
    if arguments is None:
        _end_quietly()
    return code


def _open_closed_outputs() -> None:
    """Redirect a closed stdout or stderr to the null device, lest its output end up in another open file."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))


def _run(words: list[str], stop: Stop) -> int:
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"] or ["--help"]
    command = words[0]
    try:
        if command in ("-h", "--help", "help"):
            print(usage())
        elif command == "--version":
            from importlib.metadata import version

            print(f"labeltree {version('labeltree')}")
        else:
            module = _module(command)
            if module is None:
                return _fail(_unknown(command))
            own_names = command == "train"  # recipe settings are written with underscores
            module.run(words[1:] if own_names else _use_hyphens(words[1:]))
    except BaseException as error:
        signal = getattr(error, "signal", stop.signal)  # an interrupted training records its signal
        if signal is not None:
            return _fail(str(error) if hasattr(error, "signal") else _STOPPED[signal], 128 + signal)
        if isinstance(error, KeyboardInterrupt):
            return _fail(_STOPPED[2], 130)
        if isinstance(error, SystemExit):  # argparse has printed its message or help
            return int(error.code or 0)
        if isinstance(error, BrokenPipeError):
            return _output_failed(error)
        if debug:
            raise
        return _fail(_words(command, error))
    return 0


def _module(command: str) -> Any:
    """The module of a command, by its entry point; None if there is none."""
    from labeltree.plugins import named_parts, own_parts

    entry = own_parts("commands").get(command) or named_parts("commands").get(command)
    return None if entry is None else entry.load()


def _unknown(command: str) -> str:
    import difflib

    from labeltree.plugins import named_parts

    names = named_parts("commands")
    near = difflib.get_close_matches(command, names, 1)
    hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(names)}"
    return f"unknown command '{command}'; {hint}"


def _words(command: str, error: BaseException) -> str:
    """The message of an error; errors of the operating system about files get a readable sentence."""
    import errno
    import re

    from labeltree.errors import LabeltreeError, WriteError
    from labeltree.options.schema import OptionError

    if (
        isinstance(error, OSError)
        and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
        and error.filename
    ):
        error = WriteError(error.errno, error.strerror, error.filename)
    if isinstance(error, WriteError):
        return f"{error}{_elsewhere(command, str(error.filename))}"
    if isinstance(error, OSError) and error.strerror and not isinstance(error, LabeltreeError):
        if error.filename is None:
            return f"{error.strerror.lower()}: for the output, or for a file that the system does not name"
        return f"'{error.filename}': {error.strerror.lower()}"
    text = error.at_terminal() if isinstance(error, OptionError) else str(error)
    foreign = not isinstance(error, LabeltreeError)
    if foreign and re.search(_FULL, text):
        return f"no space left on the disk that it writes to{_elsewhere(command, '')}"
    if isinstance(error, MemoryError) or (foreign and re.search(_NO_MEMORY, text)):
        return "this needs more memory than there is; take fewer samples at a time, or smaller settings"
    if isinstance(error, LabeltreeError | ValueError | OSError | ImportError):
        return text
    return f"unexpected {type(error).__name__}: {error}; run it again with --debug and report it"


def _elsewhere(command: str, path: str) -> str:
    """A hint how to make the command write to another place."""
    from pathlib import Path

    from labeltree.cache import data_home

    if Path(path).absolute().is_relative_to(data_home().absolute()):
        return " (LABELTREE_DATA names another cache folder)"
    hint = getattr(_module(command), "ELSEWHERE", "")
    return f" ({hint})" if hint else ""


def _output_failed(error: OSError) -> int:
    """Report that the output is full or closed, and discard the rest of it; returns the exit code."""
    _to_nowhere(sys.stdout)
    if isinstance(error, BrokenPipeError):
        if not _flushes(sys.stderr):
            _to_nowhere(sys.stderr)
        return 141
    return _fail(f"cannot write the output: {(error.strerror or str(error)).lower()}")


def _flushes(stream: TextIO) -> bool:
    try:
        stream.flush()
    except OSError:
        return False
    return True


def _to_nowhere(stream: TextIO) -> None:
    """Redirect a stream to the null device, so that the interpreter can exit without an error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _use_hyphens(arguments: list[str]) -> list[str]:
    """Turn `--data_path=X` into `--data-path=X`: option names may use - or _; values are unchanged."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    hyphenated = []
    for argument in arguments[:end]:
        name, equals, value = argument.partition("=")
        hyphenated.append((name.replace("_", "-") if name.startswith("--") else name) + equals + value)
    return hyphenated + arguments[end:]


def _fail(message: str, code: int = 2) -> int:
    try:
        print(f"labeltree: {_one_sentence(message)}", file=sys.stderr, flush=True)
    except OSError:  # the message cannot be shown; the exit code still tells
        _to_nowhere(sys.stderr)
    return code


def _one_sentence(message: str) -> str:
    """A message on one line for a terminal: without control characters, at most 2,000 characters long.

    Messages quote names from files, which may contain any characters and be very long. A message that is too
    long loses its middle: the beginning says what is wrong and where, the end what to do instead.
    """
    words = " ".join(message.split())
    plain = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words)
    return plain if len(plain) <= _LONGEST else f"{plain[: _LONGEST - 503]} … {plain[-500:]}"


def _end_quietly() -> None:
    """Let a signal during interpreter shutdown end the process at once, without a traceback."""
    import signal
    import threading

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main())
