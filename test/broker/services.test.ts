import { Kafka, logLevel, type KafkaConfig, type SASLOptions } from 'kafkajs'
import { expect, inject, test } from 'vitest'
import { brokerUser } from '../support/broker.ts'

const { bootstrap, saslPlaintext, saslSsl, caPem } = inject('kafka')

const listTopics = async (config: KafkaConfig): Promise<string[]> => {
  const admin = new Kafka({ ...config, logLevel: logLevel.NOTHING, retry: { retries: 0 } }).admin()
  await admin.connect()
  return admin.listTopics().finally(() => admin.disconnect())
}

test('the shared broker answers without a login', async () => {
  expect(await listTopics({ brokers: [bootstrap] })).toBeInstanceOf(Array)
})

// A new object for each client: kafkajs keeps the login of the first one inside the object.
const logins: readonly ((password: string) => SASLOptions)[] = [
  (password) => ({ mechanism: 'plain', username: brokerUser.username, password }),
  (password) => ({ mechanism: 'scram-sha-256', username: brokerUser.username, password }),
  (password) => ({ mechanism: 'scram-sha-512', username: brokerUser.username, password }),
]

for (const login of logins) {
  const right = (): SASLOptions => login(brokerUser.password)
  test(`the shared broker knows its user by ${right().mechanism}, with and without TLS`, async () => {
    expect(await listTopics({ brokers: [saslPlaintext], sasl: right() })).toBeInstanceOf(Array)
    expect(await listTopics({ brokers: [saslSsl], ssl: { ca: caPem }, sasl: right() })).toBeInstanceOf(Array)
    await expect(listTopics({ brokers: [saslPlaintext], sasl: login('wrong') })).rejects.toThrow('uthentication')
  })
}

test('the shared MiniStack answers', async () => {
  const response = await fetch(`${inject('ministack').endpoint}/_ministack/health`)
  expect(response.status).toBe(200)
})
