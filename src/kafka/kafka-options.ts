/**
 * Which names of Kafka's Java consumer the source knows, and what becomes of each: used, without effect, refused. README's
 * table of client settings is made from this one, and a test holds the two together.
 */
import { SluiceError } from '../errors.ts'
import { nearestName } from '../nearest-name.ts'
import { refusedKafkaKeys } from '../option-names.ts'

export interface KafkaOptionRow {
  /** Without the `kafka.` prefix; one that ends in `*` stands for all that begin so and have no row of their own. */
  readonly names: readonly string[]
  readonly verdict: 'used' | 'no effect' | 'refused'
  /** Used: as what. No effect: after "has no effect: ". Refused: why, and what to do instead. */
  readonly note: string
}

const row = (verdict: KafkaOptionRow['verdict'], names: string, note: string): KafkaOptionRow => ({
  names: names.split(' '),
  verdict,
  note,
})

const logins = 'logins are PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512, by kafka.sasl.mechanism and kafka.sasl.jaas.config'

/** Every name of the consumer of kafka-clients 3.9, and those that later ones added. */
export const kafkaOptionRows: readonly KafkaOptionRow[] = [
  row('used', 'bootstrap.servers', 'the brokers to ask first, `host:port`, comma-separated; required'),
  row('used', 'client.id', 'names the client towards the brokers; before `group.id` and `groupIdPrefix`'),
  row('used', 'group.id', 'names the client, with a notice: there is no group, and no right on one is needed'),
  row('used', 'isolation.level', '`read_uncommitted` (default) or `read_committed`, in any case'),
  row(
    'used',
    'max.partition.fetch.bytes',
    'bytes of one fetch, 4 MiB (Java: 1 MiB); a larger record comes all the same'
  ),
  row('used', 'fetch.max.bytes', 'the same limit from above, 50 MiB'),
  row('used', 'fetch.max.wait.ms', 'how long a broker without data may wait, 500'),
  row('used', 'request.timeout.ms', 'for one answer, 30000; then it is asked for again'),
  row(
    'used',
    'socket.connection.setup.timeout.ms',
    'for TCP, TLS and login together, 10000; then the next address is tried'
  ),
  row('used', 'security.protocol', '`PLAINTEXT` (default), `SSL`, `SASL_PLAINTEXT`, `SASL_SSL`'),
  row('used', 'sasl.mechanism', '`PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`; others are refused by name'),
  row('used', 'sasl.jaas.config', 'user and password, in the quoting styles of Kafka; never logged or stored'),
  row('used', 'ssl.truststore.certificates', 'PEM certificates; line breaks may be lost. Default: those of Node.js'),
  row(
    'used',
    'ssl.keystore.certificate.chain ssl.keystore.key',
    "the client's certificate and PKCS#8 key as PEM; both or none"
  ),
  row('used', 'ssl.key.password', 'of an encrypted `ssl.keystore.key`'),
  row('used', 'ssl.truststore.type ssl.keystore.type', '`PEM` alone (Java: JKS)'),
  row('used', 'ssl.endpoint.identification.algorithm', '`https` (default), or empty: the host name is not checked'),

  row('no effect', 'allow.auto.create.topics', 'looking at a topic never creates it'),
  row('no effect', 'check.crcs', 'checksums are always checked'),
  row('no effect', 'exclude.internal.topics', 'internal topics are always left out'),
  row('no effect', 'fetch.min.bytes', 'a range never waits for data beyond its end'),
  row('no effect', 'client.rack', 'a range is read from its leader'),
  row('no effect', 'client.dns.lookup bootstrap.resolve.timeout.ms', 'names are resolved by Node.js'),
  row(
    'no effect',
    'connections.max.idle.ms',
    'connections live as long as the run, or the warm function, that needs them; idle ones five minutes'
  ),
  row(
    'no effect',
    'default.api.timeout.ms',
    "'kafkaConsumer.pollTimeoutMs' and 'fetchOffset.numRetries' bound the waits"
  ),
  row(
    'no effect',
    'metadata.max.age.ms metadata.recovery.strategy metadata.recovery.rebootstrap.trigger.ms metadata.cluster.check.enable',
    'metadata is asked for with every plan and after every failure, from any broker that answers'
  ),
  row(
    'no effect',
    'retry.backoff.ms retry.backoff.max.ms reconnect.backoff.ms reconnect.backoff.max.ms socket.connection.setup.timeout.max.ms',
    'pauses between attempts are those of the source'
  ),
  row('no effect', 'receive.buffer.bytes send.buffer.bytes', "socket buffers are the operating system's"),
  row('no effect', 'max.poll.records max.poll.interval.ms', 'there is no poll loop'),
  row(
    'no effect',
    'group.instance.id group.protocol group.remote.assignor partition.assignment.strategy heartbeat.interval.ms session.timeout.ms',
    'there is no consumer group'
  ),
  row('no effect', 'auto.commit.interval.ms', 'nothing is committed to Kafka'),
  row(
    'no effect',
    'metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms enable.metrics.push auto.include.jmx.reporter',
    "progress is the source's measurement"
  ),

  ...Object.entries(refusedKafkaKeys).map(([name, note]) => row('refused', name, note)),
  row('refused', 'sasl.oauthbearer.*', `OAUTHBEARER is not available; ${logins}`),
  row('refused', 'sasl.kerberos.*', `Kerberos is not available; ${logins}`),
  row('refused', 'sasl.login.* sasl.client.callback.handler.class', `Java classes cannot be loaded; ${logins}`),
  row(
    'refused',
    'ssl.truststore.location ssl.truststore.password',
    'trust stores are not read from files; give the certificates as PEM text in kafka.ssl.truststore.certificates'
  ),
  row(
    'refused',
    'ssl.keystore.location ssl.keystore.password',
    'key stores are not read from files; give PEM text in kafka.ssl.keystore.certificate.chain and kafka.ssl.keystore.key'
  ),
  row(
    'refused',
    'ssl.protocol ssl.enabled.protocols ssl.cipher.suites',
    'TLS 1.2 and 1.3 are negotiated with the ciphers of Node.js'
  ),
  row(
    'refused',
    'ssl.provider ssl.engine.factory.class ssl.keymanager.algorithm ssl.trustmanager.algorithm ssl.secure.random.implementation security.providers',
    'it configures the Java TLS engine'
  ),
  row('refused', 'config.providers*', "write '{{env:NAME}}' where a value is a secret"),
  row('refused', 'share.*', 'there is no share group: positions are those of the log'),
]

