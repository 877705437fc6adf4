/** When batches run: Spark's triggers (spark-semantics 2.5). */
import { SluiceError } from './errors.ts'
import { isObject } from './offsets.ts'
import type { SourceOptions } from './options.ts'

export type Trigger =
  | { readonly kind: 'processingTime'; readonly intervalMs: number }
  | { readonly kind: 'availableNow' }
  | { readonly kind: 'once' }

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
  /**
   * One pass: an uncommitted batch is run again, else one batch takes everything that is there, whatever the limits say.
   * @deprecated as in Spark: `availableNow()` keeps the limits
   */
  once: (): Trigger => ({ kind: 'once' }),
} as const

export const isTrigger = (value: unknown): value is Trigger =>
  isObject(value) &&
  (value['kind'] === 'availableNow' ||
    value['kind'] === 'once' ||
    (value['kind'] === 'processingTime' && typeof value['intervalMs'] === 'number'))

/** The boundary after `nowMs`: floor(now / i) * i + i (E5); without an interval, now. */
export const nextBoundary = (nowMs: number, intervalMs: number): number =>
  intervalMs === 0 ? nowMs : Math.floor(nowMs / intervalMs) * intervalMs + intervalMs

const MINUTE_MS = 60_000

/** Without an interval there is no boundary to wait for. */
export const loopsWithinMinute = (trigger: Trigger): boolean =>
  trigger.kind === 'processingTime' && trigger.intervalMs > 0 && trigger.intervalMs < MINUTE_MS

/** A wait may end so much late, and a loop is not to reach into the next minute, which has a tick of its own. */
const LATE_MS = 2000

/**
 * Intervals under a minute: a schedule ticks once a minute at the most, on the minute, and the execution of a tick goes on from
 * boundary to boundary until the next one. Whole seconds, at least one, to the boundary after `nowMs`; null: the next tick
 * makes it.
 */
export function secondsToTrigger(trigger: Trigger, nowMs: number): number | null {
  if (trigger.kind !== 'processingTime' || !loopsWithinMinute(trigger)) return null
  const seconds = Math.ceil((nextBoundary(nowMs, trigger.intervalMs) - nowMs) / 1000)
  return nowMs + seconds * 1000 + LATE_MS <= nextBoundary(nowMs, MINUTE_MS) ? seconds : null
}

/** What a run of this trigger is to be told at its start. */
export function triggerWarnings(
  trigger: Trigger,
  options: Pick<SourceOptions, 'minOffsetsPerTrigger' | 'maxOffsetsPerTrigger' | 'maxBytesPerTrigger'>
): readonly string[] {
  if (trigger.kind !== 'once') return []
  const limits = {
    minOffsetsPerTrigger: options.minOffsetsPerTrigger,
    maxOffsetsPerTrigger: options.maxOffsetsPerTrigger,
    'sluice.maxBytesPerTrigger': options.maxBytesPerTrigger,
  }
  const ignored = Object.entries(limits).flatMap(([name, limit]) => (limit === null ? [] : [name]))
  return [
    'Trigger.once is deprecated: Trigger.availableNow reads what is there in batches that keep the limits.',
    ...ignored.map((name) => `Option '${name}' is ignored with Trigger.once.`),
  ]
}
