"""One process of a bulk job, which is its input: `python -m` this module, `RANK WORLD`."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any

from labeltree.inference.bulk.job import BulkJob
from labeltree.inference.bulk.launch_processes import EVERY_S, PARENT
from labeltree.inference.bulk.process import Place, run_process
from labeltree.processes import end_with_parent, stop_signals


def main(arguments: Sequence[str]) -> int:
    """Do the work of one process, and say on the output how far it is; returns the exit code.

    If the process that started this one dies, this one ends, too; whole parts stay.
    """
    rank, world = (int(word) for word in arguments)
    told = 0.0

    def say(**words: Any) -> None:
        print(json.dumps(words), flush=True)

    def counts(message: str, done: int, total: int) -> None:
        nonlocal told
        if time.monotonic() - told >= EVERY_S:
            told = time.monotonic()
            say(counts=[message, done, total])

    with stop_signals() as stop:
        try:
            if PARENT in os.environ:
                end_with_parent(int(os.environ[PARENT]), signal.SIGTERM)
            job = BulkJob(**json.loads(sys.stdin.read()))
            done = run_process(job, Place(rank, world, rank, world), counts, lock=False)
            say(done=dataclasses.asdict(done))
        except KeyboardInterrupt:
            return 128 + (stop.signal or signal.SIGINT)
        except Exception as error:
            say(error={"kind": type(error).__name__, "message": str(error) or type(error).__name__})
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
