"""A bulk job in this process, in several on this machine, or in those that torchrun or SLURM started."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import threading
import time

import labeltree.errors as errors
from labeltree.errors import LabeltreeError, RunError
from labeltree.inference.bulk.job import BulkDone, BulkJob, cores
from labeltree.inference.bulk.process import Place, run_of, run_process
from labeltree.inference.load_run import TrainedRun
from labeltree.progress import Progress, silent
from labeltree.runs.parts import PartFolder

__all__ = ["run_bulk"]

PARENT = "_LABELTREE_BULK"
"""The environment variable that tells a further process the id of the one that started it."""

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_LAUNCHED = ("TORCHELASTIC_RUN_ID", "SLURM_PROCID")
EVERY_S = 0.2


def run_bulk(
    job: BulkJob, *, devices: int = 1, progress: Progress | None = None, run: TrainedRun | None = None
) -> BulkDone:
    """Embed or predict any number of samples into a folder of parts, or go on with it.

    Samples are divided into parts of equal size; each part is a Parquet file, which is written under a
    temporary name and renamed. The same job goes on after the last whole part, however it was ended, and the
    result is the same. With several processes, part k is made by process k mod their number; they do not
    communicate, and may be more or fewer when the job goes on.

    Args:
        job: The job.
        devices: Processes on this machine, each with a GPU of its own if there are GPUs. In processes that
            torchrun or SLURM started, each makes its share, and `devices` must be 1.
        progress: Called as `progress(message, done, total)` with numbers of samples.
        run: The run, if it is loaded already; not for several devices.

    Raises:
        OtherSettingsError: If the folder holds parts of another model, other settings or other samples.
        RunError: If the run is not finished, the folder holds something else, or a process was killed.
        DataError: If the samples are missing or malformed.
        FolderInUseError: If another process is writing to the folder.
        WriteError: If the disk is full or writing is not permitted; whole parts stay.
        ValueError: If an option is not valid.
    """
    if not 1 <= devices <= 1024:
        raise ValueError(f"devices is {devices}; expected 1 to 1024 processes")
    place = _launched()
    if place is not None:
        if devices > 1:
            raise ValueError("--devices goes without torchrun or SLURM, which start the processes themselves")
        return run_process(job, place, progress if place.rank == 0 else None, run=run)
    if devices == 1:
        return run_process(job, progress=progress, run=run)
    return _run_processes(job, devices, progress or silent)


def _launched() -> Place | None:
    """The place of this process among those that torchrun or SLURM started; None if they did not."""
    if not any(name in os.environ for name in _LAUNCHED):
        return None
    from lightning.fabric.plugins.environments.cluster_environment import ClusterEnvironment
    from lightning.fabric.plugins.environments.slurm import SLURMEnvironment
    from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment

    environment: ClusterEnvironment
    if TorchElasticEnvironment.detect():
        environment, here = TorchElasticEnvironment(), os.environ.get("LOCAL_WORLD_SIZE")
    elif SLURMEnvironment.detect():
        environment, here = SLURMEnvironment(auto_requeue=False), os.environ.get("SLURM_NTASKS_PER_NODE")
    else:
        return None
    world = environment.world_size()
    local = int(here) if here and here.isdecimal() else world
    return Place(environment.global_rank(), world, environment.local_rank(), local)


class _Process:
    """A further process, and what it has said."""

    def __init__(self, job: BulkJob, rank: int, world: int) -> None:
        threads = str(max(1, cores() // world))
        environment = {**dict.fromkeys(_THREADS, threads), **os.environ, PARENT: str(os.getpid())}
        self.counts = (0, 0)
        self.message = ""
        self.done: BulkDone | None = None
        self.error: dict[str, str] | None = None
        self._process = subprocess.Popen(
            [sys.executable, "-m", "labeltree.inference.bulk.bulk_worker", str(rank), str(world)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="surrogateescape",
        )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(dataclasses.asdict(job)))
        self._process.stdin.close()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            if "counts" in said:
                self.message, done, total = said["counts"]
                self.counts = (done, total)
            elif "done" in said:
                self.done = BulkDone(**said["done"])
            else:
                self.error = said["error"]

    def ended(self) -> int | None:
        """The exit code, once it has ended and everything it said has been heard."""
        code = self._process.poll()
        if code is not None:
            self._listener.join()
        return code

    def stop(self) -> None:
        """End it, and wait for it."""
        if self._process.poll() is None:
            self._process.terminate()
        self._process.wait()


def _run_processes(job: BulkJob, devices: int, progress: Progress) -> BulkDone:
    began = time.monotonic()
    if job.what == "predict":
        from labeltree.inference.calibrate_run import open_decider

        open_decider(run_of(job), job.classifier)  # calibrated once, and not by each process
    out = PartFolder(job.out)
    with out.locked():
        processes = [_Process(job, rank, devices) for rank in range(devices)]
        try:
            running = set(processes)
            while running:
                time.sleep(EVERY_S)
                counts = [process.counts for process in processes]
                message = next((process.message for process in processes if process.message), None)
                if message is not None:
                    progress(message, sum(done for done, _ in counts), sum(total for _, total in counts))
                for process in [process for process in running if process.ended() is not None]:
                    running.remove(process)
                    if process.done is None:
                        raise _error(process, processes.index(process), devices)
        finally:
            for process in processes:
                process.stop()
    finished = [process.done for process in processes if process.done is not None]
    last = next((done for done in finished if done.complete), finished[0])
    written = sum(done.written for done in finished)
    return dataclasses.replace(last, written=written, seconds=time.monotonic() - began)


def _error(process: _Process, rank: int, world: int) -> LabeltreeError | ValueError:
    if process.error is None:
        code = process.ended() or 0
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return RunError(f"process {rank} of {world} {how}; the same command goes on with what is left")
    kind = getattr(errors, process.error["kind"], None)
    known = isinstance(kind, type) and issubclass(kind, LabeltreeError) and kind is not errors.WriteError
    message = process.error["message"]
    if known:
        error: LabeltreeError = kind(message)  # type: ignore[misc]
        return error
    return ValueError(message) if process.error["kind"] == "ValueError" else LabeltreeError(message)
