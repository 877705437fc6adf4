import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { Kafka, logLevel } from 'kafkajs'
import { serverProperties, type NodePorts } from './broker-properties.ts'
import { freePorts } from './ports.ts'
import { startTied, type TiedProcess } from './tied-process.ts'

const run = promisify(execFile)

/** Where setup.mjs puts the broker's jars; every Java command of the tests runs with this class path. */
export const kafkaJars = join(import.meta.dirname, '../../.tools/kafka')

/** The user that the SASL listeners know, by PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512. */
export const brokerUser = { username: 'alice', password: 'alice-secret' } as const

export interface BrokerOptions {
  /** Nodes, each broker and controller. Default 1. */
  readonly nodes?: 1 | 3
  /** `auto.create.topics.enable`. Default false. */
  readonly autoCreateTopics?: boolean
  /** Server properties that replace or extend the defaults of every node. */
  readonly properties?: Readonly<Record<string, string>>
  /** Listeners per node that advertise the port of a TCP proxy (see tcp-proxy.ts). Default 0. */
  readonly proxied?: number
}

/** A listener to be reached through a proxy only: clients are told to connect to `proxyPort`, the broker listens on `targetPort`. */
export interface ProxiedListener {
  readonly proxyPort: number
  readonly targetPort: number
}

export interface BrokerNode {
  /** `node.id`, from 1 on: the id that metadata answers name as leader. */
  readonly id: number
  /** The process id; another one after `start`. */
  readonly pid: number
  /** Port of the PLAINTEXT listener. */
  readonly port: number
  readonly dataDir: string
  readonly proxied: readonly ProxiedListener[]
  /** SIGKILL; settles once the process is gone. */
  kill(): Promise<void>
  /** A clean stop (SIGTERM); settles once the process is gone. */
  stop(): Promise<void>
  /** Starts the node again on the same ports and data; settles once its port accepts connections. */
  start(): Promise<void>
}

export interface Broker {
  /** `host:port` list of the PLAINTEXT listeners, as for kafka.bootstrap.servers. */
  readonly bootstrap: string
  /** The same for the SASL_PLAINTEXT listeners. */
  readonly saslPlaintext: string
  /** The same for the SASL_SSL listeners; clients trust `caPem` and connect by the name 127.0.0.1 or localhost. */
  readonly saslSsl: string
  readonly caPem: string
  readonly nodes: readonly BrokerNode[]
  /** Settles once all nodes take part, the ports are open and a topic can be created. Needed only after a node's `start`. */
  ready(): Promise<void>
  /** Ends every node and removes the data. */
  stop(): Promise<void>
}

/** Starts a real Kafka broker (KRaft) on free ports of 127.0.0.1 with its data in a temporary folder, and waits until it is ready. */
export async function startBroker(options: BrokerOptions = {}): Promise<Broker> {
  if (!existsSync(kafkaJars)) throw new Error(`${kafkaJars} is missing: run 'node test/support/setup.mjs'`)
  const folder = await mkdtemp(join(tmpdir(), 'sluice-kafka-'))
  const count = options.nodes ?? 1
  const ports = await allPorts(count, options.proxied ?? 0)
  const caPem = await makeCertificate(folder)
  const nodes = await Promise.all(ports.map((_, index) => prepareNode(folder, index, ports, options)))
  const broker: Broker = {
    bootstrap: addresses(ports, 'plaintext'),
    saslPlaintext: addresses(ports, 'saslPlaintext'),
    saslSsl: addresses(ports, 'saslSsl'),
    caPem,
    nodes,
    ready: () => waitUntilReady(broker.bootstrap, count),
    async stop() {
      await Promise.all(nodes.map((node) => node.kill()))
      await rm(folder, { recursive: true, force: true, maxRetries: 3 })
    },
  }
  try {
    await Promise.all(nodes.map((node) => node.start()))
    await broker.ready()
  } catch (error) {
    await broker.stop()
    throw error
  }
  return broker
}

const addresses = (ports: readonly NodePorts[], listener: 'plaintext' | 'saslPlaintext' | 'saslSsl'): string =>
  ports.map((node) => `127.0.0.1:${node[listener]}`).join(',')

async function allPorts(count: number, proxied: number): Promise<NodePorts[]> {
  const free = await freePorts(count * (4 + 2 * proxied))
  const next = (): number => free.pop() ?? 0
  return Array.from({ length: count }, () => ({
    plaintext: next(),
    controller: next(),
    saslPlaintext: next(),
    saslSsl: next(),
    proxied: Array.from({ length: proxied }, () => ({ proxyPort: next(), targetPort: next() })),
  }))
}

