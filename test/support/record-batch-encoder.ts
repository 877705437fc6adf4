/**
 * Builds record batches (message format v2) and Fetch answers for tests that run without a broker. It shares no code
 * with the decoder, and takes what no producer would send where a test asks for it.
 */
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { crc32c } from '@node-rs/crc32'
import { compressFrameSync } from 'lz4-napi'
import { compress as compressSnappy } from 'snappyjs'
import type { AbortedTransaction } from '../../src/kafka/aborted-transactions.ts'

export const codecNames = ['none', 'gzip', 'snappy', 'snappy-raw', 'lz4', 'zstd'] as const
export type CodecName = (typeof codecNames)[number]

type Bytes = Uint8Array | string | null

export interface TestRecord {
  readonly key?: Bytes
  readonly value?: Bytes
  readonly headers?: readonly (readonly [string, Bytes])[]
  /** Milliseconds; 1790899200000 where absent. */
  readonly timestamp?: bigint
  /** From the batch's base offset; the record's place in the list where absent. */
  readonly delta?: number
}

export interface TestBatch {
  readonly baseOffset: bigint
  readonly records: readonly TestRecord[]
  readonly codec?: CodecName
  /** Of the last record where absent. */
  readonly lastOffsetDelta?: number
  readonly count?: number
  readonly producerId?: bigint
  readonly transactional?: boolean
  readonly control?: boolean
  /** The maxTimestamp of a batch with LogAppendTime. */
  readonly logAppendTime?: bigint
  /** Instead of the encoded records, before compression. */
  readonly payload?: Buffer
  /** Instead of the compressed records. */
  readonly compressed?: Buffer
  /** Instead of the codec's own number. */
  readonly codecId?: number
}

export const DEFAULT_TIMESTAMP = 1790899200000n

export function encodeBatch(batch: TestBatch): Buffer {
  const { records, codec = 'none' } = batch
  const base = records[0]?.timestamp ?? DEFAULT_TIMESTAMP
  const payload = batch.payload ?? Buffer.concat(records.map((record, i) => encodeRecord(record, i, base)))
  const body = batch.compressed ?? compress(codec, payload)
  const header = Buffer.alloc(61)
  header.writeBigInt64BE(batch.baseOffset, 0)
  header.writeInt32BE(49 + body.length, 8)
  header.writeInt32BE(3, 12)
  header.writeInt8(2, 16)
  const codecId = batch.codecId ?? { none: 0, gzip: 1, snappy: 2, 'snappy-raw': 2, lz4: 3, zstd: 4 }[codec]
  const flags = (batch.logAppendTime === undefined ? 0 : 8) | (batch.transactional ? 16 : 0) | (batch.control ? 32 : 0)
  header.writeInt16BE(codecId | flags, 21)
  const deltas = records.map((record, i) => record.delta ?? i)
  header.writeInt32BE(batch.lastOffsetDelta ?? deltas.at(-1) ?? 0, 23)
  header.writeBigInt64BE(base, 27)
  header.writeBigInt64BE(batch.logAppendTime ?? records.at(-1)?.timestamp ?? base, 35)
  header.writeBigInt64BE(batch.producerId ?? -1n, 43)
  header.writeInt16BE(batch.producerId === undefined ? -1 : 0, 51)
  header.writeInt32BE(batch.producerId === undefined ? -1 : 0, 53)
  header.writeInt32BE(batch.count ?? records.length, 57)
  return sealed(Buffer.concat([header, body]))
}

/** Puts the right checksum onto a batch that a test has changed. */
export function sealed(batch: Buffer): Buffer {
  batch.writeUInt32BE(crc32c(batch.subarray(21)), 17)
  return batch
}

/** The control batch that ends a transaction. */
export const encodeMarker = (offset: bigint, producerId: bigint, kind: 'abort' | 'commit'): Buffer =>
  encodeBatch({
    baseOffset: offset,
    records: [{ key: Buffer.from([0, 0, 0, kind === 'abort' ? 0 : 1]), value: Buffer.alloc(6) }],
    producerId,
    transactional: true,
    control: true,
  })

