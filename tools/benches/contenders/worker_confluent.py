"""A loop over confluent-kafka's share consumer with a pool of threads. A handler sleeps as long as its record says."""

from __future__ import annotations

import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

import confluent_kafka

from tools.benches.contenders.arguments import arguments, end_of_input
from tools.benches.contenders.meter import Meter


def work(given: dict[str, str]) -> None:
    end_of_input()
    meter, records, seen = Meter(), int(given["records"]), 0
    consumer = confluent_kafka.ShareConsumer(
        {
            "bootstrap.servers": given["bootstrap"],
            "group.id": given["group"],
            "share.acknowledgement.mode": "explicit",
        }
    )
    consumer.subscribe([given["topic"]])
    with ThreadPoolExecutor(int(given["concurrency"])) as pool:
        while seen < records:
            messages = [one for one in consumer.poll(0.5) if one.error() is None]
            if messages and not seen:
                meter.on_records()
            running = {pool.submit(time.sleep, float(one.value() or b"0") / 1000): one for one in messages}
            # All have to be acknowledged before the next poll.
            while running:
                done: set[Future[None]] = wait(running, return_when=FIRST_COMPLETED).done
                for one in done:
                    consumer.acknowledge(running.pop(one), confluent_kafka.AcknowledgeType.ACCEPT)
                    seen += 1
    consumer.close()
    meter.report(records)


if __name__ == "__main__":
    work(arguments())
