/** The hash over the records delivered, by which a replay can be compared (N5). */
import { createHash } from 'node:crypto'
import { wordsOf } from './int64.ts'
import { giveBack } from './memory.ts'
import type { BulkRecords, Header, RecordBatch } from './ports.ts'

const BLOCK_BYTES = 96 * 1024
/** Of a record without its bytes: offset, timestamp and three lengths. */
const RECORD_BYTES = 28
/** Longer byte strings are hashed where they lie. */
const COPIED_BYTES = 16 * 1024
/** Below this a loop is faster than a call. */
const SHORT_BYTES = 16

/**
 * SHA-256 over the records of a range as delivered: offset, timestamp, key, value and headers of each, with lengths, so
 * that null, empty and bytes differ. It does not depend on how the broker framed or compressed them.
 */
export class RecordHash {
  readonly #sha256 = createHash('sha256')
  readonly #block = Buffer.allocUnsafeSlow(BLOCK_BYTES)
  readonly #view = new DataView(this.#block.buffer)
  #used = 0
  /** Bytes of keys and values seen. */
  bytes = 0

  update(batch: RecordBatch): void {
    if (batch.bulk === undefined) this.#addEach(batch)
    else this.#addBulk(batch, batch.bulk)
  }

  /** Hex. The hash is finished then. */
  digest(): string {
    this.#flush()
    giveBack(this.#block)
    return this.#sha256.digest('hex')
  }

  #addEach(batch: RecordBatch): void {
    const [offset, timestamp] = [new BigInt64Array(1), new BigInt64Array(1)]
    const [offsetWords, timestampWords] = [wordsOf(offset), wordsOf(timestamp)]
    for (let i = 0; i < batch.length; i++) {
      offset[0] = batch.offset(i)
      timestamp[0] = batch.timestamp(i)
      this.#addNumbers(offsetWords, timestampWords, 0)
      for (const bytes of [batch.key(i), batch.value(i)]) {
        this.bytes += bytes?.length ?? 0
        this.#addBytes(bytes)
      }
      this.#addHeaders(batch.headers(i))
    }
  }

  /** One loop without calls for records of usual size: it runs for every record of a range. */
  #addBulk(batch: RecordBatch, { keys, values, hasHeaders, offsets, timestamps }: BulkRecords): void {
    const [block, view] = [this.#block, this.#view]
    const [keyCells, valueCells] = [keys.cells, values.cells]
    const [offsetWords, timestampWords] = [wordsOf(offsets), wordsOf(timestamps)]
    for (let i = 0, key = keys.first, value = values.first; i < batch.length; i++) {
      const keyAt = keyCells[key] ?? 0
      const keyLength = keyCells[key + 1] ?? -1
      const valueAt = valueCells[value] ?? 0
      const valueLength = valueCells[value + 1] ?? -1
      key += keys.stride
      value += values.stride
      const bytes = (keyLength > 0 ? keyLength : 0) + (valueLength > 0 ? valueLength : 0)
      this.bytes += bytes
      if (hasHeaders || bytes > COPIED_BYTES) {
        this.#addNumbers(offsetWords, timestampWords, i)
        this.#addSpan(keys.bytes, keyAt, keyLength)
        this.#addSpan(values.bytes, valueAt, valueLength)
        this.#addHeaders(batch.headers(i))
        continue
      }
      if (this.#used + RECORD_BYTES + bytes > BLOCK_BYTES) this.#flush()
      let at = this.#used
      view.setInt32(at, offsetWords[2 * i + 1] ?? 0)
      view.setInt32(at + 4, offsetWords[2 * i] ?? 0)
      view.setInt32(at + 8, timestampWords[2 * i + 1] ?? 0)
      view.setInt32(at + 12, timestampWords[2 * i] ?? 0)
      view.setInt32(at + 16, keyLength)
      at = copied(keys.bytes, keyAt, keyLength, block, at + 20)
      view.setInt32(at, valueLength)
      at = copied(values.bytes, valueAt, valueLength, block, at + 4)
      view.setInt32(at, -1) // no headers
      this.#used = at + 4
    }
  }

  /** Big-endian, offset first. */
  #addNumbers(offsets: Int32Array, timestamps: Int32Array, i: number): void {
    if (this.#used + 16 > BLOCK_BYTES) this.#flush()
    const view = this.#view
    const at = this.#used
    view.setInt32(at, offsets[2 * i + 1] ?? 0)
    view.setInt32(at + 4, offsets[2 * i] ?? 0)
    view.setInt32(at + 8, timestamps[2 * i + 1] ?? 0)
    view.setInt32(at + 12, timestamps[2 * i] ?? 0)
    this.#used = at + 16
  }

  #addHeaders(headers: readonly Header[] | null): void {
    this.#addLength(headers === null ? -1 : headers.length)
    for (const header of headers ?? []) {
      this.#addBytes(Buffer.from(header.key))
      this.#addBytes(header.value)
    }
  }

  #addBytes(bytes: Uint8Array | null): void {
    if (bytes === null) this.#addLength(-1)
    else this.#addSpan(bufferOf(bytes), 0, bytes.length)
  }

  #addSpan(bytes: Buffer, at: number, length: number): void {
    this.#addLength(length)
    if (length <= 0) return
    if (length > COPIED_BYTES) {
      this.#flush()
      this.#sha256.update(bytes.subarray(at, at + length))
      return
    }
    if (this.#used + length > BLOCK_BYTES) this.#flush()
    this.#used = copied(bytes, at, length, this.#block, this.#used)
  }

  #addLength(length: number): void {
    if (this.#used + 4 > BLOCK_BYTES) this.#flush()
    this.#view.setInt32(this.#used, length)
    this.#used += 4
  }

  #flush(): void {
    this.#sha256.update(this.#block.subarray(0, this.#used))
    this.#used = 0
  }
}

/** Answers where the copy ends. */
function copied(bytes: Buffer, at: number, length: number, target: Buffer, to: number): number {
  if (length <= 0) return to
  if (length > SHORT_BYTES) bytes.copy(target, to, at, at + length)
  else for (let k = 0; k < length; k++) target[to + k] = bytes[at + k] ?? 0
  return to + length
}

const bufferOf = (bytes: Uint8Array): Buffer =>
  Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
