/** What else takes part in a figure, for its head. */
import { spawnSync } from 'node:child_process'
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { kafkaJars } from '../support/broker.ts'

export function versions(): Record<string, string> {
  const broker = readdirSync(kafkaJars).flatMap((file) => /^kafka-server-([\d.]+)\.jar$/.exec(file)?.[1] ?? [])[0]
  const manifest = join(import.meta.dirname, '../../node_modules/kafkajs/package.json')
  const { version }: { version: string } = JSON.parse(readFileSync(manifest, 'utf8'))
  const kcat = /Version ([\d.]+)/.exec(spawnSync('kcat', ['-V'], { encoding: 'utf8' }).stdout ?? '')?.[1]
  return { 'Kafka broker': broker ?? 'unknown', kafkajs: version, ...(kcat !== undefined && { kcat }) }
}
