/** The loop of fetches against a cluster in memory: answers that a real broker gives rarely, and long waits in no time. */
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Cluster, LeaderAnswer } from '../../src/kafka/client.ts'
import type { FetchRequest } from '../../src/kafka/fetch-request.ts'
import { EARLIEST } from '../../src/kafka/list-offsets.ts'
import { RangeRead, type RangeLimits } from '../../src/kafka/range-read.ts'
import { SluiceError } from '../../src/errors.ts'
import type { RangeEnd } from '../../src/ports.ts'
import { encodeFetchResponse, type TestPartition } from '../support/record-batch-encoder.ts'
import { batchAt, numbered } from '../support/wire-batches.ts'

beforeEach(() => vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }))
afterEach(() => vi.useRealTimers())

type Answer = Partial<TestPartition> | SluiceError | ((request: FetchRequest) => Partial<TestPartition>)

interface FakeCluster extends Cluster {
  readonly fetched: FetchRequest[]
  readonly forgotten: string[]
  readonly dropped: string[]
}

const leader: LeaderAnswer = { kind: 'leader', address: { host: 'b', port: 9092 }, leaderEpoch: 4 }

/** Fetches are answered in order, the last answer again and again. */
function clusterOf(
  answers: readonly Answer[],
  { led = () => leader, log = [0n, 100n] as const }: { led?: () => LeaderAnswer; log?: readonly [bigint, bigint] } = {}
): FakeCluster {
  const cluster: FakeCluster = {
    addresses: 'a:9092',
    fetched: [],
    forgotten: [],
    dropped: [],
    metadata: () => Promise.resolve([]),
    leaders: (partitions) => Promise.resolve(partitions.map(led)),
    leaderOf: async () => led(),
    forgetLeaders: (topic) => void cluster.forgotten.push(topic),
    listOffsets: async (_leader, partitions) =>
      partitions.map((tp) => ({ ...tp, errorCode: 0, offset: tp.at === EARLIEST ? log[0] : log[1] })),
    async fetchRaw(_leader, request) {
      const answer = answers[Math.min(cluster.fetched.length, answers.length - 1)] ?? {}
      cluster.fetched.push(request)
      if (answer instanceof SluiceError) throw answer
      const found = typeof answer === 'function' ? answer(request) : answer
      return encodeFetchResponse([
        { topic: 't', partitions: [{ partition: 0, highWatermark: 100n, logStartOffset: 0n, ...found }] },
      ])
    },
    dropConnections: async ({ host }) => void cluster.dropped.push(host),
    close: () => Promise.resolve(),
  }
  return cluster
}

interface Result {
  readonly offsets: readonly number[]
  readonly end?: RangeEnd
  readonly error?: unknown
}

async function readAll(
  cluster: Cluster,
  from: bigint,
  until: bigint,
  limits: Partial<RangeLimits> = {},
  isEnough?: () => boolean
): Promise<Result> {
  const all = {
    failOnDataLoss: true,
    pollTimeoutMs: 120_000,
    fetchBytes: 1000,
    fetchMaxWaitMs: 500,
    reusesBuffers: false,
    ...limits,
  }
  const range = { topic: 't', partition: 0, from, until }
  const reading = new RangeRead(cluster, range, 'read_uncommitted', all, new AbortController().signal).batches(isEnough)
  const offsets: number[] = []
  const run = async (): Promise<Result> => {
    try {
      for (;;) {
        const next = await reading.next()
        if (next.done === true) return { offsets, end: next.value }
        for (let i = 0; i < next.value.length; i++) offsets.push(Number(next.value.offset(i)))
      }
    } catch (error) {
      return { offsets, error }
    }
  }
  const result = run()
  const settled = result.then(() => true)
  while (!(await Promise.race([settled, vi.advanceTimersByTimeAsync(100).then(() => false)])));
  return result
}

const fiveFrom = (offset: bigint): Buffer => batchAt(offset, numbered(5))
const lost = (from: bigint, until: bigint) => ({
  topic: 't',
  partition: 0,
  reason: 'COULD_NOT_READ_OFFSET_RANGE',
  from,
  until,
})

