/** P15: the table's checkpoint is written after `commits/N`; dying around it or losing its answers loses and repeats nothing. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, inject, it } from 'vitest'
import { defineQuery, deltaTable, kafka } from '../../src/index.ts'
import { dieAt, effectsOf, loseAnswerAt, tableIn } from '../support/crash-matrix.ts'
import { readPositions } from '../support/delta-reader.ts'
import { openTopics } from '../support/topics.ts'

const { bootstrap } = inject('kafka')
const root = mkdtempSync(join(tmpdir(), 'sluice-checkpoint-'))
const topics = await openTopics(bootstrap)
afterAll(async () => {
  await topics.close()
  rmSync(root, { recursive: true, force: true })
})
const RECORDS = 12
const topic = await topics.create({ partitions: 1 })
await topics.produce(
  topic,
  Array.from({ length: RECORDS }, (_, n) => ({ partition: 0, value: `v${n}` }))
)
const query = defineQuery({
  name: 'checkpoint',
  source: kafka({
    'kafka.bootstrap.servers': bootstrap,
    subscribe: topic,
    startingOffsets: 'earliest',
    maxOffsetsPerTrigger: 1,
  }),
  sink: deltaTable('table'),
})
const points = await effectsOf(query, join(root, 'undisturbed'))
const cases = points.map((point, n) => ({ point, n })).filter(({ point }) => point.includes('checkpoint'))
const delivered = [Array.from({ length: RECORDS }, (_, n) => `0:${n}`).toSorted()]

describe('P15: a checkpoint of the table', () => {
  it('is written right after the commits entry of its version and named by _last_checkpoint', () => {
    expect(readdirSync(join(tableIn(join(root, 'undisturbed')), '_delta_log'))).toContain('_last_checkpoint')
    expect(cases.length).toBeGreaterThanOrEqual(4)
    const [first] = cases
    const version = Number(/(\d{20})\.checkpoint/.exec(first?.point ?? '')?.[1])
    expect(points[(first?.n ?? 0) - 1]).toBe(`after log.add commits/${version}`)
  })

  it.each(cases)('$n: die $point', async ({ n }) => {
    const directory = join(root, `die-${n}`)
    await dieAt(query, directory, n)
    expect(await readPositions([tableIn(directory)])).toEqual(delivered)
  })

  it.each(cases.filter(({ point }) => point.startsWith('after ')))('$n: lose the answer $point', async ({ n }) => {
    const directory = join(root, `lose-${n}`)
    await loseAnswerAt(query, directory, n)
    expect(await readPositions([tableIn(directory)])).toEqual(delivered)
  })
})
