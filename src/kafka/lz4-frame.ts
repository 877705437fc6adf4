/**
 * LZ4 frames (lz4_Frame_format.md). A frame is measured before it is decompressed: lz4-napi takes no limit for its output, and
 * it takes a frame without its end for a whole one. Where that module cannot be loaded the frame is decompressed here.
 */
import { decodeLz4Block, Lz4Output } from './lz4-block.ts'
import { DamagedBytes } from './refusal.ts'
import { xxh32 } from './xxh32.ts'

const MAGIC = 0x184d2204
const UNCOMPRESSED = 0x80000000
/** What lies before the descriptor. */
const MAGIC_BYTES = 4

export interface Lz4Frame {
  /** Bytes of the input that the frame takes. Kafka's own reader passes over what follows, so does this one. */
  readonly size: number
  /** The most bytes that can come out: exact unless blocks were closed before they were full. */
  readonly bound: number
}

interface Header {
  /** Bytes of the header, its own checksum included. */
  readonly size: number
  /** Bytes that come out of one block at the most. */
  readonly blockMax: number
  readonly isLinked: boolean
  /** Bytes of the checksums behind each block and behind the end, 0 or 4. */
  readonly blockChecksum: number
  readonly contentChecksum: number
  readonly hasContentSize: boolean
}

/** @throws DamagedBytes where the frame does not begin, or does not end, within the bytes. */
export function measureLz4Frame(bytes: Buffer): Lz4Frame {
  const { size: begin, blockMax, blockChecksum, contentChecksum } = headerOf(bytes)
  let at = begin
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

/**
 * Decompresses a frame, in JavaScript.
 * @param bytes the whole frame and nothing more, `frame.size` bytes.
 * @throws DamagedBytes; never takes more than twice the content, nor more than `frame.bound`
 */
export function decompressLz4Frame(bytes: Buffer, frame: Lz4Frame): Buffer {
  const header = headerOf(bytes)
  checkDescriptor(bytes, header)
  const output = new Lz4Output(Math.max(64 * 1024, 4 * bytes.length), frame.bound)
  let at = header.size
  for (let word = bytes.readUInt32LE(at); word !== 0; word = bytes.readUInt32LE(at)) {
    const size = word & ~UNCOMPRESSED
    const block = bytes.subarray(at + 4, at + 4 + size)
    at += 4 + size
    if (header.blockChecksum > 0) checkSum('block', block, bytes.readUInt32LE(at))
    at += header.blockChecksum
    if (word >= UNCOMPRESSED) appendStored(block, output, header)
    else decodeLz4Block(block, output, header.isLinked ? 0 : output.length, header.blockMax)
  }
  const content = output.taken()
  if (header.contentChecksum > 0) checkSum('content', content, bytes.readUInt32LE(at + 4))
  if (header.hasContentSize && bytes.readBigUInt64LE(6) !== BigInt(content.length))
    throw new DamagedBytes('the LZ4 frame has another length than it says')
  return content
}

function headerOf(bytes: Buffer): Header {
  const flags = bytes[MAGIC_BYTES] ?? 0
  if (bytes.length < 7 || bytes.readUInt32LE(0) !== MAGIC || flags >>> 6 !== 1)
    throw new DamagedBytes('it does not begin with an LZ4 frame')
  const hasContentSize = (flags & 0x08) !== 0
  return {
    size: 7 + (hasContentSize ? 8 : 0) + ((flags & 0x01) !== 0 ? 4 : 0),
    blockMax: blockMaximum(bytes[5] ?? 0),
    isLinked: (flags & 0x20) === 0,
    blockChecksum: (flags & 0x10) !== 0 ? 4 : 0,
    contentChecksum: (flags & 0x04) !== 0 ? 4 : 0,
    hasContentSize,
  }
}

/** Of a frame that was measured: its header is all there. */
function checkDescriptor(bytes: Buffer, { size }: Header): void {
  const descriptor = bytes.subarray(MAGIC_BYTES, size - 1)
  if (((xxh32(descriptor) >>> 8) & 255) !== bytes[size - 1]) throw new DamagedBytes("the LZ4 frame's header is damaged")
  const [flags = 0, blocks = 0] = descriptor
  if ((flags & 0x02) !== 0 || (blocks & 0x8f) !== 0) throw new DamagedBytes('the LZ4 frame uses reserved bits')
  if ((flags & 0x01) !== 0) throw new DamagedBytes('the LZ4 frame needs a dictionary')
}

function appendStored(block: Buffer, output: Lz4Output, { blockMax }: Header): void {
  if (block.length > blockMax) throw new DamagedBytes('an LZ4 block is longer than its frame allows')
  block.copy(output.withRoom(block.length), output.length)
  output.length += block.length
}

function checkSum(what: string, bytes: Buffer, expected: number): void {
  if (xxh32(bytes) !== expected) throw new DamagedBytes(`the checksum of an LZ4 ${what} does not match`)
}

function blockMaximum(descriptor: number): number {
  const code = (descriptor >>> 4) & 7
  if (code < 4) throw new DamagedBytes('the LZ4 frame names no valid block size')
  return 2 ** (8 + 2 * code)
}
