/**
 * The parts of a task that was too long for one worker (P14). A part is a task of its own and may be split again, so a planned
 * task is the root of a tree whose leaves are what is left to do.
 *
 * A part's number follows from its parent's: numbers stay whole numbers on the state machine's wire (P13), nobody has to
 * agree on them, and a part's parent is known without a search. With T planned tasks the parts of task p are T + 8p .. T + 8p + 7,
 * which no other task has. The numbers of a plan of 3,000 tasks last for 13 levels; a part is at most half as long as
 * its parent, and an eighth where nothing was read.
 */
import { nameOf } from './offsets.ts'
import { sizeOf, totalSizeOf } from './ranges.ts'
import type { OffsetRange } from './ranges.ts'

/** Parts of one split, at the most. */
export const FAN_OUT = 8

/** The number of a part in a plan of `planned` tasks. */
export const partNumber = (planned: number, parent: number, index: number): number => planned + FAN_OUT * parent + index

export interface PartOf {
  readonly parent: number
  readonly index: number
}

/** Null for a task of the plan. */
export function parentOf(planned: number, task: number): PartOf | null {
  if (task < planned) return null
  return { parent: Math.floor((task - planned) / FAN_OUT), index: (task - planned) % FAN_OUT }
}

/** Whether parts of it would have numbers. */
export const canBeSplit = (planned: number, task: number): boolean =>
  Number.isSafeInteger(partNumber(planned, task, FAN_OUT - 1))

/** How many parts a rest is cut into when one worker got through `done` in its time: each takes about half as long. */
export function partsOfRest(done: bigint, rest: bigint): number {
  const parts = (2n * rest + done - 1n) / done
  return parts > BigInt(FAN_OUT) ? FAN_OUT : Number(parts)
}

/** Cuts the ranges of a task, in their order, into so many parts of equal size in offsets; fewer where there are not so many offsets. */
export function cutTask(ranges: readonly OffsetRange[], parts: number): OffsetRange[][] {
  const pieces: OffsetRange[][] = []
  const queue = ranges.filter((range) => sizeOf(range) > 0n)
  for (let left = parts; left > 0 && queue.length > 0; left--) {
    const piece: OffsetRange[] = []
    for (let room = (totalSizeOf(queue) + BigInt(left) - 1n) / BigInt(left); room > 0n;) {
      const range = queue.shift()
      if (range === undefined) break
      const until = sizeOf(range) > room ? range.from + room : range.until
      piece.push({ ...range, until })
      room -= until - range.from
      if (until < range.until) queue.unshift({ ...range, from: until })
    }
    pieces.push(piece)
  }
  return pieces
}

/** Whether two lists hold the same offsets in the same order, wherever they are cut. */
export const sameOffsetsInOrder = (a: readonly OffsetRange[], b: readonly OffsetRange[]): boolean =>
  textOf(a) === textOf(b)

function textOf(ranges: readonly OffsetRange[]): string {
  const joined: OffsetRange[] = []
  for (const range of ranges) {
    const last = joined.at(-1)
    if (last !== undefined && nameOf(last) === nameOf(range) && last.until === range.from)
      joined[joined.length - 1] = { ...last, until: range.until }
    else joined.push(range)
  }
  return joined.map((range) => `${nameOf(range)} ${range.from} ${range.until}`).join()
}
