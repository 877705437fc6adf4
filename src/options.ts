/**
 * The source's options: Spark's names, defaults, precedence and refusals (spark-semantics 1), parsed once. A
 * `SourceOptions` can only come from `parseOptions`.
 */
import { describeStrategy, parseAssign, parseSubscribe, parseSubscribePattern } from './consumer-strategy.ts'
import type { ConsumerStrategy } from './consumer-strategy.ts'
import { SluiceError } from './errors.ts'
import type { OffsetRangeLimit } from './offset-range-limit.ts'
import { endingOptions, refusedKafkaKeys, unreadOptions } from './option-names.ts'
import type { ReadOption } from './option-names.ts'
import {
  MAX_INT32,
  booleanOf,
  bytesOf,
  collectOptions,
  durationOf,
  invalid,
  parsing,
  textOf,
  wholeNumberOf,
} from './option-values.ts'
import type { Environment, GivenOption } from './option-values.ts'
import { startFrom, startGiven } from './position-options.ts'

/** A whole number; as text for what a double cannot hold, or to refer to an environment variable. */
type WholeNumber = number | bigint | string
type Flag = boolean | 'true' | 'false' | `{{env:${string}}}`

/** Spark's options of the source, and ours. Exactly one of `subscribe`, `subscribePattern` and `assign`. Names are case-insensitive at run time. */
export interface SparkKafkaOptions {
  /** Brokers, `host:port`, comma-separated. */
  readonly 'kafka.bootstrap.servers': string
  /** Topics, comma-separated. */
  readonly subscribe?: string
  /** A regular expression of Java: topics in whose name it finds a match, also those that are created later. */
  readonly subscribePattern?: string
  /** Partitions by topic: `{ orders: [0, 1] }`, or the same as JSON text. */
  readonly assign?: string | Readonly<Record<string, readonly number[]>>
  /**
   * `latest` (default), `earliest`, or an offset for every partition, as JSON text or object; -1 is latest, -2 earliest.
   * Used once, by the first batch of a query, as are the other starts. `startingTimestamp` and
   * `startingOffsetsByTimestamp` come before it, in this order.
   */
  readonly startingOffsets?: string | Readonly<Record<string, Readonly<Record<string, number | bigint>>>>
  /** Each partition starts at its first record at or after this time, ms since the epoch. */
  readonly startingTimestamp?: WholeNumber
  /** The same with a time for every partition, as JSON text or object. */
  readonly startingOffsetsByTimestamp?: string | Readonly<Record<string, Readonly<Record<string, number | bigint>>>>
  /** Of a partition without such a record: `error` (default), or `latest`, a start at its end. */
  readonly startingOffsetsByTimestampStrategy?: string
  /** A soft cap on the offsets of one batch, shared in proportion to the backlogs. Default: none. */
  readonly maxOffsetsPerTrigger?: WholeNumber
  /** A batch waits until so many offsets are there, but no longer than `maxTriggerDelay`. Default: none. */
  readonly minOffsetsPerTrigger?: WholeNumber
  /** `'15m'` (default), a whole number with us, ms, s, m, min, h or d, without one ms. Read where `minOffsetsPerTrigger` is set. */
  readonly maxTriggerDelay?: string | number
  /** A hint: split large ranges until there are about this many. Default: one range for each partition. */
  readonly minPartitions?: WholeNumber
  /** No range is longer. Default: none. */
  readonly maxRecordsPerPartition?: WholeNumber
  /** Adds the column `headers`. Default: false. */
  readonly includeHeaders?: Flag
  /** Whether a batch fails when offsets are gone, or goes on and reports them. Default: true. */
  readonly failOnDataLoss?: Flag
  /** How long a read waits for records that must be there, ms. Default: 120000. */
  readonly 'kafkaConsumer.pollTimeoutMs'?: WholeNumber
  /** Attempts at asking Kafka for offsets. Default: 3. */
  readonly 'fetchOffset.numRetries'?: WholeNumber
  /** Between two attempts, ms. Default: 1000. */
  readonly 'fetchOffset.retryIntervalMs'?: WholeNumber
  /** Names the client towards the brokers; nothing is committed to a group. */
  readonly groupIdPrefix?: string
  /** A soft cap on the bytes of keys and values in one batch: `'64m'`, `'1g'`, or bytes. Default: none. */
  readonly 'sluice.maxBytesPerTrigger'?: WholeNumber
  /** About so many bytes of keys and values for one worker: small ranges share one, fat ones are cut. Default: one worker for each range. */
  readonly 'sluice.targetBytesPerWorker'?: WholeNumber
  /** How many finished batches the log keeps. Default: 100. */
  readonly 'sluice.minBatchesToRetain'?: WholeNumber
}

/** Options as a query gives them; `kafka.*` are settings of the client, without those that the source decides itself. */
export type KafkaOptions = SparkKafkaOptions & {
  readonly [key: `kafka.${string}`]: string | number | boolean
}

const parsed = Symbol('parsed')

