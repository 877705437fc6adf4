/** Progress against what real Spark printed, and its numbers. */
import { readFileSync } from 'node:fs'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { MAX_INT64, offsetsFromJson, parseExact, stringifyExact } from '../src/offsets.ts'
import type { PartitionOffsets } from '../src/offsets.ts'
import { lagMetrics, progressForJson, progressFrom, progressOf, progressToJson } from '../src/progress.ts'
import type { ProgressInput, StreamingQueryProgress } from '../src/progress.ts'
import { append } from './support/fake-kafka.ts'
import { anyCommitsEntry, offsets, planOf, range, receiptOf, reportOf } from './support/log-entries.ts'
import { runToEnd, TTL_MS, world } from './support/world.ts'
import type { World } from './support/world.ts'

interface GoldenCase {
  json: string
  previousTrigger: string | null
}
const golden = JSON.parse(readFileSync(new URL('spark/progress.json', import.meta.url), 'utf8')) as {
  cases: Record<string, GoldenCase>
}

interface SparkProgress {
  id: string
  runId: string
  name: string | null
  timestamp: string
  batchId: number
  batchDuration: number
  numInputRows: number
  sources: { description: string; startOffset: unknown; endOffset: unknown; latestOffset: unknown }[]
}

/** What would have been known to us of a batch that Spark ran. */
function inputOf({ json, previousTrigger }: GoldenCase): ProgressInput {
  const spark = parseExact(json) as SparkProgress
  const [source] = spark.sources
  const map = (value: unknown): PartitionOffsets => offsetsFromJson(stringifyExact(value ?? {}))
  const startedMs = Date.parse(spark.timestamp)
  const plan = planOf([range(0, 0, spark.numInputRows)], {
    batchId: spark.batchId,
    start: map(source?.startOffset),
    end: map(source?.endOffset),
    latest: map(source?.latestOffset),
  })
  return {
    queryId: spark.id,
    queryName: spark.name ?? 'unnamed',
    runId: spark.runId,
    plan,
    reports: [reportOf(plan, 0)],
    replay: source?.latestOffset === null,
    sourceDescription: source?.description ?? '',
    sinkDescription: 'DeltaTable',
    startedMs,
    nowMs: startedMs + spark.batchDuration,
    previousTriggerMs: previousTrigger === null ? null : Date.parse(previousTrigger),
  }
}

/** Spark's text with what differs by design: our durations, our sink, a name for every query. */
const expectedFrom = ({ json }: GoldenCase): string => {
  const { batchDuration, numInputRows } = JSON.parse(json) as SparkProgress
  return json
    .replace(/"durationMs":\{[^}]*\}/, `"durationMs":{"triggerExecution":${batchDuration}}`)
    .replace(/"sink":\{[^}]*\}/, `"sink":{"description":"DeltaTable","numOutputRows":${numInputRows}}`)
    .replace('"name":null', '"name":"unnamed"')
}

const cases = Object.entries(golden.cases)
// Spark orders topics by hash, so of those with two topics only the values are compared.
const hasTwoTopics = ([name]: [string, GoldenCase]): boolean => name.startsWith('beyond2To53')

describe("the JSON is Spark's", () => {
  it.each(cases.filter((c) => !hasTwoTopics(c)))(
    'E26 %s: the same text, then one trailing object of ours',
    (_name, c) => {
      const text = progressToJson(progressOf(inputOf(c)))
      const sluice = text.indexOf(',"sluice":')
      expect(`${text.slice(0, sluice)}}`).toBe(expectedFrom(c))
      expect(Object.keys(JSON.parse(text) as object).at(-1)).toBe('sluice')
    }
  )

  it.each(cases.filter(hasTwoTopics))('E26 %s: the same digits', (_name, c) => {
    const { sluice: _ours, ...ours } = parseExact(progressToJson(progressOf(inputOf(c)))) as Record<string, unknown>
    expect(ours).toEqual(parseExact(expectedFrom(c)))
    expect(c.json).toContain('9007199254741001')
  })

  it('X15 the first batch has startOffset null', () => {
    const [source] = progressOf(inputOf(golden.cases['firstBatch'] as GoldenCase)).sources
    expect(source).toMatchObject({ startOffset: null, latestOffset: { 'sa-ck3': { 0: 23n, 1: 11n, 2: 3n } } })
  })

  it('X15 a replay has latestOffset null and no metrics', () => {
    const progress = progressOf(inputOf(golden.cases['replayedBatch'] as GoldenCase))
    expect(progress.sources[0]).toMatchObject({ latestOffset: null, startOffset: { 'sa-ck3': { 0: 18n } } })
    expect(progress.sources[0]).not.toHaveProperty('metrics')
    expect(progress.sluice.replay).toBe(true)
  })

  it('is read back as it was', () => {
    fc.assert(
      fc.property(anyCommitsEntry, ({ progress }) => {
        expect(progressFrom(parseExact(progressToJson(progress)))).toEqual(progress)
      })
    )
  })

  it('stands in a larger text as it stands alone', () => {
    const progress = progressOf(inputOf(golden.cases['cappedBatch'] as GoldenCase))
    expect(stringifyExact({ progress: progressForJson(progress) })).toBe(`{"progress":${progressToJson(progress)}}`)
  })
})

