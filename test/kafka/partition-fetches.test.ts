/** The next fetch is under way while one is worked on: over a log in memory that cuts answers as brokers do. */
import * as fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { SluiceError } from '../../src/errors.ts'
import type { Cluster } from '../../src/kafka/client.ts'
import type { FetchRequest } from '../../src/kafka/fetch-request.ts'
import { RangeRead } from '../../src/kafka/range-read.ts'
import { encodeFetchResponse } from '../support/record-batch-encoder.ts'
import { batchAt } from '../support/wire-batches.ts'

beforeEach(() => vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }))
afterEach(() => vi.useRealTimers())

interface LogBatch {
  readonly base: bigint
  readonly count: number
  readonly bytes: Buffer
}

const valueOf = (offset: bigint, size: number): string => `${offset}:`.padEnd(size, String(offset % 10n))

/** Batches of so many records each, one after the other. */
function logOf(counts: readonly number[], size: number, codec: 'none' | 'zstd' = 'none'): LogBatch[] {
  let base = 0n
  return counts.map((count) => {
    const records = Array.from({ length: count }, (_, i) => ({ key: 'k', value: valueOf(base + BigInt(i), size) }))
    const batch = { base, count, bytes: batchAt(base, records, { codec }) }
    base += BigInt(count)
    return batch
  })
}

const endOf = (log: readonly LogBatch[]): bigint => log.reduce((end, { count }) => end + BigInt(count), 0n)

type Fault = 'cut' | 'damage' | 'none'
interface LogCluster extends Cluster {
  readonly fetched: FetchRequest[]
  /** Fetches that were neither answered nor ended. */
  open: number
}

function clusterOf(log: readonly LogBatch[], faults: readonly Fault[] = []): LogCluster {
  const cluster: LogCluster = {
    addresses: 'b:9092',
    fetched: [],
    open: 0,
    metadata: async () => [],
    leaders: async () => [],
    leaderOf: async () => ({ kind: 'leader', address: { host: 'b', port: 9092 }, leaderEpoch: 0 }),
    forgetLeaders: () => {},
    listOffsets: async () => [],
    async fetchRaw(_leader, request, signal, buffers) {
      const fault = faults[cluster.fetched.length]
      cluster.fetched.push(request)
      cluster.open++
      await new Promise((resolve) => setImmediate(resolve))
      cluster.open--
      if (signal.aborted) throw new SluiceError('ABORTED', { step: 'The fetch' })
      if (fault === 'cut') throw new SluiceError('KAFKA_UNREACHABLE', { brokers: 'b:9092', reason: 'cut' })
      const wanted = log.filter(({ base, count }) => base + BigInt(count) > request.offset)
      const first = wanted[0]?.bytes.length ?? 0
      const records = Buffer.concat(wanted.map(({ bytes }) => bytes)).subarray(0, Math.max(first, request.maxBytes))
      if (fault === 'damage') damage(records, wanted)
      const body = encodeFetchResponse([
        { topic: 't', partitions: [{ partition: 0, highWatermark: endOf(log), logStartOffset: 0n, records }] },
      ])
      const given = buffers?.(body.length)
      if (given === undefined || given.length < body.length) return body
      body.copy(given)
      return given.subarray(0, body.length)
    },
    dropConnections: async () => {},
    close: async () => {},
  }
  return cluster
}

/** Flips a bit that a checksum covers, in a batch in the middle of the answer. */
function damage(records: Buffer, batches: readonly LogBatch[]): void {
  const ends = batches.map((_, i) => batches.slice(0, i + 1).reduce((sum, { bytes }) => sum + bytes.length, 0))
  const whole = ends.filter((end) => end <= records.length)
  const at = (whole[whole.length >> 1] ?? 0) - 1
  if (at >= 0) records[at] = (records[at] ?? 0) ^ 1
}

function reading(cluster: Cluster, from: bigint, until: bigint, { fetchBytes = 2 ** 20, reusesBuffers = true } = {}) {
  const limits = { failOnDataLoss: true, pollTimeoutMs: 120_000, fetchBytes, fetchMaxWaitMs: 500, reusesBuffers }
  const range = { topic: 't', partition: 0, from, until }
  return new RangeRead(cluster, range, 'read_uncommitted', limits, new AbortController().signal).batches()
}

