/** `sluice read` as a process: counts against the Java consumer's, every output, and how it ends. */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import kafkajs from 'kafkajs'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { boundedRun } from '../support/bounded-run.ts'
import { runCli, startCli } from '../support/cli-process.ts'
import { readersPython } from '../support/delta-reader.ts'
import { readTopicByJava, type Isolation, type KafkaRecordWithHeaders } from '../support/kafka-reader.ts'
import { startProducerTool, type ProducerTool } from '../support/producer.ts'
import { compactedQuickly, openTopics, waitUntil, type Topics } from '../support/topics.ts'

const { bootstrap } = inject('kafka')
let topics: Topics
let tool: ProducerTool
let directory: string
beforeAll(async () => {
  tool = startProducerTool(bootstrap)
  topics = await openTopics(bootstrap)
  directory = await mkdtemp(join(tmpdir(), 'sluice-read-'))
})
afterAll(async () => {
  await topics.close()
  await tool.stop()
  await rm(directory, { recursive: true, force: true })
})

const read = (...args: string[]) => runCli(['read', '--bootstrap-server', bootstrap, ...args], directory)
const option = (name: string, value: string | number): string[] => ['--option', `${name}=${value}`]

describe('counts', () => {
  /** Committed, aborted and open transactions, side by side with records outside of any, over two partitions. */
  async function transactionalTopic(): Promise<string> {
    const topic = await topics.create({ partitions: 2 })
    const [plain, a, b] = [
      await tool.open(),
      await tool.open({ 'transactional.id': `${topic}-a` }),
      await tool.open({ 'transactional.id': `${topic}-b` }),
    ]
    const records = (n: number) => Array.from({ length: n }, (_, i) => ({ partition: i % 2, value: `${i}` }))
    await plain.send(topic, records(5))
    await a.begin()
    await b.begin()
    await a.send(topic, records(7))
    await b.send(topic, records(6))
    await plain.send(topic, records(3))
    await b.abort()
    await a.commit()
    await plain.send(topic, records(4))
    await b.begin()
    await b.send(topic, records(8))
    await plain.send(topic, records(2))
    return topic // and b stays open
  }

  async function compactedTopic(): Promise<string> {
    const topic = await topics.create({ config: compactedQuickly })
    const producer = await tool.open()
    for (let n = 0; n < 10; n++)
      await producer.send(
        topic,
        Array.from({ length: 10 }, (_, i) => ({ key: `k${i}`, value: `${n}` }))
      )
    const options = { 'kafka.bootstrap.servers': bootstrap, subscribe: topic }
    const count = () => boundedRun(options, async (run) => (await run.positions()).length)
    await waitUntil('most records are compacted away', async () => {
      await producer.send(topic, [{ key: 'roll', value: 'x' }])
      return (await count()) < 60
    })
    await producer.close()
    // No more compaction, so that two readers see one log.
    await topics.admin.alterConfigs({
      validateOnly: false,
      resources: [
        {
          type: kafkajs.ConfigResourceTypes.TOPIC,
          name: topic,
          configEntries: [{ name: 'cleanup.policy', value: 'delete' }],
        },
      ],
    })
    let before = -1
    await waitUntil('compaction stands still', async () => before === (before = await count()))
    return topic
  }

  async function headlessTopic(): Promise<string> {
    const topic = await topics.create({ partitions: 2 })
    await topics.produce(
      topic,
      Array.from({ length: 30 }, (_, i) => ({ partition: i % 2, value: `${i}` }))
    )
    await tool.deleteRecords(topic, { 0: 4, 1: 11 })
    return topic
  }

  /** What `--count` prints for these records. */
  function expected(partitions: readonly string[], records: readonly KafkaRecordWithHeaders[]): string {
    const counts = partitions.map((name) => [name, records.filter((r) => `${r.topic}-${r.partition}` === name).length])
    return [...counts, ['total', records.length]].map(([name, n]) => `${name}\t${n}\n`).join('')
  }

  let names: readonly [string, string, string]
  const seen = new Map<Isolation, readonly KafkaRecordWithHeaders[]>()
  beforeAll(async () => {
    names = await Promise.all([transactionalTopic(), compactedTopic(), headlessTopic()])
    const [transactional, ...others] = names
    const plain = (await Promise.all(others.map((topic) => readTopicByJava(bootstrap, topic)))).flat()
    for (const isolation of ['read_committed', 'read_uncommitted'] as const)
      seen.set(isolation, [...(await readTopicByJava(bootstrap, transactional, isolation)), ...plain])
  }, 60_000)

  describe.each(['read_committed', 'read_uncommitted'] as const)(
    'under %s are those of the Java consumer',
    (isolation) => {
      const partitions = () =>
        [`${names[0]}-0`, `${names[0]}-1`, `${names[1]}-0`, `${names[2]}-0`, `${names[2]}-1`].toSorted()

      test('from earliest to latest, with transactions, compaction and deleted heads', async () => {
        const counted = await read(
          ...option('subscribe', names.join()),
          ...option('kafka.isolation.level', isolation),
          '--count'
        )
        expect(counted).toEqual({ code: 0, stderr: '', stdout: expected(partitions(), seen.get(isolation) ?? []) })
      })

      test('between offsets', async () => {
        const [transactional, compacted, headless] = names
        const range = {
          [transactional]: { 0: [3, 9], 1: [1, 10] },
          [compacted]: { 0: [40, 97] },
          [headless]: { 0: [4, 15], 1: [13, 14] },
        }
        const side = (of: 0 | 1): string =>
          JSON.stringify(
            Object.fromEntries(
              Object.entries(range).map(([topic, by]) => [
                topic,
                Object.fromEntries(Object.entries(by).map(([p, ends]) => [p, ends[of]])),
              ])
            )
          )
        const inRange = (seen.get(isolation) ?? []).filter(({ topic, partition, offset }) => {
          const [from = 0, until = 0] = (range[topic] as Record<number, number[]>)[partition] ?? []
          return offset >= from && offset < until
        })
        const counted = await read(
          ...option('subscribe', names.join()),
          ...option('kafka.isolation.level', isolation),
          ...option('startingOffsets', side(0)),
          ...option('endingOffsets', side(1)),
          ...option('minPartitions', 9),
          '--output',
          'count'
        )
        expect(counted).toEqual({ code: 0, stderr: '', stdout: expected(partitions(), inRange) })
        expect(inRange.length).toBeGreaterThan(20)
      })
    }
  )
})

