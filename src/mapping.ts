/**
 * Records to rows: the bronze columns of Spark's Kafka source, or what the query's mapping returns for each record.
 * And the hash over the records delivered, by which a replay can be compared (N5).
 */
import { createHash } from 'node:crypto'
import { SluiceError, isSluiceError, reasonOf } from './errors.ts'
import { isObject } from './offsets.ts'
import type { Header, RecordBatch } from './ports.ts'
import { bronzeSchema, bronzeSchemaWithHeaders } from './schema.ts'
import type { Row, RowBatch, Schema } from './schema.ts'

/** What a mapping sees of one record: a view that the next record reuses. The byte arrays themselves may be kept. */
export interface KafkaRecord {
  readonly key: Uint8Array | null
  readonly value: Uint8Array | null
  readonly topic: string
  readonly partition: number
  readonly offset: bigint
  /** Microseconds since the epoch. */
  readonly timestamp: bigint
  /** -1 none, 0 CreateTime, 1 LogAppendTime */
  readonly timestampType: -1 | 0 | 1
  /** null without `includeHeaders`, and for a record that has none. */
  readonly headers: readonly Header[] | null
}

/** Synchronous and pure. One row, several, or null to drop the record. */
export type Mapper<S extends Schema> = (record: KafkaRecord) => Row<S> | readonly Row<S>[] | null

export type RecordsToRows = (batch: RecordBatch) => RowBatch

export const bronzeSchemaFor = (includeHeaders: boolean): Schema =>
  includeHeaders ? bronzeSchemaWithHeaders : bronzeSchema

/** Bronze rows are built column by column, without an object per record. */
export const bronzeRows =
  (includeHeaders: boolean): RecordsToRows =>
  (batch) => {
    const n = batch.length
    const keys: (Uint8Array | null)[] = []
    const values: (Uint8Array | null)[] = []
    const headers: (readonly Header[] | null)[] = []
    const topics: string[] = []
    const offsets = new BigInt64Array(n)
    const timestamps = new BigInt64Array(n)
    for (let i = 0; i < n; i++) {
      keys.push(batch.key(i))
      values.push(batch.value(i))
      topics.push(batch.topic)
      offsets[i] = batch.offset(i)
      timestamps[i] = microsecondsOf(batch, i)
      if (includeHeaders) headers.push(batch.headers(i))
    }
    const partitions = new Int32Array(n).fill(batch.partition)
    const types = new Int32Array(n).fill(batch.timestampType)
    const columns = [keys, values, topics, partitions, offsets, timestamps, types]
    return { length: n, columns: includeHeaders ? [...columns, headers] : columns }
  }

/**
 * Runs the query's mapping over each record; its rows become columns in schema order.
 * @throws MAPPING_FAILED naming the record, for a thrown error and for what is neither a row, a list of rows nor null
 */
export function mappedRows(schema: Schema, map: Mapper<Schema>, includeHeaders: boolean): RecordsToRows {
  const names = Object.keys(schema)
  return (batch) => {
    const columns: unknown[][] = names.map(() => [])
    const { record, moveTo } = cursorOf(batch, includeHeaders)
    let length = 0
    const add = (row: unknown): void => {
      if (!isRow(row)) throw mappingFailed(record, `it returned ${kindOf(row)}, not a row, a list of rows or null`)
      // By index: this loop runs once for every row of a batch.
      for (let c = 0; c < names.length; c++) columns[c]?.push(row[names[c] ?? ''] ?? null)
      length++
    }
    for (let i = 0; i < batch.length; i++) {
      moveTo(i)
      const mapped = mapOne(map, record)
      if (Array.isArray(mapped)) mapped.forEach(add)
      else if (mapped !== null) add(mapped)
    }
    return { length, columns }
  }
}

function mapOne(map: Mapper<Schema>, record: KafkaRecord): unknown {
  try {
    return map(record)
  } catch (error) {
    // The record's own timestamp may be what cannot be read: that has an error of its own.
    throw isSluiceError(error) ? error : mappingFailed(record, reasonOf(error), error)
  }
}

const mappingFailed = ({ topic, partition, offset }: KafkaRecord, reason: string, cause?: unknown): SluiceError =>
  new SluiceError('MAPPING_FAILED', { topic, partition, offset: String(offset), reason }, cause)

