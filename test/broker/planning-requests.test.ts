/** How often a plan asks Kafka: the cost of looking does not grow with partitions. */
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { planBatch } from '../../src/batch.ts'
import { openDeltaSession } from '../support/delta-session.ts'
import { numbered, openQuery } from '../support/query-run.ts'
import { ownListener, startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts'
import { openTopics, type Topics } from '../support/topics.ts'

const { bootstrap, proxied } = inject('kafka')
const LIST_OFFSETS = 2
const METADATA = 3
const tables = openDeltaSession()
const { signal } = new AbortController()
let topics: Topics
let proxy: TcpProxy
beforeAll(async () => {
  topics = await openTopics(bootstrap)
  proxy = await startTcpProxy(ownListener(proxied))
})
afterAll(async () => {
  await topics.close()
  await proxy.close()
  await tables.close()
})

test.each([
  { level: 'read_uncommitted', listOffsets: 1 },
  { level: 'read_committed', listOffsets: 2 },
])(
  'a plan of 60 partitions under $level: metadata once, $listOffsets requests for offsets to the leader',
  async (row) => {
    const [a, b] = [await topics.create({ partitions: 40 }), await topics.create({ partitions: 20 })]
    const options = {
      'kafka.bootstrap.servers': proxy.bootstrap,
      subscribe: `${a},${b}`,
      'kafka.isolation.level': row.level,
    }
    await using query = await openQuery({ options, tables })
    await query.run()
    const plan = async (): Promise<readonly unknown[]> => {
      const asked: number[] = []
      proxy.setRule(({ apiKey }) => {
        asked.push(apiKey)
        return 'pass'
      })
      const run = { runId: randomUUID(), availableNow: false }
      const outcome = await query.inContext((context) => planBatch(context, run, signal))
      proxy.setRule(undefined)
      return [outcome.kind, ...[METADATA, LIST_OFFSETS].map((key) => asked.filter((one) => one === key).length)]
    }
    expect(await plan()).toEqual(['noNewData', 1, row.listOffsets])
    await topics.produce(a, numbered(5, { partition: 39 }))
    expect(await plan()).toEqual(['planned', 1, row.listOffsets])
  }
)
