import { X509Certificate } from 'node:crypto'
import { rootCertificates } from 'node:tls'
import { inspect } from 'node:util'
import { beforeAll, describe, expect, test } from 'vitest'
import { addressText, connectionSettings } from '../../src/kafka/connection-settings.ts'
import { SluiceError } from '../../src/errors.ts'
import type { ConnectionSettings } from '../../src/kafka/connection-settings.ts'
import { judgeKafkaOption, kafkaOptionRows } from '../../src/kafka/kafka-options.ts'
import { makeClientCertificate, type ClientCertificate } from '../support/client-certificate.ts'
import { refusal } from '../support/wire-batches.ts'
import consumerConfig from './consumer-config.json' with { type: 'json' }

const settings = (kafka: Record<string, string> = {}): ConnectionSettings =>
  connectionSettings({ 'bootstrap.servers': 'a:9092', ...kafka }, 'sluice')
const refused = (kafka: Record<string, string>) => refusal(() => settings(kafka))
const plainLogin = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="pw-secret";'
const sasl = { 'security.protocol': 'SASL_SSL', 'sasl.mechanism': 'PLAIN', 'sasl.jaas.config': plainLogin }

describe('the defaults', () => {
  test('are documented ones', () => {
    expect(settings()).toMatchObject({
      bootstrap: [{ host: 'a', port: 9092 }],
      clientId: 'sluice',
      tls: null,
      sasl: null,
      setupTimeoutMs: 10_000,
      requestTimeoutMs: 30_000,
      fetchBytes: 4 * 1024 * 1024,
      fetchMaxWaitMs: 500,
    })
  })

  test.each([
    [{ 'max.partition.fetch.bytes': '1024' }, { fetchBytes: 1024 }],
    [{ 'fetch.max.bytes': '2048' }, { fetchBytes: 2048 }],
    [{ 'fetch.max.bytes': '100000000' }, { fetchBytes: 4 * 1024 * 1024 }],
    [{ 'max.partition.fetch.bytes': '100000000' }, { fetchBytes: 50 * 1024 * 1024 }],
    [{ 'max.partition.fetch.bytes': '0' }, { fetchBytes: 1 }],
    [{ 'fetch.max.wait.ms': '0' }, { fetchMaxWaitMs: 0 }],
    [{ 'request.timeout.ms': ' 5 ' }, { requestTimeoutMs: 5 }],
    [{ 'socket.connection.setup.timeout.ms': '300' }, { setupTimeoutMs: 300 }],
    [{ 'client.id': 'mine' }, { clientId: 'mine' }],
  ])('%j changes them', (kafka, expected) => {
    expect(settings(kafka as Record<string, string>)).toMatchObject(expected)
  })
})

describe('the brokers', () => {
  test.each([
    ['a:1,b:2', ['a:1', 'b:2']],
    [' a:1 , ,b-1.x_y.example:9094,', ['a:1', 'b-1.x_y.example:9094']],
    ['[::1]:9092,PLAINTEXT://c:3', ['[::1]:9092', 'c:3']],
  ])('%j', (list, expected) => {
    expect(settings({ 'bootstrap.servers': list }).bootstrap.map(addressText)).toEqual(expected)
  })

  test.each(['', ' , ', 'a', 'a:', 'a:0', 'a:65536', 'a:x', ':9092', 'a b:1'])('%j is refused', (list) => {
    const error = refused({ 'bootstrap.servers': list })
    expect(error).toMatchObject({ name: 'OPTION_INVALID', parameters: { option: 'kafka.bootstrap.servers' } })
  })
})

