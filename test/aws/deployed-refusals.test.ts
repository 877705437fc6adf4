/**
 * What goes wrong in an account ends the execution with a cause that names it, frees the lease and moves no position; once it
 * is put right, the next tick finishes the batch.
 */
import { DeleteItemCommand, DeleteTableCommand, UpdateTableCommand } from '@aws-sdk/client-dynamodb'
import { DeleteBucketCommand } from '@aws-sdk/client-s3'
import { Duration } from 'aws-cdk-lib'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { deploy, removeAssemblies, synthesize } from '../support/deployed-query.ts'
import type { DeployedQuery } from '../support/deployed-query.ts'
import { callerOf, openAccount } from '../support/deployment.ts'
import type { Account } from '../support/deployment.ts'
import { readDelta, s3Options } from '../support/delta-reader.ts'
import { statementsOf } from '../support/policies.ts'
import type { Template } from '../support/policies.ts'
import { queryLog } from '../support/query-log.ts'
import type { QueryLog } from '../support/query-log.ts'
import { ownListener, startTcpProxy } from '../support/tcp-proxy.ts'
import type { TcpProxy } from '../support/tcp-proxy.ts'
import { openTopics } from '../support/topics.ts'
import type { Topics } from '../support/topics.ts'

const FETCH = 1
const entry = join(import.meta.dirname, '../support/queries/deployed.ts')

let account: Account
let kafka: TcpProxy
let topics: Topics
const opened: DeployedQuery[] = []

beforeAll(async () => {
  const { bootstrap, proxied } = inject('kafka')
  ;[account, kafka, topics] = await Promise.all([
    openAccount(),
    startTcpProxy(ownListener(proxied)),
    openTopics(bootstrap),
  ])
  synthesize({ entry, environment: { BROKERS: bootstrap, TOPIC: 'none', CAP: '1' } }) // the bundles are made once
}, 120_000)

afterAll(async () => {
  await Promise.all(opened.map((query) => query.close()))
  removeAssemblies()
  await Promise.all([topics?.close(), kafka?.close(), account?.close()])
})

interface Deployment {
  readonly topic: string
  readonly query: DeployedQuery
  readonly log: QueryLog
}

/** A query over a topic of its own with three records in it. */
async function deployed(edit?: (template: string) => string, timeout?: Duration): Promise<Deployment> {
  const topic = await topics.create({ prefix: 'refusals' })
  await produce(topic, 'one', 'two', 'three')
  const environment = { BROKERS: kafka.bootstrap, TOPIC: topic, CAP: '1000' }
  const assembly = synthesize({ entry, environment, ...(timeout && { timeout }) })
  const query = await deploy(account.endpoint, assembly, edit)
  opened.push(query)
  return { topic, query, log: queryLog(query.dynamodb, query.table, 'deployed') }
}

/** As an operator may cut it: the worker puts nothing into the table any more. */
function withoutWorkersPuts(template: string): string {
  const edited = JSON.parse(template) as Template
  for (const statement of statementsOf(edited, 'QueryWorkerRole'))
    if (statement.Action === 'dynamodb:PutItem') Object.assign(statement, { Effect: 'Deny' })
  return JSON.stringify(edited)
}

const produce = (topic: string, ...values: readonly string[]): Promise<void> =>
  topics.produce(
    topic,
    values.map((value) => ({ partition: 0, key: null, value }))
  )

/** What the next execution fails with. */
async function failure({ query }: Deployment): Promise<string> {
  const { status, cause } = await query.run()
  expect(status).toBe('FAILED')
  return cause ?? ''
}

async function expectCommitted({ query, log }: Deployment, batch: number, rows: number): Promise<void> {
  expect(await query.run()).toMatchObject({ status: 'SUCCEEDED' })
  expect(await log.newest('commits')).toBe(batch)
  const table = await readDelta(`s3://${query.bucket}/deployed`, { storageOptions: s3Options(account.endpoint) })
  expect(table.rows).toHaveLength(rows)
}

describe('an execution fails by name', () => {
  it('where the table is gone', async () => {
    const one = await deployed()
    const { dynamodb, table } = one.query
    await dynamodb.send(new UpdateTableCommand({ TableName: table, DeletionProtectionEnabled: false }))
    await dynamodb.send(new DeleteTableCommand({ TableName: table }))
    expect(await failure(one)).toContain(`Table ${table} does not exist in the account and region`)
  })

  it('where the bucket is gone', async () => {
    const one = await deployed()
    const { s3, bucket } = one.query
    await s3.send(new DeleteBucketCommand({ Bucket: bucket }))
    expect(await failure(one)).toMatch(new RegExp(`s3://${bucket}/.*does not exist`))
    expect(await one.log.holder()).toBeNull()
    expect(await one.log.newest('offsets')).toBeNull()
  })

  it('where the table does not know the query any more: what was planned is finished once it does', async () => {
    const one = await deployed()
    const { dynamodb, table } = one.query
    const working = account.proxy.hold(
      (request) => request.key === 'deployed' && callerOf(one.query, request) === 'Worker'
    )
    const tick = await one.query.start()
    const held = await working
    const Key = { pk: { S: 'deployed' }, sk: { S: 'generation' } }
    await dynamodb.send(new DeleteItemCommand({ TableName: table, Key }))
    held.release()
    const { status, cause } = await one.query.ended(tick)
    expect(status).toBe('FAILED')
    expect(cause).toContain(`Table ${table} does not know query 'deployed'`)
    await expectCommitted(one, 0, 3)
  })

  it('where a right is missing: the cause names the entry, and nothing is delivered', async () => {
    const one = await deployed(withoutWorkersPuts)
    const cause = await failure(one)
    expect(cause).toMatch(/Writing deployed@1\/attempts\/0\/\S+: table \S+ refused the request/)
    expect(cause).toContain('Check the credentials and their rights on this table and its leading keys')
    expect(await one.log.holder()).toBeNull()
    expect(await one.log.newest('offsets')).toBe(0)
    expect(await one.log.newest('commits')).toBeNull()
  })

  it('where a record cannot be mapped: each tick tries the same batch, and the position stays (P19)', async () => {
    const one = await deployed()
    await produce(one.topic, 'poison', 'four')
    for (let tick = 0; tick < 3; tick++) {
      expect(await failure(one)).toContain(`The mapping failed on ${one.topic}-0 at offset 3: cannot be mapped`)
      expect(await one.log.holder()).toBeNull()
      expect(await one.log.entries('offsets')).toHaveLength(1)
      expect(await one.log.entries('reports/0')).toEqual([])
      expect(await one.log.newest('commits')).toBeNull()
      await produce(one.topic, 'later')
    }
  })

  it('where a worker runs out of time: it stops without effect, and the next one delivers (P20)', async () => {
    const one = await deployed(undefined, Duration.seconds(5))
    kafka.setRule(({ apiKey }) => (apiKey === FETCH ? 'mute' : 'pass'))
    try {
      expect(await failure(one)).toContain('The worker did not finish within 2 s and stopped without effect')
    } finally {
      kafka.setRule(undefined)
    }
    expect(await one.log.holder()).toBeNull()
    expect(await one.log.entries('reports/0')).toEqual([])
    await expectCommitted(one, 0, 3)
  })
})
