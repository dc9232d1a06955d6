"""What a service is started with: devices, threads, memory, signals and the time to end."""

from __future__ import annotations

import signal
from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytest.importorskip("fastapi")
import uvicorn

from labeltree.serving import ServiceSettings
from labeltree.serving import engine as engine_module
from labeltree.serving.batching import Job
from labeltree.serving.engine import TooLargeError, _Sample
from labeltree.serving.server import _signals, run_app
from labeltree.serving.wait_for_memory import MemoryLimit


def test_each_device_has_a_model_and_a_core_is_left_to_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    class Made:
        def __init__(self, run: Any, device: str | None = None) -> None:
            self.device, self.encoder = device, SimpleNamespace(modality="vector")
            self.decider = SimpleNamespace(about=lambda asked: {}, drift=None)

    warm: list[Any] = []
    monkeypatch.setattr(engine_module, "Model", Made)
    monkeypatch.setattr(engine_module, "_warm_up", lambda model: warm.append(model.device))
    monkeypatch.setattr(
        engine_module, "Batcher", lambda computes, **named: given.update(named, computes=computes)
    )
    monkeypatch.setattr(engine_module, "_check_device", lambda name: None)
    threads: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    for cores, asked in ((4, None), (1, None), (16, None), (4, 2)):
        monkeypatch.setattr(engine_module, "available_cores", lambda cores=cores: cores)
        engine = engine_module.Engine(
            "run", ServiceSettings(max_batch=7, max_wait=20), devices=["cpu", "cuda:1"], threads=asked
        )
    assert threads == [3, 1, 8, 2]
    assert [model.device for model in engine.models] == warm[-2:] == ["cpu", "cuda:1"]
    assert [compute._model for compute in given["computes"]] == engine.models
    assert (given["max_batch"], given["max_wait"]) == (7, 0.02)
    with pytest.raises(ValueError, match="threads is 0; expected at least 1"):
        engine_module.Engine("run", ServiceSettings(), threads=0)


def test_devices_are_those_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for name in ("cpu", "cuda", "cuda:0", "cuda:1"):
        engine_module._check_device(name)
    with pytest.raises(ValueError, match=r"^there is no device 'cuda:2'; there is cpu, cuda:0, cuda:1$"):
        engine_module._check_device("cuda:2")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    for name in ("cuda", "cuda:0", "gpu"):
        with pytest.raises(ValueError, match=rf"^there is no device '{name}'; there is cpu$"):
            engine_module._check_device(name)


def test_as_much_memory_as_there_is_may_be_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scan takes its pixels and twice its file; what takes all the memory is decoded, and no more."""
    monkeypatch.setattr(engine_module, "is_dicom", lambda content: True)
    monkeypatch.setattr(engine_module, "dicom_head", lambda content: (10, 20, True))
    monkeypatch.setattr(engine_module, "dicom_bytes", lambda *given: 1000 if given == (10, 20, True) else 0)
    assert engine_module.measure_upload(bytes(30), 28, 200) == 1060
    monkeypatch.setattr(engine_module, "read_upload", lambda *given: "pixels")
    sent: list[Any] = []
    engine: Any = SimpleNamespace(
        model=SimpleNamespace(network=SimpleNamespace(image_shape=(3, 28, 28), preprocessing=None)),
        settings=ServiceSettings(),
        memory=MemoryLimit(1060),
        _batcher=SimpleNamespace(submit=lambda job: sent.append(job.sample.content)),
    )
    monkeypatch.setattr(engine_module, "draft_side", lambda size, how: size)
    for size in (30, 31):
        job: Job[Any, Any] = Job(_Sample("scan", bytes(size), None))
        engine_module.Engine._decode(engine, job)
    assert sent == ["pixels"]
    assert isinstance(job.found.exception(), TooLargeError)


def test_a_server_ends_after_the_requests_in_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits as long as an answer may take, and one second more."""
    given: dict[str, Any] = {}
    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets: given.update(sockets=sockets))
    real = uvicorn.Config

    def config(app: Any, **named: Any) -> Any:
        given.update(named)
        return real(app, **named)

    monkeypatch.setattr(uvicorn, "Config", config)
    listener: Any = object()
    for access, level in ((False, "warning"), (True, "info")):
        run_app(object(), listener, ServiceSettings(timeout=7.5), access_log=access)
        assert given["timeout_graceful_shutdown"] == 8
        assert (given["access_log"], given["log_level"], given["ws"]) == (access, level, "none")
        assert given["http"].limits.timeout == 7.5
        assert given["sockets"] == [listener]


def test_ignored_signals_stay_ignored_and_others_come_back() -> None:
    def handler(number: int, frame: Any) -> None:
        """Of the block."""

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with _signals(handler):
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is handler
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) is before[signal.SIGTERM]
    finally:
        signal.signal(signal.SIGINT, before[signal.SIGINT])
