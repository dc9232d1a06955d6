"""Training on two machines, here two local ones: started by torchrun, and as SLURM starts processes."""

import signal
import socket
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import by_itself
import pytest
import torch
from test_two_ranks import RANK, run_ranks, write_recipe

from forked import end_forked, start_forked
from labeltree.runs import RunFolder
from labeltree.training.fit import train
from labeltree.training.recipe import Recipe

pytestmark = pytest.mark.slow


# What the program `torchrun` makes of its options, except that the process that trains is a fork of it.
TORCHRUN = """
import os, sys
from lightning.fabric.utilities.rank_zero import rank_zero_only
from torch.distributed.launcher.api import elastic_launch
from torch.distributed.run import config_from_args, get_args_parser
from labeltree.cli.main import main

def run(words):
    rank_zero_only.rank = int(os.environ["RANK"])  # as at its import
    return main(words)

node, port, *words = sys.argv[1:]
launch = ["--nnodes", "2", "--nproc_per_node", "1", "--node_rank", node, "--start_method", "fork"]
where = ["--master_addr", "127.0.0.1", "--master_port", port]
config, _, _ = config_from_args(get_args_parser().parse_args([*launch, *where, "-m", "labeltree"]))
assert list(elastic_launch(config, run)(words).values()) == [0]
"""


def free_port() -> str:
    """A port that nobody uses."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def start_ranks(
    code: str, recipe: Path, folder: Path, environments: list[dict[str, str]], stops: tuple[int, int] = (0, 0)
) -> list[ForkServerProcess]:
    """Start a process for each machine, which trains ``folder/run``; 0 = it does not stop by itself."""
    folder.mkdir(exist_ok=True)
    return [
        start_forked(
            code,
            [str(recipe), str(folder / "run"), str(folder), str(stop)],
            folder / f"errors{node}.txt",
            {"OMP_NUM_THREADS": "1", **environment},
        )
        for node, (environment, stop) in enumerate(zip(environments, stops, strict=True))
    ]


def end_well(processes: list[ForkServerProcess], folder: Path) -> None:
    """Wait for processes that end well."""
    try:
        ended = [end_forked(process, 400) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert ended == [0, 0], "\n".join(file.read_text() for file in folder.glob("errors*.txt"))


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


@pytest.mark.long
def test_two_machines_learn_what_one_with_two_devices_does(image_folder: Path, tmp_path: Path) -> None:
    """Started by torchrun; only the first machine writes."""
    settings = {"encoder": "small-conv", "sampler": "random", "epochs": 1}
    one = write_recipe(tmp_path / "one.yaml", image_folder, "hwc+lam", **settings)
    nodes = write_recipe(tmp_path / "nodes.yaml", image_folder, "hwc+lam", **settings, devices=1, num_nodes=2)
    run_ranks(one, tmp_path / "one", tmp_path / "states")
    port = free_port()
    run = tmp_path / "nodes"
    words = ["train", "--config", str(nodes), "--out", str(run), "--quiet"]
    one_thread = {"OMP_NUM_THREADS": "1"}
    launched = [
        start_forked(TORCHRUN, [str(node), port, *words], tmp_path / f"errors{node}.txt", one_thread)
        for node in range(2)
    ]
    end_well(launched, tmp_path)
    folder = RunFolder(run)
    ours, theirs = last_state(RunFolder(tmp_path / "one")), last_state(folder)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        torch.testing.assert_close(theirs[name], value, rtol=1e-5, atol=1e-6, msg=name)
    assert len(folder.read_history()) == 1
    assert folder.encoder.is_file()


@pytest.mark.long
def test_a_run_goes_on_after_one_machine_was_killed(image_folder: Path, tmp_path: Path) -> None:
    """As torchrun starts processes; the undisturbed run is started as SLURM does it."""
    recipe = recipe_at(tmp_path / "recipe.yaml", image_folder, devices=1, num_nodes=2)
    stopping = RANK.replace("raise SystemExit(3)", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    undisturbed, stopped = tmp_path / "whole", tmp_path / "cut"
    end_well(start_ranks(RANK, recipe, undisturbed, by_slurm(free_port())), undisturbed)
    whole, cut = RunFolder(undisturbed / "run"), RunFolder(stopped / "run")
    assert len(whole.read_history()) == 2
    assert not list(whole.path.glob("hpc_ckpt*"))  # requeueing is left to SLURM
    first, second = start_ranks(stopping, recipe, stopped, by_elastic(free_port()), (0, 3))
    assert end_forked(second, 400) == -signal.SIGKILL
    first.terminate()  # as torchrun does
    first.join(100)
    first.kill()
    assert 1 <= torch.load(cut.last_checkpoint, weights_only=True)["global_step"] <= 3
    assert not cut.encoder.is_file()
    end_well(start_ranks(RANK, recipe, stopped, by_elastic(free_port())), stopped)
    ours, theirs = last_state(whole), last_state(cut)
    for name, value in ours.items():
        assert torch.equal(value, theirs[name]), name


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
