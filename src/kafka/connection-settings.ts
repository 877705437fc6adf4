/**
 * The `kafka.*` options of a query, under the names of Kafka's Java consumer, as settings of our client
 * (spark-semantics 9). Every key is used, accepted without a counterpart, or refused by name.
 */
import type { ConnectionOptions } from 'node:tls'
import { SluiceError } from '../errors.ts'
import { JaasSyntaxError, parseJaas, type JaasConfig } from './jaas.ts'
import { judgeKafkaOption } from './kafka-options.ts'
import { tlsSettings } from './tls-settings.ts'

export interface BrokerAddress {
  readonly host: string
  readonly port: number
}

export type SaslMechanism = 'PLAIN' | 'SCRAM-SHA-256' | 'SCRAM-SHA-512'

export interface SaslSettings {
  readonly mechanism: SaslMechanism
  /** A function, so that no printed or serialised settings show the password. */
  credentials(): { readonly username: string; readonly password: string }
}

export interface ConnectionSettings {
  /** In the order in which they are tried. */
  readonly bootstrap: readonly BrokerAddress[]
  readonly clientId: string
  /** null: no TLS. */
  readonly tls: ConnectionOptions | null
  readonly sasl: SaslSettings | null
  /** Milliseconds for TCP, TLS, the version question and the login together; then the next address is tried. */
  readonly setupTimeoutMs: number
  /** Milliseconds for one answer. */
  readonly requestTimeoutMs: number
  /** Bytes asked for in one fetch; a single larger record batch still comes whole. */
  readonly fetchBytes: number
  /** Milliseconds that a broker without data may wait. */
  readonly fetchMaxWaitMs: number
  /** For the user: what was given and has no effect. */
  readonly notices: readonly string[]
  /** Takes secrets out of a text that came from elsewhere. */
  redact(text: string): string
}

/** Decided by measurement: at 1 ms of network, 4 MiB reads 1.8 times as fast as Kafka's default of 1 MiB. */
const DEFAULT_PARTITION_BYTES = 4 * 1024 * 1024
const DEFAULT_FETCH_MAX_BYTES = 50 * 1024 * 1024
const MAX_INT32 = 0x7fffffff

/**
 * @param kafka lower-cased names without the `kafka.` prefix, values as given.
 * @param defaultClientId used where `client.id` is not given.
 * @throws OPTION_INVALID, OPTION_NOT_SUPPORTED, OPTION_UNKNOWN; no message holds a value that may be a secret.
 */
export function connectionSettings(
  kafka: Readonly<Record<string, string>>,
  defaultClientId: string
): ConnectionSettings {
  const notices = Object.keys(kafka).flatMap((name) => judgeKafkaOption(name) ?? [])
  const { useTls, useSasl } = securityProtocol(kafka)
  notices.push(...unusedSecurity(kafka, { useTls, useSasl }))
  const sasl = useSasl ? saslSettings(kafka) : null
  const partitionBytes = wholeNumber(kafka, 'max.partition.fetch.bytes', DEFAULT_PARTITION_BYTES, 0)
  const fetchMaxBytes = wholeNumber(kafka, 'fetch.max.bytes', DEFAULT_FETCH_MAX_BYTES, 0)
  return {
    bootstrap: bootstrapAddresses(kafka['bootstrap.servers']),
    clientId: kafka['client.id'] ?? defaultClientId,
    tls: useTls ? tlsSettings(kafka) : null,
    sasl,
    setupTimeoutMs: wholeNumber(kafka, 'socket.connection.setup.timeout.ms', 10_000, 1),
    requestTimeoutMs: wholeNumber(kafka, 'request.timeout.ms', 30_000, 1),
    fetchBytes: Math.max(1, Math.min(partitionBytes, fetchMaxBytes)),
    fetchMaxWaitMs: wholeNumber(kafka, 'fetch.max.wait.ms', 500, 0),
    notices,
    redact: redactor(sasl),
  }
}

