/** What the props of the construct change, and which are refused before anything is deployed. */
import { Duration, RemovalPolicy, SecretValue } from 'aws-cdk-lib'
import { AttributeType, TableEncryptionV2, TableV2 } from 'aws-cdk-lib/aws-dynamodb'
import type { ITableV2, TablePropsV2 } from 'aws-cdk-lib/aws-dynamodb'
import { SecurityGroup, SubnetType, Vpc } from 'aws-cdk-lib/aws-ec2'
import type { ISecurityGroup, IVpc } from 'aws-cdk-lib/aws-ec2'
import { Key } from 'aws-cdk-lib/aws-kms'
import { Architecture } from 'aws-cdk-lib/aws-lambda'
import { Bucket } from 'aws-cdk-lib/aws-s3'
import type { IBucket } from 'aws-cdk-lib/aws-s3'
import { ScheduleExpression } from 'aws-cdk-lib/aws-scheduler'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { actionsOf, allowsItem, allowsObject, statementsOf } from '../support/policies.ts'
import { functionsOf, onlyOne, resourcesOf, synthesized, variablesOf } from '../support/synthesized-query.ts'

const keys = {
  partitionKey: { name: 'pk', type: AttributeType.STRING },
  sortKey: { name: 'sk', type: AttributeType.STRING },
} as const

let folder: string
/** Writes a query module, whose text follows the imports. */
function moduleOf(name: string, text: string): string {
  const file = join(folder, `${name}.ts`)
  const index = join(import.meta.dirname, '../../src/index.ts')
  writeFileSync(file, `import { defineQuery, deltaTable, kafka, t, Trigger } from ${JSON.stringify(index)}\n${text}\n`)
  return file
}
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-query-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const queryModule = (name: string, options: string, more = ''): string =>
  moduleOf(
    name,
    `export default defineQuery({ name: '${name}', source: kafka({ 'kafka.bootstrap.servers': 'b:9092', ${options} }), sink: deltaTable('out'), ${more} })`
  )

