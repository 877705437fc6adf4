/**
 * A batch's progress in the shape of Spark's StreamingQueryProgress (spark-semantics 7): the same fields in the same
 * order, then one trailing `sluice` object for what Spark does not have (protocol decision 13).
 */
import type { BlockedPartition } from './blocked.ts'
import type { DataLossFinding } from './data-loss.ts'
import {
  arrayOf,
  blockedFrom,
  booleanOf,
  countOf,
  findingsFrom,
  int64Of,
  numberOf,
  objectOf,
  offsetsOfField,
  textOf,
} from './log-codec.ts'
import type { OffsetsEntry, RangeReport } from './log.ts'
import { entriesOf, offsetAt, offsetsOf, offsetsToObject, stringifyExact } from './offsets.ts'
import type { PartitionOffsets } from './offsets.ts'

type OffsetsObject = Record<string, Record<string, bigint>>

export interface SourceProgress {
  readonly description: string
  /** null in the first batch of a query (X15). */
  readonly startOffset: OffsetsObject | null
  readonly endOffset: OffsetsObject
  /** null for a replayed batch: latest was never asked. */
  readonly latestOffset: OffsetsObject | null
  readonly numInputRows: number
  readonly inputRowsPerSecond: number
  readonly processedRowsPerSecond: number
  /** Spark's three lag metrics, as texts; absent for a replayed batch. */
  readonly metrics?: Readonly<Record<string, string>>
}

/** What sluice knows beside Spark's fields. */
export interface SluiceProgress {
  readonly replay: boolean
  readonly tasks: number
  readonly offsets: bigint
  /** Offsets of the batch that hold no record: markers, aborted or compacted records (N5). */
  readonly offsetsWithoutRecord: bigint
  readonly inputBytes: number
  readonly outputBytes: number
  /** Milliseconds that the workers took whose output counts, in all. */
  readonly workMs: number
  /** Against the high watermarks that the workers last saw, so unlike Spark's not as old as the plan (decision 12). */
  readonly offsetsBehindLatestAtCommit: bigint
  readonly dataLoss: readonly DataLossFinding[]
  /** What waited for open transactions when the batch was planned, and since when; only under read_committed. */
  readonly blocked: readonly BlockedPartition[]
}

export interface StreamingQueryProgress {
  readonly id: string
  readonly runId: string
  readonly name: string | null
  /** Start of the trigger, UTC, ISO with milliseconds. */
  readonly timestamp: string
  readonly batchId: number
  readonly batchDuration: number
  readonly numInputRows: number
  readonly inputRowsPerSecond: number
  readonly processedRowsPerSecond: number
  readonly durationMs: Readonly<Record<string, number>>
  readonly stateOperators: readonly []
  readonly sources: readonly SourceProgress[]
  readonly sink: { readonly description: string; readonly numOutputRows: number }
  readonly sluice: SluiceProgress
}

export interface ProgressInput {
  readonly queryId: string
  readonly queryName: string
  readonly runId: string
  readonly plan: OffsetsEntry
  readonly reports: readonly RangeReport[]
  readonly replay: boolean
  readonly sourceDescription: string
  readonly sinkDescription: string
  /** Milliseconds since the epoch when this run began to work on the batch, and now. */
  readonly startedMs: number
  readonly nowMs: number
  /** Start of this run's trigger before, if there was one: input rates are per second between the two. */
  readonly previousTriggerMs: number | null
}

