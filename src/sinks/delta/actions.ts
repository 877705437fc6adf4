/**
 * Actions of a Delta log, as far as an appending writer needs them. They come from JSON lines and from checkpoint rows, which
 * differ only in how they hold 64-bit integers; both pass through `actionOf`.
 */
import { isObject, parseExact, stringifyExact } from '../../offsets.ts'

export interface Protocol {
  readonly minReaderVersion: number
  readonly minWriterVersion: number
  readonly readerFeatures?: readonly string[]
  readonly writerFeatures?: readonly string[]
}

export type StringMap = Readonly<Record<string, string | null>>

export interface MetaData {
  readonly id: string
  readonly name?: string
  readonly description?: string
  readonly format: { readonly provider: string; readonly options: StringMap }
  /** Spark's schema JSON. */
  readonly schemaString: string
  readonly partitionColumns: readonly string[]
  readonly configuration: StringMap
  readonly createdTime?: bigint
}

/** Application transaction: the last `version` that application `appId` committed. */
export interface Txn {
  readonly appId: string
  readonly version: bigint
  readonly lastUpdated?: bigint
}

export interface AddFile {
  /** Relative to the table, URL-encoded. */
  readonly path: string
  readonly partitionValues: StringMap
  readonly size: bigint
  /** Milliseconds since the epoch. */
  readonly modificationTime: bigint
  readonly dataChange: boolean
  /** JSON text. */
  readonly stats?: string
  readonly tags?: StringMap
}

export interface RemoveFile {
  readonly path: string
  /** Milliseconds since the epoch. */
  readonly deletionTimestamp?: bigint
  readonly dataChange: boolean
  readonly extendedFileMetadata?: boolean
  readonly partitionValues?: StringMap
  readonly size?: bigint
}

export type Action =
  | { readonly kind: 'protocol'; readonly body: Protocol }
  | { readonly kind: 'metaData'; readonly body: MetaData }
  | { readonly kind: 'txn'; readonly body: Txn }
  | { readonly kind: 'add'; readonly body: AddFile }
  | { readonly kind: 'remove'; readonly body: RemoveFile }
  | { readonly kind: 'commitInfo'; readonly body: Readonly<Record<string, unknown>> }

/** One commit's text: an action a line. */
export const encodeActions = (actions: readonly Action[]): string =>
  actions.map(({ kind, body }) => `${stringifyExact({ [kind]: body })}\n`).join('')

/** @throws SyntaxError with a reason that the caller wraps with table and version. */
export function decodeActions(text: string): Action[] {
  return text.split('\n').flatMap((line) => {
    if (line.trim() === '') return []
    const parsed = parseExact(line)
    if (!isObject(parsed)) throw new SyntaxError('a line is not an action')
    return Object.entries(parsed).flatMap(([name, body]) => actionOf(name, body) ?? [])
  })
}

/** The action, or null for kinds that an appending writer has no use for. @throws SyntaxError */
export function actionOf(name: string, body: unknown): Action | null {
  if (body === null || body === undefined) return null
  const f = new Fields(name, body)
  switch (name) {
    case 'protocol':
      return { kind: name, body: protocolOf(f) }
    case 'metaData':
      return { kind: name, body: metaDataOf(f) }
    case 'txn':
      return { kind: name, body: txnOf(f) }
    case 'add':
      return { kind: name, body: addOf(f) }
    case 'remove':
      return { kind: name, body: removeOf(f) }
    case 'commitInfo':
      return { kind: name, body: f.body }
    default:
      return null
  }
}

const protocolOf = (f: Fields): Protocol => ({
  minReaderVersion: Number(f.int('minReaderVersion')),
  minWriterVersion: Number(f.int('minWriterVersion')),
  ...f.optional('readerFeatures', (k) => f.texts(k)),
  ...f.optional('writerFeatures', (k) => f.texts(k)),
})

function metaDataOf(f: Fields): MetaData {
  const format = new Fields('metaData.format', f.body['format'])
  return {
    id: f.text('id'),
    ...f.optional('name', (k) => f.text(k)),
    ...f.optional('description', (k) => f.text(k)),
    format: { provider: format.text('provider'), options: format.map('options') },
    schemaString: f.text('schemaString'),
    partitionColumns: f.texts('partitionColumns'),
    configuration: f.map('configuration'),
    ...f.optional('createdTime', (k) => f.int(k)),
  }
}

const txnOf = (f: Fields): Txn => ({
  appId: f.text('appId'),
  version: f.int('version'),
  ...f.optional('lastUpdated', (k) => f.int(k)),
})

const addOf = (f: Fields): AddFile => ({
  path: f.text('path'),
  partitionValues: f.map('partitionValues'),
  size: f.int('size'),
  modificationTime: f.int('modificationTime'),
  dataChange: f.flag('dataChange'),
  ...f.optional('stats', (k) => f.text(k)),
  ...f.optional('tags', (k) => f.map(k)),
})

const removeOf = (f: Fields): RemoveFile => ({
  path: f.text('path'),
  ...f.optional('deletionTimestamp', (k) => f.int(k)),
  dataChange: f.flag('dataChange'),
  ...f.optional('extendedFileMetadata', (k) => f.flag(k)),
  ...f.optional('partitionValues', (k) => f.map(k)),
  ...f.optional('size', (k) => f.int(k)),
})

/** Reads the members of one action; what has another type than Delta's is named. */
class Fields {
  readonly body: Readonly<Record<string, unknown>>
  readonly #name: string

  constructor(name: string, body: unknown) {
    if (!isObject(body)) throw new SyntaxError(`${name} is not an object`)
    this.#name = name
    this.body = body
  }

  text(key: string): string {
    const value = this.body[key]
    return typeof value === 'string' ? value : this.#fail(key, 'a string')
  }

  flag(key: string): boolean {
    const value = this.body[key]
    return typeof value === 'boolean' ? value : this.#fail(key, 'true or false')
  }

  int(key: string): bigint {
    const value = this.body[key]
    if (typeof value === 'bigint') return value
    return typeof value === 'number' && Number.isSafeInteger(value) ? BigInt(value) : this.#fail(key, 'an integer')
  }

  texts(key: string): string[] {
    const value = this.body[key]
    if (!Array.isArray(value)) return this.#fail(key, 'a list')
    return value.map((v: unknown) => (typeof v === 'string' ? v : this.#fail(key, 'a list of strings')))
  }

  /** An absent map is an empty one, as Delta's readers take it. */
  map(key: string): StringMap {
    const value = this.body[key] ?? {}
    if (!isObject(value)) return this.#fail(key, 'a map')
    const entries = Object.entries(value).map(([k, v]): [string, string | null] => {
      if (typeof v === 'string' || v === null) return [k, v]
      return v === undefined ? [k, null] : this.#fail(key, 'a map of strings')
    })
    return Object.fromEntries(entries)
  }

  optional<K extends string, T>(key: K, read: (key: K) => T): { readonly [P in K]?: T } {
    const value = this.body[key]
    if (value === null || value === undefined) return {}
    return { [key]: read(key) } as { readonly [P in K]?: T } // a computed key widens to string
  }

  #fail(key: string, wanted: string): never {
    throw new SyntaxError(`${this.#name}.${key} is not ${wanted}`)
  }
}
