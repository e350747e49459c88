import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.BinaryNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.record.internal.MemoryRecords;

/**
 * Kafka's own opinion on what bytes a message has and what bytes mean.
 *
 * Reads lines of four fields between tabs, and answers each with a line of two:
 *   encode, name, version, JSON    gives  ok, base64
 *   decode, name, version, base64  gives  ok, JSON
 * Whatever goes wrong is answered with: error, and a text.
 */
public final class Judge {
    private static final List<String> PACKAGES = List.of(
        "org.apache.kafka.common.message.",
        "org.apache.kafka.coordinator.share.generated.",
        "org.apache.kafka.coordinator.group.generated.");
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, Kind> KINDS = new HashMap<>();

    /** One message class with its generated converter. */
    private record Kind(Class<?> type, Method fromJson, Method toJson) { }

    public static void main(String[] arguments) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        BufferedWriter out = new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.write(answer(line));
            out.write('\n');
            // Answers leave in bundles while more questions are waiting.
            if (!in.ready()) {
                out.flush();
            }
        }
        out.flush();
    }

    private static String answer(String line) {
        try {
            String[] fields = line.split("\t", 4);
            if (fields.length != 4) {
                throw new IllegalArgumentException("expected four fields, got " + fields.length);
            }
            Kind kind = kind(fields[1]);
            short version = Short.parseShort(fields[2]);
            return "ok\t" + switch (fields[0]) {
                case "encode" -> encode(kind, version, fields[3]);
                case "decode" -> decode(kind, version, fields[3]);
                default -> throw new IllegalArgumentException("no such verb: " + fields[0]);
            };
        } catch (InvocationTargetException wrapped) {
            return error(wrapped.getCause());
        } catch (Exception | StackOverflowError problem) {
            return error(problem);
        }
    }

    private static String error(Throwable problem) {
        return "error\t" + problem.toString().replaceAll("\\s+", " ");
    }

    private static String encode(Kind kind, short version, String json) throws Exception {
        ApiMessage message = (ApiMessage) kind.fromJson.invoke(null, JSON.readTree(json), version);
        ByteBuffer bytes = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] body = new byte[bytes.remaining()];
        bytes.get(body);
        return Base64.getEncoder().encodeToString(body);
    }

    private static String decode(Kind kind, short version, String base64) throws Exception {
        ByteBuffer bytes = ByteBuffer.wrap(Base64.getDecoder().decode(base64));
        ApiMessage message = (ApiMessage) kind.type.getConstructor().newInstance();
        message.read(new ByteBufferAccessor(bytes), version);
        if (bytes.hasRemaining()) {
            throw new IllegalArgumentException(bytes.remaining() + " bytes left over");
        }
        JsonNode json = (JsonNode) kind.toJson.invoke(null, message, version);
        restoreRecords(message, json);
        return JSON.writeValueAsString(json);
    }

    /** The generated converters write an empty node for every field of records: put the bytes back. */
    private static void restoreRecords(Object value, JsonNode json) throws Exception {
        if (json instanceof ArrayNode array && value instanceof Iterable<?> items) {
            Iterator<JsonNode> nodes = array.elements();
            for (Object item : items) {
                restoreRecords(item, nodes.next());
            }
        } else if (json instanceof ObjectNode object) {
            for (Map.Entry<String, JsonNode> field : object.properties()) {
                Object held = value.getClass().getMethod(field.getKey()).invoke(value);
                if (held instanceof MemoryRecords records) {
                    field.setValue(new BinaryNode(bytesOf(records)));
                } else if (field.getValue().isContainerNode()) {
                    restoreRecords(held, field.getValue());
                }
            }
        }
    }

    private static byte[] bytesOf(MemoryRecords records) {
        ByteBuffer buffer = records.buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    private static Kind kind(String name) throws ClassNotFoundException {
        Kind known = KINDS.get(name);
        if (known == null) {
            known = find(name);
            KINDS.put(name, known);
        }
        return known;
    }

    private static Kind find(String name) throws ClassNotFoundException {
        for (String place : PACKAGES) {
            for (String suffix : List.of("Data", "")) {
                try {
                    Class<?> type = Class.forName(place + name + suffix);
                    Class<?> converter = Class.forName(type.getName() + "JsonConverter");
                    return new Kind(type, method(converter, "read", 2), method(converter, "write", 2));
                } catch (ClassNotFoundException elsewhere) {
                    continue;
                }
            }
        }
        throw new ClassNotFoundException("Kafka has no message named " + name);
    }

    private static Method method(Class<?> converter, String name, int parameters) {
        return Arrays.stream(converter.getMethods())
            .filter(found -> found.getName().equals(name) && found.getParameterCount() == parameters)
            .findFirst()
            .orElseThrow();
    }
}
