"""Commands that checks suggest."""

from __future__ import annotations

from kshare.wording import shell_word


def set_command(server: str, group: str, setting: str) -> str:
    return f"kshare groups config set {shell_word(group)} {shell_word(setting)} --bootstrap-server {server}"


def create_command(server: str, topic: str, config: str = "") -> str:
    options = f" --config {config}" if config else ""
    return f"kshare topics create {shell_word(topic)}{options} --bootstrap-server {server}"


def topic_config_command(server: str, topic: str, config: str) -> str:
    return (
        f"kafka-configs.sh --bootstrap-server {server} --alter --entity-type topics --entity-name {topic} "
        f"--add-config {config}"
    )
