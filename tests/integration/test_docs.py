"""Runs the documented examples that need a broker, with a real one instead of localhost:9092."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from kafka import KafkaProducer

from tests.helpers.documents import BROKER, DOCUMENTS, ROOT, blocks
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.java]

IN_SPARK = {"spark.md"}
"""Run by tests/spark, because they need Spark."""
WITH_BROKER = [
    path
    for path in DOCUMENTS
    if path.name not in IN_SPARK
    and any(language == "python" and BROKER in text for language, text in blocks(path))
]


def test_these_documents_have_examples() -> None:
    assert {path.name for path in WITH_BROKER} == {"README.md", "consumer.md", "shutdown.md"}


@pytest.mark.parametrize("document", WITH_BROKER, ids=lambda path: path.name)
def test_examples_run_against_a_broker(kafka: Cluster, document: Path) -> None:
    """All examples use the topic `orders`, and end with the record `last`."""
    code = "\n".join(text for language, text in blocks(document) if language == "python" and BROKER in text)
    groups = set(re.findall(r"""group(?:=|": )"(\w+)\"""", code))
    topic = f"orders-{document.stem.lower()}"
    kafka.create_topic(topic)
    for group in groups:
        kafka.set_group_config(f"{group}-{document.stem}", {"share.auto.offset.reset": "earliest"})
        code = code.replace(f'"{group}"', f'"{group}-{document.stem}"')
    code = code.replace(f'["orders-{document.stem}"]', f'["{topic}"]').replace(BROKER, kafka.bootstrap)
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
    for value in (b"first", b"broken", b"early", b"last"):
        producer.send(topic, value)
    producer.close()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
