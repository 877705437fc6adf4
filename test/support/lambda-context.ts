/** What the platform hands to a handler beside its event. */
import type { Context } from 'aws-lambda'

export const lambdaContext = (remainingMs = 60_000): Context => ({
  callbackWaitsForEmptyEventLoop: true,
  functionName: 'function',
  functionVersion: '$LATEST',
  invokedFunctionArn: 'arn:aws:lambda:us-east-1:123456789012:function:function',
  memoryLimitInMB: '512',
  awsRequestId: 'request',
  logGroupName: 'group',
  logStreamName: 'stream',
  getRemainingTimeInMillis: () => remainingMs,
  done: () => {},
  fail: () => {},
  succeed: () => {},
})

/** What the platform makes of a failure, and the state machine keeps: Error is `errorType`, Cause the whole text. */
export const failureText = (error: unknown): string => {
  if (!(error instanceof Error)) throw new TypeError('a handler fails with an Error')
  return JSON.stringify({ errorType: error.name, errorMessage: error.message, trace: error.stack?.split('\n') })
}
