/** Options as they were given, and how one value is read: texts, whole numbers, booleans, references. */
import { SluiceError, reasonOf } from './errors.ts'
import { MAX_INT64, stringifyExact } from './offsets.ts'
import { canonicalName, nearestOption } from './option-names.ts'

/** Reads one variable of the environment. */
export type Environment = (name: string) => string | undefined

export interface GivenOption {
  /** In the documented spelling; `kafka.*` lower-cased. */
  readonly name: string
  /** References in a text are resolved. */
  readonly value: unknown
  /**
   * How a message shows it: as it was written, so never what a reference stands for, and nothing at all of a Kafka
   * client setting, which may be a secret.
   */
  readonly shown: string
  /** Its text held references. */
  readonly isResolved: boolean
}

export interface GivenOptions {
  /** By documented name. */
  readonly options: ReadonlyMap<string, GivenOption>
  readonly warnings: readonly string[]
}

export const invalid = (option: string, reason: string, cause?: unknown): never => {
  throw new SluiceError('OPTION_INVALID', { option, reason }, cause)
}

/**
 * Collects options under their documented names. Names are case-insensitive; of two spellings of one name the last
 * counts, with a warning. `undefined` is an option that is not given.
 * @throws OPTION_UNKNOWN with the nearest known name; OPTION_INVALID for a reference to a missing variable
 */
export function collectOptions(raw: Readonly<Record<string, unknown>>, env: Environment): GivenOptions {
  const given = new Map<string, { spelling: string; value: unknown }>()
  const warnings: string[] = []
  for (const [spelling, value] of Object.entries(raw)) {
    const name = canonicalName(spelling)
    if (name === null) throw new SluiceError('OPTION_UNKNOWN', { option: spelling, nearest: nearestOption(spelling) })
    if (value === undefined) continue
    const before = given.get(name)
    if (before)
      warnings.push(`Option '${name}' is given as '${before.spelling}' and as '${spelling}'; the last one counts.`)
    given.set(name, { spelling, value })
  }
  const options = new Map([...given].map(([name, { value }]) => [name, givenOption(name, value, env)]))
  return { options, warnings }
}

function givenOption(name: string, value: unknown, env: Environment): GivenOption {
  const isClientSetting = name.startsWith('kafka.') && name !== 'kafka.isolation.level'
  const resolved = typeof value === 'string' ? resolveReferences(name, value, env) : value
  return {
    name,
    value: resolved,
    isResolved: resolved !== value,
    shown: isClientSetting ? 'its value' : shownOf(value),
  }
}

const shownOf = (value: unknown): string =>
  typeof value === 'string' ? `'${value}'` : typeof value === 'number' ? String(value) : stringifyExact(value)

/** Replaces each `{{env:NAME}}`. */
function resolveReferences(option: string, text: string, env: Environment): string {
  return text.replaceAll(/\{\{env:([^}]*)\}\}/g, (_reference, name: string) => {
    const value = /^[A-Za-z_][A-Za-z0-9_]*$/.test(name)
      ? env(name)
      : invalid(option, `'${name}' is not the name of an environment variable`)
    return value ?? invalid(option, `environment variable ${name} is not set`)
  })
}

/** Runs a parser; its reason follows the option's value as it was written, unless it may quote what a reference stands for. */
export function parsing<T>(option: GivenOption, expected: string, parse: () => T): T {
  try {
    return parse()
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    const reason = option.isResolved ? '' : `: ${reasonOf(error)}`
    return invalid(option.name, `${expected}, got ${option.shown}${reason}`)
  }
}

/** A text; numbers and booleans as they print. */
export function textOf({ name, value }: GivenOption): string {
  switch (typeof value) {
    case 'string':
      return value
    case 'number':
    case 'boolean':
    case 'bigint':
      return String(value)
    default:
      return invalid(name, 'must be a text')
  }
}

/** true or false, in any case. */
export function booleanOf(option: GivenOption): boolean {
  const text = textOf(option).toLowerCase()
  return text === 'true' || (text !== 'false' && invalid(option.name, `${option.shown} is not true or false`))
}

/** A whole number in decimal digits, exact up to 2^63-1. No exponents, fractions or units. */
export function wholeNumberOf(option: GivenOption, min: 0n | 1n, max: bigint = MAX_INT64): bigint {
  const { name, value, shown } = option
  if (typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value))
    invalid(name, `${shown} is too large for an exact number: write it as a text or a bigint`)
  const text = textOf(option)
  if (!/^-?\d+$/.test(text)) invalid(name, `${shown} is not a whole number in decimal digits`)
  const number = BigInt(text)
  if (number < min) invalid(name, `${name} must be ${min === 1n ? 'positive' : 'zero or positive'}, got ${shown}`)
  if (number > max) invalid(name, `${shown} is above the maximum ${max}`)
  return number
}

/** A whole number and a unit; null where it is none. */
function quantityOf<T>(text: string, units: ReadonlyMap<string, T>): readonly [bigint, T] | null {
  const [, digits = '', suffix = ''] = /^(\d+)([a-z]*)$/.exec(text.trim().toLowerCase()) ?? []
  const unit = units.get(suffix)
  return digits === '' || unit === undefined ? null : [BigInt(digits), unit]
}

const durations: ReadonlyMap<string, bigint> = new Map([
  ['us', 1n],
  ['', 1000n],
  ['ms', 1000n],
  ['s', 1_000_000n],
  ['m', 60_000_000n],
  ['min', 60_000_000n],
  ['h', 3_600_000_000n],
  ['d', 86_400_000_000n],
])

/** Milliseconds of a duration as Spark writes them: `'15m'`, `'1111'`; microseconds are rounded down. */
export function durationOf(option: GivenOption): number {
  const [amount, unit] = quantityOf(textOf(option), durations) ?? []
  const ms = amount === undefined || unit === undefined ? NaN : Number((amount * unit) / 1000n)
  if (Number.isSafeInteger(ms)) return ms
  return invalid(option.name, `${option.shown} is not a whole number with us, ms, s, m, min, h or d (without one: ms)`)
}

const byteUnits: ReadonlyMap<string, bigint> = new Map(
  ['b', 'k', 'm', 'g', 't', 'p'].flatMap((unit, power) => [
    [power === 0 ? '' : `${unit}b`, 1024n ** BigInt(power)],
    [unit, 1024n ** BigInt(power)],
  ])
)

/** Bytes as Spark writes them: `'64m'`, `'1g'`, `'1048576'`; units are powers of 1024. */
export function bytesOf(option: GivenOption): bigint {
  const [amount, unit] = quantityOf(textOf(option), byteUnits) ?? []
  if (amount === undefined || unit === undefined)
    return invalid(option.name, `${option.shown} is not a whole number of bytes, or one with k, m, g or t as 64m`)
  const bytes = amount * unit
  if (bytes < 1n) invalid(option.name, `${option.name} must be positive, got ${option.shown}`)
  if (bytes > MAX_INT64) invalid(option.name, `${option.shown} is above the maximum of ${MAX_INT64} bytes`)
  return bytes
}

export const MAX_INT32 = 0x7fffffffn
