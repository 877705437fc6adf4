/**
 * What the construct has to know of a query: its module is loaded at synthesis, so that names and paths are written once,
 * and a mistake in them ends the synthesis and not the first run.
 */
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { resolve } from 'node:path'
import { Token } from 'aws-cdk-lib'
import { reasonOf } from '../src/errors.ts'
import { bronzeSchemaFor } from '../src/mapping.ts'
import { parseOptions } from '../src/options.ts'
import type { ObjectStore } from '../src/ports.ts'
import { isQuery } from '../src/query.ts'
import type { Query } from '../src/query.ts'

export interface QueryModule {
  /** Absolute. */
  readonly file: string
  readonly query: Query
  /** The paths at which the sink opens an object store, as the module writes them. */
  readonly paths: readonly string[]
}

/** Variables that the construct sets. */
export const ownVariables = ['SLUICE_TABLE', 'SLUICE_BUCKET', 'SLUICE_LEASE_MS', 'SLUICE_TIMEOUT_MS']

/**
 * @param entry the module's path, relative to the working directory
 * @param environment what `{{env:NAME}}` in its options will find in the functions
 * @throws Error that names the entry and what to do
 */
export function loadQueryModule(entry: string, environment: Readonly<Record<string, string>>): QueryModule {
  const file = resolve(entry)
  const refuse = (reason: string): never => {
    throw new Error(`MicroBatchQuery: entry '${entry}': ${reason}`)
  }
  if (!existsSync(file)) refuse(`there is no file ${file}; give the path of the query module`)
  const query = defaultExport(file, refuse)
  if (!isQuery(query)) return refuse('its default export is not made by defineQuery({...})')
  checkOptions(query, environment, refuse)
  return { file, query, paths: sinkPaths(query) }
}

function defaultExport(file: string, refuse: (reason: string) => never): unknown {
  try {
    // require loads ES modules too, at once: a construct's constructor cannot wait.
    const module: unknown = createRequire(import.meta.url)(file)
    return typeof module === 'object' && module !== null && 'default' in module ? module.default : undefined
  } catch (error) {
    return refuse(`it cannot be loaded: ${reasonOf(error)}`)
  }
}

/** Every reference has a value, and the options are valid where all values are known by now. */
function checkOptions(
  query: Query,
  environment: Readonly<Record<string, string>>,
  refuse: (reason: string) => never
): void {
  const missing = new Set<string>()
  let isKnown = true
  const valueOf = (name: string): string => {
    const value = environment[name]
    if (value === undefined) missing.add(name)
    if (value === undefined || Token.isUnresolved(value)) isKnown = false
    return value ?? ''
  }
  try {
    parseOptions({ ...query.source.options }, valueOf)
  } catch (error) {
    if (isKnown) refuse(reasonOf(error))
  }
  const [name] = missing
  if (name !== undefined) refuse(`its options refer to {{env:${name}}}: give ${name} in 'environment'`)
}

/** The sink is opened as a function will open it; it touches nothing before its first step. */
function sinkPaths({ name, mapping, sink }: Query): readonly string[] {
  const paths = new Set<string>()
  const unused = (): never => {
    throw new TypeError('a sink that is opened does not work yet')
  }
  const objectStore = (path: string): ObjectStore => {
    paths.add(path)
    const none = { putIfAbsent: unused, put: unused, create: unused, get: unused, size: unused, list: unused }
    return { root: path, ...none }
  }
  sink.open({
    queryName: name,
    schema: mapping?.schema ?? bronzeSchemaFor(false),
    clock: { now: unused },
    objectStore,
  })
  return [...paths]
}
