/** A template as a picture: what is created, who starts whom, who writes where. Drawn from the resources and their policies. */
import { actionsOf, leadingKeysOf, statementsOf } from './policies.ts'
import type { Statement, Template } from './policies.ts'

type Found = { readonly id: string; readonly properties: Readonly<Record<string, unknown>> }

/** Mermaid text. */
export function pictureOf(template: Template): string {
  const of = (type: string): Found[] =>
    Object.entries(template.Resources).flatMap(([id, { Type, Properties }]) =>
      Type === type ? [{ id, properties: Properties }] : []
    )
  const one = (type: string): Found => {
    const [found] = of(type)
    if (found === undefined) throw new Error(`the template has no ${type}`)
    return found
  }
  const functions = of('AWS::Lambda::Function').map(({ id, properties }) => ({
    id,
    name: /^Query(Planner|Worker|Committer)/.exec(id)?.[1] ?? id,
    about: `${String(properties['Runtime'])}, ${String(properties['MemorySize'])} MB, log group`,
    readsKafka: !/Committer/.test(id),
  }))
  const [schedule, machine] = [one('AWS::Scheduler::Schedule'), one('AWS::StepFunctions::StateMachine')]
  const [table, bucket] = [one('AWS::DynamoDB::GlobalTable'), one('AWS::S3::Bucket')]
  const machineRights = statementsOf(template, 'QueryStateMachineRole')

  const lines = [
    'flowchart LR',
    `  Schedule(["Schedule<br>${String(schedule.properties['ScheduleExpression'])}"]) -- starts --> Machine`,
    `  Machine["State machine<br>${String(machine.properties['StateMachineType']).toLowerCase()} workflow"]`,
    '  Table[("Table<br>the logs")]',
    '  Bucket[("Bucket<br>the tables")]',
  ]
  if (names(machineRights, 'states:StartExecution', machine.id)) lines.push('  Machine -- goes on as --> Machine')
  for (const { id, name, about, readsKafka } of functions) {
    const rights = statementsOf(template, `Query${name}Role`)
    lines.push(`  ${name}["${name}<br>${about}"]`)
    if (names(machineRights, 'lambda:InvokeFunction', id)) lines.push(`  Machine -- calls --> ${name}`)
    if (readsKafka) lines.push(`  Kafka[("Kafka")] -. is read by .-> ${name}`)
    const logs = rights.filter((right) => actionsOf(right).includes('dynamodb:PutItem')).flatMap(logsOf)
    if (names(rights, 'dynamodb:PutItem', table.id)) lines.push(`  ${name} -- "${logs.join(', ')}" --> Table`)
    if (names(rights, 's3:PutObject', bucket.id)) lines.push(`  ${name} -- objects --> Bucket`)
  }
  return lines.join('\n')
}

/** Whether a statement with this action names the resource. */
const names = (statements: readonly Statement[], action: string, id: string): boolean =>
  statements.some(
    (statement) => actionsOf(statement).includes(action) && JSON.stringify(statement.Resource).includes(`"${id}"`)
  )

/** The logs that a statement's leading keys end in; parts of entries are no log of their own. */
const logsOf = (statement: Statement): string[] =>
  (leadingKeysOf(statement) ?? []).flatMap((key) => /@\*\/(\w+)/.exec(key)?.[1] ?? []).filter((log) => log !== 'parts')
