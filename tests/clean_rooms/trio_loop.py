"""A consumer and a worker on trio."""

import trio

from kshare.testing import Broker

from .shared import run_shop, start_at_the_beginning, write_and_read

with Broker(topics={"orders": 1}) as broker:
    start_at_the_beginning(broker, "readers", "shippers")
    trio.run(write_and_read, broker.bootstrap)
    run_shop(broker.bootstrap, "trio")
