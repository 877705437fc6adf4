/**
 * A backfill lands a range of a query's topics in the query's own table, beside the live query: it is a query of its own,
 * with its own name, hence its own log and its own id in the sink, and it ends.
 */
import { isEndOption, isPositionOption, isStartOption } from './batch-options.ts'
import { SluiceError } from './errors.ts'
import { defineQuery } from './query.ts'
import type { Query } from './query.ts'
import { Trigger } from './trigger.ts'

/**
 * `<query>.backfill.<name>`: the query with these options in place of its own. Where it starts and ends is never taken from
 * the live query.
 * @throws OPTION_CONFLICT where the options do not say where it starts and where it ends; QUERY_INVALID for the name
 */
export function backfillOf(query: Query, name: string, options: Readonly<Record<string, string>>): Query {
  const given = Object.keys(options)
  if (!given.some(isStartOption) || !given.some(isEndOption))
    throw new SluiceError('OPTION_CONFLICT', {
      options: "'startingOffsets', 'endingOffsets'",
      reason: `a backfill names its range: give a starting and an ending option (one by timestamp, too). Records that '${query.name}' has delivered would be in the table twice`,
    })
  const names = new Set(given.map((option) => option.toLowerCase()))
  const replaced = Object.keys(query.source.options)
    .filter((option) => isPositionOption(option) || names.has(option.toLowerCase()))
    .map((option) => [option, undefined] as const)
  const merged = Object.assign({ ...query.source.options }, Object.fromEntries(replaced), options)
  const { mapping, sink } = query
  const common = { name: `${query.name}.backfill.${name}`, sink, trigger: Trigger.availableNow() }
  const source = { ...query.source, options: merged, isBounded: true }
  return mapping === null ? defineQuery({ ...common, source }) : defineQuery({ ...common, source, ...mapping })
}