describe('outputs', () => {
  let topic: string
  beforeAll(async () => {
    topic = await topics.create({ partitions: 1 })
    const producer = await tool.open()
    await producer.send(topic, [
      {
        partition: 0,
        timestamp: 1000,
        key: 'k',
        value: 'text, "quoted"\n',
        headers: [
          ['h', 'x'],
          ['h', Buffer.from([255])],
        ],
      },
      { partition: 0, timestamp: 2000, key: null, value: '' },
      { partition: 0, timestamp: 3000, key: Buffer.from([0xc3, 0x28]), value: null },
    ])
    await producer.close()
  })
  const place = (offset: number) => ({ topic, partition: 0, offset, timestamp: 1000 * (offset + 1), timestampType: 0 })

  test('JSON lines by default: text where it is UTF-8, else base64 under a name that says so', async () => {
    const { code, stdout, stderr } = await read('--topic', topic, ...option('includeHeaders', 'true'))
    expect([code, stderr]).toEqual([0, ''])
    expect(
      stdout
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as unknown)
    ).toEqual([
      {
        key: 'k',
        value: 'text, "quoted"\n',
        ...place(0),
        headers: [
          { key: 'h', value: 'x' },
          { key: 'h', valueBase64: '/w==' },
        ],
      },
      { key: null, value: '', ...place(1), headers: null },
      { keyBase64: 'wyg=', value: null, ...place(2), headers: null },
    ])
    expect(await readdir(directory)).toEqual([]) // it needs no directory
  })

  test('CSV into a new file, and not over one that is there', async () => {
    const file = join(directory, 'out.csv')
    const csv = ['-t', topic, '--output', 'csv', '--file', file]
    expect(await read(...csv)).toEqual({ code: 0, stdout: '', stderr: '' })
    const text = [
      'key,keyBase64,value,valueBase64,topic,partition,offset,timestamp,timestampType',
      `k,,"text, ""quoted""\n",,${topic},0,0,1000,0`,
      `,,"",,${topic},0,1,2000,0`,
      `,wyg=,,,${topic},0,2,3000,0`,
      '',
    ].join('\n')
    expect(await readFile(file, 'utf8')).toBe(text)
    expect(await read(...csv)).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^sluice: OPTION_INVALID: Option '--file': .*out\.csv exists/),
    })
    expect(await readFile(file, 'utf8')).toBe(text)
    await rm(file)
  })

  test('Parquet that pyarrow reads, also without a row', async () => {
    const [full, empty] = [join(directory, 'full.parquet'), join(directory, 'empty.parquet')]
    const parquet = ['-t', topic, '--output', 'parquet', '--file']
    expect(await read(...parquet, full)).toEqual({ code: 0, stdout: '', stderr: '' })
    const none = option('endingOffsets', `{"${topic}":{"0":0}}`)
    expect(await read(...parquet, empty, ...none, ...option('includeHeaders', 'true'))).toMatchObject({ code: 0 })
    const script = `
import json, sys, pyarrow.parquet as p
for f in sys.argv[1:]:
  t = p.read_table(f)
  print(json.dumps([t.schema.names, [[str(v) for v in r.values()] for r in t.to_pylist()]]))`
    const { stdout } = await promisify(execFile)(readersPython, ['-c', script, full, empty])
    const [rows, noRows] = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown)
    const columns = ['key', 'value', 'topic', 'partition', 'offset', 'timestamp', 'timestampType']
    expect(noRows).toEqual([[...columns, 'headers'], []])
    expect(rows).toEqual([
      columns,
      [
        ["b'k'", `b'text, "quoted"\\n'`, topic, '0', '0', '1970-01-01 00:00:01+00:00', '0'],
        ['None', "b''", topic, '0', '1', '1970-01-01 00:00:02+00:00', '0'],
        ["b'\\xc3('", 'None', topic, '0', '2', '1970-01-01 00:00:03+00:00', '0'],
      ],
    ])
  })

  test('a file that cannot be made fails before a record is read', async () => {
    const closed = join(directory, 'not-a-folder')
    await writeFile(closed, '')
    await chmod(closed, 0o400)
    expect(await read('-t', topic, '--output', 'csv', '--file', join(closed, 'x.csv'))).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/^sluice: OBJECT_STORE_REFUSED: /),
    })
  })
})

