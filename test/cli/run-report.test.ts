/** What a run shows of its events: lines for people, one JSON object each for machines. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { runReport } from '../../src/cli/run-report.ts'
import type { RunEvent } from '../../src/local/runner.ts'
import { parseExact } from '../../src/offsets.ts'
import { progressOf, progressToJson } from '../../src/progress.ts'
import type { StreamingQueryProgress } from '../../src/progress.ts'
import { planOf, range, receiptOf, reportOf } from '../support/log-entries.ts'
import { minimal, parse, withOption } from '../support/source-options.ts'

let out: string[]
let err: string[]
beforeEach(() => {
  out = []
  err = []
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => out.push(String(text)) > 0)
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => err.push(String(text)) > 0)
})
afterEach(() => void vi.restoreAllMocks())

const plan = planOf([range(0, 0, 2n ** 53n + 1n)], { batchId: 3 })

/** A batch of 60,000 rows of 100 bytes in 2 seconds. */
function progressWith(change: Partial<StreamingQueryProgress['sluice']> = {}): StreamingQueryProgress {
  const receipt = receiptOf(range(0, 0, 2n ** 53n + 1n), { records: 60_000, rows: 60_000, bytes: 6_000_000 })
  const progress = progressOf({
    queryId: 'id',
    queryName: 'q',
    runId: 'r',
    plan,
    reports: [reportOf(plan, 0, { ranges: [receipt] })],
    replay: false,
    sourceDescription: 'source',
    sinkDescription: 'sink',
    startedMs: 0,
    nowMs: 2000,
    previousTriggerMs: null,
  })
  return { ...progress, sluice: { ...progress.sluice, ...change } }
}

const tell = (json: boolean, events: readonly RunEvent[], options = withOption('startingOffsets', 'earliest')) => {
  const report = runReport({ json, queryName: 'q', options })
  events.forEach(report.event)
  return report
}
const reported = { kind: 'reported', records: 1, bytes: 1, rows: 1 } as const

describe('lines', () => {
  it('tell a batch: rows, throughput, time, lag', () => {
    tell(false, [{ kind: 'progress', progress: progressWith({ offsetsBehindLatestAtCommit: 1234n }), warnings: [] }])
    expect(out).toEqual(['batch 3  60,000 rows  3.0 MB/s  2.0 s  1,234 offsets behind latest\n'])
    expect(err).toEqual([])
  })

  it('tell a run from its start to its end, without a bar where standard output is no terminal', () => {
    tell(false, [
      { kind: 'started', runId: 'r' },
      { kind: 'planned', batchId: 0, tasks: 1, replay: false },
      { kind: 'task', batchId: 0, task: 0, outcome: reported },
    ]).end({ kind: 'finished' })
    expect(out).toEqual(['query q  run r\n', 'query q  done\n'])
  })

  it('tell what is not as it should be on standard error', () => {
    const dataLoss = [{ ...range(0, 5, 9), reason: 'COULD_NOT_READ_OFFSET_RANGE' }] as const
    tell(false, [
      { kind: 'task', batchId: 1, task: 2, outcome: { kind: 'alreadyReported', differs: true } },
      { kind: 'task', batchId: 1, task: 3, outcome: { kind: 'alreadyReported', differs: false } },
      { kind: 'redo', batchId: 1, reason: 'objects are gone' },
      { kind: 'fallingBehind', batchId: 1, intervalMs: 1000, tookMs: 1500 },
      { kind: 'progress', progress: progressWith({ dataLoss }), warnings: ['log retention: throttled'] },
    ])
    expect(err).toEqual([
      expect.stringMatching(/^warning: batch 1 task 2: a replay read other records/),
      expect.stringMatching(/^warning: batch 1: objects are gone; its tasks run again/),
      expect.stringMatching(/^warning: batch 1 took 1500 ms, longer than the trigger interval of 1000 ms/),
      expect.stringMatching(/^warning: data loss in batch 3: t-0: offsets \[5, 9\)/),
      'warning: log retention: throttled\n',
    ])
  })

  it('tell what open transactions hold back, the longest wait first, also where no batch is made', () => {
    const blocked = [1, 0, 3, 2].map((partition) => ({
      topic: 't',
      partition,
      lastStableOffset: 7n,
      offsets: 1000n,
      since: `2026-11-30T08:00:0${partition}.000Z`,
    }))
    tell(false, [
      { kind: 'blocked', partitions: blocked.slice(0, 1) },
      { kind: 'progress', progress: progressWith({ blocked }), warnings: [] },
    ])
    expect(out[0]).toBe('waiting  offsets behind an open transaction: 1,000 of t-1 since 2026-11-30T08:00:01.000Z\n')
    expect(out.at(-1)).toMatch(/: 1,000 of t-0 since .*00Z, .* t-1 since .*, .* t-2 since .*, and 1 more partitions\n$/)
    expect(err).toEqual([])
  })

  it('tell a replay with what is left of it, and another run that holds the query', () => {
    tell(false, [{ kind: 'planned', batchId: 4, tasks: 2, replay: true }]).end({ kind: 'busy', holder: 'other' })
    expect(out).toEqual([
      expect.stringMatching(/^batch 4 {2}replay .* 2 tasks left/),
      'busy: other holds query q (CONCURRENT_STREAM_LOG_UPDATE)\n',
    ])
  })
})

