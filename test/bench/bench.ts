/**
 * npm run bench [-- --quick] [--records N] [--json FILE] [--bootstrap HOST:PORT] [--only TEXT] [--spark]
 * Fills topics on a real broker, measures whole processes in rounds, each figure once a round, and prints medians; then
 * planning.ts. See README.md beside this file.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'
import { startBroker } from '../support/broker.ts'
import { hasKcat } from '../support/kafka-reader.ts'
import { bundled } from './bundles.ts'
import { circumstances, median, spread } from './figure.ts'
import type { Costs, ProcessCost } from './process-cost.ts'
import { ratiosOf } from './ratios.ts'
import { runSpark } from './spark.ts'
import type { SparkFigure } from './spark.ts'
import { batchesOf, figures } from './throughput.ts'
import type { Figure } from './throughput.ts'
import { benchTopics, fillTopics } from './topics.ts'
import { versions } from './versions.ts'

const { values: flags } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    records: { type: 'string', default: '1000000' },
    json: { type: 'string' },
    bootstrap: { type: 'string' },
    only: { type: 'string', default: '' },
    spark: { type: 'boolean', default: false },
  },
})

const say = (text: string): void => void process.stdout.write(`${text}\n`)
const progress = (text: string): void => void process.stderr.write(`${text}\n`)

/** Every figure once a round, so that whatever else the machine does meets all of them alike. */
async function measured(all: readonly Figure[], rounds: number): Promise<Costs> {
  const costs = new Map<string, ProcessCost[]>(all.map(({ name }) => [name, []]))
  for (let round = 1; round <= rounds; round++)
    for (const figure of all) {
      progress(`round ${round}: ${figure.name}`)
      costs.get(figure.name)?.push(await figure.run())
    }
  return costs
}

function table(all: readonly Figure[], costs: Costs): void {
  say('| | wall s | CPU s | peak MB | 1,000 records per CPU s |')
  say('|---|---|---|---|---|')
  for (const { name, records } of all) {
    const own = costs.get(name) ?? []
    const cpu = own.map(({ cpuS }) => cpuS)
    const peak = Math.max(...own.map(({ rssMb }) => rssMb)).toFixed(0)
    const wall = spread(
      own.map(({ wallS }) => wallS),
      2
    )
    say(`| ${name} | ${wall} | ${spread(cpu, 2)} | ${peak} | ${(records / median(cpu) / 1000).toFixed(0)} |`)
  }
}

function steps(all: readonly Figure[], costs: Costs): void {
  say('\n| own processor time of a batch, ms | planner | committer |\n|---|---|---|')
  for (const { name } of all.filter((figure) => figure.name.includes('batches of'))) {
    const batches = (costs.get(name) ?? []).map(batchesOf)
    // The first one connects, and makes the table.
    const [plans, commits] = [batches.flatMap((b) => b.plans.slice(1)), batches.flatMap((b) => b.commits.slice(1))]
    say(`| ${name} | ${spread(plans)} | ${spread(commits)} |`)
  }
}

async function startDynamoDb(bundle: string): Promise<{ endpoint: string; stop(): Promise<void> }> {
  const child = spawn(process.execPath, [bundle], { stdio: ['pipe', 'pipe', 'inherit'] })
  const [endpoint] = (await once(createInterface({ input: child.stdout }), 'line')) as [string]
  const stop = async (): Promise<void> => {
    child.stdin.end()
    await once(child, 'exit')
  }
  return { endpoint, stop }
}

async function run(bootstrap: string): Promise<void> {
  const records = Number(flags.records)
  const topics = benchTopics(records)
  await fillTopics(bootstrap, Object.values(topics), progress)
  const bundles = await bundled(['read', 'floor', 'query', 'kafkajs', 'dynamodb'])
  const dynamodb = await startDynamoDb(bundles.get('dynamodb') ?? '')
  try {
    const places = { bootstrap, dynamodb: dynamodb.endpoint, bundles, hasKcat: await hasKcat() }
    const all = figures(places, topics).filter(({ name }) => name.includes(flags.only))
    const rounds = flags.quick ? 1 : 3
    const costs = await measured(all, rounds)
    const spark: readonly SparkFigure[] = flags.spark ? await runSpark(bootstrap, topics, rounds, progress) : []
    const head = `${circumstances(versions())}, ${records} records, ${rounds} round(s)`
    say(`## Throughput: ${head}\n`)
    table(all, costs)
    steps(all, costs)
    const ratios = ratiosOf(topics, costs, spark)
    say(`\n| ratio | |\n|---|---|`)
    for (const [name, ratio] of Object.entries(ratios))
      say(`| ${name} | ${ratio === null ? 'not measured' : ratio.toFixed(2)} |`)
    if (flags.json !== undefined) {
      const figureCosts = Object.fromEntries(
        [...costs].map(([name, own]) => [name, own.map(({ wallS, cpuS, rssMb }) => ({ wallS, cpuS, rssMb }))])
      )
      await writeFile(flags.json, `${JSON.stringify({ head, ratios, figures: figureCosts, spark }, null, 2)}\n`)
    }
  } finally {
    await dynamodb.stop()
  }
}

if (flags.bootstrap !== undefined) await run(flags.bootstrap)
else {
  const broker = await startBroker()
  try {
    await run(broker.bootstrap)
  } finally {
    await broker.stop()
  }
}
if (flags.only === '') {
  const planning = spawn(process.execPath, [join(import.meta.dirname, 'planning.ts')], { stdio: 'inherit' })
  const [code] = await once(planning, 'exit')
  process.exitCode = Number(code)
}
