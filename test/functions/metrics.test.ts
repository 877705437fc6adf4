/** What a committed batch is in CloudWatch: losses and waits count, for alarms. */
import { afterEach, expect, test, vi } from 'vitest'
import { logger, metrics, reportProgress } from '../../functions/middleware.ts'
import type { DataLossFinding } from '../../src/data-loss.ts'
import type { StreamingQueryProgress } from '../../src/progress.ts'
import { createTopic } from '../support/fake-kafka.ts'
import { runToEnd, world } from '../support/world.ts'

afterEach(() => {
  metrics.clearMetrics()
  metrics.clearDimensions()
  vi.restoreAllMocks()
})

async function progressOfRun(context: Parameters<typeof runToEnd>[0]): Promise<StreamingQueryProgress[]> {
  const all: StreamingQueryProgress[] = []
  await runToEnd(context, (event) => void (event.kind === 'progress' && all.push(event.progress)))
  return all
}

test('a loss is a metric, and named in the log line of its batch', async () => {
  const lines = vi.spyOn(logger, 'info').mockImplementation(() => {})
  const w = world({ t: [4, 4] }, { failOnDataLoss: false })
  await progressOfRun(w.process())
  createTopic(w.kafka, 't', [2])
  const [progress] = await progressOfRun(w.process())
  if (progress === undefined) throw new Error('a batch')
  reportProgress(progress, [])
  const lost: Partial<DataLossFinding>[] = [
    { reason: 'TOPIC_RECREATED', partition: 0, from: 4n, until: 0n, newEnd: 2n },
    { reason: 'PARTITIONS_DELETED', partition: 1, from: 4n, until: 4n },
  ]
  expect(progress.sluice.dataLoss).toMatchObject(lost)
  expect(metrics.serializeMetrics()).toMatchObject({ query: 'query', dataLoss: 2, blockedOffsets: 0, numInputRows: 2 })
  expect(JSON.stringify(lines.mock.calls)).toContain('TOPIC_RECREATED')
})

test('offsets behind open transactions are a metric', async () => {
  vi.spyOn(logger, 'info').mockImplementation(() => {})
  const w = world({ t: [4, 9] }, { 'kafka.isolation.level': 'read_committed' })
  for (const partition of w.kafka.topics.get('t')?.partitions ?? []) partition.openFrom = 3
  const [progress] = await progressOfRun(w.process())
  if (progress === undefined) throw new Error('a batch')
  reportProgress(progress, [])
  expect(metrics.serializeMetrics()).toMatchObject({ blockedOffsets: 7, dataLoss: 0, numInputRows: 6 })
})
