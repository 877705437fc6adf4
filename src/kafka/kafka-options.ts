/** Which names of Kafka's Java consumer the source knows, and what becomes of each. */
import { SluiceError } from '../errors.ts'

/** Read by connection-settings.ts, or by the options parser (isolation.level, group.id). */
const used = [
  'bootstrap.servers',
  'client.id',
  'fetch.max.bytes',
  'fetch.max.wait.ms',
  'group.id',
  'isolation.level',
  'max.partition.fetch.bytes',
  'request.timeout.ms',
  'sasl.jaas.config',
  'sasl.mechanism',
  'security.protocol',
  'socket.connection.setup.timeout.ms',
  'ssl.endpoint.identification.algorithm',
  'ssl.truststore.certificates',
  'ssl.truststore.type',
]

/** Settings of machinery that an exact range needs none of (groups, polling, prefetching, metrics): valid, no effect. */
const withoutCounterpart = [
  'allow.auto.create.topics', // never: looking must not create (B17)
  'auto.commit.interval.ms',
  'check.crcs', // always
  'client.dns.lookup',
  'client.rack',
  'connections.max.idle.ms',
  'default.api.timeout.ms',
  'enable.metrics.push',
  'exclude.internal.topics', // always
  'fetch.min.bytes', // a range never waits for data beyond its end
  'group.instance.id',
  'group.protocol',
  'group.remote.assignor',
  'heartbeat.interval.ms',
  'max.poll.interval.ms',
  'max.poll.records',
  'metadata.max.age.ms',
  'metadata.recovery.rebootstrap.trigger.ms',
  'metadata.recovery.strategy',
  'metric.reporters',
  'metrics.num.samples',
  'metrics.recording.level',
  'metrics.sample.window.ms',
  'partition.assignment.strategy',
  'receive.buffer.bytes',
  'reconnect.backoff.max.ms',
  'reconnect.backoff.ms',
  'retry.backoff.max.ms',
  'retry.backoff.ms',
  'send.buffer.bytes',
  'session.timeout.ms',
  'socket.connection.setup.timeout.max.ms',
]

/** Names whose silent loss would weaken or break a connection. */
const refused: ReadonlyMap<RegExp, string> = new Map([
  [
    /^ssl\.truststore\.(location|password)$/,
    'trust stores are not read from files; give the certificates as PEM text in kafka.ssl.truststore.certificates',
  ],
  [/^ssl\.keystore\.|^ssl\.key\.password$/, 'client certificates are not available; log in by SASL'],
  [/^ssl\.(protocol|enabled\.protocols|cipher\.suites)$/, 'TLS 1.2 and 1.3 are negotiated with Node.js defaults'],
  [/^ssl\.|^security\.providers$/, 'it configures the Java TLS engine'],
  [/^sasl\.oauthbearer\.|^sasl\.login\.|^sasl\.client\./, 'logins are PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512'],
  [/^sasl\.kerberos\./, 'Kerberos is not available; choose PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512'],
])

const known: ReadonlySet<string> = new Set([...used, ...withoutCounterpart])

/**
 * @param name lower-cased, without the `kafka.` prefix.
 * @throws OPTION_NOT_SUPPORTED for a name of Kafka that is not available, OPTION_UNKNOWN with the nearest known name.
 */
export function judgeKafkaOption(name: string): void {
  if (known.has(name)) return
  for (const [pattern, reason] of refused)
    if (pattern.test(name)) throw new SluiceError('OPTION_NOT_SUPPORTED', { option: name, reason })
  const nearest = nearestOf(name)
  throw new SluiceError('OPTION_UNKNOWN', {
    option: `kafka.${name}`,
    nearest: nearest === null ? null : `kafka.${nearest}`,
  })
}

function nearestOf(name: string): string | null {
  const [best] = [...known]
    .map((candidate) => ({ candidate, distance: editDistance(name, candidate) }))
    .toSorted((a, b) => a.distance - b.distance)
  return best !== undefined && best.distance <= Math.max(2, name.length / 3) ? best.candidate : null
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i]
    for (let j = 1; j <= b.length; j += 1) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}
