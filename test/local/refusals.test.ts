/** Bad input of a local run: one clear error with its remedy, exit code, no plan left behind, nothing half-written visible. */
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest'
import { logKeys } from '../../src/log.ts'
import { lockDirectory } from '../../src/local/directory-lock.ts'
import { removeDirectory, runLocally, temporaryDirectory, withLog } from '../support/local-run.ts'
import type { LocalRun } from '../support/local-run.ts'
import { freePort } from '../support/ports.ts'
import { openTopics, uniqueTopic } from '../support/topics.ts'
import type { Topics } from '../support/topics.ts'

const { bootstrap, saslPlaintext } = inject('kafka')
const signal = new AbortController().signal
let topics: Topics
let directory: string
let topic: string

beforeAll(async () => {
  topics = await openTopics(bootstrap)
  topic = await topics.create({ partitions: 1 })
  await topics.produce(
    topic,
    [0, 1, 2, 3].map((n) => ({ partition: 0, value: `v${n}` }))
  )
})
afterAll(() => topics.close())
beforeEach(async () => {
  directory = await temporaryDirectory()
})
afterEach(() => removeDirectory(directory))

const run = (options: Readonly<Record<string, string | number>>): Promise<LocalRun> =>
  runLocally({ directory, options: { 'kafka.bootstrap.servers': bootstrap, startingOffsets: 'earliest', ...options } })

const plans = (): Promise<number | null> => withLog(directory, 'query', (log) => log.newest('offsets', signal))

async function filesOfTable(): Promise<string[]> {
  const files = await readdir(join(directory, 'warehouse', 'table'), { recursive: true }).catch(() => [])
  return files.filter((file) => /\.(parquet|json)$/.test(file))
}

/** One line that names the condition and what the texts say; nothing planned, nothing written. */
async function expectRefusal(
  { code, stderr }: LocalRun,
  exit: number,
  condition: string,
  ...texts: string[]
): Promise<void> {
  expect(stderr).toMatch(new RegExp(`^sluice: ${condition}: `, 'm'))
  for (const text of texts) expect(stderr).toContain(text)
  expect(stderr).not.toContain('    at ') // no stack
  expect(code).toBe(exit)
  expect(await plans()).toBeNull()
  expect(await filesOfTable()).toEqual([])
}

