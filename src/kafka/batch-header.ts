/** The 61 bytes before the records of a batch (message format v2), and the length of a batch of any format. */
import { crc32c } from './codecs.ts'
import { DamagedBytes, UnsupportedBytes } from './refusal.ts'

/** Base offset and length: not counted by the length, nor covered by the checksum. */
const PREFIX_BYTES = 12
export const HEADER_BYTES = 61
const CHECKED_FROM = 21

export interface BatchHeader {
  readonly baseOffset: bigint
  readonly lastOffsetDelta: number
  /** baseOffset + lastOffsetDelta: kept by compaction even where the record of that offset is gone. */
  readonly lastOffset: bigint
  readonly codec: number
  /** Attribute bit 3: every record has `maxTimestamp` instead of its own timestamp. */
  readonly logAppendTime: boolean
  /** Attribute bit 4. */
  readonly transactional: boolean
  /** Attribute bit 5. */
  readonly control: boolean
  readonly baseTimestamp: bigint
  readonly maxTimestamp: bigint
  /** -1 without one. */
  readonly producerId: bigint
  readonly count: number
}

/** Bytes of the batch that begins at `at`; where even its length is cut off, the least that a batch takes. */
export function batchSize(bytes: Buffer, at: number): number {
  if (at + PREFIX_BYTES > bytes.length) return HEADER_BYTES
  const length = bytes.readInt32BE(at + 8)
  // The two older formats have at least 14 bytes.
  if (length < 14) throw new DamagedBytes(`its length is ${length}`)
  return PREFIX_BYTES + length
}

/**
 * The header of a batch that lies wholly in `bytes[at, end)`, after its checksum was found right. The checksum leaves
 * out base offset, length, leader epoch and magic, so those are as trustworthy as the connection and the disk.
 */
export function readBatchHeader(bytes: Buffer, at: number, end: number): BatchHeader {
  const magic = bytes.readInt8(at + 16)
  if (magic !== 2) {
    const remedy = magic === 0 || magic === 1 ? '; only format 2 (Kafka 0.11 and later) is: rewrite the topic' : ''
    throw new UnsupportedBytes(`message format ${magic} is not supported${remedy}`)
  }
  if (end - at < HEADER_BYTES) throw new DamagedBytes(`its length is ${end - at - PREFIX_BYTES}`)
  const expected = bytes.readUInt32BE(at + 17)
  const actual = crc32c(bytes.subarray(at + CHECKED_FROM, end))
  if (actual !== expected) throw new DamagedBytes(`its checksum is ${expected}, its bytes give ${actual}`)
  const attributes = bytes.readInt16BE(at + 21)
  const baseOffset = bytes.readBigInt64BE(at)
  const lastOffsetDelta = bytes.readInt32BE(at + 23)
  const lastOffset = baseOffset + BigInt(lastOffsetDelta)
  if (baseOffset < 0n || lastOffsetDelta < 0 || lastOffset >= 2n ** 63n - 1n)
    throw new DamagedBytes(`it has the last offset delta ${lastOffsetDelta}`)
  return {
    baseOffset,
    lastOffsetDelta,
    lastOffset,
    codec: attributes & 7,
    logAppendTime: (attributes & 8) !== 0,
    transactional: (attributes & 16) !== 0,
    control: (attributes & 32) !== 0,
    baseTimestamp: bytes.readBigInt64BE(at + 27),
    maxTimestamp: bytes.readBigInt64BE(at + 35),
    producerId: bytes.readBigInt64BE(at + 43),
    count: bytes.readInt32BE(at + 57),
  }
}
