/** `kafka.ssl.*` as options of Node's TLS: trusted certificates and the client's own, both PEM text. */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import type { ConnectionOptions } from 'node:tls'
import { SluiceError } from '../errors.ts'

type Settings = Readonly<Record<string, string>>

const CHAIN = 'ssl.keystore.certificate.chain'
const KEY = 'ssl.keystore.key'

/** @throws OPTION_INVALID, OPTION_CONFLICT, OPTION_NOT_SUPPORTED; no message holds a value. */
export function tlsSettings(kafka: Settings): ConnectionOptions {
  refuseOtherStores(kafka)
  const algorithm = (kafka['ssl.endpoint.identification.algorithm'] ?? 'https').trim().toLowerCase()
  if (algorithm !== 'https' && algorithm !== '')
    throw new SluiceError('OPTION_INVALID', {
      option: 'kafka.ssl.endpoint.identification.algorithm',
      reason: `'${algorithm}' is neither 'https' nor empty (no check of the host name)`,
    })
  const trusted = kafka['ssl.truststore.certificates']
  const common = {
    minVersion: 'TLSv1.2',
    ...(trusted === undefined ? {} : { ca: certificatesOf(trusted, 'ssl.truststore.certificates') }),
  } as const
  const client = clientCertificate(kafka)
  return {
    // As a context the private key is in no settings that are printed.
    ...(client === null ? common : { secureContext: createSecureContext({ ...common, ...client }) }),
    ...(algorithm === '' ? { checkServerIdentity: () => undefined } : {}),
  }
}

function refuseOtherStores(kafka: Settings): void {
  for (const [option, instead] of [
    ['ssl.truststore.type', 'the certificates as PEM text in kafka.ssl.truststore.certificates'],
    ['ssl.keystore.type', `PEM text in kafka.${CHAIN} and kafka.${KEY}`],
  ] as const) {
    const type = (kafka[option] ?? 'PEM').trim().toUpperCase()
    if (type !== 'PEM')
      throw new SluiceError('OPTION_NOT_SUPPORTED', { option, reason: `${type} stores are not read; give ${instead}` })
  }
}

/** The certificate that the broker is shown, with its key; null without. */
function clientCertificate(kafka: Settings): { cert: string; key: string } | null {
  const [chain, key, password] = [kafka[CHAIN], kafka[KEY], kafka['ssl.key.password']]
  if (chain === undefined && key === undefined && password === undefined) return null
  if (chain === undefined || key === undefined)
    throw new SluiceError('OPTION_CONFLICT', {
      options: `kafka.${CHAIN}, kafka.${KEY}, kafka.ssl.key.password`,
      reason: "a client's certificate needs its chain and its key; the password is that of the key",
    })
  const certificates = certificatesOf(chain, CHAIN)
  const privateKey = privateKeyOf(key, password)
  if (!new X509Certificate(certificates[0] ?? '').checkPrivateKey(privateKey))
    throw new SluiceError('OPTION_CONFLICT', {
      options: `kafka.${CHAIN}, kafka.${KEY}`,
      reason: "the key is not that of the first certificate, which must be the client's own",
    })
  return { cert: certificates.join(''), key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString() }
}

function privateKeyOf(text: string, password: string | undefined): KeyObject {
  const invalid = (reason: string): never => {
    throw new SluiceError('OPTION_INVALID', { option: `kafka.${KEY}`, reason })
  }
  const [pem] = pemBlocks(text, '(?:ENCRYPTED )?PRIVATE KEY')
  if (pem === undefined) return invalid('it holds no PEM private key (BEGIN PRIVATE KEY, as PKCS#8)')
  try {
    return createPrivateKey({ key: pem, format: 'pem', ...(password === undefined ? {} : { passphrase: password }) })
  } catch {
    return invalid(
      pem.includes('ENCRYPTED')
        ? `it cannot be read with ${password === undefined ? 'no' : 'this'} kafka.ssl.key.password`
        : 'the key in it cannot be read'
    )
  }
}

function certificatesOf(text: string, name: string): string[] {
  const option = `kafka.${name}`
  const blocks = pemBlocks(text, 'CERTIFICATE')
  if (blocks.length === 0)
    throw new SluiceError('OPTION_INVALID', { option, reason: 'it holds no PEM certificate (BEGIN CERTIFICATE)' })
  for (const [index, block] of blocks.entries()) {
    try {
      void new X509Certificate(block)
    } catch {
      throw new SluiceError('OPTION_INVALID', { option, reason: `certificate ${index + 1} in it cannot be read` })
    }
  }
  return blocks
}

/** PEM blocks with their line breaks restored: configuration files and environments often lose them. */
const pemBlocks = (text: string, label: string): string[] =>
  [
    ...text
      .replaceAll('\\n', '\n')
      .matchAll(new RegExp(`-----BEGIN (${label})-----([\\s\\S]+?)-----END (?:${label})-----`, 'g')),
  ].map(([, found = '', body = '']) => {
    const lines = body.replaceAll(/\s+/g, '').match(/.{1,64}/g) ?? []
    return `-----BEGIN ${found}-----\n${lines.join('\n')}\n-----END ${found}-----\n`
  })