describe('security', () => {
  test.each([
    ['PLAINTEXT', false, false],
    ['ssl', true, false],
    ['SASL_PLAINTEXT', false, true],
    ['sasl_ssl', true, true],
  ])('%s', (protocol, tls, login) => {
    const found = settings({ ...sasl, 'security.protocol': protocol })
    expect([found.tls !== null, found.sasl !== null]).toEqual([tls, login])
  })

  test.each([
    ['PLAIN', 'plain.PlainLoginModule'],
    ['SCRAM-SHA-256', 'scram.ScramLoginModule'],
    ['scram-sha-512', 'scram.ScramLoginModule'],
  ])('%s takes its login from %s', (mechanism, module) => {
    const jaas = `org.apache.kafka.common.security.${module} required username="u" password="p";`
    const found = settings({ ...sasl, 'sasl.mechanism': mechanism, 'sasl.jaas.config': jaas })
    expect(found.sasl?.mechanism).toBe(mechanism.toUpperCase())
    expect(found.sasl?.credentials()).toEqual({ username: 'u', password: 'p' })
  })

  test.each([
    [{ 'security.protocol': 'TLS' }, 'OPTION_INVALID', 'kafka.security.protocol'],
    [{ ...sasl, 'sasl.mechanism': 'GSSAPI' }, 'OPTION_NOT_SUPPORTED', 'Kerberos'],
    [{ ...sasl, 'sasl.mechanism': 'OAUTHBEARER' }, 'OPTION_NOT_SUPPORTED', 'OAUTHBEARER'],
    [{ ...sasl, 'sasl.mechanism': 'AWS_MSK_IAM' }, 'OPTION_NOT_SUPPORTED', 'AWS_MSK_IAM'],
    [{ ...sasl, 'sasl.mechanism': 'SCRAM-SHA-512' }, 'OPTION_CONFLICT', 'ScramLoginModule'],
    [{ ...sasl, 'sasl.jaas.config': 'PlainLoginModule required username="u";' }, 'OPTION_INVALID', "no 'password'"],
    [{ ...sasl, 'sasl.jaas.config': 'PlainLoginModule' }, 'OPTION_INVALID', 'kafka.sasl.jaas.config'],
    [{ 'ssl.truststore.location': '/x.jks' }, 'OPTION_NOT_SUPPORTED', 'ssl.truststore.certificates'],
    [{ ...sasl, 'ssl.truststore.type': 'PKCS12' }, 'OPTION_NOT_SUPPORTED', 'PKCS12'],
    [{ 'ssl.keystore.location': '/x.p12' }, 'OPTION_NOT_SUPPORTED', 'ssl.keystore.certificate.chain'],
    [{ ...sasl, 'ssl.keystore.type': 'JKS' }, 'OPTION_NOT_SUPPORTED', 'JKS stores are not read'],
    [{ 'ssl.protocol': 'TLSv1.3' }, 'OPTION_NOT_SUPPORTED', 'ssl.protocol'],
    [{ 'ssl.engine.factory.class': 'X' }, 'OPTION_NOT_SUPPORTED', 'Java TLS'],
    [{ 'sasl.login.class': 'X' }, 'OPTION_NOT_SUPPORTED', 'sasl.login.class'],
    [{ ...sasl, 'ssl.truststore.certificates': 'none' }, 'OPTION_INVALID', 'BEGIN CERTIFICATE'],
    [{ ...sasl, 'ssl.endpoint.identification.algorithm': 'x' }, 'OPTION_INVALID', 'host name'],
    [{ 'request.timeout.ms': '1e3' }, 'OPTION_INVALID', 'kafka.request.timeout.ms'],
    [{ 'request.timeout.ms': '0' }, 'OPTION_INVALID', 'from 1 to'],
    [{ 'fetch.max.bytes': '-1' }, 'OPTION_INVALID', 'kafka.fetch.max.bytes'],
    [{ 'fetch.max.bytes': '2147483648' }, 'OPTION_INVALID', 'kafka.fetch.max.bytes'],
  ])('%j is refused', (kafka, condition, words) => {
    const error = refused(kafka)
    expect([error.name, error.message]).toEqual([condition, expect.stringContaining(words)])
  })

  test('without a mechanism Kafka would take Kerberos: refused', () => {
    const { 'sasl.mechanism': _none, ...rest } = sasl
    expect(refused(rest).message).toContain('without it Kafka takes GSSAPI (Kerberos)')
  })

  test('the password is in no printed settings and is taken out of foreign texts, B58', () => {
    const found = settings(sasl)
    expect(inspect(found, { depth: 10, showHidden: true })).not.toContain('pw-secret')
    expect(JSON.stringify(found)).not.toContain('pw-secret')
    const forms = ['pw-secret', Buffer.from('pw-secret').toString('base64')]
    expect(found.redact(`the broker said ${forms.join(' and ')}`)).toBe('the broker said *** and ***')
    const odd = settings({ ...sasl, 'sasl.jaas.config': `PlainLoginModule required username=u password="a b&c";` })
    expect(odd.redact('GET /?p=a%20b%26c')).toBe('GET /?p=***')
  })

  test('certificates come as PEM text, with or without their line breaks', () => {
    const [one = '', two = ''] = rootCertificates
    const forms = [`${one}\n${two}`, `${one} ${two}`.replaceAll('\n', ' '), `${one}\n${two}`.replaceAll('\n', '\\n')]
    for (const text of forms) {
      const { tls } = settings({ ...sasl, 'ssl.truststore.certificates': text })
      const read = [tls?.ca ?? []].flat().map((pem) => new X509Certificate(pem).fingerprint256)
      expect(read).toEqual([one, two].map((pem) => new X509Certificate(pem).fingerprint256))
    }
    const broken = one.replace('MI', 'XX')
    expect(refused({ ...sasl, 'ssl.truststore.certificates': broken }).message).toContain('certificate 1')
  })

  test('the host name is checked unless the algorithm is empty', () => {
    const check = (algorithm?: string): unknown =>
      settings({ ...sasl, ...(algorithm === undefined ? {} : { 'ssl.endpoint.identification.algorithm': algorithm }) })
        .tls?.checkServerIdentity
    expect([check(), check('HTTPS')]).toEqual([undefined, undefined])
    expect(check('')).toBeTypeOf('function')
    expect(settings(sasl).tls?.rejectUnauthorized).toBeUndefined()
  })
})

