/** The bytes of our own requests and answers, laid out by hand from Kafka's message definitions. */
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { encodeFetchRequest } from '../../src/kafka/fetch-request.ts'
import { decodeListOffsetsResponse, EARLIEST, encodeListOffsetsRequest } from '../../src/kafka/list-offsets.ts'
import { decodeMetadataResponse, encodeMetadataRequest } from '../../src/kafka/metadata.ts'
import { WireReader, WireWriter } from '../../src/kafka/wire.ts'

/** Hexadecimal with free spaces. */
const hex = (...parts: readonly string[]): string => parts.join('').replaceAll(' ', '')
const bytes = (...parts: readonly string[]): Buffer => Buffer.from(hex(...parts), 'hex')

const id = '000102030405060708090a0b0c0d0e0f'
const zeroId = '00'.repeat(16)

describe('Metadata', () => {
  test('requests never allow a topic to be created, B17', () => {
    const request = (version: number, topics: readonly string[] | null): string =>
      encodeMetadataRequest(version, topics).toString('hex')
    // topics, allow_auto_topic_creation, include_cluster_operations (to 10), include_topic_operations, tags (from 9)
    expect(request(8, ['ab'])).toBe(hex('00000001 0002 6162', '00 00 00'))
    expect(request(8, null)).toBe(hex('ffffffff', '00 00 00'))
    expect(request(9, ['ab'])).toBe(hex('02 03 6162 00', '00 00 00 00'))
    expect(request(10, ['ab'])).toBe(hex('02', zeroId, '03 6162 00', '00 00 00 00'))
    expect(request(12, ['ab'])).toBe(hex('02', zeroId, '03 6162 00', '00 00 00'))
    expect(request(12, null)).toBe(hex('00', '00 00 00'))
    expect(request(12, [])).toBe(hex('01', '00 00 00'))
  })

  const partition = { partition: 5, errorCode: 0, leader: 7, leaderEpoch: 3 }

  test('version 8: classic forms, no ids', () => {
    const brokers = '00000001 00000007 0001 68 00002384 ffff'
    const partitions = '00000001 0000 00000005 00000007 00000003 00000001 00000007 00000001 00000007 00000000'
    const topic = hex('0000 0002 6162 01', partitions, '80000000')
    const body = bytes('00000000', brokers, '0001 63', '00000007', '00000001', topic, '80000000')
    expect(decodeMetadataResponse(8, body)).toEqual({
      brokers: [{ nodeId: 7, host: 'h', port: 9092 }],
      topics: [{ topic: 'ab', errorCode: 0, topicId: null, isInternal: true, partitions: [partition] }],
    })
  })

  test.each([9, 10, 12])('version %i: compact forms, ids from 10 on, unknown tags passed over', (version) => {
    const brokers = '02 00000007 02 68 00002384 00 01 05 02 ffff' // with one tagged field
    const partitions = '02 0000 00000005 00000007 00000003 02 00000007 02 00000007 01 00'
    const known = hex('0000 03 6162', version >= 10 ? id : '', '00', partitions, '80000000', '00')
    const missing = hex('0003 03 6364', version >= 10 ? zeroId : '', '00', '01', '80000000', '00')
    const body = bytes(
      '00000000',
      brokers,
      '02 63',
      '00000007',
      '03',
      known,
      missing,
      version <= 10 ? '80000000' : '',
      '00'
    )
    expect(decodeMetadataResponse(version, body)).toEqual({
      brokers: [{ nodeId: 7, host: 'h', port: 9092 }],
      topics: [
        {
          topic: 'ab',
          errorCode: 0,
          topicId: version >= 10 ? 'AAECAwQFBgcICQoLDA0ODw' : null,
          isInternal: false,
          partitions: [partition],
        },
        { topic: 'cd', errorCode: 3, topicId: null, isInternal: false, partitions: [] },
      ],
    })
    for (let length = 0; length < body.length - 6; length += 1)
      expect(() => decodeMetadataResponse(version, body.subarray(0, length))).toThrow(RangeError)
  })
})

describe('ListOffsets', () => {
  test('a request states its isolation level and the leader epochs, B18', () => {
    const queries = [
      { topic: 'a', partition: 1, leaderEpoch: 4, at: EARLIEST },
      { topic: 'b', partition: 2, leaderEpoch: -1, at: EARLIEST },
      { topic: 'a', partition: 3, leaderEpoch: 5, at: 1700000000000n },
    ]
    const request = (level: 'read_committed' | 'read_uncommitted'): string =>
      encodeListOffsetsRequest(queries, level).toString('hex')
    const topics = hex(
      '00000002',
      '0001 61 00000002 00000001 00000004 fffffffffffffffe 00000003 00000005 0000018bcfe56800',
      '0001 62 00000001 00000002 ffffffff fffffffffffffffe'
    )
    expect(request('read_committed')).toBe(hex('ffffffff 01', topics))
    expect(request('read_uncommitted')).toBe(hex('ffffffff 00', topics))
  })

  test('an answer has an error code for each partition and offsets beyond 2^53', () => {
    const body = bytes(
      '00000000 00000001 0001 61 00000002',
      '00000001 0000 ffffffffffffffff 0020000000000001 00000004',
      '00000003 0006 ffffffffffffffff ffffffffffffffff ffffffff'
    )
    expect(decodeListOffsetsResponse(body)).toEqual([
      { topic: 'a', partition: 1, errorCode: 0, offset: 9007199254740993n },
      { topic: 'a', partition: 3, errorCode: 6, offset: -1n },
    ])
  })
})

test('a Fetch request, version 11', () => {
  const request = encodeFetchRequest({
    topic: 'ab',
    partition: 3,
    offset: 9007199254740993n,
    isolationLevel: 'read_committed',
    maxBytes: 1024,
    maxWaitMs: 500,
    leaderEpoch: 7,
  })
  expect(request.toString('hex')).toBe(
    hex(
      'ffffffff 000001f4 00000001 00000400 01 00000000 ffffffff',
      '00000001 0002 6162 00000001 00000003 00000007 0020000000000001 ffffffffffffffff 00000400',
      '00000000 0000'
    )
  )
})

describe('the primitive types', () => {
  test('come back as they were written', () => {
    fc.assert(
      fc.property(
        fc.nat({ max: 0x7fffffff }),
        fc.string(),
        fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
        (n, text, long) => {
          const written = new WireWriter().unsignedVarint(n).string(text).compactString(text).int64(long).boolean(true)
          const reader = new WireReader(written.toBuffer())
          expect([reader.unsignedVarint(), reader.nullableString(), reader.compactNullableString()]).toEqual([
            n,
            text,
            text,
          ])
          expect([reader.int64(), reader.boolean(), reader.rest().length]).toEqual([long, true, 0])
        }
      )
    )
  })

  test('a list longer than the bytes that are left is damage', () => {
    expect(() => new WireReader(bytes('7fffffff 00')).array((r) => r.int8())).toThrow('does not fit')
    expect(() => new WireReader(bytes('ff ff ff ff ff 01')).unsignedVarint()).toThrow('five bytes')
  })
})
