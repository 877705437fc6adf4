import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isSluiceError } from '../../src/errors.ts'
import { parseFetchResponse } from '../../src/kafka/fetch-response.ts'
import { decodeAll, plainContext, textsOf } from '../support/decoded-records.ts'
import { encodeBatch, encodeFetchResponse, encodeMarker } from '../support/record-batch-encoder.ts'

const records = encodeBatch({ baseOffset: 2n, records: [{ value: 'x' }] })

const answer = encodeFetchResponse(
  [
    {
      topic: 'orders',
      partitions: [
        {
          partition: 0,
          highWatermark: 9007199254740993n,
          lastStableOffset: 2n ** 63n - 1n,
          logStartOffset: 1n,
          aborted: [
            { producerId: 2n ** 62n + 1n, firstOffset: 9007199254740995n },
            { producerId: 4n, firstOffset: 0n },
          ],
          records,
        },
        { partition: 7, errorCode: 1 },
      ],
    },
    { topic: 'zahlungen-ü', partitions: [{ partition: 1, highWatermark: 3n, aborted: [], records: Buffer.alloc(0) }] },
    { topic: 'none', partitions: [] },
  ],
  { throttleTimeMs: 250, sessionId: 77 }
)

describe('parseFetchResponse', () => {
  test('takes every field, 64-bit ones exactly, partitions in the broker’s order', () => {
    const parsed = parseFetchResponse(answer)
    const none = { abortedTransactions: [], preferredReadReplica: -1, records: Buffer.alloc(0) }
    expect(parsed).toEqual({
      throttleTimeMs: 250,
      errorCode: 0,
      sessionId: 77,
      partitions: [
        {
          topic: 'orders',
          partition: 0,
          errorCode: 0,
          highWatermark: 9007199254740993n,
          lastStableOffset: 2n ** 63n - 1n,
          logStartOffset: 1n,
          abortedTransactions: [
            { producerId: 2n ** 62n + 1n, firstOffset: 9007199254740995n },
            { producerId: 4n, firstOffset: 0n },
          ],
          preferredReadReplica: -1,
          records,
        },
        {
          topic: 'orders',
          partition: 7,
          errorCode: 1,
          highWatermark: -1n,
          lastStableOffset: -1n,
          logStartOffset: -1n,
          ...none,
        },
        {
          topic: 'zahlungen-ü',
          partition: 1,
          errorCode: 0,
          highWatermark: 3n,
          lastStableOffset: -1n,
          logStartOffset: -1n,
          ...none,
        },
      ],
    })
  })

  test('record bytes are views of the body', () => {
    expect(parseFetchResponse(answer).partitions[0]?.records.buffer).toBe(answer.buffer)
  })

  test('an error of the whole answer has no partitions', () => {
    expect(parseFetchResponse(encodeFetchResponse([], { errorCode: 70 }))).toMatchObject({
      errorCode: 70,
      partitions: [],
    })
  })

  test('its aborted list and records go to the decoder as they are', () => {
    const aborted = [{ producerId: 5n, firstOffset: 0n }]
    const bytes = Buffer.concat([
      encodeBatch({ baseOffset: 0n, records: [{ value: 'aborted' }], producerId: 5n, transactional: true }),
      encodeMarker(1n, 5n, 'abort'),
      records,
    ])
    const body = encodeFetchResponse([{ topic: 'orders', partitions: [{ partition: 3, aborted, records: bytes }] }])
    const [partition] = parseFetchResponse(body).partitions
    if (partition === undefined) throw new Error('no partition')
    const { abortedTransactions } = partition
    expect(textsOf(decodeAll(partition.records, {}, { ...plainContext, abortedTransactions }))).toEqual(['x'])
  })
})

describe('a malformed answer is refused by name', () => {
  const refused = (body: Buffer): boolean => {
    try {
      parseFetchResponse(body)
      return false
    } catch (e) {
      if (isSluiceError(e, 'KAFKA_RESPONSE_MALFORMED')) return e.retryable
      throw e
    }
  }

  test('cut at every length', () => {
    for (let n = 0; n < answer.length; n++) expect(refused(answer.subarray(0, n))).toBe(true)
  })

  test('with bytes after its end', () => {
    expect(refused(Buffer.concat([answer, Buffer.alloc(1)]))).toBe(true)
  })

  test.each([
    ['a negative topic name', 14, 'ffff'],
    ['a huge count of topics', 10, '7fffffff'],
    ['a count of topics below -1', 10, 'fffffffe'],
    ['a huge count of partitions', 22, '7fffffff'],
    ['a huge count of aborted transactions', 56, '7fffffff'],
    ['a negative length of records', 96, 'fffffffe'],
    ['a huge length of records', 96, '7fffffff'],
  ])('%s', (_name, at, hex) => {
    const body = Buffer.from(answer)
    Buffer.from(hex, 'hex').copy(body, at)
    expect(refused(body)).toBe(true)
  })

  test('any damage is read or refused', () => {
    const change = fc.tuple(fc.nat({ max: answer.length - 1 }), fc.nat({ max: 255 }))
    fc.assert(
      fc.property(fc.array(change, { minLength: 1, maxLength: 4 }), (changes) => {
        const body = Buffer.from(answer)
        for (const [at, byte] of changes) body[at] = byte
        expect(() => refused(body)).not.toThrow()
      }),
      { numRuns: 1000 }
    )
  })
})