export function progressOf(input: ProgressInput): StreamingQueryProgress {
  const { plan, reports, replay } = input
  const receipts = reports.flatMap((report) => report.ranges)
  const numInputRows = sum(receipts.map((r) => r.records))
  const batchDuration = Math.max(0, input.nowMs - input.startedMs)
  const rates = {
    inputRowsPerSecond: perSecond(
      numInputRows,
      input.previousTriggerMs === null ? 0 : input.startedMs - input.previousTriggerMs
    ),
    processedRowsPerSecond: perSecond(numInputRows, Math.max(1, batchDuration)),
  }
  const metrics = lagMetrics(replay ? null : plan.latest, plan.end)
  return {
    id: input.queryId,
    runId: input.runId,
    name: input.queryName,
    timestamp: new Date(input.startedMs).toISOString(),
    batchId: plan.batchId,
    batchDuration,
    numInputRows,
    ...rates,
    durationMs: { triggerExecution: batchDuration },
    stateOperators: [],
    sources: [
      {
        description: input.sourceDescription,
        startOffset: plan.batchId === 0 ? null : offsetsToObject(plan.start),
        endOffset: offsetsToObject(plan.end),
        latestOffset: replay ? null : offsetsToObject(plan.latest),
        numInputRows,
        ...rates,
        ...(metrics === null ? {} : { metrics }),
      },
    ],
    sink: { description: input.sinkDescription, numOutputRows: sum(receipts.map((r) => r.rows)) },
    sluice: {
      replay,
      tasks: plan.tasks.length,
      offsets: receipts.reduce((n, r) => n + (r.until - r.from), 0n),
      offsetsWithoutRecord: receipts.reduce((n, r) => n + (r.until - r.from) - BigInt(r.records), 0n),
      inputBytes: sum(receipts.map((r) => r.bytes)),
      outputBytes: sum(reports.map((r) => r.message.bytes)),
      workMs: sum(reports.map((r) => r.workMs)),
      offsetsBehindLatestAtCommit: behind(plan, reports),
      dataLoss: [...plan.dataLoss, ...reports.flatMap((r) => r.dataLoss)],
      blocked: plan.blocked,
    },
  }
}

/** Spark's lag metrics: latest - end for each partition of latest; none where either is unknown or nothing is assigned (K35, K36). */
export function lagMetrics(
  latest: PartitionOffsets | null,
  end: PartitionOffsets | null
): Record<string, string> | null {
  if (latest === null || end === null) return null
  const lags = entriesOf(latest).map((e) => e.offset - (offsetAt(end, e) ?? 0n))
  if (lags.length === 0) return null
  return {
    avgOffsetsBehindLatest: averageOf(lags),
    maxOffsetsBehindLatest: String(lags.reduce((a, b) => (b > a ? b : a))),
    minOffsetsBehindLatest: String(lags.reduce((a, b) => (b < a ? b : a))),
  }
}

/** One decimal, half up (away from zero), in whole numbers: a double has no tenths of large lags. */
function averageOf(values: readonly bigint[]): string {
  const total = values.reduce((a, b) => a + b)
  const count = BigInt(values.length)
  const tenths = ((total < 0n ? -total : total) * 20n + count) / (2n * count)
  return `${total < 0n && tenths > 0n ? '-' : ''}${tenths / 10n}.${tenths % 10n}`
}

/** Offsets between the batch's end and the newest high watermark known for each partition; never negative. */
function behind(plan: OffsetsEntry, reports: readonly RangeReport[]): bigint {
  const seen = offsetsOf(
    reports.flatMap((report) =>
      report.ranges.flatMap((r) => (r.highWatermark === null ? [] : [{ ...r, offset: r.highWatermark }]))
    )
  )
  return entriesOf(plan.end).reduce((total, end) => {
    const known = [offsetAt(seen, end), offsetAt(plan.latest, end)].filter((o) => o !== undefined)
    const newest = known.reduce((a, b) => (b > a ? b : a), end.offset)
    return total + newest - end.offset
  }, 0n)
}

// -- JSON

/** JSON as Spark writes it: exact offsets, rates with one decimal (E27). */
export const progressToJson = (progress: StreamingQueryProgress): string => stringifyExact(progressForJson(progress))

/** The same for a larger JSON text: what `stringifyExact` writes of it is `progressToJson`. */
export const progressForJson = (progress: StreamingQueryProgress): object => ({
  ...progress,
  ...ratesForJson(progress),
  sources: progress.sources.map((source) => ({ ...source, ...ratesForJson(source) })),
})

