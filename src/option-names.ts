/** The names of the source's options: which are read, which are refused and why, and the nearest one to a typo. */
import { nearestName } from './nearest-name.ts'

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

/** The known name that was meant, if one is near enough; a client setting without `kafka.` is found too. */
export const nearestOption = (option: string): string | null =>
  canonicalNames.get(`kafka.${option.trim().toLowerCase()}`) ?? nearestName(option.trim(), knownOptions)
