/** What a run says about its options, once. */
import { expect, test } from 'vitest'
import { defineQuery, deltaTable, kafka, Trigger } from '../src/index.ts'
import { optionsOf } from '../src/runtime.ts'
import { planStep } from '../src/steps.ts'
import { world } from './support/world.ts'

const options = {
  'kafka.bootstrap.servers': 'memory:1',
  subscribe: 't',
  'kafka.group.id': 'g',
  'kafka.fetch.min.bytes': 1,
  'kafka.max.poll.records': 10,
} as const

test("an option without effect is told with the query's other warnings", () => {
  const query = defineQuery({ name: 'q', source: kafka(options), sink: deltaTable('t') })
  expect(optionsOf(query).warnings).toEqual([
    expect.stringContaining("'kafka.group.id' only names the client"),
    "Option 'kafka.fetch.min.bytes' has no effect: a range never waits for data beyond its end.",
    "Option 'kafka.max.poll.records' has no effect: there is no poll loop.",
  ])
})

test('functions tell them with the first plan of a run, and not again with its others or its continuations', async () => {
  const w = world({ t: [1] })
  const batch = w.process({ options: { 'kafka.group.id': 'g' } })
  const told: string[] = []
  const signal = new AbortController().signal
  const plan = (event: object) =>
    planStep({ batch, trigger: Trigger.availableNow() }, { execution: 'run', input: {}, ...event }, signal, (text) =>
      told.push(text)
    )
  await plan({})
  expect(told).toEqual([expect.stringContaining('kafka.group.id')])
  await plan({ entries: 60 })
  await plan({ execution: 'run-1', input: { run: 'run', part: 1 } })
  expect(told).toHaveLength(1)
})
