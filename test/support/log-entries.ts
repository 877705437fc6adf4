/** Entries of the logs for tests: one of each, a small plan, and arbitrary ones. */
import * as fc from 'fast-check'
import type { DataLossFinding } from '../../src/data-loss.ts'
import type { CommitsEntry, OffsetsEntry, RangeReceipt, RangeReport } from '../../src/log.ts'
import { MAX_INT64, offsetsOf } from '../../src/offsets.ts'
import type { PartitionOffset, PartitionOffsets } from '../../src/offsets.ts'
import type { StreamingQueryProgress } from '../../src/progress.ts'
import type { OffsetRange } from '../../src/ranges.ts'

/** `{ t: [3, 6] }`: offsets of t-0 and t-1. */
export const offsets = (topics: Readonly<Record<string, readonly (number | bigint)[]>>): PartitionOffsets =>
  offsetsOf(
    Object.entries(topics).flatMap(([topic, list]) =>
      list.map((offset, partition): PartitionOffset => ({ topic, partition, offset: BigInt(offset) }))
    )
  )

/** `t-0 [from, until)`. */
export const range = (partition: number, from: number | bigint, until: number | bigint, topic = 't'): OffsetRange => ({
  topic,
  partition,
  from: BigInt(from),
  until: BigInt(until),
})

/** A plan of batch N whose tasks have one range each. */
export const planOf = (ranges: readonly OffsetRange[], changes: Partial<OffsetsEntry> = {}): OffsetsEntry => ({
  batchId: 0,
  runId: 'run',
  batchTimestampMs: 1_700_000_000_000,
  start: offsetsOf(ranges.map((r) => ({ ...r, offset: r.from }))),
  end: offsetsOf(ranges.map((r) => ({ ...r, offset: r.until }))),
  latest: offsetsOf(ranges.map((r) => ({ ...r, offset: r.until }))),
  topicIds: new Map([['t', 'id-of-t']]),
  isolationLevel: 'read_uncommitted',
  tasks: ranges.map((one) => [one]),
  dataLoss: [],
  blocked: [],
  fingerprint: { sink: 'table', mapping: 'bronze' },
  ...changes,
})

/** A receipt of a range without gaps. */
export const receiptOf = (of: OffsetRange, changes: Partial<RangeReceipt> = {}): RangeReceipt => ({
  ...of,
  records: Number(of.until - of.from),
  rows: Number(of.until - of.from),
  bytes: 0,
  hash: 'hash',
  highWatermark: of.until,
  ...changes,
})

/** The report of a task of a plan. */
export const reportOf = (plan: OffsetsEntry, task: number, changes: Partial<RangeReport> = {}): RangeReport => ({
  batchId: plan.batchId,
  planDigest: 'digest',
  generation: 0,
  task,
  attempt: `attempt-of-${task}`,
  runId: plan.runId,
  fingerprint: plan.fingerprint,
  ranges: (plan.tasks[task] ?? []).map((r) => receiptOf(r)),
  dataLoss: [],
  message: { objects: [`object-of-${task}`], rows: 0, bytes: 0, detail: '' },
  workMs: 0,
  ...changes,
})

// -- arbitrary entries

const int64 = fc.oneof(
  fc.bigInt({ min: 0n, max: MAX_INT64 }),
  fc.constantFrom(0n, 1n, 2n ** 53n - 1n, 2n ** 53n + 1n, MAX_INT64)
)
const count = fc.oneof(fc.nat(), fc.constantFrom(0, Number.MAX_SAFE_INTEGER))
const text = fc.oneof(fc.string(), fc.string({ unit: 'binary' }), fc.constantFrom('"', '\\', '\n', '\u2028'))
const topic = fc.oneof(
  fc.constantFrom('t', '__proto__', 'constructor', 'toString', '10'),
  fc.stringMatching(/^[a-zA-Z0-9._-]{1,249}$/)
)
const partition = fc.nat(0x7fffffff)
const offsetMap = fc.array(fc.record({ topic, partition, offset: int64 }), { maxLength: 5 }).map(offsetsOf)
const anyRange = fc.record({ topic, partition, from: int64, until: int64 })
const fingerprint = fc.record({ sink: text, mapping: text })
const finding: fc.Arbitrary<DataLossFinding> = fc
  .tuple(
    anyRange,
    fc.constantFrom<DataLossFinding['reason'][]>(
      'INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS',
      'ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO',
      'PARTITIONS_DELETED',
      'PARTITIONS_DELETED_AND_GROUP_ID_CONFIG_PRESENT',
      'PARTITION_OFFSET_CHANGED',
      'COULD_NOT_READ_OFFSET_RANGE',
      'TOPIC_RECREATED'
    )
  )
  .map(([of, reason]) => ({ ...of, reason, ...(reason === 'TOPIC_RECREATED' && { newEnd: of.until }) }))
