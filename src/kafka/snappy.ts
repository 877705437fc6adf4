/**
 * Decodes snappy (google/snappy format_description.txt) in the two framings that Kafka's producers use: one raw
 * block, and the blocks of xerial's SnappyOutputStream. Own code, since snappyjs hangs on a literal length of 2^31 and
 * more and answers a stream of the wrong length without an error.
 */
import { DamagedBytes, UnsupportedBytes } from './refusal.ts'

/** 0x82 'SNAPPY' 0; two int32 follow: version and lowest compatible version. */
const XERIAL_MAGIC = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0x00])
const XERIAL_HEADER_BYTES = 16

/** One raw block: where it lies in the input and how much it holds. */
interface Block {
  /** First byte after the block's length. */
  readonly start: number
  readonly end: number
  readonly length: number
}

/** @throws DamagedBytes, or UnsupportedBytes where more than `limit` bytes would come out. */
export function decompressSnappy(bytes: Buffer, limit: number): Buffer {
  const blocks = isXerialHeader(bytes, 0) ? xerialBlocks(bytes) : [blockOf(bytes, 0, bytes.length)]
  const total = blocks.reduce((sum, block) => sum + block.length, 0)
  if (total > limit) throw new UnsupportedBytes(`it decompresses to ${total} bytes, more than ${limit}`)
  const out = Buffer.allocUnsafe(total)
  let at = 0
  for (const block of blocks) at = decodeBlock(bytes, block, out, at)
  return out
}

const isXerialHeader = (bytes: Buffer, at: number): boolean =>
  at + XERIAL_HEADER_BYTES <= bytes.length && bytes.compare(XERIAL_MAGIC, 0, 8, at, at + 8) === 0

/** Headers may come again between blocks, where streams were concatenated. */
function xerialBlocks(bytes: Buffer): Block[] {
  const blocks: Block[] = []
  let at = 0
  while (at < bytes.length) {
    if (isXerialHeader(bytes, at)) {
      at += XERIAL_HEADER_BYTES
      continue
    }
    const start = at + 4
    const end = start <= bytes.length ? start + bytes.readInt32BE(at) : -1
    if (end < start || end > bytes.length) throw new DamagedBytes('a snappy block is longer than its bytes')
    blocks.push(blockOf(bytes, start, end))
    at = end
  }
  return blocks
}

function blockOf(bytes: Buffer, start: number, end: number): Block {
  let length = 0
  for (let i = 0; i < 5 && start + i < end; i++) {
    const byte = bytes[start + i] ?? 0
    length += (byte & 0x7f) * 2 ** (7 * i)
    if (byte < 0x80 && length < 2 ** 32) return { start: start + i + 1, end, length }
  }
  throw new DamagedBytes('a snappy block has no valid length')
}

/** Decodes a block to `out` at `outStart`, exactly its length; answers where it ended. */
function decodeBlock(bytes: Buffer, block: Block, out: Buffer, outStart: number): number {
  const outEnd = outStart + block.length
  let at = block.start
  let o = outStart
  while (at < block.end) {
    const tag = bytes[at] ?? 0
    const kind = tag & 3
    // The bytes after the tag: of a long literal's length, or of a copy's offset.
    const extra = kind === 0 ? Math.max(0, (tag >>> 2) - 59) : kind === 3 ? 4 : kind
    if (at + 1 + extra > block.end) throw new DamagedBytes('a snappy block ends inside an element')
    const number = extra === 0 ? 0 : bytes.readUIntLE(at + 1, extra)
    at += 1 + extra
    if (kind === 0) {
      const length = 1 + (extra === 0 ? tag >>> 2 : number)
      if (length > block.end - at || length > outEnd - o)
        throw new DamagedBytes('a snappy literal is longer than its block')
      bytes.copy(out, o, at, at + length)
      at += length
      o += length
    } else {
      const length = kind === 1 ? ((tag >>> 2) & 7) + 4 : (tag >>> 2) + 1
      const offset = kind === 1 ? ((tag >>> 5) << 8) | number : number
      if (offset === 0 || offset > o - outStart || length > outEnd - o)
        throw new DamagedBytes('a snappy copy points outside of its block')
      // Byte by byte: a copy may overlap what it writes.
      for (const end = o + length; o < end; o++) out[o] = out[o - offset] ?? 0
    }
  }
  if (o !== outEnd) throw new DamagedBytes('a snappy block holds less than its length says')
  return o
}
