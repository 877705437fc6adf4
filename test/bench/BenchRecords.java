import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Fills a topic of the benchmark, the same bytes each time: java -cp '.tools/kafka/*' BenchRecords.java
 * BOOTSTRAP TOPIC PARTITIONS COUNT COMPRESSION (orders | words BYTES). Record i goes to partition i mod PARTITIONS.
 */
public final class BenchRecords {
  private static final long START = Instant.parse("2026-01-01T00:00:00Z").toEpochMilli();
  private static final DateTimeFormatter ISO =
      DateTimeFormatter.ofPattern("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'").withZone(ZoneOffset.UTC);
  private int state = 42;

  public static void main(String[] args) throws Exception {
    Properties config = new Properties();
    config.put("bootstrap.servers", args[0]);
    config.put("compression.type", args[4]);
    config.put("linger.ms", "20");
    config.put("batch.size", "16384");
    int partitions = Integer.parseInt(args[2]);
    int count = Integer.parseInt(args[3]);
    int size = args[5].equals("words") ? Integer.parseInt(args[6]) : 0;
    new BenchRecords().fill(config, args[1], partitions, count, size);
  }

  private void fill(Properties config, String topic, int partitions, int count, int size) throws Exception {
    Throwable[] failed = new Throwable[1];
    try (var producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
      byte[][] words = size > 0 ? words(200) : null;
      for (int i = 0; i < count; i++) {
        long timestamp = START + 37L * i;
        String key;
        byte[] value;
        if (size == 0) {
          long number = draw();
          long cents = draw() % 1_000_000;
          long customer = draw() % 100_000;
          key = "c" + customer;
          value = order(i, number, cents, timestamp, customer);
        } else {
          key = String.format("%08x", i);
          value = sentence(words, i, size);
        }
        var record = new ProducerRecord<>(topic, i % partitions, timestamp, ascii(key), value);
        producer.send(record, (metadata, error) -> { if (error != null) failed[0] = error; });
      }
    }
    if (failed[0] != null) throw new IllegalStateException("a record was not written", failed[0]);
  }

  private static byte[] order(int i, long number, long cents, long timestamp, long customer) {
    return ascii(String.format(
        "{\"order_id\":\"order-%010d-%08x\",\"amount\":%d.%02d,\"ts\":\"%s\",\"customer\":%d}",
        i, number, cents / 100, cents % 100, ISO.format(Instant.ofEpochMilli(timestamp)), customer));
  }

  /** A JSON object of so many bytes: its text is random words, the last one cut. */
  private byte[] sentence(byte[][] words, int i, int size) {
    byte[] value = new byte[size];
    byte[] head = ascii("{\"id\":" + i + ",\"text\":\"");
    System.arraycopy(head, 0, value, 0, head.length);
    int end = size - 2;
    for (int at = head.length; at < end; ) {
      byte[] word = words[(int) (draw() % words.length)];
      int length = Math.min(word.length, end - at);
      System.arraycopy(word, 0, value, at, length);
      at += length;
      if (at < end) value[at++] = ' ';
    }
    value[end] = '"';
    value[end + 1] = '}';
    return value;
  }

  /** Made-up words of 2 to 12 letters. */
  private byte[][] words(int count) {
    byte[][] words = new byte[count][];
    for (int w = 0; w < count; w++) {
      words[w] = new byte[2 + (int) (draw() % 11)];
      for (int k = 0; k < words[w].length; k++) words[w][k] = (byte) ('a' + draw() % 26);
    }
    return words;
  }

  /** mulberry32: 32 bits, unsigned. */
  private long draw() {
    state += 0x6D2B79F5;
    int t = (state ^ state >>> 15) * (state | 1);
    t = (t + (t ^ t >>> 7) * (t | 61)) ^ t;
    return (t ^ t >>> 14) & 0xffffffffL;
  }

  private static byte[] ascii(String text) {
    return text.getBytes(StandardCharsets.US_ASCII);
  }
}
