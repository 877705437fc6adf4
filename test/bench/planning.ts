/**
 * What planning a topic of 1,000 partitions costs the planner itself: processor time of this process, the brokers being others,
 * and requests. Named baseline: kafkajs's admin asking for the same offsets, in the same rounds.
 */
import kafkajs from 'kafkajs'
import { planBatch } from '../../src/batch.ts'
import type { BatchContext } from '../../src/context.ts'
import { openCluster } from '../../src/kafka/client.ts'
import type { Cluster } from '../../src/kafka/client.ts'
import { connectionSettings } from '../../src/kafka/connection-settings.ts'
import { offsetReaderOf } from '../../src/kafka/offset-reader.ts'
import type { IsolationLevel, OffsetReader } from '../../src/ports.ts'
import { startBroker } from '../support/broker.ts'
import { openTopics, waitUntil } from '../support/topics.ts'
import { newRun, runToEnd, world } from '../support/world.ts'
import type { World } from '../support/world.ts'
import { circumstances, costOf, median, rounds, spread } from './figure.ts'
import type { Cost } from './figure.ts'
import { versions } from './versions.ts'

const PARTITIONS = 1000
const NODES = 3
const ROUNDS = { count: 40, warmUp: 10 }
const { signal } = new AbortController()

interface Requests {
  metadata: number
  listOffsets: number
}

/** The cluster, with its requests counted. */
function counted(cluster: Cluster, requests: Requests): Cluster {
  return {
    addresses: cluster.addresses,
    metadata: (...question) => {
      requests.metadata++
      return cluster.metadata(...question)
    },
    listOffsets: (...question) => {
      requests.listOffsets++
      return cluster.listOffsets(...question)
    },
    leaders: (...question) => cluster.leaders(...question),
    leaderOf: (...question) => cluster.leaderOf(...question),
    forgetLeaders: (topic) => cluster.forgetLeaders(topic),
    fetchRaw: (...question) => cluster.fetchRaw(...question),
    dropConnections: (address) => cluster.dropConnections(address),
    close: () => cluster.close(),
  }
}

/** A query over the topic whose batch 0 is committed, log and sink in memory; each planner finds the log as it was then. */
interface Planning {
  readonly requests: Requests
  /** The first plan of all, before any code is warm: a new query's, with its connections. */
  readonly first: Cost
  /** A planner's whole work: the questions to Kafka, the decisions, the entry. */
  whole(): Promise<number>
  /** The same with the brokers' answers at hand. */
  pure(): Promise<number>
  close(): Promise<void>
}

/** Over a topic that is still empty. */
async function openPlanning(bootstrap: string, topic: string, level: IsolationLevel): Promise<Planning> {
  const requests = { metadata: 0, listOffsets: 0 }
  const cluster = counted(openCluster(connectionSettings({ 'bootstrap.servers': bootstrap }, 'bench')), requests)
  const options = { subscribe: topic, 'kafka.isolation.level': level, startingOffsets: 'earliest' }
  const w = world({}, options)
  const contextOf = (of: World, offsets: OffsetReader): BatchContext => ({ ...of.process(), offsets })
  const reader = offsetReaderOf(cluster, w.process().options)
  const first = await costOf(() => planBatch(contextOf(world({}, options), reader), newRun(), signal))
  await runToEnd(contextOf(w, reader))
  const plan = async (offsets: OffsetReader): Promise<number> => {
    const again: World = world({}, options)
    for (const [log, entries] of w.log) again.log.set(log, new Map(entries))
    again.table.commits.push(...w.table.commits)
    const outcome = await planBatch(contextOf(again, offsets), newRun(), signal)
    if (outcome.kind !== 'planned') throw new Error(`the plan is ${outcome.kind}`)
    return outcome.tasks.length
  }
  let answers: OffsetReader | null = null
  return {
    requests,
    first,
    whole: () => plan(reader),
    pure: async () => plan((answers ??= await answersOf(reader))),
    close: () => reader.close(),
  }
}

/** What Kafka says now, again and again. */
async function answersOf(reader: OffsetReader): Promise<OffsetReader> {
  const assigned = await reader.assigned(signal)
  const [earliest, latest, high] = await Promise.all([
    reader.earliest(assigned.partitions, signal),
    reader.latest(assigned.partitions, signal),
    reader.highWatermarks(assigned.partitions, signal),
  ])
  return {
    assigned: async () => assigned,
    topicIds: async () => assigned.topicIds,
    earliest: async () => earliest,
    latest: async () => latest,
    highWatermarks: async () => high,
    forTimestamps: async () => new Map(),
    close: async () => {},
  }
}

const say = (text: string): void => void process.stdout.write(`${text}\n`)

function table(costs: ReadonlyMap<string, readonly Cost[]>, baseline: string): void {
  const cpuOf = (name: string): number[] => (costs.get(name) ?? []).map(({ cpuMs }) => cpuMs)
  const base = median(cpuOf(baseline))
  say('| | own processor time, ms | elapsed, ms | against the baseline |')
  say('|---|---|---|---|')
  for (const [name, all] of costs) {
    const ratio = (median(cpuOf(name)) / base).toFixed(2)
    say(`| ${name} | ${spread(cpuOf(name))} | ${spread(all.map(({ wallMs }) => wallMs))} | ${ratio} |`)
  }
}

const broker = await startBroker({ nodes: NODES })
const topics = await openTopics(broker.bootstrap)
const admin = new kafkajs.Kafka({ brokers: broker.bootstrap.split(','), logLevel: kafkajs.logLevel.NOTHING }).admin()
try {
  await admin.connect()
  const topic = await topics.create({ partitions: PARTITIONS })
  await waitUntil('every partition has a leader', () =>
    admin.fetchTopicOffsets(topic).then(
      (offsets) => offsets.length === PARTITIONS,
      () => false
    )
  )
  const uncommitted = await openPlanning(broker.bootstrap, topic, 'read_uncommitted')
  const committed = await openPlanning(broker.bootstrap, topic, 'read_committed')
  const everyPartition = Array.from({ length: PARTITIONS }, (_, partition) => ({ partition, value: 'x' }))
  await topics.produce(topic, everyPartition)
  const baseline = 'baseline: kafkajs admin.fetchTopicOffsets'
  const costs = await rounds(
    {
      [baseline]: () => admin.fetchTopicOffsets(topic),
      'plan, read_uncommitted': uncommitted.whole,
      'its part without Kafka': uncommitted.pure,
      'plan, read_committed': committed.whole,
    },
    ROUNDS
  )
  const before = { ...uncommitted.requests }
  const ranges = await uncommitted.whole()
  const asked = uncommitted.requests
  say(`## Planning ${PARTITIONS} partitions on ${NODES} brokers: ${circumstances(versions())}\n`)
  say(`Median [least-most] of ${ROUNDS.count} rounds in turn, after ${ROUNDS.warmUp} that do not count.\n`)
  table(costs, baseline)
  const count = [asked.metadata - before.metadata, asked.listOffsets - before.listOffsets]
  say(
    `\nOne plan of ${ranges} tasks asked for metadata ${count[0]} time(s) and for offsets ${count[1]} time(s), once per leader.`
  )
  const { cpuMs, wallMs } = uncommitted.first
  say(
    `The first plan of the process, of a new query with its connections, cold: ${cpuMs.toFixed(0)} ms, elapsed ${wallMs.toFixed(0)} ms.`
  )
  await Promise.all([uncommitted.close(), committed.close()])
} finally {
  await admin.disconnect()
  await topics.close()
  await broker.stop()
}
