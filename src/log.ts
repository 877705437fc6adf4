/**
 * The entries of the logs: what each holds, its versioned text, and where a query resumes, which is decided from them alone.
 * Whether a batch's reports cover its plan: coverage.ts.
 *
 * Every entry starts with `"v"`. A reader refuses a version above its own by name (K16); a release writes a new version
 * only once its predecessor could read it (P22).
 */
import type { BlockedPartition } from './blocked.ts'
import type { DataLossFinding, TopicIds } from './data-loss.ts'
import { SluiceError } from './errors.ts'
import {
  LOG_VERSION,
  arrayOf,
  blockedFrom,
  countOf,
  decodeEntry,
  findingsFrom,
  fingerprintFrom,
  messageFrom,
  offsetsOfField,
  oneOf,
  rangeFromTuple,
  receiptFrom,
  sameBatch,
  textOf,
  topicIdsFrom,
} from './log-codec.ts'
import { offsetsToObject, stringifyExact } from './offsets.ts'
import type { PartitionOffsets } from './offsets.ts'
import type { CommitMessage, EntryKey, IsolationLevel } from './ports.ts'
import { progressForJson, progressFrom } from './progress.ts'
import type { StreamingQueryProgress } from './progress.ts'
import type { OffsetRange } from './ranges.ts'

// -- keys. Those of `offsets` and `commits` are batch ids; see protocol.md "Keys" for the table's side.

export const logKeys = {
  metadata: { log: 'meta', id: 'metadata' },
  source: { log: 'meta', id: 'sources/0' },
  offsets: (batchId: number) => ({ log: 'offsets', id: batchId }),
  commits: (batchId: number) => ({ log: 'commits', id: batchId }),
  report: (batchId: number, generation: number, task: number) => ({
    log: `reports/${batchId}`,
    id: `${pad(generation)}/${pad(task)}`,
  }),
  /** The k-th start of a task that had none of them end by a report, from 1 (P14). */
  attempt: (batchId: number, generation: number, task: number, k: number) => ({
    log: `attempts/${batchId}`,
    id: `${pad(generation)}/${pad(task)}/${k}`,
  }),
  redo: (batchId: number, generation: number) => ({ log: `redo/${batchId}`, id: generation }),
  runEnd: (runId: string) => ({ log: 'runs', id: `${runId}/end` }),
} as const satisfies Record<string, EntryKey | ((...ids: never[]) => EntryKey)>

const pad = (n: number): string => String(n).padStart(6, '0')

export const entryName = (key: EntryKey): string => `${key.log}/${key.id}`

// -- entries

/** The plan of a batch, frozen before anything is read (effect 1). A replay uses it whatever changed meanwhile (S4). */
export interface OffsetsEntry {
  readonly batchId: number
  /** The run that wrote it. */
  readonly runId: string
  /** Milliseconds since the epoch, reused on replay. */
  readonly batchTimestampMs: number
  readonly start: PartitionOffsets
  readonly end: PartitionOffsets
  /** What Kafka held when the batch was planned; for lag. */
  readonly latest: PartitionOffsets
  /** Topic -> topic id (P9). Empty where the brokers have none. */
  readonly topicIds: TopicIds
  readonly isolationLevel: IsolationLevel
  /** The unit of work and of report (P1): one or more ranges each. */
  readonly tasks: readonly (readonly OffsetRange[])[]
  /** Losses that the planner found and, with failOnDataLoss=false, went on from. */
  readonly dataLoss: readonly DataLossFinding[]
  /** What waited for open transactions when the batch was planned. */
  readonly blocked: readonly BlockedPartition[]
  readonly fingerprint: Fingerprint
}

/** What a batch's rows depend on beside its offsets (P10). */
export interface Fingerprint {
  /** Target, schema and partitioning, as the sink states them. */
  readonly sink: string
  /** The mapping's source text, hashed. */
  readonly mapping: string
}

/** What became of one range (N5): `records` delivered, `rows` written, and a hash over the records. */
export interface RangeReceipt extends OffsetRange {
  readonly records: number
  readonly rows: number
  /** Bytes of the keys and values delivered. */
  readonly bytes: number
  /** SHA-256 over the records delivered, hex. A replay of the same range gives the same hash. */
  readonly hash: string
  /** The partition's high watermark in the last answer; null if nothing was fetched. */
  readonly highWatermark: bigint | null
}

