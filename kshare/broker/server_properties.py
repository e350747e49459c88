"""Broker settings as in Kafka's server.properties: which are obeyed, have no effect here, or don't exist.

Kafka itself ignores names that it doesn't know. Here they are refused: a misspelt setting would go unnoticed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from kshare.broker.request_error import RequestError
from kshare.broker.settings import TABLES, Resource, Setting, SettingType
from kshare.errors import ConfigError
from kshare.java_properties import read_properties
from kshare.protocol.error_codes import ErrorCode
from kshare.wording import nearest_name

_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000
COARSER = {
    "log.retention.minutes": ("log.retention.ms", _MINUTE_MS, -1),
    "log.retention.hours": ("log.retention.ms", _HOUR_MS, -1),
    "log.roll.hours": ("log.roll.ms", _HOUR_MS, 1),
}
"""Settings in a coarser unit → the setting in milliseconds, which takes precedence, the unit, and the least value."""
_FAMILIES = ("config.providers.", "listener.name.", "rlmm.config.", "rsm.config.")
"""Beginnings of settings for listeners and plug-ins, whose names depend on other settings."""
_NAMES = """
    add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms advertised.listeners
    alter.config.policy.class.name alter.log.dirs.replication.quota.window.num
    alter.log.dirs.replication.quota.window.size.seconds auto.leader.rebalance.enable background.threads
    broker.heartbeat.interval.ms broker.id broker.rack broker.session.timeout.ms
    client.quota.callback.class compression.gzip.level compression.lz4.level compression.type
    compression.zstd.level config.providers connection.failed.authentication.delay.ms
    connections.max.idle.ms connections.max.reauth.ms controlled.shutdown.enable controller.listener.names
    controller.quorum.append.linger.ms controller.quorum.auto.join.enable
    controller.quorum.bootstrap.servers controller.quorum.election.backoff.max.ms
    controller.quorum.election.timeout.ms controller.quorum.fetch.max.bytes
    controller.quorum.fetch.snapshot.max.bytes controller.quorum.fetch.timeout.ms
    controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms controller.quorum.voters
    controller.quota.window.num controller.quota.window.size.seconds controller.socket.timeout.ms
    cordoned.log.dirs create.topic.policy.class.name delegation.token.expiry.check.interval.ms
    delegation.token.expiry.time.ms delegation.token.max.lifetime.ms delegation.token.secret.key
    delete.records.purgatory.purge.interval.requests early.start.listeners
    fetch.purgatory.purge.interval.requests follower.fetch.last.tiered.offset.enable
    group.consumer.migration.policy
    group.coordinator.append.linger.ms group.coordinator.background.threads
    group.coordinator.cached.buffer.max.bytes group.coordinator.threads group.share.assignors group.share.enable
    group.streams.assignment.interval.ms group.streams.assignors group.streams.heartbeat.interval.ms
    group.streams.initial.rebalance.delay.ms group.streams.max.assignment.interval.ms
    group.streams.max.heartbeat.interval.ms group.streams.max.session.timeout.ms group.streams.max.size
    group.streams.max.standby.replicas group.streams.min.assignment.interval.ms
    group.streams.min.heartbeat.interval.ms group.streams.min.session.timeout.ms
    group.streams.num.standby.replicas group.streams.rack.aware.assignment.tags
    group.streams.session.timeout.ms group.streams.topology.description.plugin.class
    initial.broker.registration.timeout.ms inter.broker.listener.name kafka.metrics.polling.interval.secs
    kafka.metrics.reporters leader.imbalance.check.interval.seconds listener.security.protocol.map
    listeners log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size log.cleaner.enable
    log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size log.cleaner.io.max.bytes.per.second
    log.cleaner.max.compaction.lag.ms log.cleaner.min.cleanable.ratio log.cleaner.min.compaction.lag.ms
    log.cleaner.threads log.dir log.dir.failure.timeout.ms log.dirs log.flush.interval.messages
    log.flush.interval.ms log.flush.offset.checkpoint.interval.ms log.flush.scheduler.interval.ms
    log.flush.start.offset.checkpoint.interval.ms log.index.interval.bytes log.index.size.max.bytes
    log.initial.task.delay.ms log.local.retention.bytes log.local.retention.ms
    log.message.timestamp.after.max.ms log.message.timestamp.before.max.ms log.preallocate
    log.remote.copy.lag.bytes log.remote.copy.lag.ms log.retention.check.interval.ms log.roll.jitter.hours
    log.roll.jitter.ms log.segment.bytes log.segment.delete.delay.ms max.connection.creation.rate
    max.connections max.connections.per.ip max.connections.per.ip.overrides max.decompressed.message.bytes
    max.incremental.fetch.session.cache.slots max.request.partition.size.limit metadata.log.dir
    metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms
    metadata.log.segment.bytes metadata.log.segment.ms metadata.max.idle.interval.ms
    metadata.max.retention.bytes metadata.max.retention.ms metric.reporters metrics.num.samples
    metrics.recording.level metrics.sample.window.ms node.id num.io.threads num.network.threads
    num.recovery.threads.per.data.dir num.replica.alter.log.dirs.threads num.replica.fetchers
    offset.metadata.max.bytes offsets.commit.timeout.ms offsets.load.buffer.size
    offsets.retention.check.interval.ms offsets.retention.minutes offsets.topic.compression.codec
    offsets.topic.replication.factor offsets.topic.segment.bytes principal.builder.class process.roles
    producer.id.expiration.ms producer.purgatory.purge.interval.requests queued.max.request.bytes
    queued.max.requests quota.window.num quota.window.size.seconds remote.fetch.max.wait.ms
    remote.list.offsets.request.timeout.ms remote.log.index.file.cache.total.size.bytes
    remote.log.manager.copier.thread.pool.size remote.log.manager.copy.max.bytes.per.second
    remote.log.manager.copy.quota.window.num remote.log.manager.copy.quota.window.size.seconds
    remote.log.manager.expiration.thread.pool.size remote.log.manager.fetch.max.bytes.per.second
    remote.log.manager.fetch.quota.window.num remote.log.manager.fetch.quota.window.size.seconds
    remote.log.manager.follower.thread.pool.size remote.log.manager.task.interval.ms
    remote.log.manager.thread.pool.size remote.log.metadata.custom.metadata.max.bytes
    remote.log.metadata.manager.class.name remote.log.metadata.manager.class.path
    remote.log.metadata.manager.impl.prefix remote.log.metadata.manager.listener.name
    remote.log.reader.max.pending.tasks remote.log.reader.threads remote.log.storage.manager.class.name
    remote.log.storage.manager.class.path remote.log.storage.manager.impl.prefix
    remote.log.storage.system.enable replica.fetch.backoff.ms replica.fetch.max.bytes
    replica.fetch.min.bytes replica.fetch.response.max.bytes replica.fetch.wait.max.ms
    replica.high.watermark.checkpoint.interval.ms replica.lag.time.max.ms replica.selector.class
    replica.socket.receive.buffer.bytes replica.socket.timeout.ms replication.quota.window.num
    replication.quota.window.size.seconds request.timeout.ms sasl.client.callback.handler.class
    sasl.enabled.mechanisms sasl.jaas.config sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
    sasl.kerberos.principal.to.local.rules sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
    sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class
    sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
    sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
    sasl.mechanism.controller.protocol sasl.mechanism.inter.broker.protocol
    sasl.oauthbearer.allow.unverified.audience sasl.oauthbearer.allow.unverified.issuer
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.clock.skew.seconds
    sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
    sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
    sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope
    sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url
    sasl.server.callback.handler.class sasl.server.max.receive.size security.inter.broker.protocol
    security.providers share.coordinator.append.linger.ms share.coordinator.cached.buffer.max.bytes
    share.coordinator.load.buffer.size share.coordinator.state.topic.compression.codec
    share.coordinator.state.topic.min.isr share.coordinator.state.topic.replication.factor
    share.coordinator.state.topic.segment.bytes share.coordinator.threads
    share.coordinator.write.timeout.ms share.fetch.purgatory.purge.interval.requests
    socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms socket.listen.backlog.size
    socket.receive.buffer.bytes socket.request.max.bytes socket.send.buffer.bytes ssl.allow.dn.changes
    ssl.allow.san.changes ssl.cipher.suites ssl.client.auth ssl.enabled.protocols
    ssl.endpoint.identification.algorithm ssl.engine.factory.class ssl.key.password
    ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location
    ssl.keystore.password ssl.keystore.type ssl.principal.mapping.rules ssl.protocol ssl.provider
    ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.certificates
    ssl.truststore.location ssl.truststore.password ssl.truststore.type
    transaction.abort.timed.out.transaction.cleanup.interval.ms transaction.partition.verification.enable
    transaction.remove.expired.transaction.cleanup.interval.ms transaction.state.log.load.buffer.size
    transaction.state.log.min.isr transaction.state.log.replication.factor
    transaction.state.log.segment.bytes transaction.two.phase.commit.enable transactional.id.expiration.ms
    unclean.leader.election.enable unstable.api.versions.enable unstable.feature.versions.enable
    """
WITHOUT_EFFECT = frozenset(_NAMES.split())
"""Other settings of Kafka 4.1 to 4.4, about what isn't here: threads, files, replicas, quotas, recompression."""

