/** The state machine's definition, run with the real steps over an in-memory world. */
import { describe, expect, it } from 'vitest'
import { stateMachineDefinition } from '../cdk/state-machine.ts'
import { errorConditions, SluiceError } from '../src/errors.ts'
import type { ErrorCondition } from '../src/errors.ts'
import { Trigger } from '../src/trigger.ts'
import { append, createTopic, recordsIn } from './support/fake-kafka.ts'
import { rowsOf } from './support/memory-sink.ts'
import {
  definition,
  entered,
  historyEntries,
  machineOf,
  namedError,
  retried,
  stepFunctions,
} from './support/step-functions.ts'
import type { Call, ExecutionResult, SetUp } from './support/step-functions.ts'
import { TTL_MS, world } from './support/world.ts'
import type { World } from './support/world.ts'

const MINUTE = 60_000
const everyMinute = Trigger.processingTime('1 minute')

const accountOn = (w: World, setUp: Partial<SetUp> = {}) =>
  stepFunctions({ trigger: everyMinute, process: () => w.process(), ...setUp })

const idsOf = (w: World, log: string): (number | string)[] => [...(w.log.get(`query@1/${log}`)?.keys() ?? [])]

/** Everything durable, to compare. */
const durable = (w: World) => structuredClone({ log: [...w.log], lease: w.lease, commits: w.table.commits })

/** The clock stands at a boundary and moves only when it is moved. */
function atBoundary(w: World): void {
  w.clock.time = Math.ceil(w.clock.time / MINUTE) * MINUTE
  w.clock.stepMs = 0
}

function expectRows(w: World, rows = recordsIn(w.kafka)): void {
  expect(rowsOf(w.table)).toEqual(rows)
}

const succeeded = (output: unknown) => ({ status: 'SUCCEEDED', output })
const committed = succeeded(
  expect.objectContaining({ commit: expect.objectContaining({ kind: 'done', reason: 'committed' }) })
)

describe('the definition', () => {
  it('is valid, and the check would see a wrong one', () => {
    expect(() => machineOf(definition)).not.toThrow()
    const astray = {
      ...definition,
      States: { ...definition.States, Wait: { ...definition.States.Wait, Next: 'Nowhere' } },
    }
    expect(() => machineOf(astray)).toThrow('Nowhere')
  })

  it('keeps to the language that both emulators know: JSONPath, an inline Map, no variables', () => {
    const fresh = stateMachineDefinition({ planner: 'p', worker: 'w', committer: 'c', maxConcurrency: 7 }) // running marks it
    expect(JSON.stringify(fresh)).not.toMatch(/"(QueryLanguage|Assign|Arguments|Output|ItemReader|ItemBatcher)"/)
    expect(fresh.States.Work).toMatchObject({
      MaxConcurrency: 7,
      ItemProcessor: { ProcessorConfig: { Mode: 'INLINE' } },
    })
  })

  it('catches every failure of every task on the way to Release and Failed', () => {
    const { Plan, Work, Commit, Continue, Release } = definition.States
    for (const { Catch } of [Plan, Work, Commit, Continue])
      expect(Catch.at(-1)).toEqual({ ErrorEquals: ['States.ALL'], ResultPath: '$.failure', Next: 'Release' })
    expect(Release).toMatchObject({ Next: 'Failed', Catch: [{ ErrorEquals: ['States.ALL'], Next: 'Failed' }] })
  })
})

describe('a run', () => {
  it('of a tick makes one batch and frees the lease', async () => {
    const w = world({ t: [8] }, { maxOffsetsPerTrigger: 4 })
    expect(await accountOn(w).run()).toMatchObject(committed)
    expect([idsOf(w, 'offsets'), idsOf(w, 'commits'), w.lease.holder]).toEqual([[0], [0], null])
    expect(rowsOf(w.table)).toHaveLength(4)
  })

  it('of a tick without new data writes nothing and frees the lease', async () => {
    const w = world({ t: [5, 3] })
    const account = accountOn(w)
    await account.run()
    const before = durable(w)
    expect(await account.run()).toMatchObject(succeeded({ kind: 'done', reason: 'noNewData' }))
    expect({ ...durable(w), lease: null }).toEqual({ ...before, lease: null })
    expect(w.lease.holder).toBe(null)
  })

  it('of a tick without an interval goes on while there is more', async () => {
    const w = world({ t: [8] }, { maxOffsetsPerTrigger: 4 })
    const account = accountOn(w, { trigger: Trigger.processingTime(0) })
    expect(await account.run()).toMatchObject(succeeded({ kind: 'done', reason: 'noNewData' }))
    expect([idsOf(w, 'commits'), w.lease.holder]).toEqual([[0, 1], null])
    expectRows(w)
  })

  it.each([
    ['by hand', { trigger: 'availableNow' } as const, everyMinute],
    ['by the query', {}, Trigger.availableNow()],
  ])('AvailableNow %s makes all batches to the end that its first plan froze', async (_name, input, trigger) => {
    const w = world({ t: [5, 3] }, { maxOffsetsPerTrigger: 3 })
    const there = recordsIn(w.kafka)
    const before = ({ state }: Call): void => {
      if (state === 'Commit') append(w.kafka, 't', 0, 1)
    }
    const result = await accountOn(w, { trigger, before }).run(input)
    expect(result).toMatchObject(succeeded({ kind: 'done', reason: 'noNewData' }))
    expect([idsOf(w, 'commits'), w.lease.holder]).toEqual([[0, 1, 2], null])
    expectRows(w, there)
  })
})

