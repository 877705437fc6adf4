/** Numbers of the parts of a task, and where it is cut. */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { totalSizeOf } from '../src/ranges.ts'
import {
  FAN_OUT,
  canBeSplit,
  cutTask,
  parentOf,
  partNumber,
  partsOfRest,
  sameOffsetsInOrder,
} from '../src/task-tree.ts'
import { range } from './support/log-entries.ts'

const shown = (pieces: ReturnType<typeof cutTask>): string[] =>
  pieces.map((piece) => piece.map((r) => `${r.partition} [${r.from},${r.until})`).join(' '))

describe('numbers of parts', () => {
  it.each([
    [1, 0, [1, 8], [9, 16]],
    [3, 0, [3, 10], [27, 34]],
    [3, 2, [19, 26], [155, 162]],
  ])(
    'P14: in a plan of %i tasks the parts of task %i are %o, those of its first part %o',
    (planned, task, parts, next) => {
      const first = partNumber(planned, task, 0)
      expect([first, partNumber(planned, task, 7)]).toEqual(parts)
      expect([partNumber(planned, first, 0), partNumber(planned, first, 7)]).toEqual(next)
    }
  )

  it('P14: no two parts share one, and each tells whose part it is', () => {
    const planned = fc.integer({ min: 1, max: 5000 })
    fc.assert(
      fc.property(planned, fc.nat(1_000_000), fc.nat(7), (tasks, parent, index) => {
        expect(parentOf(tasks, partNumber(tasks, parent, index))).toEqual({ parent, index })
      })
    )
    expect([0, 1, 2].map((task) => parentOf(3, task))).toEqual([null, null, null])
  })

  it('P13: stay exact whole numbers; where they would not, a task is not split any more', () => {
    const levels = (planned: number): number => {
      let [task, level] = [planned - 1, 0]
      for (; canBeSplit(planned, task); level++) task = partNumber(planned, task, FAN_OUT - 1)
      expect(Number.isSafeInteger(task)).toBe(true)
      return level
    }
    expect([levels(1), levels(3000), levels(100_000)]).toEqual([17, 13, 12])
  })
})

describe('a task is cut', () => {
  it.each([
    ['in equal parts, the surplus first', [range(0, 0, 10)], 3, ['0 [0,4)', '0 [4,7)', '0 [7,10)']],
    ['across its ranges', [range(0, 0, 3), range(1, 5, 8)], 2, ['0 [0,3)', '1 [5,8)']],
    ['through its ranges', [range(0, 0, 3), range(1, 5, 10)], 2, ['0 [0,3) 1 [5,6)', '1 [6,10)']],
    ['in no more parts than it has offsets', [range(0, 7, 9)], 8, ['0 [7,8)', '0 [8,9)']],
    ['in one', [range(0, 0, 3), range(1, 5, 10)], 1, ['0 [0,3) 1 [5,10)']],
    ['without its empty ranges', [range(0, 3, 3), range(1, 5, 7)], 2, ['1 [5,6)', '1 [6,7)']],
    ['of one offset in one', [range(0, 7, 8)], 8, ['0 [7,8)']],
  ])('P14: %s', (_how, ranges, parts, expected) => expect(shown(cutTask(ranges, parts))).toEqual(expected))

  it('P14: into parts that hold its offsets in order, each of them smaller', () => {
    const anyTask = fc.array(fc.tuple(fc.nat(5), fc.bigInt({ min: 1n, max: 2n ** 40n })), {
      minLength: 1,
      maxLength: 6,
    })
    fc.assert(
      fc.property(anyTask, fc.integer({ min: 2, max: FAN_OUT }), (sizes, parts) => {
        const ranges = sizes.map(([partition, size]) => range(partition, 100, 100n + size))
        const pieces = cutTask(ranges, parts)
        const total = totalSizeOf(ranges)
        expect(sameOffsetsInOrder(pieces.flat(), ranges)).toBe(true)
        expect(BigInt(pieces.length)).toBe(total < BigInt(parts) ? total : BigInt(parts))
        for (const piece of pieces) expect(totalSizeOf(piece)).toBeLessThanOrEqual((total + 1n) / 2n)
      })
    )
  })

  it.each([
    [100n, 1n, 1],
    [100n, 50n, 1],
    [100n, 51n, 2],
    [100n, 100n, 2],
    [100n, 330n, 7],
    [1n, 2n ** 62n, FAN_OUT],
  ])('P14: a worker that got through %d offsets leaves %d for %d', (done, rest, parts) =>
    expect(partsOfRest(done, rest)).toBe(parts)
  )
})
