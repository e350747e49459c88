"""The command line: a worker, an exporter, and commands that read a cluster."""

import os
import subprocess
import sys
import urllib.request
from pathlib import Path

from kshare.testing import Broker

KSHARE = Path(sys.executable).with_name("kshare")


def said(*arguments: str) -> str:
    done = subprocess.run([KSHARE, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done.stdout


with Broker(topics={"orders": 1}) as broker:
    broker.set_group_config("shippers", {"share.auto.offset.reset": "earliest"})
    broker.produce("orders", [b"tea"])
    os.environ["KSHARE_BOOTSTRAP_SERVER"] = broker.bootstrap
    os.chdir(Path(__file__).parent)
    assert "shipped tea" in said("worker", "shop:worker")
    assert "shippers" in said("groups", "list")
    assert "orders" in said("groups", "describe", "shippers")
    assert "shippers" in said("doctor")
    with subprocess.Popen(
        [KSHARE, "exporter", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True
    ) as exporter:
        assert exporter.stdout is not None
        try:
            address = exporter.stdout.readline().split()[-1]
            with urllib.request.urlopen(address, timeout=10) as page:
                assert b"kshare_exporter_up" in page.read()
        finally:
            exporter.terminate()