export const addressText = ({ host, port }: BrokerAddress): string =>
  host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`

function bootstrapAddresses(list: string | undefined): BrokerAddress[] {
  const option = 'kafka.bootstrap.servers'
  const entries = (list ?? '')
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '')
  if (entries.length === 0)
    throw new SluiceError('OPTION_INVALID', { option, reason: 'must be specified as host:port' })
  return entries.map((entry) => {
    const found = /^(?:[\w.%-]*:\/\/)?(?:\[([\w:.%-]+)\]|([\w.%-]+)):(\d{1,5})$/.exec(entry)
    const [host, port] = [found?.[1] ?? found?.[2] ?? '', Number(found?.[3])]
    if (found === null || port < 1 || port > 65_535)
      throw new SluiceError('OPTION_INVALID', { option, reason: `'${entry}' is not host:port` })
    return { host, port }
  })
}

function securityProtocol(kafka: Readonly<Record<string, string>>): { useTls: boolean; useSasl: boolean } {
  const protocol = (kafka['security.protocol'] ?? 'PLAINTEXT').trim().toUpperCase()
  if (!['PLAINTEXT', 'SSL', 'SASL_PLAINTEXT', 'SASL_SSL'].includes(protocol))
    throw new SluiceError('OPTION_INVALID', {
      option: 'kafka.security.protocol',
      reason: `'${protocol}' is not one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL`,
    })
  return { useTls: protocol.endsWith('SSL'), useSasl: protocol.startsWith('SASL_') }
}

/** A store or a login that the protocol leaves out is most likely a forgotten protocol. */
function unusedSecurity(
  kafka: Readonly<Record<string, string>>,
  { useTls, useSasl }: { useTls: boolean; useSasl: boolean }
): string[] {
  const unused = Object.keys(kafka).filter(
    (name) => (name.startsWith('ssl.') && !useTls) || (name.startsWith('sasl.') && !useSasl)
  )
  const protocol = kafka['security.protocol'] ?? 'PLAINTEXT, as it is not set'
  return unused.map((name) => `Option 'kafka.${name}' has no effect: kafka.security.protocol is ${protocol}.`)
}

const loginModules: Readonly<Record<SaslMechanism, string>> = {
  PLAIN: 'PlainLoginModule',
  'SCRAM-SHA-256': 'ScramLoginModule',
  'SCRAM-SHA-512': 'ScramLoginModule',
}

function saslSettings(kafka: Readonly<Record<string, string>>): SaslSettings {
  const mechanism = saslMechanism(kafka['sasl.mechanism'])
  const option = 'kafka.sasl.jaas.config'
  const jaas = jaasOf(kafka['sasl.jaas.config'], option)
  if (jaas.loginModule !== loginModules[mechanism])
    throw new SluiceError('OPTION_CONFLICT', {
      options: `kafka.sasl.mechanism and ${option}`,
      reason: `mechanism ${mechanism} needs the login module ${loginModules[mechanism]}, not ${jaas.loginModule}`,
    })
  if (jaas.options.get('tokenauth') === 'true')
    throw new SluiceError('OPTION_NOT_SUPPORTED', {
      option: 'sasl.jaas.config',
      reason: 'delegation tokens are not available',
    })
  const [username, password] = [jaas.options.get('username'), jaas.options.get('password')]
  if (username === undefined || password === undefined)
    throw new SluiceError('OPTION_INVALID', { option, reason: "it holds no 'username' or no 'password'" })
  return { mechanism, credentials: () => ({ username, password }) }
}

function saslMechanism(value: string | undefined): SaslMechanism {
  const option = 'sasl.mechanism'
  const found = (value ?? 'GSSAPI').trim().toUpperCase()
  if (found === 'PLAIN' || found === 'SCRAM-SHA-256' || found === 'SCRAM-SHA-512') return found
  const instead = 'choose PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512'
  if (found === 'GSSAPI')
    throw new SluiceError('OPTION_NOT_SUPPORTED', {
      option,
      reason: `${value === undefined ? 'without it Kafka takes GSSAPI (Kerberos)' : 'GSSAPI (Kerberos)'}, which is not available; ${instead}`,
    })
  throw new SluiceError('OPTION_NOT_SUPPORTED', { option, reason: `'${found}' is not available; ${instead}` })
}

function jaasOf(text: string | undefined, option: string): JaasConfig {
  if (text === undefined)
    throw new SluiceError('OPTION_INVALID', { option, reason: 'the login needs it: username and password stand there' })
  try {
    return parseJaas(text)
  } catch (e) {
    if (!(e instanceof JaasSyntaxError)) throw e
    throw new SluiceError('OPTION_INVALID', { option, reason: e.message })
  }
}

function wholeNumber(kafka: Readonly<Record<string, string>>, name: string, preset: number, least: number): number {
  const text = kafka[name]?.trim()
  if (text === undefined) return preset
  const value = /^\d{1,10}$/.test(text) ? Number(text) : NaN
  if (!(value >= least && value <= MAX_INT32))
    throw new SluiceError('OPTION_INVALID', {
      option: `kafka.${name}`,
      reason: `it is not a whole number from ${least} to ${MAX_INT32}`, // a reference may have brought a secret here
    })
  return value
}

function redactor(sasl: SaslSettings | null): (text: string) => string {
  if (sasl === null) return (text) => text
  const { password } = sasl.credentials()
  if (password === '') return (text) => text
  const forms = [password, Buffer.from(password).toString('base64'), encodeURIComponent(password)]
  return (text) => forms.reduce((clean, form) => clean.replaceAll(form, '***'), text)
}
