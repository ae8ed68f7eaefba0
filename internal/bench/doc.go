// Package bench holds the benchmarks that span packages; `task bench` runs them. Each prints its limit, or its peer measured
// in the same run, beside the figure.
package bench
