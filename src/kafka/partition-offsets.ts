/** ListOffsets over any number of partitions: grouped by leader, each leader asked side by side, moves followed. */
import { SluiceError } from '../errors.ts'
import { nameOf, offsetsOf } from '../offsets.ts'
import type { PartitionOffset, PartitionOffsets, TopicPartition } from '../offsets.ts'
import type { IsolationLevel } from '../ports.ts'
import { brokerErrorCode, brokerErrorName, isPassing } from './broker-errors.ts'
import type { Cluster, Leader } from './client.ts'
import { addressText } from './connection-settings.ts'
import type { OffsetAnswer, OffsetQuery } from './list-offsets.ts'
import { Patience } from './patience.ts'

/** `at`: LATEST, EARLIEST or milliseconds since the epoch. */
export type PartitionAt = TopicPartition & Pick<OffsetQuery, 'at'>

type Led = PartitionAt & Leader

/** One round: what was answered, what is worth another round, and why. */
interface Round {
  readonly found: readonly PartitionOffset[]
  readonly open: readonly PartitionAt[]
  readonly reason: string
}

/**
 * The offset of each partition at its `at`; the answer to a timestamp without a match is -1.
 * Partitions that the newest metadata does not know are absent from the answer.
 * @throws KAFKA_UNREACHABLE where leaders stay away longer than our patience; KAFKA_AUTHENTICATION_FAILED,
 * KAFKA_AUTHORIZATION_FAILED, KAFKA_REQUEST_REFUSED, ABORTED
 */
export async function listPartitionOffsets(
  cluster: Cluster,
  partitions: readonly PartitionAt[],
  level: IsolationLevel,
  signal: AbortSignal
): Promise<PartitionOffsets> {
  const patience = new Patience('Asking Kafka for offsets')
  const found: PartitionOffset[] = []
  for (let open = partitions; open.length > 0;) {
    const round = await askOnce(cluster, open, level, signal)
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
  partitions: readonly PartitionAt[],
  level: IsolationLevel,
  signal: AbortSignal
): Promise<Round> {
  const answers = await orReason(() => cluster.leaders(partitions, signal))
  if (typeof answers === 'string') return { found: [], open: partitions, reason: answers }
  const led: Led[] = []
  const rounds: Round[] = []
  for (const [index, { topic, partition, at }] of partitions.entries()) {
    const answer = answers[index]
    if (answer?.kind === 'leader')
      led.push({ topic, partition, at, address: answer.address, leaderEpoch: answer.leaderEpoch })
    if (answer?.kind === 'absent') cluster.forgetLeaders(topic)
    if (answer?.kind === 'none') rounds.push({ found: [], open: [{ topic, partition, at }], reason: answer.reason })
  }
  const byLeader = [...Map.groupBy(led, (one) => addressText(one.address)).values()]
  rounds.push(...(await Promise.all(byLeader.map((group) => askLeader(cluster, group, level, signal)))))
  return {
    found: rounds.flatMap((round) => round.found),
    open: rounds.flatMap((round) => round.open),
    reason: [...new Set(rounds.filter((round) => round.open.length > 0).map((round) => round.reason))].join('; '),
  }
}

async function askLeader(
  cluster: Cluster,
  group: readonly Led[],
  level: IsolationLevel,
  signal: AbortSignal
): Promise<Round> {
  const [first] = group
  if (first === undefined) return { found: [], open: [], reason: '' }
  const answers = await orReason(() => cluster.listOffsets(first.address, group, level, signal))
  if (typeof answers === 'string') return { found: [], open: group, reason: answers }
  const failed = answers.filter((answer) => answer.errorCode !== brokerErrorCode.none)
  for (const answer of failed) refuseUnlessPassing(answer)
  const found = answers.filter((answer) => answer.errorCode === brokerErrorCode.none)
  const isFound = new Set(found.map(nameOf))
  return {
    found,
    open: group.filter((one) => !isFound.has(nameOf(one))),
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