describe('executions that meet', () => {
  it('P19: a tick while another run holds the lease says busy, which is success, and changes nothing', async () => {
    const w = world({ t: [4] })
    const met: ExecutionResult[] = []
    const account = accountOn(w, {
      async before({ state, execution }) {
        if (state !== 'Worker') return
        const before = durable(w)
        met.push(await account.run())
        expect(durable(w)).toEqual(before)
        expect(execution).toBe('first')
      },
    })
    expect(await account.run({}, 'first')).toMatchObject(committed)
    expect(met).toMatchObject([succeeded({ kind: 'done', reason: 'busy', holder: 'first' })])
    expectRows(w)
  })

  it.each([
    ['under two names', ['a', 'b']],
    ['under one name, as two accounts', ['a', 'a']],
  ])('B40 (a): one event delivered twice at once, %s, makes one batch', async (_name, names) => {
    const w = world({ t: [4, 4] })
    const results = await Promise.all(names.map((name) => accountOn(w).run({}, name)))
    expect(results.map((r) => r.status)).toEqual(['SUCCEEDED', 'SUCCEEDED'])
    expect([idsOf(w, 'offsets'), idsOf(w, 'commits'), w.table.commits.length]).toEqual([[0], [0], 1])
    expectRows(w)
  })

  it('B40 (b): a batch of 80 s on an interval of 60 s: the second tick is busy, the third goes on', async () => {
    const w = world({ t: [4, 4] })
    atBoundary(w)
    const seen: unknown[] = []
    let ticked = false
    const account = accountOn(w, {
      oneAtATime: true,
      async before({ state, payload }) {
        if (state !== 'Worker' || ticked) return
        w.clock.time += 40_000 // each of the first batch's two workers
        if (payload['task'] !== 1) return
        ticked = true
        append(w.kafka, 't', 0, 2)
        const before = durable(w)
        seen.push((await account.run({}, 'second')).output)
        expect(durable(w)).toEqual(before)
      },
    })
    // Its own boundary has passed meanwhile, so it makes that one's batch at once (decision 5).
    expect(await account.run({}, 'first')).toMatchObject(committed)
    expect(seen).toEqual([{ kind: 'done', reason: 'busy', holder: 'first' }])
    expect([idsOf(w, 'commits'), w.lease.holder]).toEqual([[0, 1], null])
    append(w.kafka, 't', 1, 3)
    w.clock.time += 40_000
    expect(await account.run({}, 'third')).toMatchObject(committed)
    expect(idsOf(w, 'commits')).toEqual([0, 1, 2])
    expectRows(w)
  })

  it('B40 (c): the same event after the end of its run is done where the batch is in the commit log', async () => {
    const w = world({ t: [4] })
    await accountOn(w).run({}, 'event')
    const before = durable(w)
    expect(await accountOn(w).run({}, 'event')).toMatchObject(succeeded({ kind: 'done', reason: 'noNewData' }))
    expect({ ...durable(w), lease: null }).toEqual({ ...before, lease: null })
  })

  it('B40 (c): and resumes the batch where it is not', async () => {
    const w = world({ t: [4] })
    const dies = ({ state }: Call): void => {
      if (state === 'Commit') throw namedError('QUERY_INVALID')
    }
    expect(await accountOn(w, { before: dies }).run({}, 'event')).toMatchObject({ status: 'FAILED' })
    const planned = durable(w)
    expect(idsOf(w, 'commits')).toEqual([])
    expect(await accountOn(w).run({}, 'event')).toMatchObject(committed)
    expect([idsOf(w, 'offsets'), idsOf(w, 'commits')]).toEqual([[0], [0]])
    expect(new Map(planned.log).get('query@1/offsets')).toEqual(w.log.get('query@1/offsets'))
    expectRows(w)
  })

  it('P19: an execution that died is taken over by the first tick after its lease has run out', async () => {
    const w = world({ t: [4, 4] })
    const account = accountOn(w, {
      before({ state, execution, payload }) {
        if (state !== 'Worker' || execution !== 'dies' || payload['task'] !== 1) return
        dying.abort()
        throw namedError('Sandbox.Timedout')
      },
    })
    const dying = account.start({}, 'dies')
    expect(await dying.result).toMatchObject({ status: 'ABORTED' })
    const planned = structuredClone(w.log.get('query@1/offsets'))
    expect(await account.run()).toMatchObject(succeeded({ kind: 'done', reason: 'busy', holder: 'dies' }))
    w.clock.time += TTL_MS
    expect(await account.run()).toMatchObject(committed)
    expect([w.log.get('query@1/offsets'), idsOf(w, 'commits'), w.lease.holder]).toEqual([planned, [0], null])
    expectRows(w)
  })
})

