"""The ``labeltree`` program: finds the command, and turns errors into one sentence."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

COMMANDS = {
    "train": "train an encoder whose embeddings respect a taxonomy",
    "evaluate": "measure how well embeddings respect a taxonomy, and write a report",
    "compare": "which of several runs is better, by how much, how sure, and where on the tree",
    "embed": "write the embeddings of a trained run, of its own data or of others",
    "study": "run methods × settings × seeds, and write the tables they end in",
    "calibrate": "fit how a trained run answers: probabilities, and the depth at which it is sure",
    "predict": "answer for images or texts, each at the depth where the run is sure",
    "data": "list the data sets, and get one",
    "taxonomy": "show, check or convert a taxonomy; make a tree of a DAG or of class names",
}

EPILOG = """a first run:
  labeltree train --data photos/ --objective hwc+lam     nested folders are the taxonomy
  labeltree evaluate runs/photos                         writes metrics.json and report.html

'labeltree COMMAND --help' tells more about a command. With --debug, an error shows its traceback."""


_LONGEST = 2000  # characters of an error


def usage() -> str:
    """The text of ``labeltree --help``."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {summary}" for name, summary in COMMANDS.items()]
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        the exit code: 0 done; 1 done but for some samples, which the output names; 2 an error; 130
        interrupted.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    if not words or words[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if words[0] == "--version":
        from importlib.metadata import version

        print(f"labeltree {version('labeltree')}")
        return 0
    if words[0] not in COMMANDS:
        import difflib

        near = difflib.get_close_matches(words[0], COMMANDS, 1)
        hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(COMMANDS)}"
        return _fail(f"unknown command '{words[0]}'; {hint}")
    return _run(words[0], words[1:], debug)


def _run(command: str, arguments: list[str], debug: bool) -> int:
    from labeltree.errors import LabeltreeError

    try:
        own_names = command == "train"  # its settings are written with _ in recipes too
        given = arguments if own_names else _with_hyphens(arguments)
        importlib.import_module(f"labeltree.cli.{command}").run(given)
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except SystemExit as stop:  # argparse has printed its message or help
        return int(stop.code or 0)
    except (LabeltreeError, ValueError, OSError, ImportError) as error:
        if debug:
            raise
        interrupted = type(error).__name__ == "TrainingInterrupted"
        return _fail(str(error), 130 if interrupted else 2)
    except MemoryError:
        if debug:
            raise
        return _fail(
            "this needs more memory than there is; take fewer samples at a time, or smaller settings"
        )
    except Exception as error:
        if debug:
            raise
        return _fail(f"unexpected {type(error).__name__}: {error}; run it again with --debug and report it")
    return 0


def _with_hyphens(arguments: list[str]) -> list[str]:
    """``--data_path=X`` as ``--data-path=X``: names of options may be written with - or _; values stay."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    found = []
    for argument in arguments[:end]:
        name, equals, value = argument.partition("=")
        found.append((name.replace("_", "-") if name.startswith("--") else name) + equals + value)
    return found + arguments[end:]


def _fail(message: str, code: int = 2) -> int:
    print(f"labeltree: {_one_sentence(message)}", file=sys.stderr)
    return code


def _one_sentence(message: str) -> str:
    """A message on one line that a terminal can show: nothing that steers it, and at most 2,000 characters.

    Messages quote names from files, and these may hold anything and be as long as a file is. Of one that is
    too long the middle falls out: the beginning says what is wrong and where, the end what to do instead.
    """
    words = " ".join(message.split())
    plain = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words)
    return plain if len(plain) <= _LONGEST else f"{plain[: _LONGEST - 503]} … {plain[-500:]}"


if __name__ == "__main__":
    sys.exit(main())
