"""A command that logs in with SASL."""

import subprocess
import sys
import tempfile
from pathlib import Path

from kshare.testing import Broker

PROPERTIES = """
security.protocol=SASL_PLAINTEXT
sasl.mechanism=SCRAM-SHA-256
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="hush";
"""

with Broker(topics={"orders": 1}, users={"alice": "hush"}) as broker, tempfile.TemporaryDirectory() as folder:
    properties = Path(folder, "client.properties")
    properties.write_text(PROPERTIES)
    kshare = Path(sys.executable).with_name("kshare")
    command = [str(kshare), "topics", "list", "-b", broker.bootstrap, "--command-config", str(properties)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "orders" in done.stdout