async function makeCertificate(folder: string): Promise<string> {
  const [key, certificate] = [join(folder, 'key.pem'), join(folder, 'ca.pem')]
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1']
  await run('openssl', [
    'req',
    '-x509',
    '-newkey',
    'rsa:2048',
    '-nodes',
    '-days',
    '3650',
    ...subject,
    '-keyout',
    key,
    '-out',
    certificate,
  ])
  const caPem = await readFile(certificate, 'utf8')
  await writeFile(join(folder, 'server.pem'), (await readFile(key, 'utf8')) + caPem)
  return caPem
}

async function prepareNode(
  folder: string,
  index: number,
  ports: readonly NodePorts[],
  options: BrokerOptions
): Promise<BrokerNode> {
  const own = ports[index]
  if (own === undefined) throw new Error(`no ports for node ${index}`)
  const dataDir = join(folder, `node-${index + 1}`)
  const propertiesFile = join(dataDir, 'server.properties')
  await mkdir(dataDir)
  const properties = { ...serverProperties(folder, dataDir, index, ports, brokerUser), ...options.properties }
  if (options.autoCreateTopics === true) properties['auto.create.topics.enable'] = 'true'
  await writeFile(
    propertiesFile,
    Object.entries(properties)
      .map(([name, value]) => `${name}=${value}\n`)
      .join('')
  )
  const scram = ['256', '512'].flatMap((bits) => [
    '--add-scram',
    `SCRAM-SHA-${bits}=[name=${brokerUser.username},password=${brokerUser.password}]`,
  ])
  const storage = [
    'kafka.tools.StorageTool',
    'format',
    '-t',
    'AAAAAAAAAAAAAAAAAAAAAQ',
    '-c',
    propertiesFile,
    '--ignore-formatted',
  ]
  await run('java', ['-cp', `${kafkaJars}/*`, ...storage, ...scram])
  return brokerNode(index + 1, own, dataDir, propertiesFile)
}

function brokerNode(id: number, ports: NodePorts, dataDir: string, propertiesFile: string): BrokerNode {
  let child: TiedProcess | undefined
  const logFile = join(dataDir, 'broker.log')
  const jvm = ['-Xmx384m', '-XX:TieredStopAtLevel=1', '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn']
  return {
    id,
    port: ports.plaintext,
    dataDir,
    proxied: ports.proxied,
    get pid() {
      if (child === undefined) throw new Error(`node ${id} was never started`)
      return child.pid
    },
    kill: async () => child?.end('SIGKILL'),
    stop: async () => child?.end('SIGTERM'),
    async start() {
      if (child !== undefined && !child.hasExited()) return
      child = await startTied(['java', ...jvm, '-cp', `${kafkaJars}/*`, 'kafka.Kafka', propertiesFile], { logFile })
      await portOpen(child, ports.plaintext, logFile)
    },
  }
}

async function portOpen(child: TiedProcess, port: number, logFile: string): Promise<void> {
  const deadline = Date.now() + 90_000
  for (;;) {
    const open = await new Promise<boolean>((resolve) => {
      const socket = connect(port, '127.0.0.1', () => resolve(true)).once('error', () => resolve(false))
      socket.once('connect', () => socket.destroy())
    })
    if (open) return
    if (child.hasExited() || Date.now() > deadline) {
      const log = await readFile(logFile, 'utf8')
      throw new Error(`the broker did not open port ${port}. The end of its log:\n${log.slice(-4000)}`)
    }
    await delay(50)
  }
}

/** A topic is created and deleted again: an open port alone does not mean that the metadata has arrived everywhere. */
async function waitUntilReady(bootstrap: string, count: number): Promise<void> {
  const deadline = Date.now() + 90_000
  const admin = new Kafka({ brokers: bootstrap.split(','), logLevel: logLevel.NOTHING, retry: { retries: 0 } }).admin()
  const topic = `ready-${process.pid}-${Date.now()}`
  for (;;) {
    try {
      await admin.connect()
      const { brokers } = await admin.describeCluster()
      if (brokers.length < count) throw new Error(`${brokers.length} of ${count} nodes have joined`)
      await admin.createTopics({ topics: [{ topic, numPartitions: 1, replicationFactor: count }] })
      await admin.deleteTopics({ topics: [topic] })
      await admin.disconnect()
      return
    } catch (error) {
      if (Date.now() > deadline) {
        await admin.disconnect()
        throw new Error('the broker did not become ready', { cause: error })
      }
      await delay(100)
    }
  }
}