/** Who worked on what: what stands at a report's key starts with it. */
export interface TaskAttempt {
  readonly batchId: number
  readonly planDigest: string
  readonly generation: number
  /** Of the plan, or a part of one (task-tree.ts). */
  readonly task: number
  readonly attempt: string
  readonly runId: string
}

/** A receipt per range, and what was staged of them. */
export interface DoneWork {
  readonly fingerprint: Fingerprint
  readonly ranges: readonly RangeReceipt[]
  readonly dataLoss: readonly DataLossFinding[]
  readonly message: CommitMessage
  /** Milliseconds that reading and staging took. */
  readonly workMs: number
}

/** One task's result (effect 3). */
export type RangeReport = TaskAttempt & DoneWork

/** The end of a batch (effect 5). */
export interface CommitsEntry {
  readonly batchId: number
  readonly runId: string
  readonly progress: StreamingQueryProgress
  readonly dataLoss: readonly DataLossFinding[]
}

// -- codecs

export const encodeMetadata = (id: string): string => stringifyExact({ v: LOG_VERSION, id })

export const decodeMetadata = (text: string): string =>
  decodeEntry(entryName(logKeys.metadata), text, (json) => textOf(json['id'], 'id'))

export const encodeOffsetMap = (offsets: PartitionOffsets): string =>
  stringifyExact({ v: LOG_VERSION, offsets: offsetsToObject(offsets) })

/** Reads `runs/<run>/end`. */
export const decodeOffsetMap = (entry: string, text: string): PartitionOffsets =>
  decodeEntry(entry, text, (json) => offsetsOfField(json['offsets'], 'offsets'))

/** Why the reports of the generation before are not used (P12). */
export interface RedoEntry {
  readonly runId: string
  readonly reason: string
}

export const encodeRedo = (runId: string, reason: string): string => stringifyExact({ v: LOG_VERSION, runId, reason })

export const decodeRedo = (key: EntryKey, text: string): RedoEntry =>
  decodeEntry(entryName(key), text, (json) => ({
    runId: textOf(json['runId'], 'runId'),
    reason: textOf(json['reason'], 'reason'),
  }))

export function encodeOffsets(entry: OffsetsEntry): string {
  const topics = [...new Set(entry.tasks.flatMap((ranges) => ranges.map((r) => r.topic)))]
  const indexOf = new Map(topics.map((topic, i) => [topic, i]))
  return stringifyExact({
    v: LOG_VERSION,
    batchId: entry.batchId,
    runId: entry.runId,
    batchTimestampMs: entry.batchTimestampMs,
    isolationLevel: entry.isolationLevel,
    start: offsetsToObject(entry.start),
    end: offsetsToObject(entry.end),
    latest: offsetsToObject(entry.latest),
    topicIds: [...entry.topicIds],
    fingerprint: entry.fingerprint,
    dataLoss: entry.dataLoss,
    blocked: entry.blocked,
    topics, // named once: thousands of ranges share a few names
    tasks: entry.tasks.map((ranges) => ranges.map((r) => [indexOf.get(r.topic), r.partition, r.from, r.until])),
  })
}

export const decodeOffsets = (batchId: number, text: string): OffsetsEntry =>
  decodeEntry(entryName(logKeys.offsets(batchId)), text, (json) => {
    const topics = arrayOf(json['topics'], 'topics').map((topic) => textOf(topic, 'topics'))
    return {
      batchId: sameBatch(batchId, json['batchId']),
      runId: textOf(json['runId'], 'runId'),
      batchTimestampMs: countOf(json['batchTimestampMs'], 'batchTimestampMs'),
      start: offsetsOfField(json['start'], 'start'),
      end: offsetsOfField(json['end'], 'end'),
      latest: offsetsOfField(json['latest'], 'latest'),
      topicIds: topicIdsFrom(json['topicIds']),
      isolationLevel: oneOf(json['isolationLevel'], 'isolationLevel', ['read_uncommitted', 'read_committed']),
      tasks: arrayOf(json['tasks'], 'tasks').map((ranges) =>
        arrayOf(ranges, 'tasks').map((range) => rangeFromTuple(topics, arrayOf(range, 'tasks')))
      ),
      dataLoss: findingsFrom(json['dataLoss']),
      blocked: blockedFrom(json['blocked']),
      fingerprint: fingerprintFrom(json['fingerprint']),
    }
  })

