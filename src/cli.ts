/** `sluice VERB QUERY`: exit codes 0 done, 1 failed, 2 bad usage or option, 75 busy, 130 interrupted. */
import { Command, CommanderError, InvalidArgumentError } from 'commander'
import { runCommand } from './cli/run.ts'
import type { RunFlags } from './cli/run.ts'
import { EXIT } from './cli/exit.ts'

function positiveInteger(text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new InvalidArgumentError('not a positive whole number.')
  return Number(text)
}

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
  .action(async (query: string, flags: RunFlags) => {
    process.exitCode = await runCommand(query, flags)
  })

try {
  await program.parseAsync()
} catch (error) {
  if (!(error instanceof CommanderError)) throw error
  process.exitCode = error.exitCode === 0 ? EXIT.done : EXIT.usage // it has printed its message
}
