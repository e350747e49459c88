import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Java's producer, consumer and admin client, as programs use them who know nothing of share groups.
 *
 * Arguments: what to do, bootstrap servers, and more:
 *   group TOPIC GROUP VALUE...     writes the values, reads as many in the group, commits, and prints what it read
 *   transactions SOURCE TARGET GROUP   reads ten records, and writes them with their offsets in two transactions, of
 *                                  which the second is aborted
 *   admin TOPIC GROUP              prints what it sees while it creates, changes and deletes
 * Settings of the consumer may be among them (--name=value).
 */
public final class PlainClient {
    private static final Duration POLL = Duration.ofMillis(200);
    private static final long DEADLINE_MS = 60_000;
    private static final Properties consumerSettings = new Properties();
    private static String bootstrap;

    private PlainClient() {}

    public static void main(String[] arguments) throws Exception {
        List<String> words = new ArrayList<>();
        for (String each : arguments) {
            if (each.startsWith("--")) {
                String[] pair = each.substring(2).split("=", 2);
                consumerSettings.put(pair[0], pair[1]);
            } else {
                words.add(each);
            }
        }
        bootstrap = words.get(1);
        switch (words.get(0)) {
            case "group" -> group(words.get(2), words.get(3), words.subList(4, words.size()));
            case "transactions" -> transactions(words.get(2), words.get(3), words.get(4));
            case "admin" -> admin(words.get(2), words.get(3));
            default -> throw new IllegalArgumentException(words.get(0));
        }
    }

    private static void group(String topic, String group, List<String> values) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of())) {
            for (String value : values) {
                producer.send(new ProducerRecord<>(topic, value.getBytes(StandardCharsets.UTF_8))).get();
            }
        }
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(group)) {
            consumer.subscribe(List.of(topic));
            for (ConsumerRecord<byte[], byte[]> record : read(consumer, values.size())) {
                System.out.println(new String(record.value(), StandardCharsets.UTF_8));
            }
            consumer.commitSync();
        }
    }

    private static void transactions(String source, String target, String group) {
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of("transactional.id", "java-" + target));
                KafkaConsumer<byte[], byte[]> consumer = consumer(group)) {
            producer.initTransactions();
            consumer.subscribe(List.of(source));
            List<ConsumerRecord<byte[], byte[]>> records = read(consumer, 10);
            for (List<ConsumerRecord<byte[], byte[]>> half : List.of(records.subList(0, 5), records.subList(5, 10))) {
                producer.beginTransaction();
                for (ConsumerRecord<byte[], byte[]> record : half) {
                    producer.send(new ProducerRecord<>(target, record.value()));
                    producer.sendOffsetsToTransaction(
                            Map.of(new TopicPartition(source, 0), new OffsetAndMetadata(record.offset() + 1)),
                            consumer.groupMetadata());
                }
                if (half.get(0).offset() == 0) {
                    producer.commitTransaction();
                } else {
                    producer.flush();
                    producer.abortTransaction();
                }
            }
        }
    }

    private static void admin(String topic, String group) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        TopicPartition partition = new TopicPartition(topic, 0);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic(topic, Optional.of(2), Optional.empty())
                    .configs(Map.of("retention.ms", "500000")))).all().get();
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
            admin.incrementalAlterConfigs(Map.of(resource, List.of(new AlterConfigOp(
                    new ConfigEntry("max.message.bytes", "2000"), AlterConfigOp.OpType.SET)))).all().get();
            say("partitions", admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size());
            var config = admin.describeConfigs(List.of(resource)).all().get().get(resource);
            say("retention", config.get("retention.ms").value());
            say("largest", config.get("max.message.bytes").value());
            say("listed", admin.listTopics().names().get().contains(topic));
            try (KafkaProducer<byte[], byte[]> producer = producer(Map.of())) {
                for (int i = 0; i < 10; i++) {
                    producer.send(new ProducerRecord<>(topic, 0, null, new byte[] {(byte) i})).get();
                }
            }
            admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(4))).all().get();
            say("first", admin.listOffsets(Map.of(partition, OffsetSpec.earliest())).all().get().get(partition).offset());
            say("end", admin.listOffsets(Map.of(partition, OffsetSpec.latest())).all().get().get(partition).offset());
            try (KafkaConsumer<byte[], byte[]> consumer = consumer(group)) {
                consumer.subscribe(List.of(topic));
                say("read", read(consumer, 6).size());
                consumer.commitSync();
                var described = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
                say("state", described.groupState());
                say("members", described.members().size());
                say("assigned", described.members().iterator().next().assignment().topicPartitions().size());
            }
            var offsets = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
            say("committed", offsets.get(partition).offset());
            say("groups", admin.listGroups().all().get().stream().map(GroupListing::groupId).anyMatch(group::equals));
            admin.alterConsumerGroupOffsets(group, Map.of(partition, new OffsetAndMetadata(5))).all().get();
            offsets = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
            say("altered", offsets.get(partition).offset());
            admin.deleteConsumerGroups(List.of(group)).all().get();
            admin.deleteTopics(List.of(topic)).all().get(30, TimeUnit.SECONDS);
            say("still there", admin.listTopics().names().get().contains(topic));
        }
    }

    private static void say(String what, Object value) {
        System.out.println(what + "=" + value);
    }

    private static List<ConsumerRecord<byte[], byte[]>> read(KafkaConsumer<byte[], byte[]> consumer, int wanted) {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        long deadline = System.currentTimeMillis() + DEADLINE_MS;
        while (found.size() < wanted) {
            if (System.currentTimeMillis() > deadline) {
                throw new IllegalStateException("read " + found.size() + " of " + wanted);
            }
            consumer.poll(POLL).forEach(found::add);
        }
        return found;
    }

    private static KafkaProducer<byte[], byte[]> producer(Map<String, Object> more) {
        Map<String, Object> settings = new TreeMap<>(more);
        settings.put("bootstrap.servers", bootstrap);
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String group) {
        Properties settings = new Properties();
        settings.putAll(consumerSettings);
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }
}