const dataLoss = fc.array(finding, { maxLength: 3 })
const blocked = fc.array(
  fc.record({
    topic,
    partition,
    lastStableOffset: int64,
    offsets: int64,
    since: fc.constant('2026-11-30T07:59:15.456Z'),
  }),
  { maxLength: 3 }
)

export const anyOffsetMap = offsetMap

export const anyOffsetsEntry: fc.Arbitrary<OffsetsEntry> = fc.record({
  batchId: count,
  runId: text,
  batchTimestampMs: count,
  start: offsetMap,
  end: offsetMap,
  latest: offsetMap,
  topicIds: fc.array(fc.tuple(topic, text), { maxLength: 3 }).map((pairs) => new Map(pairs)),
  isolationLevel: fc.constantFrom('read_uncommitted', 'read_committed'),
  tasks: fc.array(fc.array(anyRange, { maxLength: 3 }), { maxLength: 5 }),
  dataLoss,
  blocked,
  fingerprint,
})

const receipt: fc.Arbitrary<RangeReceipt> = fc
  .tuple(
    anyRange,
    fc.record({ records: count, rows: count, bytes: count, hash: text, highWatermark: fc.option(int64) })
  )
  .map(([of, rest]) => ({ ...of, ...rest }))

export const anyReport: fc.Arbitrary<RangeReport> = fc.record({
  batchId: count,
  planDigest: text,
  generation: count,
  task: count,
  attempt: text,
  runId: text,
  fingerprint,
  ranges: fc.array(receipt, { maxLength: 4 }),
  dataLoss,
  message: fc.record({ objects: fc.array(text, { maxLength: 3 }), rows: count, bytes: count, detail: text }),
  workMs: count,
})

const offsetsObject = offsetMap.map((map) =>
  Object.fromEntries([...map].map(([name, partitions]) => [name, Object.fromEntries(partitions)]))
)
const rate = fc.nat(10_000_000).map((tenths) => tenths / 10)
const rates = fc.record({ inputRowsPerSecond: rate, processedRowsPerSecond: rate })

const source = fc
  .record({
    description: text,
    startOffset: fc.option(offsetsObject),
    endOffset: offsetsObject,
    latestOffset: fc.option(offsetsObject),
    numInputRows: count,
    rates,
    metrics: fc.option(fc.constant({ avgOffsetsBehindLatest: '3.0', maxOffsetsBehindLatest: '4' })),
  })
  .map(({ rates: r, metrics, ...rest }) => ({ ...rest, ...r, ...(metrics === null ? {} : { metrics }) }))

const progress: fc.Arbitrary<StreamingQueryProgress> = fc
  .record({
    id: text,
    runId: text,
    name: fc.option(text),
    timestamp: fc.constant('2026-11-30T07:59:15.456Z'),
    batchId: count,
    batchDuration: count,
    numInputRows: count,
    rates,
    durationMs: fc.record({ triggerExecution: count }),
    stateOperators: fc.constant<readonly []>([]),
    sources: fc.array(source, { minLength: 1, maxLength: 1 }),
    sink: fc.record({ description: text, numOutputRows: count }),
    sluice: fc.record({
      replay: fc.boolean(),
      tasks: count,
      offsets: int64,
      offsetsWithoutRecord: int64,
      inputBytes: count,
      outputBytes: count,
      workMs: count,
      offsetsBehindLatestAtCommit: int64,
      dataLoss,
      blocked,
    }),
  })
  .map(({ rates: r, ...rest }) => ({ ...rest, ...r }))

export const anyCommitsEntry: fc.Arbitrary<CommitsEntry> = fc.record({
  batchId: count,
  runId: text,
  progress,
  dataLoss,
})