describe('a run by hand that meets another', () => {
  it('P19: waits until the other one has released, then makes its batches', async () => {
    const w = world({ t: [4] })
    Object.assign(w.lease, { holder: 'other', token: 7, expiresAt: Infinity })
    const before = ({ state, payload }: Call): void => {
      if (state === 'Plan' && payload['waits'] === 3) w.lease.holder = null
    }
    const result = await accountOn(w, { before }).run({ trigger: 'availableNow' })
    expect(result).toMatchObject(succeeded({ kind: 'done', reason: 'noNewData' }))
    expect(entered(result.events, 'Wait')).toBe(3)
    expectRows(w)
  })

  it('P19: waits longer than any lease lasts, then says busy; a tick never waits', async () => {
    const w = world({ t: [4] })
    Object.assign(w.lease, { holder: 'other', token: 7, expiresAt: Infinity })
    const account = accountOn(w)
    const result = await account.run({ trigger: 'availableNow' })
    expect(result).toMatchObject(succeeded({ kind: 'done', reason: 'busy', holder: 'other' }))
    const waits = result.events.flatMap((e) =>
      e.type === 'StateEntered' && e.state.type === 'Wait' ? [secondsOf(e.state.input)] : []
    )
    const longestLease = 16 * 60 // a function runs 15 minutes at most
    expect(waits.reduce((sum, s) => sum + s, 0)).toBeGreaterThan(longestLease)
    expect(waits).toHaveLength(40)
    expect(historyEntries(result.events)).toBeLessThan(25_000)
    expect(entered((await account.run()).events, 'Wait')).toBe(0)
  })
})

const secondsOf = (input: unknown): number => (input as { seconds: number }).seconds // a state's input is JSON

describe('conditions that can pass', () => {
  const conditions = Object.keys(errorConditions) as ErrorCondition[] // the compiler knows the keys, not Object.keys
  const passing = conditions.filter((name) => errorConditions[name].retryable)
  const fatal = conditions.filter((name) => !errorConditions[name].retryable)
  const tasks = {
    Plan: definition.States.Plan,
    Worker: definition.States.Work.ItemProcessor.States.Worker,
    Commit: definition.States.Commit,
    Release: definition.States.Release,
  }

  /** The worker of task 1 fails by that name as often as said. */
  const failing =
    (name: string, times: number) =>
    ({ state, payload, attempt }: Call): void => {
      if (state === 'Worker' && payload['task'] === 1 && attempt <= times) throw namedError(name)
    }

  it.each(Object.entries(tasks))('are what %s repeats: those of the catalogue, all of them', (_name, { Retry }) => {
    expect(Retry).toHaveLength(1)
    const names = Retry.flatMap((retrier) => retrier.ErrorEquals)
    expect(names.filter((name) => !name.includes('.')).toSorted()).toEqual(passing.toSorted())
    expect(new Set(names).size).toBe(names.length)
  })

  it.each([...passing, 'Lambda.ServiceException', 'Lambda.TooManyRequestsException', 'Runtime.ExitError'])(
    '%s is repeated',
    async (name) => {
      const w = world({ t: [4, 4] })
      const result = await accountOn(w, { before: failing(name, 1) }).run()
      expect(result).toMatchObject(committed)
      expect(retried(result.events, 'Worker')).toBe(1)
      expectRows(w)
    }
  )

  it.each(fatal)('%s is not: the execution fails by its name', async (name) => {
    const w = world({ t: [4, 4] })
    const result = await accountOn(w, { before: failing(name, 1) }).run()
    expect(result).toMatchObject({ status: 'FAILED', error: name, cause: 'made by the test' })
    expect([retried(result.events, 'Worker'), entered(result.events, 'Commit')]).toEqual([0, 0])
    expect([idsOf(w, 'commits'), w.lease.holder]).toEqual([[], null])
  })

  it('are repeated three times; then the execution fails by the name and frees the lease', async () => {
    const w = world({ t: [4, 4] })
    const result = await accountOn(w, { before: failing('KAFKA_TIMEOUT', 4) }).run()
    expect(result).toMatchObject({ status: 'FAILED', error: 'KAFKA_TIMEOUT' })
    expect([retried(result.events, 'Worker'), w.lease.holder]).toEqual([3, null])
  })
})

