"""The worker processes of a storm: some are always running, since those that die are replaced."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

KILLED = 77
"""The exit code of a process that a record has killed."""
_STOP_S = 40.0


@dataclass
class Life:
    """One process, from its start to its end."""

    process: subprocess.Popen[bytes]
    diary: Path
    is_over: bool = False

    @property
    def was_killed(self) -> bool:
        return self.process.returncode == KILLED


@dataclass
class Crew:
    folder: Path
    module: str
    arguments: list[str]
    lives: list[Life] = field(default_factory=list)

    def start(self, processes: int) -> None:
        for _ in range(processes):
            number = len(self.lives)
            diary, log = self.folder / f"diary-{number:03}", self.folder / f"log-{number:03}"
            diary.touch()
            command = [sys.executable, "-m", self.module, *self.arguments, str(diary)]
            with log.open("wb") as output:
                process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
            self.lives.append(Life(process, diary))

    @property
    def running(self) -> list[Life]:
        return [live for live in self.lives if not live.is_over]

    def replace_the_dead(self) -> None:
        """Raises AssertionError if a process has died of anything else than a record that kills."""
        for life in self.running:
            code = life.process.poll()
            if code is not None:
                life.is_over = True
                assert code == KILLED, f"{life.diary} ended with exit code {code}"
                self.start(1)

    def stop(self) -> list[int]:
        """Send SIGTERM to all, and return their exit codes."""
        stopping = self.running
        for life in stopping:
            life.process.send_signal(signal.SIGTERM)
        codes = []
        for life in stopping:
            codes.append(life.process.wait(_STOP_S))
            life.is_over = True
        return codes

    def kill(self) -> None:
        """End what is left, when something went wrong."""
        for life in self.lives:
            if life.process.poll() is None:
                life.process.kill()
            life.process.wait()