const exact = new Map(kafkaOptionRows.flatMap((one) => one.names.map((name) => [name, one] as const)))
const prefixes = [...exact]
  .filter(([name]) => name.endsWith('*'))
  .map(([name, one]) => [name.slice(0, -1), one] as const)
const suggested = [...exact.keys()].filter((name) => exact.get(name)?.verdict !== 'refused')

/**
 * @param name lower-cased, without the `kafka.` prefix.
 * @returns a notice for the user, where the setting has no effect
 * @throws OPTION_NOT_SUPPORTED for a name of Kafka that is not available, OPTION_UNKNOWN with the nearest known name.
 */
export function judgeKafkaOption(name: string): string | null {
  const found = exact.get(name) ?? prefixes.find(([prefix]) => name.startsWith(prefix))?.[1]
  if (found === undefined) {
    const nearest = nearestName(name, suggested)
    throw new SluiceError('OPTION_UNKNOWN', {
      option: `kafka.${name}`,
      nearest: nearest === null ? null : `kafka.${nearest}`,
    })
  }
  if (found.verdict === 'refused') throw new SluiceError('OPTION_NOT_SUPPORTED', { option: name, reason: found.note })
  return found.verdict === 'used' ? null : `Option 'kafka.${name}' has no effect: ${found.note}.`
}
