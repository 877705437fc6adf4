/** What every step of the protocol is given: one query in one environment, and one run of it. */
import type { RecordsToRows } from './mapping.ts'
import type { SourceOptions } from './options.ts'
import type { Clock, MetadataLog, OffsetReader, RangeReader, RunLease, Sink } from './ports.ts'

export interface BatchContext {
  readonly queryName: string
  readonly options: SourceOptions
  readonly toRows: RecordsToRows
  readonly mappingDigest: string
  readonly log: MetadataLog
  readonly lease: RunLease
  readonly offsets: OffsetReader
  readonly ranges: RangeReader
  readonly sink: Sink
  readonly clock: Clock
  /** What the planner may expect of a worker: where it is set, it is the time-out of the function, ms. */
  readonly workerTimeoutMs?: number | undefined
  /** A new uuid. */
  newId(): string
}

/** One start of the query. Its id travels to every step and to continuations (P18). */
export interface Run {
  readonly runId: string
  /** It ends where its first own plan found the end. */
  readonly availableNow: boolean
  /** It is one pass without limits. */
  readonly once?: boolean
  /** Not by a schedule: the first check of minOffsetsPerTrigger passes, as in a new run of Spark. */
  readonly byHand?: boolean
}
