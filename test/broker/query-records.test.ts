/** What a record is in the end: its bytes, nulls, headers, numbers. Through a query, read back by delta-rs, pyarrow and DuckDB. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest'
import { runReport } from '../../src/cli/run-report.ts'
import { logKeys } from '../../src/log.ts'
import type { BatchContext } from '../../src/context.ts'
import { offsetsOf } from '../../src/offsets.ts'
import type { RecordBatch } from '../../src/ports.ts'
import { readersPython } from '../support/delta-reader.ts'
import { openDeltaSession } from '../support/delta-session.ts'
import { readTopic } from '../support/kafka-reader.ts'
import { removeDirectory, runLocally, temporaryDirectory, withLog } from '../support/local-run.ts'
import { minimal, parse } from '../support/source-options.ts'
import { startProducerTool, type ProducerTool, type RecordToSend } from '../support/producer.ts'
import { numbered, openQuery, positionsIn, type Options, type OpenQuery } from '../support/query-run.ts'
import { openTopics, type Topics } from '../support/topics.ts'

const { bootstrap } = inject('kafka')
const { signal } = new AbortController()
const tables = openDeltaSession()
let topics: Topics
let tool: ProducerTool
beforeAll(async () => {
  tool = startProducerTool(bootstrap)
  topics = await openTopics(bootstrap)
})
afterAll(async () => {
  await topics.close()
  await tool.stop()
  await tables.close()
})

const over = (topic: string, options: Options = {}): Promise<OpenQuery> =>
  openQuery({ options: { 'kafka.bootstrap.servers': bootstrap, subscribe: topic, ...options }, tables })

const base64 = (text: string): string => Buffer.from(text).toString('base64')

type Rows = readonly Readonly<Record<string, unknown>>[]

/** The rows of the query's only data file, by pyarrow and by DuckDB. */
async function parquetOf(query: OpenQuery, ...columns: string[]): Promise<{ pyarrow: Rows; duckdb: Rows }> {
  const files = await query.dataFiles()
  expect(files).toHaveLength(1)
  const script = join(import.meta.dirname, '../support/read_parquet.py')
  const { stdout } = await promisify(execFile)(readersPython, [
    script,
    join(query.table, files[0] ?? ''),
    columns.join(),
  ])
  const [pyarrow = '', duckdb = ''] = stdout.split('\n')
  return { pyarrow: JSON.parse(pyarrow), duckdb: JSON.parse(duckdb) }
}

describe('null, empty and bytes', () => {
  const records: readonly RecordToSend[] = [
    { key: 'k', value: 'v', headers: [['a', '1'], ['b', '2'], ['a', '3'], ['10', 'x'], ['2', 'y']] }, // prettier-ignore
    { key: 'k', value: 'v', headers: [['n', null], ['e', '']] }, // prettier-ignore
    { key: 'k', value: null },
    { key: '', value: '' },
    { key: null, value: 'v' },
    { key: 'k', value: Buffer.from([0, 255]) },
  ]
  const expected = [
    { key: 'aw==', value: 'dg==' },
    { key: 'aw==', value: 'dg==' },
    { key: 'aw==', value: null },
    { key: '', value: '' },
    { key: null, value: 'dg==' },
    { key: 'aw==', value: 'AP8=' },
  ]
  const headers = [
    [
      { key: 'a', value: base64('1') },
      { key: 'b', value: base64('2') },
      { key: 'a', value: base64('3') },
      { key: '10', value: base64('x') },
      { key: '2', value: base64('y') },
    ],
    [
      { key: 'n', value: null },
      { key: 'e', value: '' },
    ],
    null,
    null,
    null,
    null,
  ]

  test.each([true, false])('B31: stay three things, headers keep order and repeats (headers: %s)', async (included) => {
    const topic = await topics.create()
    const producer = await tool.open()
    await producer.send(topic, records)
    await producer.close()
    await using query = await over(topic, { includeHeaders: included })
    await query.run()
    const rows = expected.map((row, i) => (included ? { ...row, headers: headers[i] } : row))
    const columns = included ? ['key', 'value', 'headers'] : ['key', 'value']
    const { rows: inDelta, schema } = await query.read()
    const fields = ['key', 'value', 'topic', 'partition', 'offset', 'timestamp', 'timestampType']
    expect(schema.fields.map(({ name }) => name)).toEqual(included ? [...fields, 'headers'] : fields)
    expect(inDelta).toMatchObject(rows)
    expect(await parquetOf(query, ...columns)).toEqual({ pyarrow: rows, duckdb: rows })
  })

  test('K26: of one transaction, null key, null value and both come out as nulls', async () => {
    const topic = await topics.create()
    const producer = await tool.open({ 'transactional.id': topic })
    await producer.begin()
    await producer.send(topic, [
      { key: null, value: null },
      { key: null, value: 'value' },
      { key: 'key', value: null },
      { key: 'key', value: 'value' },
    ])
    await producer.commit()
    await producer.close()
    await using query = await over(topic, { 'kafka.isolation.level': 'read_committed' })
    expect(await query.run()).toMatchObject([{ ranges: ['0 [0, 5)'], rows: 4 }])
    expect((await query.read({ columns: ['key', 'value'] })).rows).toEqual([
      { key: null, value: null },
      { key: null, value: base64('value') },
      { key: base64('key'), value: null },
      { key: base64('key'), value: base64('value') },
    ])
  })

  test('K61: the columns of a record with headers', async () => {
    const topic = await topics.create()
    const before = Date.now() * 1000
    const producer = await tool.open()
    await producer.send(topic, [{ value: 'v', headers: [['a', 'b'], ['c', 'd']] }]) // prettier-ignore
    await producer.close()
    await using query = await over(topic, { includeHeaders: true })
    await query.run()
    const { rows } = await query.read()
    expect(rows).toEqual([
      {
        key: null,
        value: base64('v'),
        topic,
        partition: 0,
        offset: '0',
        timestamp: expect.stringMatching(/^\d{16}$/),
        timestampType: 0,
        headers: [
          { key: 'a', value: base64('b') },
          { key: 'c', value: base64('d') },
        ],
      },
    ])
    expect(Number(rows[0]?.['timestamp'])).toBeGreaterThanOrEqual(before)
  })
})

