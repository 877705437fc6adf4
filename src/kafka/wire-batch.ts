/** The records of one wire batch that lie in the asked-for range, as views into its bytes. */
import type { Header, RecordBatch } from '../ports.ts'
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
import type { RecordColumns } from './record-reader.ts'
import type { BatchHeader } from './batch-header.ts'

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

  constructor(topic: string, partition: number, header: BatchHeader, columns: RecordColumns) {
    this.topic = topic
    this.partition = partition
    this.length = columns.length
    this.timestampType = header.logAppendTime ? 1 : 0
    this.nextOffset = header.lastOffset + 1n
    this.#header = header
    this.#bytes = columns.bytes
    this.#cells = columns.cells
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
