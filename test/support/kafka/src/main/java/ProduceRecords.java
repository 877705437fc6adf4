import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Carries out one command per line of standard input, a JSON object with "id" and "op", and answers each with one line
 * {id, ...result} or {id, error}. Several producers can be open, so transactions can interleave. Ends with its input.
 * producer.ts beside the pom documents the commands. Argument: bootstrap servers.
 */
public final class ProduceRecords {
  private static final ObjectMapper JSON = new ObjectMapper();

  private final String bootstrap;
  private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();

  private ProduceRecords(String bootstrap) {
    this.bootstrap = bootstrap;
  }

  public static void main(String[] args) throws IOException {
    ProduceRecords tool = new ProduceRecords(args[0]);
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      JsonNode command = JSON.readTree(line);
      ObjectNode answer = JSON.createObjectNode();
      answer.set("id", command.get("id"));
      try {
        tool.carryOut(command, answer);
      } catch (Exception failure) {
        Throwable cause = failure.getCause() == null ? failure : failure.getCause();
        answer.put("error", cause.toString());
      }
      System.out.println(JSON.writeValueAsString(answer));
    }
    // A transaction left open stays open, as after a crash.
    Runtime.getRuntime().halt(0);
  }

  private void carryOut(JsonNode command, ObjectNode answer) throws Exception {
    switch (command.get("op").asText()) {
      case "open" -> open(command);
      case "begin" -> producer(command).beginTransaction();
      case "commit" -> producer(command).commitTransaction();
      case "abort" -> producer(command).abortTransaction();
      case "close" -> producers.remove(command.get("producer").asText()).close();
      case "send" -> send(command, answer);
      case "fill" -> fill(command, answer);
      case "deleteRecords" -> deleteRecords(command);
      default -> throw new IllegalArgumentException("unknown op " + command.get("op"));
    }
  }

  private KafkaProducer<byte[], byte[]> producer(JsonNode command) {
    return producers.get(command.get("producer").asText());
  }

  private void open(JsonNode command) {
    Properties config = new Properties();
    config.put("bootstrap.servers", bootstrap);
    command.get("config").properties().forEach(entry -> config.put(entry.getKey(), entry.getValue().asText()));
    KafkaProducer<byte[], byte[]> producer =
        new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
    if (config.containsKey("transactional.id")) producer.initTransactions();
    producers.put(command.get("producer").asText(), producer);
  }

  private void send(JsonNode command, ObjectNode answer) throws Exception {
    String topic = command.get("topic").asText();
    List<Future<RecordMetadata>> sent = new ArrayList<>();
    for (JsonNode record : command.get("records")) {
      Integer partition = record.has("partition") ? record.get("partition").asInt() : null;
      Long timestamp = record.has("timestamp") ? Long.valueOf(record.get("timestamp").asText()) : null;
      ProducerRecord<byte[], byte[]> message =
          new ProducerRecord<>(topic, partition, timestamp, bytes(record.get("key")), bytes(record.get("value")));
      if (record.has("headers")) {
        for (JsonNode header : record.get("headers")) {
          message.headers().add(header.get(0).asText(), bytes(header.get(1)));
        }
      }
      sent.add(producer(command).send(message));
    }
    producer(command).flush();
    ArrayNode offsets = answer.putArray("offsets");
    for (Future<RecordMetadata> one : sent) {
      ArrayNode pair = offsets.addArray();
      pair.add(one.get().partition());
      pair.add(Long.toString(one.get().offset()));
    }
  }

  /** Keys are 8 bytes, the record's number; values begin with it too and go on with words. */
  private void fill(JsonNode command, ObjectNode answer) throws Exception {
    int count = command.get("count").asInt();
    int size = command.get("valueSize").asInt();
    String topic = command.get("topic").asText();
    Integer partition = command.has("partition") ? command.get("partition").asInt() : null;
    byte[] words = words(size);
    Future<RecordMetadata> first = null;
    Future<RecordMetadata> last = null;
    for (int number = 0; number < count; number++) {
      byte[] key = ByteBuffer.allocate(8).putLong(number).array();
      byte[] value = new byte[size];
      System.arraycopy(words, (number * 31) % words.length / 2, value, 0, size);
      System.arraycopy(key, 0, value, 0, Math.min(size, key.length));
      last = producer(command).send(new ProducerRecord<>(topic, partition, key, value));
      if (first == null) first = last;
    }
    producer(command).flush();
    if (first == null) return;
    answer.put("first", Long.toString(first.get().offset()));
    answer.put("last", Long.toString(last.get().offset()));
  }

  private static byte[] words(int size) {
    String[] vocabulary = {"north", "river", "seven", "cloud", "amber", "quiet", "stone", "paper"};
    Random random = new Random(1);
    StringBuilder text = new StringBuilder();
    while (text.length() < 2 * size + 64) text.append(vocabulary[random.nextInt(8)]).append(random.nextInt(100)).append(' ');
    return text.toString().getBytes(StandardCharsets.US_ASCII);
  }

  private void deleteRecords(JsonNode command) throws Exception {
    Map<TopicPartition, RecordsToDelete> before = new HashMap<>();
    command
        .get("before")
        .properties()
        .forEach(
            entry ->
                before.put(
                    new TopicPartition(command.get("topic").asText(), Integer.parseInt(entry.getKey())),
                    RecordsToDelete.beforeOffset(Long.parseLong(entry.getValue().asText()))));
    try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
      admin.deleteRecords(before).all().get();
    }
  }

  private static byte[] bytes(JsonNode base64) throws IOException {
    return base64 == null || base64.isNull() ? null : base64.binaryValue();
  }
}
