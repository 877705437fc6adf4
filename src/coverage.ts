/** Whether what the tasks of a batch reported covers its plan. */
import type { OffsetsEntry, RangeReceipt, RangeReport } from './log.ts'
import { nameOf, stringifyExact } from './offsets.ts'
import type { OffsetRange } from './ranges.ts'
import { isSplit, receiptsIn, reportIn } from './split-entry.ts'
import type { TaskEntry } from './split-entry.ts'
import { partNumber, sameOffsetsInOrder } from './task-tree.ts'

export type ReportsVerdict =
  | { readonly kind: 'complete'; readonly reports: readonly RangeReport[] }
  /** Tasks and parts of tasks that have neither a report nor were split, in the order of the plan. */
  | { readonly kind: 'incomplete'; readonly tasks: readonly number[] }
  | { readonly kind: 'unusable'; readonly reason: string }

/**
 * Whether the entries cover the plan: the *set* of planned ranges, each once, under one fingerprint (P10, B48). A task that was
 * split is covered by what was done of it and by its parts, and they by theirs (P14). Entries of another
 * generation, batch or plan do not count.
 */
export function verifyReports(
  plan: OffsetsEntry,
  planDigest: string,
  generation: number,
  entries: readonly TaskEntry[]
): ReportsVerdict {
  const counting = entries.filter(
    (e) => e.batchId === plan.batchId && e.planDigest === planDigest && e.generation === generation
  )
  const byTask = new Map(counting.toReversed().map((e) => [e.task, e])) // the first of two counts
  const reports: RangeReport[] = []
  const missing: number[] = []
  const visit = (task: number, ranges: readonly OffsetRange[]): void => {
    const entry = byTask.get(task)
    if (entry === undefined || !covers(entry, ranges)) {
      missing.push(task)
      return
    }
    const report = isSplit(entry) ? reportIn(entry) : entry
    if (report !== null) reports.push(report)
    if (isSplit(entry)) entry.parts.forEach((part, i) => visit(partNumber(plan.tasks.length, task, i), part))
  }
  plan.tasks.forEach((ranges, task) => visit(task, ranges))
  if (missing.length > 0) return { kind: 'incomplete', tasks: missing }
  const shapes = new Set(reports.map((r) => stringifyExact([r.fingerprint.sink, r.fingerprint.mapping])))
  if (shapes.size > 1)
    return {
      kind: 'unusable',
      reason: 'its tasks were written with different sinks or mappings (a deployment came between)',
    }
  return { kind: 'complete', reports }
}

/** A report holds its task's ranges one by one, a split their offsets. */
function covers(entry: TaskEntry, ranges: readonly OffsetRange[]): boolean {
  const receipts = receiptsIn(entry)
  if (isSplit(entry)) return sameOffsetsInOrder([...receipts, ...entry.parts.flat()], ranges)
  return receipts.length === ranges.length && ranges.every((range, i) => identify(range) === identify(receipts[i]))
}

const identify = (range: OffsetRange | undefined): string =>
  range === undefined ? '' : `${nameOf(range)} ${range.from} ${range.until}`

/** Whether two attempts read other records in one and the same range (N5). */
export function differ(one: readonly RangeReceipt[], other: readonly RangeReceipt[]): boolean {
  const hashes = new Map(one.map((receipt) => [identify(receipt), receipt.hash]))
  return other.some((receipt) => (hashes.get(identify(receipt)) ?? receipt.hash) !== receipt.hash)
}
