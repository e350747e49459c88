"""How records are written: what a `RecordWriter` needs to know, apart from how to connect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self, get_args

from kshare.options.checks import require_seconds
from kshare.options.mistakes import Mistakes
from kshare.protocol.compression import Compression

CompressionName = Literal["gzip", "snappy", "lz4", "zstd"]
COMPRESSIONS = get_args(CompressionName)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterSettings:
    """Checked when created. Durations are in seconds."""

    transactional_id: str | None = None
    """A name that identifies this producer across restarts, for transactions. Opening a producer fences older ones with
    the same name."""
    transaction_timeout: float = 60.0
    """How many seconds a transaction may take. After that, the broker aborts it."""
    compression: CompressionName | None = None
    """The codec to compress batches with."""
    linger: float = 0.005
    """How many seconds a batch waits for more records before it is sent."""
    batch_bytes: int = 512 * 1024
    """The size at which a batch is sent at once. Brokers refuse batches above 1 MiB by default."""
    buffer_bytes: int = 32 * 1024 * 1024
    """The maximum size of all records that aren't confirmed yet. When it is reached, producing waits."""
    delivery_timeout: float = 120.0
    """How many seconds writing a record may take, with all retries. After that, its result is DeliveryFailed."""
    close_timeout: float = 10.0
    """How many seconds closing may take to write the remaining records."""

    def __post_init__(self) -> None:
        """Raises ConfigError with all mistakes."""
        mistakes = Mistakes()
        name = self.transactional_id
        if name is not None and (not isinstance(name, str) or not name):
            mistakes.add(f"transactional_id must be a non-empty string, not {name!r}")
        if self.compression is not None and self.compression not in COMPRESSIONS:
            mistakes.add(
                f"compression must be one of {', '.join(COMPRESSIONS)}, or None, not {self.compression!r}"
            )
        for option in ("transaction_timeout", "linger", "delivery_timeout", "close_timeout"):
            with mistakes:
                require_seconds(option, getattr(self, option), least=0.0 if option == "linger" else 0.001)
        for option in ("batch_bytes", "buffer_bytes"):
            value = getattr(self, option)
            if type(value) is not int or not 1 <= value < 2**31:
                mistakes.add(f"{option} must be a number of bytes from 1 to {2**31 - 1:,}, not {value!r}")
        mistakes.raise_all()

    @classmethod
    def confirming(cls, limit: float, compression: CompressionName | None = None) -> Self:
        """For commands that wait for each confirmation, at most so many seconds: nothing lingers."""
        return cls(compression=compression, linger=0.0, delivery_timeout=limit, close_timeout=1.0)

    @property
    def is_transactional(self) -> bool:
        return self.transactional_id is not None

    @property
    def codec(self) -> Compression:
        return Compression[(self.compression or "none").upper()]
