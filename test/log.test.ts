/** The logs' entries as texts, and the two decisions that are made from them alone. */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isSluiceError } from '../src/errors.ts'
import type { SluiceError } from '../src/errors.ts'
import {
  decodeCommit,
  decodeMetadata,
  decodeOffsetMap,
  decodeOffsets,
  decodeRedo,
  decodeReport,
  encodeCommit,
  encodeMetadata,
  encodeOffsetMap,
  encodeOffsets,
  encodeRedo,
  encodeReport,
  logKeys,
  resumePoint,
} from '../src/log.ts'
import type { LogState, OffsetsEntry, RangeReport } from '../src/log.ts'
import { MAX_INT64, parseExact, stringifyExact } from '../src/offsets.ts'
import { progressOf } from '../src/progress.ts'
import { decodeStart, encodeStart } from '../src/start-entry.ts'
import {
  anyCommitsEntry,
  anyOffsetMap,
  anyOffsetsEntry,
  anyReport,
  offsets,
  planOf,
  range,
  receiptOf,
  reportOf,
} from './support/log-entries.ts'

const key = logKeys.report(3, 0, 7)

function refusal(of: () => unknown): SluiceError {
  try {
    of()
  } catch (error) {
    if (isSluiceError(error)) return error
    throw error
  }
  throw new Error('nothing was refused')
}

describe('texts', () => {
  it('of metadata, offset maps and redo give back what was written', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), anyOffsetMap, (id, map) => {
        expect(decodeMetadata(encodeMetadata(id))).toBe(id)
        expect(decodeOffsetMap('runs/r/end', encodeOffsetMap(map))).toEqual(map)
        const start = { start: map, topicIds: new Map([[id, 'id']]) }
        expect(decodeStart(encodeStart(start))).toEqual(start)
        expect(decodeRedo(logKeys.redo(0, 1), encodeRedo(id, id))).toEqual({ runId: id, reason: id })
      })
    )
  })

  it('of plans give back what was written', () => {
    fc.assert(
      fc.property(anyOffsetsEntry, (entry) => {
        expect(decodeOffsets(entry.batchId, encodeOffsets(entry))).toEqual(entry)
      })
    )
  })

  it('of reports give back what was written', () => {
    fc.assert(
      fc.property(anyReport, (report) => {
        expect(decodeReport(key, encodeReport(report))).toEqual(report)
      })
    )
  })

  it('of commits give back what was written, offsets of the progress as bigint', () => {
    fc.assert(
      fc.property(anyCommitsEntry, (entry) => {
        expect(decodeCommit(entry.batchId, encodeCommit(entry))).toEqual(entry)
      })
    )
  })

  it('of 3,000 ranges of topics with 200 characters name each topic once', () => {
    const ranges = Array.from({ length: 3000 }, (_, i) => range(i, MAX_INT64 - 1n, MAX_INT64, `${i % 3}`.repeat(200)))
    const plan = planOf(ranges)
    const text = encodeOffsets(plan)
    expect(decodeOffsets(0, text)).toStrictEqual(plan)
    const tasks = text.slice(text.indexOf('"topics"'))
    expect(tasks.split('0'.repeat(200))).toHaveLength(2)
  })

  it('keep a topic that is called __proto__, in every place', () => {
    const plan = planOf([range(0, 3, 9, '__proto__')], { topicIds: new Map([['__proto__', 'x']]) })
    const report = reportOf(plan, 0)
    expect(decodeOffsets(0, encodeOffsets(plan))).toStrictEqual(plan)
    expect(decodeReport(key, encodeReport(report)).ranges).toStrictEqual([receiptOf(range(0, 3, 9, '__proto__'))])
    const [source] = decodeCommit(0, encodeCommit(commitOf(plan, [report]))).progress.sources
    expect(Object.entries(source?.endOffset ?? {})).toEqual([['__proto__', { 0: 9n }]])
  })
})

