/** Error codes of Kafka's protocol, by what we do about them. */

export const brokerErrorCode = {
  unknownServerError: -1,
  none: 0,
  offsetOutOfRange: 1,
  corruptMessage: 2,
  unknownTopicOrPartition: 3,
  leaderNotAvailable: 5,
  notLeaderOrFollower: 6,
  requestTimedOut: 7,
  replicaNotAvailable: 9,
  invalidTopic: 17,
  topicAuthorizationFailed: 29,
  kafkaStorageError: 56,
  fencedLeaderEpoch: 74,
  unknownLeaderEpoch: 75,
  offsetNotAvailable: 78,
} as const

const names = new Map<number, string>([
  [-1, 'UNKNOWN_SERVER_ERROR'],
  [1, 'OFFSET_OUT_OF_RANGE'],
  [2, 'CORRUPT_MESSAGE'],
  [3, 'UNKNOWN_TOPIC_OR_PARTITION'],
  [5, 'LEADER_NOT_AVAILABLE'],
  [6, 'NOT_LEADER_OR_FOLLOWER'],
  [7, 'REQUEST_TIMED_OUT'],
  [9, 'REPLICA_NOT_AVAILABLE'],
  [17, 'INVALID_TOPIC_EXCEPTION'],
  [29, 'TOPIC_AUTHORIZATION_FAILED'],
  [31, 'CLUSTER_AUTHORIZATION_FAILED'],
  [35, 'UNSUPPORTED_VERSION'],
  [42, 'INVALID_REQUEST'],
  [43, 'UNSUPPORTED_FOR_MESSAGE_FORMAT'],
  [56, 'KAFKA_STORAGE_ERROR'],
  [74, 'FENCED_LEADER_EPOCH'],
  [75, 'UNKNOWN_LEADER_EPOCH'],
  [76, 'UNSUPPORTED_COMPRESSION_TYPE'],
  [78, 'OFFSET_NOT_AVAILABLE'],
])

/** Kafka's name of the code, as an operator finds it in the brokers' documentation. */
export const brokerErrorName = (code: number): string => names.get(code) ?? `error code ${code}`

/**
 * The partition has no leader, another one, or one that is still catching up: metadata is asked again and the request
 * repeated. The broker's own passing troubles (-1, 7, 56) are treated alike, as Kafka's consumer does.
 */
const passing: ReadonlySet<number> = new Set([-1, 3, 5, 6, 7, 9, 56, 74, 75, 78])

export const isPassing = (code: number): boolean => passing.has(code)
