/**
 * `npm start`: the main job on real input. A real broker, 240,000 flights in six partitions, an AvailableNow run that is
 * killed in mid-batch, a second run that replays the batch, and the table read back by another reader. It ends with
 * `delivered rows=R batches=B missing=0 duplicates=0`, checked against the broker's own records, and leaves nothing running.
 */
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readdir, rm } from 'node:fs/promises'
import { relative } from 'node:path'
import { createInterface } from 'node:readline'
import { startBroker } from '../support/broker.ts'
import type { Broker } from '../support/broker.ts'
import { readPositions, readersPython } from '../support/delta-reader.ts'
import { positionsOf, readTopic } from '../support/kafka-reader.ts'
import { openTopics } from '../support/topics.ts'
import { FLIGHTS, loadFlights } from './flights.ts'

const TOPIC = 'flights'
const path = (file: string): string => new URL(`../../${file}`, import.meta.url).pathname
const directory = path('.tools/demo')
const table = `${directory}/warehouse/flights`
const shown = (absolute: string): string => relative(process.cwd(), absolute)
const say = (text: string): void => void process.stdout.write(`${text}\n`)

/** `sluice run` as a user would type it. */
function startRun(broker: Broker, flags: readonly string[], stdout: 'pipe' | 'inherit'): ChildProcess {
  const command = ['run', 'cdk/queries/flights.ts', '--local', shown(directory), '--available-now', ...flags]
  say(`\n$ sluice ${command.join(' ')}`)
  return spawn(process.execPath, [path('src/cli.mjs'), ...command], {
    env: { ...process.env, NODE_OPTIONS: '', SLUICE_BROKERS: broker.bootstrap, SLUICE_TOPIC: TOPIC },
    stdio: ['ignore', stdout, 'inherit'],
  })
}

/** Kills the run (SIGKILL) in its second batch, when half of the batch's tasks have reported. */
async function killInMidBatch(broker: Broker): Promise<void> {
  const run = startRun(broker, ['--parallelism', '1', '--json'], 'pipe')
  const ended = once(run, 'exit')
  let reported = 0
  if (run.stdout === null) throw new Error('the run has no output')
  for await (const line of createInterface(run.stdout)) {
    const event = JSON.parse(line) as {
      event: string
      batchId?: number
      progress?: { batchId: number; numInputRows: number }
    }
    if (event.progress) say(`batch ${event.progress.batchId}  ${event.progress.numInputRows} rows`)
    if (event.event === 'task' && event.batchId === 1 && ++reported === 3) run.kill('SIGKILL')
  }
  await ended
  if (reported !== 3) throw new Error(`the run was to be killed after three tasks of batch 1, not after ${reported}`)
  say('batch 1  3 of 6 tasks have reported: killed (SIGKILL)')
}

async function runToTheEnd(broker: Broker): Promise<void> {
  const [code] = await once(startRun(broker, [], 'inherit'), 'exit')
  if (code !== 0) throw new Error(`the second run ended with exit code ${code}`)
}

/** What the broker holds against what the table holds, record by record. */
async function compare(broker: Broker): Promise<{ line: string; ok: boolean }> {
  const inKafka = positionsOf(await readTopic(broker.bootstrap, TOPIC))
  const [delivered = []] = await readPositions([table])
  const versions = (await readdir(`${table}/_delta_log`)).filter((file) => /^\d+\.json$/.test(file)) // one a batch
  const distinct = new Set(delivered)
  const missing = inKafka.difference(distinct).size
  const duplicates = delivered.length - distinct.size
  const foreign = distinct.difference(inKafka).size
  const ok = missing === 0 && duplicates === 0 && foreign === 0 && delivered.length === FLIGHTS
  return {
    ok,
    line: `delivered rows=${delivered.length} batches=${versions.length} missing=${missing} duplicates=${duplicates}`,
  }
}

await rm(directory, { recursive: true, force: true })
say('starting a Kafka broker ...')
const broker = await startBroker()
try {
  const topics = await openTopics(broker.bootstrap)
  await topics.createNamed(TOPIC, { partitions: 6 })
  say(`loading ${FLIGHTS} flights into topic ${TOPIC}, 6 partitions ...`)
  await loadFlights(topics, TOPIC)
  await killInMidBatch(broker)
  await runToTheEnd(broker)
  const { line, ok } = await compare(broker)
  await topics.close()
  say(`
The table is in ${shown(table)}, its log of batches in ${shown(table)}/_delta_log. To look at it:
  ${shown(readersPython)} -c "import deltalake; print(deltalake.DeltaTable('${shown(table)}').to_pyarrow_table().slice(0, 5))"
The records in Kafka were compared with the table's rows by topic, partition and offset.
`)
  say(line)
  process.exitCode = ok ? 0 : 1
} finally {
  await broker.stop()
}
