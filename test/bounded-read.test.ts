/** Bounded reads on a Kafka in memory: what is asked for when, what is read, and how a reading ends. */
import { describe, expect, test } from 'vitest'
import { parseBatchOptions } from '../src/batch-options.ts'
import { planBoundedRead, readPieces } from '../src/bounded-read.ts'
import type { BoundedReadContext } from '../src/bounded-read.ts'
import type { DataLossFinding } from '../src/data-loss.ts'
import type { RangeReader, RecordBatch } from '../src/ports.ts'
import { append, createTopic, fakeKafka, fakeOffsetReader, fakeRangeReader } from './support/fake-kafka.ts'
import type { FakeKafka } from './support/fake-kafka.ts'

const { signal } = new AbortController()

function contextOf(kafka: FakeKafka, raw: Record<string, unknown> = {}, ranges?: RangeReader): BoundedReadContext {
  const names = [...kafka.topics.keys()]
  const options = parseBatchOptions(
    { 'kafka.bootstrap.servers': 'memory:1', subscribe: names.join(), ...raw },
    () => undefined
  )
  return {
    options,
    offsets: fakeOffsetReader(kafka, options.strategy),
    ranges: ranges ?? fakeRangeReader(kafka, options.failOnDataLoss),
  }
}

const valuesOf = (batch: RecordBatch): string[] =>
  Array.from({ length: batch.length }, (_, i) => Buffer.from(batch.value(i) ?? []).toString())

/** Reads a plan to its end: `topic-partition@offset` of each record, sorted; and the losses. */
async function read(context: BoundedReadContext, plan: Awaited<ReturnType<typeof planBoundedRead>>, parallelism = 2) {
  const values: string[] = []
  const lost: DataLossFinding[] = []
  const request = {
    parallelism,
    onPiece: (_piece: unknown, loss: readonly DataLossFinding[]) => void lost.push(...loss),
  }
  for await (const batch of readPieces(context, plan.pieces, request, signal)) values.push(...valuesOf(batch))
  return { values: values.toSorted(), lost }
}

async function readAll(kafka: FakeKafka, raw: Record<string, unknown> = {}) {
  const context = contextOf(kafka, raw)
  return read(context, await planBoundedRead(context, signal))
}

const records = (from: number, until: number, partition = 0): string[] =>
  Array.from({ length: until - from }, (_, i) => `t-${partition}@${from + i}`).toSorted()

const trim = (kafka: FakeKafka, logStart: number, partition = 0): void => {
  const found = kafka.topics.get('t')?.partitions[partition]
  if (found) found.logStart = logStart
}

describe('words are bound when a piece is read', () => {
  test('a plan that is read again sees later records', async () => {
    const kafka = fakeKafka({ t: [5, 2] })
    const context = contextOf(kafka)
    const plan = await planBoundedRead(context, signal)
    expect((await read(context, plan)).values).toEqual([...records(0, 5), ...records(0, 2, 1)])
    append(kafka, 't', 0, 3)
    trim(kafka, 2)
    expect((await read(context, plan)).values).toEqual([...records(2, 8), ...records(0, 2, 1)])
  })

  test('also the last piece of a partition that was cut, and the first', async () => {
    const kafka = fakeKafka({ t: [9] })
    const context = contextOf(kafka, { minPartitions: 3 })
    const plan = await planBoundedRead(context, signal)
    expect(plan.pieces.map((p) => `[${p.from},${p.until})`)).toEqual(['[earliest,3)', '[3,6)', '[6,latest)'])
    append(kafka, 't', 0, 3)
    trim(kafka, 2)
    expect((await read(context, plan, 3)).values).toEqual(records(2, 12))
    trim(kafka, 3)
    expect((await read(context, plan, 3)).values).toEqual(records(3, 12)) // the first piece is empty
  })

  test('a fixed end stays', async () => {
    const kafka = fakeKafka({ t: [5] })
    const context = contextOf(kafka, { endingOffsets: '{"t":{"0":4}}' })
    const plan = await planBoundedRead(context, signal)
    append(kafka, 't', 0, 3)
    expect((await read(context, plan)).values).toEqual(records(0, 4))
  })
})

describe('a start above the end', () => {
  test('by a latest end is found where it is bound, K86', async () => {
    const reading = readAll(fakeKafka({ t: [0, 0] }), { startingOffsets: '{"t":{"0":1,"1":0}}' })
    await expect(reading).rejects.toMatchObject({
      name: 'RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET',
      parameters: { topic: 't', partition: 0, start: '1', end: '0' },
    })
  })

  test('by a latest end is found before a split, K86', async () => {
    const kafka = fakeKafka({ t: [3] })
    const context = contextOf(kafka, { startingOffsets: '{"t":{"0":5}}', minPartitions: 4 })
    await expect(planBoundedRead(context, signal)).rejects.toMatchObject({ parameters: { start: '5', end: '3' } })
  })

  test('by an earliest start above a fixed end too', async () => {
    const kafka = fakeKafka({ t: [9] })
    trim(kafka, 6)
    await expect(readAll(kafka, { endingOffsets: '{"t":{"0":4}}' })).rejects.toMatchObject({
      parameters: { start: '6', end: '4' },
    })
  })
})

