import { join } from 'node:path'

/** The ports of one node, all on 127.0.0.1. */
export interface NodePorts {
  readonly plaintext: number
  readonly controller: number
  readonly saslPlaintext: number
  readonly saslSsl: number
  readonly proxied: readonly { readonly proxyPort: number; readonly targetPort: number }[]
}

/** The server.properties of one node of a test cluster whose certificate is `server.pem` in `folder`. */
export function serverProperties(
  folder: string,
  dataDir: string,
  index: number,
  ports: readonly NodePorts[],
  user: { username: string; password: string }
): Record<string, string> {
  const own = ports[index]
  if (own === undefined) throw new Error(`no ports for node ${index}`)
  const replicas = String(ports.length)
  return {
    'process.roles': 'broker,controller',
    'node.id': String(index + 1),
    'controller.quorum.voters': ports.map((node, at) => `${at + 1}@127.0.0.1:${node.controller}`).join(','),
    ...listenerProperties(own),
    ...loginProperties(user),
    'ssl.keystore.type': 'PEM',
    'ssl.keystore.location': join(folder, 'server.pem'),
    'log.dirs': join(dataDir, 'log'),
    'auto.create.topics.enable': 'false',
    'default.replication.factor': replicas,
    'offsets.topic.replication.factor': replicas,
    'offsets.topic.num.partitions': '1',
    'transaction.state.log.replication.factor': replicas,
    'transaction.state.log.min.isr': '1',
    'transaction.state.log.num.partitions': '1',
    'group.initial.rebalance.delay.ms': '0',
    // Records with timestamps of the past must stay; a topic that wants retention or compaction gets it within a second.
    'log.retention.ms': '-1',
    'log.initial.task.delay.ms': '200',
    'log.retention.check.interval.ms': '500',
    'log.cleaner.backoff.ms': '200',
    'log.cleaner.dedupe.buffer.size': '16777216',
  }
}

function listenerProperties(own: NodePorts): Record<string, string> {
  const listeners = [
    ['PLAINTEXT', 'PLAINTEXT', own.plaintext, own.plaintext],
    ['SASL_PLAINTEXT', 'SASL_PLAINTEXT', own.saslPlaintext, own.saslPlaintext],
    ['SASL_SSL', 'SASL_SSL', own.saslSsl, own.saslSsl],
    ...own.proxied.map((one, at) => [`PROXIED${at}`, 'PLAINTEXT', one.targetPort, one.proxyPort] as const),
  ] as const
  const map = (row: (typeof listeners)[number], port: number): string => `${row[0]}://127.0.0.1:${port}`
  return {
    listeners: [...listeners.map((row) => map(row, row[2])), `CONTROLLER://127.0.0.1:${own.controller}`].join(','),
    'advertised.listeners': listeners.map((row) => map(row, row[3])).join(','),
    'listener.security.protocol.map': [...listeners.map((row) => `${row[0]}:${row[1]}`), 'CONTROLLER:PLAINTEXT'].join(
      ','
    ),
    'controller.listener.names': 'CONTROLLER',
    'inter.broker.listener.name': 'PLAINTEXT',
  }
}

function loginProperties(user: { username: string; password: string }): Record<string, string> {
  const login = 'org.apache.kafka.common.security'
  const modules = {
    'scram-sha-256': `${login}.scram.ScramLoginModule required;`,
    'scram-sha-512': `${login}.scram.ScramLoginModule required;`,
    plain: `${login}.plain.PlainLoginModule required user_${user.username}="${user.password}";`,
    oauthbearer: `${login}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="${user.username}";`,
  }
  const entries = ['sasl_ssl', 'sasl_plaintext'].flatMap((listener) =>
    Object.entries(modules).map(([mechanism, module]) => [
      `listener.name.${listener}.${mechanism}.sasl.jaas.config`,
      module,
    ])
  )
  return { 'sasl.enabled.mechanisms': 'SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER', ...Object.fromEntries(entries) }
}
