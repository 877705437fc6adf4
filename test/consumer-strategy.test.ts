import { describe, expect, test } from 'vitest'
import { describeStrategy, parseAssign, parseSubscribe } from '../src/consumer-strategy.ts'

describe('subscribe', () => {
  test('topics are trimmed, empty ones dropped, each taken once, in their order', () => {
    expect(parseSubscribe(' b, a ,,b')).toEqual({ kind: 'subscribe', topics: ['b', 'a'] })
  })

  test.each(['', ' ', ' , '])('%j names no topic', (text) => {
    expect(() => parseSubscribe(text)).toThrow('No topics to subscribe to')
  })

  test('is described as Spark does', () => {
    expect(describeStrategy(parseSubscribe('t1,t2'))).toBe('Subscribe[t1, t2]')
  })
})

describe('assign', () => {
  const partitions = [
    { topic: 'topicA', partition: 0 },
    { topic: 'topicA', partition: 1 },
    { topic: 'topicB', partition: 4 },
    { topic: 'topicB', partition: 6 },
  ]

  test.each([
    '{"topicA":[0,1],"topicB":[4,6]}',
    ' {"topicA":[0,1,0],"topicB":[4,6]}\n',
    { topicA: [0, 1], topicB: [4, 6] },
  ])('K173 %j', (value) => {
    expect(parseAssign(value)).toEqual({ kind: 'assign', partitions })
  })

  test('is described as Spark does', () => {
    expect(describeStrategy(parseAssign({ t: [0, 1] }))).toBe('Assign[t-0, t-1]')
  })

  test.each([
    ['', 'No topicpartitions to assign'],
    ['t-0', 'No topicpartitions to assign'],
    ['{}', 'No topicpartitions to assign'],
    ['{"t":[]}', 'No topicpartitions to assign'],
    ['{"t":[0]', 'JSON'],
    ['{"t":0}', 'the value of topic "t" is not a list of partitions'],
    ['{"t":["0"]}', '"0" in the list of topic "t" is not a partition number'],
    ['{"t":[-1]}', '-1 in the list of topic "t" is not'],
    ['{"t":[0.5]}', '0.5 in the list of topic "t" is not'],
    ['{"t":[2147483648]}', '2147483648 in the list of topic "t" is not'],
    [[0, 1], 'not an object of topics'],
  ])('%j is refused', (value, message) => {
    const read = () => parseAssign(value)
    expect(read).toThrow(SyntaxError)
    expect(read).toThrow(message)
  })
})
