"""Peak memory and time of one objective's forward and backward pass, in a process of its own.

    python benchmarks/peak.py OBJECTIVE N D IMPLEMENTATION

prints one line of JSON: megabytes over what the process held when its imports were done and its inputs made,
and CPU seconds. The peak is the greatest resident set: where /proc has it, VmHWM, reset before; elsewhere
ru_maxrss. An address space of 24 GB is the limit; beyond it both are null.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Peak", "peak"]

LIMIT = 24 * 10**9
STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class Peak:
    """What one pass took; None where it did not fit into memory.

    Attributes:
        megabytes: 10⁶ bytes over the baseline.
        seconds: CPU seconds.
    """

    megabytes: float | None
    seconds: float | None


def peak(objective: str, n: int, d: int, implementation: str = "auto") -> Peak:
    """Measure in a new process.

    Raises:
        RuntimeError: the process failed for another reason than memory.
    """
    words = [sys.executable, __file__, objective, str(n), str(d), implementation]
    run = subprocess.run(words, capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"{objective} at n = {n} failed:\n{run.stderr}")
    return Peak(**json.loads(run.stdout.splitlines()[-1]))


def resident(field: str) -> float:
    """VmRSS (now) or VmHWM (the greatest) in bytes; where there is no /proc, the greatest in either case."""
    if STATUS.exists():
        line = next(line for line in STATUS.read_text("ascii").splitlines() if line.startswith(field))
        return 1024.0 * int(line.split()[1])
    import resource

    greatest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(greatest if sys.platform == "darwin" else 1024 * greatest)


def forget_peak() -> None:
    """Let VmHWM begin anew."""
    with suppress(OSError):  # then it is the greatest since the process began, as ru_maxrss is
        Path("/proc/self/clear_refs").write_text("5", "ascii")


def one_pass(name: str, n: int, d: int, by: str) -> Peak:
    """Measure in this process."""
    from harness import one_core
    from inputs import batch
    from objectives import both_ways, objective

    one_core()
    inputs = batch(n, d)
    call = both_ways(objective(name, inputs), inputs.z, by)
    gc.collect()
    forget_peak()
    before, began = resident("VmRSS:"), time.process_time()
    try:
        call()
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError) or "memory" in str(error):
            return Peak(None, None)
        raise
    return Peak((resident("VmHWM:") - before) / 1e6, time.process_time() - began)


if __name__ == "__main__":
    with suppress(ImportError, ValueError, OSError):  # systems without limits
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    name, n, d, by = sys.argv[1:]
    print(json.dumps(vars(one_pass(name, int(n), int(d), by))))
