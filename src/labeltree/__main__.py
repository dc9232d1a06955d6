"""The program `labeltree`: from the first line on, Ctrl-C ends it with one sentence and no traceback."""

import _signal  # type: ignore[import-not-found]  # built into the interpreter; `signal` is a file to be read
import os

__all__ = ["main"]


def _end(*_: object) -> None:
    """End at once: there is nothing to clean up yet."""
    try:
        os.write(2, b"labeltree: interrupted\n")
    finally:
        os._exit(130)


if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:  # an ignored signal stays ignored
    _signal.signal(_signal.SIGINT, _end)


def main() -> int:
    """Run the command that the program's arguments name; returns its exit code."""
    from labeltree.cli.main import main as run

    return run()


if __name__ == "__main__":
    raise SystemExit(main())
