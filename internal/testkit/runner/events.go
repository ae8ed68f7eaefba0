package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// testName identifies a test or subtest.
type testName struct{ pkg, test string }

func (n testName) String() string { return strings.TrimPrefix(n.pkg, module) + "." + n.test }

// testOutcome is the result of one test in all its runs.
type testOutcome struct {
	name   testName
	failed int    // number of failures
	passed bool   // result of the last run
	reason string // first line of the first failure
	took   time.Duration
	leaf   bool // the test has no subtests
}

// testEvent is a line of `go test -json`.
type testEvent struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // seconds
}

// readOutcomes reads the events of a run of go test. The run may contain repetitions of failed tests.
func readOutcomes(events io.Reader) ([]testOutcome, error) {
	byName := map[testName]*testOutcome{}
	var order []*testOutcome
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e testEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("read the events of the tests: %w", err)
		}
		if e.Test == "" {
			continue
		}
		name := testName{e.Package, e.Test}
		o := byName[name]
		if o == nil {
			o = &testOutcome{name: name, leaf: true}
			byName[name] = o
			order = append(order, o)
			if i := strings.LastIndexByte(e.Test, '/'); i >= 0 && byName[testName{e.Package, e.Test[:i]}] != nil {
				byName[testName{e.Package, e.Test[:i]}].leaf = false
			}
		}
		switch e.Action {
		case "output":
			if text := strings.TrimSpace(e.Output); o.reason == "" && isFailure(text) {
				o.reason = text
			}
		case "pass", "skip":
			o.passed = true
			o.took = max(o.took, secondsToDuration(e.Elapsed))
		case "fail":
			o.passed = false
			o.failed++
			o.took = max(o.took, secondsToDuration(e.Elapsed))
		}
	}
	all := make([]testOutcome, len(order))
	for i, o := range order {
		all[i] = *o
	}
	return all, lines.Err()
}

// isFailure reports whether the line begins with a position in a Go file, as t.Error, t.Fatal and t.Log print it.
// Events do not distinguish errors from logs, so the list of flaky tests may show a log line as the reason.
func isFailure(line string) bool {
	file, rest, ok := strings.Cut(line, ".go:")
	return ok && !strings.ContainsAny(file, " \t") && len(rest) > 0 && rest[0] >= '0' && rest[0] <= '9'
}

func secondsToDuration(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// flakyTests returns the tests that failed and then passed when they were repeated alone. If a test has subtests, only
// the subtests count.
func flakyTests(all []testOutcome) []testOutcome {
	return slices.DeleteFunc(slices.Clone(all), func(o testOutcome) bool { return o.failed == 0 || !o.passed || !o.leaf })
}

// failingTests returns the tests that failed and also failed in their repetition.
func failingTests(all []testOutcome) []testOutcome {
	return slices.DeleteFunc(slices.Clone(all), func(o testOutcome) bool { return o.failed == 0 || o.passed || !o.leaf })
}

// slowestTests returns at most n tests without subtests, the slowest first.
func slowestTests(all []testOutcome, n int) []testOutcome {
	leaves := slices.DeleteFunc(slices.Clone(all), func(o testOutcome) bool { return !o.leaf })
	slices.SortStableFunc(leaves, func(a, b testOutcome) int { return int(b.took - a.took) })
	return leaves[:min(n, len(leaves))]
}