describe('offsets that are not there', () => {
  test('are a gap while the log start is not beyond them', async () => {
    const { offsets, end } = await readAll(clusterOf([{ records: fiveFrom(10n), logStartOffset: 5n }]), 5n, 12n)
    expect(offsets).toEqual([10, 11])
    expect(end?.dataLoss).toEqual([])
  })

  test('are a loss where the log start passed them under the read', async () => {
    const cluster = () => clusterOf([{ records: fiveFrom(10n), logStartOffset: 10n }])
    const failed = await readAll(cluster(), 5n, 12n)
    expect(failed.error).toMatchObject({ name: 'KAFKA_DATA_LOSS', message: expect.stringContaining('[5, 10)') })
    const tolerated = await readAll(cluster(), 5n, 12n, { failOnDataLoss: false })
    expect(tolerated).toMatchObject({ offsets: [10, 11], end: { dataLoss: [lost(5n, 10n)] } })
    const within = await readAll(cluster(), 5n, 8n)
    expect(within.error).toMatchObject({ name: 'KAFKA_DATA_LOSS', message: expect.stringContaining('[5, 8)') })
    const beyond = await readAll(cluster(), 5n, 8n, { failOnDataLoss: false })
    expect(beyond).toMatchObject({ offsets: [], end: { dataLoss: [lost(5n, 8n)] } })
  })

  test('but reappear after a broker that was behind refused them are read', async () => {
    const cluster = clusterOf([{ errorCode: 1 }, { records: fiveFrom(5n) }])
    expect(await readAll(cluster, 5n, 10n)).toMatchObject({ offsets: [5, 6, 7, 8, 9], end: { dataLoss: [] } })
  })

  test('are lost after a topic was gone for all our patience', async () => {
    const absent = { led: (): LeaderAnswer => ({ kind: 'absent' }) }
    const failed = await readAll(clusterOf([{}], absent), 5n, 10n)
    expect(failed.error).toMatchObject({ name: 'KAFKA_DATA_LOSS', message: expect.stringContaining('[5, 10)') })
    const tolerated = await readAll(clusterOf([{}], absent), 5n, 10n, { failOnDataLoss: false })
    expect(tolerated).toMatchObject({ offsets: [], end: { dataLoss: [lost(5n, 10n)] } })
  })

  test('are not lost when the topic was unknown to a broker for a while', async () => {
    let asked = 0
    const led = (): LeaderAnswer => ((asked += 1) > 8 ? leader : { kind: 'absent' })
    expect(await readAll(clusterOf([{ records: fiveFrom(5n) }], { led }), 5n, 10n)).toMatchObject({
      offsets: [5, 6, 7, 8, 9],
    })
  })
})

describe('a leader that moves', () => {
  test.each([3, 5, 6, 9, 74, 75, 78])(
    'code %i: metadata is asked again, the same offset at the new leader',
    async (errorCode) => {
      const cluster = clusterOf([{ records: fiveFrom(0n) }, { errorCode }, { errorCode }, { records: fiveFrom(5n) }])
      expect((await readAll(cluster, 0n, 10n)).offsets).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
      expect(cluster.fetched.map((request) => request.offset)).toEqual([0n, 5n, 5n, 5n])
      expect(cluster.fetched[0]?.leaderEpoch).toBe(4)
      expect(cluster.forgotten).toEqual(['t', 't'])
    }
  )

  test('is waited for longer than 15 seconds, but not for ever', async () => {
    const started = performance.now()
    let back = 0
    const led = (): LeaderAnswer =>
      performance.now() - started > back ? leader : { kind: 'none', reason: 'LEADER_NOT_AVAILABLE' }
    back = 15_000
    expect((await readAll(clusterOf([{ records: fiveFrom(0n) }], { led }), 0n, 5n)).offsets).toHaveLength(5)
    back = Infinity
    const { error } = await readAll(clusterOf([{}], { led }), 0n, 5n, { failOnDataLoss: false })
    expect(error).toMatchObject({ name: 'KAFKA_UNREACHABLE', message: expect.stringContaining('LEADER_NOT_AVAILABLE') })
  })

  test('patience is new after each success', async () => {
    const unreachable = new SluiceError('KAFKA_UNREACHABLE', { brokers: 'b:9092', reason: 'cut' })
    const failing = (n: number): Answer[] => Array.from({ length: n }, () => unreachable)
    const answers = [...failing(20), { records: fiveFrom(0n) }, ...failing(20), { records: fiveFrom(5n) }]
    expect((await readAll(clusterOf(answers), 0n, 10n)).offsets).toHaveLength(10)
    expect((await readAll(clusterOf(failing(1)), 0n, 10n)).error).toBe(unreachable)
  })
})