describe('props', () => {
  it('a network holds the functions that read Kafka, not the committer', () => {
    const setting = synthesized((stack) => {
      const subnets = [
        { name: 'public', subnetType: SubnetType.PUBLIC },
        { name: 'brokers', subnetType: SubnetType.PRIVATE_ISOLATED },
      ]
      const vpc = new Vpc(stack, 'Vpc', { maxAzs: 2, subnetConfiguration: subnets }) as IVpc
      const group = new SecurityGroup(stack, 'Group', { vpc }) as ISecurityGroup
      return { vpc, vpcSubnets: { subnetType: SubnetType.PRIVATE_ISOLATED }, securityGroups: [group] }
    })
    const { Planner, Worker, Committer } = functionsOf(setting)
    for (const properties of [Planner, Worker])
      expect(properties['VpcConfig']).toEqual({
        SecurityGroupIds: [{ 'Fn::GetAtt': [expect.stringMatching(/^Group/), 'GroupId'] }],
        SubnetIds: [{ Ref: expect.stringMatching(/brokersSubnet1/) }, { Ref: expect.stringMatching(/brokersSubnet2/) }],
      })
    expect(Committer).not.toHaveProperty('VpcConfig')
    // The one managed policy: network interfaces can only be allowed for all of them.
    expect(setting.text.match(/service-role\/\w+/g)).toEqual(
      Array.from({ length: 2 }, () => 'service-role/AWSLambdaVPCAccessExecutionRole')
    )
  })

  it('an existing table and bucket are used and not made again, under their own keys', () => {
    const setting = synthesized((stack) => {
      const [tableKey, bucketKey] = [new Key(stack, 'TableKey'), new Key(stack, 'BucketKey')]
      const encryption = TableEncryptionV2.customerManagedKey(tableKey)
      return {
        stateTable: new TableV2(stack, 'Logs', { ...keys, encryption }) as ITableV2,
        dataBucket: new Bucket(stack, 'Lake', { encryptionKey: bucketKey }) as IBucket,
      }
    })
    expect(resourcesOf(setting, 'AWS::DynamoDB::GlobalTable')).toHaveLength(1)
    expect(resourcesOf(setting, 'AWS::S3::Bucket')).toHaveLength(1)
    expect(variablesOf(functionsOf(setting).Worker)).toMatchObject({
      SLUICE_TABLE: { Ref: expect.stringMatching(/^Logs/) },
      SLUICE_BUCKET: { Ref: expect.stringMatching(/^Lake/) },
    })
    const onKeys = (role: string) =>
      statementsOf(setting.template, role)
        .filter((statement) => actionsOf(statement).some((action) => action.startsWith('kms:')))
        .map((statement) => [
          JSON.stringify(statement.Resource).match(/Table|Bucket/)?.[0],
          actionsOf(statement).length,
        ])
    expect(onKeys('QueryPlannerRole')).toEqual([
      ['Table', 4],
      ['Bucket', 1], // it reads
    ])
    expect(onKeys('QueryCommitterRole')).toEqual([
      ['Table', 4],
      ['Bucket', 4],
    ])
  })

  it('a table and a bucket of another stack are taken as they are', () => {
    const setting = synthesized((stack) => ({
      stateTable: TableV2.fromTableName(stack, 'Logs', 'shared-logs'),
      dataBucket: Bucket.fromBucketName(stack, 'Lake', 'lake'),
    }))
    expect(variablesOf(functionsOf(setting).Planner)).toMatchObject({
      SLUICE_TABLE: 'shared-logs',
      SLUICE_BUCKET: 'lake',
    })
    expect(allowsItem(statementsOf(setting.template, 'QueryPlanner'), 'PutItem', 'flights@1/offsets')).toBe(true)
    expect(setting.text).toContain(':table/shared-logs')
  })

  it('time, memory, workers at a time, machine and schedule are as asked', () => {
    const setting = synthesized(() => ({
      timeout: Duration.minutes(2),
      memorySize: 3008,
      maxConcurrency: 7,
      architecture: Architecture.ARM_64,
      schedule: ScheduleExpression.rate(Duration.hours(1)),
      enabled: false,
    }))
    const { Planner, Worker, Committer } = functionsOf(setting)
    for (const properties of [Planner, Worker, Committer]) {
      expect(properties).toMatchObject({ Timeout: 120, Architectures: ['arm64'] })
      expect(variablesOf(properties)).toMatchObject({ SLUICE_LEASE_MS: '180000', SLUICE_TIMEOUT_MS: '120000' })
    }
    expect([Planner, Worker, Committer].map((properties) => properties['MemorySize'])).toEqual([1024, 3008, 1024])
    expect(onlyOne(setting, 'AWS::Scheduler::Schedule')).toMatchObject({
      ScheduleExpression: 'rate(1 hour)',
      State: 'DISABLED',
    })
    const machine = onlyOne(setting, 'AWS::StepFunctions::StateMachine')
    expect(JSON.parse(String(machine['DefinitionString'])).States.Work.MaxConcurrency).toBe(7)
  })

  it('with DESTROY nothing outlives the stack or is protected', () => {
    const setting = synthesized(() => ({ removalPolicy: RemovalPolicy.DESTROY }))
    expect(resourcesOf(setting, 'AWS::DynamoDB::GlobalTable')).toMatchObject([
      { DeletionPolicy: 'Delete', Properties: { Replicas: [{ DeletionProtectionEnabled: false }] } },
    ])
    expect(resourcesOf(setting, 'AWS::S3::Bucket')).toMatchObject([{ DeletionPolicy: 'Delete' }])
    expect(setting.text).not.toContain('"Retain"')
  })

  it.each([
    ["Trigger.processingTime('5 minutes')", 'rate(5 minutes)'],
    ["Trigger.processingTime('90 seconds')", 'rate(2 minutes)'],
    ["Trigger.processingTime('10 seconds')", 'cron(* * * * ? *)'],
    ['Trigger.availableNow()', 'rate(1 minute)'],
  ])('a query with %s is tried at %s', (trigger, rate) => {
    const name = `q${rate.replaceAll(/\W/g, '')}${trigger.length}`
    const setting = synthesized(() => ({ entry: queryModule(name, "subscribe: 'x'", `trigger: ${trigger}`) }))
    expect(onlyOne(setting, 'AWS::Scheduler::Schedule')).toMatchObject({ ScheduleExpression: rate })
  })

  it("the rights follow the sink's paths, into other buckets too", () => {
    const entry = moduleOf(
      'paths',
      "export default defineQuery({ name: 'paths', source: kafka({ 'kafka.bootstrap.servers': 'b:9092', subscribe: 'x' }), sink: deltaTable('s3://elsewhere/lake/paths/') })"
    )
    const worker = statementsOf(synthesized(() => ({ entry })).template, 'QueryWorker')
    expect(allowsObject(worker, 'PutObject', 'lake/paths/part-1.parquet')).toBe(false) // the pattern holds the bucket
    const put = worker.find((statement) => actionsOf(statement).includes('s3:PutObject'))
    expect(JSON.stringify(put?.Resource)).toContain(':s3:::elsewhere/lake/paths/*"')
  })
})

