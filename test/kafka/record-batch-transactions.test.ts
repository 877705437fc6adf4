import { describe, expect, test } from 'vitest'
import type { DecodeContext } from '../../src/kafka/record-batch.ts'
import { decodeAll, offsetsOfRows, plainContext, textsOf } from '../support/decoded-records.ts'
import { encodeMarker } from '../support/record-batch-encoder.ts'
import { batchAt, transactional, values } from '../support/wire-batches.ts'

describe('transactions', () => {
  const committed = (aborted: DecodeContext['abortedTransactions'] = []): DecodeContext => ({
    ...plainContext,
    abortedTransactions: aborted,
  })
  const A = 11n
  const B = 12n
  const zeroKey = { key: Buffer.alloc(4), value: 'zero' }

  test('B20 the aborted records of interleaved transactions never come out, in any order of the list', () => {
    const bytes = Buffer.concat([
      transactional(0n, A, values('a0', 'a1')),
      transactional(2n, B, values('b2')),
      encodeMarker(3n, B, 'abort'),
      transactional(4n, A, values('a4')),
      encodeMarker(5n, A, 'abort'),
      batchAt(6n, values('plain')),
    ])
    const list = [
      { producerId: B, firstOffset: 2n },
      { producerId: A, firstOffset: 0n },
    ]
    for (const aborted of [list, list.toReversed()]) {
      const decoded = decodeAll(bytes, { until: 7n }, committed(aborted))
      expect([textsOf(decoded), offsetsOfRows(decoded), decoded.end.nextOffset]).toEqual([['plain'], [6n], 7n])
    }
  })

  test('B20 aborted records with the key 00000000 are no markers', () => {
    const bytes = Buffer.concat([
      transactional(0n, A, [zeroKey, zeroKey]),
      encodeMarker(2n, A, 'abort'),
      batchAt(3n, values('plain')),
    ])
    const decoded = decodeAll(bytes, {}, committed([{ producerId: A, firstOffset: 0n }]))
    expect(textsOf(decoded)).toEqual(['plain'])
  })

  test('B20 committed and plain records with the key 00000000 are delivered', () => {
    const bytes = Buffer.concat([
      transactional(0n, A, [zeroKey]),
      encodeMarker(1n, A, 'commit'),
      batchAt(2n, [zeroKey]),
    ])
    expect(offsetsOfRows(decodeAll(bytes, {}, committed()))).toEqual([0n, 2n])
  })

  test('a producer’s transaction after its aborted one is delivered, and its next aborted one is not', () => {
    const bytes = Buffer.concat([
      transactional(0n, A, values('aborted')),
      encodeMarker(1n, A, 'abort'),
      transactional(2n, A, values('committed')),
      encodeMarker(3n, A, 'commit'),
      transactional(4n, A, values('aborted')),
      encodeMarker(5n, A, 'abort'),
      transactional(6n, A, values('committed')),
    ])
    const aborted = [
      { producerId: A, firstOffset: 4n },
      { producerId: A, firstOffset: 0n },
    ]
    expect(offsetsOfRows(decodeAll(bytes, {}, committed(aborted)))).toEqual([2n, 6n])
  })

  test('a transaction that spreads over answers is dropped in each, wherever they are cut', () => {
    const batches = [
      transactional(0n, A, values('x')),
      transactional(1n, A, values('x')),
      batchAt(2n, values('plain')),
      transactional(3n, A, values('x')),
      encodeMarker(4n, A, 'abort'),
      transactional(5n, A, values('good')),
    ]
    const aborted = [{ producerId: A, firstOffset: 0n }]
    for (let cut = 0; cut <= batches.length; cut++) {
      const first = decodeAll(Buffer.concat(batches.slice(0, cut)), {}, committed(aborted))
      // The broker lists a transaction with every answer whose offsets it overlaps.
      const again = committed(first.end.nextOffset <= 4n ? aborted : [])
      const second = decodeAll(Buffer.concat(batches.slice(cut)), { from: first.end.nextOffset }, again)
      expect([...textsOf(first), ...textsOf(second)]).toEqual(['plain', 'good'])
    }
  })

  test('a commit marker of the same producer does not end its aborted transaction, other control records neither', () => {
    const control = { producerId: A, transactional: true, control: true }
    const bytes = Buffer.concat([
      transactional(0n, A, values('aborted')),
      encodeMarker(1n, A, 'commit'),
      batchAt(2n, [{ key: Buffer.from([0, 0, 0, 2]) }], control),
      batchAt(3n, [], control),
      transactional(4n, A, values('aborted')),
      encodeMarker(5n, B, 'abort'),
      transactional(6n, A, values('aborted')),
    ])
    const decoded = decodeAll(bytes, {}, committed([{ producerId: A, firstOffset: 0n }]))
    expect([decoded.rows, decoded.end.nextOffset]).toEqual([[], 7n])
  })

  test('records without the transactional bit are delivered inside an aborted transaction of their producer', () => {
    const bytes = Buffer.concat([
      transactional(0n, A, values('aborted')),
      batchAt(1n, values('idempotent'), { producerId: A }),
    ])
    expect(textsOf(decodeAll(bytes, {}, committed([{ producerId: A, firstOffset: 0n }])))).toEqual(['idempotent'])
  })

  test('under read_uncommitted aborted records are visible, markers are not but take offsets', () => {
    const bytes = Buffer.concat([
      transactional(0n, A, values('a0', 'a1')),
      encodeMarker(2n, A, 'abort'),
      batchAt(3n, values('plain')),
      encodeMarker(4n, B, 'commit'),
    ])
    const context = { ...committed([{ producerId: A, firstOffset: 0n }]), isolationLevel: 'read_uncommitted' as const }
    const decoded = decodeAll(bytes, {}, context)
    expect([offsetsOfRows(decoded), decoded.end.nextOffset]).toEqual([[0n, 1n, 3n], 5n])
  })

  test('a range that consists of aborted records and markers has no rows and reaches its end', () => {
    const bytes = Buffer.concat([transactional(4n, A, values('x', 'y')), encodeMarker(6n, A, 'abort')])
    const decoded = decodeAll(bytes, { from: 4n, until: 7n }, committed([{ producerId: A, firstOffset: 4n }]))
    expect([decoded.rows, decoded.end]).toEqual([[], { nextOffset: 7n, completeBatches: 2, cutOffBytes: null }])
  })
})
