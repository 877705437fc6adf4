/** The state table and the data bucket: what a query creates, and what it takes of others. */
import { Duration, RemovalPolicy, Stack } from 'aws-cdk-lib'
import { AttributeType, CfnGlobalTable, CfnTable, TableV2 } from 'aws-cdk-lib/aws-dynamodb'
import type { ITableV2 } from 'aws-cdk-lib/aws-dynamodb'
import { BlockPublicAccess, Bucket, BucketEncryption } from 'aws-cdk-lib/aws-s3'
import type { IBucket } from 'aws-cdk-lib/aws-s3'
import type { Construct } from 'constructs'

/** Without a time to live and in one region (P8): entries that vanish, or answer late, would be a position forgotten. */
export function createTable(scope: Construct, removalPolicy: RemovalPolicy): ITableV2 {
  const isKept = removalPolicy !== RemovalPolicy.DESTROY
  return new TableV2(scope, 'State', {
    partitionKey: { name: 'pk', type: AttributeType.STRING },
    sortKey: { name: 'sk', type: AttributeType.STRING },
    removalPolicy,
    deletionProtection: isKept,
    pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: isKept },
  }) as ITableV2 // under exactOptionalPropertyTypes the library's classes do not fit its interfaces
}

export const createBucket = (scope: Construct, removalPolicy: RemovalPolicy): IBucket =>
  new Bucket(scope, 'Data', {
    blockPublicAccess: BlockPublicAccess.BLOCK_ALL,
    enforceSSL: true,
    encryption: BucketEncryption.S3_MANAGED,
    // Parts that a killed worker had sent: no right of the functions reaches them any more.
    lifecycleRules: [{ abortIncompleteMultipartUploadAfter: Duration.days(2) }],
    removalPolicy,
  }) as IBucket

/**
 * Why a table cannot hold the logs, as far as it is defined in the same app; one that is only referred to is taken as it is.
 * Asked at synthesis: until then an app can still add to a table.
 */
export function tableProblems(table: ITableV2): string[] {
  const resource = table.node.defaultChild
  if (!(resource instanceof CfnGlobalTable || resource instanceof CfnTable)) return []
  const resolved = (value: unknown): unknown => Stack.of(table).resolve(value)
  const problems: string[] = []
  const keys = JSON.stringify(resolved([resource.keySchema, resource.attributeDefinitions]))
  if (!isKeyedRight(keys)) problems.push("needs the partition key 'pk' and the sort key 'sk', both strings")
  if (resolved(resource.timeToLiveSpecification) !== undefined)
    problems.push('has a time to live: a paused query would forget its position')
  const replicas = resource instanceof CfnGlobalTable ? resolved(resource.replicas) : []
  if (Array.isArray(replicas) && replicas.length > 1)
    problems.push('has replicas in other regions: two writers in two regions would both win')
  return problems.map((problem) => `MicroBatchQuery: the state table ${problem} (P8)`)
}

const isKeyedRight = (keys: string): boolean =>
  ['"attributeName":"pk","keyType":"HASH"', '"attributeName":"sk","keyType":"RANGE"'].every((key) =>
    keys.includes(key)
  ) && ['pk', 'sk'].every((name) => keys.includes(`"attributeName":"${name}","attributeType":"S"`))