export const encodeReport = (report: RangeReport): string => stringifyExact({ v: LOG_VERSION, ...report })

export const decodeReport = (key: EntryKey, text: string): RangeReport => decodeEntry(entryName(key), text, reportFrom)

export const reportFrom = (json: Record<string, unknown>): RangeReport => ({ ...attemptFrom(json), ...doneFrom(json) })

export const attemptFrom = (json: Record<string, unknown>): TaskAttempt => ({
  batchId: countOf(json['batchId'], 'batchId'),
  planDigest: textOf(json['planDigest'], 'planDigest'),
  generation: countOf(json['generation'], 'generation'),
  task: countOf(json['task'], 'task'),
  attempt: textOf(json['attempt'], 'attempt'),
  runId: textOf(json['runId'], 'runId'),
})

export const doneFrom = (json: Record<string, unknown>): DoneWork => ({
  fingerprint: fingerprintFrom(json['fingerprint']),
  ranges: arrayOf(json['ranges'], 'ranges').map(receiptFrom),
  dataLoss: findingsFrom(json['dataLoss']),
  message: messageFrom(json['message']),
  workMs: countOf(json['workMs'], 'workMs'),
})

/** That an attempt began: for people. What counts is that the key is taken (P14). */
export const encodeAttempt = (runId: string, attempt: string): string =>
  stringifyExact({ v: LOG_VERSION, runId, attempt })

export const encodeCommit = (entry: CommitsEntry): string =>
  stringifyExact({ v: LOG_VERSION, ...entry, progress: progressForJson(entry.progress) })

export const decodeCommit = (batchId: number, text: string): CommitsEntry =>
  decodeEntry(entryName(logKeys.commits(batchId)), text, (json) => ({
    batchId: sameBatch(batchId, json['batchId']),
    runId: textOf(json['runId'], 'runId'),
    progress: progressFrom(json['progress']),
    dataLoss: findingsFrom(json['dataLoss']),
  }))

// -- decisions

/** What the planner read: the newest plan N and single entries beside it (P17). */
export interface LogState {
  readonly newest: OffsetsEntry | null
  /** `offsets/N-1` exists (asked only for N > 0). */
  readonly previousExists: boolean
  /** `commits/N` and `commits/N-1` exist. */
  readonly committed: boolean
  readonly previousCommitted: boolean
  /** A commit that has no plan: N+1, or any where nothing is planned. */
  readonly unplannedCommit: number | null
}

export type ResumePoint =
  | { readonly kind: 'fresh' }
  | { readonly kind: 'next'; readonly batchId: number; readonly previous: OffsetsEntry }
  | { readonly kind: 'replay'; readonly entry: OffsetsEntry }

/**
 * Where a query goes on (spark-semantics 6.2, stricter: a hole is refused, never worked around; X11, B37).
 * @throws LOG_ENTRY_MISSING
 */
export function resumePoint(state: LogState): ResumePoint {
  const { newest, unplannedCommit } = state
  if (unplannedCommit !== null) refuseHole(`batch ${unplannedCommit}`, 'offsets', `commits/${unplannedCommit}`)
  if (newest === null) return { kind: 'fresh' }
  const { batchId } = newest
  if (batchId > 0 && !state.previousExists) refuseHole(`batch ${batchId - 1}`, 'offsets', `offsets/${batchId}`)
  if (state.committed) return { kind: 'next', batchId: batchId + 1, previous: newest }
  if (batchId > 0 && !state.previousCommitted)
    refuseHole(`batch ${batchId - 1} of commits`, 'commits', `offsets/${batchId}`)
  return { kind: 'replay', entry: newest }
}

function refuseHole(entry: string, log: string, beside: string): never {
  throw new SluiceError('LOG_ENTRY_MISSING', { entry, because: `log '${log}' lacks it and ${beside} is there` })
}
