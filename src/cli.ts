/** `sluice VERB QUERY`: exit codes 0 done, 1 failed, 2 bad usage or option, 75 busy, 130 interrupted. */
import { Command, CommanderError, InvalidArgumentError } from 'commander'
import { EXIT } from './cli/exit.ts'
import type { ReadFlags } from './cli/read.ts'
import type { RunFlags } from './cli/run.ts'

function positiveInteger(text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new InvalidArgumentError('not a positive whole number.')
  return Number(text)
}

type NamedOption = readonly [name: string, value: string]

/** `name=value`; the value may hold more of `=`. */
function namedOption(text: string, before: readonly NamedOption[] = []): readonly NamedOption[] {
  const [, name, value] = /^\s*([^=]+?)\s*=([\s\S]*)$/.exec(text) ?? []
  if (name === undefined || value === undefined) throw new InvalidArgumentError('write name=value.')
  return [...before, [name, value]]
}

// Each command loads only what it needs: a read needs no logs.
const program = new Command('sluice')
  .description("Spark Structured Streaming's Kafka source as a serverless micro-batch processor")
  .exitOverride()

program
  .command('run')
  .description('run a query until its trigger is done')
  .argument('<query>', 'path of a module whose default export is defineQuery({...})')
  .requiredOption('--local <dir>', 'keep logs and tables in this directory')
  .option('--available-now', 'process what is there now, in as many batches as the limits ask for, then end')
  .option('--parallelism <n>', 'tasks at a time', positiveInteger, 4)
  .option('--json', 'one JSON object per event on standard output')
  .option('--backfill <name>', 'land a range in the same table once, as a query of its own, beside the live one')
  .option('--option <name=value>', 'of a backfill: where it starts and ends, or another option', namedOption, [])
  .action(async (query: string, flags: RunFlags) => {
    const { runCommand } = await import('./cli/run.ts')
    process.exitCode = await runCommand(query, flags)
  })

program
  .command('read')
  .description('read what lies between starting and ending options, to standard output or a file; without any log')
  .option('-b, --bootstrap-server <list>', 'short for --option kafka.bootstrap.servers=...')
  .option('-t, --topic <names>', 'short for --option subscribe=...')
  .option('--option <name=value>', "an option of Spark's Kafka source, as often as needed", namedOption, [])
  .option('--output <kind>', 'json (lines, the default), csv, parquet or count')
  .option('--count', 'short for --output count: records by partition, and the total')
  .option('--file <path>', 'a new file in place of standard output; Parquet needs one')
  .option('--parallelism <n>', 'ranges at a time', positiveInteger, 4)
  .action(async (flags: ReadFlags) => {
    const { readCommand } = await import('./cli/read.ts')
    process.exitCode = await readCommand(flags)
  })

try {
  await program.parseAsync()
} catch (error) {
  if (!(error instanceof CommanderError)) throw error
  process.exitCode = error.exitCode === 0 ? EXIT.done : EXIT.usage // it has printed its message
}