describe('a timestamp', () => {
  test('K28: that does not fit into microseconds fails the batch, naming topic and value', async () => {
    const topic = await topics.create({ config: { 'message.timestamp.after.max.ms': '9223372036854775807' } })
    const nanoseconds = 1_790_899_200_123_456_789n
    const producer = await tool.open()
    await producer.send(topic, [{ value: 'good' }, { value: 'nanoseconds', timestamp: nanoseconds }])
    await producer.close()
    await using query = await over(topic)
    await expect(query.run()).rejects.toMatchObject({
      name: 'KAFKA_MALFORMED_RECORD_TIMESTAMP',
      parameters: { topic, partition: 0, offset: '1', timestamp: String(nanoseconds) },
    })
    expect(query.batches()).toMatchObject([{ commit: null }])
    await expect(query.read()).rejects.toThrow('TableNotFound')
  })
})

describe('a codec', () => {
  test('B28: all four in one topic, one batch each', async () => {
    const topic = await topics.create()
    for (const [i, codec] of ['gzip', 'snappy', 'lz4', 'zstd'].entries()) {
      const producer = await tool.open({ 'compression.type': codec, 'linger.ms': 100 })
      await producer.send(topic, numbered(10, { first: i * 10 }))
      await producer.close()
    }
    await using query = await over(topic)
    expect(await query.run()).toMatchObject([{ rows: 40 }])
    expect(await query.values()).toEqual(numbered(40).map(({ value }) => value))
  })

  test('B28: that the broker chose, not the producer', async () => {
    const topic = await topics.create({ config: { 'compression.type': 'lz4' } })
    await topics.produce(topic, numbered(10))
    await using query = await over(topic)
    await query.run()
    expect(await query.values()).toEqual(numbered(10).map(({ value }) => value))
  })
})

describe('a large record', () => {
  const small = { 'kafka.max.partition.fetch.bytes': 1024 }

  test('B32: is delivered between small ones though it exceeds the fetch size', async () => {
    const topic = await topics.create()
    const large = 'x'.repeat(900_000)
    for (const value of ['0123456789', large, '9876543210']) await topics.produce(topic, [{ value }])
    await using query = await over(topic, small)
    await query.run()
    expect(await query.values()).toEqual(['0123456789', large, '9876543210'])
  })

  test('B32: fifty of them pass through a process with a small heap', async () => {
    const topic = await topics.create()
    const producer = await tool.open()
    await producer.fill(topic, { count: 50, valueSize: 900_000 })
    await producer.close()
    const directory = await temporaryDirectory()
    const env = { NODE_OPTIONS: '--max-old-space-size=40' }
    const options = { 'kafka.bootstrap.servers': bootstrap, subscribe: topic, startingOffsets: 'earliest', ...small }
    const run = await runLocally({ directory, options, env })
    const { rows } = await tables.read(join(directory, 'warehouse', 'table'), { columns: ['offset', 'key'] })
    await removeDirectory(directory)
    expect(run).toMatchObject({ code: 0, stderr: '' })
    const inKafka = (await readTopic(bootstrap, topic)).map(({ offset, key }) => ({
      offset: String(offset),
      key: key?.toString('base64'),
    }))
    expect(inKafka).toHaveLength(50)
    expect(rows).toEqual(inKafka)
  })
})