export function encodeRecord(record: TestRecord, index: number, baseTimestamp: bigint): Buffer {
  const headers = record.headers ?? []
  const body = Buffer.concat([
    Buffer.from([0]),
    // Wraps as a long does in Java.
    varint(BigInt.asIntN(64, (record.timestamp ?? DEFAULT_TIMESTAMP) - baseTimestamp)),
    varint(record.delta ?? index),
    field(record.key ?? null),
    field(record.value ?? null),
    varint(headers.length),
    ...headers.flatMap(([key, value]) => [field(key), field(value)]),
  ])
  return Buffer.concat([varint(body.length), body])
}

/** Zigzag, of any number of bits. */
export function varint(value: number | bigint): Buffer {
  const bytes: number[] = []
  let rest = BigInt(value) < 0n ? -2n * BigInt(value) - 1n : 2n * BigInt(value)
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128)
  bytes.push(Number(rest))
  return Buffer.from(bytes)
}

function field(bytes: Bytes): Buffer {
  if (bytes === null) return varint(-1)
  const content = Buffer.from(bytes)
  return Buffer.concat([varint(content.length), content])
}

export function compress(codec: CodecName, payload: Buffer): Buffer {
  switch (codec) {
    case 'none':
      return payload
    case 'gzip':
      return gzipSync(payload)
    case 'zstd':
      return zstdCompressSync(payload)
    case 'lz4':
      return compressFrameSync(payload)
    case 'snappy-raw':
      return Buffer.from(compressSnappy(payload))
    default:
      return xerial(payload)
  }
}

/** The framing of xerial's SnappyOutputStream: blocks of 32 KiB. */
function xerial(payload: Buffer): Buffer {
  const parts = [Buffer.from('82534e41505059000000000100000001', 'hex')]
  for (let at = 0; at < payload.length; at += 32768) {
    const block = Buffer.from(compressSnappy(payload.subarray(at, at + 32768)))
    const length = Buffer.alloc(4)
    length.writeInt32BE(block.length)
    parts.push(length, block)
  }
  return Buffer.concat(parts)
}

export interface TestPartition {
  readonly partition: number
  readonly errorCode?: number
  readonly highWatermark?: bigint
  readonly lastStableOffset?: bigint
  readonly logStartOffset?: bigint
  /** Null as brokers send it under read_uncommitted. */
  readonly aborted?: readonly AbortedTransaction[] | null
  readonly records?: Buffer | null
}

/** The body of a Fetch v11 answer. */
export function encodeFetchResponse(
  topics: readonly { readonly topic: string; readonly partitions: readonly TestPartition[] }[],
  top: { readonly throttleTimeMs?: number; readonly errorCode?: number; readonly sessionId?: number } = {}
): Buffer {
  const parts = [int32(top.throttleTimeMs ?? 0), int16(top.errorCode ?? 0), int32(top.sessionId ?? 0)]
  parts.push(int32(topics.length))
  for (const { topic, partitions } of topics) {
    const name = Buffer.from(topic)
    parts.push(int16(name.length), name, int32(partitions.length), ...partitions.map(encodePartition))
  }
  return Buffer.concat(parts)
}

function encodePartition(p: TestPartition): Buffer {
  const aborted = p.aborted ?? null
  const records = p.records ?? null
  return Buffer.concat([
    int32(p.partition),
    int16(p.errorCode ?? 0),
    int64(p.highWatermark ?? -1n),
    int64(p.lastStableOffset ?? -1n),
    int64(p.logStartOffset ?? -1n),
    int32(aborted === null ? -1 : aborted.length),
    ...(aborted ?? []).flatMap((a) => [int64(a.producerId), int64(a.firstOffset)]),
    int32(-1),
    int32(records === null ? -1 : records.length),
    records ?? Buffer.alloc(0),
  ])
}

function int16(value: number): Buffer {
  const bytes = Buffer.alloc(2)
  bytes.writeInt16BE(value)
  return bytes
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32BE(value)
  return bytes
}

function int64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigInt64BE(value)
  return bytes
}
