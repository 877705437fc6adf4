import { randomUUID } from 'node:crypto'
import { CreateBucketCommand } from '@aws-sdk/client-s3'
import type { S3Client } from '@aws-sdk/client-s3'
import { beforeAll, expect, inject, test } from 'vitest'
import { s3ObjectStore } from '../../src/aws/object-store.ts'
import { readDelta, s3Options } from '../support/delta-reader.ts'
import { append, batchOf, idsIn, never, openSink, range, tableAt } from '../support/delta-table.ts'
import { faultyS3Client, lostAnswer, newS3Client } from '../support/faulty-s3.ts'

const { endpoint } = inject('ministack')
const bucket = `delta-${randomUUID()}`
beforeAll(async () => {
  await newS3Client(endpoint).send(new CreateBucketCommand({ Bucket: bucket }))
})

let count = 0
const freshPrefix = () => `tables/t${count++}`
const storeAt = (prefix: string, client: S3Client = newS3Client(endpoint)) => s3ObjectStore({ client, bucket, prefix })

test('P15: a table in a bucket, with checkpoints, as delta-rs reads it', async () => {
  const store = storeAt(freshPrefix())
  const sink = openSink(store)
  for (const n of range(0, 12)) {
    await sink.check('q1', { newest: n, committed: null }, never)
    expect(await append(sink, batchOf('q1', n))).toBe('committed')
    await sink.maintain(never)
  }
  expect(await append(sink, batchOf('q1', 11))).toBe('alreadyCommitted')
  const table = await readDelta(store.root, { appId: 'q1', storageOptions: s3Options(endpoint) })
  expect(table).toMatchObject({ version: 11, transactionVersion: 11 })
  expect(table.rows.map((row) => Number(row['id'])).toSorted((a, b) => a - b)).toEqual(range(0, 120))
  expect(await store.list('_delta_log/_last_checkpoint', null, never)).toHaveLength(1)
})

test('B43: the answer to the commit of version 7 is lost: success, no version 8, rows once', async () => {
  const prefix = freshPrefix()
  for (const n of range(0, 7)) await append(openSink(storeAt(prefix)), batchOf('q1', n))
  // The data file is put first; from the second put on it is the commit. Its first answer is lost, then every one.
  for (const answers of [1, Infinity]) {
    const client = faultyS3Client(endpoint, 'PutObjectCommand', async ({ attempt, send }) => {
      const answer = await send()
      if (attempt > 1 && attempt <= 1 + answers) throw lostAnswer()
      return answer
    })
    const n = answers === 1 ? 7 : 8
    expect(await append(openSink(storeAt(prefix, client)), batchOf('q1', n))).toBe('committed')
    expect((await tableAt(storeAt(prefix))).version).toBe(n)
    expect(await idsIn(storeAt(prefix))).toEqual(range(0, (n + 1) * 10))
  }
})

test('B43: a time-out before the commit is stored: the retry writes the version', async () => {
  const prefix = freshPrefix()
  await append(openSink(storeAt(prefix)), batchOf('q1', 0))
  const client = faultyS3Client(endpoint, 'PutObjectCommand', async ({ attempt, send }) => {
    if (attempt === 2) throw lostAnswer()
    return send()
  })
  expect(await append(openSink(storeAt(prefix, client)), batchOf('q1', 1))).toBe('committed')
  expect((await tableAt(storeAt(prefix))).version).toBe(1)
  expect(await idsIn(storeAt(prefix))).toEqual(range(0, 20))
})

test('B45: four queries append to one table in a bucket: versions without a gap, every row once', async () => {
  const prefix = freshPrefix()
  const query = async (q: number) => {
    const sink = openSink(storeAt(prefix))
    for (const n of range(0, 6)) expect(await append(sink, batchOf(`q${q}`, n), q * 1000 + n * 10)).toBe('committed')
  }
  await Promise.all(range(0, 4).map(query))
  expect((await tableAt(storeAt(prefix))).version).toBe(23)
  expect(await idsIn(storeAt(prefix))).toEqual(range(0, 4).flatMap((q) => range(q * 1000, q * 1000 + 60)))
})

test('a bucket that does not exist is named before a batch is planned', async () => {
  const sink = openSink(s3ObjectStore({ client: newS3Client(endpoint), bucket: 'no-such-bucket-here', prefix: 'p' }))
  await expect(sink.check('q1', { newest: null, committed: null }, never)).rejects.toMatchObject({
    name: 'OBJECT_STORE_REFUSED',
  })
})