describe('a run is refused', () => {
  it('for a topic that does not exist, which it does not create (B17)', async () => {
    const missing = uniqueTopic()
    const refused = await run({ subscribe: missing, 'fetchOffset.retryIntervalMs': 10 })
    await expectRefusal(refused, 1, 'TOPIC_NOT_FOUND', missing, 'Create it, or correct')
    expect(await topics.admin.listTopics()).not.toContain(missing)
  })

  it('for brokers that cannot be reached, named', async () => {
    const nobody = `127.0.0.1:${await freePort()}`
    const refused = await run({
      subscribe: topic,
      'kafka.bootstrap.servers': nobody,
      'fetchOffset.retryIntervalMs': 10,
    })
    await expectRefusal(refused, 1, 'KAFKA_UNREACHABLE', nobody, 'kafka.bootstrap.servers')
  })

  it('for a broker that accepts and stays silent, within its documented time', async () => {
    const mute = createServer(() => {}).listen(0, '127.0.0.1')
    await once(mute, 'listening')
    const address = `127.0.0.1:${(mute.address() as AddressInfo).port}`
    const refused = await run({
      subscribe: topic,
      'kafka.bootstrap.servers': address,
      'kafka.socket.connection.setup.timeout.ms': 300,
      'fetchOffset.numRetries': 1,
    })
    mute.close()
    await expectRefusal(refused, 1, 'KAFKA_UNREACHABLE', address)
  })

  it('for a wrong login, without the password', async () => {
    const refused = await run({
      subscribe: topic,
      'kafka.bootstrap.servers': saslPlaintext,
      'kafka.security.protocol': 'SASL_PLAINTEXT',
      'kafka.sasl.mechanism': 'PLAIN',
      'kafka.sasl.jaas.config':
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="wr0ng-p@ss";',
    })
    await expectRefusal(refused, 1, 'KAFKA_AUTHENTICATION_FAILED', saslPlaintext, 'PLAIN')
    expect(refused.stdout + refused.stderr).not.toContain('wr0ng')
  })

  it('for a folder that holds something else than a Delta table', async () => {
    await mkdir(join(directory, 'warehouse', 'table'), { recursive: true })
    await writeFile(join(directory, 'warehouse', 'table', 'notes.txt'), 'mine')
    await expectRefusal(await run({ subscribe: topic }), 1, 'NOT_A_DELTA_TABLE', 'table', 'Choose')
    expect(await readdir(join(directory, 'warehouse', 'table'))).toEqual(['notes.txt'])
  })

  it('for a start beyond the end, naming both (B07)', async () => {
    const refused = await run({ subscribe: topic, startingOffsets: `{"${topic}":{"0":50}}` })
    await expectRefusal(refused, 1, 'KAFKA_DATA_LOSS', 'from 50 to 4', `${topic}-0`)
  })

  it('for a start that misses a partition, naming it (B07)', async () => {
    const wide = await topics.create({ partitions: 3 })
    const refused = await run({ subscribe: wide, startingOffsets: `{"${wide}":{"0":0,"1":0}}` })
    await expectRefusal(
      refused,
      1,
      'KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED',
      `${wide}-2`,
      '-1 for latest, -2 for earliest'
    )
  })

  it('for an option that contradicts another or is unknown, before anything is made', async () => {
    const two = await run({ subscribe: topic, assign: `{"${topic}":[0]}` })
    expect([two.code, two.stderr]).toEqual([2, expect.stringMatching(/^sluice: OPTION_CONFLICT: .*subscribe.*assign/)])
    const unknown = await run({ subscribe: topic, maxOffsetPerTriger: 5 })
    expect([unknown.code, unknown.stderr]).toEqual([
      2,
      expect.stringMatching(/^sluice: OPTION_UNKNOWN: .*maxOffsetsPerTrigger/),
    ])
    expect(await readdir(directory)).toEqual([])
  })

  it('while another process works in the directory, with exit code 75', async () => {
    const lock = await lockDirectory(join(directory, 'state'))
    const refused = await run({ subscribe: topic })
    await lock.release()
    expect(refused).toMatchObject({
      code: 75,
      stderr: expect.stringMatching(/^sluice: DIRECTORY_IN_USE: .*Stop that run/),
    })
  })
})

describe('a run on a directory that has a past is refused', () => {
  it('for a table of another schema, before any file is written', async () => {
    expect(await run({ subscribe: topic })).toMatchObject({ code: 0 })
    const before = await filesOfTable()
    const other = await runLocally({
      directory,
      name: 'other',
      options: {
        'kafka.bootstrap.servers': bootstrap,
        subscribe: topic,
        startingOffsets: 'earliest',
        includeHeaders: true,
      },
    })
    expect(other).toMatchObject({ code: 1, stderr: expect.stringMatching(/^sluice: TABLE_SCHEMA_MISMATCH: .*headers/) })
    expect(await filesOfTable()).toEqual(before)
    expect(await withLog(directory, 'other', (log) => log.newest('offsets', signal))).toBeNull()
  })

  it('for a log entry from the future, by its version (K16)', async () => {
    expect(await run({ subscribe: topic })).toMatchObject({ code: 0 })
    await withLog(directory, 'query', (log) => log.add(logKeys.offsets(1), '{"v":99999}', signal))
    expect(await run({ subscribe: topic })).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^sluice: UNSUPPORTED_LOG_VERSION: offsets\/1 has version v99999, .*v1\b.*deploy/),
    })
  })

  it('for a hole in the log, naming the batch (B37)', async () => {
    expect(await run({ subscribe: topic, maxOffsetsPerTrigger: 2 })).toMatchObject({ code: 0 })
    await withLog(directory, 'query', (log) => log.remove(logKeys.offsets(0), signal))
    expect(await run({ subscribe: topic })).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^sluice: LOG_ENTRY_MISSING: batch 0 doesn't exist/),
    })
  })
})
