/** ListOffsets over any number of partitions: grouped by leader, each leader asked side by side, moves followed. */
import { SluiceError } from '../errors.ts'
import { nameOf, offsetsOf } from '../offsets.ts'
import type { PartitionOffset, PartitionOffsets, TopicPartition } from '../offsets.ts'
import type { IsolationLevel } from '../ports.ts'
import { brokerErrorCode, brokerErrorName, isPassing } from './broker-errors.ts'
import type { Cluster, Leader } from './client.ts'
import { addressText } from './connection-settings.ts'
import type { OffsetAnswer } from './list-offsets.ts'
import { Patience } from './patience.ts'

type Led = TopicPartition & Leader

/** One round: what was answered, what is worth another round, and why. */
interface Round {
  readonly found: readonly PartitionOffset[]
  readonly open: readonly TopicPartition[]
  readonly reason: string
}

/**
 * The offset of each partition at `at` (LATEST, EARLIEST or a timestamp, whose answer is -1 without a match).
 * Partitions that the newest metadata does not know are absent from the answer.
 * @throws KAFKA_UNREACHABLE where leaders stay away longer than our patience; KAFKA_AUTHENTICATION_FAILED,
 * KAFKA_AUTHORIZATION_FAILED, KAFKA_REQUEST_REFUSED, ABORTED
 */
export async function listPartitionOffsets(
  cluster: Cluster,
  partitions: readonly TopicPartition[],
  at: bigint,
  level: IsolationLevel,
  signal: AbortSignal
): Promise<PartitionOffsets> {
  const patience = new Patience('Asking Kafka for offsets')
  const found: PartitionOffset[] = []
  for (let open = partitions; open.length > 0;) {
    const round = await askOnce(cluster, open, at, level, signal)
    found.push(...round.found)
    open = round.open
    if (open.length === 0) break
    for (const topic of new Set(open.map((tp) => tp.topic))) cluster.forgetLeaders(topic)
    const reason = `no answer for ${open.map(nameOf).join(', ')} (${round.reason})`
    await patience.afterFailure(new SluiceError('KAFKA_UNREACHABLE', { brokers: cluster.addresses, reason }), signal)
  }
  return offsetsOf(found)
}

async function askOnce(
  cluster: Cluster,
  partitions: readonly TopicPartition[],
  at: bigint,
  level: IsolationLevel,
  signal: AbortSignal
): Promise<Round> {
  const answers = await orReason(() => cluster.leaders(partitions, signal))
  if (typeof answers === 'string') return { found: [], open: partitions, reason: answers }
  const led: Led[] = []
  const rounds: Round[] = []
  for (const [index, { topic, partition }] of partitions.entries()) {
    const answer = answers[index]
    if (answer?.kind === 'leader')
      led.push({ topic, partition, address: answer.address, leaderEpoch: answer.leaderEpoch })
    if (answer?.kind === 'absent') cluster.forgetLeaders(topic)
    if (answer?.kind === 'none') rounds.push({ found: [], open: [{ topic, partition }], reason: answer.reason })
  }
  const byLeader = [...Map.groupBy(led, (one) => addressText(one.address)).values()]
  rounds.push(...(await Promise.all(byLeader.map((group) => askLeader(cluster, group, at, level, signal)))))
  return {
    found: rounds.flatMap((round) => round.found),
    open: rounds.flatMap((round) => round.open),
    reason: [...new Set(rounds.filter((round) => round.open.length > 0).map((round) => round.reason))].join('; '),
  }
}

async function askLeader(
  cluster: Cluster,
  group: readonly Led[],
  at: bigint,
  level: IsolationLevel,
  signal: AbortSignal
): Promise<Round> {
  const [first] = group
  if (first === undefined) return { found: [], open: [], reason: '' }
  const answers = await orReason(() => cluster.listOffsets(first.address, group, at, level, signal))
  if (typeof answers === 'string') return { found: [], open: group, reason: answers }
  const failed = answers.filter((answer) => answer.errorCode !== brokerErrorCode.none)
  for (const answer of failed) refuseUnlessPassing(answer)
  return {
    found: answers.filter((answer) => answer.errorCode === brokerErrorCode.none),
    open: failed,
    reason: [...new Set(failed.map((answer) => brokerErrorName(answer.errorCode)))].join(', '),
  }
}

function refuseUnlessPassing(answer: OffsetAnswer): void {
  if (isPassing(answer.errorCode)) return
  if (answer.errorCode === brokerErrorCode.topicAuthorizationFailed)
    throw new SluiceError('KAFKA_AUTHORIZATION_FAILED', { resource: `topic ${answer.topic}`, right: 'DESCRIBE' })
  const error = brokerErrorName(answer.errorCode)
  throw new SluiceError('KAFKA_REQUEST_REFUSED', { request: 'ListOffsets', resource: nameOf(answer), error })
}

/** A broker that cannot be reached is a reason for another round, not an error yet. */
async function orReason<T>(ask: () => Promise<T>): Promise<T | string> {
  try {
    return await ask()
  } catch (e) {
    if (e instanceof SluiceError && e.name === 'KAFKA_UNREACHABLE') return e.message
    throw e
  }
}
