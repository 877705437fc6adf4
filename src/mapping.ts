/**
 * Records to rows: the bronze columns of Spark's Kafka source, or what the query's mapping returns for each record.
 */
import { createHash } from 'node:crypto'
import { SluiceError, isSluiceError, reasonOf } from './errors.ts'
import { isObject } from './offsets.ts'
import { safeAt, setSafe, wordsOf } from './int64.ts'
import type { BulkRecords, Header, RecordBatch } from './ports.ts'
import { bronzeSchema, bronzeSchemaWithHeaders, isByteSpans, viewsOf } from './schema.ts'
import type { ByteSpans, Row, RowBatch, Schema } from './schema.ts'

/** What a mapping sees of one record: a view, byte arrays too, that is good until the mapping returns. Rows may hold the arrays. */
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

/** Bronze rows are built column by column, without an object per record where the reader has records in bulk. */
export function bronzeRows(includeHeaders: boolean): RecordsToRows {
  let constants: ConstantColumns | null = null
  return (batch) => {
    if (constants === null || !constants.fit(batch)) constants = new ConstantColumns(batch)
    const { topics, partitions, types } = constants
    const { keys, values, offsets, timestamps } = batch.bulk === undefined ? eachOf(batch) : bulkOf(batch, batch.bulk)
    const packed = [keys, values, topics, partitions, offsets, timestamps, types]
    return new PackedRows(batch.length, includeHeaders ? [...packed, headersOf(batch)] : packed)
  }
}

/** Rows in both forms: arrays are made of the packed columns when somebody asks for them. */
class PackedRows implements RowBatch {
  readonly length: number
  readonly packed: readonly (ArrayLike<unknown> | ByteSpans)[]
  #columns: readonly ArrayLike<unknown>[] | null = null

  constructor(length: number, packed: readonly (ArrayLike<unknown> | ByteSpans)[]) {
    this.length = length
    this.packed = packed
  }

  get columns(): readonly ArrayLike<unknown>[] {
    this.#columns ??= this.packed.map((column) => {
      if (isByteSpans(column)) return viewsOf(column)
      return column.length === this.length ? column : shortened(column, this.length)
    })
    return this.#columns
  }
}

function shortened(column: ArrayLike<unknown>, length: number): ArrayLike<unknown> {
  if (column instanceof BigInt64Array || column instanceof Int32Array) return column.slice(0, length)
  return Array.prototype.slice.call(column, 0, length)
}

/** The columns that are the same for all records of a batch, kept for the batches that follow it. */
class ConstantColumns {
  readonly topics: readonly string[]
  readonly partitions: Int32Array
  readonly types: Int32Array

  constructor({ length, topic, partition, timestampType }: RecordBatch) {
    this.topics = Array.from({ length }, () => topic)
    this.partitions = new Int32Array(length).fill(partition)
    this.types = new Int32Array(length).fill(timestampType)
  }

  fit({ length, topic, partition, timestampType }: RecordBatch): boolean {
    return (
      length <= this.types.length &&
      (length === 0 ||
        (this.topics[0] === topic && this.partitions[0] === partition && this.types[0] === timestampType))
    )
  }
}

interface RecordColumns {
  readonly keys: ArrayLike<unknown> | ByteSpans
  readonly values: ArrayLike<unknown> | ByteSpans
  readonly offsets: BigInt64Array
  /** Microseconds. */
  readonly timestamps: BigInt64Array
}

function eachOf(batch: RecordBatch): RecordColumns {
  const n = batch.length
  const keys: (Uint8Array | null)[] = []
  const values: (Uint8Array | null)[] = []
  const [offsets, timestamps] = [new BigInt64Array(n), new BigInt64Array(n)]
  for (let i = 0; i < n; i++) {
    keys.push(batch.key(i))
    values.push(batch.value(i))
    offsets[i] = batch.offset(i)
    timestamps[i] = microsecondsOf(batch, i)
  }
  return { keys, values, offsets, timestamps }
}

function bulkOf(batch: RecordBatch, { keys, values, offsets, timestamps }: BulkRecords): RecordColumns {
  const micros = new BigInt64Array(batch.length)
  const [from, to] = [wordsOf(timestamps), wordsOf(micros)]
  for (let i = 0; i < batch.length; i++) {
    const high = from[2 * i + 1] ?? 0
    // 2^42 ms are the year 2109: a thousand times as much is still exact.
    if (high < 1024 && high >= -1024) setSafe(to, i, safeAt(from, i) * 1000)
    else micros[i] = microsecondsOf(batch, i)
  }
  return { keys, values, offsets, timestamps: micros }
}

function headersOf(batch: RecordBatch): (readonly Header[] | null)[] {
  const mayHave = batch.bulk?.hasHeaders !== false
  return Array.from({ length: batch.length }, (_, i) => (mayHave ? batch.headers(i) : null))
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
    // The record's own timestamp may be what cannot be read: that has an error of its own. A format's does not name the record.
    const namesRecord = isSluiceError(error) && error.name !== 'MALFORMED_RECORD_IN_PARSING'
    throw namesRecord ? error : mappingFailed(record, reasonOf(error), error)
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

/** Identifies a mapping by its source text (P10): a changed function is another shape of rows. */
export const mappingDigest = (map: Mapper<Schema> | null): string =>
  map === null ? 'bronze' : createHash('sha256').update(map.toString()).digest('hex')
