import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Java's share consumer, which pushes its metrics to the brokers as Kafka's client telemetry does. Accepts so many
 * records, stays for so many seconds afterwards, and is closed.
 *
 * Arguments: bootstrap servers, group, topic, records, seconds, and any number of the consumer's own settings (name=value).
 */
public final class SharePush {
    private SharePush() {}

    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        for (int i = 5; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        int wanted = Integer.parseInt(arguments[3]);
        long stay = 1000L * Integer.parseInt(arguments[4]);
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(
                settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(arguments[2]));
            long deadline = System.currentTimeMillis() + 60_000;
            int received = 0;
            while (received < wanted && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<byte[], byte[]> ignored : consumer.poll(Duration.ofMillis(500))) {
                    received++;
                }
            }
            long end = System.currentTimeMillis() + stay;
            while (System.currentTimeMillis() < end) {
                consumer.poll(Duration.ofMillis(200));
            }
            System.out.println("received " + received);
        }
    }
}
