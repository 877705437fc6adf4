/** Objects in a bucket. What must have one winner is put with If-None-Match, which S3 decides atomically. */
import { GetObjectCommand, HeadObjectCommand, ListObjectsV2Command, PutObjectCommand } from '@aws-sdk/client-s3'
import type { S3Client } from '@aws-sdk/client-s3'
import { SluiceError, isSluiceError } from '../errors.ts'
import { checkedFolder, checkedKey } from '../object-key.ts'
import type { ObjectStore } from '../ports.ts'
import { answerOf, askBucket, callBucket, callOrNull, unexpected } from './bucket-call.ts'
import type { S3Object } from './bucket-call.ts'
import { objectWriter } from './object-writer.ts'

export interface S3Location {
  readonly client: S3Client
  readonly bucket: string
  /** Without slashes at its ends; '' for the whole bucket. */
  readonly prefix: string
}

/** Conflicts and unknown outcomes of one conditional put that are met before the failure goes to the caller. */
const rounds = 3

export function s3ObjectStore({ client, bucket, prefix }: S3Location): ObjectStore {
  const folder = prefix === '' ? '' : `${prefix}/`
  const root = `s3://${bucket}/${prefix}`
  const objectAt = (key: string): S3Object => {
    const Key = folder + checkedKey(root, key)
    return { client, Bucket: bucket, Key, address: `s3://${bucket}/${Key}` }
  }
  return {
    root,
    putIfAbsent: async (key, body, signal) => putIfAbsent(objectAt(key), body, signal),
    put: async (key, body, signal) => {
      const { address, Bucket, Key } = objectAt(key)
      await callBucket(address, signal, (o) => client.send(new PutObjectCommand({ Bucket, Key, Body: body }), o))
    },
    create: async (key, signal) => {
      const object = objectAt(key)
      if (signal.aborted) throw new SluiceError('ABORTED', { step: `Writing ${object.address}` })
      return objectWriter(object, (body) => putIfAbsent(object, body, signal), signal)
    },
    get: async (key, signal) => read(objectAt(key), signal),
    size: async (key, signal) => {
      const { address, Bucket, Key } = objectAt(key)
      const head = await callOrNull(address, signal, (o) => client.send(new HeadObjectCommand({ Bucket, Key }), o))
      return head?.ContentLength ?? null
    },
    list: async (keyPrefix, startAfter, signal) => {
      checkedFolder(root, keyPrefix)
      const keys: string[] = []
      const input = {
        Bucket: bucket,
        Prefix: folder + keyPrefix,
        ...(startAfter && { StartAfter: folder + startAfter }),
      }
      const address = `s3://${bucket}/${folder}${keyPrefix}*`
      for (let next: string | undefined, more = true; more; more = next !== undefined) {
        const command = new ListObjectsV2Command({ ...input, ...(next && { ContinuationToken: next }) })
        const page = await callBucket(address, signal, (o) => client.send(command, o))
        keys.push(
          ...(page.Contents ?? []).flatMap(({ Key }) => (Key?.startsWith(folder) ? Key.slice(folder.length) : []))
        )
        next = page.NextContinuationToken
      }
      return keys
    },
  }
}

/**
 * After a refusal and after an unknown outcome the stored bytes decide: the client itself repeats a put whose answer
 * was lost, and then hears from S3 that the key is taken, by its own first try. A conflict (409) means that another
 * conditional put was on its way: the key is read, and the put repeated if that one came to nothing.
 */
async function putIfAbsent(object: S3Object, body: Uint8Array, signal: AbortSignal): Promise<'created' | 'exists'> {
  const { client, Bucket, Key, address } = object
  for (let round = 1; ; round++) {
    try {
      const command = new PutObjectCommand({ Bucket, Key, Body: body, IfNoneMatch: '*' })
      await askBucket(address, signal, (o) => client.send(command, o))
      return 'created'
    } catch (e) {
      if (answerOf(e) === null && !isSluiceError(e, 'OBJECT_STORE_FAILED')) throw e
      const stored = await read(object, signal)
      if (stored !== null) return Buffer.compare(stored, body) === 0 ? 'created' : 'exists'
      if (round === rounds) throw unexpected(address, e)
    }
  }
}

async function read(object: S3Object, signal: AbortSignal): Promise<Uint8Array | null> {
  const { client, Bucket, Key, address } = object
  return callOrNull(address, signal, async (o) => {
    const answer = await client.send(new GetObjectCommand({ Bucket, Key }), o)
    return (await answer.Body?.transformToByteArray()) ?? new Uint8Array()
  })
}
