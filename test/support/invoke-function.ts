/**
 * A process in which one function is called once, as the platform would, and which then has nothing left to do:
 * `node invoke-function.ts planner query.ts '{"execution":"run"}'`. The query's module takes the place of `#query`. Prints
 * what the function prints, and at last a line `answer <JSON>` or `failure <JSON>`. A warning of Node's is an error.
 */
import { registerHooks } from 'node:module'
import { pathToFileURL } from 'node:url'
import type { Context } from 'aws-lambda'
import { failureText, lambdaContext } from './lambda-context.ts'

process.on('warning', (warning) => {
  throw warning
})

const [, , name = '', query = '', event = ''] = process.argv
registerHooks({
  resolve: (specifier, context, next) => next(specifier === '#query' ? pathToFileURL(query).href : specifier, context),
})

interface Module {
  handler(event: unknown, context: Context): Promise<unknown>
}

const { handler } = (await import(`../../functions/${name}.ts`)) as Module
try {
  console.log(`answer ${JSON.stringify(await handler(JSON.parse(event), lambdaContext()))}`)
} catch (error) {
  console.log(`failure ${failureText(error)}`)
}
