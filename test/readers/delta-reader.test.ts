import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { readDelta, readersPython, s3Options } from '../support/delta-reader.ts'
import { ministackClient } from '../support/ministack.ts'

const run = promisify(execFile)
const { endpoint } = inject('ministack')
const bucket = 'delta-reader'
let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-delta-'))
  const s3 = new S3Client({ ...ministackClient, endpoint, forcePathStyle: true })
  await s3.send(new CreateBucketCommand({ Bucket: bucket }))
  s3.destroy()
})
afterAll(() => rm(folder, { recursive: true }))

const writeTable = `
import sys, json, datetime, pyarrow as pa
from deltalake import write_deltalake, CommitProperties, Transaction
table = pa.table({
  "key": pa.array([bytes([0, 255]), None], pa.binary()),
  "offset": pa.array([9007199254740993, None], pa.int64()),
  "partition": pa.array([1, 2], pa.int32()),
  "at": pa.array([1500000000123456, None], pa.timestamp("us", "UTC")),
  "ratio": pa.array([float("nan"), 0.5]),
  "headers": pa.array([[{"key": "a", "value": b"x"}, {"key": "a", "value": None}], []],
    pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
})
for version in (7, 8):
  write_deltalake(sys.argv[1], table, mode="append", storage_options=json.loads(sys.argv[2]),
    commit_properties=CommitProperties(app_transactions=[Transaction("query", version)]))
`

const rows = [
  {
    key: 'AP8=',
    offset: '9007199254740993',
    partition: 1,
    at: '1500000000123456',
    ratio: 'nan',
    headers: [
      { key: 'a', value: 'eA==' },
      { key: 'a', value: null },
    ],
  },
  { key: null, offset: null, partition: 2, at: null, ratio: 0.5, headers: [] },
]

for (const place of ['folder', 's3'] as const) {
  const storageOptions = place === 's3' ? s3Options(endpoint) : {}
  const uriOf = (): string => (place === 's3' ? `s3://${bucket}/table` : join(folder, 'table'))

  test(`a table on ${place} is read with exact values, versions and transactions`, async () => {
    await run(readersPython, ['-c', writeTable, uriOf(), JSON.stringify(storageOptions)])
    const table = await readDelta(uriOf(), { storageOptions, appId: 'query' })
    expect(table).toMatchObject({ version: 1, transactionVersion: 8 })
    expect(table.rows).toEqual([...rows, ...rows])
    expect(table.files).toHaveLength(2)
    expect(table.schema.fields.map((field) => field.name)).toEqual(Object.keys(rows[0] ?? {}))
    expect(table.history.map((commit) => commit.version)).toEqual([1, 0])
    const first = await readDelta(uriOf(), { storageOptions, appId: 'other', version: 0, columns: ['offset'] })
    expect(first).toMatchObject({ version: 0, transactionVersion: null })
    expect(first.rows).toEqual(rows.map(({ offset }) => ({ offset })))
  })
}

test('what is no table is refused', async () => {
  await expect(readDelta(join(folder, 'nothing'))).rejects.toThrow('TableNotFoundError')
})