/** Options that passed every check that needs no broker. */
export interface SourceOptions {
  /** Nobody else holds this symbol, so nobody else makes one. */
  readonly [parsed]: true
  /** Client settings: lower-cased, without `kafka.`, and without those that became fields here (client.id, group.id, isolation.level). */
  readonly kafka: Readonly<Record<string, string>>
  readonly strategy: ConsumerStrategy
  readonly startingOffsets: OffsetRangeLimit
  /** null: a stream, which has no end. */
  readonly endingOffsets: OffsetRangeLimit | null
  /** The options that say where to start, as far as they were given: a query that resumes uses none of them. */
  readonly startOptions: readonly string[]
  readonly maxOffsetsPerTrigger: bigint | null
  readonly minOffsetsPerTrigger: bigint | null
  readonly maxTriggerDelayMs: number
  readonly maxBytesPerTrigger: bigint | null
  readonly targetBytesPerWorker: bigint | null
  readonly minPartitions: number | null
  readonly maxRecordsPerPartition: bigint | null
  readonly isolationLevel: 'read_uncommitted' | 'read_committed'
  readonly includeHeaders: boolean
  readonly failOnDataLoss: boolean
  readonly pollTimeoutMs: number
  /** The number of attempts, not of repeats. */
  readonly fetchOffsetNumRetries: number
  readonly fetchOffsetRetryIntervalMs: number
  readonly clientId: string
  /** `kafka.group.id` is set: it only changes the words of a data-loss finding. */
  readonly groupIdGiven: boolean
  readonly minBatchesToRetain: number
  /** For the log of the run: what was given and has no or another effect. */
  readonly warnings: readonly string[]
}

type Options = ReadonlyMap<string, GivenOption>

/**
 * Parses options as a query gives them; `env` resolves `{{env:NAME}}`. The checks come in Spark's order: ending options,
 * the strategy and its value, minPartitions, maxRecordsPerPartition, kafka.group.id, refused client settings, brokers,
 * minOffsetsPerTrigger above maxOffsetsPerTrigger.
 * @throws OPTION_UNKNOWN, OPTION_INVALID, OPTION_CONFLICT, OPTION_NOT_SUPPORTED; no message holds a client setting's value
 */
export function parseOptions(raw: Readonly<Record<string, unknown>>, env: Environment): SourceOptions {
  const { options, warnings } = collectOptions(raw, env)
  for (const [name, reason] of Object.entries(endingOptions))
    if (options.has(name)) invalid(name, `${reason}. Remove it: a stream has no end`)
  const strategy = strategyFrom(options)
  refuseUnread(options)
  const read = readerOf(options)
  const minPartitions = read('minPartitions', (o) => Number(wholeNumberOf(o, 1n, MAX_INT32)), null)
  const maxRecordsPerPartition = read('maxRecordsPerPartition', (o) => wholeNumberOf(o, 1n), null)
  const client = clientFrom(options)
  const limits = limitsFrom(options, read)
  const start = startGiven(options)
  const milliseconds = (min: 0n | 1n) => (o: GivenOption) => Number(wholeNumberOf(o, min, MAX_INT32))
  return {
    [parsed]: true,
    strategy,
    minPartitions,
    maxRecordsPerPartition,
    targetBytesPerWorker: read('sluice.targetBytesPerWorker', bytesOf, null),
    kafka: client.settings,
    isolationLevel: client.isolationLevel,
    clientId: client.id,
    groupIdGiven: options.has('kafka.group.id'),
    startingOffsets: startFrom(options, { kind: 'latest' }),
    startOptions: start.names,
    endingOffsets: null,
    failOnDataLoss: read('failOnDataLoss', booleanOf, true),
    includeHeaders: read('includeHeaders', booleanOf, false),
    ...limits.values,
    pollTimeoutMs: read('kafkaConsumer.pollTimeoutMs', milliseconds(1n), 120_000),
    fetchOffsetNumRetries: read('fetchOffset.numRetries', (o) => Number(wholeNumberOf(o, 1n, MAX_INT32)), 3),
    fetchOffsetRetryIntervalMs: read('fetchOffset.retryIntervalMs', milliseconds(0n), 1000),
    minBatchesToRetain: read('sluice.minBatchesToRetain', (o) => Number(wholeNumberOf(o, 1n, MAX_INT32)), 100),
    warnings: [...warnings, ...client.warnings, ...limits.warnings, ...start.warnings],
  }
}

/** As Spark's progress names the source: `KafkaV2[Subscribe[t1, t2]]`. */
export const describeSource = (options: Pick<SourceOptions, 'strategy'>): string =>
  `KafkaV2[${describeStrategy(options.strategy)}]`

type Read = <T>(name: ReadOption, parse: (option: GivenOption) => T, absent: T) => T

const readerOf =
  (options: Options): Read =>
  (name, parse, absent) => {
    const option = options.get(name)
    return option === undefined ? absent : parse(option)
  }

const DEFAULT_TRIGGER_DELAY_MS = 15 * 60_000

