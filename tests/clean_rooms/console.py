"""The web console with its demo, page by page."""

import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path


def page(address: str) -> bytes:
    """Until the console has read the cluster, it says so with status 503."""
    deadline = time.monotonic() + 30
    while True:
        try:
            with urllib.request.urlopen(address, timeout=30) as response:
                read: bytes = response.read()
                return read
        except urllib.error.HTTPError as error:
            assert error.code == 503, (address, error)
            assert time.monotonic() < deadline, (address, error)
            time.sleep(0.2)


command = [str(Path(sys.executable).with_name("kshare")), "web", "--demo", "--listen", "127.0.0.1:0"]
with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as console:
    assert console.stdout is not None
    try:
        address = next(word for line in console.stdout for word in line.split() if word.startswith("http://"))
        for path in ("", "group?name=packers", "records", "dead-letters", "workers", "wire"):
            assert b"</html>" in page(f"{address.rstrip('/')}/{path}"), path
    finally:
        console.terminate()
