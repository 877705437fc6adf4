/** The records of one wire batch that lie in the asked-for range, as views into its bytes. */
import { setSafe, wordsOf } from '../int64.ts'
import type { BulkRecords, Header, RecordBatch } from '../ports.ts'
import type { TopicPartition } from '../offsets.ts'
import type { ByteSpans } from '../schema.ts'
import {
  CELLS,
  HEADERS_AT,
  KEY_AT,
  KEY_LENGTH,
  OFFSET_DELTA,
  RecordReader,
  TIMESTAMP_HIGH,
  TIMESTAMP_LOW,
  VALUE_AT,
  VALUE_LENGTH,
} from './record-reader.ts'
import type { RecordColumns, RecordScratch } from './record-reader.ts'
import type { BatchHeader } from './batch-header.ts'

/** Numbers of this size stay exact when an int32 or a delta of 52 bits is added. */
const MAX_BASE = 2n ** 52n
const MAX_HIGH = 2 ** 19

export class WireBatch implements RecordBatch {
  readonly topic: string
  readonly partition: number
  readonly length: number
  readonly timestampType: 0 | 1
  /** The first offset after this wire batch: where a fetch goes on once its records are dealt with. */
  readonly nextOffset: bigint
  readonly #header: BatchHeader
  readonly #bytes: Buffer
  readonly #cells: Int32Array
  readonly #hasHeaders: boolean
  readonly #scratch: RecordScratch
  #bulk: BulkRecords | null = null

  /** `columns` was read into the scratch, which also takes the bulk form. */
  constructor(
    { topic, partition }: TopicPartition,
    header: BatchHeader,
    columns: RecordColumns,
    scratch: RecordScratch
  ) {
    this.topic = topic
    this.partition = partition
    this.length = columns.length
    this.timestampType = header.logAppendTime ? 1 : 0
    this.nextOffset = header.lastOffset + 1n
    this.#header = header
    this.#bytes = columns.bytes
    this.#cells = columns.cells
    this.#hasHeaders = columns.hasHeaders
    this.#scratch = scratch
  }

  get bulk(): BulkRecords {
    this.#bulk ??= {
      keys: this.#spans(KEY_AT),
      values: this.#spans(VALUE_AT),
      hasHeaders: this.#hasHeaders,
      offsets: this.#offsets(this.#scratch.offsets(this.length)),
      timestamps: this.#timestamps(this.#scratch.timestamps(this.length)),
    }
    return this.#bulk
  }

  offset(i: number): bigint {
    return this.#header.baseOffset + BigInt(this.#cell(i, OFFSET_DELTA))
  }

  timestamp(i: number): bigint {
    const low = this.#cell(i, TIMESTAMP_LOW)
    if (this.#header.logAppendTime) return this.#header.maxTimestamp
    const high = this.#cell(i, TIMESTAMP_HIGH)
    const delta = high === low >> 31 ? BigInt(low) : (BigInt(high) << 32n) | BigInt(low >>> 0)
    return BigInt.asIntN(64, this.#header.baseTimestamp + delta)
  }

  key(i: number): Uint8Array | null {
    return this.#field(i, KEY_AT, KEY_LENGTH)
  }

  value(i: number): Uint8Array | null {
    return this.#field(i, VALUE_AT, VALUE_LENGTH)
  }

  headers(i: number): readonly Header[] | null {
    const at = this.#cell(i, HEADERS_AT)
    if (at < 0) return null
    const reader = new RecordReader(this.#bytes, at, this.#bytes.length)
    const headers: Header[] = []
    for (let left = reader.varint(); left > 0; left--) {
      const key = reader.bytes()
      const value = reader.bytes()
      headers.push({ key: key === null ? '' : key.toString('utf8'), value })
    }
    return headers
  }

  /** The length of a field is the cell after its place. */
  #spans(first: number): ByteSpans {
    return { bytes: this.#bytes, cells: this.#cells, first, stride: CELLS, length: this.length }
  }

  #offsets(into: BigInt64Array): BigInt64Array {
    const base = this.#header.baseOffset
    if (base > MAX_BASE) for (let i = 0; i < this.length; i++) into[i] = this.offset(i)
    else {
      const [words, cells, start] = [wordsOf(into), this.#cells, Number(base)]
      for (let i = 0, cell = OFFSET_DELTA; i < this.length; i++, cell += CELLS)
        setSafe(words, i, start + (cells[cell] ?? 0))
    }
    return into
  }

  #timestamps(into: BigInt64Array): BigInt64Array {
    const { logAppendTime, maxTimestamp, baseTimestamp: base } = this.#header
    if (logAppendTime) return into.fill(maxTimestamp, 0, this.length)
    const [words, cells, start] = [wordsOf(into), this.#cells, Number(base)]
    const isSafe = base <= MAX_BASE && base >= -MAX_BASE
    for (let i = 0, cell = 0; i < this.length; i++, cell += CELLS) {
      const high = cells[cell + TIMESTAMP_HIGH] ?? 0
      if (isSafe && high < MAX_HIGH && high >= -MAX_HIGH)
        setSafe(words, i, start + high * 2 ** 32 + ((cells[cell + TIMESTAMP_LOW] ?? 0) >>> 0))
      else into[i] = this.timestamp(i)
    }
    return into
  }

  #field(i: number, at: number, length: number): Uint8Array | null {
    const size = this.#cell(i, length)
    if (size < 0) return null
    const start = this.#cell(i, at)
    return this.#bytes.subarray(start, start + size)
  }

  #cell(i: number, column: number): number {
    const cell = i >= 0 && i < this.length ? this.#cells[i * CELLS + column] : undefined
    if (cell === undefined) throw new RangeError(`record ${i} of ${this.length}`)
    return cell
  }
}
