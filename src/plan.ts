/**
 * What the next batch would be: every look at Kafka and at the sink, and every check, without a durable effect of its own
 * beside the two that freeze a position (`sources/0`, `runs/<run>/end`).
 */
import { admitOffsets, unlimited } from './admission.ts'
import type { Admission, ReadLimit } from './admission.ts'
import { blockedPartitions, stableLatest } from './blocked.ts'
import type { BlockedPartition } from './blocked.ts'
import type { BatchContext, Run } from './context.ts'
import { checkDataLoss, enforce, recreatedTopics } from './data-loss.ts'
import { resolveEnd } from './bounds.ts'
import { checkFrozenEnd, isBeyond } from './frozen-end.ts'
import { decodeOffsetMap, encodeOffsetMap, entryName, logKeys } from './log.ts'
import type { OffsetsEntry, ResumePoint } from './log.ts'
import { namedPartitions, resolveOffsets, timestampsToMatch } from './offset-range-limit.ts'
import { entriesOf, nameOf, partitionsNotIn, withoutTopics } from './offsets.ts'
import type { PartitionOffsets } from './offsets.ts'
import type { AssignedPartitions, EntryKey, LastPass } from './ports.ts'
import { readLimitOf, recentBatches } from './read-limit.ts'
import { decodeStart, encodeStart } from './start-entry.ts'
import type { StartEntry } from './start-entry.ts'
import { planTasks } from './task-plan.ts'
import type { BatchWork } from './task-plan.ts'

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

type Drafted =
  | { readonly kind: 'batch'; readonly entry: OffsetsEntry }
  | (Exclude<Admission, { kind: 'admit' }> & { readonly blocked: readonly BlockedPartition[] })

/** The next batch as it would be logged, every check done; or why there is none. */
export async function draftNext(context: BatchContext, request: DraftRequest, signal: AbortSignal): Promise<Draft> {
  const { resume, run } = request
  const { previous } = resume.kind === 'next' ? resume : { previous: null }
  const position =
    previous === null ? await frozenStart(context, request, signal) : { ...previous, start: previous.end }
  const { start, topicIds } = position
  const assigned = await context.offsets.assigned(signal, { partitions: entriesOf(start), topicIds })
  const place = { start, topicIds, assigned }
  const asked = await endsNow(context, request, place, signal)
  const frozen = run.availableNow ? await frozenEnd(context, run, place, asked.latest, signal) : null
  // Another planner of the run may have frozen it after this one asked.
  const ends =
    frozen !== null && isBeyond(frozen, asked.latest) ? await endsNow(context, request, place, signal) : asked
  const recent = await recentBatches(context, newestOf(request), signal)
  const limit = readLimitOf(context, { ...request, recent })
  const drafted = await draftBetween(context, request, { ...place, ends, frozen, limit, recent }, signal)
  return { ...drafted, isPass: limit.min !== null && drafted.kind !== 'delay' }
}

const newestOf = ({ resume }: DraftRequest): number | null => (resume.kind === 'next' ? resume.previous.batchId : null)

/**
 * `sources/0`: where the query starts, frozen by its first plan even if no batch follows. The checks of that plan run
 * before it is put, so that a mistyped start is not frozen; a loser of the put uses the stored start (P16).
 */
async function frozenStart(context: BatchContext, request: DraftRequest, signal: AbortSignal): Promise<StartEntry> {
  const stored = await context.log.get(logKeys.source, signal)
  if (stored !== null) return decodeStart(stored)
  const place = await firstStart(context, signal)
  const ends = await endsNow(context, request, place, signal)
  const frozen = await boundedEnd(context, place, ends.latest, signal)
  await draftBetween(context, request, { ...place, ends, frozen, limit: unlimited, recent: [] }, signal)
  return decodeStart(await freeze(context, logKeys.source, encodeStart(place), signal))
}

/**
 * What the starting options mean now. The end is asked for before the timestamps are: a record that comes in between is matched
 * then, and never falls between the two.
 * @throws KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED, KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED,
 * KAFKA_NO_OFFSET_FOR_TIMESTAMP
 */
async function firstStart({ offsets, options }: BatchContext, signal: AbortSignal): Promise<Place> {
  const limit = options.startingOffsets
  const named = namedPartitions(limit)
  const known = named.length === 0 ? undefined : { partitions: named, topicIds: new Map() }
  const assigned = await offsets.assigned(signal, known)
  const { partitions } = assigned
  const earliest = await offsets.earliest(partitions, signal)
  const latest = await offsets.latest(partitions, signal)
  const timestamps = timestampsToMatch(limit, partitions)
  const matched = timestamps === null ? new Map() : await offsets.forTimestamps(timestamps, signal)
  const start = resolveOffsets(limit, { assigned: partitions, earliest, latest, matched })
  return { start, topicIds: assigned.topicIds, assigned }
}

