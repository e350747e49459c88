import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** One of several consumers that share records: Kafka's own, with defaults. A record contains its handler's time. */
public final class ShareWork {
    public static void main(String[] words) throws Exception {
        Map<String, String> given = new HashMap<>();
        for (String word : words) {
            String[] pair = word.split("=", 2);
            given.put(pair[0], pair[1]);
        }
        AtomicBoolean ended = new AtomicBoolean();
        Thread watcher = new Thread(() -> waitForEndOfInput(ended));
        watcher.setDaemon(true);
        watcher.start();
        Properties settings = new Properties();
        settings.put("bootstrap.servers", given.get("bootstrap"));
        settings.put("group.id", given.get("group"));
        StringDeserializer text = new StringDeserializer();
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(settings, text, text)) {
            consumer.subscribe(List.of(given.get("topic")));
            while (!ended.get()) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                    work(record.value());
                }
            }
        }
    }

    private static void work(String value) {
        long begun = System.nanoTime();
        String[] parts = value.trim().split(" ");
        long until = begun + (long) (Double.parseDouble(parts[1]) * 1e6);
        for (long left = until - begun; left > 0; left = until - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
        System.out.println(parts[0] + " " + begun / 1e9 + " " + System.nanoTime() / 1e9);
    }

    private static void waitForEndOfInput(AtomicBoolean ended) {
        try {
            while (System.in.read() >= 0) {
                continue;
            }
            ended.set(true);
            Thread.sleep(20_000);
            Runtime.getRuntime().halt(1);
        } catch (Exception problem) {
            Runtime.getRuntime().halt(2);
        }
    }
}
