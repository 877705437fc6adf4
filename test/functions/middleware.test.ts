/** The boundary of the three functions: types, names of failures, sizes, the deadline, what is printed. */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, expectTypeOf, it, vi } from 'vitest'
import { handler as committer } from '../../functions/committer.ts'
import { functionOf, reportProgress } from '../../functions/middleware.ts'
import { handler as planner } from '../../functions/planner.ts'
import { handler as worker } from '../../functions/worker.ts'
import { SluiceError } from '../../src/errors.ts'
import { commitStep, planStep, workStep } from '../../src/steps.ts'
import type { CommitStepOutcome, PlanStepOutcome, StepContext } from '../../src/steps.ts'
import flights from '#query'
import { startTestTable } from '../support/dynamodb.ts'
import type { TestTable } from '../support/dynamodb.ts'
import { failureText, lambdaContext } from '../support/lambda-context.ts'
import { world } from '../support/world.ts'
import type { World } from '../support/world.ts'

/** What is printed, by line. */
let printed: string[]
beforeEach(() => {
  printed = []
  const keep = (text: string | Uint8Array): boolean => printed.push(...String(text).trimEnd().split('\n')) > 0
  vi.spyOn(process.stdout, 'write').mockImplementation(keep)
  vi.spyOn(process.stderr, 'write').mockImplementation(keep)
})
afterEach(() => {
  vi.restoreAllMocks()
  vi.unstubAllEnvs()
})

const linesWith = (text: string): Record<string, unknown>[] =>
  printed.filter((line) => line.includes(text)).map((line) => JSON.parse(line) as Record<string, unknown>)

type Step<R> = (context: StepContext, event: unknown, signal: AbortSignal) => Promise<R>

/** A function over a world; `closed` tells when it dropped its connections. */
function functionOn<R>(w: World, step: Step<R>, closed: () => void = () => {}) {
  const open = () => ({ context: async () => w.process(), close: async () => closed() })
  return functionOf('worker', flights, open, step)
}

const failureOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    (answer) => expect.fail(`it answered ${JSON.stringify(answer)}`),
    (error: unknown) => error
  )

describe('the functions', () => {
  it.each(['planner', 'worker', 'committer'])('%s has under 15 lines', (name) => {
    const file = join(import.meta.dirname, '../../functions', `${name}.ts`)
    expect(readFileSync(file, 'utf8').trimEnd().split('\n').length).toBeLessThan(15)
  })

  it('take what the state machine sends and answer what their step answers', () => {
    expectTypeOf(planner).parameter(0).toBeUnknown()
    expectTypeOf<Awaited<ReturnType<typeof planner>>>().toEqualTypeOf<PlanStepOutcome>()
    expectTypeOf<Awaited<ReturnType<typeof worker>>>().toEqualTypeOf<null>()
    expectTypeOf<Awaited<ReturnType<typeof committer>>>().toEqualTypeOf<CommitStepOutcome>()
  })

  it('run their step, and keep what they opened', async () => {
    const w = world({ t: [4] })
    const closed = vi.fn<() => void>()
    const event = { execution: 'run', input: {}, entries: 0, waits: 0 }
    expect(await functionOn(w, planStep, closed)(event, lambdaContext())).toMatchObject({ kind: 'work', tasks: [0] })
    expect(closed).not.toHaveBeenCalled()
  })
})

describe('a failure', () => {
  it('keeps the name of its condition, is logged once, and everything is closed', async () => {
    const closed = vi.fn<() => void>()
    const failing = functionOn(world({ t: [4] }), workStep, closed)
    const failure = await failureOf(failing({ task: 0 }, lambdaContext()))
    expect(JSON.parse(failureText(failure))).toMatchObject({
      errorType: 'EVENT_MALFORMED',
      errorMessage: expect.stringContaining("'message' is not a JSON object"),
    })
    expect(linesWith('step failed')).toMatchObject([
      { level: 'ERROR', query: 'flights', step: 'worker', error: { name: 'EVENT_MALFORMED' } },
    ])
    expect(closed).toHaveBeenCalledTimes(1)
  })

  it.each(['x', 'é', '\u{1F600}', '\u0000'])(
    'B55: of a long text (%j) is cut to what a state can hold; the log has all of it',
    async (letter) => {
      const reason = `${letter.repeat(1_000_000)} the end`
      const failing = functionOn(world({ t: [4] }), async () => {
        throw new SluiceError('OBJECT_STORE_FAILED', { object: 'o', reason })
      })
      const text = failureText(await failureOf(failing({}, lambdaContext())))
      expect(JSON.parse(text)).toMatchObject({
        errorType: 'OBJECT_STORE_FAILED',
        errorMessage: expect.stringMatching(/^Object o: .*\.\.\. \(cut\)$/su),
      })
      expect(Buffer.byteLength(text)).toBeLessThan(262_144 / 4) // a state holds it beside its own input
      expect(linesWith('step failed')).toMatchObject([{ error: { message: expect.stringContaining('the end') } }])
    }
  )

  it('that is no Error becomes one', async () => {
    const failing = functionOn(world({ t: [4] }), () => Promise.reject('a text')) // eslint-disable-line prefer-promise-reject-errors
    expect(await failureOf(failing({}, lambdaContext()))).toMatchObject({ name: 'Error', message: 'a text' })
  })
})

