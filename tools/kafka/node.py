"""One broker: its folder, its settings, and its process, which can be killed, paused and restarted."""

from __future__ import annotations

import base64
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.kafka.jars import class_path
from tools.kafka.java import OPTIMISED, SHORT_LIVED, find_java, loading, run_java, writing
from tools.kafka.listeners import HOST, Listener
from tools.kafka.process import Process

_FORMAT_DEADLINE_S = 120
_FORMAT_MEMORY_MB = 256
_IDS = "meta.properties"
_LOGGING = {
    "logFile": "System.out",
    "showDateTime": "true",
    "dateTimeFormat": "HH:mm:ss.SSS",
    "showThreadName": "false",
    "showShortLogName": "true",
}


_formatted: dict[tuple[str, ...], dict[Path, bytes]] = {}
"""What StorageTool has written for a release with these arguments, without the ids: it takes a second or two."""
_formatting = threading.Lock()


class BrokerFailedError(RuntimeError):
    """A broker didn't start, or ended unexpectedly. The message includes the end of its log."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports on which a node listens."""

    clients: Mapping[Listener, int]
    controller: int


class Node:
    """A broker and controller in one process."""

    def __init__(
        self,
        node_id: int,
        release: str,
        folder: Path,
        ports: Ports,
        memory_mb: int,
        plugins: Path | None = None,
        is_optimised: bool = False,
    ) -> None:
        """`plugins`: a folder with more classes for the broker. See `Cluster` for `is_optimised`."""
        self.id = node_id
        self.folder = folder
        self.log = folder / "broker.log"
        self.is_paused = False
        self.has_been_ready = False
        """Whether it has been ready since its process was started. Set by the caller of `start`."""
        self._release = release
        self._ports = ports
        self._memory_mb = memory_mb
        self._plugins = plugins
        self._options = [*(OPTIMISED if is_optimised else SHORT_LIVED), *loading(release)]
        self._process: Process | None = None

    @property
    def is_running(self) -> bool:
        """Whether its process exists, even if it is paused."""
        return self._process is not None and not self._process.has_ended

    @property
    def is_expected(self) -> bool:
        """Whether it has to respond: it was ready, and hasn't been stopped or paused since."""
        return self.has_been_ready and not self.is_paused

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError(f"Node {self.id} was never started.")
        return self._process.pid

    def address(self, listener: Listener = Listener.PLAINTEXT) -> tuple[str, int]:
        """The address for clients."""
        if listener not in self._ports.clients:
            raise ValueError(
                f"Node {self.id} has no {listener} listener; it has {', '.join(self._ports.clients)}."
            )
        return HOST, self._ports.clients[listener]

    def format(self, settings: Mapping[str, str], cluster_id: str, arguments: Sequence[str]) -> None:
        """Write its settings and create its empty data folder."""
        self.folder.mkdir(parents=True)
        whole = {**settings, "node.id": str(self.id), "log.dirs": str(self._data)}
        self._settings.write_text(_lines(whole), encoding="latin-1")
        with _formatting:
            if (found := _formatted.get((self._release, *arguments))) is None:
                self._run_storage_tool(cluster_id, arguments)
                _formatted[self._release, *arguments] = {
                    path.relative_to(self._data): path.read_bytes()
                    for path in self._data.rglob("*")
                    if path.is_file() and path.name != _IDS
                }
                return
        for name, content in found.items():
            path = self._data / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        ids = {
            "version": "1",
            "cluster.id": cluster_id,
            "node.id": str(self.id),
            "directory.id": random_id(),
        }
        (self._data / _IDS).write_text(_lines(ids), encoding="latin-1")

    def _run_storage_tool(self, cluster_id: str, arguments: Sequence[str]) -> None:
        run_java(
            [
                *(*self._jvm(_FORMAT_MEMORY_MB), "kafka.tools.StorageTool", "format"),
                *("-t", cluster_id, "-c", str(self._settings), *arguments),
            ],
            _FORMAT_DEADLINE_S,
            lambda printed: BrokerFailedError(f"StorageTool couldn't format node {self.id}:\n{printed}"),
        )

    def write_archive(self, path: Path) -> None:
        """Have its process write an archive of its classes when it is stopped. Call this before it is started."""
        self._options = [*SHORT_LIVED, *writing(path)]

    def start(self) -> None:
        """Start its process. `Cluster.wait_until_ready` waits until it is ready."""
        if self.is_running:
            raise RuntimeError(f"Node {self.id} is running already.")
        self.has_been_ready = False
        command = [str(find_java()), *self._jvm(self._memory_mb), "kafka.Kafka", str(self._settings)]
        self._process = Process(command, self.log)

    def kill(self) -> None:
        """Kill it, like a crash: nothing is flushed, and no other node is notified."""
        self._end(Process.kill)

    def stop(self) -> None:
        """Stop it cleanly: leaderships move to other nodes, and sockets are closed."""
        self._end(Process.stop)

    def _end(self, how: Callable[[Process], None]) -> None:
        self.has_been_ready = False
        if self._process is not None:
            how(self._process)
        self.is_paused = False

    def pause(self) -> None:
        """Pause its process: its sockets stay open, but it doesn't respond."""
        if self._process is not None:
            self._process.pause()
        self.is_paused = True

    def resume(self) -> None:
        if self._process is not None:
            self._process.resume()
        self.is_paused = False

    def ask_for_threads(self) -> None:
        """Make it write a thread dump to its log, as a JVM does on SIGQUIT. It continues afterwards."""
        if self._process is not None:
            self._process.ask_for_threads()

    def explain_end(self) -> BrokerFailedError:
        """An error with the end of its log, which may tell why its process ended."""
        tail = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-40:]
        return BrokerFailedError(f"Node {self.id} ended unexpectedly; {self.log} says:\n" + "\n".join(tail))

    @property
    def _settings(self) -> Path:
        return self.folder / "server.properties"

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _jvm(self, memory_mb: int) -> list[str]:
        """The arguments for the JVM."""
        return [
            f"-Xmx{memory_mb}m",
            *self._options,
            *(f"-Dorg.slf4j.simpleLogger.{key}={value}" for key, value in _LOGGING.items()),
            *("-cp", ":".join(filter(None, [class_path(self._release), str(self._plugins or "")]))),
        ]


def random_id() -> str:
    """A new id of a cluster or of a data folder."""
    # StorageTool would mistake an id that starts with "-" for an option: this one starts with a letter.
    return base64.urlsafe_b64encode(b"\0" + uuid.uuid4().bytes[1:]).rstrip(b"=").decode()


def _lines(properties: Mapping[str, str]) -> str:
    return "".join(f"{key}={_escaped(value)}\n" for key, value in properties.items())


def _escaped(value: str) -> str:
    """Escape backslashes and non-ASCII characters for a properties file."""
    return value.replace("\\", "\\\\").encode("ascii", "backslashreplace").decode()
