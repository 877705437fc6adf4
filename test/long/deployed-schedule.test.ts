/** Schedules and leases on a real clock: a batch that outlasts its interval, and a run that died without a word. */
import { join } from 'node:path'
import { ListExecutionsCommand } from '@aws-sdk/client-sfn'
import type { ExecutionListItem } from '@aws-sdk/client-sfn'
import { Duration } from 'aws-cdk-lib'
import { ScheduleExpression } from 'aws-cdk-lib/aws-scheduler'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { deploy, removeAssemblies, synthesize } from '../support/deployed-query.ts'
import type { DeployedQuery } from '../support/deployed-query.ts'
import { openAccount } from '../support/deployment.ts'
import type { Account } from '../support/deployment.ts'
import { readDelta, s3Options } from '../support/delta-reader.ts'
import { queryLog } from '../support/query-log.ts'
import type { QueryLog } from '../support/query-log.ts'
import { openTopics, waitUntil } from '../support/topics.ts'
import type { Topics } from '../support/topics.ts'

const { bootstrap } = inject('kafka')
const MINUTES = 60_000

interface Deployment {
  readonly account: Account
  readonly query: DeployedQuery
  readonly log: QueryLog
  /** Sends records to its topic. */
  produce(count: number): Promise<void>
  /** Executions that the schedule started, the oldest first. */
  ticks(): Promise<readonly ExecutionListItem[]>
}

let topics: Topics
const opened: Deployment[] = []

beforeAll(async () => {
  topics = await openTopics(bootstrap)
})

afterAll(async () => {
  for (const { query, account } of opened) {
    await query.close()
    await account.close()
  }
  removeAssemblies()
  await topics?.close()
})

async function deployed(timeout: Duration): Promise<Deployment> {
  const topic = await topics.create({ prefix: 'scheduled' })
  const account = await openAccount()
  const assembly = synthesize({
    entry: join(import.meta.dirname, '../support/queries/deployed.ts'),
    environment: { BROKERS: bootstrap, TOPIC: topic, CAP: '1000' },
    schedule: ScheduleExpression.rate(Duration.minutes(1)),
    timeout,
  })
  const query = await deploy(account.endpoint, assembly)
  const deployment: Deployment = {
    account,
    query,
    log: queryLog(query.dynamodb, query.table, 'deployed'),
    produce: (count) =>
      topics.produce(
        topic,
        Array.from({ length: count }, () => ({ partition: 0, value: 'x' }))
      ),
    async ticks() {
      const command = new ListExecutionsCommand({ stateMachineArn: query.stateMachine })
      const { executions } = await query.states.send(command)
      return (executions ?? []).toSorted((a, b) => Number(a.startDate) - Number(b.startDate))
    },
  }
  opened.push(deployment)
  return deployment
}

const reportOf = (batch: number) => (request: { action: string; key: string }) =>
  request.action === 'dynamodb:PutItem' && request.key === `deployed@1/reports/${batch}`

async function rowsOf({ account, query }: Deployment): Promise<number> {
  const uri = `s3://${query.bucket}/deployed`
  return (await readDelta(uri, { storageOptions: s3Options(account.endpoint) })).rows.length
}

describe.concurrent('on a real clock', () => {
  it('a batch outlasts its minute: the next tick is busy, the one after it goes on (B40)', async () => {
    const one = await deployed(Duration.minutes(10))
    await one.produce(10)
    const held = await one.account.proxy.hold(reportOf(0)) // of the first tick
    const [first] = await one.ticks()
    const ends = () => one.ticks().then((ticks) => ticks.filter(({ status }) => status === 'SUCCEEDED'))
    await waitUntil('the second tick has ended', async () => (await ends()).length === 1, 2 * MINUTES)
    expect((await one.ticks()).at(0)).toMatchObject({ executionArn: first?.executionArn, status: 'RUNNING' })
    const second = await one.query.ended((await ends())[0]?.executionArn ?? '')
    expect(JSON.parse(second.output ?? '')).toMatchObject({ kind: 'done', reason: 'busy', holder: first?.name })
    expect(await one.log.entries('offsets')).toHaveLength(1)
    await one.produce(5)
    held.release()
    await waitUntil('the tick after it has committed', async () => (await one.log.newest('commits')) === 1, 2 * MINUTES)
    expect(await rowsOf(one)).toBe(15)
  })

  it('a run dies and says nothing: ticks are busy until its lease has run out, then one takes over (P19)', async () => {
    const one = await deployed(Duration.seconds(5)) // a lease lasts 65 s
    await one.produce(10)
    const held = await one.account.proxy.hold(reportOf(0))
    const [first] = await one.ticks()
    await one.query.stop(first?.executionArn ?? '')
    one.account.killFunction(one.query.functions.Worker.name)
    held.drop()
    expect(await one.log.holder()).toBe(first?.name)
    await waitUntil('a tick has committed', async () => (await one.log.newest('commits')) === 0, 4 * MINUTES)
    const outcomes = (await one.ticks()).slice(1)
    const reasons = await Promise.all(
      outcomes.map(async ({ executionArn = '' }) => {
        const output = JSON.parse((await one.query.ended(executionArn)).output ?? '')
        return output.commit?.reason ?? output.reason
      })
    )
    expect(reasons).toEqual(['busy', 'committed'])
    expect(await one.log.token()).toBe(2)
    expect(await rowsOf(one)).toBe(10)
  })
})
