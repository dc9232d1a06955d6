"""`labeltree serve` under load, beside the bare model (P20).

    python benchmarks/serving.py [--short]

EfficientNet-Lite0 with random weights, images of 224 pixels, 16 clients over the loopback, each of which
sends its next image (a JPEG, as the body) as soon as it has the answer to the last. The client is wrk
(`apt install wrk`), the only one of wrk, hey, oha and ab that posts different bodies. Service and bare model
run on the same core with one thread, in turns, round by round; the client runs on another core where there is
one. A last round, with further clients that are killed, slow, or send garbage, looks for errors and leaks.
"""

from __future__ import annotations

import http.client
import io
import json
import os
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

import numpy as np
import torch
from PIL import Image

import labeltree as lt
from harness import Results, Size, Table, choose, main
from labeltree.data.images.decode import decode
from labeltree.inference.model import Model
from labeltree.processes import keep_freed_memory

CLIENTS = 16  # as many as a batch has samples
IMAGES = 64
SIDE = 224

WRK = """
local requests, sent, seen = {}, 0, 0
local all = {}
failed = 0
function setup(thread) table.insert(all, thread) end
function init(arguments)
  for number = 0, tonumber(arguments[2]) - 1 do
    local file = io.open(arguments[1] .. "/" .. number .. ".jpg", "rb")
    requests[number] = wrk.format("POST", nil, {["Content-Type"] = "image/jpeg"}, file:read("*a"))
    file:close()
  end
  limit = tonumber(arguments[3])
end
function request()
  sent = sent + 1
  return requests[sent % (#requests + 1)]
end
function response(status)
  seen = seen + 1
  if status ~= 200 then failed = failed + 1 end
  if seen == limit then
    io.write("enough\\n")
    io.flush()
    wrk.thread:stop()
  end
end
function done(summary, latency)
  local failures = 0
  for _, thread in ipairs(all) do failures = failures + thread:get("failed") end
  local errors = summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout
  io.write("summary ", summary.requests, " ", summary.duration, " ", failures + errors, "\\n")
  for place = 1, #latency do
    local value, count = latency(place)
    io.write("latency ", value, " ", count, "\\n")
  end
end
"""


@dataclass
class Load:
    """What the clients saw in one round; latencies and CPU in seconds."""

    requests: int
    seconds: float
    failed: int
    latencies: np.ndarray
    cpu: float


