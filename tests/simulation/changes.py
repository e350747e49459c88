"""What changes in a world while its programs run: topics, groups, and what brokers have kept of them.

Only with `--changes`: a plan has some of these, and they happen besides its faults.

    change     | what happens
    -----------+------------------------------------------------------------------------------------------
    suspend    | a program stands still for a while, as SIGSTOP does
    crash      | a node stops, and loses what it hasn't flushed, of the topic and of the group's state
    deletion   | somebody deletes the oldest records of a partition
    retention  | records are kept only for a moment, for a while
    compaction | only the last record of each key is kept, for a while
    recreation | the topic is deleted, and created again under the same name
    partitions | the topic gets more partitions
    settings   | the group's limits and timeouts change
    reset      | all members leave, the group's offsets are reset, and members come back

An operator changes topics and groups with an AdminClient, through the same network as everybody else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING, Any

import anyio

from kshare import AdminClient, KshareError
from kshare.admin.config import admin_settings
from kshare.admin.offsets import ResetPoint
from kshare.admin.record_deletion import delete_records_before
from kshare.admin.routing import Router
from kshare.broker.cluster import SHARE_STATE_TOPIC, Partition
from kshare.broker.cluster_server import ClusterServer
from kshare.net.pool import Pool
from kshare.protocol.messages import CreatePartitionsRequest
from kshare.protocol.messages.create_partitions_request import CreatePartitionsTopic
from kshare.surroundings import monotonic
from tests.simulation.processes import Process, wall_time_at

if TYPE_CHECKING:
    from tests.simulation.world import World

_MEAN_S = 1.0
"""Between two changes."""
_MOST_PARTITIONS = 12
_TIMEOUT_S = 5.0
_EMPTY_S = 40.0
"""How long it may take until a group is empty: killed members are in it until their session ends."""
_SHORT_RETENTION = {"retention.ms": "300"}
_COMPACTION = {"cleanup.policy": "compact,delete", "segment.ms": "100", "delete.retention.ms": "0"}


class Changes:
    def __init__(self, world: World, server: ClusterServer) -> None:
        self._world = world
        self._server = server
        self._cluster = world.broker.cluster
        self._chance = Random(f"{world.plan.seed} what changes")

    async def run(self) -> None:
        world, chance = self._world, self._chance
        operator: Process = world.new_process("operator")
        operator.enter()
        kinds = sorted(world.plan.changes)
        try:
            async with anyio.create_task_group() as self._tasks:
                await anyio.sleep(chance.expovariate(1 / _MEAN_S))
                while not world.is_over:
                    kind = chance.choice(kinds)
                    world.done[kind] += 1
                    world.note("operator", kind)
                    await getattr(self, f"_{kind}")()
                    await anyio.sleep(chance.expovariate(1 / _MEAN_S))
        finally:
            operator.ended.set()

    def _note(self, what: str) -> None:
        self._world.note("operator", what)

    async def _try(self, call: Callable[[AdminClient], Awaitable[Any]]) -> bool:
        """Returns whether it has succeeded. If not, nobody knows whether it was done."""
        try:
            async with AdminClient(self._world.bootstrap, request_timeout=_TIMEOUT_S) as admin:
                await call(admin)
        except KshareError as error:
            self._note(f"{type(error).__name__}: {error}")
            return False
        return True

    async def _insist(self, call: Callable[[AdminClient], Awaitable[Any]]) -> None:
        while not await self._try(call):
            await anyio.sleep(0.3)

    async def _route(self, call: Callable[[Router], Awaitable[Any]]) -> None:
        """For requests that AdminClient has no method for."""
        settings = admin_settings(self._world.bootstrap, {"request_timeout": _TIMEOUT_S})
        try:
            async with Pool(settings) as pool:
                await pool.bootstrap()
                await call(Router(pool, _TIMEOUT_S))
        except KshareError as error:
            self._note(f"{type(error).__name__}: {error}")

    # --- programs and nodes

    async def _suspend(self) -> None:
        world, chance = self._world, self._chance
        alive = [
            process for process in world.processes if world.may_be_killed(process) and not process.was_killed
        ]
        running = [process for process in alive if not process.ended.is_set()]
        if running:
            process, seconds = chance.choice(running), chance.choice([0.3, 1.2, 3.0, 8.0])
            world.suspend(process)
            self._tasks.start_soon(self._resume, process, seconds)

    async def _resume(self, process: Process, seconds: float) -> None:
        await anyio.sleep(seconds)
        self._world.resume(process)

    async def _crash(self) -> None:
        world, chance = self._world, self._chance
        up = [node for node in self._cluster.nodes.values() if node.is_up and node.id not in world.crashing]
        if not up:
            return
        node, since = chance.choice(up), monotonic() - chance.choice([0.05, 0.3, 1.0])
        led = [partition for partition in self._cluster.partitions() if partition.leader == node.id]
        loses_log = not world.group or chance.random() < 0.5
        self._note(f"node-{node.id} crashes")
        world.crashing.add(node.id)
        await self._server.stop_node(node)
        world.crashing.discard(node.id)
        for partition in led if loses_log else ():
            if partition.topic.name == world.topic:
                self._lose_records(partition, since)
        for partition in led:
            if partition.topic.name == SHARE_STATE_TOPIC:
                self._lose_state(partition, since)
        await anyio.sleep(chance.uniform(0.1, 2.0))
        if not node.is_up:
            await self._server.start_node(node)

    def _lose_state(self, home: Partition, since: float) -> None:
        world = self._world
        lost = world.broker.share_states.lose_since(home, round(wall_time_at(since) * 1000))
        for group, topic_id, index in sorted(lost):
            topic = self._cluster.find(world.topic)
            if group == world.group and topic is not None and topic.id == topic_id:
                self._note(f"the state of [{index}] since {since:.6f} is lost")
                world.ledger.lost_state(index, since)

    def _lose_records(self, partition: Partition, since: float) -> None:
        world = self._world
        before = partition.log.end_offset
        end = partition.log.lose_from(world.ledger.appended_since(partition, since))
        if end < before:
            self._note(f"[{partition.index}]@{end} to {before - 1} are lost")
            world.ledger.lost(partition)

    # --- topics

    async def _deletion(self) -> None:
        topic = self._cluster.topics[self._world.topic]
        partition = self._chance.choice(topic.partitions)
        offset = self._chance.randint(partition.log.start_offset, partition.log.end_offset)
        self._note(f"delete [{partition.index}] before {offset}")
        await self._route(lambda router: delete_records_before(router, topic.name, partition.index, offset))

    async def _retention(self) -> None:
        await self._configured_for_a_while(_SHORT_RETENTION)

    async def _compaction(self) -> None:
        await self._configured_for_a_while(_COMPACTION)

    async def _configured_for_a_while(self, config: dict[str, str]) -> None:
        topic = self._world.topic
        await self._try(lambda admin: admin.alter_topic_config(topic, config))
        await anyio.sleep(self._chance.uniform(0.3, 2.0))
        await self._insist(lambda admin: admin.alter_topic_config(topic, dict.fromkeys(config)))

    async def _recreation(self) -> None:
        world, topic = self._world, self._world.topic
        count = world.partitions
        while not await self._try(lambda admin: admin.delete_topic(topic)) and topic in self._cluster.topics:
            await anyio.sleep(0.3)
        await anyio.sleep(self._chance.choice([0.0, 0.0, 0.3, 1.5]))
        while not await self._try(lambda admin: admin.create_topic(topic, count)):
            if topic in self._cluster.topics:
                break
            await anyio.sleep(0.3)

    async def _partitions(self) -> None:
        world = self._world
        count = min(_MOST_PARTITIONS, world.partitions + self._chance.choice([1, 2]))
        if count == world.partitions:
            return
        self._note(f"{count} partitions")
        request = CreatePartitionsRequest([CreatePartitionsTopic(world.topic, count, None)], 1000)
        await self._route(lambda router: router.ask_any(request, lambda response: ()))

    # --- the group

    async def _settings(self) -> None:
        chance = self._chance
        changes = {
            "share.record.lock.duration.ms": str(chance.choice([1000, 1500, 3000])),
            "share.partition.max.record.locks": str(chance.choice([100, 300, 2000])),
            "share.session.timeout.ms": str(chance.choice([3000, 4000, 8000])),
            "share.heartbeat.interval.ms": str(chance.choice([500, 1000])),
            "share.delivery.count.limit": str(chance.choice([3, 5, 8])),
        }
        changed = {name: changes[name] for name in chance.sample(sorted(changes), chance.choice([1, 2]))}
        self._note(", ".join(f"{name}={value}" for name, value in changed.items()))
        await self._try(lambda admin: admin.alter_group_config(self._world.group, changed))

    async def _reset(self) -> None:
        world, topic = self._world, self._world.topic
        points: list[ResetPoint] = ["earliest", "earliest", "latest"]
        to = self._chance.choice(points)
        self._note(f"reset to {to}")
        async with world.emptied_group():
            with anyio.move_on_after(_EMPTY_S):
                while not await self._try(
                    lambda admin: admin.reset_share_group_offsets(world.group, to, {topic: None})
                ):
                    await anyio.sleep(1.0)
