/** Planner, worker and committer: one bundle, one role and one log group each. */
import { Duration, RemovalPolicy } from 'aws-cdk-lib'
import type { ITableV2 } from 'aws-cdk-lib/aws-dynamodb'
import type { ISecurityGroup, IVpc, SubnetSelection } from 'aws-cdk-lib/aws-ec2'
import { ManagedPolicy, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam'
import { Runtime } from 'aws-cdk-lib/aws-lambda'
import type { Architecture } from 'aws-cdk-lib/aws-lambda'
import { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs'
import { LogGroup, RetentionDays } from 'aws-cdk-lib/aws-logs'
import type { IBucket } from 'aws-cdk-lib/aws-s3'
import { Construct } from 'constructs'
import { join } from 'node:path'
import { bundling } from './function-bundle.ts'
import type { QueryModule } from './query-module.ts'
import { grantKeys, objectStatements, tableStatements } from './rights.ts'
import type { FunctionName } from './rights.ts'

export interface QueryFunctions {
  readonly planner: NodejsFunction
  readonly worker: NodejsFunction
  readonly committer: NodejsFunction
}

export interface FunctionSettings {
  readonly module: QueryModule
  readonly table: ITableV2
  readonly bucket: IBucket
  /** The user's. */
  readonly environment: Readonly<Record<string, string>>
  readonly timeout: Duration
  readonly architecture: Architecture
  readonly nativeCodecs: boolean
  /** MB. */
  readonly workerMemory: number
  /** For the functions that read Kafka. */
  readonly network: {
    readonly vpc?: IVpc
    readonly vpcSubnets?: SubnetSelection
    readonly securityGroups?: ISecurityGroup[]
  }
}

/** MB. Planner and committer hold a plan or a checkpoint, and wait for others most of the time. */
const SMALL = 1024

export const createFunctions = (scope: Construct, settings: FunctionSettings): QueryFunctions => ({
  planner: createFunction(scope, 'planner', settings, { memorySize: SMALL, ...settings.network }),
  worker: createFunction(scope, 'worker', settings, { memorySize: settings.workerMemory, ...settings.network }),
  committer: createFunction(scope, 'committer', settings, { memorySize: SMALL }), // it needs no Kafka
})

function createFunction(
  scope: Construct,
  name: FunctionName,
  { module, table, bucket, environment, timeout, architecture, nativeCodecs }: FunctionSettings,
  machine: { readonly memorySize: number } & FunctionSettings['network']
): NodejsFunction {
  const place = new Construct(scope, name.charAt(0).toUpperCase() + name.slice(1))
  const logGroup = new LogGroup(place, 'Logs', {
    retention: RetentionDays.ONE_MONTH,
    removalPolicy: RemovalPolicy.DESTROY,
  })
  const role = new Role(place, 'Role', { assumedBy: new ServicePrincipal('lambda.amazonaws.com') })
  logGroup.grantWrite(role)
  if (machine.vpc !== undefined)
    role.addManagedPolicy(ManagedPolicy.fromAwsManagedPolicyName('service-role/AWSLambdaVPCAccessExecutionRole'))
  for (const statement of tableStatements(name, table, module.query.name)) role.addToPolicy(statement)
  for (const statement of objectStatements(name, bucket, module.paths)) role.addToPolicy(statement)
  grantKeys(role, name, table, bucket)
  return new NodejsFunction(place, 'Function', {
    entry: join(import.meta.dirname, '..', 'functions', `${name}.ts`),
    description: `${name} of query ${module.query.name}`,
    runtime: Runtime.NODEJS_24_X,
    architecture,
    timeout,
    ...machine,
    role,
    logGroup,
    // Only workers read records.
    bundling: bundling({
      queryFile: module.file,
      nativeCodecs: nativeCodecs && name === 'worker' ? architecture : null,
    }),
    environment: {
      ...environment,
      SLUICE_TABLE: table.tableName,
      SLUICE_BUCKET: bucket.bucketName,
      SLUICE_LEASE_MS: String(timeout.plus(Duration.minutes(1)).toMilliseconds()), // P19
      SLUICE_TIMEOUT_MS: String(timeout.toMilliseconds()),
    },
  })
}
