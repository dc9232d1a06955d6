"""The program ``labeltree``: from its first line on, Ctrl-C ends it with one sentence and no traceback."""

import _signal  # type: ignore[import-not-found]  # in the interpreter; `signal` is read from a file first
import os

__all__ = ["main"]


def _end(*_: object) -> None:
    """Nothing has begun yet that would have to be ended in order."""
    try:
        os.write(2, b"labeltree: interrupted\n")
    finally:
        os._exit(130)


if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:  # what is ignored stays so
    _signal.signal(_signal.SIGINT, _end)


def main() -> int:
    """Run the command that the program's arguments name; returns its exit code."""
    from labeltree.cli.main import main as run

    return run()


if __name__ == "__main__":
    raise SystemExit(main())
