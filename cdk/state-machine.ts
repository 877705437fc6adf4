/**
 * The state machine of a query, in JSONPath: Plan -> Work (a Map over task numbers) -> Commit -> Plan while there is more. On its
 * state travel pointers into the log alone, so that no payload comes near the limit of 256 KB.
 */
import { errorConditions } from '../src/errors.ts'

/** What the template puts in for the functions' ARNs. */
export interface StateMachineParts {
  readonly planner: string
  readonly worker: string
  readonly committer: string
  /** Workers at a time; an inline Map runs at most 40. */
  readonly maxConcurrency: number
}

/** Conditions that can pass by themselves, by the names that the functions' errors carry. */
const passing = Object.entries(errorConditions).flatMap(([name, { retryable }]) => (retryable ? [name] : []))

/** The platform's own passing failures, a killed process among them: each step finds what it did before. */
const platform = [
  'Lambda.ClientExecutionTimeoutException',
  'Lambda.ServiceException',
  'Lambda.AWSLambdaException',
  'Lambda.SdkClientException',
  'Lambda.TooManyRequestsException',
  'Lambda.Unknown',
  'Runtime.ExitError',
  'Sandbox.Timedout',
]

/** 3 repeats: the history's budget in src/steps.ts counts on it. */
const repeat = { IntervalSeconds: 2, BackoffRate: 2, MaxAttempts: 3, JitterStrategy: 'FULL' }
const retry = [{ ErrorEquals: [...passing, ...platform], ...repeat }]
const alreadyExists = 'StepFunctions.ExecutionAlreadyExistsException'
const caught = [{ ErrorEquals: ['States.ALL'], ResultPath: '$.failure', Next: 'Release' }]
const invoke = { Type: 'Task', Resource: 'arn:aws:states:::lambda:invoke', Retry: retry }
const kindIs = (variable: string, kind: string, next: string) => ({
  Variable: variable,
  StringEquals: kind,
  Next: next,
})
const start = { 'execution.$': '$$.Execution.Name', 'input.$': '$$.Execution.Input' }

export const stateMachineDefinition = ({ planner, worker, committer, maxConcurrency }: StateMachineParts) => ({
  Comment: 'One run of a query: planner, workers and committer until there is nothing more to do',
  StartAt: 'Begin',
  States: {
    Begin: { Type: 'Pass', Parameters: { entries: 0, waits: 0 }, Next: 'Plan' },
    Plan: {
      ...invoke,
      Parameters: { FunctionName: planner, Payload: { ...start, 'entries.$': '$.entries', 'waits.$': '$.waits' } },
      OutputPath: '$.Payload',
      Catch: caught,
      Next: 'Planned',
    },
    Planned: {
      Type: 'Choice',
      Choices: [
        kindIs('$.kind', 'work', 'Work'),
        kindIs('$.kind', 'wait', 'Wait'),
        kindIs('$.kind', 'continue', 'Continue'),
      ],
      Default: 'Done',
    },
    Wait: { Type: 'Wait', SecondsPath: '$.seconds', Next: 'Plan' },
    Work: {
      Type: 'Map',
      ItemsPath: '$.tasks',
      MaxConcurrency: maxConcurrency,
      ItemSelector: { 'message.$': '$.message', 'task.$': '$$.Map.Item.Value' },
      ItemProcessor: {
        ProcessorConfig: { Mode: 'INLINE' },
        StartAt: 'Worker',
        States: {
          Worker: {
            ...invoke,
            Parameters: { FunctionName: worker, 'Payload.$': '$' },
            ResultSelector: {}, // reports are in the log
            End: true,
          },
        },
      },
      ResultPath: null,
      Catch: caught,
      Next: 'Commit',
    },
    Commit: {
      ...invoke,
      Parameters: { FunctionName: committer, Payload: { 'message.$': '$.message' } },
      ResultSelector: { 'kind.$': '$.Payload.kind', 'reason.$': '$.Payload.reason', 'seconds.$': '$.Payload.seconds' },
      ResultPath: '$.commit',
      Catch: caught,
      Next: 'Committed',
    },
    Committed: {
      Type: 'Choice',
      Choices: [kindIs('$.commit.kind', 'again', 'Plan'), kindIs('$.commit.kind', 'pause', 'Pause')],
      Default: 'Done',
    },
    // To the next boundary of an interval under a minute.
    Pause: { Type: 'Wait', SecondsPath: '$.commit.seconds', Next: 'Plan' },
    Continue: {
      Type: 'Task',
      Resource: 'arn:aws:states:::states:startExecution',
      Parameters: { 'StateMachineArn.$': '$$.StateMachine.Id', 'Name.$': '$.name', 'Input.$': '$.input' },
      // Starting the same execution again finds it, so any failure may be tried again; but a taken name stays taken.
      Retry: [
        { ErrorEquals: [alreadyExists], MaxAttempts: 0 },
        { ErrorEquals: ['States.TaskFailed'], ...repeat },
      ],
      // Somebody continued the run already: success (P18).
      Catch: [{ ErrorEquals: [alreadyExists], ResultPath: null, Next: 'Done' }, ...caught],
      ResultPath: null,
      Next: 'Done',
    },
    Done: { Type: 'Succeed' },
    Release: {
      ...invoke,
      Parameters: { FunctionName: planner, Payload: { ...start, release: true } },
      ResultPath: null,
      // The lease then runs out by itself; the failure that led here is what the execution ends with.
      Catch: [{ ErrorEquals: ['States.ALL'], ResultPath: null, Next: 'Failed' }],
      Next: 'Failed',
    },
    Failed: { Type: 'Fail', ErrorPath: '$.failure.Error', CausePath: '$.failure.Cause' },
  },
})
