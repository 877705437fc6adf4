/** Flights as JSON, keyed by the airport of origin, into a Delta table with typed columns. */
import { defineQuery, deltaTable, kafka, t, Trigger } from '../../src/index.ts'

interface Flight {
  readonly date: string
  readonly delay: number
  readonly distance: number
  readonly origin: string
  readonly destination: string
}

const utf8 = new TextDecoder()

export default defineQuery({
  name: 'flights',
  trigger: Trigger.processingTime('1 minute'),
  source: kafka({
    'kafka.bootstrap.servers': '{{env:SLUICE_BROKERS}}',
    subscribe: '{{env:SLUICE_TOPIC}}',
    startingOffsets: 'earliest',
    maxOffsetsPerTrigger: 60_000,
  }),
  schema: {
    departed: t.timestamp,
    delay: t.int,
    distance: t.int,
    origin: t.string,
    destination: t.string,
    partition: t.int.notNull(),
    offset: t.long.notNull(),
  },
  map: (record) => {
    if (record.value === null) return null
    const flight = JSON.parse(utf8.decode(record.value)) as Flight
    return {
      departed: BigInt(Date.parse(flight.date)) * 1000n,
      delay: flight.delay,
      distance: flight.distance,
      origin: flight.origin,
      destination: flight.destination,
      partition: record.partition,
      offset: record.offset,
    }
  },
  sink: deltaTable('flights'),
})
