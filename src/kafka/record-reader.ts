/**
 * Reads the records of one decompressed batch (message format v2) into columns of int32, without an object per record.
 * All of a batch is checked here, headers too, before any of it is handed out: the views of wire-batch.ts cannot fail.
 */
import { DamagedBytes, UnsupportedBytes } from './refusal.ts'

/** Cells of a row of `RecordColumns.cells`; lengths are -1 for null, HEADERS_AT is -1 for no header. */
export const OFFSET_DELTA = 0
export const TIMESTAMP_LOW = 1
export const TIMESTAMP_HIGH = 2
export const KEY_AT = 3
export const KEY_LENGTH = 4
export const VALUE_AT = 5
export const VALUE_LENGTH = 6
export const HEADERS_AT = 7
export const CELLS = 8

/** A record takes a byte each for length, attributes, two deltas, two null lengths and the number of headers. */
const LEAST_RECORD_BYTES = 7

/** Keeps the columns of a batch of tiny records as small as its bytes may be (256 MiB). */
export const MAX_RECORDS = 2 ** 23

export interface RecordColumns {
  /** Decompressed; the positions in `cells` count from its begin. */
  readonly bytes: Buffer
  /** Rows in use; `cells` may be longer. */
  readonly length: number
  /** CELLS int32 a record. The timestamp delta is an int64 in two words. */
  readonly cells: Int32Array
  /** Whether any of them has headers. */
  readonly hasHeaders: boolean
}

/** Arrays that one batch after the other is read into; the batch before is lost then. */
export class RecordScratch {
  #cells = new Int32Array(0)
  #offsets = new BigInt64Array(0)
  #timestamps = new BigInt64Array(0)

