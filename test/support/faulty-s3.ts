import { S3Client } from '@aws-sdk/client-s3'
import { ministackClient } from './ministack.ts'

/** One attempt at a command: the client's own retries count too. */
export type S3Fault = (step: { readonly attempt: number; readonly send: () => Promise<unknown> }) => Promise<unknown>

export const newS3Client = (endpoint: string): S3Client =>
  new S3Client({ ...ministackClient, endpoint, forcePathStyle: true })

/** A client that sends each attempt at `command` through `fault`: below its own retries, where a network would fail. */
export function faultyS3Client(endpoint: string, command: string, fault: S3Fault): S3Client {
  const client = newS3Client(endpoint)
  let attempt = 0
  client.middlewareStack.add(
    (next, context) => async (args) => {
      if (context.commandName !== command) return next(args)
      const answer = await fault({ attempt: ++attempt, send: () => next(args) })
      return answer as Awaited<ReturnType<typeof next>>
    },
    { step: 'finalizeRequest', name: 'fault', priority: 'low' }
  )
  return client
}

/** An answer that did not come. */
export const lostAnswer = (): Error =>
  Object.assign(new Error('socket hang up'), { name: 'TimeoutError', code: 'ECONNRESET' })
