import { describe, expect, test } from 'vitest'
import { MAX_DECOMPRESSED_BYTES } from '../../src/kafka/codecs.ts'
import { decodeRecords } from '../../src/kafka/record-batch.ts'
import { MAX_INT64 } from '../../src/offsets.ts'
import { decodeAll, plainContext } from '../support/decoded-records.ts'
import { encodeMarker, sealed, varint } from '../support/record-batch-encoder.ts'
import { batchAt, numbered, refusal, transactional, values } from '../support/wire-batches.ts'

describe('damage', () => {
  const flipped = (bytes: Buffer, at: number): Buffer => {
    const copy = Buffer.from(bytes)
    copy[at] = (copy[at] ?? 0) ^ 1
    return copy
  }

  test('B29 a flipped value byte in the second batch: its base offset is named, none of its rows come out', () => {
    const second = batchAt(5n, numbered(5))
    const bytes = Buffer.concat([batchAt(0n, numbered(5)), flipped(second, second.length - 2)])
    const walk = decodeRecords(bytes, { from: 0n, until: 10n }, plainContext)
    expect(walk.next().value).toMatchObject({ length: 5, nextOffset: 5n })
    expect(refusal(() => walk.next())).toMatchObject({
      name: 'CORRUPT_RECORD_BATCH',
      parameters: { topic: 'orders', partition: 3, offset: '5' },
    })
    expect(walk.next()).toMatchObject({ done: true, value: undefined })
  })

  test('B29 the checksum of batches without a row to deliver is checked too', () => {
    const aborted = { ...plainContext, abortedTransactions: [{ producerId: 1n, firstOffset: 0n }] }
    const record = values('x')
    for (const batch of [
      transactional(0n, 1n, record),
      encodeMarker(0n, 1n, 'abort'),
      batchAt(0n, [], { lastOffsetDelta: 3 }),
    ]) {
      expect(refusal(() => decodeAll(flipped(batch, 30), {}, aborted)).message).toContain('checksum')
    }
  })

  const rightChecksum: readonly (readonly [string, string, Buffer])[] = [
    ['a count above the records', 'its header counts 4 records', batchAt(8n, numbered(3), { count: 4 })],
    ['a count below the records', '9 bytes follow its 2 records', batchAt(8n, numbered(3), { count: 2 })],
    ['a negative count', 'its header counts -1 records', batchAt(8n, numbered(3), { count: -1 })],
    [
      'a count that no batch of this size holds',
      'its header counts 2147483647 records',
      batchAt(8n, numbered(3), { count: 2 ** 31 - 1 }),
    ],
    ['no records but bytes', '9 bytes follow its 0 records', batchAt(8n, [], { payload: Buffer.alloc(9) })],
    [
      'records, of which compression left nothing',
      'its records take 0 bytes',
      batchAt(8n, numbered(1), { codec: 'zstd', compressed: Buffer.alloc(0) }),
    ],
    [
      'an offset delta above the last one',
      'the offset delta 2 after 1, of at most 1',
      batchAt(8n, numbered(3), { lastOffsetDelta: 1 }),
    ],
    ['a repeated offset delta', 'the offset delta 1 after 1', batchAt(8n, [{ delta: 1 }, { delta: 1 }])],
    [
      'a falling offset delta',
      'the offset delta 1 after 2',
      batchAt(8n, [{ delta: 2 }, { delta: 1 }], { lastOffsetDelta: 2 }),
    ],
    ['a negative offset delta', 'the offset delta -1', batchAt(8n, [{ delta: -1 }], { lastOffsetDelta: 0 })],
    ['a negative last offset delta', 'the last offset delta -1', batchAt(8n, [], { lastOffsetDelta: -1 })],
    ['an offset beyond int64', 'the last offset delta 1', batchAt(MAX_INT64 - 1n, numbered(2))],
    ['a record longer than the batch', 'longer than its batch', payloadBatch([100], 0, 0, 0, 1, 1, 0)],
    ['a negative record length', 'longer than its batch', payloadBatch([-1], 0, 0, 0, 1, 1, 0)],
    ['fields beyond the record', 'do not add up', payloadBatch([6], 0, 0, 0, 1, 2, 0x41, 0)],
    ['bytes after the fields', 'do not add up', payloadBatch([8], 0, 0, 0, 1, 1, 0, 0, 0)],
    ['a key length below -1', 'the length -2', payloadBatch([6], 0, 0, 0, 3, 1, 0)],
    ['a key beyond the batch', 'the length 50', payloadBatch([6], 0, 0, 0, 100, 1, 0)],
    ['a negative count of headers', 'counts -1 headers', payloadBatch([6], 0, 0, 0, 1, 1, 1)],
    ['more headers than bytes', 'end inside a record', payloadBatch([6], 0, 0, 0, 1, 1, 100)],
    ['a header with a null key', 'key of a header is null', payloadBatch([8], 0, 0, 0, 1, 1, 2, 1, 1)],
    ['a number of six bytes', 'more than 32 bits', payloadBatch([11], 0, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 1, 1, 0)],
    ['a number of 33 bits', 'more than 32 bits', payloadBatch([10], 0, 0, 0x80, 0x80, 0x80, 0x80, 0x10, 1, 1, 0)],
    ['a timestamp of eleven bytes', 'more than 64 bits', payloadBatch([16], 0, ...Array(10).fill(0x80), 0, 0, 1, 1, 0)],
    ['a timestamp of 65 bits', 'more than 64 bits', payloadBatch([15], 0, ...Array(9).fill(0x80), 2, 0, 1, 1, 0)],
    ['gzip that is none', 'gzip: incorrect header', batchAt(8n, numbered(3), { codecId: 1 })],
    ['snappy that is none', 'a snappy copy points outside', batchAt(8n, numbered(3), { codecId: 2 })],
    ['lz4 that is none', 'begin with an LZ4 frame', batchAt(8n, numbered(3), { codecId: 3 })],
    ['zstd that is none', 'zstd: ', batchAt(8n, numbered(3), { codecId: 4 })],
  ]
  test.each(rightChecksum)('%s is found though the checksum is right', (_name, reason, bytes) => {
    const error = refusal(() => decodeAll(bytes))
    expect(error.name).toBe('CORRUPT_RECORD_BATCH')
    expect(error.parameters).toMatchObject({ topic: 'orders', partition: 3, offset: String(bytes.readBigInt64BE(0)) })
    expect(error.message).toContain(reason)
  })

  test('the records that the damaged ones above start from are sound', () => {
    expect(decodeAll(payloadBatch([6], 0, 0, 0, 1, 1, 0)).rows).toHaveLength(1)
    expect(decodeAll(payloadBatch([8], 0, 0, 0x80, 0x80, 0, 1, 1, 0)).rows).toHaveLength(1)
  })

  test('a control record without a type is damage where it could end an aborted transaction', () => {
    const context = { ...plainContext, abortedTransactions: [{ producerId: 1n, firstOffset: 0n }] }
    const marker = batchAt(0n, [{ key: 'abc' }], { control: true, transactional: true, producerId: 1n })
    expect(refusal(() => decodeAll(marker, {}, context)).name).toBe('CORRUPT_RECORD_BATCH')
  })

  test.each([-1, 0, 13, 14, 48])('a length of %s is no batch', (length) => {
    const bytes = Buffer.from(batchAt(0n, numbered(1)))
    bytes.writeInt32BE(length, 8)
    expect(refusal(() => decodeAll(bytes)).name).toBe('CORRUPT_RECORD_BATCH')
  })

  test.each([[0n], [1n], [2n]])('a batch at offset %s cannot follow one that ends at offset 2', (base) => {
    const bytes = Buffer.concat([batchAt(0n, numbered(3)), batchAt(base, numbered(1))])
    expect(refusal(() => decodeAll(bytes)).message).toContain('it follows a batch that ends at offset 2')
  })

  test.each([-1, 0, 1, 3])('message format %s is refused', (magic) => {
    const bytes = sealed(Buffer.from(batchAt(6n, numbered(1))))
    bytes.writeInt8(magic, 16)
    const error = refusal(() => decodeAll(bytes))
    expect(error).toMatchObject({ name: 'UNSUPPORTED_RECORD_BATCH', parameters: { offset: '6' } })
    expect(error.message).toContain(`message format ${magic} is not supported`)
  })

  test('a batch that would decompress to more than the limit is refused, not decompressed', () => {
    const compressed = lz4Bomb(MAX_DECOMPRESSED_BYTES / (4 * 1024 * 1024) + 1)
    const error = refusal(() => decodeAll(batchAt(2n, numbered(1), { codec: 'lz4', compressed })))
    expect(error).toMatchObject({ name: 'UNSUPPORTED_RECORD_BATCH', parameters: { offset: '2' } })
    expect(error.message).toContain(`decompresses to more than ${MAX_DECOMPRESSED_BYTES} bytes`)
  })
})

/** A batch at offset 8 of one record: its length as a number, then its bytes (zigzag: 1 is -1, 2 is 1). */
const payloadBatch = ([length]: readonly [number], ...bytes: number[]): Buffer =>
  batchAt(8n, [], { payload: Buffer.concat([varint(length), Buffer.from(bytes)]), count: 1 })

/** A frame of so many compressed blocks that stand for 4 MiB each. */
function lz4Bomb(blocks: number): Buffer {
  const block = Buffer.alloc(16451, 0xff)
  const size = Buffer.alloc(4)
  size.writeUInt32LE(block.length)
  const parts = Array.from({ length: blocks }, () => [size, block]).flat()
  return Buffer.concat([Buffer.from('04224d18607073', 'hex'), ...parts, Buffer.alloc(4)])
}
