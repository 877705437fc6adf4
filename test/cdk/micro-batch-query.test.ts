/** The template of the construct: what a query gets without a prop, and who may do what. */
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam'
import { beforeAll, describe, expect, it } from 'vitest'
import { MicroBatchQuery } from '../../cdk/micro-batch-query.ts'
import { stateMachineDefinition } from '../../cdk/state-machine.ts'
import { actionsOf, allowsItem, allowsObject, leadingKeysOf, statementsOf } from '../support/policies.ts'
import {
  environment,
  flights,
  functionsOf,
  onlyOne,
  resourcesOf,
  synthesized,
  variablesOf,
} from '../support/synthesized-query.ts'
import type { Setting } from '../support/synthesized-query.ts'

let standard: Setting
beforeAll(() => {
  standard = synthesized()
}, 60_000) // the first synthesis of a process loads the library

describe('without a prop beside the entry', () => {
  it('the table has the keys of the logs, no time to live, one region, and stays when the stack goes (P8)', () => {
    const [table] = resourcesOf(standard, 'AWS::DynamoDB::GlobalTable')
    expect(table).toMatchObject({
      DeletionPolicy: 'Retain',
      UpdateReplacePolicy: 'Retain',
      Properties: {
        BillingMode: 'PAY_PER_REQUEST',
        KeySchema: [
          { AttributeName: 'pk', KeyType: 'HASH' },
          { AttributeName: 'sk', KeyType: 'RANGE' },
        ],
        Replicas: [
          {
            Region: 'eu-central-1',
            DeletionProtectionEnabled: true,
            PointInTimeRecoverySpecification: { PointInTimeRecoveryEnabled: true },
          },
        ],
      },
    })
    expect(standard.text).not.toMatch(/TimeToLive/)
  })

  it('the bucket is closed to the public and to plain HTTP, encrypted, and stays', () => {
    const [bucket] = resourcesOf(standard, 'AWS::S3::Bucket')
    expect(bucket).toMatchObject({
      DeletionPolicy: 'Retain',
      Properties: {
        PublicAccessBlockConfiguration: {
          BlockPublicAcls: true,
          BlockPublicPolicy: true,
          IgnorePublicAcls: true,
          RestrictPublicBuckets: true,
        },
        BucketEncryption: {
          ServerSideEncryptionConfiguration: [{ ServerSideEncryptionByDefault: { SSEAlgorithm: 'AES256' } }],
        },
      },
    })
    expect(onlyOne(standard, 'AWS::S3::BucketPolicy')).toMatchObject({
      PolicyDocument: { Statement: [{ Effect: 'Deny', Condition: { Bool: { 'aws:SecureTransport': 'false' } } }] },
    })
  })

  it('the functions run on Node 24 with what they need to find the logs, the lease a minute longer than they (P19)', () => {
    for (const properties of Object.values(functionsOf(standard))) {
      expect(properties).toMatchObject({ Runtime: 'nodejs24.x', Timeout: 900, Handler: 'index.handler' })
      expect(variablesOf(properties)).toMatchObject({
        ...environment,
        SLUICE_LEASE_MS: '960000',
        SLUICE_TIMEOUT_MS: '900000',
      })
      expect(variablesOf(properties)['SLUICE_TABLE']).toEqual({ Ref: expect.stringMatching(/^QueryState/) })
      expect(variablesOf(properties)['SLUICE_BUCKET']).toEqual({ Ref: expect.stringMatching(/^QueryData/) })
      expect(properties).not.toHaveProperty('VpcConfig')
    }
    expect(functionsOf(standard)).toMatchObject({ Planner: { MemorySize: 1024 }, Worker: { MemorySize: 1769 } })
  })

  it("each function's log is kept for a month and goes with the stack", () => {
    const logs = resourcesOf(standard, 'AWS::Logs::LogGroup')
    expect(logs).toHaveLength(3)
    for (const log of logs) expect(log).toMatchObject({ Properties: { RetentionInDays: 30 }, DeletionPolicy: 'Delete' })
  })

  it('the machine is the definition, with the three ARNs put in by CloudFormation', () => {
    const machine = onlyOne(standard, 'AWS::StepFunctions::StateMachine')
    expect(machine).toMatchObject({ StateMachineType: 'STANDARD' })
    const names = { planner: '${planner}', worker: '${worker}', committer: '${committer}' }
    const definition = stateMachineDefinition({ ...names, maxConcurrency: 40 })
    expect(JSON.parse(String(machine['DefinitionString']))).toEqual(JSON.parse(JSON.stringify(definition)))
    expect(Object.keys(machine['DefinitionSubstitutions'] as object).toSorted()).toEqual(Object.keys(names).toSorted())
  })

  it("ticks come at the interval of the query's trigger", () => {
    expect(onlyOne(standard, 'AWS::Scheduler::Schedule')).toMatchObject({
      ScheduleExpression: 'rate(1 minute)',
      State: 'ENABLED',
      FlexibleTimeWindow: { Mode: 'OFF' },
      Target: { Input: '{}', RetryPolicy: { MaximumRetryAttempts: 3 } },
    })
  })
})