describe('a failure', () => {
  const byHand = { trigger: 'availableNow' } as const

  it.each(['Plan', 'Worker', 'Commit'] as const)(
    'of %s is the end of the execution, by name and message, and frees the lease',
    async (state) => {
      const w = world({ t: [4] })
      const error = new SluiceError('TABLE_SCHEMA_MISMATCH', { table: 'rows', differences: 'column a is gone' })
      const before = (call: Call): void => {
        if (call.state === state) throw error
      }
      const result = await accountOn(w, { before }).run(byHand)
      expect(result).toMatchObject({ status: 'FAILED', error: 'TABLE_SCHEMA_MISMATCH', cause: error.message })
      expect([entered(result.events, 'Release'), w.lease.holder, idsOf(w, 'commits')]).toEqual([1, null, []])
    }
  )

  it('of the release as well does not hide the first one; the lease then runs out', async () => {
    const w = world({ t: [4] })
    const before = ({ state }: Call): void => {
      if (state === 'Commit') throw namedError('SINK_AHEAD_OF_LOG', 'the first')
      if (state === 'Release') throw namedError('LOG_STORE_DENIED', 'the second')
    }
    const result = await accountOn(w, { before }).run({}, 'broken')
    expect(result).toMatchObject({ status: 'FAILED', error: 'SINK_AHEAD_OF_LOG', cause: 'the first' })
    expect(w.lease.holder).toBe('broken')
  })

  it('of a run that was never let in leaves the lease to its holder', async () => {
    const w = world({ t: [4] })
    Object.assign(w.lease, { holder: 'other', token: 7, expiresAt: Infinity })
    const before = ({ state }: Call): void => {
      if (state === 'Plan') throw namedError('OPTION_INVALID')
    }
    expect(await accountOn(w, { before }).run()).toMatchObject({ status: 'FAILED', error: 'OPTION_INVALID' })
    expect(w.lease).toMatchObject({ holder: 'other', token: 7 })
  })

  it('of the event is named, whatever the execution was started with', async () => {
    const w = world({ t: [4] })
    const result = await accountOn(w).run('availableNow')
    expect(result).toMatchObject({
      status: 'FAILED',
      error: 'EVENT_MALFORMED',
      cause: expect.stringContaining("'input' is not a JSON object"),
    })
    expect([...w.log]).toEqual([])
  })

  it('of a plan by lost data leaves no offsets entry', async () => {
    const w = world({ t: [4] })
    const account = accountOn(w)
    await account.run()
    createTopic(w.kafka, 't', [9])
    expect(await account.run()).toMatchObject({
      status: 'FAILED',
      error: 'KAFKA_DATA_LOSS',
      cause: expect.stringContaining('t-0'),
    })
    expect([idsOf(w, 'offsets'), w.lease.holder]).toEqual([[0], null])
  })

  it('of a poisoned range, for ever: the batch stays, each tick tries the same one, the position never moves', async () => {
    const w = world({ t: [4, 4] })
    const poison = { topic: 't', partition: 1, offset: '3', reason: 'its checksum is wrong' }
    w.kafka.before = (operation) => {
      if (operation === 'read t-1 3') throw new SluiceError('CORRUPT_RECORD_BATCH', poison)
    }
    const account = accountOn(w)
    let plan: unknown
    for (let tick = 0; tick < 3; tick++) {
      expect(await account.run()).toMatchObject({
        status: 'FAILED',
        error: 'CORRUPT_RECORD_BATCH',
        cause: expect.stringContaining('t-1 at offset 3'),
      })
      plan ??= structuredClone(w.log.get('query@1/offsets'))
      expect([w.log.get('query@1/offsets'), idsOf(w, 'commits'), w.lease.holder]).toEqual([plan, [], null])
      append(w.kafka, 't', 0, 1)
    }
    const planned = recordsIn(w.kafka).filter((record) => Number(record.split('@')[1]) < 4)
    w.kafka.before = () => {}
    expect(await account.run()).toMatchObject(committed)
    expectRows(w, planned)
  })
})
