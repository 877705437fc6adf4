/**
 * What the protocol asks of the world. Adapters implement these; test/conformance holds one suite per port.
 *
 * Every call that does I/O takes the step's abort signal: after it has fired no durable effect begins, and the
 * call settles (rejecting with ABORTED) only when its work has unwound (P20).
 */
import type { DataLossFinding } from './data-loss.ts'
import type { PartitionOffsets, TopicPartition } from './offsets.ts'
import type { OffsetRange } from './ranges.ts'
import type { ByteSpans, RowBatch, Schema } from './schema.ts'

export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number
}

// -- Kafka

export type IsolationLevel = 'read_uncommitted' | 'read_committed'

/** What the brokers hold now. `topicIds` is empty for topics whose brokers are older than 2.8. */
export interface AssignedPartitions {
  readonly partitions: readonly TopicPartition[]
  readonly topicIds: ReadonlyMap<string, string>
  /** `topic-partition` -> the node that leads it, negative while none does. A hint: leaders move. */
  readonly leaders?: ReadonlyMap<string, number>
}

/** What should be there: partitions that the log has positions of, and the ids that their topics had. */
export interface KnownPartitions {
  readonly partitions: readonly TopicPartition[]
  readonly topicIds: ReadonlyMap<string, string>
}

export interface OffsetReader {
  /**
   * The partitions that the query's strategy selects and that exist now; never creates a topic (B17). While some of the
   * known ones are missing, or nothing is known and nothing is found, Kafka is asked again, fetchOffset.numRetries times in
   * all; then it is believed.
   * @throws TOPIC_NOT_FOUND for a named topic that does not exist; KAFKA_METADATA_INCOMPLETE for a missing partition whose
   * topic is still the same one
   */
  assigned(signal: AbortSignal, known?: KnownPartitions): Promise<AssignedPartitions>
  /** Topic ids now, for those of `topics` that exist (P9). */
  topicIds(topics: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, string>>
  /** Log start offsets. Partitions that vanished meanwhile are absent. */
  earliest(partitions: readonly TopicPartition[], signal: AbortSignal): Promise<PartitionOffsets>
  /**
   * The high watermark, or under read_committed the last stable offset (B18). While one is below `atLeast`, Kafka is asked
   * again, fetchOffset.numRetries times in all; then it is believed (X8).
   */
  latest(
    partitions: readonly TopicPartition[],
    signal: AbortSignal,
    atLeast?: PartitionOffsets
  ): Promise<PartitionOffsets>
  /** The high watermark, whatever the isolation level; asked again as `latest` is. */
  highWatermarks(
    partitions: readonly TopicPartition[],
    signal: AbortSignal,
    atLeast?: PartitionOffsets
  ): Promise<PartitionOffsets>
  /**
   * For each partition the first offset whose record timestamp is at or after the given one (ms since the epoch), as the
   * broker answers under the isolation level of `latest`; partitions without such a record are absent.
   */
  forTimestamps(timestamps: PartitionOffsets, signal: AbortSignal): Promise<PartitionOffsets>
  /** Ends every connection; the reader may be used again. */
  close(): Promise<void>
}

export interface Header {
  readonly key: string
  readonly value: Uint8Array | null
}

/**
 * Consecutive records of one partition, decoded from one batch of the wire and cut to the asked-for range. Keys and
 * values are views into a buffer: they may be kept, and then keep that buffer alive, unless the reader was made to use its
 * buffers again; then they are good until the next batch is asked for.
 */
export interface RecordBatch extends TopicPartition {
  readonly length: number
  /** -1 none, 0 CreateTime, 1 LogAppendTime */
  readonly timestampType: -1 | 0 | 1
  offset(i: number): bigint
  /** Milliseconds since the epoch. */
  timestamp(i: number): bigint
  key(i: number): Uint8Array | null
  value(i: number): Uint8Array | null
  /** In order, repeats kept; null where the record has none. */
  headers(i: number): readonly Header[] | null
  /** The same in bulk, where the reader can do without an object per record. */
  readonly bulk?: BulkRecords
}

/** All records of a batch at once; the arrays are only to be read. */
export interface BulkRecords {
  readonly keys: ByteSpans
  readonly values: ByteSpans
  /** Whether any record has headers. */
  readonly hasHeaders: boolean
  /** May be longer than the batch, as `timestamps` may. */
  readonly offsets: BigInt64Array
  /** Milliseconds since the epoch. */
  readonly timestamps: BigInt64Array
}

/** What a finished range tells beside its records. */
export interface RangeEnd {
  /** The partition's high watermark in the last answer; null if none was needed. */
  readonly highWatermark: bigint | null
  /** Offsets that were gone and were skipped; only with failOnDataLoss=false. */
  readonly dataLoss: readonly DataLossFinding[]
  /** Where it ended before the range did, because enough was read: the next offset to read. */
  readonly stoppedAt?: bigint
}

export interface RangeReader {
  /**
   * The visible records of exactly `[from, until)`, in order, each once. Ends only when the position has reached
   * `until`: gaps (markers, aborted or compacted records) are passed over; a time-out throws (S12).
   * The isolation level is the plan's, not today's option (decision 1). `isEnough` is asked whenever the position has
   * moved: true ends the reading there, never at the very start of the range (P14).
   * @throws KAFKA_DATA_LOSS, KAFKA_TIMEOUT, KAFKA_UNREACHABLE, CORRUPT_RECORD_BATCH, UNSUPPORTED_RECORD_BATCH
   */
  read(
    range: OffsetRange,
    isolation: IsolationLevel,
    signal: AbortSignal,
    isEnough?: () => boolean
  ): AsyncGenerator<RecordBatch, RangeEnd>
  close(): Promise<void>
}

// -- the logs

/** `offsets`, `commits`, ... with a position inside; the adapter maps both onto its keys. */
export interface EntryKey {
  readonly log: string
  /** A batch id or other number, or a word. Numbers sort as numbers. */
  readonly id: number | string
}

export type AddOutcome = { readonly kind: 'added' } | { readonly kind: 'exists'; readonly entry: string }

/** One query's logs in one generation. Entries are texts; they are created once and never overwritten. */
export interface MetadataLog {
  /** Creates the entry if its key is free, else answers what is stored there, whoever wrote it (P11). */
  add(key: EntryKey, entry: string, signal: AbortSignal): Promise<AddOutcome>
  /** Reads consistently. */
  get(key: EntryKey, signal: AbortSignal): Promise<string | null>
  /** The largest numeric id in a log, read consistently; null for an empty log. */
  newest(log: string, signal: AbortSignal): Promise<number | null>
  /** All entries of a log in ascending order of id, read consistently. */
  list(log: string, signal: AbortSignal): Promise<readonly { readonly id: number | string; readonly entry: string }[]>
  /** Numeric ids of a log up to and including `upTo`, ascending, that were added at least `minAgeMs` ago (P7). */
  idsUpTo(log: string, upTo: number, minAgeMs: number, signal: AbortSignal): Promise<readonly number[]>
  /** Removes the entry, its head before its parts (P6). Removing nothing is no error. */
  remove(key: EntryKey, signal: AbortSignal): Promise<void>
}

export type LeaseOutcome =
  | { readonly kind: 'held'; readonly token: number; readonly lastPass: LastPass | null }
  | { readonly kind: 'busy'; readonly holder: string; readonly expiresAt: number }

/** The last check of minOffsetsPerTrigger that passed: ms since the epoch, and the run that made it. */
export interface LastPass {
  readonly atMs: number
  readonly runId: string
}

/** The `run` item: it avoids double work and answers busy; correctness never depends on it (P19). */
export interface RunLease {
  /** Takes the lease if it is free, has run out, or is held by this run; the token rises with every new holder. */
  acquire(runId: string, signal: AbortSignal): Promise<LeaseOutcome>
  /** Pushes the expiry on, only under its own token. False: another run holds it. */
  renew(token: number, signal: AbortSignal): Promise<boolean>
  /**
   * Stores when the holder's check of minOffsetsPerTrigger passed, only under its own token. It outlasts releases, and later
   * holders are told; losing it is harmless (decision 4).
   */
  passed(token: number, atMs: number, signal: AbortSignal): Promise<void>
  /** Frees it, only under its own token. */
  release(token: number, signal: AbortSignal): Promise<void>
}

// -- objects

/** Objects under one root (a folder or a bucket's prefix). Keys are relative, with `/`. */
export interface ObjectStore {
  /** For messages: a path or an s3:// address. */
  readonly root: string
  /**
   * Creates the object if its key is free; durable when it answers. Where the key holds exactly these bytes the answer
   * may be either: a store that repeats a put whose answer was lost cannot tell its own from an equal one, so what must
   * have one winner carries a mark of its writer. @throws OBJECT_STORE_FAILED (unknown outcome), OBJECT_STORE_REFUSED
   */
  putIfAbsent(key: string, body: Uint8Array, signal: AbortSignal): Promise<'created' | 'exists'>
  /** Creates or replaces the object, whole; durable when it answers. For hints, never for what decides. */
  put(key: string, body: Uint8Array, signal: AbortSignal): Promise<void>
  /** Writes an object of a unique name piece by piece; it appears whole at close, or never. */
  create(key: string, signal: AbortSignal): Promise<ObjectWriter>
  get(key: string, signal: AbortSignal): Promise<Uint8Array | null>
  /** Bytes, or null where there is none. */
  size(key: string, signal: AbortSignal): Promise<number | null>
  /** Keys under a prefix (any leading part of a key) that come after `startAfter`, in the order of their UTF-8 bytes. */
  list(prefix: string, startAfter: string | null, signal: AbortSignal): Promise<readonly string[]>
}

export interface ObjectWriter {
  /** Once it settles the caller may use the memory again. */
  write(bytes: Uint8Array): Promise<void>
  /** Makes the object visible; durable when it answers. */
  close(): Promise<void>
  /** Leaves nothing behind. */
  abort(): Promise<void>
}

// -- sinks

/** A batch as a sink's commit names it. */
export interface BatchId {
  readonly queryId: string
  readonly batchId: number
  /** SHA-256 (hex) of the stored `offsets/N`. */
  readonly planDigest: string
  /** Spark's offset JSON. */
  readonly endOffsets: string
}

export interface TaskId extends BatchId {
  readonly task: number
  /** A uuid of this attempt; names its objects (P3). */
  readonly attempt: string
  readonly ranges: readonly OffsetRange[]
}

/** What one task staged: JSON, kept in its report, understood by the sink alone. */
export interface CommitMessage {
  /** Keys of the objects, relative to the sink's root. */
  readonly objects: readonly string[]
  readonly rows: number
  readonly bytes: number
  /** Sink-specific, JSON text. */
  readonly detail: string
}

export interface DataWriter {
  write(rows: RowBatch): Promise<void>
  /** Stages what was written. Without rows it writes no object. */
  commit(): Promise<CommitMessage>
  /** Drops what was written. Never throws. */
  abort(): Promise<void>
}

/** The newest batch that the log has planned, and the newest that it has committed; null for a fresh query. */
export interface LoggedBatches {
  readonly newest: number | null
  readonly committed: number | null
}

/** The shape of Spark's DataSource V2 write. */
export interface Sink {
  readonly description: string
  readonly guarantee: 'exactlyOnce' | 'atLeastOnce'
  /** staged: nothing is visible before commit. immediate: rows are visible as they are written. */
  readonly effect: 'staged' | 'immediate'
  /**
   * The planner's look before `offsets/N`: the target exists or can be made and fits the schema; its record of this
   * query is neither ahead of the log (P2) nor behind it: another table holds the query's batches then. Returns a
   * fingerprint of target, schema and partitioning (P10).
   */
  check(queryId: string, logged: LoggedBatches, signal: AbortSignal): Promise<string>
  createWriter(task: TaskId, signal: AbortSignal): Promise<DataWriter>
  /** Those staged objects of the messages that are gone (P12). */
  missing(messages: readonly CommitMessage[], signal: AbortSignal): Promise<readonly string[]>
  /** Makes the batch visible, once for each (query id, batch id). @throws SINK_AHEAD_OF_LOG (P2) */
  commit(
    batch: BatchId,
    messages: readonly CommitMessage[],
    signal: AbortSignal
  ): Promise<'committed' | 'alreadyCommitted'>
  /** Housekeeping after `commits/N`; best effort (P15). */
  maintain(signal: AbortSignal): Promise<void>
}

export interface SinkContext {
  readonly queryName: string
  readonly schema: Schema
  readonly clock: Clock
  /** A path of the query module, absolute or against the warehouse root. */
  objectStore(path: string): ObjectStore
}

/** What a query module holds: a sink that has not met its environment yet. */
export interface SinkDefinition {
  readonly description: string
  /** Its writers copy what they keep of byte arrays before `write` settles; the next records may lie in the same memory. */
  readonly copiesBytes?: boolean
  open(context: SinkContext): Sink
}
