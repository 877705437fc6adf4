/**
 * Decodes the record bytes of one partition's Fetch answer. Pure: bytes in, records out. It exists because kafkajs
 * takes the key 00000000 for an abort marker, checks no checksum, fails on batches of very many records and hides
 * batch headers, without which a range that ends in markers or compacted offsets never ends.
 */
import { SluiceError } from '../errors.ts'
import { AbortedTransactions } from './aborted-transactions.ts'
import type { AbortedTransaction } from './aborted-transactions.ts'
import { HEADER_BYTES, batchSize, readBatchHeader } from './batch-header.ts'
import type { BatchHeader } from './batch-header.ts'
import { decompress, release } from './codecs.ts'
import { readRecords, RecordScratch } from './record-reader.ts'
import type { RecordColumns } from './record-reader.ts'
import { DamagedBytes, UnsupportedBytes } from './refusal.ts'
import { WireBatch } from './wire-batch.ts'

export type IsolationLevel = 'read_uncommitted' | 'read_committed'

export interface DecodeContext {
  readonly topic: string
  readonly partition: number
  readonly isolationLevel: IsolationLevel
  /** Of the same answer as the bytes; in any order. */
  readonly abortedTransactions: readonly AbortedTransaction[]
  /** Where batches are read into, each over the one before. Default: into new memory. */
  readonly scratch?: RecordScratch
}

/** What an answer tells beside its records. */
export interface RecordsEnd {
  /**
   * The first offset that the bytes say nothing about: `from` where they hold no complete batch, else past the last
   * complete batch, whether or not a record of it was visible. May lie past `until`.
   */
  readonly nextOffset: bigint
  /** Complete batches that reach `from`. 0 with `cutOffBytes` set: not even the first one fits, so ask for more bytes. */
  readonly completeBatches: number
  /**
   * The bytes that the batch cut off at the end takes, or the least it can take while its length is cut off too; null
   * where none is cut off or the range ended before it.
   */
  readonly cutOffBytes: number | null
}

/** The key of a control record: version, type; type 0 aborts, 1 commits, others concern Kafka alone. */
const ABORT_MARKER = 0
/** gzip and zstd come out of zlib, into memory of their own. */
const zlibCodecs: ReadonlySet<number> = new Set([1, 4])

/**
 * Yields the visible records of `[from, until)`, one batch for each wire batch that has any, and returns how far the
 * bytes reach. Markers are never yielded, the records of aborted transactions only under read_uncommitted; both
 * advance the position, as do batches that compaction has emptied.
 *
 * Each batch is checked whole, checksum first, before any of its records is yielded.
 * @throws CORRUPT_RECORD_BATCH, UNSUPPORTED_RECORD_BATCH, naming the batch's base offset. Batches yielded before stay good.
 */
export function* decodeRecords(
  bytes: Buffer,
  range: { readonly from: bigint; readonly until: bigint },
  context: DecodeContext
): Generator<WireBatch, RecordsEnd, void> {
  const aborted = new AbortedTransactions(
    context.isolationLevel === 'read_committed' ? context.abortedTransactions : []
  )
  let position = range.from
  let previous = -1n
  let completeBatches = 0
  for (let at = 0; at < bytes.length && position < range.until;) {
    const start = at
    const size = named(context, bytes, start, position, () => batchSize(bytes, start))
    const end = start + size
    if (end > bytes.length) return { nextOffset: position, completeBatches, cutOffBytes: size }
    const header = named(context, bytes, start, position, () => headerAfter(previous, bytes, start, end))
    const scratch = context.scratch ?? new RecordScratch()
    const batch = named(context, bytes, start, position, () =>
      visibleRecords(bytes.subarray(start, end), header, { ...range, scratch }, aborted)
    )
    if (batch !== null && batch.length > 0) yield new WireBatch(context, header, batch, scratch)
    // Whoever asked for the next batch is done with this one.
    if (
      context.scratch !== undefined &&
      batch !== null &&
      batch.bytes.buffer !== bytes.buffer &&
      zlibCodecs.has(header.codec)
    )
      release(batch.bytes)
    // A batch from beyond the range tells that nothing is left in it: compaction took the offsets between.
    const reached = header.baseOffset >= range.until ? header.baseOffset : header.lastOffset + 1n
    if (reached > position) position = reached
    if (reached > range.from) completeBatches++
    previous = header.lastOffset
    at = end
  }
  if (completeBatches === 0 && previous >= 0n)
    throw corrupt(context, position, `the broker answered batches up to ${previous} only`)
  return { nextOffset: position, completeBatches, cutOffBytes: null }
}

