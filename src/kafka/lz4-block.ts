/** One block of LZ4 (lz4_Block_format.md): literals, and copies of what came out up to 64 KiB before. */
import { DamagedBytes } from './refusal.ts'

/** From this length on the engine's own copy is faster than a loop. */
const LONG = 32

/** What has come out so far; it grows with the content, not with what a header promises. */
export class Lz4Output {
  /** Bytes that have come out. */
  length = 0
  #buffer: Buffer
  readonly #limit: number

  /** @param limit bytes that can come out of the whole frame. */
  constructor(expected: number, limit: number) {
    this.#limit = limit
    this.#buffer = Buffer.allocUnsafe(Math.min(expected, limit))
  }

  /** The bytes that have come out, and behind them room for so many more. @throws DamagedBytes beyond the limit */
  withRoom(more: number): Buffer {
    const needed = this.length + more
    if (needed <= this.#buffer.length) return this.#buffer
    if (needed > this.#limit) throw new DamagedBytes('an LZ4 block is longer than its frame allows')
    const larger = Buffer.allocUnsafe(Math.min(this.#limit, Math.max(needed, 2 * this.#buffer.length)))
    this.#buffer.copy(larger, 0, 0, this.length)
    this.#buffer = larger
    return larger
  }

  taken(): Buffer {
    return this.#buffer.subarray(0, this.length)
  }
}

/**
 * Appends what the block holds.
 * @param lowest where the bytes begin that it may copy from: its own beginning, or in a frame of linked blocks the frame's.
 * @param maximum the most that may come out of it.
 * @throws DamagedBytes
 */
export function decodeLz4Block(block: Buffer, output: Lz4Output, lowest: number, maximum: number): void {
  const end = block.length
  const last = output.length + maximum
  let from = 0
  // Every index of `block` is below `end`, every one of `out` within the room asked for.
  for (;;) {
    if (from >= end) throw damaged('ends without its last literals')
    const token = block[from++] ?? 0
    let literals = token >>> 4
    if (literals === 15) {
      for (let more = 255; more === 255; literals += more) {
        if (from >= end) throw damaged('ends within a length')
        more = block[from++] ?? 0
      }
    }
    if (literals > end - from) throw damaged('has literals beyond its end')
    if (literals > last - output.length) throw damaged('is longer than its frame allows')
    const out = output.withRoom(literals)
    copyBytes(block, from, out, output.length, literals)
    from += literals
    output.length += literals
    if (from === end) return
    if (from + 2 > end) throw damaged('ends within an offset')
    const offset = (block[from] ?? 0) | ((block[from + 1] ?? 0) << 8)
    from += 2
    let length = (token & 15) + 4
    if (length === 19) {
      for (let more = 255; more === 255; length += more) {
        if (from >= end) throw damaged('ends within a length')
        more = block[from++] ?? 0
      }
    }
    if (offset === 0 || offset > output.length - lowest) throw damaged('copies from before its window')
    if (length > last - output.length) throw damaged('is longer than its frame allows')
    repeatBytes(output.withRoom(length), output.length, offset, length)
    output.length += length
  }
}

const damaged = (what: string): DamagedBytes => new DamagedBytes(`an LZ4 block ${what}`)

function copyBytes(source: Buffer, from: number, target: Buffer, to: number, length: number): void {
  if (length >= LONG) source.copy(target, to, from, from + length)
  else for (let i = 0; i < length; i++) target[to + i] = source[from + i] ?? 0
}

/** Appends bytes of the buffer itself; where they overlap what is appended the pattern repeats. */
function repeatBytes(buffer: Buffer, at: number, offset: number, length: number): void {
  const start = at - offset
  if (length < LONG) {
    for (let i = 0; i < length; i++) buffer[at + i] = buffer[start + i] ?? 0
    return
  }
  const end = at + length
  // Each round copies all there is of the pattern, so it doubles.
  for (let to = at; to < end;) {
    const count = Math.min(to - start, end - to)
    buffer.copyWithin(to, start, start + count)
    to += count
  }
}
