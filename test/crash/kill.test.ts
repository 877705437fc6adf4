/**
 * Real deaths: a process is killed (SIGKILL) right before and right after each of the five effects of a batch; the command line
 * runs the query again. What was left half-done is never visible, and what was acknowledged is still there.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, inject, it } from 'vitest'
import { defineQuery, deltaTable, kafka } from '../../src/index.ts'
import { effectsOf, tableIn } from '../support/crash-matrix.ts'
import { readPositions } from '../support/delta-reader.ts'
import { positionsOf, readTopic } from '../support/kafka-reader.ts'
import { runLocally } from '../support/local-run.ts'
import { openTopics } from '../support/topics.ts'

const { bootstrap } = inject('kafka')
const root = mkdtempSync(join(tmpdir(), 'sluice-kill-'))
const topics = await openTopics(bootstrap)
afterAll(async () => {
  await topics.close()
  rmSync(root, { recursive: true, force: true })
})
const topic = await topics.create({ partitions: 2 })
await topics.produce(
  topic,
  Array.from({ length: 12 }, (_, n) => ({ partition: n % 2, value: `v${n}` }))
)
const options = {
  'kafka.bootstrap.servers': bootstrap,
  subscribe: topic,
  startingOffsets: 'earliest',
  maxOffsetsPerTrigger: 4,
}
const query = defineQuery({ name: 'query', source: kafka(options), sink: deltaTable('table') })

const points = await effectsOf(query, join(root, 'undisturbed'))
const effects: readonly [string, RegExp][] = [
  ['1 offsets/1', /log\.add offsets\/1$/],
  ['2 staged object', /object\.close part-0000000001-00000-.*\.parquet$/],
  ['3 reports/1', /log\.add reports\/1\/000000\/000001$/],
  ['4 table version', /object\.put _delta_log\/00000000000000000001\.json$/],
  ['5 commits/1', /log\.add commits\/1$/],
]
const kills = effects.flatMap(([effect, pattern]) =>
  ['before', 'after'].map((when) => ({
    when,
    effect,
    n: points.findIndex((point) => point.startsWith(when) && pattern.test(point)),
  }))
)

async function killAt(directory: string, n: number): Promise<void> {
  const child = spawn(
    process.execPath,
    [new URL('../support/crash-child.ts', import.meta.url).pathname, directory, String(n)],
    {
      env: { ...process.env, SLUICE_TEST_QUERY: JSON.stringify({ name: 'query', options, table: 'table' }) },
      stdio: 'inherit',
    }
  )
  expect(await once(child, 'exit')).toEqual([null, 'SIGKILL'])
}

describe('a process is killed', () => {
  it.each(kills)('right $when effect $effect', async ({ n }) => {
    expect(n).toBeGreaterThanOrEqual(0)
    const directory = join(root, String(n))
    await killAt(directory, n)
    expect(await runLocally({ directory, options })).toMatchObject({ code: 0, stdout: expect.stringContaining('done') })
  })

  it('and the next run leaves each record of the broker once in the table', async () => {
    const inKafka = [...positionsOf(await readTopic(bootstrap, topic))].toSorted()
    expect(inKafka).toHaveLength(12)
    const read = await readPositions(kills.map(({ n }) => tableIn(join(root, String(n)))))
    expect(read).toEqual(kills.map(() => inKafka))
  })
})
