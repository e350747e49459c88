"""The fixtures of the pytest plugin, which pytest finds by itself."""

import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = """
from kshare.worker import Worker


def test_orders(kshare_broker):
    kshare_broker.create_topic("orders")
    kshare_broker.produce("orders", [b"tea"])
    assert [record.value for record in kshare_broker.records("orders")] == [b"tea"]


def test_worker(kshare_run_worker):
    worker = Worker("kafka.example:9092", group="shippers")
    shipped = []

    @worker.handler("orders")
    def ship(order: str):
        shipped.append(order)

    with kshare_run_worker(worker) as running:
        running.produce("orders", b"tea")
        running.wait_until_settled()
    assert shipped == ["tea"]
"""

with tempfile.TemporaryDirectory() as folder:
    Path(folder, "test_shop.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shop.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout, done.stdout