describe('the deadline', () => {
  /** The step is at work when it fires: three seconds before the platform's. */
  const remaining = lambdaContext(3050)

  it('P20: stops the read, and the function settles only when its step has unwound and its connections are gone', async () => {
    const w = world({ t: [9] })
    const { message } = await planned(w)
    const order: string[] = []
    let fired: Promise<unknown> = Promise.resolve()
    w.kafka.before = async (operation) => {
      if (operation !== 'read t-0 3') return
      await fired
      await new Promise((resolve) => setImmediate(resolve)) // whoever did not wait for the step would be done by now
      order.push('unwound')
    }
    const reading: Step<null> = (context, event, signal) => {
      fired = once(signal, 'abort').then(() => order.push('fired'))
      return workStep(context, event, signal)
    }
    const failure = await failureOf(functionOn(w, reading, () => order.push('closed'))({ message, task: 0 }, remaining))
    expect(order).toEqual(['fired', 'unwound', 'closed'])
    expect(failure).toMatchObject({
      name: 'STEP_OUT_OF_TIME',
      retryable: true,
      message: expect.stringContaining('The worker did not finish within 0 s'),
      cause: { name: 'ABORTED' },
    })
    expect([w.log.get('query@1/reports/0')?.size, w.table.objects.size]).toEqual([0, 0])
    expect([...(w.log.get('query@1/attempts/0')?.keys() ?? [])]).toEqual(['000000/000000/1']) // that it began counts (P14)
  })

  it('P14: comes near: a worker reports what it has read, the rest is planned again', async () => {
    const w = world({ t: [9] })
    const { message } = await planned(w)
    w.clock.stepMs = 20_000 // a minute is three looks at the clock
    expect(await functionOn(w, workStep)({ message, task: 0 }, lambdaContext(60_000))).toBe(null)
    w.clock.stepMs = 1
    const [report] = [...(w.log.get('query@1/reports/0')?.values() ?? [])].map(({ entry }): unknown =>
      JSON.parse(entry)
    )
    expect(report).toMatchObject({ kind: 'split', done: { ranges: [{ from: 0, until: 3 }] } })
    expect((await planned(w)).tasks).toEqual([1, 2, 3, 4])
  })

  it('that has passed already lets nothing begin', async () => {
    const w = world({ t: [4] })
    const late: Step<unknown> = async (context, event, signal) => {
      if (!signal.aborted) await once(signal, 'abort')
      return planStep(context, event, signal)
    }
    const failure = await failureOf(functionOn(w, late)({ execution: 'run' }, lambdaContext(0)))
    expect(failure).toMatchObject({ name: 'STEP_OUT_OF_TIME' })
    expect([[...w.log], w.lease.holder]).toEqual([[], null])
  })

  it('does not rename a failure of another kind', async () => {
    const failing: Step<never> = async (_context, _event, signal) => {
      await once(signal, 'abort')
      throw new SluiceError('LOG_TABLE_MISSING', { table: 'logs' })
    }
    const failure = await failureOf(functionOn(world({ t: [4] }), failing)({}, remaining))
    expect(failure).toMatchObject({ name: 'LOG_TABLE_MISSING' })
  })

  it('leaves no timer behind a step that was in time', async () => {
    const before = timers()
    await functionOn(world({ t: [4] }), planStep)({ execution: 'run' }, lambdaContext(900_000))
    expect(timers()).toBe(before)
  })
})

