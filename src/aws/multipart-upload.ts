/** One object sent in parts; it appears whole when the upload is completed. */
import { randomUUID } from 'node:crypto'
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import type { CompletedPart } from '@aws-sdk/client-s3'
import { isSluiceError } from '../errors.ts'
import { answerOf, askBucket, callBucket, callOrNull, unexpected } from './bucket-call.ts'
import type { S3Object } from './bucket-call.ts'

export interface MultipartUpload {
  /** Sends the next part: 5 MB or more, except for the last. */
  part(bytes: Uint8Array, signal: AbortSignal): Promise<void>
  complete(signal: AbortSignal): Promise<void>
  /** Removes the parts. Takes no signal: it is what still has to be done after an abort. */
  abort(): Promise<void>
}

/** The object's own mark: it tells a completed upload whose answer was lost from another's object. */
const markName = 'sluice-upload'

export async function startUpload(object: S3Object, signal: AbortSignal): Promise<MultipartUpload> {
  const { client, Bucket, Key, address } = object
  const mark = randomUUID()
  const started = await callBucket(address, signal, (o) =>
    client.send(
      new CreateMultipartUploadCommand({ Bucket, Key, Metadata: { [markName]: mark }, ChecksumAlgorithm: 'CRC32' }),
      o
    )
  )
  const target = { Bucket, Key, UploadId: started.UploadId }
  const parts: CompletedPart[] = []
  return {
    part: async (bytes, partSignal) => {
      const PartNumber = parts.length + 1
      const { ETag, ChecksumCRC32 } = await callBucket(address, partSignal, (o) =>
        client.send(new UploadPartCommand({ ...target, PartNumber, Body: bytes, ChecksumAlgorithm: 'CRC32' }), o)
      )
      parts.push({ PartNumber, ETag, ChecksumCRC32 })
    },
    complete: async (completeSignal) => {
      try {
        const command = new CompleteMultipartUploadCommand({
          ...target,
          MultipartUpload: { Parts: parts },
          IfNoneMatch: '*',
        })
        await askBucket(address, completeSignal, (o) => client.send(command, o))
      } catch (e) {
        if (answerOf(e) === null && !isSluiceError(e, 'OBJECT_STORE_FAILED')) throw e
        if (!(await hasMark(object, mark, completeSignal))) throw unexpected(address, e)
      }
    },
    abort: async () => {
      const never = new AbortController().signal
      await callOrNull(address, never, (o) => client.send(new AbortMultipartUploadCommand(target), o))
    },
  }
}

/**
 * Removes what an upload left whose start was not answered: its id is unknown, so all uploads of the key are ended. The
 * key is one writer's own (P3).
 */
export async function abortUploads({ client, Bucket, Key, address }: S3Object): Promise<void> {
  const never = new AbortController().signal
  const found = await callBucket(address, never, (o) =>
    client.send(new ListMultipartUploadsCommand({ Bucket, Prefix: Key }), o)
  )
  for (const upload of found.Uploads ?? []) {
    if (upload.Key !== Key) continue
    const command = new AbortMultipartUploadCommand({ Bucket, Key, UploadId: upload.UploadId })
    await callOrNull(address, never, (o) => client.send(command, o))
  }
}

async function hasMark(
  { client, Bucket, Key, address }: S3Object,
  mark: string,
  signal: AbortSignal
): Promise<boolean> {
  const head = await callOrNull(address, signal, (o) => client.send(new HeadObjectCommand({ Bucket, Key }), o))
  return head?.Metadata?.[markName] === mark
}
