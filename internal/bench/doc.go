// Package bench holds the benchmarks that span packages; `task bench` runs them. Each prints its result with its limit,
// or with a peer's result from the same run.
package bench