const isThenable = (value: object): boolean => 'then' in value && typeof value.then === 'function'

const isRow = (value: unknown): value is Readonly<Record<string, unknown>> => isObject(value) && !isThenable(value)

function kindOf(value: unknown): string {
  if (Array.isArray(value)) return 'a list inside of a list'
  if (typeof value !== 'object' || value === null) return String(value === null ? null : typeof value)
  return 'a promise (a mapping is synchronous)'
}

interface Cursor {
  readonly record: KafkaRecord
  readonly moveTo: (index: number) => void
}

/** One object for all records of a batch. Its properties are its own, so that `{ ...record }` copies them. */
function cursorOf(batch: RecordBatch, includeHeaders: boolean): Cursor {
  const { topic, partition, timestampType } = batch
  let i = 0
  const record: KafkaRecord = {
    topic,
    partition,
    timestampType,
    get key() {
      return batch.key(i)
    },
    get value() {
      return batch.value(i)
    },
    get offset() {
      return batch.offset(i)
    },
    get timestamp() {
      return microsecondsOf(batch, i)
    },
    get headers() {
      return includeHeaders ? batch.headers(i) : null
    },
  }
  const moveTo = (index: number): void => {
    i = index
  }
  return { record, moveTo }
}

const MAX_MILLISECONDS = (2n ** 63n - 1n) / 1000n

/** @throws KAFKA_MALFORMED_RECORD_TIMESTAMP where milliseconds overflow as microseconds (K28). */
function microsecondsOf(batch: RecordBatch, i: number): bigint {
  const ms = batch.timestamp(i)
  if (ms > MAX_MILLISECONDS || ms < -MAX_MILLISECONDS) {
    const { topic, partition } = batch
    throw new SluiceError('KAFKA_MALFORMED_RECORD_TIMESTAMP', {
      topic,
      partition,
      offset: String(batch.offset(i)),
      timestamp: String(ms),
    })
  }
  return ms * 1000n
}

/**
 * SHA-256 over the records of a range as delivered: offset, timestamp, key, value and headers of each, with lengths, so
 * that null, empty and bytes differ. It does not depend on how the broker framed or compressed them.
 */
export class RecordHash {
  private readonly sha256 = createHash('sha256')
  private buffer = Buffer.allocUnsafe(64 * 1024)
  private used = 0
  /** Bytes of keys and values seen. */
  bytes = 0

  update(batch: RecordBatch): void {
    for (let i = 0; i < batch.length; i++) {
      this.reserve(16)
      this.used = this.buffer.writeBigInt64BE(batch.offset(i), this.used)
      this.used = this.buffer.writeBigInt64BE(batch.timestamp(i), this.used)
      this.bytes += this.add(batch.key(i)) + this.add(batch.value(i))
      const headers = batch.headers(i)
      this.addLength(headers === null ? -1 : headers.length)
      for (const header of headers ?? []) {
        this.add(Buffer.from(header.key))
        this.add(header.value)
      }
    }
  }

  /** Hex. The hash is finished then. */
  digest(): string {
    this.flush()
    return this.sha256.digest('hex')
  }

  private add(bytes: Uint8Array | null): number {
    this.addLength(bytes === null ? -1 : bytes.length)
    if (bytes === null) return 0
    if (bytes.length > this.buffer.length / 4) {
      this.flush()
      this.sha256.update(bytes)
    } else {
      this.reserve(bytes.length)
      this.buffer.set(bytes, this.used)
      this.used += bytes.length
    }
    return bytes.length
  }

  private addLength(length: number): void {
    this.reserve(4)
    this.used = this.buffer.writeInt32BE(length, this.used)
  }

  private reserve(bytes: number): void {
    if (this.used + bytes > this.buffer.length) this.flush()
  }

  private flush(): void {
    this.sha256.update(this.buffer.subarray(0, this.used))
    this.used = 0
  }
}

/** Identifies a mapping by its source text (P10): a changed function is another shape of rows. */
export const mappingDigest = (map: Mapper<Schema> | null): string =>
  map === null ? 'bronze' : createHash('sha256').update(map.toString()).digest('hex')
