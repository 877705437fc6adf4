/**
 * Topics, partitions and records that come and go at random under a pattern, with failOnDataLoss=false, on a real broker. The
 * seed is in the tests' names; SEED=n repeats one.
 */
import { randomInt, randomUUID } from 'node:crypto'
import { afterAll, expect, inject, test } from 'vitest'
import { isSluiceError } from '../../src/errors.ts'
import { runQuery } from '../../src/local/runner.ts'
import { Trigger } from '../../src/trigger.ts'
import { openDeltaSession } from '../support/delta-session.ts'
import { startProducerTool } from '../support/producer.ts'
import { openQuery } from '../support/query-run.ts'
import type { OpenQuery } from '../support/query-run.ts'
import { openTopics, uniqueTopic } from '../support/topics.ts'

const { bootstrap } = inject('kafka')
const tables = openDeltaSession()
const topics = await openTopics(bootstrap)
const tool = startProducerTool(bootstrap)
afterAll(async () => {
  await topics.close()
  await tool.stop()
  await tables.close()
})

const seed = Number(process.env['SEED'] ?? randomInt(2 ** 31))

/** Numbers below `n`, the same for the same seed (mulberry32). */
function chance(): (n: number) => number {
  let state = seed
  return (n) => {
    state = (state + 0x6d2b79f5) | 0
    const a = Math.imul(state ^ (state >>> 15), 1 | state)
    const b = (a + Math.imul(a ^ (a >>> 7), 61 | a)) ^ a
    return ((b ^ (b >>> 14)) >>> 0) % n
  }
}

/** Topics of one prefix, and what they hold; each value is sent once. */
class Cluster {
  readonly prefix = uniqueTopic('stress')
  readonly below = chance()
  readonly produced: string[] = []
  readonly #topics = new Map<string, { values: string[][]; starts: number[] }>()
  #created = 0

  get size(): number {
    return this.#topics.size
  }

  /** What a consumer from the beginning would find. */
  get present(): string[] {
    return [...this.#topics.values()].flatMap(({ values, starts }) =>
      values.flatMap((of, partition) => of.slice(starts[partition]))
    )
  }

  async create(name = `${this.prefix}-${++this.#created}`): Promise<void> {
    const partitions = 1 + this.below(3)
    await topics.createNamed(name, { partitions })
    this.#topics.set(name, {
      values: Array.from({ length: partitions }, () => []),
      starts: Array.from({ length: partitions }, () => 0),
    })
    await this.send(name)
  }

  async remove(): Promise<string> {
    const name = this.#any()
    this.#topics.delete(name)
    await topics.delete(name)
    return name
  }

  async grow(): Promise<void> {
    const name = this.#any()
    const topic = this.#of(name)
    topic.values.push([])
    topic.starts.push(0)
    await topics.grow(name, topic.values.length)
    await this.send(name)
  }

  async send(name = this.#any()): Promise<void> {
    const { values } = this.#of(name)
    const messages = Array.from({ length: 1 + this.below(10) }, () => {
      const partition = this.below(values.length)
      const value = `record ${this.produced.length}`
      this.produced.push(value)
      values[partition]?.push(value)
      return { partition, value }
    })
    await topics.produce(name, messages)
  }

  /** Its head is deleted, as by retention. */
  async trim(): Promise<void> {
    const name = this.#any()
    const { values, starts } = this.#of(name)
    const partition = this.below(values.length)
    const length = values[partition]?.length ?? 0
    const before = starts[partition] ?? 0
    const start = Math.min(length, before + 1 + this.below(5))
    if (start === before) return
    starts[partition] = start
    await tool.deleteRecords(name, { [partition]: start })
  }

  #any(): string {
    return [...this.#topics.keys()][this.below(this.#topics.size)] ?? ''
  }

  #of(name: string): { values: string[][]; starts: number[] } {
    return this.#topics.get(name) ?? { values: [], starts: [] }
  }
}

const open = (cluster: Cluster): Promise<OpenQuery> =>
  openQuery({
    options: {
      'kafka.bootstrap.servers': bootstrap,
      subscribePattern: `${cluster.prefix}.*`,
      failOnDataLoss: false,
      maxOffsetsPerTrigger: 20,
      'fetchOffset.retryIntervalMs': 10,
    },
    tables,
  })

const emptyEnds = (query: OpenQuery): number => query.batches().filter(({ plan }) => plan.end.size === 0).length

test(`K62: every record arrives once, where topics are deleted after they were read (seed ${seed})`, async () => {
  const cluster = new Cluster()
  await using query = await open(cluster)
  await cluster.create()
  for (let round = 0; round < 16; round++) {
    const what = cluster.below(6)
    if (what === 0) await cluster.create()
    else if (what === 1 && cluster.size > 1) {
      await query.run()
      await cluster.remove()
    } else if (what === 2) await cluster.grow()
    else await cluster.send()
    if (cluster.below(3) === 0) await query.run()
  }
  await query.run()
  expect((await query.values()).toSorted(byText)).toEqual(cluster.produced.toSorted(byText))
  expect(emptyEnds(query)).toBe(0)
})

test(`K132: while it runs: it survives, nothing arrives twice, and what is still there arrives (seed ${seed})`, async () => {
  const cluster = new Cluster()
  await using query = await open(cluster)
  await cluster.create()
  const stop = new AbortController()
  const running = runOn(query, stop.signal)
  running.catch(() => {}) // it is awaited below
  try {
    for (let round = 0; round < 30; round++) await change(cluster)
  } finally {
    stop.abort()
    await running
  }
  await query.run()
  const values = (await query.values()).map(String)
  expect(new Set(values).size).toBe(values.length)
  expect(cluster.produced).toEqual(expect.arrayContaining(values))
  expect(values).toEqual(expect.arrayContaining(cluster.present))
  expect(emptyEnds(query)).toBe(0)
})

async function change(cluster: Cluster): Promise<void> {
  const what = cluster.below(9)
  if (what === 0 || cluster.size === 0) await cluster.create()
  else if (what === 1) await cluster.remove()
  else if (what === 2) await cluster.create(await cluster.remove())
  else if (what === 3) await cluster.grow()
  else if (what === 4) await cluster.trim()
  else await cluster.send()
}

/** As fast as possible until the signal fires; what a state machine tries again begins again. */
async function runOn(query: OpenQuery, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const request = { runId: randomUUID(), trigger: Trigger.processingTime(0), parallelism: 2, onEvent: () => {} }
    try {
      await query.inContext((context) => runQuery(context, request, signal))
    } catch (error) {
      if (!isSluiceError(error) || !error.retryable) throw error
    }
  }
}

const byText = (a: string | null, b: string | null): number => (String(a) < String(b) ? -1 : 1)
