import { randomBytes, randomUUID } from 'node:crypto'
import { expect, inject, it } from 'vitest'
import { dynamoMetadataLog } from '../../src/aws/metadata-log.ts'
import { dynamoRunLease } from '../../src/aws/run-lease.ts'
import { metadataLogConformance } from '../conformance/metadata-log.ts'
import { runLeaseConformance } from '../conformance/run-lease.ts'
import { dynamoStore } from '../support/dynamo-store.ts'
import { injectFault, openTestTable } from '../support/dynamodb.ts'

const going = new AbortController().signal
const open = () => openTestTable(inject('ministack').endpoint)

metadataLogConformance('DynamoDB of MiniStack', async () => dynamoStore(await open()).logs)
runLeaseConformance('DynamoDB of MiniStack', async () => dynamoStore(await open()).leases)

it('B36 lost answers to offsets, commits and the lease are known as our own writes', async () => {
  const db = await open()
  const scope = { table: db.table, query: `q-${randomUUID()}`, generation: 1 }
  for (const log of ['offsets', 'commits']) {
    const client = db.newClient()
    injectFault(client, { command: 'PutItemCommand', when: 'after', nth: 1 })
    const added = await dynamoMetadataLog({ client, ...scope }).add({ log, id: 0 }, 'ours', going)
    expect(added).toEqual({ kind: 'added' })
    expect(await dynamoMetadataLog({ client, ...scope }).list(log, going)).toEqual([{ id: 0, entry: 'ours' }])
  }
  const client = db.newClient()
  injectFault(client, { command: 'UpdateItemCommand', when: 'after', nth: 1 })
  const lease = dynamoRunLease({ client, ...scope, clock: Date, ttlMs: 60_000 })
  expect(await lease.acquire('run-a', going)).toEqual({ kind: 'held', token: 1, lastPass: null })
  await db.close()
})

it('P6 two planners racing with large entries never mix their parts', async () => {
  const db = await open()
  const query = `q-${randomUUID()}`
  const texts = [1, 2].map(() => randomBytes(1_150_000).toString('base64'))
  const logs = texts.map(() => dynamoMetadataLog({ client: db.newClient(), table: db.table, query, generation: 1 }))
  const key = { log: 'offsets', id: 0 }
  const outcomes = await Promise.all(logs.map((log, i) => log.add(key, texts[i] ?? '', going)))
  const winner = texts[outcomes.findIndex((o) => o.kind === 'added')]
  expect(outcomes.flatMap((o) => (o.kind === 'exists' ? [o.entry === winner] : []))).toEqual([true])
  expect((await logs[0]?.get(key, going)) === winner).toBe(true)
  await logs[0]?.remove(key, going)
  expect(await db.keys(query)).toEqual([])
  await db.close()
})
