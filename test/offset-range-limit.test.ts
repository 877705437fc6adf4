import { describe, expect, test } from 'vitest'
import { parseOffsetRangeLimit, resolveOffsets } from '../src/offset-range-limit.ts'
import { offsetsFromJson, offsetsToJson } from '../src/offsets.ts'

const parse = (value: unknown): unknown => {
  const limit = parseOffsetRangeLimit(value)
  return limit.kind === 'specific'
    ? Object.fromEntries([...limit.positions].map(([topic, partitions]) => [topic, Object.fromEntries(partitions)]))
    : limit.kind
}

describe('parsing', () => {
  test.each([
    ['earliest', 'earliest'],
    ['latest', 'latest'],
    [' earLiEst ', 'earliest'],
    ['laTest\n', 'latest'],
  ])('K60 %j', (text, kind) => {
    expect(parse(text)).toBe(kind)
  })

  test('K60 K174 offsets, -1 and -2 by partition', () => {
    const positions = { topicA: { 0: 23n, 1: 'latest' }, topicB: { 0: 'earliest' } }
    expect(parse(' {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}} ')).toEqual(positions)
    expect(parse({ topicA: { 0: 23, 1: -1 }, topicB: { 0: -2n } })).toEqual(positions)
  })

  test.each(['9007199254740993', '9223372036854775807'])('B41 a start at %s keeps its digits', (digits) => {
    expect(parse(`{"t":{"0":${digits}}}`)).toEqual({ t: { 0: BigInt(digits) } })
    expect(parse({ t: { 0: BigInt(digits) } })).toEqual({ t: { 0: BigInt(digits) } })
  })

  test.each([
    ['{"t":{"0":-3}}', 'the offset -3 of t-0 is not an integer from -2 to 9223372036854775807'],
    ['{"t":{"0":"latest"}}', 'the offset "latest" of t-0 is not'],
    ['newest', 'is not valid JSON'],
    ['', 'Unexpected end of JSON input'],
    [{ t: { 0: 2 ** 53 } }, 'the offset 9007199254740992 of t-0 is not'],
    [5, 'not a JSON object of topics'],
  ])('%j is refused', (value, message) => {
    const read = () => parseOffsetRangeLimit(value)
    expect(read).toThrow(SyntaxError)
    expect(read).toThrow(message)
  })
})

describe('resolving', () => {
  const observed = {
    assigned: [0, 1, 2].map((partition) => ({ topic: 't', partition })),
    earliest: offsetsFromJson('{"t":{"0":3,"1":4,"2":5}}'),
    latest: offsetsFromJson('{"t":{"0":20,"1":20,"2":20}}'),
  }
  const resolve = (value: unknown, of = observed): string =>
    offsetsToJson(resolveOffsets(parseOffsetRangeLimit(value), of))

  test.each([
    ['earliest', '{"t":{"0":3,"1":4,"2":5}}'],
    ['latest', '{"t":{"0":20,"1":20,"2":20}}'],
    ['{"t":{"0":-2,"1":-1,"2":7}}', '{"t":{"0":3,"1":20,"2":7}}'],
  ])('%s', (value, offsets) => {
    expect(resolve(value)).toBe(offsets)
  })

  test("X18 numbers outside the log's range are taken as they are", () => {
    const offsets = '{"t":{"0":9223372036854775807,"1":50,"2":0}}'
    expect(resolve('{"t":{"2":0,"1":50,"0":9223372036854775807}}')).toBe(offsets)
  })

  test.each(['earliest', '{"t":{"0":-2,"1":-1,"2":7}}'])(
    'a partition that vanished meanwhile has no start: %s',
    (value) => {
      const gone = { ...observed, earliest: offsetsFromJson('{"t":{"1":4,"2":5}}') }
      expect(resolve(value, gone)).not.toContain('"0"')
    }
  )

  test('K139 two of three partitions: the error names both sets', () => {
    const read = () => resolve('{"t":{"0":0,"1":0}}')
    expect(read).toThrow(/Specified: t-0, t-1\. Assigned: t-0, t-1, t-2\./)
    expect(read).toThrow(expect.objectContaining({ name: 'KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED' }))
  })

  test('B07 (a) a map that misses a partition: named, with the words -1 and -2', () => {
    const read = () => resolve('{"t":{"0":0,"1":0}}')
    expect(read).toThrow(/use -1 for latest, -2 for earliest/)
    expect(read).toThrow(
      expect.objectContaining({ parameters: expect.objectContaining({ missing: 't-2', extra: 'none' }) })
    )
  })

  test('a map that names a partition too many, or another topic', () => {
    expect(() => resolve('{"t":{"0":0,"1":0,"2":0,"3":0}}')).toThrow(/Not specified: none\. Not existing: t-3\./)
    expect(() => resolve('{"u":{"0":0}}')).toThrow(/Not specified: t-0, t-1, t-2\. Not existing: u-0\./)
    expect(() => resolve('{}')).toThrow(/Specified: none\./)
  })
})
