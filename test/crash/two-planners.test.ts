/** Two runs at once on one query. Fifty repetitions: test/long/two-planners.test.ts. */
import { describe, inject, it } from 'vitest'
import { racePlanners } from '../support/planner-race.ts'

describe('B35: two processes run one query at the same moment', () => {
  it.each([true, false])('plan each batch once and deliver each record once (lease: %s)', (lease) =>
    racePlanners(inject('kafka').bootstrap, 5, lease)
  )
})
