/**
 * The same topics through Apache Spark and Delta, fetched into `.tools/spark` when they are asked for: PySpark by pip, the
 * connectors by Maven. spark.py runs the queries; each process is one JVM.
 */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { copyFile, mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import type { benchTopics } from './topics.ts'

const run = promisify(execFile)
const folder = join(import.meta.dirname, '../../.tools/spark')
const versions = { pyspark: '4.2.0', delta: '4.4.0' } as const

/** delta..., json...: one batch, warm, on local[1]; capped: the same in ten; batches: each of 50 batches of ten records. */
export type SparkQuery =
  | 'delta100'
  | 'delta1k'
  | 'json'
  | 'delta100Tuned'
  | 'delta1kTuned'
  | 'jsonTuned'
  | 'capped'
  | 'batches'

export interface SparkFigure {
  readonly query: SparkQuery
  readonly wallS: number
  /** User and system time of the JVM, of one batch for `batches`. */
  readonly cpuS: number
  readonly rssMb: number
}

/** Jars of the connectors that PySpark does not bring in a newer version itself. */
const wanted = [
  'spark-sql-kafka-0-10',
  'spark-token-provider-kafka-0-10',
  'kafka-clients',
  'commons-pool2',
  'delta-spark',
  'delta-storage',
  'delta-kernel',
  'unitycatalog',
  'javax.annotation-api',
]

const pom = `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>bench</groupId><artifactId>bench</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.spark</groupId><artifactId>spark-sql-kafka-0-10_2.13</artifactId><version>${versions.pyspark}</version></dependency>
<dependency><groupId>io.delta</groupId><artifactId>delta-spark_4.2_2.13</artifactId><version>${versions.delta}</version></dependency>
</dependencies></project>
`

/** Answers the Python that has PySpark. */
async function fetchSpark(say: (text: string) => void): Promise<string> {
  const python = join(folder, 'venv/bin/python')
  const stamp = join(folder, 'jars/.complete')
  if (existsSync(stamp)) return python
  say(`fetching PySpark ${versions.pyspark} and Delta ${versions.delta}`)
  await mkdir(join(folder, 'jars'), { recursive: true })
  await run('python3', ['-m', 'venv', join(folder, 'venv')])
  await run(python, ['-m', 'pip', 'install', '-q', `pyspark==${versions.pyspark}`])
  await writeFile(join(folder, 'pom.xml'), pom)
  const all = join(folder, 'all-jars')
  const copy = 'org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies'
  await run('mvn', [
    '-q',
    '-B',
    '-f',
    join(folder, 'pom.xml'),
    copy,
    `-DoutputDirectory=${all}`,
    '-DincludeScope=runtime',
  ])
  for (const file of await readdir(all))
    if (wanted.some((name) => file.startsWith(name))) await copyFile(join(all, file), join(folder, 'jars', file))
  await writeFile(stamp, '')
  return python
}

interface Session {
  readonly master: 'local[1]' | 'local[2]'
  /** Queries that are run and not told first. */
  readonly warmUps: readonly SparkQuery[]
  readonly queries: readonly SparkQuery[]
}

const one: Session = {
  master: 'local[1]',
  warmUps: ['delta100', 'json', 'delta1kTuned'],
  queries: ['delta100', 'delta1k', 'json', 'delta100Tuned', 'delta1kTuned', 'jsonTuned'],
}
const capped: Session = { master: 'local[1]', warmUps: ['delta1k'], queries: ['capped'] }
const batches: Session = { master: 'local[2]', warmUps: [], queries: ['batches'] }

export async function runSpark(
  bootstrap: string,
  topics: ReturnType<typeof benchTopics>,
  rounds: number,
  say: (text: string) => void
): Promise<SparkFigure[]> {
  const python = await fetchSpark(say)
  const { plain100, plain1k, orders, small1 } = topics
  const place = { bootstrap, jars: join(folder, 'jars'), plain100, plain1k, orders, small1 }
  const figures: SparkFigure[] = []
  for (const session of [...Array.from({ length: rounds }, () => one), capped, batches]) {
    say(`Spark on ${session.master}: ${session.queries.join(', ')}`)
    const settings = JSON.stringify({ ...place, ...session })
    const child = spawn(python, [join(import.meta.dirname, 'spark.py'), settings], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    createInterface({ input: child.stdout }).on('line', (line) => figures.push(JSON.parse(line)))
    const [code] = await once(child, 'close')
    if (code !== 0) throw new Error(`Spark ended with code ${code}`)
  }
  return figures
}
