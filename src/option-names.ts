/** The names of the source's options: which are read, which are refused and why, and the nearest one to a typo. */

/** Options that are read, in Spark's spelling; those of ours start with `sluice.`. `kafka.*` comes beside them. */
export const readOptions = [
  'subscribe',
  'subscribePattern',
  'assign',
  'startingTimestamp',
  'startingOffsetsByTimestamp',
  'startingOffsetsByTimestampStrategy',
  'startingOffsets',
  'maxOffsetsPerTrigger',
  'minOffsetsPerTrigger',
  'maxTriggerDelay',
  'minPartitions',
  'maxRecordsPerPartition',
  'includeHeaders',
  'failOnDataLoss',
  'kafkaConsumer.pollTimeoutMs',
  'fetchOffset.numRetries',
  'fetchOffset.retryIntervalMs',
  'groupIdPrefix',
  'sluice.maxBytesPerTrigger',
  'sluice.targetBytesPerWorker',
  'sluice.minBatchesToRetain',
] as const

export type ReadOption = (typeof readOptions)[number]

/** Spark's and our options that this release does not read. Ignoring one would silently change what is delivered. */
export const unreadOptions: readonly string[] = ['bytesEstimateWindowLength']

/** Options of bounded reads, with Spark's words. Spark ignores `endingTimestamp` in a stream; here it is refused too. */
export const endingOptions: Readonly<Record<string, string>> = {
  endingOffsets: 'ending offset not valid in streaming queries',
  endingOffsetsByTimestamp: 'ending timestamp not valid in streaming queries',
  endingTimestamp: 'ending timestamp not valid in streaming queries',
}

/** Kafka client settings that the source decides itself (spark-semantics 1.3). */
export const refusedKafkaKeys: Readonly<Record<string, string>> = {
  'auto.offset.reset':
    "positions come from the query's own log. Set 'startingOffsets' to say where a new query starts, and 'failOnDataLoss' for what is gone",
  'key.deserializer': 'keys are delivered as bytes. Decode them in the mapping',
  'value.deserializer': 'values are delivered as bytes. Decode them in the mapping',
  'enable.auto.commit': "nothing is committed to Kafka: positions are kept in the query's own log",
  'interceptor.classes': 'interceptors could change records or positions unseen. Use the mapping',
}

/** Settings of the client that are suggested when somebody forgot `kafka.`. */
const commonKafkaOptions = [
  'kafka.bootstrap.servers',
  'kafka.group.id',
  'kafka.client.id',
  'kafka.isolation.level',
  'kafka.security.protocol',
  'kafka.sasl.mechanism',
  'kafka.sasl.jaas.config',
  'kafka.ssl.truststore.certificates',
  'kafka.ssl.keystore.certificate.chain',
  'kafka.ssl.keystore.key',
  'kafka.ssl.key.password',
]

const knownOptions: readonly string[] = [
  ...readOptions,
  ...unreadOptions,
  ...Object.keys(endingOptions),
  ...commonKafkaOptions,
]

const canonicalNames = new Map(knownOptions.map((name) => [name.toLowerCase(), name]))

/** The documented spelling of an option, whatever the case; null for an unknown one. `kafka.*` is never unknown. */
export function canonicalName(option: string): string | null {
  const lower = option.toLowerCase()
  return canonicalNames.get(lower) ?? (/^kafka\../.test(lower) ? lower : null)
}

/** The known name with the fewest edits, if it is near enough to be a typo. */
export function nearestOption(option: string): string | null {
  const lower = option.trim().toLowerCase()
  const withPrefix = canonicalNames.get(`kafka.${lower}`)
  if (withPrefix !== undefined) return withPrefix
  const ranked = knownOptions
    .map((name) => ({ name, distance: editDistance(lower, name.toLowerCase()) }))
    .toSorted((a, b) => a.distance - b.distance)
  const [nearest] = ranked
  return nearest && nearest.distance <= Math.max(2, Math.floor(lower.length / 3)) ? nearest.name : null
}

/** Levenshtein's distance, one row at a time. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const substituted = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(substituted, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}