const commitOf = (plan: OffsetsEntry, reports: readonly RangeReport[]) => ({
  batchId: plan.batchId,
  runId: plan.runId,
  dataLoss: [],
  progress: progressOf({
    queryId: 'id',
    queryName: 'query',
    runId: plan.runId,
    plan,
    reports,
    replay: false,
    sourceDescription: 'source',
    sinkDescription: 'sink',
    startedMs: 0,
    nowMs: 1,
    previousTriggerMs: null,
  }),
})

const somePlan = planOf([range(0, 5, 2n ** 53n + 1n)], {
  batchId: 3,
  dataLoss: [{ ...range(1, 0, 4), reason: 'PARTITIONS_DELETED' }],
})

/** One of each kind: its name, its text, how it is read. */
const kinds: readonly (readonly [name: string, text: string, read: (text: string) => unknown])[] = [
  ['meta/metadata', encodeMetadata('id'), decodeMetadata],
  ['meta/sources/0', encodeStart({ start: offsets({ t: [5] }), topicIds: new Map([['t', 'id']]) }), decodeStart],
  ['runs/r/end', encodeOffsetMap(offsets({ t: [5] })), (text) => decodeOffsetMap('runs/r/end', text)],
  ['offsets/3', encodeOffsets(somePlan), (text) => decodeOffsets(3, text)],
  ['reports/3/000000/000007', encodeReport(reportOf(somePlan, 0)), (text) => decodeReport(key, text)],
  ['redo/3/1', encodeRedo('run', 'objects are gone'), (text) => decodeRedo(logKeys.redo(3, 1), text)],
  ['commits/3', encodeCommit(commitOf(somePlan, [reportOf(somePlan, 0)])), (text) => decodeCommit(3, text)],
]

describe.each(kinds)('%s that cannot be read', (name, text, read) => {
  const changed = (change: object): string => stringifyExact({ ...(parseExact(text) as object), ...change })

  it('can be read as it is', () => expect(() => read(text)).not.toThrow())

  it.each([99999, 2])('K16 of version %d is refused by its name and its version', (v) => {
    const error = refusal(() => read(changed({ v })))
    expect(error.name).toBe('UNSUPPORTED_LOG_VERSION')
    expect(error.message).toContain(`${name} has version v${v}, the maximum supported log version is v1`)
    expect(error.retryable).toBe(false)
  })

  it.each([undefined, null, '1', 0, -1, 0.5, 2n ** 60n])('of version %s is refused', (v) => {
    const error = refusal(() => read(changed({ v })))
    expect(error).toMatchObject({ name: 'LOG_ENTRY_UNREADABLE', parameters: { entry: name } })
    expect(error.message).toContain(`'v' is ${v === undefined ? 'missing' : stringifyExact(v)}`)
  })

  it.each([
    ['empty', ''],
    ['cut off', text.slice(0, -1)],
    ['another format', 'v1\n{}'],
    ['a list', '[1]'],
    ['null', 'null'],
  ])('that is %s is refused by its name', (_what, broken) => {
    expect(refusal(() => read(broken))).toMatchObject({ name: 'LOG_ENTRY_UNREADABLE', parameters: { entry: name } })
  })

  it.each(Object.keys(parseExact(text) as object).filter((field) => field !== 'v'))(
    'without its field %s, or with another type there, is refused by its name',
    (field) => {
      for (const value of [undefined, true]) {
        const error = refusal(() => read(changed({ [field]: value })))
        expect(error).toMatchObject({ name: 'LOG_ENTRY_UNREADABLE', parameters: { entry: name } })
      }
    }
  )
})