/**
 * The offset after the last whole batch of an answer as its header says, unchecked; null where there is none. It is good
 * for a guess of where the next fetch begins, made before anything is decoded.
 */
export function unverifiedReach(bytes: Buffer): bigint | null {
  let last = -1
  for (let at = 0; at + HEADER_BYTES <= bytes.length;) {
    const end = at + 12 + bytes.readInt32BE(at + 8)
    if (end < at + HEADER_BYTES || end > bytes.length) break
    last = at
    at = end
  }
  return last < 0 ? null : bytes.readBigInt64BE(last) + BigInt(bytes.readInt32BE(last + 23)) + 1n
}

function headerAfter(previous: bigint, bytes: Buffer, at: number, end: number): BatchHeader {
  const header = readBatchHeader(bytes, at, end)
  if (header.baseOffset <= previous) throw new DamagedBytes(`it follows a batch that ends at offset ${previous}`)
  return header
}

/** The records to deliver of a batch whose checksum is right; null where there is none and no need to look. */
function visibleRecords(
  batch: Buffer,
  header: BatchHeader,
  range: { readonly from: bigint; readonly until: bigint; readonly scratch: RecordScratch },
  aborted: AbortedTransactions
): RecordColumns | null {
  const insideAborted = aborted.reach(header)
  if (header.control) {
    if (insideAborted && controlType(batch, header) === ABORT_MARKER) aborted.ended(header.producerId)
    return null
  }
  if (insideAborted && header.transactional) return null
  if (header.lastOffset < range.from || header.baseOffset >= range.until) return null
  const first = range.from - header.baseOffset
  const last = range.until - 1n - header.baseOffset
  const selection = {
    first: first < 0n ? 0 : Number(first),
    last: last > header.lastOffsetDelta ? header.lastOffsetDelta : Number(last),
  }
  return recordsOf(batch, header, selection, range.scratch)
}

/** Null for a marker that compaction has removed. */
function controlType(batch: Buffer, header: BatchHeader): number | null {
  const scratch = new RecordScratch()
  const records = recordsOf(batch, header, { first: 0, last: header.lastOffsetDelta }, scratch)
  if (records.length === 0) return null
  const key = new WireBatch({ topic: '', partition: 0 }, header, records, scratch).key(0)
  if (key === null || key.length < 4) throw new DamagedBytes('a control record has no type')
  return Buffer.from(key.buffer, key.byteOffset, key.length).readInt16BE(2)
}

function recordsOf(
  batch: Buffer,
  header: BatchHeader,
  wanted: { readonly first: number; readonly last: number },
  scratch: RecordScratch
): RecordColumns {
  const { codec, count, lastOffsetDelta } = header
  const compressed = codec !== 0 && batch.length > HEADER_BYTES
  const bytes = compressed ? decompress(codec, batch.subarray(HEADER_BYTES)) : batch
  const start = compressed ? 0 : HEADER_BYTES
  return readRecords(bytes, { start, end: bytes.length, count, lastOffsetDelta, ...wanted }, scratch)
}

/** Adds the place to a refusal: the batch's base offset, or the position where even that is cut off. */
function named<T>(context: DecodeContext, bytes: Buffer, at: number, position: bigint, step: () => T): T {
  try {
    return step()
  } catch (e) {
    const offset = at + 8 <= bytes.length ? bytes.readBigInt64BE(at) : position
    if (e instanceof DamagedBytes) throw corrupt(context, offset, e.message, e)
    if (!(e instanceof UnsupportedBytes)) throw e
    const { topic, partition } = context
    throw new SluiceError(
      'UNSUPPORTED_RECORD_BATCH',
      { topic, partition, offset: String(offset), reason: e.message },
      e
    )
  }
}

const corrupt = ({ topic, partition }: DecodeContext, offset: bigint, reason: string, cause?: unknown): SluiceError =>
  new SluiceError('CORRUPT_RECORD_BATCH', { topic, partition, offset: String(offset), reason }, cause)
