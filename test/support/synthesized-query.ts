/** The construct in a stack of its own, as a template. */
import { App, Stack } from 'aws-cdk-lib'
import { Template as CdkTemplate } from 'aws-cdk-lib/assertions'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect } from 'vitest'
import { MicroBatchQuery } from '../../cdk/micro-batch-query.ts'
import type { MicroBatchQueryProps } from '../../cdk/micro-batch-query.ts'
import type { Template } from './policies.ts'

/** The example's query. */
export const flights = 'cdk/queries/flights.ts'
export const environment = { SLUICE_BROKERS: 'broker.example:9092', SLUICE_TOPIC: 'flights' }

export interface Setting {
  readonly query: MicroBatchQuery
  readonly template: Template
  readonly text: string
  readonly found: CdkTemplate
}

const outdir = mkdtempSync(join(tmpdir(), 'sluice-cdk-'))
afterAll(() => rmSync(outdir, { recursive: true, force: true }))

/** A stack with one query. `props` may define what it passes in the stack; `after` changes what was made. */
export function synthesized(
  props: (stack: Stack) => Partial<MicroBatchQueryProps> = () => ({}),
  { isBundled = false, after }: { isBundled?: boolean; after?: (query: MicroBatchQuery) => void } = {}
): Setting {
  const app = new App({ outdir, context: isBundled ? {} : { 'aws:cdk:bundling-stacks': [] } })
  const stack = new Stack(app, 'Test', { env: { region: 'eu-central-1', account: '123456789012' } })
  const query = new MicroBatchQuery(stack, 'Query', { entry: flights, environment, ...props(stack) })
  after?.(query)
  const found = CdkTemplate.fromStack(stack)
  const template = found.toJSON() as Template
  return { query, template, found, text: JSON.stringify(template) }
}

export const resourcesOf = ({ found }: Setting, type: string) => Object.values(found.findResources(type))
/** Properties of the one resource of a type. */
export function onlyOne(setting: Setting, type: string): Record<string, unknown> {
  const resources = resourcesOf(setting, type)
  expect(resources).toHaveLength(1)
  return resources[0]?.['Properties']
}
export const functionsOf = (setting: Setting): Record<'Planner' | 'Worker' | 'Committer', Record<string, unknown>> => {
  const all = Object.entries(setting.found.findResources('AWS::Lambda::Function'))
  const one = (name: string) => all.find(([id]) => id.startsWith(`Query${name}`))?.[1]['Properties']
  expect(all).toHaveLength(3)
  return { Planner: one('Planner'), Worker: one('Worker'), Committer: one('Committer') }
}
export const variablesOf = (properties: Record<string, unknown>) =>
  (properties['Environment'] as { readonly Variables: Record<string, unknown> }).Variables
