"""Training on two machines, here two local ones: started by torchrun, and as SLURM starts processes."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import by_itself
import pytest
import torch
from test_two_ranks import RANK, run_ranks, write_recipe

from labeltree.runs import RunFolder
from labeltree.training.fit import train
from labeltree.training.recipe import Recipe

pytestmark = pytest.mark.slow


def free_port() -> str:
    """A port that nobody uses."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def start(commands: list[list[str]], environments: list[dict[str, str]]) -> list[subprocess.Popen[str]]:
    """Start a process for each command."""
    shared = {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    return [
        subprocess.Popen(command, env=os.environ | shared | own, stderr=subprocess.PIPE, text=True)
        for command, own in zip(commands, environments, strict=True)
    ]


def finish(processes: list[subprocess.Popen[str]]) -> list[str]:
    """Wait for processes that end well; the standard error of each."""
    try:
        errors = [process.communicate(timeout=400)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * len(processes), "\n".join(errors)
    return errors


def by_elastic(port: str) -> list[dict[str, str]]:
    """The variables that torchrun sets on each of two machines with a device each."""
    return [
        {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "WORLD_SIZE": "2",
            "RANK": str(node),
            "GROUP_RANK": str(node),
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
            "TORCHELASTIC_RUN_ID": "nodes",
        }
        for node in range(2)
    ]


def by_slurm(port: str) -> list[dict[str, str]]:
    """The variables that SLURM sets for ``srun`` on two machines with a task each."""
    return [
        {
            "MASTER_PORT": port,
            "SLURM_JOB_ID": "4711",
            "SLURM_JOB_NAME": "train",
            "SLURM_NODELIST": "127.0.0.1",
            "SLURM_NNODES": "2",
            "SLURM_NTASKS": "2",
            "SLURM_NTASKS_PER_NODE": "1",
            "SLURM_PROCID": str(node),
            "SLURM_NODEID": str(node),
            "SLURM_LOCALID": "0",
        }
        for node in range(2)
    ]


def last_state(run: RunFolder) -> dict[str, torch.Tensor]:
    """The weights of the last saved state."""
    state: dict[str, torch.Tensor] = torch.load(run.last_checkpoint, weights_only=True)["state_dict"]
    return state


def recipe_at(path: Path, images: Path, **settings: object) -> Path:
    """A recipe without batch normalisation, so that two processes learn exactly what one does."""
    fixed = {"encoder": by_itself.NAME, "sampler": "random", "head": "{dim: 8, layers: 1}"}
    return write_recipe(path, images, "hwc+lam", **{**fixed, **settings})


def test_two_machines_learn_what_one_with_two_devices_does(image_folder: Path, tmp_path: Path) -> None:
    """Started by torchrun; only the first machine writes."""
    settings = {"encoder": "small-conv", "sampler": "random", "epochs": 1}
    one = write_recipe(tmp_path / "one.yaml", image_folder, "hwc+lam", **settings)
    nodes = write_recipe(tmp_path / "nodes.yaml", image_folder, "hwc+lam", **settings, devices=1, num_nodes=2)
    run_ranks(one, tmp_path / "one", tmp_path / "states")
    port = free_port()
    run = tmp_path / "nodes"
    launch = ["-m", "torch.distributed.run", "--nnodes", "2", "--nproc_per_node", "1"]
    where = ["--master_addr", "127.0.0.1", "--master_port", port]
    program = ["-m", "labeltree", "train", "--config", str(nodes), "--out", str(run), "--quiet"]
    commands = [[sys.executable, *launch, "--node_rank", str(node), *where, *program] for node in range(2)]
    finish(start(commands, [{}, {}]))
    folder = RunFolder(run)
    ours, theirs = last_state(RunFolder(tmp_path / "one")), last_state(folder)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        torch.testing.assert_close(theirs[name], value, rtol=1e-5, atol=1e-6, msg=name)
    assert len(folder.read_history()) == 1
    assert folder.encoder.is_file()


def test_a_run_goes_on_after_one_machine_was_killed(image_folder: Path, tmp_path: Path) -> None:
    recipe = recipe_at(tmp_path / "recipe.yaml", image_folder, devices=1, num_nodes=2)
    stopping = RANK.replace("raise SystemExit(3)", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")

    def commands(script: str, run: str, stops: list[int]) -> list[list[str]]:
        (tmp_path / run).mkdir(exist_ok=True)
        return [
            [sys.executable, "-c", script, str(recipe), str(tmp_path / run / "run"), str(tmp_path), str(stop)]
            for stop in stops
        ]

    finish(start(commands(RANK, "whole", [0, 0]), by_elastic(free_port())))
    first, second = start(commands(stopping, "cut", [0, 3]), by_elastic(free_port()))
    assert second.wait(timeout=400) == -signal.SIGKILL
    first.terminate()  # as torchrun does
    try:
        first.communicate(timeout=100)
    finally:
        first.kill()
    cut = RunFolder(tmp_path / "cut" / "run")
    assert 1 <= torch.load(cut.last_checkpoint, weights_only=True)["global_step"] <= 3
    assert not cut.encoder.is_file()
    finish(start(commands(RANK, "cut", [0, 0]), by_elastic(free_port())))
    ours, theirs = last_state(RunFolder(tmp_path / "whole" / "run")), last_state(cut)
    for name, value in ours.items():
        assert torch.equal(value, theirs[name]), name


def test_processes_that_slurm_started(image_folder: Path, tmp_path: Path) -> None:
    recipe = recipe_at(tmp_path / "recipe.yaml", image_folder, devices=1, num_nodes=2, epochs=1)
    command = [sys.executable, "-c", RANK, str(recipe), str(tmp_path / "run"), str(tmp_path), "0"]
    finish(start([command, command], by_slurm(free_port())))
    assert len(RunFolder(tmp_path / "run").read_history()) == 1
    assert not list((tmp_path / "run").glob("hpc_ckpt*"))  # requeueing is left to SLURM


def test_a_number_of_machines_that_slurm_does_not_give(
    tmp_path: Path, recipe_of: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in by_slurm(free_port())[0].items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=r"num_nodes=3.*--nodes=2"):
        train(recipe_of(num_nodes=3), tmp_path / "run", progress_bar=False)
    assert not (tmp_path / "run" / "recipe.yaml").exists()


def test_several_machines_need_a_launcher(
    tmp_path: Path, recipe_of: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="neither torchrun nor srun; on every machine run 'torchrun"):
        train(recipe_of(num_nodes=3), tmp_path / "run", progress_bar=False)
    with pytest.raises(ValueError, match="batch_size is 9; it must be a multiple of the 2 devices"):
        recipe_of(num_nodes=2)
