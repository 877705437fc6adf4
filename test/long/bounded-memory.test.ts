/** A range of any length passes through a small heap: what a process takes does not grow with what it reads. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { removeDirectory, temporaryDirectory } from '../support/local-run.ts'
import { startProducerTool, type ProducerTool } from '../support/producer.ts'
import { openTopics, type Topics } from '../support/topics.ts'

const { bootstrap } = inject('kafka')

let topics: Topics
let producers: ProducerTool
beforeAll(async () => {
  topics = await openTopics(bootstrap)
  producers = startProducerTool(bootstrap)
})
afterAll(async () => {
  await producers.stop()
  await topics.close()
})

const pathOf = (file: string): string => new URL(`../../${file}`, import.meta.url).pathname

/** A topic of one partition. */
async function topicOf(count: number, valueSize: number, compression: string): Promise<string> {
  const topic = await topics.create({ prefix: 'memory' })
  const producer = await producers.open({ 'compression.type': compression, 'max.request.size': 2 ** 20 })
  await producer.fill(topic, { partition: 0, count, valueSize })
  await producer.close()
  return topic
}

/** Lands the topic in a table by the command line, in a heap of 64 MB; answers the process's peak in MB. */
async function peakOf(topic: string): Promise<number> {
  const directory = await temporaryDirectory()
  try {
    const options = { 'kafka.bootstrap.servers': bootstrap, subscribe: topic, startingOffsets: 'earliest' }
    const query = JSON.stringify({ name: 'memory', table: 'table', options })
    const run = ['run', pathOf('test/support/queries/from-env.ts'), '--local', directory]
    const flags = ['--max-old-space-size=64', '--import', pathOf('test/support/say-memory.mjs')]
    const child = spawn(process.execPath, [...flags, pathOf('src/cli.mjs'), ...run], {
      env: { ...process.env, SLUICE_TEST_QUERY: query },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, 'close')])
    const peak = Number(/peak memory (\d+) MB/.exec(stderr)?.[1])
    expect({ code, peak }).toEqual({ code: 0, peak: expect.any(Number) })
    return peak
  } finally {
    await removeDirectory(directory)
  }
}

describe('one range through a heap of 64 MB', () => {
  test.for<[string, number, number, string]>([
    ['200 MB of records of 1 KB', 200_000, 1024, 'none'],
    ['200 MB of records of 1 KB, compressed', 200_000, 1024, 'zstd'],
    ['200 MB of records of 900 KB', 228, 900_000, 'none'],
  ])('%s', { timeout: 300_000 }, async ([, count, valueSize, compression]) => {
    const [few, many] = [
      await topicOf(Math.ceil(count / 100), valueSize, compression),
      await topicOf(count, valueSize, compression),
    ]
    const [base, peak] = [await peakOf(few), await peakOf(many)]
    expect(peak - base).toBeLessThan(100)
  })
})
