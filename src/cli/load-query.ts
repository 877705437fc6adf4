/** Loads a query module by path. */
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { SluiceError, reasonOf } from '../errors.ts'
import { isQuery } from '../query.ts'
import type { Query } from '../query.ts'

/** @throws QUERY_INVALID where the module cannot be loaded or its default export is not a query */
export async function loadQuery(path: string): Promise<Query> {
  const invalid = (reason: string, cause?: unknown): SluiceError =>
    new SluiceError('QUERY_INVALID', { query: path, reason }, cause)
  if (!existsSync(path)) throw invalid('there is no such file')
  let loaded: unknown
  try {
    loaded = await import(pathToFileURL(resolve(path)).href)
  } catch (error) {
    if (error instanceof SluiceError) throw error // from defineQuery, options or the sink
    throw invalid(`the module cannot be loaded: ${reasonOf(error)}`, error)
  }
  const query = typeof loaded === 'object' && loaded !== null && 'default' in loaded ? loaded.default : undefined
  if (!isQuery(query)) throw invalid('its default export is not a query: write export default defineQuery({...})')
  return query
}
