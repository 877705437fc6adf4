/**
 * Records to rows: the bronze columns of Spark's Kafka source, or what the query's mapping returns for each record.
 * And the hash over the records delivered, by which a replay can be compared (N5).
 */
import { createHash } from 'node:crypto'
import { SluiceError, reasonOf } from './errors.ts'
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
    const offsets = new BigInt64Array(n)
    const timestamps = new BigInt64Array(n)
    for (let i = 0; i < n; i++) {
      keys.push(batch.key(i))
      values.push(batch.value(i))
      offsets[i] = batch.offset(i)
      timestamps[i] = microsecondsOf(batch, i)
      if (includeHeaders) headers.push(batch.headers(i))
    }
    const topics = new Array<string>(n).fill(batch.topic)
    const partitions = new Int32Array(n).fill(batch.partition)
    const types = new Int32Array(n).fill(batch.timestampType)
    const columns = [keys, values, topics, partitions, offsets, timestamps, types]
    return { length: n, columns: includeHeaders ? [...columns, headers] : columns }
  }

/** Runs the query's mapping over each record; its rows become columns in schema order. */
export function mappedRows(schema: Schema, map: Mapper<Schema>, includeHeaders: boolean): RecordsToRows {
  const names = Object.keys(schema)
  return (batch) => {
    const columns: unknown[][] = names.map(() => [])
    const cursor = new RecordCursor(batch, includeHeaders)
    let length = 0
    const add = (row: Readonly<Record<string, unknown>>): void => {
      // By index: this loop runs once for every row of a batch.
      for (let c = 0; c < names.length; c++) columns[c]?.push(row[names[c] ?? ''] ?? null)
      length++
    }
    for (let i = 0; i < batch.length; i++) {
      cursor.index = i
      const mapped = mapOne(map, cursor)
      if (Array.isArray(mapped)) for (const row of mapped) add(row)
      else if (mapped !== null) add(mapped as Row<Schema>)
    }
    return { length, columns }
  }
}

function mapOne(map: Mapper<Schema>, cursor: RecordCursor): ReturnType<Mapper<Schema>> {
  const { topic, partition } = cursor
  const failed = (reason: string, cause?: unknown): SluiceError =>
    new SluiceError('MAPPING_FAILED', { topic, partition, offset: String(cursor.offset), reason }, cause)
  let mapped: ReturnType<Mapper<Schema>>
  try {
    mapped = map(cursor)
  } catch (error) {
    throw error instanceof SluiceError ? error : failed(reasonOf(error), error)
  }
  if (typeof mapped !== 'object') throw failed(`it returned ${typeof mapped}, not a row, a list of rows or null`)
  if (mapped instanceof Promise) throw failed('it returned a promise; a mapping is synchronous')
  return mapped
}

class RecordCursor implements KafkaRecord {
  index = 0
  private readonly batch: RecordBatch
  private readonly includeHeaders: boolean

  constructor(batch: RecordBatch, includeHeaders: boolean) {
    this.batch = batch
    this.includeHeaders = includeHeaders
  }

  get key(): Uint8Array | null {
    return this.batch.key(this.index)
  }
  get value(): Uint8Array | null {
    return this.batch.value(this.index)
  }
  get topic(): string {
    return this.batch.topic
  }
  get partition(): number {
    return this.batch.partition
  }
  get offset(): bigint {
    return this.batch.offset(this.index)
  }
  get timestamp(): bigint {
    return microsecondsOf(this.batch, this.index)
  }
  get timestampType(): -1 | 0 | 1 {
    return this.batch.timestampType
  }
  get headers(): readonly Header[] | null {
    return this.includeHeaders ? this.batch.headers(this.index) : null
  }
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
