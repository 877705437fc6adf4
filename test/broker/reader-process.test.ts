/** A process that used the readers ends by itself, without a warning, however the reading ended. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { ownListener, startTcpProxy } from '../support/tcp-proxy.ts'
import { openTopics, uniqueTopic, type Topics } from '../support/topics.ts'

const { bootstrap, saslPlaintext, proxied } = inject('kafka')

let topics: Topics
let topic: string
beforeAll(async () => {
  topics = await openTopics(bootstrap)
  topic = await topics.create()
  await topics.produce(
    topic,
    Array.from({ length: 10 }, (_, i) => ({ value: `${i}` }))
  )
})
afterAll(() => topics.close())

const tenRows = Array.from({ length: 10 }, (_, i) => `row ${i}`)

interface Task {
  readonly kafka: Readonly<Record<string, string>>
  readonly topic: string
  readonly until: number
}

/** Runs the process to its end. Anything on stderr, so any warning of Node's, makes it fail. */
async function run(task: Task, onLine: (line: string) => void = () => {}): Promise<string[]> {
  const script = new URL('../support/read-and-end.ts', import.meta.url).pathname
  const child = spawn(process.execPath, ['--trace-warnings', script, JSON.stringify(task)], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const lines: string[] = []
  createInterface({ input: child.stdout }).on('line', (line) => {
    lines.push(line)
    onLine(line)
  })
  const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, 'close')])
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  return lines
}

describe.concurrent('the process ends by itself, B57', () => {
  test('after its rows', async () => {
    expect(await run({ kafka: { 'bootstrap.servers': bootstrap }, topic, until: 10 })).toEqual([...tenRows, 'closed'])
  })

  test('after a wrong topic', async () => {
    const task = { kafka: { 'bootstrap.servers': bootstrap }, topic: uniqueTopic('missing'), until: 10 }
    expect(await run(task)).toEqual(['TOPIC_NOT_FOUND', 'closed'])
  })

  test('after a refused login', async () => {
    const kafka = {
      'bootstrap.servers': saslPlaintext,
      'security.protocol': 'SASL_PLAINTEXT',
      'sasl.mechanism': 'SCRAM-SHA-512',
      'sasl.jaas.config': 'ScramLoginModule required username="alice" password="wrong";',
    }
    expect(await run({ kafka, topic, until: 10 })).toEqual(['KAFKA_AUTHENTICATION_FAILED', 'closed'])
  })

  test('after the broker went away in the middle of the read and stayed away', { timeout: 60_000 }, async () => {
    const proxy = await startTcpProxy(ownListener(proxied))
    const onLine = (line: string): void => {
      if (line === 'row 9') void proxy.close()
    }
    const lines = await run({ kafka: { 'bootstrap.servers': proxy.bootstrap }, topic, until: 20 }, onLine)
    expect(lines).toEqual([...tenRows, 'KAFKA_UNREACHABLE', 'closed'])
  })
})
