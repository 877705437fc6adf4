/**
 * Measures an LZ4 frame (lz4_Frame_format.md) before it is decompressed: lz4-napi takes no limit for its output, and
 * it takes a frame without its end for a whole one.
 */
import { DamagedBytes } from './refusal.ts'

const MAGIC = 0x184d2204
const UNCOMPRESSED = 0x80000000

export interface Lz4Frame {
  /** Bytes of the input that the frame takes. Kafka's own reader passes over what follows, so does this one. */
  readonly size: number
  /** The most bytes that can come out: exact unless blocks were closed before they were full. */
  readonly bound: number
}

/** @throws DamagedBytes where the frame does not begin, or does not end, within the bytes. */
export function measureLz4Frame(bytes: Buffer): Lz4Frame {
  const flags = bytes[4] ?? 0
  if (bytes.length < 7 || bytes.readUInt32LE(0) !== MAGIC || flags >>> 6 !== 1)
    throw new DamagedBytes('it does not begin with an LZ4 frame')
  const blockMax = blockMaximum(bytes[5] ?? 0)
  const blockChecksum = (flags & 0x10) !== 0 ? 4 : 0
  const contentChecksum = (flags & 0x04) !== 0 ? 4 : 0
  let at = 7 + ((flags & 0x08) !== 0 ? 8 : 0) + ((flags & 0x01) !== 0 ? 4 : 0)
  let bound = 0
  while (at + 4 <= bytes.length) {
    const word = bytes.readUInt32LE(at)
    at += 4
    if (word === 0) {
      if (at + contentChecksum > bytes.length) break
      return { size: at + contentChecksum, bound }
    }
    const size = word & ~UNCOMPRESSED
    // One byte of a match length stands for 255 bytes at most.
    bound += word >= UNCOMPRESSED ? size : Math.min(blockMax, size * 255)
    at += size + blockChecksum
  }
  throw new DamagedBytes('the LZ4 frame has no end')
}

function blockMaximum(descriptor: number): number {
  const code = (descriptor >>> 4) & 7
  if (code < 4) throw new DamagedBytes('the LZ4 frame names no valid block size')
  return 2 ** (8 + 2 * code)
}
