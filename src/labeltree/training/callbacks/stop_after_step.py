"""Ctrl-C and SIGTERM: a training finishes its step and saves before it ends."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

from labeltree.errors import RunError

__all__ = [
    "StopSignals",
    "TrainingInterrupted",
]


class TrainingInterrupted(RunError):
    """Ctrl-C was pressed or SIGTERM came; the training state has been saved.

    Args:
        message: The error message.
        signal: The signal number.
    """

    def __init__(self, message: str, signal: int = signal.SIGINT) -> None:
        super().__init__(message)
        self.signal = int(signal)


class StopSignals:
    """Listens to Ctrl-C and SIGTERM during a training, and remembers the first.

    Attributes:
        number: The signal that came; None if none has.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._previous_handlers: dict[int, Any] = {}

    def listen(self) -> None:
        """Remember signals instead of ending the process; only in the main thread, as Python demands."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous_handlers[number] = signal.signal(number, self._remember)

    def give_back(self) -> None:
        """Restore the handlers that there were before."""
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)
        self._previous_handlers = {}

    def end_training(self, folder: Path) -> None:
        """End the training of the run in this folder if a signal has come.

        Raises:
            TrainingInterrupted: If one has come.
        """
        if self.number is not None:
            raise TrainingInterrupted(
                f"stopped; the same command continues the run in '{folder}'", self.number
            )

    def _remember(self, number: int, *_: Any) -> None:
        self.number = self.number or number
        if number == signal.SIGINT:  # a second Ctrl-C does not wait
            signal.signal(number, self._previous_handlers[number])