describe('secrets', () => {
  it('a password is a pointer in the query and a pointer in the template: nothing of the options is in it (B58)', () => {
    const options = `subscribe: 'x', 'kafka.security.protocol': 'SASL_SSL', 'kafka.sasl.mechanism': 'SCRAM-SHA-512',
      'kafka.sasl.jaas.config': 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="{{env:KAFKA_PASSWORD}}";'`
    const { text } = synthesized(() => ({
      entry: queryModule('secretive', options),
      environment: { KAFKA_PASSWORD: SecretValue.secretsManager('kafka', { jsonField: 'password' }).unsafeUnwrap() },
    }))
    expect(text).toContain('"KAFKA_PASSWORD":"{{resolve:secretsmanager:kafka:SecretString:password::}}"')
    expect(text).not.toMatch(/alice|jaas|ScramLoginModule/)
  })
})

describe('refused at synthesis', () => {
  const base = { environment: {} }
  it.each([
    [
      'a missing module',
      { entry: 'queries/none.ts' },
      /entry 'queries\/none\.ts': there is no file .*none\.ts; give the path/,
    ],
    [
      'a module of something else',
      { entry: 'src/index.ts', ...base },
      /entry 'src\/index\.ts': its default export is not made by defineQuery/,
    ],
    [
      'a variable that nobody sets',
      { environment: { SLUICE_TOPIC: 'x' } },
      /refer to \{\{env:SLUICE_BROKERS\}\}: give SLUICE_BROKERS in 'environment'/,
    ],
    [
      'an option of the query',
      { environment: { SLUICE_BROKERS: 'b:9092', SLUICE_TOPIC: '' } },
      /entry '.*flights\.ts': .*subscribe/,
    ],
    [
      "the construct's own variable",
      { environment: { SLUICE_TABLE: 'x' } },
      /'environment' names SLUICE_TABLE, which the construct sets/,
    ],
    ['no time', { timeout: Duration.seconds(3) }, /'timeout' is 3 s: it takes 5 seconds to 15 minutes/],
    ['too much time', { timeout: Duration.minutes(16) }, /'timeout' is 960 s/],
    ['no worker', { maxConcurrency: 0 }, /'maxConcurrency' is 0: it takes 1 to 40/],
    ['too many workers', { maxConcurrency: 41 }, /'maxConcurrency' is 41/],
    ['subnets without a network', { vpcSubnets: {} }, /'vpcSubnets' needs 'vpc'/],
    ['groups without a network', { securityGroups: [] }, /'securityGroups' needs 'vpc'/],
  ])('%s', (_what, props, message) => {
    expect(() => synthesized(() => props)).toThrow(message)
  })

  it('a module that fails when it is loaded, by its own words', () => {
    const entry = moduleOf('broken', "throw new Error('no such region')")
    expect(() => synthesized(() => ({ entry }))).toThrow(/entry '.*broken\.ts': it cannot be loaded: no such region/)
  })

  it.each<[string, Partial<TablePropsV2>, RegExp]>([
    [
      'other keys',
      { partitionKey: { name: 'id', type: AttributeType.STRING } },
      /needs the partition key 'pk' and the sort key 'sk'/,
    ],
    ['a numeric sort key', { sortKey: { name: 'sk', type: AttributeType.NUMBER } }, /both strings/],
    ['a time to live', { timeToLiveAttribute: 'ttl' }, /has a time to live/],
    ['replicas', { replicas: [{ region: 'eu-west-1' }] }, /has replicas in other regions/],
  ])('a table with %s (P8)', (_what, props, message) => {
    const withTable = () =>
      synthesized((stack) => ({ stateTable: new TableV2(stack, 'Logs', { ...keys, ...props }) as ITableV2 }))
    expect(withTable).toThrow(message)
  })

  it("a replica that the app adds to the construct's own table afterwards (P8)", () => {
    expect(() =>
      synthesized(undefined, { after: ({ stateTable }) => (stateTable as TableV2).addReplica({ region: 'eu-west-1' }) })
    ).toThrow(/has replicas/)
  })

  it('a machine whose codecs are not installed, with the command that installs them', () => {
    const installed = process.arch === 'arm64' ? Architecture.X86_64 : Architecture.ARM_64
    const props = { architecture: installed, nativeCodecs: true }
    expect(() => synthesized(() => props, { isBundled: true })).toThrow(
      /Go without 'nativeCodecs', or .* npm install --no-save --force @node-rs\/crc32-linux-\w+-gnu@1\.10\.8 @antoniomuso\/lz4-napi-linux-\w+-gnu@2\.10\.0/
    )
  })
})