class Service:
    """The service as a process of its own."""

    def __init__(self, run: Path, batch: int) -> None:
        self.process = subprocess.Popen(
            f"{sys.executable} -m labeltree serve {run} --port 0 --threads 1 --max-batch {batch} "
            "--timeout 300".split(),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        said = re.search(r"http://[\d.:]+", self.process.stdout.readline())
        if said is None:
            raise SystemExit("the service did not start; its message is above")
        self.url = said[0]
        self.address = urlsplit(self.url).hostname, urlsplit(self.url).port

    def ask(self, method: str, path: str, body: bytes = b"", kind: str = "image/jpeg") -> tuple[int, dict]:
        """Status and reply of one request."""
        connection = http.client.HTTPConnection(*self.address, timeout=300)
        with suppress(BrokenPipeError, ConnectionResetError):  # refused before all was sent
            connection.request(method, path, body or None, {"Content-Type": kind} if body else {})
        try:
            reply = connection.getresponse()
            return reply.status, json.loads(reply.read() or b"{}")
        finally:
            connection.close()

    @property
    def cpu(self) -> float:
        """CPU seconds so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def memory(self) -> float:
        """Resident megabytes."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+)", text)[0]) * 1024 / 1e6

    @property
    def files(self) -> int:
        """Open file descriptors."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self) -> int:
        """End it; returns its exit code. (Shells may have it ignore Ctrl-C.)"""
        self.process.terminate()
        return self.process.wait(120)


def pictures(n: int) -> list[bytes]:
    """JPEG files of 320 x 240 pixels: smooth shapes and some noise."""
    rng = np.random.default_rng(0)
    made = []
    for _ in range(n):
        coarse = Image.fromarray(rng.integers(0, 256, (6, 8, 3), np.uint8)).resize((320, 240))
        noisy = np.asarray(coarse, np.int16) + rng.normal(0, 6, (240, 320, 3)).astype(np.int16)
        out = io.BytesIO()
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(out, "JPEG", quality=90)
        made.append(out.getvalue())
    return made


def trained(folder: Path, images: list[bytes], encoder: str) -> Path:
    """A run of a few steps from random weights."""
    for number, image in enumerate(images):
        leaf = folder / "photos" / f"branch {number % 4 // 2}" / f"leaf {number % 4}"
        leaf.mkdir(parents=True, exist_ok=True)
        (leaf / f"{number}.jpg").write_bytes(image)
    return lt.train(
        folder / "photos",
        "ce",
        out=folder / "run",
        encoder=encoder,
        pretrained=False,
        image_size=SIDE,
        epochs=1,
        batch_size=8,
        val=0.4,
        test=0.1,
        accelerator="cpu",
        progress_bar=False,
    ).path


@contextmanager
def other_core() -> Iterator[None]:
    """Processes that are started within the block run on another core, if there is one."""
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    others = os.sched_getaffinity(0) - mine or mine
    os.sched_setaffinity(0, others)
    try:
        yield
    finally:
        os.sched_setaffinity(0, mine)


def load(service: Service, script: Path, folder: Path, requests: int) -> Load:
    """Post so many images by wrk."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = ["wrk", "-t1", f"-c{CLIENTS}", "-d3600s", "--timeout", "300s", "-s", str(script)]
    words += [f"{service.url}/predict?coverage=0.5", "--", str(folder), str(IMAGES), str(requests)]
    with other_core():
        client = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert client.stdout is not None
    lines = []
    for line in client.stdout:
        if line == "enough\n":
            client.send_signal(signal.SIGINT)  # wrk sleeps until then
        lines.append(line.split())
    client.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    counts = next(line[1:] for line in lines if line[:1] == ["summary"])
    values = [(int(line[1]), int(line[2])) for line in lines if line[:1] == ["latency"]]
    latencies = np.repeat([value for value, _ in values], [count for _, count in values]) / 1e6
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Load(int(counts[0]), int(counts[1]) / 1e6, int(counts[2]), latencies, cpu)