_REMOVED_NAMES = """
    broker.id.generation.enable control.plane.listener.name controlled.shutdown.max.retries
    controlled.shutdown.retry.backoff.ms delegation.token.master.key inter.broker.protocol.version
    leader.imbalance.per.broker.percentage log.message.downconversion.enable log.message.format.version
    log.message.timestamp.difference.max.ms offsets.commit.required.acks reserved.broker.max.id
    """
REMOVED = frozenset(_REMOVED_NAMES.split())
"""Settings that Kafka 3 had."""
_REMOVED_FAMILIES = ("password.encoder.", "zookeeper.")


@dataclass(frozen=True, slots=True)
class ServerProperties:
    """The settings of a broker, sorted."""

    obeyed: dict[str, str]
    without_effect: tuple[str, ...]


def server_properties(path: str | Path) -> dict[str, str]:
    """The settings in a file with the format of Kafka's server.properties.

    Raises ConfigError, which names the file and the setting.
    """
    known = TABLES[Resource.BROKER]
    try:
        given = read_properties(Path(path))
        for name, value in sort_properties(given, known).obeyed.items():
            known[name].check(value)
    except OSError as problem:
        raise ConfigError(f"can't read {path}: {problem.strerror}") from None
    except RequestError as refusal:
        raise ConfigError(f"{path}: {refusal.message}") from None
    return given


