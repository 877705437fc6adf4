/** The smallest app: one query. `npx cdk deploy -c brokers=broker:9092 -c topic=flights`, in this folder. */
import { App, Stack } from 'aws-cdk-lib'
import { join } from 'node:path'
import { MicroBatchQuery } from './micro-batch-query.ts'

const app = new App()
const stack = new Stack(app, 'Flights', { description: 'Flights from Kafka into a Delta table' })

/** From `-c name=...`, or the environment. */
const setting = (name: string, variable: string): string => {
  const value: unknown = app.node.tryGetContext(name) ?? process.env[variable]
  if (typeof value === 'string' && value !== '') return value
  throw new Error(`Name the ${name}: cdk deploy -c ${name}=..., or the environment variable ${variable}`)
}

new MicroBatchQuery(stack, 'Query', {
  entry: join(import.meta.dirname, 'queries', 'flights.ts'),
  environment: {
    SLUICE_BROKERS: setting('brokers', 'SLUICE_BROKERS'),
    SLUICE_TOPIC: setting('topic', 'SLUICE_TOPIC'),
  },
})
