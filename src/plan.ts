/**
 * What the next batch would be: every look at Kafka and at the sink, and every check, without a durable effect of its own
 * beside the two that freeze a position (`sources/0`, `runs/<run>/end`).
 */
import { admitOffsets, unlimited } from './admission.ts'
import type { Admission, ReadLimit } from './admission.ts'
import type { BatchContext, Run } from './context.ts'
import { checkDataLoss, enforce, recreatedTopics } from './data-loss.ts'
import { checkFrozenEnd } from './frozen-end.ts'
import { decodeOffsetMap, encodeOffsetMap, entryName, logKeys } from './log.ts'
import type { OffsetsEntry, ResumePoint } from './log.ts'
import { resolveStart } from './offset-range-limit.ts'
import { partitionsNotIn, withoutTopics } from './offsets.ts'
import type { PartitionOffsets } from './offsets.ts'
import type { AssignedPartitions, EntryKey, LastPass } from './ports.ts'
import { splitRanges } from './ranges.ts'
import { readLimitOf } from './read-limit.ts'

export interface DraftRequest {
  readonly run: Run
  readonly queryId: string
  readonly resume: Exclude<ResumePoint, { kind: 'replay' }>
  /** Start of the trigger, ms since the epoch. */
  readonly triggerMs: number
  readonly lastPass: LastPass | null
}

export type Draft = Drafted & {
  /** A check of minOffsetsPerTrigger passed, to be noted in the lease. */
  readonly isPass: boolean
}

type Drafted = { readonly kind: 'batch'; readonly entry: OffsetsEntry } | Exclude<Admission, { kind: 'admit' }>

/** The next batch as it would be logged, every check done; or why there is none. */
export async function draftNext(context: BatchContext, request: DraftRequest, signal: AbortSignal): Promise<Draft> {
  const { resume, run } = request
  const start = resume.kind === 'next' ? resume.previous.end : await frozenStart(context, request, signal)
  const assigned = await context.offsets.assigned(signal)
  const observed = run.availableNow
    ? await frozenEnd(context, run, assigned, signal)
    : { latest: await context.offsets.latest(assigned.partitions, signal), isFrozen: false }
  const limit = await readLimitOf(context, { ...request, newestBatch: newestOf(request) }, signal)
  const drafted = await draftBetween(context, request, { start, assigned, ...observed, limit }, signal)
  return { ...drafted, isPass: limit.min !== null && drafted.kind !== 'delay' }
}

const newestOf = ({ resume }: DraftRequest): number | null => (resume.kind === 'next' ? resume.previous.batchId : null)

/**
 * `sources/0`: where the query starts, frozen by its first plan even if no batch follows. The checks of that plan run
 * before it is put, so that a mistyped start is not frozen; a loser of the put uses the stored start (P16).
 */
async function frozenStart(
  context: BatchContext,
  request: DraftRequest,
  signal: AbortSignal
): Promise<PartitionOffsets> {
  const stored = await context.log.get(logKeys.source, signal)
  if (stored !== null) return decodeOffsetMap(entryName(logKeys.source), stored)
  const assigned = await context.offsets.assigned(signal)
  const earliest = await context.offsets.earliest(assigned.partitions, signal)
  const latest = await context.offsets.latest(assigned.partitions, signal)
  const start = resolveStart(context.options.startingOffsets, {
    assigned: assigned.partitions,
    earliest,
    latest,
  })
  await draftBetween(context, request, { start, latest, assigned, isFrozen: false, limit: unlimited }, signal)
  return freeze(context, logKeys.source, start, signal)
}

/** The end of an AvailableNow run: what Kafka held at its first plan, once any replay was done (P18). Frozen: by an earlier one. */
async function frozenEnd(
  context: BatchContext,
  run: Run,
  assigned: AssignedPartitions,
  signal: AbortSignal
): Promise<Pick<Observed, 'latest' | 'isFrozen'>> {
  const key = logKeys.runEnd(run.runId)
  const stored = await context.log.get(key, signal)
  if (stored !== null) return { latest: decodeOffsetMap(entryName(key), stored), isFrozen: true }
  const latest = await context.offsets.latest(assigned.partitions, signal)
  const end = await freeze(context, key, latest, signal)
  return { latest: end, isFrozen: end !== latest }
}

/** Puts a position once; whoever comes second uses the stored one (P11). */
async function freeze(
  context: BatchContext,
  key: EntryKey,
  offsets: PartitionOffsets,
  signal: AbortSignal
): Promise<PartitionOffsets> {
  const outcome = await context.log.add(key, encodeOffsetMap(offsets), signal)
  return outcome.kind === 'added' ? offsets : decodeOffsetMap(entryName(key), outcome.entry)
}

interface Observed {
  readonly start: PartitionOffsets
  readonly latest: PartitionOffsets
  readonly assigned: AssignedPartitions
  /** `latest` is the run's end and was found before this plan. */
  readonly isFrozen: boolean
  readonly limit: ReadLimit
}

async function draftBetween(
  context: BatchContext,
  request: DraftRequest,
  { start, latest, assigned, isFrozen, limit }: Observed,
  signal: AbortSignal
): Promise<Drafted> {
  const { run, queryId, resume, triggerMs } = request
  const { options } = context
  const newestBatch = newestOf(request)
  const recreated =
    resume.kind === 'next' ? recreatedTopics(resume.previous.topicIds, assigned.topicIds) : new Set<string>()
  // A recreated topic's stored position means nothing: its partitions are as good as new (decision 7).
  const known = withoutTopics(start, recreated)
  const added = partitionsNotIn(latest, known)
  const earliestOfNew = added.length === 0 ? new Map() : await context.offsets.earliest(added, signal)
  const admitted = admitOffsets({
    start: known,
    latest,
    earliestOfNew,
    limit,
    fresh: newestBatch === null, // batch 0 runs even where nothing is new (decision 8)
  })
  if (admitted.kind !== 'admit') return admitted
  const { end } = admitted
  if (isFrozen)
    checkFrozenEnd({ end, frozen: latest, latest: await context.offsets.latest(assigned.partitions, signal) })
  const checked = checkDataLoss({ start, end, earliestOfNew, recreated, groupIdGiven: options.groupIdGiven })
  const dataLoss = enforce(checked.findings, options.failOnDataLoss)
  const fingerprint = await context.sink.check(queryId, newestBatch, signal)
  const entry: OffsetsEntry = {
    batchId: newestBatch === null ? 0 : newestBatch + 1,
    runId: run.runId,
    batchTimestampMs: triggerMs,
    start,
    end,
    latest,
    topicIds: assigned.topicIds,
    isolationLevel: options.isolationLevel,
    tasks: splitRanges(checked.ranges, options).map((range) => [range]),
    dataLoss,
    fingerprint: { sink: fingerprint, mapping: context.mappingDigest },
  }
  return { kind: 'batch', entry }
}
