/** The construct: everything that one query needs to run in an account. */
import { Duration, RemovalPolicy, Stack } from 'aws-cdk-lib'
import type { ITableV2 } from 'aws-cdk-lib/aws-dynamodb'
import type { ISecurityGroup, IVpc, SubnetSelection } from 'aws-cdk-lib/aws-ec2'
import { Policy, PolicyStatement } from 'aws-cdk-lib/aws-iam'
import type { Grant, IGrantable } from 'aws-cdk-lib/aws-iam'
import { Architecture } from 'aws-cdk-lib/aws-lambda'
import type { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs'
import type { IBucket } from 'aws-cdk-lib/aws-s3'
import { Schedule, ScheduleExpression, ScheduleTargetInput } from 'aws-cdk-lib/aws-scheduler'
import { StepFunctionsStartExecution } from 'aws-cdk-lib/aws-scheduler-targets'
import { DefinitionBody, StateMachine, StateMachineType } from 'aws-cdk-lib/aws-stepfunctions'
import { Construct } from 'constructs'
import { loopsWithinMinute } from '../src/trigger.ts'
import type { Trigger } from '../src/trigger.ts'
import { assertCodecs, installedArchitecture } from './function-bundle.ts'
import { createFunctions } from './query-functions.ts'
import type { FunctionSettings, QueryFunctions } from './query-functions.ts'
import { loadQueryModule, ownVariables } from './query-module.ts'
import type { QueryModule } from './query-module.ts'
import { objectStatements, tableStatements } from './rights.ts'
import { stateMachineDefinition } from './state-machine.ts'
import { createBucket, createTable, tableProblems } from './storage.ts'

export interface MicroBatchQueryProps {
  /** Path of the module whose default export is the query, relative to the directory in which the app runs. */
  readonly entry: string
  /**
   * Values for `{{env:NAME}}` in the query's options. They stand in the template and in the functions' configuration for
   * everybody who may read those: no secrets.
   * @default - none
   */
  readonly environment?: { readonly [name: string]: string }
  /**
   * When a batch is tried. A tick that finds a run at work ends at once, as busy.
   * @default - the interval of the query's trigger in whole minutes, one minute at least; on the minute for an interval below one
   */
  readonly schedule?: ScheduleExpression
  /**
   * Whether the schedule starts runs; a query without it is run by hand.
   * @default true
   */
  readonly enabled?: boolean
  /**
   * Where the brokers are reached from. The committer stays outside: it needs no Kafka.
   * @default - the functions are in no VPC
   */
  readonly vpc?: IVpc
  /** @default - the VPC's private subnets */
  readonly vpcSubnets?: SubnetSelection
  /** @default - a new one for each function in the VPC */
  readonly securityGroups?: ISecurityGroup[]
  /**
   * An existing table for the logs, which may hold those of other queries: string keys `pk` and `sk`, no TTL, one region.
   * @default - a new table, on demand
   */
  readonly stateTable?: ITableV2
  /**
   * An existing bucket as the root of the sink's relative paths.
   * @default - a new bucket, encrypted, closed to the public and to plain HTTP
   */
  readonly dataBucket?: IBucket
  /**
   * How long one invocation of a function may take, 5 seconds to 15 minutes. The lease of a run that died lasts a minute
   * longer.
   * @default Duration.minutes(15)
   */
  readonly timeout?: Duration
  /**
   * Memory of a worker in MB, and its share of CPU with it.
   * @default 1769, which is one CPU
   */
  readonly memorySize?: number
  /**
   * Workers at a time, 1 to 40.
   * @default 40
   */
  readonly maxConcurrency?: number
  /**
   * What becomes of a new table and a new bucket when they leave the stack. All but DESTROY also protect the table from
   * deletion and keep it restorable to any second of the last 35 days.
   * @default RemovalPolicy.RETAIN
   */
  readonly removalPolicy?: RemovalPolicy
  /**
   * What the functions run on.
   * @default - x86_64; with native codecs the one whose codecs are installed
   */
  readonly architecture?: Architecture
  /**
   * Whether the worker brings native modules for the checksum and LZ4, 1.4 MB that make large compressed records cheaper to
   * read. They must be installed for the functions' architecture where the stack is synthesized. Without them the same is
   * done in JavaScript.
   * @default false
   */
  readonly nativeCodecs?: boolean
}

/**
 * A query in an account: state table, bucket, planner, worker and committer, the state machine between them and the schedule
 * that starts it. An existing table and bucket may be passed in.
 */
export class MicroBatchQuery extends Construct {
  /** The logs: what is planned, reported and committed. */
  readonly stateTable: ITableV2
  /** The root of the sink's relative paths. */
  readonly dataBucket: IBucket
  /** One execution is one run, or a part of a long one. */
  readonly stateMachine: StateMachine
  readonly planner: NodejsFunction
  readonly worker: NodejsFunction
  readonly committer: NodejsFunction
  readonly #module: QueryModule

  /** @throws Error that names the prop at fault and what to do */
  constructor(scope: Construct, id: string, props: MicroBatchQueryProps) {
    super(scope, id)
    const { environment = {}, timeout = Duration.minutes(15), removalPolicy = RemovalPolicy.RETAIN } = props
    checkProps(props, timeout)
    const module = loadQueryModule(props.entry, environment)
    const { nativeCodecs = false } = props
    const architecture = props.architecture ?? (nativeCodecs ? installedArchitecture() : Architecture.X86_64)
    if (nativeCodecs && Stack.of(this).bundlingRequired) assertCodecs(architecture)

    this.#module = module
    this.stateTable = props.stateTable ?? createTable(this, removalPolicy)
    this.node.addValidation({ validate: () => tableProblems(this.stateTable) })
    this.dataBucket = props.dataBucket ?? createBucket(this, removalPolicy)
    const { planner, worker, committer } = createFunctions(this, {
      module,
      table: this.stateTable,
      bucket: this.dataBucket,
      environment,
      timeout,
      architecture,
      nativeCodecs,
      workerMemory: props.memorySize ?? 1769,
      network: networkOf(props),
    })
    this.planner = planner
    this.worker = worker
    this.committer = committer
    this.stateMachine = createMachine(this, { planner, worker, committer }, props.maxConcurrency ?? 40)
    new Schedule(this, 'Schedule', {
      schedule: props.schedule ?? rateOf(module.query.trigger),
      enabled: props.enabled ?? true,
      description: `Batches of query ${module.query.name}`,
      // A tick that could not be delivered is made up by the next one.
      target: new StepFunctionsStartExecution(this.stateMachine, {
        input: ScheduleTargetInput.fromObject({}),
        retryAttempts: 3,
        maxEventAge: Duration.minutes(5),
      }),
    })
  }

  /** May start runs, as the schedule does: to catch up, with the input `{"trigger":"availableNow"}`. */
  grantStart(grantee: IGrantable): Grant {
    return this.stateMachine.grantStartExecution(grantee)
  }

  /** May read the query's logs and what lies in the bucket under its sink's paths, and watch its runs. */
  grantRead(grantee: IGrantable): Grant {
    const { stateTable, dataBucket } = this
    const { query, paths } = this.#module
    const statements = [
      ...tableStatements('reader', stateTable, query.name),
      ...objectStatements('reader', dataBucket, paths),
    ]
    for (const statement of statements) grantee.grantPrincipal.addToPrincipalPolicy(statement)
    stateTable.encryptionKey?.grantDecrypt(grantee)
    dataBucket.encryptionKey?.grantDecrypt(grantee)
    return this.stateMachine.grantRead(grantee)
  }
}

/** @throws Error for values that would fail in the account, or behave as nobody meant */
function checkProps(
  { vpc, vpcSubnets, securityGroups, maxConcurrency, environment }: MicroBatchQueryProps,
  timeout: Duration
): void {
  const refuse = (prop: string, reason: string): never => {
    throw new Error(`MicroBatchQuery: '${prop}' ${reason}`)
  }
  const seconds = timeout.toSeconds()
  if (seconds < 5 || seconds > 900) refuse('timeout', `is ${seconds} s: it takes 5 seconds to 15 minutes`)
  if (
    maxConcurrency !== undefined &&
    !(Number.isInteger(maxConcurrency) && maxConcurrency >= 1 && maxConcurrency <= 40)
  )
    refuse('maxConcurrency', `is ${maxConcurrency}: it takes 1 to 40, the most that a Map runs at a time`)
  if (vpc === undefined && vpcSubnets !== undefined) refuse('vpcSubnets', "needs 'vpc'")
  if (vpc === undefined && securityGroups !== undefined) refuse('securityGroups', "needs 'vpc'")
  const own = Object.keys(environment ?? {}).find((name) => ownVariables.includes(name))
  if (own !== undefined) refuse('environment', `names ${own}, which the construct sets`)
}

function networkOf({ vpc, vpcSubnets, securityGroups }: MicroBatchQueryProps): FunctionSettings['network'] {
  if (vpc === undefined) return {}
  return { vpc, ...(vpcSubnets && { vpcSubnets }), ...(securityGroups && { securityGroups }) }
}

/** A schedule counts whole minutes. */
function rateOf(trigger: Trigger): ScheduleExpression {
  // An execution that loops within its minute counts on the next one to start on the minute; a rate keeps the second it began at.
  if (loopsWithinMinute(trigger)) return ScheduleExpression.cron({ minute: '*' })
  const minutes = trigger.kind === 'processingTime' ? Math.ceil(trigger.intervalMs / 60_000) : 1
  return ScheduleExpression.rate(Duration.minutes(Math.max(1, minutes)))
}

function createMachine(scope: Construct, functions: QueryFunctions, maxConcurrency: number): StateMachine {
  const { planner, worker, committer } = functions
  const names = { planner: '${planner}', worker: '${worker}', committer: '${committer}' } // put in by CloudFormation
  const machine = new StateMachine(scope, 'StateMachine', {
    stateMachineType: StateMachineType.STANDARD,
    definitionBody: DefinitionBody.fromString(JSON.stringify(stateMachineDefinition({ ...names, maxConcurrency }))),
    definitionSubstitutions: {
      planner: planner.functionArn,
      worker: worker.functionArn,
      committer: committer.functionArn,
    },
  })
  machine.addToRolePolicy(
    new PolicyStatement({
      actions: ['lambda:InvokeFunction'],
      resources: [planner.functionArn, worker.functionArn, committer.functionArn],
    })
  )
  // A long run goes on in an execution of its own. A policy apart: the machine waits for its role's own one.
  new Policy(scope, 'Continue', {
    roles: [machine.role],
    statements: [new PolicyStatement({ actions: ['states:StartExecution'], resources: [machine.stateMachineArn] })],
  })
  return machine
}
