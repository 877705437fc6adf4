import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
const script = join(import.meta.dirname, 'read_delta.py')

/** The Python with deltalake, pyarrow and duckdb that setup.mjs installs. */
export const readersPython = join(import.meta.dirname, '../../.tools/readers/bin/python')

/** Bytes as base64, int64 and decimals as digits, timestamps as microseconds in digits, dates as ISO text, maps as pairs. */
export type DeltaValue =
  | null
  | boolean
  | number
  | string
  | readonly DeltaValue[]
  | { readonly [field: string]: DeltaValue }

export interface DeltaContents {
  readonly version: number
  /** The last `txn` version of the appId that was asked for; null if there is none. */
  readonly transactionVersion: number | null
  /** Delta's own schema: { type: 'struct', fields: [{ name, type, nullable, metadata }] }. */
  readonly schema: {
    readonly fields: readonly { readonly name: string; readonly type: unknown; readonly nullable: boolean }[]
  }
  readonly files: readonly string[]
  /** The newest commit first. */
  readonly history: readonly { readonly version?: number; readonly operation?: string }[]
  readonly rows: readonly { readonly [column: string]: DeltaValue }[]
}

export interface DeltaReadOptions {
  /** Default the newest. */
  readonly version?: number
  /** Default all. */
  readonly columns?: readonly string[]
  readonly appId?: string
  /** delta-rs's own names; for an endpoint of the tests see `s3Options`. */
  readonly storageOptions?: Readonly<Record<string, string>>
}

/** Storage options for s3:// tables at MiniStack. */
export const s3Options = (endpoint: string): Record<string, string> => ({
  AWS_ENDPOINT_URL: endpoint,
  AWS_ALLOW_HTTP: 'true',
  AWS_REGION: 'us-east-1',
  AWS_ACCESS_KEY_ID: 'test',
  AWS_SECRET_ACCESS_KEY: 'test',
})

/** Reads a Delta table (a folder or s3://bucket/path) by delta-rs; fails with its words when that is not possible. */
export async function readDelta(uri: string, options: DeltaReadOptions = {}): Promise<DeltaContents> {
  const { stdout } = await run(readersPython, [script, JSON.stringify({ uri, ...options })], { maxBuffer: 1 << 30 })
  const [about = '', ...rows] = stdout.trimEnd().split('\n')
  const table: Omit<DeltaContents, 'rows'> = JSON.parse(about)
  return { ...table, rows: rows.map((row): DeltaContents['rows'][number] => JSON.parse(row)) }
}

/** The `partition:offset` of every row of many tables, sorted, repeats included: one process for all of them. */
export async function readPositions(tables: readonly string[]): Promise<readonly (readonly string[])[]> {
  const reading = run(readersPython, [new URL('read_positions.py', import.meta.url).pathname], { maxBuffer: 1 << 30 })
  reading.child.stdin?.end(JSON.stringify(tables))
  const { stdout } = await reading
  return stdout
    .trimEnd()
    .split('\n')
    .map((line): readonly string[] => JSON.parse(line))
}
