/** One call to the state table: it takes the abort signal, and every failure has one name. */
import { SluiceError, isSluiceError, reasonOf } from '../errors.ts'

/** What every command is sent with. */
export interface SendOptions {
  readonly abortSignal: AbortSignal
}

/**
 * Sends one command. `step` says what it does, as in "Reading orders@1/offsets/7".
 *
 * A failed condition is an answer: it passes through as the client's ConditionalCheckFailedException
 * (`isConditionFailed`). LOG_STORE_UNREACHABLE leaves open whether a write took place.
 * @throws ABORTED, LOG_TABLE_MISSING, LOG_STORE_DENIED, LOG_TABLE_UNUSABLE, LOG_STORE_UNREACHABLE
 */
export async function callTable<T>(
  table: string,
  step: string,
  signal: AbortSignal,
  send: (options: SendOptions) => Promise<T>
): Promise<T> {
  if (signal.aborted) throw new SluiceError('ABORTED', { step })
  try {
    return await send({ abortSignal: signal })
  } catch (e) {
    throw signal.aborted ? new SluiceError('ABORTED', { step }, e) : conditionOf(table, step, e)
  }
}

export const isConditionFailed = (e: unknown): boolean =>
  e instanceof Error && e.name === 'ConditionalCheckFailedException'

/** Whether a write that failed like this may have taken place all the same. */
export const isOutcomeUnknown = (e: unknown): boolean => !isSluiceError(e) || e.name === 'LOG_STORE_UNREACHABLE'

// Their messages can quote the signed request, whose headers hold a session token: neither message nor cause is kept.
const signatureErrors = new Map([
  ['UnrecognizedClientException', 'the access key is not known'],
  ['InvalidSignatureException', 'the secret key does not fit the access key'],
  ['IncompleteSignatureException', 'the request is not signed'],
  ['MissingAuthenticationTokenException', 'the request is not signed'],
  ['MissingAuthenticationToken', 'the request is not signed'],
  ['ExpiredTokenException', 'the session has expired'],
])

const throttlingErrors = new Set([
  'ThrottlingException',
  'ProvisionedThroughputExceededException',
  'RequestLimitExceeded',
  'LimitExceededException',
])

function conditionOf(table: string, step: string, e: unknown): unknown {
  if (!(e instanceof Error) || isConditionFailed(e)) return e
  const signature = signatureErrors.get(e.name)
  if (signature !== undefined) return new SluiceError('LOG_STORE_DENIED', { table, step, reason: signature })
  switch (e.name) {
    case 'AccessDeniedException':
    case 'CredentialsProviderError':
      return new SluiceError('LOG_STORE_DENIED', { table, step, reason: sentence(e) }, e)
    case 'ResourceNotFoundException':
      return new SluiceError('LOG_TABLE_MISSING', { table }, e)
    case 'ValidationException':
      return new SluiceError('LOG_TABLE_UNUSABLE', { table, step, reason: sentence(e) }, e)
    default:
      if (throttlingErrors.has(e.name))
        return new SluiceError('LOG_STORE_UNREACHABLE', { table, step, reason: `throttled (${e.name})` }, e)
      return isFromTransport(e) ? new SluiceError('LOG_STORE_UNREACHABLE', { table, step, reason: sentence(e) }, e) : e
  }
}

/** The service's errors state a fault, undecodable answers carry the answer, the system's errors have a code. */
const isFromTransport = (e: Error): boolean =>
  '$fault' in e ||
  '$response' in e ||
  e.name === 'TimeoutError' ||
  ('code' in e && typeof e.code === 'string' && !e.code.startsWith('ERR_')) // those are Node's refusals of arguments

const sentence = (e: Error): string => {
  const text = reasonOf(e) || ('code' in e ? String(e.code) : e.name)
  return text.replace(/\.$/, '')
}
