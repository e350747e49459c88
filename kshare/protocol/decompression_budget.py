"""How many decompressed bytes a request may take, all its batches together, and each of them.

Five kilobytes can become 160 MB, so whoever reads bytes that others wrote decides before how much may become of them.
What can't be decompressed is paid for, too: it may have been decompressed almost to its end.
"""

from __future__ import annotations

from kshare.errors import DecodeError
from kshare.protocol.compression import DECOMPRESSED_LIMIT, Buffer, decompress
from kshare.protocol.compression_bounds import decompressed_bound


class BudgetSpentError(DecodeError):
    """What is left of a budget isn't enough. With a new budget, the same bytes may be readable."""

    def __init__(self, left: int) -> None:
        reason = f"needs more than the {left} bytes that are left for decompressed records"
        super().__init__("compressed records", 0, reason)


class DecompressionLimit:
    """A limit for each batch, and none for all of them."""

    __slots__ = ("each",)

    def __init__(self, each: int) -> None:
        self.each = each

    def decompress(self, codec: int, data: Buffer) -> memoryview:
        return decompress(codec, data, self.each)


class DecompressionBudget:
    """Those who read batches for the same request share it."""

    __slots__ = ("each", "left")

    def __init__(self, total: int, each: int = DECOMPRESSED_LIMIT) -> None:
        self.left = total
        self.each = each
        """The limit for one batch."""

    def decompress(self, codec: int, data: Buffer) -> memoryview:
        """Raises DecodeError if these bytes can't be read, BudgetSpentError if they might be with a new budget."""
        allowed = min(self.each, self.left)
        # What is left when this ends: of bytes that are broken or too many, almost all may have been decompressed.
        cost = min(allowed, decompressed_bound(codec, memoryview(data)))
        try:
            plain = decompress(codec, data, allowed)
            cost = len(plain)
            return plain
        except DecodeError:
            if allowed < self.each and decompressed_bound(codec, memoryview(data)) > allowed:
                raise BudgetSpentError(allowed) from None
            raise
        finally:
            self.left -= cost