describe('lag metrics', () => {
  const lag = (avg: string, max: string, min: string) => ({
    avgOffsetsBehindLatest: avg,
    maxOffsetsBehindLatest: max,
    minOffsetsBehindLatest: min,
  })

  it.each([
    ['(3,6) against (1,2)', offsets({ t: [3, 6] }), offsets({ t: [1, 2] }), lag('3.0', '4', '2')],
    ['no end', offsets({ t: [3, 6] }), null, null],
    ['no latest', null, offsets({ t: [1, 2] }), null],
    ['an empty latest', offsets({}), offsets({ t: [1] }), null],
    ['a partition without end counts from 0', offsets({ t: [3, 6] }), offsets({ t: [3] }), lag('3.0', '6', '0')],
  ])('K35 %s', (_name, latest, end, metrics) => expect(lagMetrics(latest, end)).toEqual(metrics))

  it('K36 without any latest there is no metric and no error', () => expect(lagMetrics(null, null)).toBeNull())

  it.each([
    ['a quarter', [1, 0, 0, 0], '0.3'],
    ['a twentieth', [1, ...Array<number>(19).fill(0)], '0.1'],
    ['a thirtieth', [1, ...Array<number>(29).fill(0)], '0.0'],
    ['2^63-1', [MAX_INT64], '9223372036854775807.0'],
    ['between 2^53+1 and 2^53+2', [2n ** 53n + 1n, 2n ** 53n + 2n], '9007199254740993.5'],
  ])('E27 the average of %s has one decimal, half up, never an exponent', (_name, latest, average) => {
    const end = offsets({ t: latest.map(() => 0) })
    expect(lagMetrics(offsets({ t: latest }), end)?.['avgOffsetsBehindLatest']).toBe(average)
  })

  it('E27 a negative average is rounded away from zero', () => {
    const zero = offsets({ t: [0, 0, 0, 0] })
    expect(lagMetrics(zero, offsets({ t: [1, 0, 0, 0] }))).toEqual(lag('-0.3', '0', '-1'))
    expect(lagMetrics(offsets({ t: Array<number>(30).fill(0) }), offsets({ t: [1] }))).toEqual(lag('0.0', '0', '-1'))
  })
})

/** A batch of one range of `rows` records that took `tookMs`, `sinceMs` after the trigger before it. */
function batch(rows: number, tookMs: number, sinceMs: number | null = null): StreamingQueryProgress {
  const plan = planOf([range(0, 0, rows)])
  const startedMs = 1_700_000_000_000
  return progressOf({
    ...inputOf(golden.cases['firstBatch'] as GoldenCase),
    plan,
    reports: [reportOf(plan, 0)],
    startedMs,
    nowMs: startedMs + tookMs,
    previousTriggerMs: sinceMs === null ? null : startedMs - sinceMs,
  })
}

describe('rates', () => {
  it.each([
    [0, 1000, '0.0'],
    [2, 1000, '2.0'],
    [1, 4000, '0.3'], // 0.25
    [49, 20_000, '2.5'], // 2.45
    [1, 20_001, '0.0'], // 0.04999...
    [1, 1_000_000_000, '0.0'],
    [1_000_000_000_000_000, 1, '1000000000000000000.0'],
  ])('E27 %d rows in %d ms: %s, in both places', (rows, ms, text) => {
    const json = progressToJson(batch(rows, ms, ms))
    for (const rate of ['inputRowsPerSecond', 'processedRowsPerSecond'])
      expect(json.split(`"${rate}":${text},`)).toHaveLength(3)
  })

  it('E28 processed rows are per real duration, of one millisecond at least', () => {
    expect(batch(5, 250).processedRowsPerSecond).toBe(20)
    expect(batch(5, 1).processedRowsPerSecond).toBe(5000)
    expect(batch(5, 0).processedRowsPerSecond).toBe(5000)
  })

  it('input rows are per time between the triggers; 0 for the first trigger of a run', () => {
    expect(batch(5, 250).inputRowsPerSecond).toBe(0)
    expect(batch(5, 250, 1000).inputRowsPerSecond).toBe(5)
    expect(batch(5, 250, 0).inputRowsPerSecond).toBe(0)
  })

  it('a clock that was set back gives no negative duration', () => {
    expect(batch(5, -1000, -1000)).toMatchObject({ batchDuration: 0, inputRowsPerSecond: 0 })
  })
})

