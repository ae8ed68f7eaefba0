// Package bench holds the benchmarks that involve several packages; `task bench` runs them. Each prints its result
// together with its limit, or with a peer's result from the same run.
package bench