/**
 * The end of an AvailableNow run: what Kafka held at its first plan, once any replay was done (P18). Where nothing was found
 * there is no end to keep.
 */
async function frozenEnd(
  context: BatchContext,
  run: Run,
  place: Place,
  latest: PartitionOffsets,
  signal: AbortSignal
): Promise<PartitionOffsets> {
  const key = logKeys.runEnd(context.options.endingOffsets === null ? run.runId : BACKFILL)
  const stored = await context.log.get(key, signal)
  if (stored !== null) return decodeOffsetMap(entryName(key), stored)
  const end = (await boundedEnd(context, place, latest, signal)) ?? latest
  if (end.size === 0) return end
  return decodeOffsetMap(entryName(key), await freeze(context, key, encodeOffsetMap(end), signal))
}

/** All runs of a backfill go to the end of its first plan. */
const BACKFILL = 'backfill'

/** What the ending options of a backfill mean now; null for a stream. */
const boundedEnd = async (
  { options, offsets }: BatchContext,
  { start, assigned }: Place,
  latest: PartitionOffsets,
  signal: AbortSignal
): Promise<PartitionOffsets | null> =>
  options.endingOffsets === null
    ? null
    : resolveEnd(options.endingOffsets, { start, assigned: assigned.partitions, latest }, offsets, signal)

/** Puts a position once; whoever comes second uses the stored one (P11). */
async function freeze(context: BatchContext, key: EntryKey, text: string, signal: AbortSignal): Promise<string> {
  const outcome = await context.log.add(key, text, signal)
  return outcome.kind === 'added' ? text : outcome.entry
}

/** A position, or a start, with the topic ids of its time. */
interface Place extends StartEntry {
  /** What there is now. */
  readonly assigned: AssignedPartitions
}

interface Ends {
  /** What Kafka holds now, as far as the isolation level lets a batch see it. */
  readonly latest: PartitionOffsets
  readonly blocked: readonly BlockedPartition[]
}

/** One request per leader; under read_committed a second one, since only the planner sees partitions that stand still. */
async function endsNow(
  context: BatchContext,
  { resume, triggerMs }: DraftRequest,
  { start, topicIds, assigned }: Place,
  signal: AbortSignal
): Promise<Ends> {
  const { offsets, options } = context
  const { partitions } = assigned
  const known = withoutTopics(start, recreatedTopics(topicIds, assigned.topicIds))
  if (options.isolationLevel === 'read_uncommitted')
    return { latest: await offsets.latest(partitions, signal, known), blocked: [] }
  const highWatermarks = await offsets.highWatermarks(partitions, signal, known)
  const ends = { highWatermarks, lastStable: await offsets.latest(partitions, signal) }
  return {
    latest: stableLatest(ends, known),
    blocked: blockedPartitions(ends, resume.kind === 'next' ? resume.previous.blocked : [], triggerMs),
  }
}

interface Observed extends Place {
  readonly ends: Ends
  /** The run's end, where it has one. */
  readonly frozen: PartitionOffsets | null
  readonly limit: ReadLimit
  readonly recent: readonly BatchWork[]
}

async function draftBetween(
  context: BatchContext,
  request: DraftRequest,
  { start, topicIds, assigned, ends, frozen, limit, recent }: Observed,
  signal: AbortSignal
): Promise<Drafted> {
  const { run, queryId, triggerMs } = request
  const { options } = context
  const newestBatch = newestOf(request)
  const { blocked } = ends
  const latest = frozen ?? ends.latest
  const recreated = recreatedTopics(topicIds, assigned.topicIds)
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
  if (admitted.kind !== 'admit') return { ...admitted, blocked }
  const { end } = admitted
  if (frozen !== null) checkFrozenEnd({ end, frozen, latest: ends.latest, recreated })
  const { groupIdGiven } = options
  const checked = checkDataLoss({ start, end, latest, earliestOfNew, recreated, groupIdGiven })
  const dataLoss = enforce(checked.findings, options.failOnDataLoss)
  const fingerprint = await context.sink.check(queryId, { newest: newestBatch, committed: newestBatch }, signal)
  const entry: OffsetsEntry = {
    batchId: newestBatch === null ? 0 : newestBatch + 1,
    runId: run.runId,
    batchTimestampMs: triggerMs,
    start,
    end,
    latest,
    topicIds: assigned.topicIds,
    isolationLevel: options.isolationLevel,
    tasks: planTasks(checked.ranges, { ...options, workerTimeoutMs: context.workerTimeoutMs ?? null }, recent, (tp) =>
      assigned.leaders?.get(nameOf(tp))
    ),
    dataLoss,
    blocked,
    fingerprint: { sink: fingerprint, mapping: context.mappingDigest },
  }
  return { kind: 'batch', entry }
}
