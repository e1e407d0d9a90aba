// Limits of executions.

/** Limits of an execution, of which the README has a table; those left out are the relay's. */
export interface Limits {
  readonly wallMs?: number;
  readonly cpuMs?: number;
  readonly heapBytes?: number;
  readonly memoryBytes?: number;
  readonly sourceBytes?: number;
  readonly toolCalls?: number;
  readonly toolCallsInFlight?: number;
  readonly toolCallMs?: number;
  readonly approvalMs?: number;
  readonly argumentsBytes?: number;
  readonly toolResultBytes?: number;
  readonly resultBytes?: number;
  readonly outputBytes?: number;
  readonly outputCount?: number;
}
