/**
 * The query's state machine run in process: its definition by aws-local-stepfunctions, its functions by the real steps, each
 * call in a process of its own. Names, inputs and "already exists" are as in an account; payloads go over the wire as JSON.
 */
import { StateMachine } from 'aws-local-stepfunctions'
import type { StateMachineDefinition } from 'aws-local-stepfunctions'
import { stateMachineDefinition } from '../../cdk/state-machine.ts'
import type { BatchContext } from '../../src/context.ts'
import { commitStep, planStep, workStep } from '../../src/steps.ts'
import type { StartInput, StepContext } from '../../src/steps.ts'
import type { Trigger } from '../../src/trigger.ts'

const functions = { planner: 'planner', worker: 'worker', committer: 'committer' }

export const definition = stateMachineDefinition({ ...functions, maxConcurrency: 40 })

/** The package's type knows no `null` paths; its validator does. */
export const machineOf = (asl: unknown): StateMachine => new StateMachine(asl as StateMachineDefinition)

const machine = machineOf(definition)
const oneAtATime = machineOf(stateMachineDefinition({ ...functions, maxConcurrency: 1 }))

type Running = ReturnType<StateMachine['run']>
export type HistoryEvent = Running['eventLogs'] extends AsyncGenerator<infer E> ? E : never

export type TaskState = 'Plan' | 'Worker' | 'Commit' | 'Release' | 'Continue'

/** One call of a function, or of StartExecution, as it is about to be made. */
export interface Call {
  readonly state: TaskState
  readonly execution: string
  /** What the function gets. */
  readonly payload: Record<string, unknown>
  /** How often this state was called in this execution with this payload, this call included. */
  readonly attempt: number
}

export type Step = (context: StepContext, event: unknown, signal: AbortSignal) => Promise<unknown>

export interface SetUp {
  readonly trigger: Trigger
  process(): BatchContext
  /** In place of the worker's step. */
  readonly work?: Step
  /** Workers one after the other. */
  readonly oneAtATime?: boolean
  /** Before each call: what it throws happens instead of the call. */
  before?(call: Call): void | Promise<void>
  /** What a function answered, before the state machine goes on. */
  after?(call: Call, answer: unknown): void | Promise<void>
}

export interface ExecutionResult {
  readonly name: string
  readonly input: unknown
  readonly status: 'SUCCEEDED' | 'FAILED' | 'ABORTED'
  /** Of the last state. */
  readonly output: unknown
  readonly error: string | null
  readonly cause: string | null
  readonly events: readonly HistoryEvent[]
  /** Every call's payload and answer, and every state's input and output: bytes of the largest one. */
  readonly largestPayload: number
}

export interface Execution {
  readonly result: Promise<ExecutionResult>
  abort(): void
}

export interface Account {
  /** Starts an execution as a schedule or a hand does; the name is made up where none is given. */
  start(input?: StartInput | string, name?: string): Execution
  run(input?: StartInput | string, name?: string): Promise<ExecutionResult>
  /** All executions in the order of their starts, continuations among them, once every one has ended. */
  settled(): Promise<ExecutionResult[]>
}

export const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value) ?? '')

export const namedError = (name: string, message = 'made by the test'): Error =>
  Object.assign(new Error(message), { name })

