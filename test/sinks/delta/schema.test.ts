import { describe, expect, test } from 'vitest'
import { bronzeSchemaWithHeaders, t } from '../../../src/schema.ts'
import type { Schema } from '../../../src/schema.ts'
import { parquetSchemaOf, schemaDifferences, schemaProblem, schemaStringOf } from '../../../src/sinks/delta/schema.ts'

const schema = {
  s: t.string,
  i: t.int.notNull(),
  arr: t.array(t.struct({ key: t.string.notNull(), value: t.binary })),
} as const satisfies Schema

describe("Spark's schema JSON", () => {
  test('of scalars, arrays and structs', () => {
    const type = (name: string, of: unknown, nullable = true) => ({ name, type: of, nullable, metadata: {} })
    expect(JSON.parse(schemaStringOf(schema))).toEqual({
      type: 'struct',
      fields: [
        type('s', 'string'),
        type('i', 'integer', false),
        type('arr', {
          type: 'array',
          elementType: { type: 'struct', fields: [type('key', 'string', false), type('value', 'binary')] },
          containsNull: true,
        }),
      ],
    })
  })

  test("the Kafka source's columns", () => {
    const { fields } = JSON.parse(schemaStringOf(bronzeSchemaWithHeaders)) as {
      fields: { name: string; type: unknown }[]
    }
    expect(fields.slice(0, 7).map((f) => `${f.name} ${String(f.type)}`)).toEqual([
      'key binary',
      'value binary',
      'topic string',
      'partition integer',
      'offset long',
      'timestamp timestamp',
      'timestampType integer',
    ])
  })
})

describe('Parquet schema', () => {
  test('lists have three levels, a NOT NULL column is required', () => {
    const elements = parquetSchemaOf(schema)
    expect(elements.map((e) => `${e.name} ${e.repetition_type ?? ''} ${e.type ?? e.num_children}`)).toEqual([
      'spark_schema  3',
      's OPTIONAL BYTE_ARRAY',
      'i REQUIRED INT32',
      'arr OPTIONAL 1',
      'list REPEATED 1',
      'element OPTIONAL 2',
      'key REQUIRED BYTE_ARRAY',
      'value OPTIONAL BYTE_ARRAY',
    ])
  })
})

describe('schemas that no table can have', () => {
  test.for([
    [{}, 'no columns'],
    [{ 'a b': t.int }, '"a b"'],
    [{ '': t.int }, 'empty'],
    [{ id: t.int, ID: t.int }, "'id' and 'ID' differ in case only"],
    [{ a: t.array(t.struct({ 'x;y': t.int })) }, '"x;y"'],
  ] as const)('%j', ([columns, reason]) => {
    expect(schemaProblem(columns)).toContain(reason)
  })

  test('others can', () => {
    expect(schemaProblem(bronzeSchemaWithHeaders)).toBeNull()
  })
})

describe('differences between query and table', () => {
  const differences = (query: Schema, table: Schema) => schemaDifferences(query, schemaStringOf(table))

  test.for([
    ['the same schema', { a: t.int, b: t.string }, { a: t.int, b: t.string }],
    ['another order', { a: t.int, b: t.string }, { b: t.string, a: t.int }],
    ['a NOT NULL query column in a nullable table column', { a: t.int.notNull() }, { a: t.int }],
    ['nested', { a: t.array(t.struct({ x: t.int.notNull() })) }, { a: t.array(t.struct({ x: t.int })) }],
  ] as const)('none: %s', ([, query, table]) => {
    expect(differences(query, table)).toEqual([])
  })

  test.for([
    [{ a: t.int, b: t.long }, { a: t.int }, "column 'b' (long) is not in the table"],
    [{ a: t.int }, { a: t.int, b: t.date }, "column 'b' (date) is not in the query"],
    [{ a: t.int }, { a: t.long }, "column 'a' is long in the table and integer in the query"],
    [{ a: t.int }, { a: t.int.notNull() }, "column 'a' is NOT NULL in the table and nullable in the query"],
    [
      { a: t.array(t.int) },
      { a: t.array(t.string) },
      "column 'a.element' is string in the table and integer in the query",
    ],
    [
      { a: t.array(t.int) },
      { a: t.array(t.int.notNull()) },
      "elements of column 'a' are NOT NULL in the table and nullable in the query",
    ],
    [{ a: t.struct({ x: t.int }) }, { a: t.struct({ y: t.int }) }, "column 'a.x' (integer) is not in the table"],
    [{ a: t.struct({ x: t.int }) }, { a: t.int }, "column 'a' is integer in the table and struct in the query"],
  ] as const)('%#: named', ([query, table, difference]) => {
    expect(differences(query, table)).toContain(difference)
  })

  test('a type that this sink does not know is named as the table names it', () => {
    const table = '{"type":"struct","fields":[{"name":"a","type":"decimal(10,2)","nullable":true,"metadata":{}}]}'
    expect(schemaDifferences({ a: t.double }, table)).toEqual([
      "column 'a' is decimal(10,2) in the table and double in the query",
    ])
  })

  test("what is not Spark's schema is refused", () => {
    expect(() => schemaDifferences({ a: t.int }, '{"type":"map"}')).toThrow(SyntaxError)
  })
})
