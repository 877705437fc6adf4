/**
 * What stands at a report's key instead of a report: that the task was split (P14). The key decides between the two, so a
 * late report and a split never both count. Both are of version 1: no release ever read the one without the other (P22).
 */
import { LOG_VERSION, arrayOf, decodeEntry, objectOf, oneOf, rangeFrom } from './log-codec.ts'
import { attemptFrom, doneFrom, entryName, reportFrom } from './log.ts'
import type { DoneWork, RangeReceipt, RangeReport, TaskAttempt } from './log.ts'
import { stringifyExact } from './offsets.ts'
import type { EntryKey } from './ports.ts'
import type { OffsetRange } from './ranges.ts'

export interface TaskSplit extends TaskAttempt {
  readonly kind: 'split'
  /** What the attempt got done before its deadline; null where the task had been started twice without a report. */
  readonly done: DoneWork | null
  /** The ranges of each part, in order: with what is done they are those of the task. */
  readonly parts: readonly (readonly OffsetRange[])[]
}

export type TaskEntry = RangeReport | TaskSplit

export const isSplit = (entry: TaskEntry): entry is TaskSplit => 'parts' in entry

/** The report of what a split says is done. */
export function reportIn({ kind: _kind, parts: _parts, done, ...attempt }: TaskSplit): RangeReport | null {
  return done === null ? null : { ...attempt, ...done }
}

export const receiptsIn = (entry: TaskEntry): readonly RangeReceipt[] =>
  isSplit(entry) ? (entry.done?.ranges ?? []) : entry.ranges

export const encodeTaskEntry = (entry: TaskEntry): string => stringifyExact({ v: LOG_VERSION, ...entry })

export const decodeTaskEntry = (key: EntryKey, text: string): TaskEntry =>
  decodeEntry(entryName(key), text, (json) => (json['kind'] === undefined ? reportFrom(json) : splitFrom(json)))

const splitFrom = (json: Record<string, unknown>): TaskSplit => ({
  kind: oneOf(json['kind'], 'kind', ['split']),
  ...attemptFrom(json),
  done: json['done'] === null ? null : doneFrom(objectOf(json['done'], 'done')),
  parts: arrayOf(json['parts'], 'parts').map((part) =>
    arrayOf(part, 'parts').map((range) => rangeFrom(range, 'parts'))
  ),
})