describe("a client's certificate", () => {
  const [chain, key, password] = ['ssl.keystore.certificate.chain', 'ssl.keystore.key', 'ssl.key.password'] as const
  const tls = { 'security.protocol': 'SSL' }
  let own: ClientCertificate
  let other: ClientCertificate
  beforeAll(async () => {
    const made = ['one', 'two'].map((name) => makeClientCertificate(name, 'key-secret'))
    ;[own, other] = (await Promise.all(made)) as [ClientCertificate, ClientCertificate]
  })

  test('is PEM text with its key, plain or encrypted, with or without line breaks', () => {
    for (const given of [
      { [chain]: own.certificate, [key]: own.key },
      { [chain]: own.certificate, [key]: own.encryptedKey, [password]: 'key-secret' },
      { [chain]: own.certificate.replaceAll('\n', ' '), [key]: own.key.replaceAll('\n', '\\n') },
    ])
      expect(settings({ ...tls, ...given, 'ssl.keystore.type': 'pem' }).tls?.secureContext).toBeDefined()
  })

  test('is refused where a part is missing or wrong, without a word of the key', () => {
    const whole = { ...tls, [chain]: own.certificate, [key]: own.encryptedKey }
    for (const [kafka, condition, words] of [
      [{ ...tls, [chain]: own.certificate }, 'OPTION_CONFLICT', 'its chain and its key'],
      [{ ...tls, [key]: own.key }, 'OPTION_CONFLICT', 'its chain and its key'],
      [{ ...tls, [password]: 'key-secret' }, 'OPTION_CONFLICT', 'its chain and its key'],
      [whole, 'OPTION_INVALID', 'with no kafka.ssl.key.password'],
      [{ ...whole, [password]: 'wrong-secret' }, 'OPTION_INVALID', 'with this kafka.ssl.key.password'],
      [{ ...whole, [key]: 'wrong-secret' }, 'OPTION_INVALID', 'BEGIN PRIVATE KEY'],
      [{ ...whole, [key]: own.key.replace('MI', 'XX') }, 'OPTION_INVALID', 'cannot be read'],
      [{ ...whole, [key]: other.key }, 'OPTION_CONFLICT', 'not that of the first certificate'],
      [{ ...whole, [chain]: own.key, [key]: own.key }, 'OPTION_INVALID', 'BEGIN CERTIFICATE'],
    ] as const) {
      const error = refused(kafka)
      expect([error.name, error.message]).toEqual([condition, expect.stringContaining(words)])
      for (const secret of ['secret', ...own.key.split('\n').slice(1, 3)]) expect(error.message).not.toContain(secret)
    }
  })

  test('leaves no key in printed settings, B58', () => {
    const found = settings({ ...tls, [chain]: own.certificate, [key]: own.encryptedKey, [password]: 'key-secret' })
    for (const text of [inspect(found, { depth: 10, showHidden: true }), JSON.stringify(found)]) {
      expect(text).not.toContain('key-secret')
      expect(text).not.toContain(own.key.split('\n')[1])
    }
  })
})

