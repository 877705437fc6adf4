/** What a run shows: a line per batch, a live bar on a terminal, or JSON lines for machines. */
import { describeFindings } from '../data-loss.ts'
import type { ErrorCondition } from '../errors.ts'
import type { BlockedPartition } from '../blocked.ts'
import { nameOf, stringifyExact } from '../offsets.ts'
import type { RunEvent, RunResult } from '../local/runner.ts'
import type { SourceOptions } from '../options.ts'
import { unusedStart } from '../position-options.ts'
import { progressForJson } from '../progress.ts'
import type { StreamingQueryProgress } from '../progress.ts'

export interface RunReport {
  event(event: RunEvent): void
  end(result: RunResult): void
  /** Takes the live bar off the terminal. */
  clear(): void
}

export interface ReportOptions {
  readonly json: boolean
  readonly queryName: string
  readonly options: SourceOptions
}

/** What another run's hold on the query is called; no failure, so no error either (decision 2 of the protocol). */
const BUSY: ErrorCondition = 'CONCURRENT_STREAM_LOG_UPDATE'

export const runReport = (options: ReportOptions): RunReport =>
  options.json ? jsonReport(options) : textReport(options)

function jsonReport({ options }: ReportOptions): RunReport {
  const print = (value: object): void => void process.stdout.write(`${stringifyExact(value)}\n`)
  for (const text of options.warnings) print({ event: 'warning', text })
  return {
    event(event) {
      const { kind, ...rest } = event
      print({ event: kind, ...rest, ...(kind === 'progress' && { progress: progressForJson(event.progress) }) })
      const notice = kind === 'resumed' ? unusedStart(options, event.offsets) : null
      if (notice !== null) print({ event: 'warning', text: notice })
    },
    end: ({ kind, ...rest }) => print({ event: kind, ...rest, ...(kind === 'busy' && { condition: BUSY }) }),
    clear: () => {},
  }
}

function textReport({ queryName, options }: ReportOptions): RunReport {
  const bar = liveBar()
  const line = (text: string): void => {
    bar.clear()
    process.stdout.write(`${text}\n`)
  }
  const warn = (text: string): void => {
    bar.clear()
    process.stderr.write(`warning: ${text}\n`)
  }
  for (const text of options.warnings) warn(text)
  return {
    event(event) {
      switch (event.kind) {
        case 'started':
          return line(`query ${queryName}  run ${event.runId}`)
        case 'warning':
          return warn(event.text)
        case 'resumed': {
          line(`resumed from ${event.offsets}`)
          const notice = unusedStart(options, event.offsets)
          return notice === null ? undefined : warn(notice)
        }
        case 'planned':
          if (event.replay)
            line(
              `batch ${event.batchId}  replay of a batch that was planned and not committed, ${event.tasks} tasks left`
            )
          return bar.start(event.batchId, event.tasks)
        case 'task':
          if (event.outcome.kind === 'alreadyReported' && event.outcome.differs)
            warn(`batch ${event.batchId} task ${event.task}: a replay read other records than the attempt that counts`)
          return bar.step()
        case 'redo':
          return warn(`batch ${event.batchId}: ${event.reason}; its tasks run again`)
        case 'delayed':
          return line(
            `${count.format(event.pending)} new offsets are fewer than minOffsetsPerTrigger: ` +
              `unless more come, no batch before ${new Date(event.untilMs).toISOString()}`
          )
        case 'blocked':
          return line(waiting(event.partitions))
        case 'fallingBehind':
          return warn(
            `batch ${event.batchId} took ${event.tookMs} ms, longer than the trigger interval of ${event.intervalMs} ms`
          )
        case 'progress':
          line(batchLine(event.progress))
          if (event.progress.sluice.blocked.length > 0) line(waiting(event.progress.sluice.blocked))
          if (event.progress.sluice.dataLoss.length > 0)
            warn(`data loss in batch ${event.progress.batchId}: ${describeFindings(event.progress.sluice.dataLoss)}`)
          return event.warnings.forEach(warn)
        default:
          return event satisfies never
      }
    },
    end: (result) =>
      line(
        result.kind === 'busy'
          ? `busy: ${result.holder} holds query ${queryName} (${BUSY})`
          : `query ${queryName}  done`
      ),
    clear: () => bar.clear(),
  }
}

const count = new Intl.NumberFormat('en-US')

function batchLine(progress: StreamingQueryProgress): string {
  const { sluice, batchDuration } = progress
  const seconds = Math.max(1, batchDuration) / 1000
  return [
    `batch ${progress.batchId}`,
    `${count.format(progress.numInputRows)} rows`,
    `${(sluice.inputBytes / 1e6 / seconds).toFixed(1)} MB/s`,
    `${seconds.toFixed(1)} s`,
    `${count.format(sluice.offsetsBehindLatestAtCommit)} offsets behind latest`,
  ].join('  ')
}

/** The longest wait first. */
function waiting(blocked: readonly BlockedPartition[]): string {
  const shown = blocked
    .toSorted((a, b) => a.since.localeCompare(b.since))
    .slice(0, 3)
    .map((one) => `${count.format(one.offsets)} of ${nameOf(one)} since ${one.since}`)
  const more = blocked.length - shown.length
  return `waiting  offsets behind an open transaction: ${shown.join(', ')}${more > 0 ? `, and ${more} more partitions` : ''}`
}

const BAR_WIDTH = 30

/** Redrawn in place; nothing where standard output is not a terminal. */
function liveBar(): { start(batchId: number, tasks: number): void; step(): void; clear(): void } {
  let batchId = 0
  let tasks = 0
  let done = 0
  const draw = (): void => {
    if (!process.stdout.isTTY) return
    const filled = tasks === 0 ? BAR_WIDTH : Math.round((done / tasks) * BAR_WIDTH)
    process.stdout.write(
      `\r\x1b[Kbatch ${batchId}  [${'#'.repeat(filled).padEnd(BAR_WIDTH, '.')}]  ${done}/${tasks} tasks`
    )
  }
  return {
    start(id, of) {
      batchId = id
      tasks = of
      done = 0
      draw()
    },
    step() {
      done++
      draw()
    },
    clear: () => void (process.stdout.isTTY && process.stdout.write('\r\x1b[K')),
  }
}
