// Writes java-batches.json: record batches made by Kafka's own classes, and what Kafka's own reader finds in them.
// From the project's root, after a broker test has fetched Kafka's jars:
//   java -cp '.tools/kafka/*' test/kafka/JavaBatches.java > test/kafka/java-batches.json

import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.utils.internals.BufferSupplier;

public class JavaBatches {
  static final long TIME = 1790899200123L;
  static final List<String> cases = new ArrayList<>();

  public static void main(String[] args) throws Exception {
    for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
      MemoryRecords records = MemoryRecords.withRecords(100, Compression.of(codec).build(), fidelity());
      put("fidelity " + codec, records.buffer());
    }
    put("large gzip", MemoryRecords.withRecords(0, Compression.gzip().build(), large(1000)).buffer());
    put("large snappy", MemoryRecords.withRecords(0, Compression.snappy().build(), large(33000)).buffer());
    put("large lz4", MemoryRecords.withRecords(0, Compression.lz4().build(), large(66000)).buffer());
    put("large zstd", MemoryRecords.withRecords(0, Compression.zstd().build(), large(1000)).buffer());
    put("log append time", MemoryRecords.withRecords((byte) 2, 7, Compression.NONE, TimestampType.LOG_APPEND_TIME, fidelity()).buffer());
    put("high offsets", MemoryRecords.withRecords(9223372036854775797L, Compression.NONE, fidelity()).buffer());
    put("transactions", transactions());
    put("compacted", compacted());
    put("delete horizon", deleteHorizon());
    put("format 0", MemoryRecords.withRecords((byte) 0, 5, Compression.NONE, TimestampType.NO_TIMESTAMP_TYPE, plain(2)).buffer());
    put("format 1", MemoryRecords.withRecords((byte) 1, 5, Compression.NONE, TimestampType.CREATE_TIME, plain(2)).buffer());
    System.out.println("[\n" + String.join(",\n", cases) + "\n]");
  }

  static SimpleRecord[] fidelity() {
    Header[] five = {header("a", "1"), header("b", "2"), header("a", "3"), header("10", "x"), header("2", "y")};
    Header[] nulls = {new RecordHeader("n", (byte[]) null), header("e", ""), header("\u00fc\u4e16", "z")};
    return new SimpleRecord[] {
      new SimpleRecord(TIME, bytes("k"), bytes("v"), five),
      new SimpleRecord(TIME + 5, bytes("k"), bytes("v"), nulls),
      new SimpleRecord(TIME - 86400000L * 400, bytes("k"), null),
      new SimpleRecord(TIME, bytes("k"), new byte[0]),
      new SimpleRecord(TIME, null, bytes("v")),
      new SimpleRecord(TIME, new byte[0], new byte[] {0, (byte) 0xff}),
      new SimpleRecord(TIME, null, (byte[]) null),
      new SimpleRecord(0, bytes("k"), bytes("v")),
      new SimpleRecord(1L << 61, bytes("k"), bytes("v")),
      new SimpleRecord(TIME, new byte[4], bytes("v")),
    };
  }

  /** Several blocks of snappy and lz4, of repeating text and of bytes that do not compress. */
  static SimpleRecord[] large(int noiseBytes) {
    java.util.Random random = new java.util.Random(1);
    byte[] noise = new byte[noiseBytes];
    random.nextBytes(noise);
    SimpleRecord[] records = new SimpleRecord[40];
    for (int i = 0; i < records.length; i++)
      records[i] = new SimpleRecord(TIME + i, bytes("key" + i), i == 20 ? noise : bytes(("value " + i % 3 + " ").repeat(300)));
    return records;
  }

  static SimpleRecord[] plain(int n) {
    SimpleRecord[] records = new SimpleRecord[n];
    for (int i = 0; i < n; i++) records[i] = new SimpleRecord(TIME + i, bytes("k" + i), bytes("v" + i));
    return records;
  }

  /** A aborts 0,1 (marker 3); B commits 2 (marker 4); plain 5. */
  static ByteBuffer transactions() {
    ByteBuffer all = ByteBuffer.allocate(4096);
    all.put(MemoryRecords.withTransactionalRecords(0L, Compression.NONE, 11L, (short) 0, 0, 0, plain(2)).buffer());
    all.put(MemoryRecords.withTransactionalRecords(2L, Compression.NONE, 12L, (short) 0, 0, 0, plain(1)).buffer());
    all.put(MemoryRecords.withEndTransactionMarker(3, TIME, 0, 11L, (short) 0, new EndTransactionMarker(ControlRecordType.ABORT, 1)).buffer());
    all.put(MemoryRecords.withEndTransactionMarker(4, TIME, 0, 12L, (short) 0, new EndTransactionMarker(ControlRecordType.COMMIT, 1)).buffer());
    all.put(MemoryRecords.withRecords(5, Compression.NONE, plain(1)).buffer());
    return all.flip();
  }

  /** Batches [0,10) and [10,20) with gzip, and [20,22): only odd offsets are left of the first, none of the second. */
  static ByteBuffer compacted() {
    ByteBuffer all = ByteBuffer.allocate(65536);
    all.put(MemoryRecords.withIdempotentRecords(0L, Compression.gzip().build(), 5L, (short) 0, 0, 0, plain(10)).buffer());
    all.put(MemoryRecords.withIdempotentRecords(10L, Compression.gzip().build(), 5L, (short) 0, 10, 0, plain(10)).buffer());
    all.put(MemoryRecords.withRecords(20, Compression.gzip().build(), plain(2)).buffer());
    return filtered(all.flip(), false, offset -> offset >= 20 || offset < 10 && offset % 2 == 1);
  }

  /** A tombstone that was compacted once: its batch carries the delete horizon in the place of the base timestamp. */
  static ByteBuffer deleteHorizon() {
    SimpleRecord tombstone = new SimpleRecord(TIME, bytes("k"), (byte[]) null);
    SimpleRecord other = new SimpleRecord(TIME + 9, bytes("l"), bytes("v"));
    return filtered(MemoryRecords.withRecords(3, Compression.NONE, tombstone, other).buffer(), true, offset -> true);
  }

  static ByteBuffer filtered(ByteBuffer in, boolean horizon, java.util.function.LongPredicate retain) {
    MemoryRecords.RecordFilter filter = new MemoryRecords.RecordFilter(TIME + 1000000, 86400000L) {
      @Override protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
        return new BatchRetentionResult(BatchRetention.RETAIN_EMPTY, horizon);
      }
      @Override protected boolean shouldRetainRecord(RecordBatch batch, Record record) {
        return retain.test(record.offset());
      }
    };
    ByteBuffer out = ByteBuffer.allocate(65536);
    return MemoryRecords.readableRecords(in).filterTo(filter, out, BufferSupplier.NO_CACHING, 65536).outputBuffer().flip();
  }

  static void put(String name, ByteBuffer buffer) throws Exception {
    byte[] raw = new byte[buffer.remaining()];
    buffer.duplicate().get(raw);
    List<String> batches = new ArrayList<>();
    for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(raw)).batches()) {
      List<String> records = new ArrayList<>();
      for (Record record : batch) records.add("      " + record(record));
      batches.add("    {\"next\": \"%d\", \"control\": %b, \"type\": %d, \"records\": [%s]}".formatted(batch.nextOffset(),
          batch.isControlBatch(), batch.timestampType().id, records.isEmpty() ? "" : "\n" + String.join(",\n", records) + "\n    "));
    }
    cases.add("  {\"name\": \"%s\", \"bytes\": \"%s\", \"batches\": [\n%s\n  ]}".formatted(name,
        Base64.getEncoder().encodeToString(raw), String.join(",\n", batches)));
  }

  static String record(Record record) throws Exception {
    List<String> headers = new ArrayList<>();
    for (Header h : record.headers()) headers.add("[%s, %s]".formatted(hex(bytes(h.key())), hex(h.value())));
    return "[\"%d\", \"%d\", %s, %s, [%s]]".formatted(record.offset(), record.timestamp(), hex(array(record.key())),
        hex(array(record.value())), String.join(", ", headers));
  }

  /** Hexadecimal, or for more than 64 bytes their SHA-256. */
  static String hex(byte[] b) throws Exception {
    if (b == null) return "null";
    byte[] shown = b.length > 64 ? MessageDigest.getInstance("SHA-256").digest(b) : b;
    return "\"" + HexFormat.of().formatHex(shown) + "\"";
  }

  static byte[] array(ByteBuffer buffer) {
    if (buffer == null) return null;
    byte[] b = new byte[buffer.remaining()];
    buffer.duplicate().get(b);
    return b;
  }

  static Header header(String key, String value) {
    return new RecordHeader(key, bytes(value));
  }

  static byte[] bytes(String text) {
    return text.getBytes(java.nio.charset.StandardCharsets.UTF_8);
  }
}