export function stepFunctions(setUp: SetUp): Account {
  const executions = new Map<string, Execution>()
  const { signal } = new AbortController()

  function start(input: StartInput | string = {}, name = `tick-${executions.size}`): Execution {
    if (executions.has(name)) throw namedError('StepFunctions.ExecutionAlreadyExistsException', `${name} exists`)
    let largest = 0
    const wire = <T>(value: T): T => {
      largest = Math.max(largest, bytesOf(value))
      return JSON.parse(JSON.stringify(value ?? null)) as T // what a function sees is a copy
    }
    const attempts = new Map<string, number>()
    const announce = async (state: TaskState, payload: Record<string, unknown>): Promise<Call> => {
      const key = `${state} ${JSON.stringify(payload)}`
      const attempt = (attempts.get(key) ?? 0) + 1
      attempts.set(key, attempt)
      const call = { state, execution: name, payload, attempt }
      await setUp.before?.(call)
      return call
    }
    const calling = (state: TaskState, step: Step) => async (request: unknown) => {
      const { Payload } = wire(request as { Payload: Record<string, unknown> }) // by the definition's Parameters
      const call = await announce(state, Payload)
      const answer = await step({ batch: setUp.process(), trigger: setUp.trigger }, Payload, signal)
      await setUp.after?.(call, answer)
      return wire({ ExecutedVersion: '$LATEST', Payload: answer as null, StatusCode: 200 })
    }
    const goOn = async (request: unknown) => {
      const { Name, Input } = wire(request as { Name: string; Input: StartInput }) // by the definition's Parameters
      await announce('Continue', { name: Name, input: Input })
      start(Input, Name)
      return { ExecutionArn: `arn:aws:states:us-east-1:123456789012:execution:query:${Name}` }
    }
    const running = (setUp.oneAtATime ? oneAtATime : machine).run(JSON.parse(JSON.stringify(input)) as null, {
      context: { Execution: { Id: `arn:${name}`, Name: name }, StateMachine: { Id: 'arn:machine' } },
      overrides: {
        taskResourceLocalHandlers: {
          Plan: calling('Plan', planStep),
          Worker: calling('Worker', setUp.work ?? workStep),
          Commit: calling('Commit', commitStep),
          Release: calling('Release', planStep),
          Continue: goOn,
        },
        waitTimeOverrides: { Wait: 0, Pause: 0 },
        retryIntervalOverrides: { Plan: 0, Worker: 0, Commit: 0, Release: 0, Continue: [0, 0] },
      },
    })
    running.result.catch(() => {}) // told by the events
    const result = collect(running.eventLogs).then((events) => ({
      name,
      input,
      ...endOf(events),
      events,
      largestPayload: Math.max(largest, ...statePayloads(events).map(bytesOf)),
    }))
    const execution = { result, abort: () => running.abort() }
    executions.set(name, execution)
    return execution
  }

  return {
    start,
    run: (input, name) => start(input, name).result,
    async settled() {
      const results: ExecutionResult[] = []
      for (const { result } of executions.values()) results.push(await result) // also those that are added meanwhile
      return results
    },
  }
}

async function collect(log: AsyncGenerator<HistoryEvent>): Promise<HistoryEvent[]> {
  const events: HistoryEvent[] = []
  for await (const event of log) events.push(event)
  return events
}

function endOf(events: readonly HistoryEvent[]): Pick<ExecutionResult, 'status' | 'output' | 'error' | 'cause'> {
  const last = events.at(-1)
  const nothing = { output: null, error: null, cause: null }
  switch (last?.type) {
    case 'ExecutionSucceeded':
      return { ...nothing, status: 'SUCCEEDED', output: last.output }
    case 'ExecutionFailed':
      return { ...nothing, status: 'FAILED', error: last.Error, cause: String(last.Cause) }
    default:
      return { ...nothing, status: 'ABORTED' }
  }
}

/** Inputs and outputs of states, and what a Map collects before its path drops it. */
function statePayloads(events: readonly HistoryEvent[]): unknown[] {
  const payloads: unknown[] = []
  let collected: unknown[] = []
  for (const event of events) {
    if ('state' in event) payloads.push(event.state.input, event.state.output ?? null)
    if (event.type === 'MapIterationSucceeded' && 'output' in event) collected.push(event.output)
    if (event.type === 'StateExited' && event.state.type === 'Map') {
      payloads.push(collected)
      collected = []
    }
  }
  return payloads
}

/**
 * Entries of an execution's history as an account counts them against 25,000, at the most: a task's attempt is scheduled,
 * started, and succeeded or failed; a Map is started and ended beside its iterations; a state is entered and exited.
 */
export function historyEntries(events: readonly HistoryEvent[]): number {
  const of = (event: HistoryEvent): number => {
    const type = 'state' in event ? event.state.type : null
    if (event.type === 'StateEntered') return type === 'Task' ? 3 : type === 'Map' ? 2 : 1
    if (event.type === 'StateExited') return type === 'Task' || type === 'Map' ? 2 : 1
    return event.type === 'StateRetried' ? 2 : 1
  }
  return events.reduce((sum, event) => sum + of(event), 0)
}

/** How often a state was entered. */
export const entered = (events: readonly HistoryEvent[], state: string): number =>
  events.filter((event) => event.type === 'StateEntered' && event.state.name === state).length

export const retried = (events: readonly HistoryEvent[], state: string): number =>
  events.filter((event) => event.type === 'StateRetried' && event.state.name === state).length