  cells(length: number): Int32Array {
    if (this.#cells.length < length) this.#cells = new Int32Array(length)
    return this.#cells
  }

  offsets(length: number): BigInt64Array {
    if (this.#offsets.length < length) this.#offsets = new BigInt64Array(length)
    return this.#offsets
  }

  timestamps(length: number): BigInt64Array {
    if (this.#timestamps.length < length) this.#timestamps = new BigInt64Array(length)
    return this.#timestamps
  }
}

/** What a batch's header says about the records, and which of them are wanted. */
export interface RecordSelection {
  /** Where the first record begins. The records end with the bytes. */
  readonly start: number
  readonly end: number
  readonly count: number
  readonly lastOffsetDelta: number
  /** Inclusive bounds of the wanted offset deltas. */
  readonly first: number
  readonly last: number
}

/** @throws DamagedBytes where anything contradicts the format or the header; UnsupportedBytes above MAX_RECORDS. */
export function readRecords(bytes: Buffer, selection: RecordSelection, scratch: RecordScratch): RecordColumns {
  const { start, end, count, lastOffsetDelta, first, last } = selection
  if (count < 0 || count * LEAST_RECORD_BYTES > end - start)
    throw new DamagedBytes(`its header counts ${count} records, its records take ${end - start} bytes`)
  if (count > MAX_RECORDS) throw new UnsupportedBytes(`it holds ${count} records, more than ${MAX_RECORDS}`)
  // One row more than are wanted: each record is read into the next free row, and keeps it if it is in the range.
  const cells = scratch.cells(CELLS * (1 + Math.max(0, Math.min(count, last - first + 1))))
  const reader = new RecordReader(bytes, start, end)
  let row = 0
  let previous = -1
  let hasHeaders = false
  for (let i = 0; i < count; i++) {
    const delta = reader.record(cells, row)
    if (delta <= previous || delta > lastOffsetDelta)
      throw new DamagedBytes(
        `record ${i} has the offset delta ${delta} after ${previous}, of at most ${lastOffsetDelta}`
      )
    previous = delta
    if (delta < first || delta > last) continue
    if ((cells[row + HEADERS_AT] ?? -1) >= 0) hasHeaders = true
    row += CELLS
  }
  if (reader.at !== end) throw new DamagedBytes(`${end - reader.at} bytes follow its ${count} records`)
  return { bytes, length: row / CELLS, cells, hasHeaders }
}

/** Walks over the fields of records; also reads the headers of one record again when they are asked for. */
export class RecordReader {
  at: number
  readonly #bytes: Buffer
  readonly #end: number
  /** The timestamp delta read last. */
  #low = 0
  #high = 0

  constructor(bytes: Buffer, at: number, end: number) {
    this.#bytes = bytes
    this.at = at
    this.#end = end
  }

  /** Reads a record into the cells from `row` on; answers its offset delta. */
  record(cells: Int32Array, row: number): number {
    const length = this.varint()
    const end = this.at + length
    if (length < 0 || end > this.#end) throw new DamagedBytes('a record is longer than its batch')
    // The record's attributes: none is defined.
    this.at++
    this.#timestampDelta()
    const delta = this.varint()
    const keyLength = this.#field()
    const keyAt = this.at - Math.max(0, keyLength)
    const valueLength = this.#field()
    const valueAt = this.at - Math.max(0, valueLength)
    const headersAt = this.at
    const hasHeaders = this.#skipHeaders()
    if (this.at !== end) throw new DamagedBytes('the fields of a record do not add up to its length')
    cells[row + OFFSET_DELTA] = delta
    cells[row + TIMESTAMP_LOW] = this.#low
    cells[row + TIMESTAMP_HIGH] = this.#high
    cells[row + KEY_AT] = keyAt
    cells[row + KEY_LENGTH] = keyLength
    cells[row + VALUE_AT] = valueAt
    cells[row + VALUE_LENGTH] = valueLength
    cells[row + HEADERS_AT] = hasHeaders ? headersAt : -1
    return delta
  }

  /** A zigzag int32. */
  varint(): number {
    let raw = 0
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.#byte()
      raw |= (byte & 0x7f) << shift
      if (byte < 0x80) {
        if (shift === 28 && byte > 0x0f) break
        return (raw >>> 1) ^ -(raw & 1)
      }
    }
    throw new DamagedBytes('a number takes more than 32 bits')
  }

  /** A length and so many bytes; null for the length -1. */
  bytes(): Buffer | null {
    const length = this.#field()
    return length < 0 ? null : this.#bytes.subarray(this.at - length, this.at)
  }

  /** Passes over a length and so many bytes; answers the length, -1 for null. */
  #field(): number {
    const length = this.varint()
    if (length < -1 || length > this.#end - this.at) throw new DamagedBytes(`a field has the length ${length}`)
    if (length > 0) this.at += length
    return length
  }

  #skipHeaders(): boolean {
    const count = this.varint()
    if (count < 0) throw new DamagedBytes(`a record counts ${count} headers`)
    for (let i = 0; i < count; i++) {
      if (this.#field() < 0) throw new DamagedBytes('the key of a header is null')
      this.#field()
    }
    return count > 0
  }

  /** A zigzag int64, in two words: a bigint for each record would cost more than all the rest. */
  #timestampDelta(): void {
    let low = 0
    let high = 0
    for (let shift = 0; shift < 70; shift += 7) {
      const byte = this.#byte()
      const bits = byte & 0x7f
      if (shift < 28) low |= bits << shift
      else if (shift === 28) {
        low |= bits << 28
        high = bits >>> 4
      } else high |= bits << (shift - 32)
      if (byte < 0x80) {
        if (shift === 63 && byte > 1) break
        const sign = -(low & 1)
        this.#low = ((low >>> 1) | (high << 31)) ^ sign
        this.#high = (high >>> 1) ^ sign
        return
      }
    }
    throw new DamagedBytes('a number takes more than 64 bits')
  }

  #byte(): number {
    if (this.at >= this.#end) throw new DamagedBytes('its records end inside a record')
    return this.#bytes[this.at++] ?? 0
  }
}
