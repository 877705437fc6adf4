import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  MAX_INT64,
  compareTopicPartitions,
  entriesOf,
  nameOf,
  offsetAt,
  offsetsFromJson,
  offsetsOf,
  offsetsToJson,
  offsetsToObject,
  parseExact,
  partitionsNotIn,
  sameOffsets,
  stringifyExact,
  withoutTopics,
} from '../src/offsets.ts'

const at = (topic: string, partition: number, offset: bigint) => ({ topic, partition, offset })

const offsetMaps = fc
  .array(
    fc.record({
      topic: fc.oneof(fc.constantFrom('t', 'T', '__proto__', 'constructor', '10', '9'), fc.string()),
      partition: fc.integer({ min: 0, max: 0x7fffffff }),
      offset: fc.bigInt({ min: 0n, max: MAX_INT64 }),
    })
  )
  .map(offsetsOf)

describe('comparing', () => {
  test.each([
    ['another offset', at('t', 0, 1n), at('t', 0, 2n), false],
    ['another partition', at('t', 0, 1n), at('t', 1, 1n), false],
    ['another topic', at('t', 0, 1n), at('u', 0, 1n), false],
    ['a topic in another case', at('t', 0, 1n), at('T', 0, 1n), false],
    ['the same', at('t', 0, 1n), at('t', 0, 1n), true],
  ])('K107 %s', (_name, a, b, same) => {
    expect(sameOffsets(offsetsOf([a]), offsetsOf([b]))).toBe(same)
  })

  test('K107 a map with one more partition is another one, whichever side has it', () => {
    const one = offsetsOf([at('t', 0, 1n)])
    const two = offsetsOf([at('t', 0, 1n), at('t', 1, 1n)])
    expect(sameOffsets(one, two)).toBe(false)
    expect(sameOffsets(two, one)).toBe(false)
  })

  test('K107 the order of topics and partitions says nothing', () => {
    const entries = [at('b', 1, 3n), at('a', 10, 2n), at('a', 9, 1n)]
    expect(sameOffsets(offsetsOf(entries), offsetsOf(entries.toReversed()))).toBe(true)
  })

  test('a topic without partitions is no difference', () => {
    expect(sameOffsets(new Map([['t', new Map()]]), new Map())).toBe(true)
  })

  test('entries are ordered by code units, then by number', () => {
    const entries = [at('b', 0, 0n), at('a', 10, 0n), at('a', 9, 0n), at('B', 0, 0n)]
    const names = ['B-0', 'a-9', 'a-10', 'b-0']
    expect(entriesOf(offsetsOf(entries)).map(nameOf)).toEqual(names)
    expect(entries.toSorted(compareTopicPartitions).map(nameOf)).toEqual(names)
  })

  test('partitions of one map that another does not have', () => {
    const a = offsetsOf([at('t', 1, 0n), at('t', 0, 5n), at('u', 0, 0n)])
    expect(partitionsNotIn(a, offsetsOf([at('t', 0, 9n), at('v', 0, 0n)])).map(nameOf)).toEqual(['t-1', 'u-0'])
  })

  test('a map without some topics', () => {
    const map = offsetsOf([at('t', 0, 5n), at('u', 0, 6n)])
    expect(offsetsToJson(withoutTopics(map, new Set(['t'])))).toBe('{"u":{"0":6}}')
  })

  test('a later entry of the same partition wins', () => {
    expect(offsetAt(offsetsOf([at('t', 0, 1n), at('t', 0, 2n)]), at('t', 0, 0n))).toBe(2n)
  })
})

describe('JSON', () => {
  test('K108 a map that is written and read is the same map', () => {
    fc.assert(
      fc.property(offsetMaps, (map) => {
        expect(sameOffsets(offsetsFromJson(offsetsToJson(map)), map)).toBe(true)
      })
    )
  })

  test('a map inside a larger entry survives in the same way', () => {
    fc.assert(
      fc.property(offsetMaps, (map) => {
        const entry = stringifyExact({ offsets: offsetsToObject(map) })
        const { offsets } = parseExact(entry) as { offsets: unknown }
        expect(sameOffsets(offsetsFromJson(stringifyExact(offsets)), map)).toBe(true)
      })
    )
  })

  test('K110 the form of Spark 2.1.0 with a trailing newline', () => {
    const map = offsetsFromJson('{"topic1":{"0":456,"1":789},"topic2":{"0":0}}\n')
    expect(entriesOf(map)).toEqual([at('topic1', 0, 456n), at('topic1', 1, 789n), at('topic2', 0, 0n)])
  })

  test.each(['9007199254740993', '9223372036854775807', '0'])('B41 offset %s keeps its digits', (digits) => {
    const text = `{"t":{"0":${digits}}}`
    expect(offsetAt(offsetsFromJson(text), { topic: 't', partition: 0 })).toBe(BigInt(digits))
    expect(offsetsToJson(offsetsFromJson(text))).toBe(text)
    expect(stringifyExact(offsetsToObject(offsetsFromJson(text)))).toBe(text)
    expect(stringifyExact(parseExact(text))).toBe(text)
  })

  test('topics and partitions are written in order, whatever order they came in', () => {
    expect(offsetsToJson(offsetsFromJson('{"b":{"10":1,"9":2},"a":{"0":3}}'))).toBe('{"a":{"0":3},"b":{"9":2,"10":1}}')
  })

  test("'__proto__' is a topic like any other", () => {
    const text = '{"__proto__":{"0":5}}'
    const map = offsetsFromJson(text)
    expect(offsetAt(map, { topic: '__proto__', partition: 0 })).toBe(5n)
    expect(offsetsToJson(map)).toBe(text)
    expect(stringifyExact(offsetsToObject(map))).toBe(text)
  })

  test.each([
    ['[]', 'not a JSON object of topics'],
    ['null', 'not a JSON object of topics'],
    ['"latest"', 'not a JSON object of topics'],
    ['{"t":5}', 'the value of topic "t" is not an object of partitions'],
    ['{"t":[1,2]}', 'the value of topic "t" is not an object of partitions'],
    ['{"t":{"x":1}}', 'partition "x" of topic "t" is not a partition number'],
    ['{"t":{"-1":1}}', 'partition "-1" of topic "t" is not a partition number'],
    ['{"t":{"01":1}}', 'partition "01" of topic "t" is not a partition number'],
    ['{"t":{"2147483648":1}}', 'partition "2147483648" of topic "t" is not a partition number'],
    ['{"t":{"0":"1"}}', 'the offset "1" of t-0 is not an integer from 0 to 9223372036854775807'],
    ['{"t":{"0":1.5}}', 'the offset 1.5 of t-0 is not'],
    ['{"t":{"0":1e300}}', 'the offset 1e+300 of t-0 is not'],
    ['{"t":{"0":null}}', 'the offset null of t-0 is not'],
    ['{"t":{"0":{}}}', 'the offset {} of t-0 is not'],
    ['{"t":{"0":-1}}', 'the offset -1 of t-0 is not'],
    ['{"t":{"0":9223372036854775808}}', 'the offset 9223372036854775808 of t-0 is not'],
  ])('%s is refused by name', (text, message) => {
    const read = () => offsetsFromJson(text)
    expect(read).toThrow(SyntaxError)
    expect(read).toThrow(message)
  })

  test.each(['', '{', '{"t":{"0":1}} x'])('%j is no JSON', (text) => {
    expect(() => offsetsFromJson(text)).toThrow(SyntaxError)
  })
})