describe('B41: numbers above 2^53', () => {
  const first = 9_007_199_254_740_993n
  const last = first + 4n
  const timestamp = 1_790_899_200_123n

  /** Stands for a partition that no test can fill: everything but Kafka is real. */
  const farAhead = (context: BatchContext): BatchContext => {
    const partition = { topic: 'far', partition: 0 }
    const records = (from: bigint, until: bigint): RecordBatch => ({
      ...partition,
      length: Number(until - from),
      timestampType: 0,
      offset: (i) => from + BigInt(i),
      timestamp: () => timestamp,
      key: () => null,
      value: (i) => Buffer.from(String(from + BigInt(i))),
      headers: () => null,
    })
    return {
      ...context,
      offsets: {
        ...context.offsets,
        assigned: async () => ({ partitions: [partition], topicIds: new Map() }),
        topicIds: async () => new Map(),
        earliest: async () => offsetsOf([{ ...partition, offset: first }]),
        latest: async () => offsetsOf([{ ...partition, offset: last }]),
        close: async () => {},
      },
      ranges: {
        async *read({ from, until }) {
          yield records(from, until)
          return { highWatermark: last, dataLoss: [] }
        },
        close: async () => {},
      },
    }
  }

  test('keep their digits in each entry of the log, in progress, in JSON lines, Parquet and Delta', async () => {
    await using query = await over('far', { maxOffsetsPerTrigger: '9223372036854775807', minPartitions: 1 })
    const [batch] = await query.run({ change: farAhead })
    expect(batch?.ranges).toEqual([`0 [${first}, ${last})`])
    const texts = await withLog(query.directory, 'query', async (log) => [
      await log.get(logKeys.source, signal),
      ...(await log.list('runs', signal)).map(({ entry }) => entry),
      await log.get(logKeys.offsets(0), signal),
      ...(await log.list('reports/0', signal)).map(({ entry }) => entry),
      await log.get(logKeys.commits(0), signal),
    ])
    const position = (offset: bigint): string => `{"far":{"0":${offset}}}`
    expect(texts).toEqual([
      expect.stringContaining(position(first)),
      expect.stringContaining(position(last)),
      expect.stringContaining(`[[0,0,${first},${last}]]`),
      expect.stringContaining(`"from":${first},"until":${last}`),
      expect.stringContaining(`"endOffset":${position(last)}`),
    ])
    expect(printedAsJson(query)).toContain(`"endOffset":${position(last)}`)
    const rows = [0n, 1n, 2n, 3n].map((i) => ({ offset: String(first + i), timestamp: `${timestamp}000` }))
    expect(await parquetOf(query, 'offset', 'timestamp')).toEqual({ pyarrow: rows, duckdb: rows })
    expect((await query.read({ columns: ['offset', 'timestamp'] })).rows).toEqual(rows)
    expect((await query.actions(0)).find((a) => a['commitInfo'])).toMatchObject({
      commitInfo: { operationParameters: { endOffsets: position(last) } },
    })
  })

  /** The last run's events as `--json` shows them. */
  function printedAsJson(query: OpenQuery): string {
    const lines: string[] = []
    const write = vi.spyOn(process.stdout, 'write').mockImplementation((text) => lines.push(String(text)) > 0)
    try {
      const report = runReport({ json: true, queryName: 'query', options: parse(minimal) })
      query.events().forEach(report.event)
    } finally {
      write.mockRestore()
    }
    return lines.join('')
  }

  test('on the command line: a start that is no offset of the topic is named in its digits', async () => {
    const topic = await topics.create()
    await topics.produce(topic, numbered(10))
    const directory = await temporaryDirectory()
    const options = { 'kafka.bootstrap.servers': bootstrap, subscribe: topic }
    const startingOffsets = `{"${topic}":{"0":${first}}}`
    const run = await runLocally({ directory, options: { ...options, startingOffsets }, flags: ['--json'] })
    await removeDirectory(directory)
    expect(run).toMatchObject({ code: 1, stderr: expect.stringContaining(`${first}`) })
    expect(run.stdout).toMatch(new RegExp(`"event":"failed".*${first}`))
  })

  test('a cap of 2^63-1 from 5 to 10 ends at 10', async () => {
    const topic = await topics.create()
    await topics.produce(topic, numbered(10))
    const startingOffsets = `{"${topic}":{"0":5}}`
    await using query = await over(topic, { startingOffsets, maxOffsetsPerTrigger: '9223372036854775807' })
    expect(await query.run()).toMatchObject([{ ranges: ['0 [5, 10)'] }])
    expect(await query.positions()).toEqual(positionsIn(0, 5, 10))
  })
})
