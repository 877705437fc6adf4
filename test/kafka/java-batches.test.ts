/** Batches that Kafka's own classes built, against what Kafka's own reader found in them (JavaBatches.java made both). */
import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { SluiceError } from '../../src/errors.ts'
import { decodeRecords } from '../../src/kafka/record-batch.ts'
import { MAX_INT64 } from '../../src/offsets.ts'
import { decodeAll, offsetsOfRows, plainContext, rowOf } from '../support/decoded-records.ts'
import cases from './java-batches.json' with { type: 'json' }

const bytesOf = (name: string): Buffer => {
  const found = cases.find((c) => c.name === name)
  if (found === undefined) throw new Error(`no case ${name}`)
  return Buffer.from(found.bytes, 'base64')
}

const supported = cases.filter((c) => !c.name.startsWith('format'))

describe('Kafka’s own batches give what Kafka’s own reader gives', () => {
  test.each(supported.map((c) => [c.name, c] as const))('%s', (_name, { bytes, batches }) => {
    const expected = batches.filter((b) => !b.control && b.records.length > 0)
    const context = { ...plainContext, isolationLevel: 'read_uncommitted' as const }
    const walk = decodeRecords(Buffer.from(bytes, 'base64'), { from: 0n, until: MAX_INT64 }, context)
    for (const batch of expected) {
      const step = walk.next()
      if (step.done === true) throw new Error('a batch is missing')
      const wire = step.value
      expect(wire.nextOffset).toBe(BigInt(batch.next))
      expect(wire.timestampType).toBe(batch.type)
      const rows = Array.from({ length: wire.length }, (_, i) => flat(rowOf(wire, i)))
      expect(rows).toEqual(batch.records)
    }
    const end = walk.next().value
    expect(end).toEqual({
      nextOffset: BigInt(batches.at(-1)?.next ?? 0),
      completeBatches: batches.length,
      cutOffBytes: null,
    })
  })
})

test.each(['format 0', 'format 1'])('%s is refused by name', (name) => {
  const failed = () => decodeAll(bytesOf(name))
  expect(failed).toThrow(SluiceError)
  expect(failed).toThrow(/orders-3 at offset 5 .*message format [01] is not supported/)
})

test('aborted records of Java’s transaction are dropped, committed and plain ones kept', () => {
  const context = { ...plainContext, abortedTransactions: [{ producerId: 11n, firstOffset: 0n }] }
  expect(offsetsOfRows(decodeAll(bytesOf('transactions'), {}, context))).toEqual([2n, 5n])
})

test('a range over compacted gzip batches gives what is left and ends by offset', () => {
  const compacted = bytesOf('compacted')
  expect(offsetsOfRows(decodeAll(compacted, { from: 0n, until: 22n }))).toEqual([1n, 3n, 5n, 7n, 9n, 20n, 21n])
  const middle = decodeAll(compacted, { from: 4n, until: 7n })
  expect([offsetsOfRows(middle), middle.end.nextOffset]).toEqual([[5n], 10n])
  const emptied = decodeAll(compacted.subarray(-(compacted.length - sizeOfFirst(compacted))), { from: 12n, until: 20n })
  expect([emptied.rows.length, emptied.end.nextOffset]).toEqual([0, 20n])
})

const sizeOfFirst = (bytes: Buffer): number => 12 + bytes.readInt32BE(8)

/** As the vectors are written: bytes in hexadecimal, or the SHA-256 of more than 64 of them. */
const flat = (row: ReturnType<typeof rowOf>): unknown[] => [
  String(row.offset),
  String(row.timestamp),
  short(row.key),
  short(row.value),
  (row.headers ?? []).map(([key, value]) => [short(Buffer.from(key).toString('hex')), short(value)]),
]

const short = (hex: string | null): string | null =>
  hex !== null && hex.length > 128 ? createHash('sha256').update(hex, 'hex').digest('hex') : hex
