/** The example app, deployed by the commands that README.md gives, in an account that enforces policies; the clock is real. */
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { DescribeExecutionCommand, ListExecutionsCommand, SFNClient } from '@aws-sdk/client-sfn'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { openAccount } from '../support/deployment.ts'
import type { Account } from '../support/deployment.ts'
import { readDelta, s3Options } from '../support/delta-reader.ts'
import { ministackClient } from '../support/ministack.ts'
import { openTopics, waitUntil } from '../support/topics.ts'
import type { Topics } from '../support/topics.ts'

const run = promisify(execFile)
const cdkFolder = join(import.meta.dirname, '../../cdk')
const { bootstrap } = inject('kafka')

let account: Account
let topics: Topics
let topic: string
let folder: string
let states: SFNClient

beforeAll(async () => {
  ;[account, topics, folder] = await Promise.all([
    openAccount(),
    openTopics(bootstrap),
    mkdtemp(join(tmpdir(), 'sluice-app-')),
  ])
  topic = await topics.create({ prefix: 'flights', partitions: 2 })
  states = new SFNClient({ ...ministackClient, endpoint: account.endpoint })
})

afterAll(async () => {
  states?.destroy()
  await Promise.all([account?.close(), topics?.close(), rm(folder, { recursive: true, force: true })])
})

const cdk = (...args: readonly string[]) =>
  run('npx', ['cdk', ...args, '--output', join(folder, 'cdk.out')], {
    cwd: cdkFolder,
    env: {
      ...process.env,
      AWS_ENDPOINT_URL: account.endpoint,
      AWS_ACCESS_KEY_ID: 'test',
      AWS_SECRET_ACCESS_KEY: 'test',
      AWS_REGION: 'us-east-1',
      SLUICE_BROKERS: bootstrap,
      SLUICE_TOPIC: topic,
      CI: 'true',
      CDK_DISABLE_CLI_TELEMETRY: 'true',
      CDK_DISABLE_VERSION_CHECK: '1',
    },
  })

const flight = { date: '2001-01-13T14:56:00Z', delay: -4, distance: 419, origin: 'SAN', destination: 'SMF' }
const produce = (count: number): Promise<void> =>
  topics.produce(
    topic,
    Array.from({ length: count }, (_, i) => ({
      partition: i % 2,
      key: flight.origin,
      value: JSON.stringify({ ...flight, delay: i }),
    }))
  )

describe('the example app', () => {
  it('is deployed by two commands; each minute one tick commits what came (B40)', async () => {
    await produce(100)
    await cdk('bootstrap', 'aws://000000000000/us-east-1')
    const outputs = join(folder, 'outputs.json')
    await cdk('deploy', '--require-approval', 'never', '--no-notices', '--outputs-file', outputs)
    const { Flights: stack } = JSON.parse(await readFile(outputs, 'utf8'))
    const rows = async (): Promise<readonly unknown[]> => {
      const uri = `s3://${stack.DataBucket}/flights`
      return (await readDelta(uri, { storageOptions: s3Options(account.endpoint) })).rows
    }
    const ticks = async (): Promise<{ readonly arn: string; readonly startedMs: number }[]> => {
      const { executions } = await states.send(new ListExecutionsCommand({ stateMachineArn: stack.StateMachine }))
      const ended = (executions ?? []).filter(({ status }) => status === 'SUCCEEDED')
      return ended.map(({ executionArn = '', startDate }) => ({ arn: executionArn, startedMs: Number(startDate) }))
    }
    await waitUntil('the first tick has ended', async () => (await ticks()).length > 0, 120_000)
    expect(await rows()).toHaveLength(100)

    await produce(50)
    await waitUntil('the second tick has ended', async () => (await ticks()).length > 1, 120_000)
    expect(await rows()).toHaveLength(150)

    await waitUntil('a third tick found nothing new', async () => (await ticks()).length > 2, 120_000)
    expect(await rows()).toHaveLength(150)
    const all = (await ticks()).toSorted((a, b) => a.startedMs - b.startedMs)
    const [, , third] = all
    const { output, input } = await states.send(new DescribeExecutionCommand({ executionArn: third?.arn }))
    expect(input).toBe('{}')
    expect(JSON.parse(output ?? '')).toMatchObject({ kind: 'done', reason: 'noNewData' })
  })
})
