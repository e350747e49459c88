"""Generated: options of producers, as type checkers and editors see them.

Written by `python -m tools.options` from the dataclass in producer/settings.py: change them there.
"""

from kshare.client.options import ClientOptions
from kshare.producer.settings import CompressionName


class ProducerOptions(ClientOptions, total=False):
    """Options of a producer.

    Options: transactional_id, transaction_timeout, compression, linger, batch_bytes, buffer_bytes, delivery_timeout,
    close_timeout; and those of ClientOptions.
    """

    transactional_id: str | None
    """A name that identifies this producer across restarts, for transactions. Opening a producer fences older ones with
    the same name."""
    transaction_timeout: float
    """How many seconds a transaction may take. After that, the broker aborts it. Default: 60.0."""
    compression: CompressionName | None
    """The codec to compress batches with."""
    linger: float
    """How many seconds a batch waits for more records before it is sent. Default: 0.005."""
    batch_bytes: int
    """The size at which a batch is sent at once. Brokers refuse batches above 1 MiB by default. Default: 512 KiB."""
    buffer_bytes: int
    """The maximum size of all records that aren't confirmed yet. When it is reached, producing waits. Default: 32
    MiB."""
    delivery_timeout: float
    """How many seconds writing a record may take, with all retries. After that, its result is DeliveryFailed. Default:
    120.0."""
    close_timeout: float
    """How many seconds closing may take to write the remaining records. Default: 10.0."""