describe('names', () => {
  const javaNames = [...consumerConfig['3.9.2'], ...consumerConfig['addedBy4.4.0']]
  const tableNames = kafkaOptionRows.flatMap((row) => row.names)
  const isPrefixOf = (pattern: string, name: string): boolean =>
    pattern.endsWith('*') && name.startsWith(pattern.slice(0, -1))

  /** What becomes of a name, without a value. */
  function judged(name: string): string {
    try {
      const notice = judgeKafkaOption(name)
      return notice === null ? 'used' : notice.replace(/^(Option 'kafka\.[\w.]+' has no effect): .{9,}\.$/, '$1')
    } catch (error) {
      return error instanceof SluiceError ? error.name : String(error)
    }
  }

  test('of the Java consumer are each used, without effect by a notice, or refused with a reason', () => {
    const expected = javaNames.map((name) => {
      const row =
        kafkaOptionRows.find(({ names }) => names.includes(name)) ??
        kafkaOptionRows.find(({ names }) => names.some((n) => isPrefixOf(n, name)))
      if (row?.verdict === 'no effect') return `Option 'kafka.${name}' has no effect`
      return row?.verdict === 'refused' ? 'OPTION_NOT_SUPPORTED' : (row?.verdict ?? 'in no row')
    })
    expect(javaNames.map(judged)).toEqual(expected)
  })

  test('of the table are names of the Java consumer, each once', () => {
    expect(new Set(tableNames).size).toBe(tableNames.length)
    expect(tableNames.filter((n) => !javaNames.some((name) => n === name || isPrefixOf(n, name)))).toEqual([])
  })

  test('that are used without their protocol are told', () => {
    const given = { 'ssl.truststore.certificates': 'x', 'sasl.mechanism': 'PLAIN', 'fetch.min.bytes': '1' }
    expect(settings(given).notices).toEqual([
      "Option 'kafka.fetch.min.bytes' has no effect: a range never waits for data beyond its end.",
      "Option 'kafka.ssl.truststore.certificates' has no effect: kafka.security.protocol is PLAINTEXT, as it is not set.",
      "Option 'kafka.sasl.mechanism' has no effect: kafka.security.protocol is PLAINTEXT, as it is not set.",
    ])
    expect(settings(sasl).notices).toEqual([])
  })

  test.each([
    ['securty.protocol', 'kafka.security.protocol'],
    ['bootstrap.server', 'kafka.bootstrap.servers'],
    ['something.else.entirely', null],
  ])('%s is unknown, nearest %s', (name, nearest) => {
    expect(refused({ [name]: 'x' })).toMatchObject({
      name: 'OPTION_UNKNOWN',
      parameters: { option: `kafka.${name}`, nearest },
    })
  })
})
