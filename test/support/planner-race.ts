/** B35: the body of the race between two runs, at whatever length the suite can afford. */
import { join } from 'node:path'
import { expect } from 'vitest'
import { dynamoMetadataLog } from '../../src/aws/metadata-log.ts'
import { readPositions } from './delta-reader.ts'
import { removeDirectory, temporaryDirectory } from './local-run.ts'
import { startTestTable } from './dynamodb.ts'
import { startRacers } from './races.ts'
import { openTopics } from './topics.ts'

const RECORDS = 20
const signal = new AbortController().signal

/**
 * Two processes run the same fresh query at once, `repetitions` times: one entry per batch, each record once. With the lease
 * the loser is busy; without it both work on the same entries, and the conditional puts decide.
 */
export async function racePlanners(bootstrap: string, repetitions: number, lease: boolean): Promise<void> {
  const topics = await openTopics(bootstrap)
  const warehouse = await temporaryDirectory()
  const table = await startTestTable()
  try {
    await using racers = startRacers(table, warehouse)
    const topic = await topics.create({ partitions: 2 })
    await topics.produce(
      topic,
      Array.from({ length: RECORDS }, (_, n) => ({ partition: n % 2, value: `v${n}` }))
    )
    const options = {
      'kafka.bootstrap.servers': bootstrap,
      subscribe: topic,
      startingOffsets: 'earliest',
      maxOffsetsPerTrigger: 10,
    }
    const names = Array.from({ length: repetitions }, (_, n) => `race-${lease}-${n}`)
    const results: string[] = []
    for (const query of names) {
      const both = await racers.race(query, options, lease)
      results.push(...both)
      // Whoever is alone afterwards finishes what is left.
      expect(await racers.race(query, options, lease)).toContain('finished')
      const log = dynamoMetadataLog({ client: table.client, table: table.table, query, generation: 1 })
      const ids = async (name: string) => (await log.list(name, signal)).map(({ id }) => id)
      expect([await ids('offsets'), await ids('commits')]).toEqual([
        [0, 1],
        [0, 1],
      ])
    }
    expect(results).toContain('finished')
    expect(results.filter((result) => !/^(finished|busy)$/.test(result))).toEqual([])
    if (lease) expect(results).toContain('busy')
    const expected = Array.from({ length: RECORDS }, (_, n) => `${n % 2}:${n >> 1}`).toSorted()
    expect(await readPositions(names.map((name) => join(warehouse, name)))).toEqual(names.map(() => expected))
  } finally {
    await table.close()
    await removeDirectory(warehouse)
    await topics.close()
  }
}