describe('what Spark does not tell', () => {
  it('rows and offsets are separate numbers, losses are listed, bytes are summed', () => {
    const plan = planOf([range(0, 5, 15), range(1, 0, 4)], {
      latest: offsets({ t: [20, 4] }),
      dataLoss: [{ ...range(1, 0, 2), reason: 'PARTITION_OFFSET_CHANGED' }],
      blocked: [{ topic: 't', partition: 2, lastStableOffset: 3n, offsets: 2n, since: '2026-11-30T07:59:15.456Z' }],
    })
    const loss = { ...range(0, 5, 6), reason: 'COULD_NOT_READ_OFFSET_RANGE' } as const
    const reports = [
      reportOf(plan, 0, {
        ranges: [receiptOf(range(0, 5, 15), { records: 7, rows: 3, bytes: 100, highWatermark: 25n })],
        dataLoss: [loss],
        message: { objects: [], rows: 3, bytes: 40, detail: '' },
      }),
      reportOf(plan, 1, { ranges: [receiptOf(range(1, 0, 4), { bytes: 1, highWatermark: null })] }),
    ]
    const progress = progressOf({ ...inputOf(golden.cases['firstBatch'] as GoldenCase), plan, reports })
    expect(progress).toMatchObject({ numInputRows: 11, sink: { numOutputRows: 7 } })
    expect(progress.sluice).toEqual({
      replay: false,
      tasks: 2,
      offsets: 14n,
      offsetsWithoutRecord: 3n,
      inputBytes: 101,
      outputBytes: 40,
      workMs: 0,
      offsetsBehindLatestAtCommit: 10n, // p0 against the watermark of its last fetch, p1 against the plan
      dataLoss: [...plan.dataLoss, loss],
      blocked: plan.blocked,
    })
  })

  it('the lag at commit is never negative and adds up beyond 2^53', () => {
    const plan = planOf([range(0, 0, 10)], {
      end: offsets({ t: [10, 0, 0] }),
      latest: offsets({ t: [4, MAX_INT64, MAX_INT64] }),
    })
    const reports = [reportOf(plan, 0, { ranges: [receiptOf(range(0, 0, 10), { highWatermark: 3n })] })]
    const progress = progressOf({ ...inputOf(golden.cases['firstBatch'] as GoldenCase), plan, reports })
    expect(progress.sluice.offsetsBehindLatestAtCommit).toBe(2n * MAX_INT64)
  })
})

describe('over whole runs', () => {
  async function progressesOf(w: World): Promise<StreamingQueryProgress[]> {
    const all: StreamingQueryProgress[] = []
    await runToEnd(w.process(), (event) => void (event.kind === 'progress' && all.push(event.progress)))
    return all
  }

  it('K10 the rows of all batches are the records read; those before the start and holes do not count', async () => {
    const w = world({ t: [6] }, { startingOffsets: { t: { 0: 2 } }, maxOffsetsPerTrigger: 2 })
    const slots = w.kafka.topics.get('t')?.partitions[0]?.slots ?? []
    slots[3] = null
    const all = await progressesOf(w)
    expect(all.map((p) => p.numInputRows)).toEqual([1, 2])
    expect(all.map((p) => p.sources[0]?.numInputRows)).toEqual([1, 2])
    expect(all.map((p) => p.sluice.offsets)).toEqual([2n, 2n])
    expect(all.map((p) => p.sluice.offsetsWithoutRecord)).toEqual([1n, 0n])
  })

  it('K33 with a cap of 1 some progress has the three lag metrics, all above 0', async () => {
    const all = await progressesOf(world({ t: [4] }, { maxOffsetsPerTrigger: 1 }))
    expect(all).toHaveLength(4)
    const metrics = all.map((p) => p.sources[0]?.metrics ?? {})
    expect(metrics.map((m) => Object.keys(m))).toEqual(
      metrics.map(() => ['avgOffsetsBehindLatest', 'maxOffsetsBehindLatest', 'minOffsetsBehindLatest'])
    )
    expect(metrics.map((m) => Object.values(m))).toEqual([
      ['3.0', '3', '3'],
      ['2.0', '2', '2'],
      ['1.0', '1', '1'],
      ['0.0', '0', '0'],
    ])
  })

  it('K34 without a cap the last progress has the three metrics, all 0: the lag is against the planned latest', async () => {
    const w = world({ t: [4, 2] })
    w.kafka.before = (operation) => {
      // While the batch is being read; never again, or a moving end would be chased for ever.
      if (operation === 'read t-0 0' || operation === 'read t-0 3') append(w.kafka, 't', 0, 1)
    }
    const last = (await progressesOf(w)).at(-1)
    expect(Object.values(last?.sources[0]?.metrics ?? {})).toEqual(['0.0', '0', '0'])
    expect(last?.sluice.offsetsBehindLatestAtCommit).toBe(2n)
  })

  it('X15 the first batch has startOffset null, also replayed; the others have theirs', async () => {
    const w = world({ t: [4] }, { maxOffsetsPerTrigger: 2 })
    const dying = w.process({
      hook: (point) => {
        if (point === 'before sink.stage') throw new Error('died')
      },
    })
    await expect(runToEnd(dying)).rejects.toThrow('died')
    w.clock.time += TTL_MS
    const sources = (await progressesOf(w)).map((p) => p.sources[0])
    expect(sources.map((s) => s?.startOffset)).toEqual([null, { t: { 0: 2n } }])
    expect(sources.map((s) => s?.latestOffset)).toEqual([null, { t: { 0: 4n } }])
    expect(sources.map((s) => s?.metrics !== undefined)).toEqual([false, true])
  })
})
