/** What each function may do, and no more: which logs it reads and writes in the table, where it writes in buckets. */
import { ArnFormat, Stack } from 'aws-cdk-lib'
import type { ITableV2 } from 'aws-cdk-lib/aws-dynamodb'
import { Effect, PolicyStatement } from 'aws-cdk-lib/aws-iam'
import type { IRole } from 'aws-cdk-lib/aws-iam'
import type { IBucket } from 'aws-cdk-lib/aws-s3'
import { bucketLocation } from '../src/warehouse.ts'

export type FunctionName = 'planner' | 'worker' | 'committer'

/** `reader`: people and programs that watch. */
export type Actor = FunctionName | 'reader'

/**
 * The logs that a function writes to; `parts` are pieces of their entries. An entry is put once and never changed: only
 * the lease is updated. Only housekeeping deletes, and what lost a race; and a worker takes back the note that it began.
 */
const writes: Readonly<Record<Actor, { readonly puts: readonly string[]; readonly deletes: readonly string[] }>> = {
  planner: { puts: ['meta', 'offsets', 'runs', 'parts'], deletes: ['parts'] },
  worker: { puts: ['reports/*', 'attempts/*', 'parts'], deletes: ['attempts/*', 'parts'] },
  committer: {
    puts: ['commits', 'redo/*', 'parts'],
    deletes: ['offsets', 'reports/*', 'redo/*', 'attempts/*', 'commits', 'parts'],
  },
  reader: { puts: [], deletes: [] },
}

/** Rights on the query's own keys. Generations are numbers: `reset` opens the next without a deployment. */
export function tableStatements(name: Actor, table: ITableV2, query: string): PolicyStatement[] {
  const inLogs = (logs: readonly string[]): string[] => logs.map((log) => `${query}@*/${log}`)
  const allow = (actions: readonly string[], keys: readonly string[]): PolicyStatement =>
    new PolicyStatement({
      effect: Effect.ALLOW,
      actions: actions.map((action) => `dynamodb:${action}`),
      resources: [table.tableArn],
      conditions: { 'ForAllValues:StringLike': { 'dynamodb:LeadingKeys': keys } },
    })
  const { puts, deletes } = writes[name]
  const begins = name === 'planner' ? [query] : [] // the item that names the current generation
  const reading = allow(['GetItem', 'Query'], [query, `${query}@*/*`])
  if (name === 'reader') return [reading]
  return [
    reading,
    allow(['UpdateItem'], inLogs(['run'])),
    allow(['PutItem'], [...begins, ...inLogs(puts)]),
    allow(['DeleteItem'], inLogs(deletes)),
  ]
}

/**
 * Rights on the sink's objects. None may delete one. The bucket may be listed whole: without that right S3 answers for a
 * missing object as for a forbidden one, and a condition on the prefix takes the right away where no prefix is asked for.
 */
export function objectStatements(name: Actor, warehouse: IBucket, paths: readonly string[]): PolicyStatement[] {
  return paths.flatMap((path) => {
    const { bucket, prefix } = bucketLocation(path, warehouse.bucketName)
    const isWarehouse = bucket === warehouse.bucketName
    const stack = Stack.of(warehouse)
    const arn = isWarehouse
      ? warehouse.bucketArn
      : stack.formatArn({
          service: 's3',
          region: '',
          account: '',
          resource: bucket,
          arnFormat: ArnFormat.NO_RESOURCE_NAME,
        })
    const objects = [prefix === '' ? `${arn}/*` : `${arn}/${prefix}/*`]
    const writing = {
      planner: [],
      reader: [],
      worker: ['s3:PutObject', 's3:AbortMultipartUpload'], // its files may be large
      committer: ['s3:PutObject'],
    }[name]
    return [
      new PolicyStatement({ actions: ['s3:GetObject', ...writing], resources: objects }),
      new PolicyStatement({
        actions: ['s3:ListBucket', ...(name === 'worker' ? ['s3:ListBucketMultipartUploads'] : [])],
        resources: [arn],
      }),
    ]
  })
}

/** Keys of the customer's own, where the table or the bucket has one. */
export function grantKeys(role: IRole, name: FunctionName, table: ITableV2, bucket: IBucket): void {
  table.encryptionKey?.grantEncryptDecrypt(role)
  if (name === 'planner') bucket.encryptionKey?.grantDecrypt(role)
  else bucket.encryptionKey?.grantEncryptDecrypt(role)
}
