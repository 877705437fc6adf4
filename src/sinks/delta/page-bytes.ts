/** Bytes of a Parquet page as it grows: the plain forms, and the packed forms of levels, indexes and whole numbers. */
import { wordsOf } from '../../int64.ts'
import { giveBack } from '../../memory.ts'

const leastBytes = 1024
const noBytes = Buffer.alloc(0)

export class PageBytes {
  bytes: Buffer = noBytes
  used = 0

  /** Makes room for so many more bytes. */
  reserve(count: number): void {
    if (this.used + count <= this.bytes.length) return
    const grown = Buffer.allocUnsafeSlow(Math.max(leastBytes, 2 * this.bytes.length, this.used + count))
    this.bytes.copy(grown, 0, 0, this.used)
    giveBack(this.bytes)
    this.bytes = grown
  }

  /** The page is empty, and takes no memory. */
  free(): void {
    giveBack(this.bytes)
    this.bytes = noBytes
    this.used = 0
  }

  get content(): Uint8Array {
    return this.bytes.subarray(0, this.used)
  }

  byte(value: number): void {
    this.reserve(1)
    this.bytes[this.used++] = value
  }

  append(bytes: Uint8Array): void {
    this.reserve(bytes.length)
    this.bytes.set(bytes, this.used)
    this.used += bytes.length
  }

  /** Unsigned, of at most 53 bits, seven bits a byte. */
  varint(value: number): void {
    this.reserve(8)
    let rest = value
    for (; rest > 127; rest = Math.floor(rest / 128)) this.bytes[this.used++] = (rest & 127) | 128
    this.bytes[this.used++] = rest
  }

  /** A whole number of at most 52 bits. */
  zigzag(value: number): void {
    this.varint(value < 0 ? -2 * value - 1 : 2 * value)
  }

  /** Of 64 bits. */
  zigzag64(value: bigint): void {
    this.reserve(10)
    let rest = BigInt.asUintN(64, (value << 1n) ^ (value >> 63n))
    for (; rest > 127n; rest >>= 7n) this.bytes[this.used++] = Number(rest & 127n) | 128
    this.bytes[this.used++] = Number(rest)
  }

  /** The RLE form of Parquet: one value so many times. */
  run(value: number, count: number, width: number): void {
    this.varint(2 * count)
    for (let bits = 0; bits < width; bits += 8) this.byte((value >>> bits) & 255)
  }

  /** The bit-packed form of the same, in groups of eight; what is missing in the last one is 0. `width` is 1 to 32. */
  packed(values: Int32Array, from: number, until: number, width: number): void {
    const groups = Math.ceil((until - from) / 8)
    this.varint(2 * groups + 1)
    this.bits(values, from, until, 8 * groups, width)
  }

  /** So many values of `width` bits, the least bit first; those from `until` on are 0. */
  bits(values: Int32Array, from: number, until: number, count: number, width: number): void {
    this.reserve((count * width) / 8 + 8)
    const { bytes } = this
    let at = this.used
    let held = 0
    let heldBits = 0
    for (let i = from; i < from + count; i++) {
      const value = i < until ? (values[i] ?? 0) : 0
      // At most 7 bits wait, so that 25 more have room: a wide value goes in two halves.
      for (let shift = 0; shift < width; shift += 16) {
        const bits = Math.min(16, width - shift)
        held |= ((value >>> shift) & (2 ** bits - 1)) << heldBits
        for (heldBits += bits; heldBits >= 8; heldBits -= 8) {
          bytes[at++] = held
          held >>>= 8
        }
      }
    }
    if (heldBits > 0) bytes[at++] = held
    this.used = at
  }
}

const blockValues = 128
const miniblockValues = 32
/** Differences of this size and more are left to the plain form. */
const maxDifference = 2 ** 51

/**
 * The DELTA_BINARY_PACKED form of the first `count` values, of which there is one or more; null where differences are too
 * large to be exact or take more than 32 bits beside the least of their block: the plain form serves those as well.
 */
export function deltaPacked(values: BigInt64Array, count: number): PageBytes | null {
  const page = new PageBytes()
  for (const head of [blockValues, blockValues / miniblockValues, count]) page.varint(head)
  page.zigzag64(values[0] ?? 0n)
  const words = wordsOf(values)
  const differences = new Float64Array(blockValues)
  const packed = new Int32Array(blockValues)
  for (let start = 1; start < count; start += blockValues) {
    const length = Math.min(blockValues, count - start)
    let least = Infinity
    for (let k = 0; k < length; k++) {
      const difference = differenceAt(words, start + k)
      if (Math.abs(difference) >= maxDifference) return null
      differences[k] = difference
      if (difference < least) least = difference
    }
    for (let k = 0; k < length; k++) {
      const above = (differences[k] ?? 0) - least
      if (above >= 2 ** 32) return null
      packed[k] = above
    }
    page.zigzag(least)
    appendMiniblocks(page, packed, length)
  }
  return page
}

/** Of value i and the one before it; exact up to 53 bits, and about right beyond. */
function differenceAt(words: Int32Array, i: number): number {
  const highs = (words[2 * i + 1] ?? 0) - (words[2 * i - 1] ?? 0)
  const lows = ((words[2 * i] ?? 0) >>> 0) - ((words[2 * i - 2] ?? 0) >>> 0)
  return highs * 2 ** 32 + lows
}

function appendMiniblocks(page: PageBytes, packed: Int32Array, length: number): void {
  const widths: number[] = []
  for (let from = 0; from < blockValues; from += miniblockValues) {
    let all = 0
    for (let k = from; k < Math.min(length, from + miniblockValues); k++) all |= packed[k] ?? 0
    widths.push(32 - Math.clz32(all))
  }
  for (const width of widths) page.byte(width)
  for (const [n, width] of widths.entries()) {
    const from = n * miniblockValues
    if (width > 0 && from < length) page.bits(packed, from, length, miniblockValues, width)
  }
}
