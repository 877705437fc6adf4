/**
 * A query is one typed module: source options, an optional schema with a mapping, a sink and a trigger. Its default
 * export serves the CLI, the functions, the construct and tests alike.
 */
import { SluiceError } from './errors.ts'
import type { Mapper } from './mapping.ts'
import { isObject } from './offsets.ts'
import type { KafkaOptions } from './options.ts'
import type { SinkDefinition } from './ports.ts'
import type { Schema } from './schema.ts'
import { Trigger, isTrigger } from './trigger.ts'

export interface Source {
  readonly kind: 'kafka'
  /** As the user wrote them: parsed when the query runs, where `{{env:NAME}}` can be resolved. */
  readonly options: KafkaOptions
  /** It ends where its ending options say: a backfill. Default: no. */
  readonly isBounded?: boolean
}

/** Spark's Kafka source with Spark's option names. */
export const kafka = (options: KafkaOptions): Source => ({ kind: 'kafka', options })

export interface Query {
  readonly name: string
  readonly source: Source
  /** null: the bronze columns, which depend on `includeHeaders`. */
  readonly mapping: { readonly schema: Schema; readonly map: Mapper<Schema> } | null
  readonly sink: SinkDefinition
  readonly trigger: Trigger
}

interface Common {
  /** Names the query's log; letters, digits, `.`, `_`, `-`. */
  readonly name: string
  readonly source: Source
  readonly sink: SinkDefinition
  /** Default: processingTime(0), as fast as possible. */
  readonly trigger?: Trigger
}

const fields: readonly string[] = ['name', 'source', 'schema', 'map', 'sink', 'trigger']

/**
 * With a schema and a mapping: rows are what `map` returns, checked against the schema by the compiler.
 * @throws QUERY_INVALID for what the compiler would have refused: modules run without one
 */
export function defineQuery<const S extends Schema>(
  query: Common & { readonly schema: S; readonly map: Mapper<S> }
): Query
/** Without: the bronze columns (S1). */
export function defineQuery(query: Common & { readonly schema?: never; readonly map?: never }): Query
export function defineQuery(
  query: Common & { readonly schema?: Schema | undefined; readonly map?: Mapper<Schema> | undefined }
): Query {
  const invalid = (reason: string): never => {
    throw new SluiceError('QUERY_INVALID', { query: query.name, reason })
  }
  if (typeof query.name !== 'string' || !/^[A-Za-z0-9._-]{1,100}$/.test(query.name))
    invalid("a name has 1 to 100 letters, digits, '.', '_' or '-': it is part of the log's keys")
  const unknown = Object.keys(query).find((field) => !fields.includes(field))
  if (unknown !== undefined) invalid(`it has no field '${unknown}'; there are ${fields.join(', ')}`)
  if (query.source?.kind !== 'kafka') invalid('its source is not made by kafka({...})')
  if (typeof query.sink?.open !== 'function') invalid('its sink is not made by a sink function such as deltaTable(...)')
  const { schema, map, trigger = Trigger.processingTime(0) } = query
  if (!isTrigger(trigger)) invalid("its trigger is not made by Trigger, as Trigger.processingTime('1 minute')")
  if ((schema === undefined) !== (map === undefined)) invalid('schema and map go together: give both or none')
  if (schema !== undefined) checkSchema(schema, invalid)
  if (map !== undefined && typeof map !== 'function') invalid('its map is not a function')
  return {
    name: query.name,
    source: query.source,
    mapping: schema === undefined || map === undefined ? null : { schema, map },
    sink: query.sink,
    trigger,
  }
}

function checkSchema(schema: Schema, invalid: (reason: string) => never): void {
  if (!isObject(schema) || Object.keys(schema).length === 0) invalid('its schema has no column')
  const untyped = Object.entries(schema).find(([, field]) => typeof field?.notNull !== 'function')
  if (untyped !== undefined) invalid(`column '${untyped[0]}' of its schema has no type of t, as t.string`)
}

/** Whether a module's default export was made by `defineQuery`, by this copy of it or another. */
export const isQuery = (value: unknown): value is Query =>
  isObject(value) && ['name', 'source', 'mapping', 'sink', 'trigger'].every((field) => field in value)
