import { randomUUID } from 'node:crypto'
import { CreateBucketCommand, ListMultipartUploadsCommand, S3Client } from '@aws-sdk/client-s3'
import { beforeAll, describe, expect, inject, test, vi } from 'vitest'
import { s3ObjectStore } from '../../src/aws/object-store.ts'
import { objectStoreConformance } from '../conformance/object-store.ts'
import { faultyS3Client, lostAnswer, newS3Client } from '../support/faulty-s3.ts'
import type { S3Fault } from '../support/faulty-s3.ts'
import { ministackClient } from '../support/ministack.ts'

const { endpoint } = inject('ministack')
const bucket = `objects-${randomUUID()}`
const never = new AbortController().signal
const bytes = (text: string): Uint8Array => Buffer.from(text)
const newClient = () => newS3Client(endpoint)

let count = 0
const freshPrefix = () => `warehouse/t ${count++}`
beforeAll(async () => {
  await newClient().send(new CreateBucketCommand({ Bucket: bucket }))
})

objectStoreConformance('S3', async () => ({ kind: 's3', endpoint, bucket, prefix: freshPrefix() }))

const lost = lostAnswer
const faultyClient = (command: string, fault: S3Fault) => faultyS3Client(endpoint, command, fault)
const conflict = () =>
  Object.assign(new Error('in flight'), {
    name: 'ConditionalRequestConflict',
    $fault: 'client',
    $metadata: { httpStatusCode: 409 },
  })

const storeWith = (client: S3Client) => s3ObjectStore({ client, bucket, prefix: freshPrefix() })

describe('S3: unknown outcomes of a conditional put', () => {
  test("the client's own retry meets its first try, whose answer was lost: created", async () => {
    let puts = 0
    const client = faultyClient('PutObjectCommand', async ({ attempt, send }) => {
      puts = attempt
      const answer = await send()
      if (attempt === 1) throw lost()
      return answer
    })
    const store = storeWith(client)
    expect(await store.putIfAbsent('a', bytes('mine'), never)).toBe('created')
    expect(puts).toBe(2)
    expect(await store.get('a', never)).toEqual(new Uint8Array(bytes('mine')))
  })

  test('every answer is lost, the object is stored: created', async () => {
    const client = faultyClient('PutObjectCommand', async ({ send }) => {
      await send().catch(() => {})
      throw lost()
    })
    expect(await storeWith(client).putIfAbsent('a', bytes('mine'), never)).toBe('created')
  })

  test("the put is lost on its way and a rival's object is there: exists", async () => {
    const prefix = freshPrefix()
    const client = faultyClient('PutObjectCommand', async () => {
      await s3ObjectStore({ client: newClient(), bucket, prefix }).putIfAbsent('a', bytes('rival'), never)
      throw lost()
    })
    expect(await s3ObjectStore({ client, bucket, prefix }).putIfAbsent('a', bytes('mine'), never)).toBe('exists')
  })

  test('nothing is stored and nobody answers: OBJECT_STORE_FAILED, which may be tried again', async () => {
    const client = faultyClient('PutObjectCommand', async () => {
      throw lost()
    })
    await expect(storeWith(client).putIfAbsent('a', bytes('mine'), never)).rejects.toMatchObject({
      name: 'OBJECT_STORE_FAILED',
      retryable: true,
    })
  })

  test('409 ConditionalRequestConflict, the other put came to nothing: the retry creates', async () => {
    const client = faultyClient('PutObjectCommand', async ({ attempt, send }) => {
      if (attempt === 1) throw conflict()
      return send()
    })
    expect(await storeWith(client).putIfAbsent('a', bytes('mine'), never)).toBe('created')
  })

  test('409 ConditionalRequestConflict, the other put won: exists', async () => {
    const prefix = freshPrefix()
    const client = faultyClient('PutObjectCommand', async () => {
      await s3ObjectStore({ client: newClient(), bucket, prefix }).putIfAbsent('a', bytes('rival'), never)
      throw conflict()
    })
    expect(await s3ObjectStore({ client, bucket, prefix }).putIfAbsent('a', bytes('mine'), never)).toBe('exists')
  })
})

