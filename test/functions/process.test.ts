/** A function in a process of its own: it ends by itself, without a warning, and prints no secret. */
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { dynamoRunLease } from '../../src/aws/run-lease.ts'
import { startTestTable } from '../support/dynamodb.ts'
import type { TestTable } from '../support/dynamodb.ts'
import { freePort } from '../support/ports.ts'

let table: TestTable
beforeAll(async () => {
  table = await startTestTable()
})
afterAll(() => table.close())

const support = (file: string): string => join(import.meta.dirname, '../support', file)

const password = 'pa55-of-the-test'
const user = 'user-of-the-test'
const jaas = `org.apache.kafka.common.security.plain.PlainLoginModule required username="${user}" password="{{env:SLUICE_TEST_PASSWORD}}";`

interface Called {
  /** `answer` or `failure` and its JSON. */
  readonly last: string
  readonly code: number | null
  readonly printed: string
  readonly hung: boolean
  /** Lines that are neither the last one nor of the log. */
  readonly others: readonly string[]
}

/** Calls a function of the query over the test's table and waits until its process is gone. */
async function call(name: string, event: object, query: { name: string; options: object }): Promise<Called> {
  const parts = { table: 'rows', ...query, options: { subscribe: 'rows', ...query.options } }
  const script = [support('invoke-function.ts'), name, support('queries/from-env.ts'), JSON.stringify(event)]
  const child = spawn(process.execPath, ['--trace-warnings', ...script], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: process.env['PATH'],
      AWS_ENDPOINT_URL_DYNAMODB: table.endpoint,
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'test',
      AWS_SECRET_ACCESS_KEY: 'secret-key-of-the-test',
      POWERTOOLS_LOG_LEVEL: 'DEBUG',
      SLUICE_TABLE: table.table,
      SLUICE_BUCKET: 'warehouse',
      SLUICE_LEASE_MS: '60000',
      SLUICE_TEST_PASSWORD: password,
      SLUICE_TEST_QUERY: JSON.stringify(parts),
    },
  })
  let hung = false
  let clock: NodeJS.Timeout | undefined
  const lines: string[] = []
  createInterface({ input: child.stdout }).on('line', (line) => {
    lines.push(line)
    // Its work is done: what keeps the process now is a leak.
    if (/^(answer|failure) /.test(line)) clock = setTimeout(() => (hung = child.kill('SIGKILL')), 10_000)
  })
  const [errors, [code]] = await Promise.all([text(child.stderr), once(child, 'close')])
  clearTimeout(clock)
  const last = lines.pop() ?? ''
  const others = [...lines, ...errors.split('\n')].filter((line) => line !== '' && !line.startsWith('{"level":'))
  return { last, code: code as number | null, printed: [last, ...lines, errors].join('\n'), hung, others }
}

const planning = { execution: 'run', input: {}, entries: 0, waits: 0 }
const message = { runId: 'run', batchId: 0, token: 1, triggerMs: 1, replay: false, availableNow: false }
const quick = {
  'kafka.socket.connection.setup.timeout.ms': 300,
  'kafka.request.timeout.ms': 300,
  'fetchOffset.numRetries': 1,
}

/** A server in a broker's place. */
async function brokerOf(onConnection: (socket: Socket) => void) {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    onConnection(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`, // listening on TCP
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

/** It ended by itself, with that, and printed nothing but its log. */
const ending = (last: string) => ({ code: 0, hung: false, others: [], last: expect.stringContaining(last) })

describe.concurrent('B57: the process ends by itself, without a warning', () => {
  const addressed = (servers: string) => ({
    name: `query-${randomUUID()}`,
    options: { ...quick, 'kafka.bootstrap.servers': servers },
  })

  it('B57: after a plan that met no broker', async () => {
    const called = await call('planner', planning, addressed(`127.0.0.1:${await freePort()}`))
    expect(called).toMatchObject(ending('"errorType":"KAFKA_UNREACHABLE"'))
  })

  it('B57: after a plan that met a mute broker', async () => {
    await using broker = await brokerOf((socket) => socket.resume())
    expect(await call('planner', planning, addressed(broker.address))).toMatchObject(
      ending('"errorType":"KAFKA_UNREACHABLE"')
    )
  })

  it('B57: after a plan whose broker hangs up', async () => {
    await using broker = await brokerOf((socket) => socket.once('data', () => socket.destroy()))
    expect(await call('planner', planning, addressed(broker.address))).toMatchObject(
      ending('"errorType":"KAFKA_UNREACHABLE"')
    )
  })

  it('B57: after a busy answer', async () => {
    const query = addressed('127.0.0.1:1')
    const lease = { client: table.client, table: table.table, query: query.name, generation: 1, clock: Date }
    await dynamoRunLease({ ...lease, ttlMs: 60_000 }).acquire('other', new AbortController().signal)
    const called = await call('planner', planning, query)
    expect(called).toMatchObject(ending('answer {"kind":"done","reason":"busy","holder":"other"}'))
  })

  it.each([
    ['worker', { message, task: 0 }],
    ['committer', { message }],
  ])('B57: after a refusal by the %s', async (name, event) => {
    expect(await call(name, event, addressed('127.0.0.1:1'))).toMatchObject(ending('"errorType":"QUERY_NOT_IN_LOG"'))
  })
})

describe.concurrent('a secret of the environment', () => {
  const forms = [password, Buffer.from(`\0${user}\0${password}`).toString('base64'), 'secret-key-of-the-test']
  const login = {
    'kafka.security.protocol': 'SASL_PLAINTEXT',
    'kafka.sasl.mechanism': 'PLAIN',
    'kafka.sasl.jaas.config': jaas,
  }

  it.each([
    ['no broker answers', {}, 'KAFKA_UNREACHABLE'],
    ['the login cannot be parsed', { 'kafka.sasl.jaas.config': jaas.slice(0, -2) }, 'OPTION_INVALID'],
    ['the login is of another kind', { 'kafka.sasl.mechanism': 'SCRAM-SHA-256' }, 'OPTION_CONFLICT'],
  ])('is printed nowhere at debug level where %s', async (_name, options, condition) => {
    const servers = { 'kafka.bootstrap.servers': `127.0.0.1:${await freePort()}` }
    const called = await call('planner', planning, {
      name: `query-${randomUUID()}`,
      options: { ...quick, ...servers, ...login, ...options },
    })
    expect(called).toMatchObject(ending(`"errorType":"${condition}"`))
    expect(called.printed).toContain('step failed')
    for (const form of forms) expect(called.printed).not.toContain(form)
  })
})