describe('what is not there', () => {
  test('an end beyond the log is a loss by name, and does not wait', async () => {
    const kafka = fakeKafka({ t: [5] })
    const ending = { endingOffsets: '{"t":{"0":8}}' }
    await expect(readAll(kafka, ending)).rejects.toMatchObject({
      name: 'KAFKA_DATA_LOSS',
      message: expect.stringContaining('t-0: offsets [5, 8)'),
    })
    const tolerated = await readAll(kafka, { ...ending, failOnDataLoss: false })
    expect(tolerated.values).toEqual(records(0, 5))
    expect(tolerated.lost).toMatchObject([{ from: 5n, until: 8n, reason: 'COULD_NOT_READ_OFFSET_RANGE' }])
    const apart = await readAll(kafka, { startingOffsets: '{"t":{"0":6}}', ...ending, failOnDataLoss: false })
    expect(apart).toMatchObject({ values: [], lost: [{ from: 6n, until: 8n }] })
  })

  test('an aged-out head is found by the reading', async () => {
    const kafka = fakeKafka({ t: [9] })
    trim(kafka, 3)
    const starting = { startingOffsets: '{"t":{"0":0}}' }
    await expect(readAll(kafka, starting)).rejects.toMatchObject({ name: 'KAFKA_DATA_LOSS' })
    const tolerated = await readAll(kafka, { ...starting, failOnDataLoss: false })
    expect(tolerated).toMatchObject({ values: records(3, 9), lost: [{ from: 0n, until: 3n }] })
  })

  test('a partition that vanished between plan and read', async () => {
    const kafka = fakeKafka({ t: [4, 4] })
    const readGone = async (failOnDataLoss: boolean) => {
      createTopic(kafka, 't', [4, 4])
      const context = contextOf(kafka, { failOnDataLoss, minPartitions: 4 })
      const plan = await planBoundedRead(context, signal)
      createTopic(kafka, 't', [4])
      return read(context, { ...plan, pieces: plan.pieces.filter((p) => p.isFinal) })
    }
    await expect(readGone(true)).rejects.toMatchObject({ name: 'KAFKA_DATA_LOSS' })
    expect((await readGone(false)).lost).toMatchObject([{ partition: 1, reason: 'PARTITIONS_DELETED' }])
  })

  test('a map that does not name exactly the partitions, on either side', async () => {
    const kafka = fakeKafka({ t: [1, 1] })
    for (const [option, position] of [
      ['startingOffsets', 'start'],
      ['endingOffsets', 'end'],
    ] as const) {
      const context = contextOf(kafka, { [option]: '{"t":{"0":1}}' })
      const planning = planBoundedRead(context, signal)
      await expect(planning).rejects.toMatchObject({
        name: 'KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED',
        message: expect.stringContaining(`${option} must name exactly`),
        parameters: { position, missing: 't-1', extra: 'none' },
      })
    }
  })
})

describe('a reading', () => {
  /** Readings that wait until a test lets them go, and tell when they have unwound. */
  function slowRanges(kafka: FakeKafka) {
    const events: string[] = []
    const whole = fakeRangeReader(kafka)
    const ranges: RangeReader = {
      ...whole,
      async *read(range, isolation, either) {
        events.push(`open ${range.partition}`)
        try {
          return yield* whole.read(range, isolation, either)
        } finally {
          events.push(`closed ${range.partition}`)
        }
      },
    }
    return { events, ranges }
  }
  const request = (parallelism: number) => ({ parallelism, onPiece: () => {} })

  test('reads no more than so many pieces at a time, and no more ahead than one batch each', async () => {
    const kafka = fakeKafka({ t: [30, 30, 30] })
    const { events, ranges } = slowRanges(kafka)
    const context = contextOf(kafka, {}, ranges)
    const plan = await planBoundedRead(context, signal)
    let reads = 0
    kafka.before = (operation) => void (reads += operation.startsWith('read') ? 1 : 0)
    const reading = readPieces(context, plan.pieces, request(2), signal)
    await reading.next()
    await new Promise((resolve) => setImmediate(resolve))
    expect(events.toSorted()).toEqual(['open 0', 'open 1'])
    expect(reads).toBeLessThanOrEqual(4)
    await reading.return()
    expect(events.filter((event) => event.startsWith('closed'))).toHaveLength(2)
  })

  test('that fails ends the others first, P20', async () => {
    const kafka = fakeKafka({ t: [30, 30] })
    const { events, ranges } = slowRanges(kafka)
    const context = contextOf(kafka, {}, ranges)
    const plan = await planBoundedRead(context, signal)
    kafka.before = (operation) => {
      if (operation === 'read t-1 6') throw new Error('the disk is gone')
    }
    const values: string[] = []
    const reading = async () => {
      for await (const batch of readPieces(context, plan.pieces, request(2), signal)) values.push(...valuesOf(batch))
    }
    await expect(reading()).rejects.toThrow('the disk is gone')
    expect(events.toSorted()).toEqual(['closed 0', 'closed 1', 'open 0', 'open 1'])
  })

  test('that is aborted ends with ABORTED once all have unwound, P20', async () => {
    const kafka = fakeKafka({ t: [30, 30, 30] })
    const { events, ranges } = slowRanges(kafka)
    const context = contextOf(kafka, {}, ranges)
    const plan = await planBoundedRead(context, signal)
    const abort = new AbortController()
    const reading = async () => {
      for await (const batch of readPieces(context, plan.pieces, request(2), abort.signal))
        if (batch.length > 0) abort.abort()
    }
    await expect(reading()).rejects.toMatchObject({ name: 'ABORTED' })
    expect(events.filter((event) => event.startsWith('open'))).toHaveLength(2)
    expect(events.filter((event) => event.startsWith('closed'))).toHaveLength(2)
  })
})