describe('a read is refused', () => {
  test('without brokers, or with an option that is none, with exit code 2', async () => {
    expect(await runCli(['read', '-t', 't'])).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining("'kafka.bootstrap.servers': must be specified"),
    })
    expect(await read('--option', 'nonsense')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('write name=value'),
    })
  })

  test('for a topic that does not exist, with exit code 1', async () => {
    expect(await read('-t', 'no-such-topic', ...option('fetchOffset.numRetries', 1))).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^sluice: TOPIC_NOT_FOUND: /),
    })
  })
})

describe('a read ends', () => {
  let topic: string
  beforeAll(async () => {
    topic = await topics.create({ partitions: 2 })
    const producer = await tool.open()
    for (const partition of [0, 1]) await producer.fill(topic, { partition, count: 20_000, valueSize: 200 })
    await producer.close()
  })

  test('quietly when whoever reads its output goes away', async () => {
    const child = startCli(['read', '-b', bootstrap, '-t', topic], directory)
    let stderr = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
    await once(child.stdout, 'data')
    child.stdout.destroy()
    expect(await once(child, 'exit')).toEqual([0, null])
    expect(stderr).toBe('')
  })

  test('with 130 on Ctrl-C, and leaves no file', async () => {
    // One batch a fetch, so that it takes its time.
    const slowly = ['read', '-b', bootstrap, '-t', topic, ...option('kafka.max.partition.fetch.bytes', 1)]
    const child = startCli(slowly, directory)
    await once(child.stdout, 'data')
    child.stdout.pause()
    child.kill('SIGINT')
    child.stdout.resume()
    expect(await once(child, 'exit')).toEqual([130, null])
    const before = (await readdir(directory)).length
    const writing = startCli([...slowly, '--output', 'csv', '--file', join(directory, 'cut.csv')], directory)
    await waitUntil('the file has begun', async () => (await readdir(directory)).length > before)
    writing.kill('SIGINT')
    expect(await once(writing, 'exit')).toEqual([130, null])
    expect(await readdir(directory)).toHaveLength(before)
  })

  test('with a warning for each loss that is tolerated', async () => {
    const headless = await topics.create({ partitions: 1 })
    await topics.produce(
      headless,
      Array.from({ length: 9 }, (_, i) => ({ partition: 0, value: `${i}` }))
    )
    await tool.deleteRecords(headless, { 0: 4 })
    const loss = [...option('startingOffsets', `{"${headless}":{"0":0}}`), '--count']
    expect(await read('-t', headless, ...loss, ...option('failOnDataLoss', 'false'))).toEqual({
      code: 0,
      stdout: `${headless}-0\t5\ntotal\t5\n`,
      stderr: `warning: data loss: ${headless}-0: offsets [0, 4) cannot be read any more (COULD_NOT_READ_OFFSET_RANGE)\n`,
    })
    expect(await read('-t', headless, ...loss)).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/^sluice: KAFKA_DATA_LOSS: /),
    })
  })
})
