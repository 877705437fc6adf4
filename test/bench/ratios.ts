/** The figures that the project is held to, each beside the baseline of the same run. */
import { median } from './figure.ts'
import type { Costs } from './process-cost.ts'
import type { SparkFigure, SparkQuery } from './spark.ts'
import { batchesOf, nameOf } from './throughput.ts'
import type { BenchTopic, benchTopics } from './topics.ts'

export type Ratios = Readonly<Record<string, number | null>>

/** Null where one of the two was not measured. */
export function ratiosOf(topics: ReturnType<typeof benchTopics>, costs: Costs, spark: readonly SparkFigure[]): Ratios {
  const { plain100, plain1k, orders, small1 } = topics
  const our = (of: 'cpuS' | 'wallS', what: string, topic: BenchTopic): number | null => {
    const own = costs.get(nameOf(what, topic)) ?? []
    return own.length === 0 ? null : median(own.map((cost) => cost[of]))
  }
  const theirs = (query: SparkQuery): number | null => {
    const own = spark.filter((figure) => figure.query === query)
    return own.length === 0 ? null : median(own.map(({ cpuS }) => cpuS))
  }
  const beside = (query: SparkQuery, what: string, topic: BenchTopic) => over(theirs(query), our('cpuS', what, topic))
  const batches = (costs.get(nameOf('bronze, 50 batches of 10', small1)) ?? []).map(
    (cost) => cost.cpuS / batchesOf(cost).batches
  )
  const delta = [nameOf('bronze', plain100), nameOf('bronze', plain1k), nameOf('typed', orders)]
  const ourPeak = Math.max(...delta.flatMap((name) => (costs.get(name) ?? []).map(({ rssMb }) => rssMb)))
  const sparkPeak = Math.max(...spark.map(({ rssMb }) => rssMb))
  const raw = [plain100, plain1k].map((topic) => over(our('cpuS', 'raw read', topic), our('cpuS', 'kcat', topic)))
  const floors = (what: string, topic: BenchTopic) => over(our('cpuS', what, topic), our('cpuS', 'floor', topic))
  const four = 'bronze, 4 tasks at a time'
  return {
    delta100: beside('delta100', 'bronze', plain100),
    delta1k: beside('delta1k', 'bronze', plain1k),
    json: beside('json', 'typed', orders),
    delta100Tuned: beside('delta100Tuned', 'bronze', plain100),
    delta1kTuned: beside('delta1kTuned', 'bronze', plain1k),
    jsonTuned: beside('jsonTuned', 'typed', orders),
    batchCpu: over(theirs('batches'), batches.length === 0 ? null : median(batches)),
    rss: over(Number.isFinite(sparkPeak) ? sparkPeak : null, Number.isFinite(ourPeak) ? ourPeak : null),
    capped: over(our('wallS', `${four}, capped to a tenth`, plain1k), our('wallS', four, plain1k)),
    // The worse of the two.
    rawVsKcat: raw.some((ratio) => ratio === null) ? null : Math.max(...raw.map(Number)),
    floor100: floors('bronze', plain100),
    floor1k: floors('bronze', plain1k),
    floorOrders: floors('bronze', orders),
  }
}

const over = (a: number | null, b: number | null): number | null => (a === null || b === null ? null : a / b)
