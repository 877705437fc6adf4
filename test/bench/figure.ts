/** How a figure is taken and written: rounds of the compared ways in turn, the median of each with its extremes, and where and when. */
import { cpus } from 'node:os'

export interface Cost {
  /** User and system time of this process, ms. */
  readonly cpuMs: number
  readonly wallMs: number
}

export async function costOf(work: () => Promise<unknown>): Promise<Cost> {
  const [cpu, started] = [process.cpuUsage(), performance.now()]
  await work()
  const { user, system } = process.cpuUsage(cpu)
  return { cpuMs: (user + system) / 1000, wallMs: performance.now() - started }
}

export type Ways = Readonly<Record<string, () => Promise<unknown>>>

/** Every way once per round, so that whatever else the machine does meets all of them alike. The first rounds do not count. */
export async function rounds(
  ways: Ways,
  { count, warmUp }: { count: number; warmUp: number }
): Promise<ReadonlyMap<string, readonly Cost[]>> {
  const costs = new Map(Object.keys(ways).map((name) => [name, [] as Cost[]]))
  for (let round = -warmUp; round < count; round++)
    for (const [name, work] of Object.entries(ways)) {
      const cost = await costOf(work)
      if (round >= 0) costs.get(name)?.push(cost)
    }
  return costs
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const [low, high] = [sorted[(sorted.length - 1) >> 1], sorted[sorted.length >> 1]]
  return ((low ?? NaN) + (high ?? NaN)) / 2
}

/** `12.3 [11.9-15.0]` */
export const spread = (values: readonly number[], digits = 1): string => {
  const [middle, least, most] = [median(values), Math.min(...values), Math.max(...values)].map((n) => n.toFixed(digits))
  return values.length === 1 ? `${middle}` : `${middle} [${least}-${most}]`
}

/** For the head of a result: date, machine, versions. */
export function circumstances(versions: Readonly<Record<string, string>>): string {
  const all = cpus()
  const used = Object.entries({ node: process.versions.node, ...versions }).map(
    ([name, version]) => `${name} ${version}`
  )
  return `${new Date().toISOString().slice(0, 10)}, ${all.length} x ${all[0]?.model.trim() ?? 'unknown processor'}, ${used.join(', ')}`
}
