/** The smallest app: one query. In this folder: `SLUICE_BROKERS=broker:9092 SLUICE_TOPIC=flights npx cdk deploy`. */
import { App, CfnOutput, Stack } from 'aws-cdk-lib'
import { join } from 'node:path'
import { MicroBatchQuery } from './micro-batch-query.ts'

const app = new App()
const stack = new Stack(app, 'Flights', { description: 'Flights from Kafka into a Delta table' })

const setting = (name: string): string => {
  const value = process.env[name]
  if (value === undefined || value === '') throw new Error(`Set ${name} in the environment of this command`)
  return value
}

const query = new MicroBatchQuery(stack, 'Query', {
  entry: join(import.meta.dirname, 'queries', 'flights.ts'),
  environment: {
    SLUICE_BROKERS: setting('SLUICE_BROKERS'),
    SLUICE_TOPIC: setting('SLUICE_TOPIC'),
  },
})

new CfnOutput(stack, 'StateMachine', { value: query.stateMachine.stateMachineArn, description: 'Runs of the query' })
new CfnOutput(stack, 'StateTable', { value: query.stateTable.tableName, description: 'Its logs' })
new CfnOutput(stack, 'DataBucket', { value: query.dataBucket.bucketName, description: 'The root of its tables' })