describe('JSON lines', () => {
  it('E27 hold the progress as it is printed alone: rates with a decimal, exact offsets', () => {
    const progress = progressWith()
    tell(true, [{ kind: 'progress', progress, warnings: [] }])
    expect(out).toEqual([`{"event":"progress","progress":${progressToJson(progress)},"warnings":[]}\n`])
    expect(out[0]).toContain('"processedRowsPerSecond":30000.0,')
    expect(out[0]).toContain('"endOffset":{"t":{"0":9007199254740993}}')
  })

  it('hold every event under its name, warnings among them', () => {
    const options = withOption('kafka.group.id', 'g')
    tell(
      true,
      [
        { kind: 'started', runId: 'r' },
        { kind: 'task', batchId: 0, task: 0, outcome: reported },
      ],
      options
    ).end({
      kind: 'busy',
      holder: 'other',
    })
    expect(out.map(parseExact)).toEqual([
      { event: 'warning', text: expect.stringContaining('kafka.group.id') },
      { event: 'started', runId: 'r' },
      { event: 'task', batchId: 0, task: 0, outcome: reported },
      { event: 'busy', holder: 'other', condition: 'CONCURRENT_STREAM_LOG_UPDATE' },
    ])
    expect(err).toEqual([])
  })
})

describe('a start that is not used', () => {
  const resumed: RunEvent = { kind: 'resumed', offsets: '{"t":{"0":5}}' }

  it.each([
    [false, /^warning: option 'startingOffsets' is not used: .*\{"t":\{"0":5\}\}\. .*another name/],
    [true, /^\{"event":"warning","text":"option 'startingOffsets' is not used: .*another name/],
  ])('is told once, with where the query resumes (JSON: %s)', (json, notice) => {
    tell(json, [resumed])
    expect([...out, ...err].filter((text) => text.includes('not used'))).toEqual([expect.stringMatching(notice)])
    expect(out[0]).toContain(json ? '"event":"resumed"' : 'resumed from {"t":{"0":5}}')
  })

  it('B06: each start that was given is named', () => {
    const options = parse({ ...minimal, startingOffsets: 'latest', startingTimestamp: 5 })
    tell(false, [resumed], options)
    expect(err.at(-1)).toMatch(/^warning: options 'startingTimestamp', 'startingOffsets' are not used: .*another name/)
  })

  it('is not told of the default, which nobody asked for', () => {
    for (const json of [false, true]) tell(json, [resumed], parse(minimal))
    expect([...out, ...err].join('')).not.toContain('not used')
  })
})
