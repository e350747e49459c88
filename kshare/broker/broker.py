"""The state of the embedded cluster that handlers work on: cluster, clock, groups and producers. No sockets.

One `Broker` is a whole cluster: its nodes differ in their listeners and in the partitions they lead. `server` opens the
sockets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from kshare.broker.authorizer import Authorizer
from kshare.broker.client_metrics import ClientMetrics
from kshare.broker.clock import Clock, SystemClock
from kshare.broker.cluster import Cluster, Node
from kshare.broker.configs import Configs
from kshare.broker.counters import Counters
from kshare.broker.faults import Faults
from kshare.broker.groups import Groups
from kshare.broker.log_cleaner import LogCleaner
from kshare.broker.profiles import DEFAULT_RELEASE, profile
from kshare.broker.transactions import Transactions
from kshare.log_text import escaped
from kshare.protocol.json_form import uuid_text
from kshare.summary_log import SummaryLog
from kshare.surroundings import random_bytes

if TYPE_CHECKING:
    from kshare.broker.classic_groups.coordinator import ClassicGroups
    from kshare.broker.consumer_groups.consumer_groups import ConsumerGroups
    from kshare.broker.share_groups.share_groups import ShareGroups
    from kshare.broker.share_state.coordinator import ShareCoordinator
    from kshare.broker.shares.shares import Shares


def random_uuid() -> bytes:
    """16 random bytes. Their text doesn't begin with `-`, which command-line tools would take for an option."""
    return b"\x5a" + random_bytes(15)


class Broker:
    """The state of an embedded cluster."""

    def __init__(
        self,
        *,
        nodes: int = 1,
        clock: Clock | None = None,
        settings: Mapping[str, str] | None = None,
        release: str = DEFAULT_RELEASE,
        new_uuid: Callable[[], bytes] = random_uuid,
    ) -> None:
        self.clock = clock or SystemClock()
        self.new_uuid = new_uuid
        self.profile = profile(release)
        self.configs = Configs(settings, has_dead_letters=self.profile.since_4_4)
        self.cluster = Cluster(self.configs, uuid_text(new_uuid()), new_uuid)
        self.groups = Groups()
        self.transactions = Transactions(
            self.clock, lambda: self.configs.broker_number("transaction.max.timeout.ms")
        )
        self.cluster.topic_deleted.append(self.transactions.forget_topic)
        self.authorizer = Authorizer(self.configs)
        self.client_metrics = ClientMetrics(self.configs)
        self.faults = Faults(self.cluster.nodes)
        self.counters = Counters()
        self.upkeep = LogCleaner(self.clock, self.cluster, self.configs)
        self.flush: Callable[[], None] = lambda: None
        """Called before every response, so that changes are stored before they are confirmed to clients."""
        self.log = SummaryLog(logging.getLogger("kshare.broker"))
        """For messages that a client can cause with every request."""
        if self.configs.without_effect:
            names = escaped(", ".join(self.configs.without_effect))
            logging.getLogger("kshare.broker").warning(
                "broker settings without effect in the embedded broker: %s", names
            )
        self.crashes: list[Exception] = []
        """Unexpected exceptions of handlers. Each is a bug in this broker, and tests can check for them."""
        for number in range(1, nodes + 1):
            self.cluster.add_node(Node(number))

    # These are imported when a request first needs them: they are most of the broker, which should start quickly.

    @cached_property
    def classic_groups(self) -> ClassicGroups:
        from kshare.broker.classic_groups.coordinator import ClassicGroups

        made = ClassicGroups(self.clock, self.configs, self.groups)
        self.transactions.ended.append(made.offsets.end_transaction)
        self.cluster.topic_deleted.append(lambda topic: made.offsets.forget_topic(topic.name))
        return made

    @cached_property
    def consumer_groups(self) -> ConsumerGroups:
        from kshare.broker.consumer_groups.consumer_group import GroupBehavior
        from kshare.broker.consumer_groups.consumer_groups import ConsumerGroups, supported_assignors

        since_4_2, since_4_4 = self.profile.since_4_2, self.profile.since_4_4
        behavior = GroupBehavior(
            assignors=supported_assignors(self.configs.broker("group.consumer.assignors")),
            first_epoch=1 if since_4_2 else 0,
            assigns_at_once_after_empty=since_4_4,
            rebalances_for_assignor=since_4_4,
            keeps_partition_epochs=since_4_2,
            accepts_joining_again=since_4_2,
            describes_revoking=since_4_2,
        )
        return ConsumerGroups(
            self.clock,
            self.configs,
            self.cluster,
            self.groups,
            self.classic_groups.offsets.forget_group,
            behavior,
            has_interval=since_4_2,
        )

    @cached_property
    def share_states(self) -> ShareCoordinator:
        from kshare.broker.share_state.coordinator import ShareCoordinator

        return ShareCoordinator(self.cluster, self.configs, self.clock, self.counters)

    @cached_property
    def share_groups(self) -> ShareGroups:
        from kshare.broker.share_groups.share_groups import ShareGroups

        return ShareGroups(
            self.clock,
            self.configs,
            self.cluster,
            self.groups,
            self.share_states,
            assigns_at_once_after_empty=self.profile.since_4_4,
        )

    @cached_property
    def shares(self) -> Shares:
        from kshare.broker.shares.dead_letters import DeadLetters
        from kshare.broker.shares.share_partition_leader import ShareContext
        from kshare.broker.shares.shares import Shares

        has_dead_letters = self.profile.since_4_4
        return Shares(
            ShareContext(
                self.clock,
                self.configs,
                self.cluster,
                self.share_states,
                DeadLetters(self.clock, self.configs, self.cluster, self.log) if has_dead_letters else None,
                self.counters,
                since_4_2=self.profile.since_4_2,
            )
        )
