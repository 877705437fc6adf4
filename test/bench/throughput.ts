/** What is measured: each figure is one whole process over a topic of the benchmark. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { processCost } from './process-cost.ts'
import type { ProcessCost } from './process-cost.ts'
import type { BenchTopic, benchTopics } from './topics.ts'

export interface Figure {
  readonly name: string
  /** The topic's, or that of a batch. */
  readonly records: number
  run(): Promise<ProcessCost>
}

export interface Places {
  readonly bootstrap: string
  readonly dynamodb: string
  readonly bundles: ReadonlyMap<string, string>
  readonly hasKcat: boolean
}

type Topics = ReturnType<typeof benchTopics>

export function figures(places: Places, topics: Topics): Figure[] {
  const { plain100, zstd100, plain1k, zstd1k, orders, small1, small24, small200 } = topics
  const all = [plain100, zstd100, plain1k, zstd1k]
  const tenth = `maxOffsetsPerTrigger=${Math.ceil(plain1k.records / 10)}`
  return [
    ...all.map((topic) => child(places, 'read', topic, 'raw read')),
    ...(places.hasKcat ? all.map((topic) => kcat(places, topic)) : []),
    ...[plain100, plain1k].map((topic) =>
      child(places, 'kafkajs', topic, 'kafkajs eachBatch', [String(topic.records)])
    ),
    ...[plain100, plain1k, orders].map((topic) => child(places, 'floor', topic, 'floor')),
    ...all.map((topic) => query(places, topic, 'bronze')),
    query(places, orders, 'bronze'),
    query(places, orders, 'typed'),
    query(places, plain1k, 'bronze', { what: 'bronze, 4 tasks at a time', tasks: 4 }),
    query(places, plain1k, 'bronze', {
      what: 'bronze, 4 tasks at a time, capped to a tenth',
      tasks: 4,
      options: [tenth],
    }),
    query(places, small1, 'bronze', { what: 'bronze, 50 batches of 10', options: ['maxOffsetsPerTrigger=10'] }),
    query(places, small24, 'bronze', { what: 'bronze, 10 batches of 24 x 10', options: ['maxOffsetsPerTrigger=240'] }),
    query(places, small200, 'bronze', {
      what: 'bronze, 5 batches of 200 x 10',
      options: ['maxOffsetsPerTrigger=2000'],
    }),
  ]
}

export const nameOf = (what: string, topic: BenchTopic): string => `${topic.name}: ${what}`

/** @throws Error where the process did not read all records */
async function checked(cost: ProcessCost, records: number, seen: number): Promise<ProcessCost> {
  if (seen < records) throw new Error(`${seen} of ${records} records were read`)
  return cost
}

function child(places: Places, file: string, topic: BenchTopic, what: string, more: readonly string[] = []): Figure {
  const { records } = topic
  const command = [process.execPath, places.bundles.get(file) ?? '', places.bootstrap, topic.name, ...more]
  return {
    name: nameOf(what, topic),
    records,
    run: async () => {
      const cost = await processCost(command)
      return checked(cost, records, Number(cost.stdout.split(' ')[0]))
    },
  }
}

/** librdkafka with checksums looked at, as ours are; it prints nothing. */
function kcat({ bootstrap }: Places, { name, records }: BenchTopic): Figure {
  const settings = ['check.crcs=true', 'fetch.message.max.bytes=1048576'].flatMap((setting) => ['-X', setting])
  const command = ['kcat', '-C', '-b', bootstrap, '-t', name, '-o', 'beginning', '-e', '-q', '-c', String(records)]
  // What it is told to print is empty: without a format it would print every value.
  return { name: `${name}: kcat`, records, run: () => processCost([...command, ...settings, '-f', '']) }
}

function query(
  { bootstrap, dynamodb, bundles }: Places,
  topic: BenchTopic,
  shape: 'bronze' | 'typed',
  { what = shape, tasks = 1, options = [] }: { what?: string; tasks?: number; options?: readonly string[] } = {}
): Figure {
  return {
    name: nameOf(what, topic),
    records: topic.records,
    run: async () => {
      const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
      try {
        const command = [
          process.execPath,
          bundles.get('query') ?? '',
          bootstrap,
          topic.name,
          dynamodb,
          folder,
          shape,
          String(tasks),
        ]
        const cost = await processCost([...command, ...options])
        return await checked(cost, topic.records, batchesOf(cost).rows)
      } finally {
        await rm(folder, { recursive: true, force: true })
      }
    },
  }
}

export interface Batches {
  readonly rows: number
  readonly batches: number
  /** ms of the process's own time for each batch. */
  readonly plans: readonly number[]
  readonly commits: readonly number[]
}

export const batchesOf = ({ stdout }: ProcessCost): Batches => JSON.parse(stdout)
