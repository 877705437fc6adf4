/**
 * What a query module may say. The compiler's part of the tests is checked by `tsc -p .`: a `@ts-expect-error` that nothing
 * answers to is an error itself.
 */
import { describe, expect, expectTypeOf, it } from 'vitest'
import type { KafkaRecord } from '../src/mapping.ts'
import type { SinkDefinition } from '../src/ports.ts'
import { defineQuery, isQuery, kafka } from '../src/query.ts'
import type { Query } from '../src/query.ts'
import { t } from '../src/schema.ts'
import type { Row } from '../src/schema.ts'
import { Trigger } from '../src/trigger.ts'

const source = kafka({ 'kafka.bootstrap.servers': 'a:9092', subscribe: 't' })
const sink: SinkDefinition = {
  description: 'nowhere',
  open: () => {
    throw new Error('is never opened')
  },
}
const common = { name: 'q', source, sink }
const schema = {
  id: t.string.notNull(),
  offset: t.long,
  tags: t.array(t.string),
  at: t.struct({ ms: t.long.notNull() }),
}
const row = { id: 'a', offset: 1n, tags: ['x', null], at: { ms: 1n } }

describe('types', () => {
  it('of the record and the row are inferred', () => {
    const query = defineQuery({
      ...common,
      schema,
      map: (record) => {
        expectTypeOf(record).toEqualTypeOf<KafkaRecord>()
        expectTypeOf(record.offset).toEqualTypeOf<bigint>()
        return { id: record.topic, offset: record.offset, tags: null, at: null }
      },
    })
    expectTypeOf(query).toEqualTypeOf<Query>()
    expectTypeOf<Row<typeof schema>>().toEqualTypeOf<{
      readonly id: string
      readonly offset: bigint | null
      readonly tags: readonly (string | null)[] | null
      readonly at: { readonly ms: bigint } | null
    }>()
  })

  it('let a mapping return one row, several or null', () => {
    const queries = [
      defineQuery({ ...common, schema, map: () => row }),
      defineQuery({ ...common, schema, map: () => [row, row] }),
      defineQuery({ ...common, schema, map: () => [] }),
      defineQuery({ ...common, schema, map: () => null }),
      defineQuery({ ...common, schema, map: (r) => (r.value === null ? null : row) }),
    ]
    expect(queries.every(isQuery)).toBe(true)
  })

  it('refuse a wrong column, which is all that refuses it: nothing is mapped here', () => {
    const queries = [
      // @ts-expect-error offset is a bigint
      defineQuery({ ...common, schema, map: () => ({ ...row, offset: 1 }) }),
      // @ts-expect-error id is NOT NULL
      defineQuery({ ...common, schema, map: () => ({ ...row, id: null }) }),
      // @ts-expect-error id is missing
      defineQuery({ ...common, schema, map: () => ({ offset: 1n, tags: null, at: null }) }),
      // @ts-expect-error an element is a text
      defineQuery({ ...common, schema, map: () => ({ ...row, tags: [1] }) }),
      // @ts-expect-error a field of a struct is a bigint
      defineQuery({ ...common, schema, map: () => ({ ...row, at: { ms: 1 } }) }),
      // @ts-expect-error one of several rows is wrong
      defineQuery({ ...common, schema, map: () => [row, { ...row, id: 5 }] }),
      // @ts-expect-error a mapping is synchronous
      defineQuery({ ...common, schema, map: async () => row }),
    ]
    expect(queries.every(isQuery)).toBe(true)
  })

  it('refuse schema without map, and map without schema', () => {
    // @ts-expect-error map is missing
    expect(() => defineQuery({ ...common, schema })).toThrow(/schema and map go together/)
    // @ts-expect-error schema is missing
    expect(() => defineQuery({ ...common, map: () => row })).toThrow(/schema and map go together/)
  })
})

describe('a query', () => {
  it('keeps what it was given; its options stay as they were written', () => {
    const map = (): typeof row => row
    const trigger = Trigger.availableNow()
    const query = defineQuery({ ...common, schema, map, trigger })
    expect(query).toEqual({ name: 'q', source, sink, trigger, mapping: { schema, map } })
    expect(query.source.options).toEqual({ 'kafka.bootstrap.servers': 'a:9092', subscribe: 't' })
  })

  it('without schema has the bronze columns, without trigger runs as fast as possible', () => {
    expect(defineQuery(common)).toMatchObject({ mapping: null, trigger: { kind: 'processingTime', intervalMs: 0 } })
  })

  const unchecked = defineQuery as (query: object) => Query // what a module can say that no compiler saw
  it.each<[string, object, RegExp]>([
    ['no name', { name: undefined }, /a name has 1 to 100/],
    ['an empty name', { name: '' }, /a name has 1 to 100/],
    ['a name with a slash', { name: 'a/b' }, /Query 'a\/b': a name has/],
    ['a name of 101 letters', { name: 'a'.repeat(101) }, /a name has/],
    ['bare options for a source', { source: { subscribe: 't' } }, /source is not made by kafka/],
    ['no source', { source: undefined }, /source is not made by kafka/],
    ['no sink', { sink: undefined }, /sink is not made by a sink function/],
    ['a path for a sink', { sink: 'flights' }, /sink is not made by a sink function/],
    ['a text for a trigger', { trigger: '1 minute' }, /trigger is not made by Trigger/],
    ['a trigger that was not called', { trigger: Trigger.availableNow }, /trigger is not made by Trigger/],
    ['a schema without columns', { schema: {}, map: () => null }, /schema has no column/],
    ['a text for a column', { schema: { id: 'string' }, map: () => null }, /column 'id' of its schema has no type/],
    [
      'a type that was not called',
      { schema: { id: t.array }, map: () => null },
      /column 'id' of its schema has no type/,
    ],
    ['no function for a map', { schema, map: {} }, /its map is not a function/],
    ['a field that is spelled wrongly', { triger: Trigger.availableNow() }, /no field 'triger'/],
  ])('with %s is refused', (_what, change, message) => {
    expect(() => unchecked({ ...common, ...change })).toThrow(
      expect.objectContaining({ name: 'QUERY_INVALID', message: expect.stringMatching(message) })
    )
  })

  it('is told from what merely looks like one', () => {
    expect(isQuery(defineQuery(common))).toBe(true)
    expect(isQuery({ ...defineQuery(common) })).toBe(true)
    const { mapping: _none, ...lacking } = defineQuery(common)
    for (const other of [null, undefined, 'q', [], common, { ...common, trigger: Trigger.availableNow() }, lacking])
      expect(isQuery(other)).toBe(false)
  })
})