describe('S3: uploads in parts', () => {
  const openUploads = async () =>
    (await newClient().send(new ListMultipartUploadsCommand({ Bucket: bucket }))).Uploads ?? []
  const piece = new Uint8Array(17 * 2 ** 20).fill(7)

  test('B47: a large object that is aborted in the middle leaves neither an object nor an upload', async () => {
    const store = storeWith(newClient())
    const writer = await store.create('large', never)
    await writer.write(piece)
    await writer.write(piece)
    expect(await openUploads()).toHaveLength(1)
    await writer.abort()
    expect(await openUploads()).toEqual([])
    expect(await store.list('', null, never)).toEqual([])
  })

  test('an upload whose start was not answered is removed too', async () => {
    const client = faultyClient('CreateMultipartUploadCommand', async ({ send }) => {
      await send()
      throw lost()
    })
    const store = storeWith(client)
    const writer = await store.create('large', never)
    await writer.write(piece)
    await expect(writer.write(piece)).rejects.toMatchObject({ name: 'OBJECT_STORE_FAILED' })
    await writer.abort()
    expect(await openUploads()).toEqual([])
  })

  test('a completion whose answer is lost is recognised as done', async () => {
    const client = faultyClient('CompleteMultipartUploadCommand', async ({ send }) => {
      await send().catch(() => {})
      throw lost()
    })
    const store = storeWith(client)
    const writer = await store.create('large', never)
    await writer.write(piece)
    await writer.write(piece)
    await writer.close()
    expect(await store.size('large', never)).toBe(2 * piece.length)
  })
})

describe('S3: a part is on its way while the next one fills', () => {
  const piece = (fill: number) => new Uint8Array(9 * 2 ** 20).fill(fill)

  test('pieces are taken until the next part is full, and the memory of a piece is its own again', async () => {
    const gate = Promise.withResolvers<void>()
    const sent: number[] = []
    const client = faultyClient('UploadPartCommand', async ({ attempt, send }) => {
      sent.push(attempt)
      if (attempt === 2) await gate.promise
      return send()
    })
    const store = storeWith(client)
    const writer = await store.create('large', never)
    const buffer = piece(0)
    for (let i = 0; i < 5; i++) await writer.write(buffer.fill(i)) // 45 MB: the second part waits at the gate
    await vi.waitFor(() => expect(sent).toEqual([1, 2]))
    const rest = writer.write(buffer.fill(5)).then(() => 'taken')
    expect(await Promise.race([rest, new Promise((resolve) => setImmediate(resolve, 'waits'))])).toBe('waits')
    gate.resolve()
    await rest
    await writer.close()
    const stored = (await store.get('large', never)) ?? new Uint8Array()
    expect(stored.length).toBe(6 * buffer.length)
    expect(
      Array.from({ length: 6 }, (_, i) =>
        stored.subarray(i * buffer.length, (i + 1) * buffer.length).every((b) => b === i)
      )
    ).toEqual([true, true, true, true, true, true])
  })

  test('B47: a part that fails is told by what comes next; nothing is visible, and nothing stays', async () => {
    const client = faultyClient('UploadPartCommand', async ({ attempt, send }) => {
      if (attempt > 1)
        throw Object.assign(new Error('Access Denied'), {
          name: 'AccessDenied',
          $fault: 'client',
          $metadata: { httpStatusCode: 403 },
        })
      return send()
    })
    const store = storeWith(client)
    const writer = await store.create('large', never)
    for (let i = 0; i < 4; i++) await writer.write(piece(i))
    await expect(writer.close()).rejects.toMatchObject({ name: 'OBJECT_STORE_REFUSED' })
    await writer.abort()
    expect(await store.list('', null, never)).toEqual([])
    expect((await newClient().send(new ListMultipartUploadsCommand({ Bucket: bucket }))).Uploads ?? []).toEqual([])
  })
})

describe('S3: one clear error', () => {
  test('a bucket that does not exist', async () => {
    const store = s3ObjectStore({ client: newClient(), bucket: 'no-such-bucket-here', prefix: 'p' })
    const missing = { name: 'OBJECT_STORE_REFUSED', retryable: false, message: /bucket does not exist.*Create it/ }
    await expect(store.list('', null, never)).rejects.toMatchObject({ name: missing.name, retryable: false })
    await expect(store.list('', null, never)).rejects.toThrow(missing.message)
    await expect(store.putIfAbsent('a', bytes('x'), never)).rejects.toThrow(missing.message)
    await expect(store.get('a', never)).rejects.toThrow(missing.message)
  })

  test('access denied names the rights that are missing', async () => {
    const denied = Object.assign(new Error('Access Denied'), {
      name: 'AccessDenied',
      $fault: 'client',
      $metadata: { httpStatusCode: 403 },
    })
    const client = faultyClient('PutObjectCommand', async () => {
      throw denied
    })
    await expect(storeWith(client).putIfAbsent('a', bytes('x'), never)).rejects.toThrow(
      /access is denied.*s3:PutObject/
    )
  })

  test('an endpoint that nobody listens on', async () => {
    const client = new S3Client({
      ...ministackClient,
      endpoint: 'http://127.0.0.1:9',
      forcePathStyle: true,
      maxAttempts: 1,
    })
    await expect(storeWith(client).get('a', never)).rejects.toMatchObject({ name: 'OBJECT_STORE_FAILED' })
  })
})
