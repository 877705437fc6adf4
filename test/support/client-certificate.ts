/** A certificate of a client with its key, made anew for each run. */
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

export interface ClientCertificate {
  /** PEM. */
  readonly certificate: string
  /** PEM, PKCS#8. */
  readonly key: string
  /** The same key, encrypted with the password. */
  readonly encryptedKey: string
}

export async function makeClientCertificate(commonName: string, password: string): Promise<ClientCertificate> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-client-'))
  const [key, encrypted, certificate] = ['key', 'encrypted', 'certificate'].map((name) => join(folder, `${name}.pem`))
  if (key === undefined || encrypted === undefined || certificate === undefined) throw new Error('three names')
  try {
    const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
    const subject = ['-subj', `/CN=${commonName}`, '-days', '30']
    await run('openssl', ['req', '-x509', ...curve, ...subject, '-keyout', key, '-out', certificate])
    await run('openssl', ['pkcs8', '-topk8', '-in', key, '-out', encrypted, '-passout', `pass:${password}`])
    const [keyText, encryptedText, certificateText] = await Promise.all(
      [key, encrypted, certificate].map((file) => readFile(file, 'utf8'))
    )
    return { key: keyText ?? '', encryptedKey: encryptedText ?? '', certificate: certificateText ?? '' }
  } finally {
    await rm(folder, { recursive: true })
  }
}