describe('rights', () => {
  it('name their resources: no statement is for all', () => {
    const statements = statementsOf(standard.template)
    expect(statements.length).toBeGreaterThan(15)
    const wild = statements.filter(({ Resource }) => JSON.stringify(Resource).includes('"*"'))
    expect(wild).toEqual([])
    expect(standard.text).not.toMatch(/service-role\/|"ManagedPolicyArns"/)
  })

  it('on the table are limited to keys of this query', () => {
    const onTable = statementsOf(standard.template).filter((s) => actionsOf(s).some((a) => a.startsWith('dynamodb:')))
    expect(onTable).toHaveLength(12)
    for (const statement of onTable)
      expect((leadingKeysOf(statement) ?? ['none']).filter((key) => !/^flights(@\*\/|$)/.test(key))).toEqual([])
  })

  const logs = ['meta', 'offsets', 'commits', 'run', 'runs', 'parts', 'reports/7', 'redo/7', 'attempts/7']
  it.each([
    ['Planner', 'PutItem', ['', 'meta', 'offsets', 'runs', 'parts']],
    ['Worker', 'PutItem', ['reports/7', 'attempts/7', 'parts']],
    ['Committer', 'PutItem', ['commits', 'redo/7', 'parts']],
    ['Planner', 'UpdateItem', ['run']],
    ['Worker', 'UpdateItem', ['run']],
    ['Committer', 'UpdateItem', ['run']],
    ['Planner', 'DeleteItem', ['parts']],
    ['Worker', 'DeleteItem', ['attempts/7', 'parts']],
    ['Committer', 'DeleteItem', ['offsets', 'commits', 'parts', 'reports/7', 'redo/7', 'attempts/7']],
    ['Planner', 'Query', ['', ...logs]],
    ['Worker', 'GetItem', ['', ...logs]],
    ['Committer', 'Scan', []],
  ])('%s may %s in %j alone', (name, action, allowed) => {
    const statements = statementsOf(standard.template, `Query${name}Role`)
    const keyOf = (log: string): string => (log === '' ? 'flights' : `flights@1/${log}`)
    const found = ['', ...logs].filter((log) => allowsItem(statements, action, keyOf(log)))
    expect(found.toSorted()).toEqual(allowed.toSorted())
    for (const other of ['orders@1/offsets', 'orders', 'flights2@1/offsets'])
      expect(allowsItem(statements, action, other)).toBe(false)
  })

  it.each([
    ['Planner', ['GetObject']],
    ['Worker', ['GetObject', 'PutObject', 'AbortMultipartUpload']],
    ['Committer', ['GetObject', 'PutObject']],
  ])("%s may %j on the sink's objects alone", (name, allowed) => {
    const statements = statementsOf(standard.template, `Query${name}Role`)
    const actions = ['GetObject', 'PutObject', 'AbortMultipartUpload', 'DeleteObject', 'PutObjectAcl']
    expect(actions.filter((action) => allowsObject(statements, action, 'flights/part-1.parquet'))).toEqual(allowed)
    expect(actions.filter((action) => allowsObject(statements, action, 'orders/part-1.parquet'))).toEqual([])
    expect(statements.flatMap(actionsOf).filter((action) => /\*|Delete(?!Item)/.test(action))).toEqual([])
  })

  it('let the machine call its functions and start itself again, and the schedule start the machine', () => {
    const machine = statementsOf(standard.template, 'QueryStateMachineRole')
    expect(machine.flatMap(actionsOf).toSorted()).toEqual(['lambda:InvokeFunction', 'states:StartExecution'])
    const scheduler = statementsOf(standard.template, 'SchedulerRole')
    expect(scheduler.flatMap(actionsOf)).toEqual(['states:StartExecution'])
  })

  it('are granted to others: to start, and to read without changing anything', () => {
    const { template } = synthesized((stack) => {
      const [starter, reader] = ['Starter', 'Reader'].map(
        (id) => new Role(stack, id, { assumedBy: new ServicePrincipal('ec2.amazonaws.com') })
      )
      const other = new MicroBatchQuery(stack, 'Other', { entry: flights, environment })
      if (starter) other.grantStart(starter)
      if (reader) other.grantRead(reader)
      return {}
    })
    expect(statementsOf(template, 'Starter').flatMap(actionsOf)).toEqual(['states:StartExecution'])
    const reading = statementsOf(template, 'Reader')
    expect(reading.flatMap(actionsOf).filter((a) => !/:(Get|List|Describe|Query)/.test(a))).toEqual([])
    expect(allowsItem(reading, 'Query', 'flights@1/commits')).toBe(true)
    expect(allowsItem(reading, 'Query', 'orders@1/commits')).toBe(false)
    expect(allowsObject(reading, 'GetObject', 'flights/_delta_log/0.json')).toBe(true)
  })
})
