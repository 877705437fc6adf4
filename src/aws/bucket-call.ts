/** One call to the bucket: it takes the abort signal, and every failure has one name. */
import type { S3Client } from '@aws-sdk/client-s3'
import { SluiceError, isSluiceError, reasonOf } from '../errors.ts'

/** One object as the commands name it, and as messages do. */
export interface S3Object {
  readonly client: S3Client
  readonly Bucket: string
  readonly Key: string
  /** s3://bucket/key */
  readonly address: string
}

type Send<T> = (options: { readonly abortSignal: AbortSignal }) => Promise<T>

/**
 * Sends one command about an s3:// address. OBJECT_STORE_FAILED leaves open whether a write took place.
 * @throws ABORTED, OBJECT_STORE_REFUSED, OBJECT_STORE_FAILED
 */
export async function callBucket<T>(address: string, signal: AbortSignal, send: Send<T>): Promise<T> {
  try {
    return await askBucket(address, signal, send)
  } catch (e) {
    throw unexpected(address, e)
  }
}

/** As `callBucket`; null where the key does not exist. */
export async function callOrNull<T>(address: string, signal: AbortSignal, send: Send<T>): Promise<T | null> {
  try {
    return await askBucket(address, signal, send)
  } catch (e) {
    if (answerOf(e) === 'absent') return null
    throw unexpected(address, e)
  }
}

/** As `callBucket`, but what tells something about the key (404, 409, 412) stays the client's error: see `answerOf`. */
export async function askBucket<T>(object: string, signal: AbortSignal, send: Send<T>): Promise<T> {
  const aborted = (cause?: unknown) => new SluiceError('ABORTED', { step: `Access to ${object}` }, cause)
  if (signal.aborted) throw aborted()
  try {
    return await send({ abortSignal: signal })
  } catch (e) {
    throw signal.aborted ? aborted(e) : conditionOf(object, e)
  }
}

export type KeyAnswer = 'absent' | 'exists' | 'conflict'

/** What a failure of `askBucket` says about the key; null for every other failure. */
export function answerOf(e: unknown): KeyAnswer | null {
  switch (isSluiceError(e) ? undefined : statusOf(e)) {
    case 404:
      return 'absent'
    case 409:
      return 'conflict'
    case 412:
      return 'exists'
    default:
      return null
  }
}

/** A key's answer that was not expected where it came: a failure like any other. */
export const unexpected = (object: string, e: unknown): SluiceError =>
  isSluiceError(e) ? e : new SluiceError('OBJECT_STORE_FAILED', { object, reason: sentence(e) }, e)

const rights = 'Grant s3:ListBucket on the bucket and s3:GetObject and s3:PutObject on its objects.'

function conditionOf(object: string, e: unknown): unknown {
  const name = e instanceof Error ? e.name : ''
  const refuse = (reason: string, remedy: string) => new SluiceError('OBJECT_STORE_REFUSED', { object, reason, remedy })
  if (name === 'NoSuchBucket')
    return refuse('the bucket does not exist', "Create it, or correct the bucket's name and the endpoint.")
  if (name === 'PermanentRedirect' || statusOf(e) === 301)
    return refuse('the bucket lies in another region', "Set the client's region to that of the bucket.")
  // Messages about signatures can quote the signed request, which holds a session token: neither they nor the cause are kept.
  if (name === 'ExpiredToken') return refuse('the session of the credentials has expired', 'Renew the credentials.')
  if (name === 'InvalidAccessKeyId' || name === 'SignatureDoesNotMatch' || name === 'InvalidToken')
    return refuse(`the credentials are not valid (${name})`, 'Check the access key, its secret and the session token.')
  if (name === 'CredentialsProviderError')
    return refuse('no credentials were found', 'Set credentials, a profile or a role.')
  if (statusOf(e) === 401 || statusOf(e) === 403) return refuse('access is denied', rights)
  return answerOf(e) === null ? unexpected(object, e) : e
}

function statusOf(e: unknown): number | undefined {
  if (!(e instanceof Error) || !('$metadata' in e)) return undefined
  const metadata = e.$metadata
  if (typeof metadata !== 'object' || metadata === null || !('httpStatusCode' in metadata)) return undefined
  return typeof metadata.httpStatusCode === 'number' ? metadata.httpStatusCode : undefined
}

const sentence = (e: unknown): string => {
  const text = reasonOf(e) || (e instanceof Error ? e.name : '')
  return text.replace(/\.$/, '')
}
