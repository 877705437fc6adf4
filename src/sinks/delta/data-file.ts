/** Names of data files, and what a task's report says about them. */
import { isObject } from '../../offsets.ts'
import type { TaskId } from '../../ports.ts'

/**
 * The key of a task's file: (query id, batch, task, attempt uuid), so no two attempts share one and none is ever written
 * again (P3). The batch comes first: a listing is in the order of batches.
 */
export function dataFileKey({ batchId, task, queryId, attempt }: TaskId): string {
  const pad = (n: number, digits: number) => String(n).padStart(digits, '0')
  return `part-${pad(batchId, 10)}-${pad(task, 5)}-${encodeURIComponent(queryId)}-${encodeURIComponent(attempt)}.zstd.parquet`
}

/** Whether some query's task staged this object: such files lie in a table's folder before its first version does. */
export const isDataFileKey = (key: string): boolean => /^part-\d{10,}-\d{5,}-[^/]+\.zstd\.parquet$/.test(key)

/** One staged file. */
export interface DataFile {
  /** Relative to the table. */
  readonly key: string
  readonly size: number
  readonly rows: number
  /** Milliseconds since the epoch. */
  readonly modificationTime: number
  /** JSON text of its statistics. */
  readonly stats: string
}

/** The detail of a task's commit message; none for a task without rows. */
export const encodeDataFiles = (files: readonly DataFile[]): string => JSON.stringify({ v: 1, files })

/** @throws SyntaxError for a detail that this sink did not write */
export function decodeDataFiles(detail: string): DataFile[] {
  const parsed: unknown = JSON.parse(detail)
  if (!isObject(parsed) || parsed['v'] !== 1 || !Array.isArray(parsed['files']))
    throw new SyntaxError('the report does not describe data files of version 1')
  return parsed['files'].map((file: unknown) => {
    if (
      !isObject(file) ||
      typeof file['key'] !== 'string' ||
      typeof file['size'] !== 'number' ||
      typeof file['rows'] !== 'number' ||
      typeof file['modificationTime'] !== 'number' ||
      typeof file['stats'] !== 'string'
    )
      throw new SyntaxError('the report describes a data file without key, size, rows, modificationTime or stats')
    return {
      key: file['key'],
      size: file['size'],
      rows: file['rows'],
      modificationTime: file['modificationTime'],
      stats: file['stats'],
    }
  })
}

/** `add.path`: URL-encoded, relative. */
export const pathOfKey = (key: string): string => key.split('/').map(encodeURIComponent).join('/')
