/** Numbers into Parquet pages: one page a row group, which holds as many values as a page may. */
import { wordsOf } from '../../int64.ts'
import { giveBack } from '../../memory.ts'
import { isByteSpans } from '../../schema.ts'
import type { ByteSpans } from '../../schema.ts'
import type { EndedChunk, FlatColumn } from './flat-column.ts'
import { isInt32, isInt64 } from './intake.ts'
import type { Intake } from './intake.ts'
import { PageBytes, deltaPacked } from './page-bytes.ts'
import type { ChunkPages, ChunkTarget } from './chunk-pages.ts'
import type { Bound } from './stats.ts'

const leastValues = 16

abstract class NumberColumn<A extends Int32Array | BigInt64Array | Float64Array> implements FlatColumn {
  protected readonly pages: ChunkPages
  readonly #intake: Intake
  readonly #arrayOf: (length: number) => A
  /** Values that are not null. */
  protected values: A
  protected count = 0
  #nulls = 0

  constructor(pages: ChunkPages, intake: Intake, arrayOf: (length: number) => A) {
    this.pages = pages
    this.#intake = intake
    this.#arrayOf = arrayOf
    this.values = arrayOf(leastValues)
  }

  /** Stores the value if it is one of the column's. */
  protected abstract take(value: unknown, at: number): boolean
  protected abstract takeAll(source: ArrayLike<unknown>, from: number, until: number): boolean
  protected abstract endPage(): { min: Bound | null; max: Bound | null; hasNaN: boolean }

  get bytes(): number {
    return this.count * this.values.BYTES_PER_ELEMENT
  }

  append(source: ArrayLike<unknown> | ByteSpans, from: number, until: number): void {
    if (isByteSpans(source)) return this.#intake.reject(source.bytes)
    this.#reserve(until - from)
    if (this.takeAll(source, from, until)) {
      this.count += until - from
      this.pages.addValues(until - from)
      return
    }
    for (let i = from; i < until; i++) {
      const value = source[i]
      if (this.take(value, this.count)) {
        this.count++
        this.pages.addValue()
      } else if (this.#intake.isNull(value)) {
        this.#nulls++
        this.pages.addNull()
      } else this.#intake.reject(value)
    }
  }

  #reserve(more: number): void {
    if (this.count + more <= this.values.length) return
    const grown = this.#arrayOf(Math.max(2 * this.values.length, this.count + more))
    copyInto(grown, this.values)
    giveBack(this.values)
    this.values = grown
  }

  protected plain(): Uint8Array {
    const { buffer, byteOffset, BYTES_PER_ELEMENT } = this.values
    return new Uint8Array(buffer, byteOffset, this.count * BYTES_PER_ELEMENT)
  }

  end(target: ChunkTarget): EndedChunk {
    const summary = { nulls: this.#nulls, ...this.endPage() }
    this.count = this.#nulls = 0
    return { chunk: this.pages.end(target, summary), summary }
  }

  free(): void {
    giveBack(this.values)
    this.values = this.#arrayOf(0)
  }
}

function copyInto<A extends Int32Array | BigInt64Array | Float64Array>(target: A, source: A): void {
  new Uint8Array(target.buffer).set(new Uint8Array(source.buffer, source.byteOffset, source.byteLength))
}

export class IntColumn extends NumberColumn<Int32Array> {
  constructor(pages: ChunkPages, intake: Intake) {
    super(pages, intake, (length) => new Int32Array(length))
  }

  protected override take(value: unknown, at: number): boolean {
    if (!isInt32(value)) return false
    this.values[at] = value
    return true
  }

  protected override takeAll(source: ArrayLike<unknown>, from: number, until: number): boolean {
    if (!(source instanceof Int32Array)) return false
    this.values.set(source.subarray(from, until), this.count)
    return true
  }

  protected override endPage(): { min: number | null; max: number | null; hasNaN: false } {
    const { values, count } = this
    if (count === 0) {
      this.pages.endPage('PLAIN', this.plain())
      return { min: null, max: null, hasNaN: false }
    }
    let min = values[0] ?? 0
    let max = min
    for (let i = 1; i < count; i++) {
      const value = values[i] ?? 0
      if (value < min) min = value
      if (value > max) max = value
    }
    if (min === max) this.#endConstant(min)
    else this.pages.endPage('PLAIN', this.plain())
    return { min, max, hasNaN: false }
  }

  /** One value for all rows: a dictionary of one. */
  #endConstant(value: number): void {
    const indexes = new PageBytes()
    indexes.byte(0)
    indexes.run(0, this.count, 0)
    this.pages.endPage('RLE_DICTIONARY', indexes.content)
    this.pages.setDictionary(new Uint8Array(Int32Array.of(value).buffer), 1)
  }
}

export class LongColumn extends NumberColumn<BigInt64Array> {
  constructor(pages: ChunkPages, intake: Intake) {
    super(pages, intake, (length) => new BigInt64Array(length))
  }

  protected override take(value: unknown, at: number): boolean {
    if (!isInt64(value)) return false
    this.values[at] = value
    return true
  }

  protected override takeAll(source: ArrayLike<unknown>, from: number, until: number): boolean {
    if (!(source instanceof BigInt64Array)) return false
    this.values.set(source.subarray(from, until), this.count)
    return true
  }

  protected override endPage(): { min: bigint | null; max: bigint | null; hasNaN: false } {
    const { values, count } = this
    const packed = count === 0 ? null : deltaPacked(values, count)
    if (packed === null) this.pages.endPage('PLAIN', this.plain())
    else this.pages.endPage('DELTA_BINARY_PACKED', packed.content)
    if (count === 0) return { min: null, max: null, hasNaN: false }
    const words = wordsOf(values)
    let [min, max] = [0, 0]
    for (let i = 1; i < count; i++) {
      if (isBelow(words, i, min)) min = i
      if (isBelow(words, max, i)) max = i
    }
    return { min: values[min] ?? null, max: values[max] ?? null, hasNaN: false }
  }
}

/** Whether value a is less than value b. */
function isBelow(words: Int32Array, a: number, b: number): boolean {
  const high = words[2 * a + 1] ?? 0
  const other = words[2 * b + 1] ?? 0
  return high === other ? (words[2 * a] ?? 0) >>> 0 < (words[2 * b] ?? 0) >>> 0 : high < other
}

export class DoubleColumn extends NumberColumn<Float64Array> {
  constructor(pages: ChunkPages, intake: Intake) {
    super(pages, intake, (length) => new Float64Array(length))
  }

  protected override take(value: unknown, at: number): boolean {
    if (typeof value !== 'number') return false
    this.values[at] = value
    return true
  }

  protected override takeAll(): boolean {
    return false
  }

  protected override endPage(): { min: number | null; max: number | null; hasNaN: boolean } {
    this.pages.endPage('PLAIN', this.plain())
    let [min, max, hasNaN] = [Infinity, -Infinity, false]
    for (let i = 0; i < this.count; i++) {
      const value = this.values[i] ?? 0
      if (value < min) min = value
      if (value > max) max = value
      if (Number.isNaN(value)) hasNaN = true
    }
    if (min > max) return { min: null, max: null, hasNaN }
    // Parquet takes -0 for the lesser of the two zeros.
    return { min: min === 0 ? -0 : min, max: max === 0 ? 0 : max, hasNaN }
  }
}
