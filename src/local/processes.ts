/** What the system tells about processes: enough to know whether the one that wrote a file still runs. */
import { readFileSync } from 'node:fs'

export interface Processes {
  isAlive(pid: number): boolean
  /** Differs between two processes that had the same pid; null where the system does not tell. */
  startTime(pid: number): string | null
}

export const systemProcesses: Processes = {
  isAlive(pid) {
    // Killed but not yet waited for by its parent, a process still has its pid.
    return isSignallable(pid) && !['Z', 'X'].includes(statOf(pid)[0] ?? '')
  },
  startTime: (pid) => statOf(pid)[19] ?? null,
}

function isSignallable(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (e) {
    // EPERM: it runs, under another user.
    return !(e instanceof Error && 'code' in e && e.code === 'ESRCH')
  }
}

/**
 * The fields of `/proc/<pid>/stat` from the third on: the second, the command's name in brackets, may itself hold
 * blanks and brackets. Empty where there is no such file.
 */
function statOf(pid: number): string[] {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  } catch {
    return []
  }
}
