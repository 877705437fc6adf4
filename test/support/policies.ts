/** What a template lets its functions do, and whether that covers a request. */

export interface Statement {
  readonly Effect: string
  readonly Action: string | readonly string[]
  readonly Resource: unknown
  readonly Condition?: {
    readonly 'ForAllValues:StringLike'?: { readonly 'dynamodb:LeadingKeys'?: string | readonly string[] }
  }
}

interface Resource {
  readonly Type: string
  readonly Properties: {
    readonly PolicyDocument?: { readonly Statement: readonly Statement[] }
    readonly Roles?: readonly { readonly Ref?: string }[]
  }
}

export interface Template {
  readonly Resources: Readonly<Record<string, Resource>>
}

/** Statements of the policies whose role's logical id begins so, as `QueryWorkerRole`; all of them without one. */
export const statementsOf = (template: Template, role = ''): Statement[] =>
  Object.values(template.Resources).flatMap(({ Type, Properties }) =>
    Type === 'AWS::IAM::Policy' && Properties.Roles?.some(({ Ref }) => Ref?.startsWith(role))
      ? (Properties.PolicyDocument?.Statement ?? [])
      : []
  )

export const actionsOf = ({ Action }: Statement): readonly string[] => (typeof Action === 'string' ? [Action] : Action)

/** Patterns of partition keys that a statement is limited to; null where it is not. */
export function leadingKeysOf({ Condition }: Statement): readonly string[] | null {
  const keys = Condition?.['ForAllValues:StringLike']?.['dynamodb:LeadingKeys']
  if (keys === undefined) return null
  return typeof keys === 'string' ? [keys] : keys
}

/** Whether a call on the items of one partition key is allowed. */
export const allowsItem = (statements: readonly Statement[], action: string, key: string): boolean =>
  statements.some(
    (statement) =>
      statement.Effect === 'Allow' &&
      actionsOf(statement).includes(`dynamodb:${action}`) &&
      (leadingKeysOf(statement) ?? ['*']).some((pattern) => isLike(key, pattern))
  )

/** Whether a call on an object is allowed; resources end in the key's pattern. */
export const allowsObject = (statements: readonly Statement[], action: string, key: string): boolean =>
  statements.some(
    (statement) =>
      statement.Effect === 'Allow' &&
      actionsOf(statement).includes(`s3:${action}`) &&
      keyPatternsOf(statement.Resource).some((pattern) => isLike(key, pattern))
  )

/** What follows the bucket's ARN in `Fn::Join: ["", [<arn>, "/prefix/*"]]`. */
function keyPatternsOf(resource: unknown): string[] {
  const resources: readonly unknown[] = Array.isArray(resource) ? resource : [resource]
  return resources.flatMap((one) => {
    const last = /"\/([^"]*)"\]\]\}$/.exec(JSON.stringify(one))?.[1]
    return last === undefined ? [] : [last]
  })
}

/** IAM's StringLike: `*` is any text. */
const isLike = (value: string, pattern: string): boolean =>
  new RegExp(`^${pattern.split('*').map(RegExp.escape).join('.*')}$`).test(value)
