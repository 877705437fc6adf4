/** What `sluice read` refuses before it asks anybody: exit code 2 and one line. */
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { readCommand } from '../src/cli/read.ts'
import type { ReadFlags } from '../src/cli/read.ts'

let stderr = ''
beforeEach(() => {
  stderr = ''
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    stderr += String(text)
    return true
  })
})
afterEach(() => vi.restoreAllMocks())

const flags: ReadFlags = { bootstrapServer: 'a:1', topic: 't', option: [], parallelism: 4 }

describe('a read is refused', () => {
  test.each([
    [{ output: 'parquet' }, 'OPTION_CONFLICT', 'name it with --file'],
    [{ count: true, output: 'json' }, 'OPTION_CONFLICT', 'either counts or puts records out'],
    [{ count: true, file: 'x' }, 'OPTION_CONFLICT', 'leave --file out'],
    [{ output: 'avro' }, 'OPTION_INVALID', "'avro' is none of json, csv, parquet, count"],
    [{ option: [['startingOffsets', 'latest']] }, 'OPTION_INVALID', "starting offset can't be latest"],
    [{ option: [['endingOffset', 'x']] }, 'OPTION_UNKNOWN', "Did you mean 'endingOffsets'?"],
    [{ option: [['kafka.security.protocol', 'x']] }, 'OPTION_INVALID', 'security.protocol'],
  ] as const)('%j', async (more, condition, text) => {
    expect(await readCommand({ ...flags, ...more })).toBe(2)
    expect(stderr).toMatch(new RegExp(`^sluice: ${condition}: [^\n]*\n$`))
    expect(stderr).toContain(text)
  })

  test('K82 K83 for a start that does not fit its end', async () => {
    const between = (end: string): ReadFlags => ({
      ...flags,
      option: [
        ['startingOffsets', '{"t":{"0":1}}'],
        ['endingOffsets', end],
      ],
    })
    expect(await readCommand(between('{"t":{"0":0}}'))).toBe(2)
    expect(await readCommand(between('{"t":{"1":2}}'))).toBe(2)
    expect(stderr).toMatch(
      /^sluice: UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET: .*\nsluice: MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET: /
    )
  })
})