interface Rates {
  readonly inputRowsPerSecond: number
  readonly processedRowsPerSecond: number
}

const ratesForJson = (rates: Rates): Record<keyof Rates, unknown> => ({
  inputRowsPerSecond: withOneDecimal(rates.inputRowsPerSecond),
  processedRowsPerSecond: withOneDecimal(rates.processedRowsPerSecond),
})

const withOneDecimal = (rate: number): unknown =>
  (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON(rate.toFixed(1)) // newer than the compiler's JSON

/** Reads a progress back from parsed JSON, its offsets bigint again. @throws SyntaxError naming the field */
export function progressFrom(value: unknown): StreamingQueryProgress {
  const json = objectOf(value, 'progress')
  const sink = objectOf(json['sink'], 'sink')
  return {
    id: textOf(json['id'], 'id'),
    runId: textOf(json['runId'], 'runId'),
    name: json['name'] === null ? null : textOf(json['name'], 'name'),
    timestamp: textOf(json['timestamp'], 'timestamp'),
    batchId: countOf(json['batchId'], 'batchId'),
    batchDuration: countOf(json['batchDuration'], 'batchDuration'),
    numInputRows: countOf(json['numInputRows'], 'numInputRows'),
    ...ratesFrom(json),
    durationMs: valuesOf(json['durationMs'], 'durationMs', countOf),
    stateOperators: [],
    sources: arrayOf(json['sources'], 'sources').map(sourceFrom),
    sink: {
      description: textOf(sink['description'], 'description'),
      numOutputRows: countOf(sink['numOutputRows'], 'numOutputRows'),
    },
    sluice: sluiceFrom(objectOf(json['sluice'], 'sluice')),
  }
}

function sourceFrom(value: unknown): SourceProgress {
  const json = objectOf(value, 'sources')
  const offsets = (field: string): OffsetsObject => offsetsToObject(offsetsOfField(json[field], field))
  return {
    description: textOf(json['description'], 'description'),
    startOffset: json['startOffset'] === null ? null : offsets('startOffset'),
    endOffset: offsets('endOffset'),
    latestOffset: json['latestOffset'] === null ? null : offsets('latestOffset'),
    numInputRows: countOf(json['numInputRows'], 'numInputRows'),
    ...ratesFrom(json),
    ...(json['metrics'] === undefined ? {} : { metrics: valuesOf(json['metrics'], 'metrics', textOf) }),
  }
}

const sluiceFrom = (json: Record<string, unknown>): SluiceProgress => ({
  replay: booleanOf(json['replay'], 'replay'),
  tasks: countOf(json['tasks'], 'tasks'),
  offsets: int64Of(json['offsets'], 'offsets'),
  offsetsWithoutRecord: int64Of(json['offsetsWithoutRecord'], 'offsetsWithoutRecord'),
  inputBytes: countOf(json['inputBytes'], 'inputBytes'),
  outputBytes: countOf(json['outputBytes'], 'outputBytes'),
  workMs: countOf(json['workMs'], 'workMs'),
  offsetsBehindLatestAtCommit: int64Of(json['offsetsBehindLatestAtCommit'], 'offsetsBehindLatestAtCommit'),
  dataLoss: findingsFrom(json['dataLoss']),
  blocked: blockedFrom(json['blocked']),
})

const ratesFrom = (json: Record<string, unknown>): Rates => ({
  inputRowsPerSecond: numberOf(json['inputRowsPerSecond'], 'inputRowsPerSecond'),
  processedRowsPerSecond: numberOf(json['processedRowsPerSecond'], 'processedRowsPerSecond'),
})

const valuesOf = <T>(value: unknown, field: string, read: (value: unknown, field: string) => T): Record<string, T> =>
  Object.fromEntries(Object.entries(objectOf(value, field)).map(([key, v]) => [key, read(v, `${field}.${key}`)]))

// -- numbers

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0)

const perSecond = (rows: number, ms: number): number => (ms > 0 ? Math.round((rows * 10_000) / ms) / 10 : 0)