/** Offset and value of each record, taken while its batch is the newest, some turns of the event loop later. */
async function readAll(...args: Parameters<typeof reading>): Promise<string[]> {
  const seen: string[] = []
  const run = async (): Promise<boolean> => {
    for await (const batch of reading(...args)) {
      await new Promise((resolve) => setImmediate(resolve))
      const { offsets } = batch.bulk ?? { offsets: [] }
      for (let i = 0; i < batch.length; i++)
        seen.push(`${batch.offset(i)} ${offsets[i]} ${Buffer.from(batch.value(i) ?? []).toString()}`)
    }
    return true
  }
  const done = run()
  while (!(await Promise.race([done, vi.advanceTimersByTimeAsync(100).then(() => false)])));
  return seen
}

const wanted = (from: bigint, until: bigint, size: number): string[] =>
  Array.from({ length: Number(until - from) }, (_, i) => {
    const offset = from + BigInt(i)
    return `${offset} ${offset} ${valueOf(offset, size)}`
  })

test('what is read is what the log holds, whatever the sizes, cuts, damage and broken connections', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1, maxLength: 25 }),
      fc.constantFrom(10, 100, 2000),
      fc.constantFrom<('none' | 'zstd')[]>('none', 'zstd'),
      fc.tuple(fc.nat({ max: 30 }), fc.integer({ min: 1, max: 500 })),
      fc.constantFrom(1, 500, 5000, 2 ** 20),
      fc.boolean(),
      fc.array(fc.constantFrom<Fault[]>('none', 'none', 'none', 'cut', 'damage'), { maxLength: 12 }),
      async (counts, size, codec, [skip, length], fetchBytes, reusesBuffers, faults) => {
        const log = logOf(counts, size, codec)
        const from = BigInt(skip) < endOf(log) ? BigInt(skip) : 0n
        const until = from + BigInt(length) < endOf(log) ? from + BigInt(length) : endOf(log)
        // Bytes at one place that are damaged twice are an error: there is one damage at the most.
        const cluster = clusterOf(
          log,
          faults.map((fault, i) => (fault === 'damage' && faults.indexOf('damage') < i ? 'none' : fault))
        )
        expect(await readAll(cluster, from, until, { fetchBytes, reusesBuffers })).toEqual(wanted(from, until, size))
        expect(cluster.fetched.filter((request) => request.offset >= until)).toEqual([])
        expect(cluster.open).toBe(0)
      }
    ),
    { numRuns: 150 }
  )
})

describe('the next fetch', () => {
  const ten = logOf(
    Array.from({ length: 10 }, () => 10),
    1000
  )

  test('is under way when the first batch of an answer is handed out', async () => {
    const cluster = clusterOf(ten)
    const batches = reading(cluster, 0n, 100n, { fetchBytes: 25_000 })
    await batches.next()
    await vi.advanceTimersByTimeAsync(0)
    expect(cluster.fetched.map(({ offset }) => offset)).toEqual([0n, 20n])
    await batches.return({ highWatermark: null, dataLoss: [] })
  })

  test('is never for what lies behind the range, and little is asked for beyond it', async () => {
    const cluster = clusterOf(
      logOf(
        Array.from({ length: 1000 }, () => 100),
        1000
      )
    )
    expect(await readAll(cluster, 0n, 2500n)).toHaveLength(2500)
    const asked = cluster.fetched.reduce((sum, { maxBytes }) => sum + maxBytes, 0)
    expect(cluster.fetched.every(({ offset }) => offset < 2500n)).toBe(true)
    expect(asked).toBeLessThan(2 * 2500 * 1010)
    const few = clusterOf(
      logOf(
        Array.from({ length: 1000 }, () => 100),
        1000
      )
    )
    expect(await readAll(few, 0n, 10n)).toHaveLength(10)
    expect(few.fetched.map(({ maxBytes }) => maxBytes < 100_000)).toEqual([true])
  })

  test('that was under way when the reading ends has ended before it does', async () => {
    const cluster = clusterOf(ten)
    const batches = reading(cluster, 0n, 100n, { fetchBytes: 25_000 })
    await batches.next()
    expect(cluster.open).toBe(1)
    await batches.return({ highWatermark: null, dataLoss: [] })
    expect(cluster.open).toBe(0)
  })

  test('takes the buffer of the answer before the last, where buffers are used again', async () => {
    const cluster = clusterOf(ten)
    const buffers: (ArrayBufferLike | undefined)[] = []
    for await (const batch of reading(cluster, 0n, 100n, { fetchBytes: 10_500 })) buffers.push(batch.value(0)?.buffer)
    expect(new Set(buffers).size).toBe(2)
    const kept: (ArrayBufferLike | undefined)[] = []
    const keeping = reading(clusterOf(ten), 0n, 100n, { fetchBytes: 10_500, reusesBuffers: false })
    for await (const batch of keeping) kept.push(batch.value(0)?.buffer)
    expect(new Set(kept).size).toBe(10)
  })
})