const timers = (): number => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length

async function planned(w: World) {
  const context = { batch: w.process(), trigger: flights.trigger }
  const outcome = await planStep(context, { execution: 'run' }, new AbortController().signal)
  if (outcome.kind !== 'work') throw new Error(`not planned: ${outcome.kind}`)
  return outcome
}

describe('a committed batch', () => {
  it('is a log line and metrics', async () => {
    const w = world({ t: [4] })
    const { message } = await planned(w)
    await functionOn(w, workStep)({ message, task: 0 }, lambdaContext())
    printed.length = 0
    const committing = functionOn(w, (context, event, signal) => commitStep(context, event, signal, reportProgress))
    expect(await committing({ message }, lambdaContext())).toMatchObject({ kind: 'done', reason: 'committed' })
    const [line] = linesWith('batch committed')
    expect(line).toMatchObject({ level: 'INFO', query: 'flights', batchId: 0 })
    expect(JSON.parse(String(line?.['progress']))).toMatchObject({ batchId: 0, numInputRows: 4 })
    const [emf, ...more] = linesWith('_aws')
    expect(more).toEqual([])
    expect(emf).toMatchObject({
      _aws: { CloudWatchMetrics: [{ Namespace: 'sluice', Dimensions: [['service', 'query']] }] },
      query: 'query',
      numInputRows: 4,
      offsetsBehindLatest: 0,
      dataLoss: 0,
    })
  })

  it('is the only thing that has metrics, and lines are JSON', async () => {
    const w = world({ t: [4] })
    const { message } = await planned(w)
    await functionOn(w, workStep)({ message, task: 0 }, lambdaContext())
    await failureOf(functionOn(w, workStep)({}, lambdaContext()))
    expect(linesWith('_aws')).toEqual([])
    expect(linesWith('').map((line) => line['level'])).toEqual(['ERROR'])
  })
})

describe('the environment', () => {
  let table: TestTable
  beforeAll(async () => {
    table = await startTestTable()
  })
  afterAll(() => table.close())

  const message = { runId: 'run', batchId: 0, token: 1, triggerMs: 1, replay: false, availableNow: false }
  const functions = {
    planner: () => planner({ execution: 'run' }, lambdaContext()),
    worker: () => worker({ message, task: 0 }, lambdaContext()),
    committer: () => committer({ message }, lambdaContext()),
  }
  const all = Object.entries(functions)

  const deployed = (overrides: Record<string, string> = {}): void => {
    const variables = {
      AWS_ENDPOINT_URL_DYNAMODB: table.endpoint,
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'test',
      AWS_SECRET_ACCESS_KEY: 'test',
      SLUICE_TABLE: table.table,
      SLUICE_BUCKET: 'warehouse',
      SLUICE_LEASE_MS: '60000',
      SLUICE_BROKERS: '127.0.0.1:1',
      SLUICE_TOPIC: 'flights',
      ...overrides,
    }
    for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value)
  }

  it.each(['SLUICE_TABLE', 'SLUICE_BUCKET', 'SLUICE_LEASE_MS'])('without %s is named by each', async (variable) => {
    deployed({ [variable]: '' })
    for (const [, call] of all)
      expect(await failureOf(call())).toMatchObject({ name: 'FUNCTION_MISCONFIGURED', parameters: { variable } })
  })

  it.each(all)('with a table that does not exist is named by the %s', async (_name, call) => {
    deployed({ SLUICE_TABLE: 'nowhere' })
    expect(await failureOf(call())).toMatchObject({
      name: 'LOG_TABLE_MISSING',
      message: expect.stringContaining('nowhere'),
    })
  })

  it.each([
    ['worker', functions.worker],
    ['committer', functions.committer],
  ])('with a table that does not know the query is named by the %s, which begins none', async (_name, call) => {
    deployed()
    expect(await failureOf(call())).toMatchObject({
      name: 'QUERY_NOT_IN_LOG',
      parameters: { query: 'flights', table: table.table },
    })
    expect(await table.keys('')).toEqual([])
  })

  it('with an option that is wrong is named before anything is begun', async () => {
    deployed({ SLUICE_BROKERS: 'nonsense' })
    expect(await failureOf(functions.planner())).toMatchObject({ name: 'OPTION_INVALID' })
    expect(await table.keys('')).toEqual([])
  })
})