def garbage(image: bytes) -> list[tuple[str, str, bytes, tuple[int, ...]]]:
    """Bad requests: path, content type, body, statuses to expect."""
    text = b"IHDR" + struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0)
    packed = b"IDAT" + zlib.compress(bytes(1_000_000))
    chunks = b"".join(
        struct.pack(">I", len(part) - 4) + part + struct.pack(">I", zlib.crc32(part))
        for part in (text, packed, b"IEND")
    )
    random = np.random.default_rng(1).bytes(20_000)
    return [
        ("/predict", "image/jpeg", image[: len(image) // 2], (400,)),
        ("/predict", "image/png", b"\x89PNG\r\n\x1a\n" + chunks, (400,)),
        ("/predict", "image/png", random, (400,)),
        ("/predict", "text/plain", image, (415,)),
        ("/predict", "application/json", b"[" * 200_000, (422,)),
        ("/predict", "application/json", b'{"images": [NaN]}', (422,)),
        ("/predict", "application/json", b'{"images": ["%s"]}' % random.hex().encode(), (400,)),
        ("/predict", "multipart/form-data; boundary=x", random, (400, 422)),
        ("/predict?coverage=NaN", "image/jpeg", image, (422,)),
        ("/embed?x=" + "y" * 5000, "image/jpeg", image, (422,)),  # no such parameter
        ("/predict", "application/octet-stream", bytes(33_000_000), (413,)),
    ]


class Disturbance(threading.Thread):
    """Clients that are killed, slow, or send garbage, until told to stop."""

    def __init__(self, service: Service, image: bytes) -> None:
        super().__init__(daemon=True)
        self.service, self.image = service, image
        self.enough = threading.Event()
        self.sent: dict[str, int] = {"garbage": 0, "killed": 0, "slow": 0}
        self.wrong: list[str] = []

    def run(self) -> None:
        bad = garbage(self.image)
        slow: list[socket.socket] = []
        while not self.enough.is_set():
            path, kind, body, expected = bad[self.sent["garbage"] % len(bad)]
            status, _ = self.service.ask("POST", path, body, kind)
            self.sent["garbage"] += 1
            if status not in expected:
                self.wrong.append(f"{kind} {path[:30]}: {status}, not {expected}")
            for whole in (True, False):
                self._kill(whole)
            slow.append(socket.create_connection(self.service.address))
            slow[-1].sendall(self._head() + self.image[:10])
            self.sent["slow"] += 1
            if len(slow) > 20:
                slow.pop(0).close()
        for one in slow:
            one.close()

    def _head(self) -> bytes:
        return (
            "POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: image/jpeg\r\n"
            f"Content-Length: {len(self.image)}\r\n\r\n"
        ).encode()

    def _kill(self, whole: bool) -> None:
        """A client that dies after it has sent all, or half, of its request."""
        client = socket.create_connection(self.service.address)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
        client.sendall(self._head() + (self.image if whole else self.image[:1000]))
        client.close()
        self.sent["killed"] += 1


def wall(call: object, repeats: int) -> tuple[float, float]:
    """Seconds by the clock and CPU seconds of a call, the medians."""
    took, busy = [], []
    for _ in range(repeats):
        began, cpu = time.perf_counter(), time.process_time()
        call()  # type: ignore[operator]
        took.append(time.perf_counter() - began)
        busy.append(time.process_time() - cpu)
    return median(took), median(busy)


def measure(size: Size) -> Results:
    """Rounds of bare model and load, in turns; then the disturbed round."""
    if shutil.which("wrk") is None or not hasattr(os, "sched_setaffinity"):
        return Results([], notes=["Not measured: it needs Linux and wrk (`apt install wrk`)."])
    encoder = choose(size, full="efficientnet-lite0", short="efficientnet-lite0", tiny="small-conv")
    rounds = choose(size, full=10, short=3, tiny=1)
    requests = choose(size, full=1000, short=160, tiny=40)
    # Others than the run's: the answers to those that it is calibrated with lie on its thresholds.
    known, images = (pictures(2 * IMAGES)[part::2] for part in (0, 1))
    with tempfile.TemporaryDirectory() as home:
        folder, script = Path(home), Path(home) / "post.lua"
        script.write_text(WRK)
        run = trained(folder, known, encoder)
        for number, image in enumerate(images):
            (folder / f"{number}.jpg").write_bytes(image)
        return _measured(run, script, folder, images, encoder, rounds, requests)


def _measured(
    run: Path, script: Path, folder: Path, images: list[bytes], encoder: str, rounds: int, requests: int
) -> Results:
    model, batch = Model(run, device="cpu"), CLIENTS
    shape = model.network.image_shape
    assert shape is not None
    inputs = torch.from_numpy(np.stack([decode(image, SIDE, shape[0]) for image in images[:batch]]))

    def bare() -> None:
        model.answer_embedded(*model.embed_inputs(inputs), coverage=0.5)

    def with_decoding() -> None:
        pixels = np.stack([decode(image, SIDE, shape[0]) for image in images[:batch]])
        model.answer_embedded(*model.embed_inputs(torch.from_numpy(pixels)), coverage=0.5)

    bare()
    usual, _ = wall(bare, 6)
    keep_freed_memory()  # as the service does: the bare model becomes faster by it, too
    bare()
    service = Service(run, batch)
    try:
        expected = model.answer_batch([Image.open(io.BytesIO(image)) for image in images], coverage=0.5)
        _same_answers(service, model, images, expected)
        load(service, script, folder, 5 * batch)  # not counted
        start = (service.memory, service.files)
        rows, found = [], []
        for number in range(rounds):
            alone, alone_cpu = wall(bare, 6)
            decoded, _ = wall(with_decoding, 3)
            busy, before = service.cpu, service.ask("GET", "/health")[1]["batches"]
            seen = load(service, script, folder, requests)
            batches = service.ask("GET", "/health")[1]["batches"] - before
            again, _ = wall(bare, 6)  # the machine may have changed meanwhile
            alone = (alone + again) / 2
            each = (service.cpu - busy) / seen.requests
            found.append(
                {
                    "throughput": seen.requests / seen.seconds / (batch / alone),
                    "decoding": seen.requests / seen.seconds / (batch / decoded),
                    "relative": seen.latencies / alone,
                }
            )
            middle, late = (1000 * float(np.percentile(seen.latencies, q)) for q in (50, 99))
            rows.append(
                [
                    str(number + 1),
                    seen.requests,
                    seen.failed,
                    seen.requests / seen.seconds,
                    batch / alone,
                    found[-1]["throughput"],
                    found[-1]["decoding"],
                    1000 * each,
                    1000 * alone_cpu / batch,
                    seen.requests / batches,
                    1000 * alone,
                    middle,
                    late,
                    late / 1000 / alone,
                    1000 * seen.cpu / seen.requests,
                    service.memory,
                    service.files,
                ]
            )
            print(rows[-1], flush=True)
        after = (service.memory, service.files)
        disturbance = Disturbance(service, images[0])
        disturbance.start()
        seen = load(service, script, folder, requests)
        disturbance.enough.set()
        disturbance.join()
        time.sleep(1)
        _same_answers(service, model, images, expected)
        end = (service.memory, service.files)
        waiting = service.ask("GET", "/health")[1]["waiting"]
    finally:
        code = service.stop()
    columns = ["round", "requests", "failed", "requests/s", "bare images/s", "÷ bare", "÷ bare with decoding"]
    columns += ["service CPU, ms a request", "bare CPU, ms an image", "samples a batch", "bare batch, ms"]
    columns += [
        "p50, ms",
        "p99, ms",
        "p99 ÷ bare batch",
        "client CPU, ms a request",
        "memory, MB",
        "open files",
    ]
    relative = np.concatenate([one["relative"] for one in found])
    disturbed = Table(
        "The disturbed round, and the service at the end",
        ["what", "value"],
        [
            ["good requests", seen.requests],
            ["of these failed", seen.failed],
            *([name, count] for name, count in disturbance.sent.items()),
            ["unexpected statuses", len(disturbance.wrong)],
            ["samples still waiting", waiting],
            ["exit code after SIGTERM", code],
            ["memory at start, MB", start[0]],
            ["memory after the undisturbed rounds, MB", after[0]],
            ["memory at the end, MB", end[0]],
            ["open files at start, after the rounds, at the end", f"{start[1]}, {after[1]}, {end[1]}"],
        ],
    )
    title = f"{encoder}, {SIDE} px, {CLIENTS} clients, batches of at most {batch}"
    load_now = os.getloadavg()[1]
    return Results(
        [Table(title, columns, rows), disturbed],
        {
            "P20": median([one["throughput"] for one in found]),
            "P20 latency": float(np.percentile(relative, 99)),
            "P20 failed": float(sum(row[2] for row in rows) + seen.failed + len(disturbance.wrong)),
        },
        [
            f"JPEG files of 320 x 240 pixels, {sum(map(len, images)) // len(images) / 1000:.0f} kB on "
            "average. Each round takes the bare model of the same minutes, before and after the load. Both "
            "keep freed memory (`labeltree.processes.keep_freed_memory`); at the start, without that, a bare "
            f"batch took {1000 * usual:,.0f} ms.",
            "The client is wrk, on another core. Load of the machine at the end, this included: "
            f"{load_now:.1f} (average of 5 minutes) on {os.cpu_count()} cores.",
            *sorted(set(disturbance.wrong)),
        ],
    )


def _same_answers(service: Service, model: Model, images: list[bytes], expected: object) -> None:
    """Ask for every image, and compare with the model's own answers."""
    for place, image in enumerate(images):
        status, reply = service.ask("POST", "/predict?coverage=0.5", image)
        wanted = model.taxonomy.path_name(int(expected.nodes[place]))  # type: ignore[attr-defined]
        if status != 200 or reply["answers"][0]["answer"] != wanted:
            raise SystemExit(f"image {place}: {status} {reply}, not {wanted}")


if __name__ == "__main__":
    main(__doc__, measure)