def sort_properties(given: Mapping[str, str], known: Collection[str]) -> ServerProperties:
    """`known` are the settings that this release obeys. Raises RequestError for a name that no release of Kafka has."""
    obeyed = {name: value for name, value in given.items() if name in known}
    for name, (finest, unit_ms, least) in COARSER.items():
        if name in given:
            Setting(name, SettingType.INT, "", least, may_be_zero=finest in obeyed).check(given[name])
            obeyed.setdefault(finest, str(max(int(given[name]) * unit_ms, -1)))
    others = [name for name in given if name not in known and name not in COARSER]
    for name in others:
        if name in REMOVED or name.startswith(_REMOVED_FAMILIES):
            raise RequestError(ErrorCode.INVALID_CONFIG, f"{name} was removed in Kafka 4.0: leave it out")
        if not _has_no_effect(name):
            raise RequestError(
                ErrorCode.INVALID_CONFIG, f"Unknown broker config name: {name}{_advice(name, known)}"
            )
    return ServerProperties(obeyed, tuple(others))


def _has_no_effect(name: str) -> bool:
    """This includes what is only obeyed as a later release."""
    return name in WITHOUT_EFFECT or name in TABLES[Resource.BROKER] or name.startswith(_FAMILIES)


def _advice(name: str, known: Collection[str]) -> str:
    """The closest name. `KAFKA_LOG_RETENTION_MS` is how container images write `log.retention.ms`."""
    dotted = name.lower().removeprefix("kafka_").replace("_", ".")
    near = nearest_name(dotted, [*known, *COARSER, *WITHOUT_EFFECT])
    return f". Did you mean {near}?" if near else ""
