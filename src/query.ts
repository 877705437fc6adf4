/**
 * A query is one typed module: source options, an optional schema with a mapping, a sink and a trigger. Its default
 * export serves the CLI, the functions, the construct and tests alike.
 */
import { SluiceError } from './errors.ts'
import type { Mapper } from './mapping.ts'
import type { KafkaOptions } from './options.ts'
import type { SinkDefinition } from './ports.ts'
import type { Schema } from './schema.ts'
import { parseInterval } from './trigger.ts'
import type { Trigger } from './trigger.ts'

export interface Source {
  readonly kind: 'kafka'
  /** As the user wrote them: parsed when the query runs, where `{{env:NAME}}` can be resolved. */
  readonly options: KafkaOptions
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

/** With a schema and a mapping: rows are what `map` returns, checked against the schema by the compiler. */
export function defineQuery<const S extends Schema>(
  query: Common & { readonly schema: S; readonly map: Mapper<S> }
): Query
/** Without: the bronze columns (S1). */
export function defineQuery(query: Common & { readonly schema?: never; readonly map?: never }): Query
export function defineQuery(
  query: Common & { readonly schema?: Schema | undefined; readonly map?: Mapper<Schema> | undefined }
): Query {
  const invalid = (reason: string): never => {
    throw new SluiceError('QUERY_INVALID', { query: String(query.name), reason })
  }
  if (!/^[A-Za-z0-9._-]{1,100}$/.test(query.name))
    invalid("a name has 1 to 100 letters, digits, '.', '_' or '-': it is part of the log's keys")
  if (query.source?.kind !== 'kafka') invalid('its source is not made by kafka({...})')
  if (typeof query.sink?.open !== 'function') invalid('its sink is not made by a sink function such as deltaTable(...)')
  const { schema, map } = query
  if ((schema === undefined) !== (map === undefined)) invalid('schema and map go together: give both or none')
  if (schema !== undefined && Object.keys(schema).length === 0) invalid('its schema has no column')
  return {
    name: query.name,
    source: query.source,
    mapping: schema === undefined || map === undefined ? null : { schema, map },
    sink: query.sink,
    trigger: query.trigger ?? { kind: 'processingTime', intervalMs: parseInterval('0') },
  }
}

/** Whether a module's default export is a query. */
export const isQuery = (value: unknown): value is Query =>
  typeof value === 'object' && value !== null && 'source' in value && 'sink' in value && 'trigger' in value
