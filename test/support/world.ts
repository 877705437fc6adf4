/**
 * Everything durable of one query, in memory, and processes that come and go on it. A hook sees each effect of a process
 * before and after; what it throws is how the process dies or how an answer is lost.
 */
import type { BatchContext, Run } from '../../src/context.ts'
import { runQuery } from '../../src/local/runner.ts'
import type { RunEvent, RunResult } from '../../src/local/runner.ts'
import { bronzeRows } from '../../src/mapping.ts'
import { parseOptions } from '../../src/options.ts'
import { Trigger } from '../../src/trigger.ts'
import { fakeKafka, fakeOffsetReader, fakeRangeReader } from './fake-kafka.ts'
import type { FakeKafka } from './fake-kafka.ts'
import { memoryLease, memoryLeaseStore } from './memory-lease.ts'
import type { MemoryLeaseStore } from './memory-lease.ts'
import { memoryLog, memoryLogStore } from './memory-log.ts'
import type { LogOperation, MemoryLogStore } from './memory-log.ts'
import { memorySink, memoryTable } from './memory-sink.ts'
import type { MemoryTable } from './memory-sink.ts'

/** `before log.add offsets/0`, `after sink.commit`, `before lease.renew`, ... */
export type Hook = (point: string) => void | Promise<void>

export interface World {
  readonly kafka: FakeKafka
  readonly log: MemoryLogStore
  readonly lease: MemoryLeaseStore
  readonly table: MemoryTable
  /** Moves on with every look at it. */
  readonly clock: { time: number; stepMs: number; now(): number }
  /** A new process on this world. */
  process(setUp?: ProcessSetUp): BatchContext
}

export interface ProcessSetUp {
  readonly hook?: Hook
  readonly options?: Readonly<Record<string, unknown>>
  readonly mappingDigest?: string
}

export const TTL_MS = 60_000

export function world(
  topics: Readonly<Record<string, readonly number[]>>,
  options: Readonly<Record<string, unknown>> = {}
): World {
  const kafka = fakeKafka(topics)
  const clock = { time: 1_700_000_000_000, stepMs: 1, now: () => (clock.time += clock.stepMs) }
  const durable = { log: memoryLogStore(), lease: memoryLeaseStore(), table: memoryTable() }
  const names = Object.keys(topics)
  let ids = 0
  const process = ({ hook = () => {}, ...setUp }: ProcessSetUp = {}): BatchContext => {
    const parsed = parseOptions(
      {
        'kafka.bootstrap.servers': 'memory:1',
        subscribe: names.join(),
        startingOffsets: 'earliest',
        ...options,
        ...setUp.options,
      },
      () => undefined
    )
    const logHook =
      (when: string) =>
      ({ call, log, id }: LogOperation) =>
        hook(`${when} log.${call} ${log}/${id ?? ''}`)
    return {
      queryName: 'query',
      options: parsed,
      toRows: bronzeRows(false),
      mappingDigest: setUp.mappingDigest ?? 'bronze',
      log: memoryLog({ store: durable.log, clock, hooks: { before: logHook('before'), after: logHook('after') } }),
      lease: memoryLease({
        store: durable.lease,
        clock,
        ttlMs: TTL_MS,
        hooks: { before: (call) => hook(`before lease.${call}`), after: (call) => hook(`after lease.${call}`) },
      }),
      offsets: fakeOffsetReader(kafka, parsed.strategy, parsed.isolationLevel),
      ranges: fakeRangeReader(kafka, parsed.failOnDataLoss),
      sink: memorySink(
        durable.table,
        (o) => hook(`before sink.${o}`),
        (o) => hook(`after sink.${o}`)
      ),
      clock,
      newId: () => `id-${++ids}`,
    }
  }
  return { kafka, ...durable, clock, process }
}

let runs = 0

export const newRun = (availableNow = false): Run => ({ runId: `run-${++runs}`, availableNow })

/** Runs a process as AvailableNow to its end, one task at a time so that points come in one order. */
export function runToEnd(context: BatchContext, onEvent: (event: RunEvent) => void = () => {}): Promise<RunResult> {
  const request = { runId: newRun().runId, trigger: Trigger.availableNow(), parallelism: 1, onEvent }
  return runQuery(context, request, new AbortController().signal)
}
