/**
 * The crash matrix on real parts: a Kafka broker, the embedded DynamoDB, a Delta table in a directory. For each durable effect
 * the process dies before it, dies after it, or lives on without the answer; the next run finishes. The rows that delta-rs
 * reads are the broker's records, each once.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, inject, it } from 'vitest'
import { defineQuery, deltaTable, kafka } from '../../src/index.ts'
import { dieAt, effectsOf, loseAnswerAt, tableIn } from '../support/crash-matrix.ts'
import { readPositions } from '../support/delta-reader.ts'
import { positionsOf, readTopic } from '../support/kafka-reader.ts'
import { openTopics } from '../support/topics.ts'

const { bootstrap } = inject('kafka')
const root = mkdtempSync(join(tmpdir(), 'sluice-crash-'))
const topics = await openTopics(bootstrap)
afterAll(async () => {
  await topics.close()
  rmSync(root, { recursive: true, force: true })
})

/** Two partitions, two batches. */
const topic = await topics.create({ partitions: 2 })
await topics.produce(
  topic,
  Array.from({ length: 10 }, (_, n) => ({ partition: n % 5 === 4 ? 1 : 0, value: `v${n}` }))
)
const query = defineQuery({
  name: 'crash',
  source: kafka({
    'kafka.bootstrap.servers': bootstrap,
    subscribe: topic,
    startingOffsets: 'earliest',
    maxOffsetsPerTrigger: 6,
  }),
  sink: deltaTable('table'),
})

const points = await effectsOf(query, join(root, 'undisturbed'))
const cases = points.map((point, n) => ({ point, n }))
const tables: { point: string; table: string }[] = [{ point: 'nothing', table: tableIn(join(root, 'undisturbed')) }]

function directoryFor(point: string, n: number): string {
  const directory = join(root, `${n}-${tables.length}`)
  tables.push({ point, table: tableIn(directory) })
  return directory
}

describe('the effects of a run on real parts', () => {
  it('are among the points', () => {
    const names = points.map((p) => p.replace(/^(before|after) /, ''))
    const effects = [
      'meta/metadata',
      'meta/sources/0',
      'runs/uuid/end',
      'offsets/0',
      'reports/0/000000/000000',
      'commits/1',
    ]
    for (const effect of effects) expect(names).toContain(`log.add ${effect}`)
    for (const effect of [
      'lease.acquire',
      'lease.renew',
      'lease.release',
      'object.put _delta_log/00000000000000000000.json',
    ])
      expect(names).toContain(effect)
    expect(names.filter((name) => /^object\.close .*\.parquet$/.test(name)).length).toBeGreaterThan(0)
  })

  it.each(cases)('$n: die $point', ({ point, n }) => dieAt(query, directoryFor(`die ${point}`, n), n))

  it.each(cases.filter(({ point }) => point.startsWith('after ')))('$n: lose the answer $point', ({ point, n }) =>
    loseAnswerAt(query, directoryFor(`lose the answer ${point}`, n), n)
  )

  it('P1 P3: leave each record of the broker once in the table that delta-rs reads', async () => {
    const inKafka = [...positionsOf(await readTopic(bootstrap, topic))].toSorted()
    expect(inKafka).toHaveLength(10)
    const read = await readPositions(tables.map(({ table }) => table))
    const wrong = read.flatMap((rows, i) => (rows.join() === inKafka.join() ? [] : [{ ...tables[i], rows }]))
    expect(wrong).toEqual([])
    expect(read).toHaveLength(tables.length)
  })
})