describe('values that are not what their field holds', () => {
  const plan = parseExact(encodeOffsets(somePlan)) as Record<string, unknown>
  it.each([
    ['another batch', { batchId: 4 }, 'names batch 4'],
    ['an unknown isolation level', { isolationLevel: 'serializable' }, "'isolationLevel'"],
    ['a negative offset', { end: { t: { 0: -1 } } }, '-1'],
    ['an offset beyond 2^63-1', { end: { t: { 0: 2n ** 63n } } }, '9223372036854775808'],
    ['an offset that a double rounded', { end: { t: { 0: 1e20 } } }, '100000000000000000000'],
    ['a fraction', { batchTimestampMs: 0.5 }, "'batchTimestampMs' is 0.5"],
    ['a range of a topic that is not listed', { topics: [] }, "'topics'"],
    ['a range without an end', { tasks: [[[0, 0, 1]]] }, 'undefined'],
    ['half a pair', { topicIds: [['t']] }, "'topicIds'"],
    ['an unknown loss', { dataLoss: [{ topic: 't', partition: 0, from: 0, until: 1, reason: 'NONE' }] }, '"NONE"'],
  ])('%s', (_what, change, named) => {
    const error = refusal(() => decodeOffsets(3, stringifyExact({ ...plan, ...change })))
    expect(error.name).toBe('LOG_ENTRY_UNREADABLE')
    expect(error.message).toMatch(/^offsets\/3 cannot be read: /)
    expect(error.message).toContain(named)
  })
})

describe('where a query resumes', () => {
  const nothing: LogState = {
    newest: null,
    previousExists: false,
    committed: false,
    previousCommitted: false,
    unplannedCommit: null,
  }
  /** N, what of N-1 exists, whether N is committed. */
  const state = (batchId: number, has: string): LogState => ({
    newest: planOf([range(0, 1, 2)], { batchId }),
    previousExists: has.includes('offsets-before'),
    committed: has.includes('commit-here'),
    previousCommitted: has.includes('commit-before'),
    unplannedCommit: has.includes('commit-after') ? batchId + 1 : null,
  })
  const newestOf = (s: LogState) => s.newest as OffsetsEntry

  it('nothing: fresh', () => expect(resumePoint(nothing)).toEqual({ kind: 'fresh' }))

  it.each([
    [0, 'commit-here'],
    [1, 'offsets-before commit-before commit-here'],
    [1, 'offsets-before commit-here'], // commits/N-1 counts only for a replay
    [4, 'offsets-before commit-before commit-here'],
  ])('N = %d with %s: N+1 is next, from the end of N', (batchId, has) => {
    const s = state(batchId, has)
    expect(resumePoint(s)).toEqual({ kind: 'next', batchId: batchId + 1, previous: newestOf(s) })
  })

  it.each([
    [0, ''],
    [1, 'offsets-before commit-before'],
    [4, 'offsets-before commit-before'],
  ])('N = %d with %s: N again', (batchId, has) => {
    const s = state(batchId, has)
    expect(resumePoint(s)).toEqual({ kind: 'replay', entry: newestOf(s) })
  })

  it.each([
    ['E3 offsets/4 without offsets/3', state(4, 'commit-before'), "batch 3 doesn't exist"],
    ['E3 the same, although 4 is committed', state(4, 'commit-before commit-here'), "batch 3 doesn't exist"],
    ['B37 offsets 0 and 2, commits 0 and 1', state(2, 'commit-before'), "batch 1 doesn't exist"],
    ['B37 commits/2 without offsets/2', state(1, 'offsets-before commit-here commit-after'), "batch 2 doesn't exist"],
    ['E13 the last plan is gone', state(0, 'commit-here commit-after'), "batch 1 doesn't exist"],
    ['E13 all plans are gone', { ...nothing, unplannedCommit: 5 }, "batch 5 doesn't exist"],
    ['E13 a gap in commits', state(4, 'offsets-before'), "batch 3 of commits doesn't exist"],
    ['commits behind by more than one (X11)', state(1, 'offsets-before'), "batch 0 of commits doesn't exist"],
  ])('%s: refused', (_what, s, words) => {
    const error = refusal(() => resumePoint(s))
    expect(error.name).toBe('LOG_ENTRY_MISSING')
    expect(error.message).toContain(words)
    expect(error.message).toMatch(/restore the table.*new query name/)
  })
})
