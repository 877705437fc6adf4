/** The construct in an emulated account: synthesized, its bundles uploaded, its template deployed unchanged. */
import { App, Stack } from 'aws-cdk-lib'
import type { CloudAssembly } from 'aws-cdk-lib/cx-api'
import {
  CloudFormationClient,
  CreateStackCommand,
  DeleteStackCommand,
  DescribeStackEventsCommand,
  DescribeStackResourcesCommand,
  DescribeStacksCommand,
} from '@aws-sdk/client-cloudformation'
import { DynamoDBClient } from '@aws-sdk/client-dynamodb'
import { CreateBucketCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3'
import { DescribeExecutionCommand, SFNClient, StartExecutionCommand, StopExecutionCommand } from '@aws-sdk/client-sfn'
import type { DescribeExecutionOutput } from '@aws-sdk/client-sfn'
import { PutParameterCommand, SSMClient } from '@aws-sdk/client-ssm'
import { randomUUID } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { MicroBatchQuery } from '../../cdk/micro-batch-query.ts'
import type { MicroBatchQueryProps } from '../../cdk/micro-batch-query.ts'
import { ministackClient } from './ministack.ts'
import type { Template } from './policies.ts'
import { zipFolder } from './zip.ts'

export const account = '000000000000'
const assetsBucket = `cdk-hnb659fds-assets-${account}-us-east-1`

export interface Assembly {
  readonly template: string
  /** Key in the assets' bucket -> folder of the bundle. */
  readonly bundles: ReadonlyMap<string, string>
}

let outdir: string | undefined

/** Synthesizes one stack with one query, its functions bundled; the same bundles are made once. */
export function synthesize(props: MicroBatchQueryProps): Assembly {
  outdir ??= mkdtempSync(join(tmpdir(), 'sluice-cdk-'))
  const folder = outdir
  const app = new App({ outdir: folder, analyticsReporting: false })
  const stack = new Stack(app, 'Query')
  new MicroBatchQuery(stack, 'Query', props)
  const assembly: CloudAssembly = app.synth()
  const manifest = JSON.parse(readFileSync(join(folder, 'Query.assets.json'), 'utf8')) as AssetManifest
  const bundles = Object.values(manifest.files)
    .filter((file) => file.source.packaging === 'zip')
    .map((file) => [Object.values(file.destinations)[0]?.objectKey ?? '', join(folder, file.source.path)] as const)
  return {
    template: readFileSync(assembly.getStackByName('Query').templateFullPath, 'utf8'),
    bundles: new Map(bundles),
  }
}

/** Removes what was synthesized in this process. */
export function removeAssemblies(): void {
  if (outdir !== undefined) rmSync(outdir, { recursive: true, force: true })
  outdir = undefined
}

interface AssetManifest {
  readonly files: Readonly<
    Record<
      string,
      {
        readonly source: { readonly path: string; readonly packaging: string }
        readonly destinations: Readonly<Record<string, { readonly objectKey: string }>>
      }
    >
  >
}

export interface DeployedQuery {
  readonly table: string
  readonly bucket: string
  readonly stateMachine: string
  /** The template as it was deployed. */
  readonly template: Template
  readonly dynamodb: DynamoDBClient
  readonly s3: S3Client
  readonly states: SFNClient
  readonly functions: Readonly<Record<'Planner' | 'Worker' | 'Committer', DeployedFunction>>
  /** Starts an execution; a tick by default. */
  start(input?: object, name?: string): Promise<string>
  /** Waits until the execution has ended. */
  ended(execution: string, timeoutMs?: number): Promise<DescribeExecutionOutput>
  run(input?: object): Promise<DescribeExecutionOutput>
  stop(execution: string): Promise<void>
  /** Ends the clients; with the stack's deletion. */
  close(): Promise<void>
}

export interface DeployedFunction {
  readonly name: string
  /** Of its role, as in a policy's trust. */
  readonly role: string
}

/** Creates the stack from the template as it was synthesized, or as `edit` changes it. */
export async function deploy(
  endpoint: string,
  assembly: Assembly,
  edit: (template: string) => string = (template) => template
): Promise<DeployedQuery> {
  const settings = { ...ministackClient, endpoint }
  const s3 = new S3Client({ ...settings, forcePathStyle: true })
  const ssm = new SSMClient(settings)
  const stacks = new CloudFormationClient(settings)
  const states = new SFNClient(settings)
  const dynamodb = new DynamoDBClient(settings)
  await s3.send(new CreateBucketCommand({ Bucket: assetsBucket })).catch(() => {}) // it is there
  for (const [Key, folder] of assembly.bundles)
    await s3.send(new PutObjectCommand({ Bucket: assetsBucket, Key, Body: zipFolder(folder) }))
  const version = { Name: '/cdk-bootstrap/hnb659fds/version', Value: '21', Type: 'String', Overwrite: true } as const
  await ssm.send(new PutParameterCommand(version))
  ssm.destroy()

  const StackName = `query-${randomUUID().slice(0, 8)}`
  const TemplateBody = edit(assembly.template)
  await stacks.send(new CreateStackCommand({ StackName, TemplateBody, Capabilities: ['CAPABILITY_IAM'] }))
  await created(stacks, StackName)
  const found = await stacks.send(new DescribeStackResourcesCommand({ StackName }))
  const idOf = (type: string, prefix: string): string => {
    const resource = found.StackResources?.find(
      ({ LogicalResourceId, ResourceType }) => ResourceType === type && LogicalResourceId?.startsWith(prefix)
    )
    if (resource?.PhysicalResourceId === undefined) throw new Error(`the stack has no ${type} ${prefix}*`)
    return resource.PhysicalResourceId
  }
  const stateMachineArn = idOf('AWS::StepFunctions::StateMachine', 'Query')
  const functionOf = (name: string): DeployedFunction => ({
    name: idOf('AWS::Lambda::Function', `Query${name}`),
    role: idOf('AWS::IAM::Role', `Query${name}`),
  })
  const start = async (input: object = {}, name?: string): Promise<string> => {
    const command = new StartExecutionCommand({ stateMachineArn, input: JSON.stringify(input), ...(name && { name }) })
    return (await states.send(command)).executionArn ?? ''
  }
  const ended = (executionArn: string, timeoutMs = 60_000): Promise<DescribeExecutionOutput> =>
    endOf(states, executionArn, timeoutMs)
  return {
    table: idOf('AWS::DynamoDB::GlobalTable', 'Query'),
    bucket: idOf('AWS::S3::Bucket', 'Query'),
    stateMachine: stateMachineArn,
    template: JSON.parse(TemplateBody) as Template,
    dynamodb,
    s3,
    states,
    functions: { Planner: functionOf('Planner'), Worker: functionOf('Worker'), Committer: functionOf('Committer') },
    start,
    ended,
    run: async (input) => ended(await start(input)),
    stop: async (executionArn) => void (await states.send(new StopExecutionCommand({ executionArn }))),
    close: async () => {
      await stacks.send(new DeleteStackCommand({ StackName }))
      for (const client of [s3, stacks, states, dynamodb]) client.destroy()
    },
  }
}

async function created(stacks: CloudFormationClient, StackName: string): Promise<void> {
  for (;;) {
    const { Stacks } = await stacks.send(new DescribeStacksCommand({ StackName }))
    const status = Stacks?.[0]?.StackStatus ?? ''
    if (status === 'CREATE_COMPLETE') return
    if (!status.endsWith('IN_PROGRESS')) {
      const { StackEvents } = await stacks.send(new DescribeStackEventsCommand({ StackName }))
      const reasons = StackEvents?.flatMap(({ LogicalResourceId, ResourceStatusReason }) =>
        ResourceStatusReason === undefined ? [] : [`${LogicalResourceId}: ${ResourceStatusReason}`]
      )
      throw new Error(`the stack is ${status}: ${reasons?.join('; ')}`)
    }
    await delay(20)
  }
}

async function endOf(states: SFNClient, executionArn: string, timeoutMs: number): Promise<DescribeExecutionOutput> {
  const deadline = Date.now() + timeoutMs
  for (;;) {
    const execution = await states.send(new DescribeExecutionCommand({ executionArn }))
    if (execution.status !== 'RUNNING') return execution
    if (Date.now() > deadline) throw new Error(`execution ${executionArn} still runs after ${timeoutMs} ms`)
    await delay(50)
  }
}
