/**
 * A query's schema in the three forms that a Delta table needs: Spark's schema JSON in the log, Parquet schema elements in
 * the data files, and a comparison with the schema of a table that exists.
 */
import type { SchemaElement } from 'hyparquet'
import { isObject, parseExact } from '../../offsets.ts'
import type { DataType, Field, Schema } from '../../schema.ts'

// -- Spark's schema JSON

/** `metaData.schemaString` of a table made for this schema. */
export const schemaStringOf = (schema: Schema): string => JSON.stringify(structOf(schema))

const structOf = (schema: Schema): unknown => ({
  type: 'struct',
  fields: Object.entries(schema).map(([name, f]) => ({
    name,
    type: sparkType(f.type),
    nullable: f.nullable,
    metadata: {},
  })),
})

function sparkType(type: DataType): unknown {
  switch (type.kind) {
    case 'array':
      return { type: 'array', elementType: sparkType(type.element.type), containsNull: type.element.nullable }
    case 'struct':
      return structOf(type.fields)
    case 'int':
      return 'integer'
    default:
      return type.kind
  }
}

/** Why no Delta table can have this schema; null when one can. Without column mapping Parquet's names are the columns'. */
export function schemaProblem(schema: Schema): string | null {
  const names = Object.keys(schema)
  if (names.length === 0) return 'the schema has no columns'
  const folded = new Map<string, string>()
  for (const name of names) {
    if (name === '' || /[ ,;{}()\n\t=]/.test(name))
      return `the column name ${JSON.stringify(name)} is empty or holds one of ' ,;{}()=' or white space`
    const other = folded.get(name.toLowerCase())
    if (other !== undefined) return `columns '${other}' and '${name}' differ in case only`
    folded.set(name.toLowerCase(), name)
  }
  for (const f of Object.values(schema)) {
    const problem = innerProblem(f.type)
    if (problem !== null) return problem
  }
  return null
}

function innerProblem(type: DataType): string | null {
  if (type.kind === 'array') return innerProblem(type.element.type)
  return type.kind === 'struct' ? schemaProblem(type.fields) : null
}

// -- comparison

/**
 * What stands between the query's rows and a table, one phrase each; empty when every row fits. The order of columns says
 * nothing. A nullable table column takes rows that are never null, but not the other way round.
 * @throws SyntaxError if the schema string is not Spark's
 */
export function schemaDifferences(schema: Schema, schemaString: string): string[] {
  return structDifferences('', parseExact(JSON.stringify(structOf(schema))), parseExact(schemaString))
}

interface SparkField {
  readonly name: string
  readonly type: unknown
  readonly nullable: boolean
}

function fieldsOf(struct: unknown): Map<string, SparkField> {
  const fields = isObject(struct) && struct['type'] === 'struct' ? struct['fields'] : null
  if (!Array.isArray(fields)) throw new SyntaxError('the schema is not a struct')
  return new Map(
    fields.map((f: unknown) => {
      if (!isObject(f) || typeof f['name'] !== 'string' || typeof f['nullable'] !== 'boolean')
        throw new SyntaxError('a field of the schema has no name or no nullable')
      return [f['name'], { name: f['name'], type: f['type'], nullable: f['nullable'] }]
    })
  )
}

function structDifferences(prefix: string, ours: unknown, theirs: unknown): string[] {
  const query = fieldsOf(ours)
  const table = fieldsOf(theirs)
  const differences: string[] = []
  for (const [name, f] of query) {
    const column = `column '${prefix}${name}'`
    const other = table.get(name)
    if (other === undefined) differences.push(`${column} (${typeName(f.type)}) is not in the table`)
    else {
      differences.push(...typeDifferences(prefix + name, f.type, other.type))
      if (f.nullable && !other.nullable)
        differences.push(`${column} is NOT NULL in the table and nullable in the query`)
    }
  }
  for (const [name, f] of table)
    if (!query.has(name)) differences.push(`column '${prefix}${name}' (${typeName(f.type)}) is not in the query`)
  return differences
}

function typeDifferences(path: string, ours: unknown, theirs: unknown): string[] {
  if (isObject(ours) && isObject(theirs) && ours['type'] === theirs['type']) {
    if (ours['type'] === 'struct') return structDifferences(`${path}.`, ours, theirs)
    if (ours['type'] === 'array') {
      const inner = typeDifferences(`${path}.element`, ours['elementType'], theirs['elementType'])
      if (ours['containsNull'] === true && theirs['containsNull'] === false)
        inner.push(`elements of column '${path}' are NOT NULL in the table and nullable in the query`)
      return inner
    }
  }
  if (typeof ours === 'string' && ours === theirs) return []
  return [`column '${path}' is ${typeName(theirs)} in the table and ${typeName(ours)} in the query`]
}

const typeName = (type: unknown): string =>
  typeof type === 'string'
    ? type
    : isObject(type) && typeof type['type'] === 'string'
      ? type['type']
      : 'of no known type'

// -- Parquet

/** Elements of the data files' schema, in Parquet's pre-order, lists in the three-level form. */
export const parquetSchemaOf = (schema: Schema): SchemaElement[] => [
  { name: 'spark_schema', num_children: Object.keys(schema).length },
  ...Object.entries(schema).flatMap(([name, f]) => elementsOf(name, f)),
]

function elementsOf(name: string, { type, nullable }: Field<unknown>): SchemaElement[] {
  const base = { name, repetition_type: nullable ? 'OPTIONAL' : 'REQUIRED' } as const
  if (type.kind === 'array')
    return [
      { ...base, num_children: 1, converted_type: 'LIST', logical_type: { type: 'LIST' } },
      { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
      ...elementsOf('element', type.element),
    ]
  if (type.kind === 'struct')
    return [
      { ...base, num_children: Object.keys(type.fields).length },
      ...Object.entries(type.fields).flatMap(([child, f]) => elementsOf(child, f)),
    ]
  return [{ ...base, ...leafElements[type.kind] }]
}

const leafElements: Record<Exclude<DataType['kind'], 'array' | 'struct'>, Omit<SchemaElement, 'name'>> = {
  string: { type: 'BYTE_ARRAY', converted_type: 'UTF8', logical_type: { type: 'STRING' } },
  binary: { type: 'BYTE_ARRAY' },
  int: { type: 'INT32' },
  date: { type: 'INT32', converted_type: 'DATE', logical_type: { type: 'DATE' } },
  long: { type: 'INT64' },
  timestamp: {
    type: 'INT64',
    converted_type: 'TIMESTAMP_MICROS',
    logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MICROS' },
  },
  double: { type: 'DOUBLE' },
  boolean: { type: 'BOOLEAN' },
}
