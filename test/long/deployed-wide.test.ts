/** A plan of more ranges than one execution can work on, in an account: the run goes on in an execution of its own. */
import { join } from 'node:path'
import { DescribeExecutionCommand, ListExecutionsCommand, paginateGetExecutionHistory } from '@aws-sdk/client-sfn'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { deploy, removeAssemblies, synthesize } from '../support/deployed-query.ts'
import type { DeployedQuery } from '../support/deployed-query.ts'
import { openAccount } from '../support/deployment.ts'
import type { Account } from '../support/deployment.ts'
import { readDelta, s3Options } from '../support/delta-reader.ts'
import { queryLog } from '../support/query-log.ts'
import { openTopics, waitUntil } from '../support/topics.ts'
import type { Topics } from '../support/topics.ts'

const RANGES = 1600
const { bootstrap } = inject('kafka')

let account: Account
let topics: Topics
let query: DeployedQuery

beforeAll(async () => {
  ;[account, topics] = await Promise.all([openAccount(), openTopics(bootstrap)])
  const topic = await topics.create({ prefix: 'wide' })
  for (let at = 0; at < RANGES; at += 400)
    await topics.produce(
      topic,
      Array.from({ length: 400 }, () => ({ partition: 0, value: 'x' }))
    )
  const assembly = synthesize({
    entry: join(import.meta.dirname, '../support/queries/wide.ts'),
    environment: { BROKERS: bootstrap, TOPIC: topic, RANGES: String(RANGES) },
    maxConcurrency: 4,
  })
  query = await deploy(account.endpoint, assembly)
}, 120_000)

afterAll(async () => {
  await query?.close()
  removeAssemblies()
  await Promise.all([account?.close(), topics?.close()])
})

async function historyOf(executionArn: string): Promise<number> {
  let entries = 0
  for await (const page of paginateGetExecutionHistory({ client: query.states, pageSize: 1000 }, { executionArn }))
    entries += page.events?.length ?? 0
  return entries
}

it('a thousand ranges a pass, and the rest in the next execution of the same run (P13, P18)', async () => {
  const log = queryLog(query.dynamodb, query.table, 'wide')
  const first = await query.ended(await query.start({}, 'wide-run'), 280_000)
  expect(first).toMatchObject({ status: 'SUCCEEDED' })
  await waitUntil('the batch is committed', async () => (await log.newest('commits')) === 0, 120_000)
  await waitUntil('the lease is free', async () => (await log.holder()) === null)
  const { executions } = await query.states.send(new ListExecutionsCommand({ stateMachineArn: query.stateMachine }))
  expect(executions?.map(({ name }) => name).toSorted()).toEqual(['wide-run', 'wide-run-1'])
  for (const { executionArn = '' } of executions ?? []) {
    expect(await historyOf(executionArn)).toBeLessThan(25_000)
    const { status } = await query.ended(executionArn)
    expect(status).toBe('SUCCEEDED')
  }
  const continued = executions?.find(({ name }) => name === 'wide-run-1')?.executionArn
  const { input } = await query.states.send(new DescribeExecutionCommand({ executionArn: continued }))
  expect(JSON.parse(input ?? '')).toEqual({ run: 'wide-run', part: 1 })
  expect(await log.token()).toBe(1) // one run, one hold on the lease
  const table = await readDelta(`s3://${query.bucket}/wide`, { storageOptions: s3Options(account.endpoint) })
  expect(table.files).toHaveLength(RANGES)
  expect(new Set(table.rows.map((row) => Number(row['offset']))).size).toBe(RANGES)
  expect(table.rows).toHaveLength(RANGES)
})