/** What a batch holds at least and at most. Spark takes caps that are not positive, and then stalls or goes backwards. */
function limitsFrom(options: Options, read: Read) {
  const min = read('minOffsetsPerTrigger', (o) => wholeNumberOf(o, 1n), null)
  const max = read('maxOffsetsPerTrigger', (o) => wholeNumberOf(o, 1n), null)
  if (min !== null && max !== null && min > max)
    throw new SluiceError('OPTION_CONFLICT', {
      options: "'minOffsetsPerTrigger', 'maxOffsetsPerTrigger'",
      reason: `The value of minOffsetPerTrigger(${min}) is higher than the maxOffsetsPerTrigger(${max}).`,
    })
  const isDelayRead = min !== null || !options.has('maxTriggerDelay')
  return {
    values: {
      minOffsetsPerTrigger: min,
      maxOffsetsPerTrigger: max,
      maxBytesPerTrigger: read('sluice.maxBytesPerTrigger', bytesOf, null),
      maxTriggerDelayMs:
        min === null ? DEFAULT_TRIGGER_DELAY_MS : read('maxTriggerDelay', durationOf, DEFAULT_TRIGGER_DELAY_MS),
    },
    warnings: isDelayRead ? [] : ["Option 'maxTriggerDelay' has no effect without 'minOffsetsPerTrigger'."],
  }
}

const strategies = ['assign', 'subscribe', 'subscribePattern']

function strategyFrom(options: Options): ConsumerStrategy {
  const given = strategies.flatMap((name) => options.get(name) ?? [])
  const [option] = given
  if (option === undefined || given.length > 1)
    throw new SluiceError('OPTION_CONFLICT', {
      options: (given.length > 1 ? given.map((o) => o.name) : strategies).map((name) => `'${name}'`).join(', '),
      reason:
        given.length > 1
          ? 'Only one of the following options can be specified for Kafka source: subscribe, subscribePattern, assign.'
          : 'One of the following options must be specified for Kafka source: subscribe, subscribePattern, assign.',
    })
  if (option.name === 'subscribe')
    return parsing(option, 'Expected e.g. topicA,topicB', () => parseSubscribe(textOf(option)))
  if (option.name === 'assign')
    return parsing(option, 'Expected e.g. {"topicA":[0,1],"topicB":[0,1]}', () => parseAssign(option.value))
  if (textOf(option).trim() === '') invalid(option.name, 'Pattern to subscribe is empty')
  return parsing(option, 'Expected a regular expression of Java', () => parseSubscribePattern(textOf(option)))
}

function refuseUnread(options: Options): void {
  const name = unreadOptions.find((unread) => options.has(unread))
  if (name !== undefined) refuse(name)
}

const refuse = (name: string): never =>
  invalid(name, 'this release does not read it, and without it the query would deliver something else. Remove it')

interface Client {
  readonly settings: Readonly<Record<string, string>>
  readonly isolationLevel: SourceOptions['isolationLevel']
  readonly id: string
  readonly warnings: readonly string[]
}

/** Settings that are fields of SourceOptions instead. */
const ownSettings = ['client.id', 'group.id', 'isolation.level']

function clientFrom(options: Options): Client {
  const settings = new Map(
    [...options.values()]
      .filter((option) => option.name.startsWith('kafka.'))
      .map((option) => [option.name.slice('kafka.'.length), textOf(option)])
  )
  for (const [key, reason] of Object.entries(refusedKafkaKeys))
    if (settings.has(key)) throw new SluiceError('OPTION_NOT_SUPPORTED', { option: key, reason })
  if ((settings.get('bootstrap.servers') ?? '').trim() === '')
    invalid('kafka.bootstrap.servers', 'must be specified: the brokers to ask first, e.g. host1:9092,host2:9092')
  const prefix = options.get('groupIdPrefix')
  const groupId = settings.get('group.id')
  return {
    settings: Object.fromEntries([...settings].filter(([key]) => !ownSettings.includes(key))),
    isolationLevel: isolationLevelOf(options.get('kafka.isolation.level')),
    id: settings.get('client.id') ?? groupId ?? (prefix === undefined ? 'sluice' : `${textOf(prefix)}-sluice`),
    warnings: groupId === undefined ? [] : groupWarnings(prefix !== undefined),
  }
}

const groupWarnings = (prefixGiven: boolean): string[] => [
  "Option 'kafka.group.id' only names the client: no group is joined and nothing is committed to Kafka.",
  ...(prefixGiven ? ["Option 'groupIdPrefix' is ignored because 'kafka.group.id' is set."] : []),
]

function isolationLevelOf(option: GivenOption | undefined): SourceOptions['isolationLevel'] {
  if (option === undefined) return 'read_uncommitted'
  const level = textOf(option).toLowerCase()
  return level === 'read_uncommitted' || level === 'read_committed'
    ? level
    : invalid(option.name, `${option.shown} is not read_uncommitted or read_committed`)
}
