/** A process that runs a query over real parts and kills itself (SIGKILL) at its n-th effect: `node crash-child.ts DIR N`. */
import query from './queries/from-env.ts'
import { runAll } from './crash-matrix.ts'
import { openFaultyRuntime } from './faulty-runtime.ts'

const [, , directory = '', n = ''] = process.argv
let at = 0
const runtime = await openFaultyRuntime(query, directory, () => {
  if (at++ === Number(n)) process.kill(process.pid, 'SIGKILL')
})
await runAll(runtime.context)
await runtime.close()