describe('bytes', () => {
  test('more are asked for until a whole batch comes, B32', async () => {
    const large = batchAt(0n, [{ value: 'x'.repeat(9000) }])
    const cut = (request: FetchRequest) => ({ records: large.subarray(0, request.maxBytes) })
    const cluster = clusterOf([cut])
    expect((await readAll(cluster, 0n, 1n)).offsets).toEqual([0])
    expect(cluster.fetched.map((request) => request.maxBytes)).toEqual([1000, 2000, 4000, 8000, 16_000])
  })

  test('a batch that never comes whole is damage', async () => {
    const records = batchAt(0n, [{ value: 'x'.repeat(3000) }]).subarray(0, 500)
    const { error } = await readAll(clusterOf([{ records }]), 0n, 1n)
    expect(error).toMatchObject({ name: 'CORRUPT_RECORD_BATCH', parameters: { topic: 't', partition: 0, offset: '0' } })
  })

  test('that the broker itself calls damaged are asked for twice, B29', async () => {
    const healed = clusterOf([{ errorCode: 2 }, { records: fiveFrom(0n) }])
    expect((await readAll(healed, 0n, 5n)).offsets).toHaveLength(5)
    expect(healed.dropped).toEqual(['b'])
    const { error } = await readAll(clusterOf([{ errorCode: 2 }]), 3n, 5n)
    expect(error).toMatchObject({ name: 'CORRUPT_RECORD_BATCH', parameters: { offset: '3' } })
  })
})

test('an empty answer ends nothing; the time-out counts from the last step forward', async () => {
  const empty: Answer[] = Array.from({ length: 40 }, () => ({}))
  const answers = [...empty, { records: fiveFrom(0n) }, ...empty, { records: fiveFrom(5n) }]
  expect((await readAll(clusterOf(answers), 0n, 10n, { pollTimeoutMs: 1000 })).offsets).toHaveLength(10)
  const { offsets, error } = await readAll(clusterOf([{ records: fiveFrom(0n) }, {}]), 0n, 10n, { pollTimeoutMs: 1000 })
  expect(offsets).toHaveLength(5)
  expect(error).toMatchObject({ name: 'KAFKA_TIMEOUT', retryable: true, parameters: { offset: '5', timeoutMs: 1000 } })
})

test('an error of the broker that nothing is known about is named', async () => {
  expect((await readAll(clusterOf([{ errorCode: 43 }]), 0n, 5n)).error).toMatchObject({
    name: 'KAFKA_REQUEST_REFUSED',
    parameters: { request: 'Fetch', resource: 't-0', error: 'UNSUPPORTED_FOR_MESSAGE_FORMAT' },
  })
})

describe('P14: a reading that is ended before its range', () => {
  const tenRecords = (): FakeCluster =>
    clusterOf([{ records: Buffer.concat([fiveFrom(0n), fiveFrom(5n)]) }, { records: fiveFrom(10n) }])

  test.each<[string, number, number[], bigint]>([
    ['within an answer, at the end of a batch', 0, [0, 1, 2, 3, 4], 5n],
    ['after an answer', 1, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], 10n],
  ])('P14: tells where it stopped, %s', async (_where, times, offsets, stoppedAt) => {
    let asked = 0
    const result = await readAll(tenRecords(), 0n, 15n, {}, () => asked++ >= times)
    expect(result).toEqual({ offsets, end: { highWatermark: 100n, dataLoss: [], stoppedAt } })
  })

  test('P14: does not stop before it has moved, and tells no place where it reached its end', async () => {
    const { offsets, end } = await readAll(tenRecords(), 0n, 5n, {}, () => true)
    expect(offsets).toEqual([0, 1, 2, 3, 4])
    expect(end).toEqual({ highWatermark: 100n, dataLoss: [] })
  })

  test('P14: stops in a gap too', async () => {
    const gap = clusterOf([{ records: batchAt(2n, [], { lastOffsetDelta: 7 }) }])
    expect(await readAll(gap, 2n, 20n, {}, () => true)).toMatchObject({ offsets: [], end: { stoppedAt: 10n } })
  })

  test('P14: tells the loss that it met', async () => {
    const aged = clusterOf([{ records: fiveFrom(10n), logStartOffset: 10n }])
    const result = await readAll(aged, 5n, 30n, { failOnDataLoss: false }, () => true)
    expect(result).toMatchObject({ offsets: [10, 11, 12, 13, 14], end: { dataLoss: [lost(5n, 10n)], stoppedAt: 15n } })
  })
})
