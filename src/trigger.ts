/** When batches run: Spark's triggers (spark-semantics 2.5). */
import { SluiceError } from './errors.ts'
import { isObject } from './offsets.ts'

export type Trigger =
  | { readonly kind: 'processingTime'; readonly intervalMs: number }
  | { readonly kind: 'availableNow' }

/** Milliseconds of a unit. */
const units: ReadonlyMap<string, number> = new Map(
  Object.entries({
    '': 1,
    'ms millisecond milliseconds': 1,
    's second seconds': 1000,
    'm min minute minutes': 60_000,
    'h hour hours': 3_600_000,
    'd day days': 86_400_000,
  }).flatMap(([names, ms]) => names.split(' ').map((name) => [name, ms]))
)

/**
 * Milliseconds of an interval: a number of milliseconds, or text such as `'1 minute'`, `'30 seconds'`, `'500'`.
 * @throws OPTION_INVALID for anything else, months included: they have no fixed length.
 */
export function parseInterval(interval: string | number): number {
  const [, digits, unit] = /^(\d+)\s*([a-z]*)$/.exec(String(interval).trim().toLowerCase()) ?? []
  const factor = unit === undefined ? undefined : units.get(unit)
  const ms = digits === undefined || factor === undefined ? NaN : Number(digits) * factor
  if (!Number.isSafeInteger(ms))
    throw new SluiceError('OPTION_INVALID', {
      option: 'trigger',
      reason: `'${interval}' is not an interval: write milliseconds, or a whole number with ms, seconds, minutes, hours or days`,
    })
  return ms
}

export const Trigger = {
  /** One batch per boundary; boundaries are multiples of the interval since the epoch. 0: as fast as possible. */
  processingTime: (interval: string | number): Trigger => ({
    kind: 'processingTime',
    intervalMs: parseInterval(interval),
  }),
  /** Everything that was there at the start, in as many batches as the limits ask for; then the run ends. */
  availableNow: (): Trigger => ({ kind: 'availableNow' }),
} as const

export const isTrigger = (value: unknown): value is Trigger =>
  isObject(value) &&
  (value['kind'] === 'availableNow' || (value['kind'] === 'processingTime' && typeof value['intervalMs'] === 'number'))

/** The boundary after `nowMs`: floor(now / i) * i + i (E5); without an interval, now. */
export const nextBoundary = (nowMs: number, intervalMs: number): number =>
  intervalMs === 0 ? nowMs : Math.floor(nowMs / intervalMs) * intervalMs + intervalMs
