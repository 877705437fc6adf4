/** `sluice read`: a bounded read to standard output or a file. It needs no directory and leaves nothing behind. */
import { describeFindings } from '../data-loss.ts'
import { SluiceError } from '../errors.ts'
import type { BatchOptions } from '../batch-options.ts'
import { batchOptionsOf, openBoundedRead } from '../read-batch.ts'
import type { BoundedRead, ReadRequest } from '../read-batch.ts'
import { EXIT } from './exit.ts'
import { interruptible } from './interruptible.ts'
import { openOutput, outputKinds } from './record-output.ts'
import type { OutputKind } from './record-output.ts'

export interface ReadFlags {
  readonly bootstrapServer?: string
  readonly topic?: string
  /** In the order given. */
  readonly option: readonly (readonly [name: string, value: string])[]
  readonly output?: string
  readonly count?: boolean
  readonly file?: string
  readonly parallelism: number
}

export function readCommand(flags: ReadFlags): Promise<number> {
  return interruptible(false, async (signal) => {
    const { kind, file } = outputOf(flags)
    const options = batchOptionsOf(rawOptionsOf(flags))
    for (const text of options.warnings) warn(text)
    const read = openBoundedRead(options)
    try {
      return await untilClosed(signal, (either) => copy(read, { kind, file, options, ...flags }, either))
    } finally {
      await read.close()
    }
  })
}

/** Options as a record; the short flags are names for two of them. */
function rawOptionsOf({ bootstrapServer, topic, option }: ReadFlags): Record<string, unknown> {
  const short = { 'kafka.bootstrap.servers': bootstrapServer, subscribe: topic }
  return { ...short, ...Object.fromEntries(option) }
}

function outputOf({ output, count, file }: ReadFlags): { kind: OutputKind; file: string | null } {
  const conflict = (options: string, reason: string): never => {
    throw new SluiceError('OPTION_CONFLICT', { options, reason })
  }
  if (count === true && output !== undefined && output !== 'count')
    conflict("'--count', '--output'", 'a read either counts or puts records out')
  const kind = outputKinds.find((known) => known === (count === true ? 'count' : (output ?? 'json')))
  if (kind === undefined)
    throw new SluiceError('OPTION_INVALID', {
      option: '--output',
      reason: `'${output}' is none of ${outputKinds.join(', ')}`,
    })
  if (kind === 'parquet' && file === undefined)
    conflict("'--output', '--file'", 'Parquet goes into a file: name it with --file')
  if (kind === 'count' && file !== undefined)
    conflict("'--count', '--file'", 'counts go to standard output: leave --file out')
  return { kind, file: file ?? null }
}

/** Ends the work quietly where whoever reads our output has seen enough, as head does. */
async function untilClosed(signal: AbortSignal, work: (signal: AbortSignal) => Promise<void>): Promise<number> {
  const closed = new AbortController()
  const onError = (error: Error): void => closed.abort(error)
  process.stdout.on('error', onError)
  try {
    await work(AbortSignal.any([signal, closed.signal]))
  } catch (error) {
    if (signal.aborted || !closed.signal.aborted) throw error
    if (!isBrokenPipe(closed.signal.reason)) throw closed.signal.reason
  } finally {
    process.stdout.off('error', onError)
  }
  return EXIT.done
}

const isBrokenPipe = (error: unknown): boolean => error instanceof Error && 'code' in error && error.code === 'EPIPE'

interface CopyRequest {
  readonly kind: OutputKind
  readonly file: string | null
  readonly options: BatchOptions
  readonly parallelism: number
}

async function copy(read: BoundedRead, request: CopyRequest, signal: AbortSignal): Promise<void> {
  const { kind, file, parallelism, options } = request
  const plan = await read.plan(signal)
  const { includeHeaders } = options
  const output = await openOutput({ kind, file, includeHeaders, partitions: plan.partitions }, signal)
  const bar = progressLine(plan.pieces.length, kind === 'count' || file !== null || !process.stdout.isTTY)
  const onPiece: ReadRequest['onPiece'] = (_piece, dataLoss) => {
    bar.piece()
    if (dataLoss.length === 0) return
    bar.clear()
    warn(`data loss: ${describeFindings(dataLoss)}`)
  }
  try {
    for await (const batch of read.records(plan, { parallelism, onPiece }, signal)) {
      await output.write(batch)
      bar.add(batch.length)
    }
    bar.clear()
    await output.end()
  } catch (error) {
    bar.clear()
    await output.abort()
    throw error
  }
}

const warn = (text: string): void => void process.stderr.write(`warning: ${text}\n`)

const count = new Intl.NumberFormat('en-US')
const REDRAW_MS = 200

interface ProgressLine {
  piece(): void
  add(records: number): void
  clear(): void
}

/** One line on standard error, redrawn; nothing where that is no terminal, or where records go to the same one. */
function progressLine(pieces: number, isAlone: boolean): ProgressLine {
  const isShown = isAlone && process.stderr.isTTY
  let [done, records, drawnAt] = [0, 0, 0]
  const draw = (): void => {
    if (!isShown || performance.now() - drawnAt < REDRAW_MS) return
    drawnAt = performance.now()
    process.stderr.write(`\r\x1b[K${count.format(records)} records  ${done}/${pieces} ranges`)
  }
  return {
    piece() {
      done++
      draw()
    },
    add(n) {
      records += n
      draw()
    },
    clear: () => void (isShown && process.stderr.write('\r\x1b[K')),
  }
}
