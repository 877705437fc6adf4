import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.io.SerializedString;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Prints every record of a topic, from its first offset to the end at the start of the call, as one JSON line
 * {partition, offset, timestamp, timestampType, key, value, headers: [[name, value]]}; bytes are base64 or null.
 * Arguments: bootstrap servers, topic, isolation level (read_committed or read_uncommitted).
 */
public final class ReadTopic {
  private static final Duration POLL = Duration.ofMillis(500);

  public static void main(String[] args) throws IOException {
    try (KafkaConsumer<byte[], byte[]> consumer = open(args[0], args[2]);
        JsonGenerator json =
            new JsonFactory().createGenerator(new BufferedOutputStream(System.out, 1 << 16))) {
      json.setRootValueSeparator(new SerializedString("\n"));
      List<TopicPartition> partitions =
          consumer.partitionsFor(args[1]).stream()
              .map(info -> new TopicPartition(info.topic(), info.partition()))
              .sorted(Comparator.comparingInt(TopicPartition::partition))
              .toList();
      Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
      for (TopicPartition partition : partitions) {
        readPartition(consumer, partition, ends.get(partition), json);
      }
    }
  }

  private static KafkaConsumer<byte[], byte[]> open(String bootstrap, String isolation) {
    Properties config = new Properties();
    config.put("bootstrap.servers", bootstrap);
    config.put("isolation.level", isolation);
    config.put("enable.auto.commit", "false");
    config.put("auto.offset.reset", "none");
    config.put("max.poll.records", "10000");
    config.put("check.crcs", "true");
    return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
  }

  /** The position, not a record's offset, tells the end: transaction markers and compacted records have no record. */
  private static void readPartition(
      KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, long end, JsonGenerator json)
      throws IOException {
    consumer.assign(List.of(partition));
    consumer.seekToBeginning(List.of(partition));
    while (consumer.position(partition) < end) {
      for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
        if (record.offset() < end) write(record, json);
      }
    }
  }

  private static void write(ConsumerRecord<byte[], byte[]> record, JsonGenerator json)
      throws IOException {
    json.writeStartObject();
    json.writeNumberField("partition", record.partition());
    json.writeStringField("offset", Long.toString(record.offset()));
    json.writeStringField("timestamp", Long.toString(record.timestamp()));
    json.writeNumberField("timestampType", record.timestampType().id);
    writeBytes(json, "key", record.key());
    writeBytes(json, "value", record.value());
    json.writeArrayFieldStart("headers");
    for (Header header : record.headers()) {
      json.writeStartArray();
      json.writeString(header.key());
      if (header.value() == null) json.writeNull();
      else json.writeBinary(header.value());
      json.writeEndArray();
    }
    json.writeEndArray();
    json.writeEndObject();
  }

  private static void writeBytes(JsonGenerator json, String field, byte[] bytes) throws IOException {
    if (bytes == null) json.writeNullField(field);
    else json.writeBinaryField(field, bytes);
  }

  private ReadTopic() {}
}
