// Package goals holds Quantix's performance goals. Benchmarks record results from any process; all results form one
// table for the manual, including missed goals.
package goals

import (
	"encoding/json"
	"os"
	"testing"
	"time"
)

// Goal is a row of the table whose result has a verdict.
type Goal struct{ path, goal string }

// Limit is a row without a verdict: it compares a component with its theoretical limit.
type Limit struct{ row Goal }

// The rows, in order.
var (
	Pages          = add("VM page · host list · dashboard, p50/p99", "p99 ≤ 20 ms")
	WidePages      = add("New-VM form · pool page · storage tree, p50/p99 (page)", "p99 ≤ 30 ms, page ≤ 80 KB")
	Matrix         = add("Matrix of 50 hosts × 40 pools, p50/p99", "p99 ≤ 50 ms")
	Cell           = add("A changed cell on an open pool page, from the host's report on, p50/p99", "p99 ≤ 300 ms")
	List           = add("VM list, 100 of 100,000, four clients, p50/p99", "p99 ≤ 12 ms, p50 ≤ 2.5 × the query alone")
	ListSilent     = add("Of these `phase:running`, with every host silent, p50/p99", "as when all is well")
	Searches       = add("Searches without an index: name contains · suffix · address · rare label by host · tasks by who · by kind, p99", "p99 ≤ 30 ms")
	Intent         = add("Intent → agent, 1,000 parked, p50/p99", "p99 ≤ 4 ms")
	IntentAll      = add("Intent → agent, 9,900 parked, p50/p99", "p99 ≤ 8 ms")
	Throughput     = limit("Claim + finish, whole path", "net/http alone, a request a job, no TLS")
	Mass           = limit("A job for each of 9,900 parked agents at once, until all have ended", "net/http alone, both requests, no TLS")
	OldPlan        = add("Claim on a connection that planned it on an empty table, 10,000 queued", "≤ 5 ms")
	Tabs           = add("1,000 tabs on the VM list while 200 VMs/s change", "≤ 0.6 core, refresh p99 ≤ 2 s")
	Fleet          = add("10,000 hosts, 9,500 agents beating, 100,000 VMs", "≤ 0.8 core together, ≤ 600 MB, every page p99 ≤ 50 ms, beats p99 ≤ 50 ms")
	AgentRSS       = add("Agent with mutual TLS, all of its connections", "≤ 48 KB")
	Console        = add("Console, CPU a MiB, agent over mutual TLS", "≤ 1.0 × websockify, TLS on both")
	CSV            = add("CSV of 100,000 VMs", "≥ 80,000 rows/s")
	FirstPage      = add("First page, with headers", "≤ 55 KB")
	Heartbeats     = add("Heartbeats without a change, 40 meters each", "≥ 5,000 a second, no row of a VM written")
	Bulk           = add("An order about 500 VMs: its answer p50/p99; all of them begun behind it", "≤ 300 ms")
	ParkedHTTP     = add("A parked agent over plain HTTP", "≤ 24 KiB")
	Open           = add("Console: open to first byte, p50; the host is asked when the browser waits", "≤ 6.4 ms")
	Start          = add("Create and start a diskless guest, p50", "≤ libvirt + 60 ms")
	StartImage     = add("Create and start a guest from an image by overlay, p50", "≤ qemu-img and libvirt + 150 ms")
	LinkedClone    = add("A linked clone of a template, ready to start, p50", "≤ 200 ms")
	Snapshot       = add("Snapshot with memory of a guest of 256 MiB, p50", "≤ virsh snapshot-create-as + 100 ms")
	BulkStart      = add("100 diskless guests started on 2 hosts by one order", "≤ 1.1 × loops over libvirt with the same parallelism")
	Definition     = add("Spec to XML, of a usual VM, p50", "≤ 100 µs")
	FullDefinition = limit("Spec to XML, of a VM with all parts, p50", "the library that writes XML, alone")
	Labels         = add("A network for 10,000 hosts by label; with 40 of them, a pass that finds nothing to do", "all within 30 s, ≤ 1 s")
	WouldPass      = add("Traffic test: 1,000 security groups of 10 rules, p50/p99", "≤ 20 ms")
	Transfer       = add("Image of 1 GiB from agent to agent", "≥ 70 % of cat to nc over TCP, synced, on the same disk and in the same run")
	Upload         = add("Upload of 4 GiB through portal and pair, by curl", "≥ 60 % of curl to a plain Go file server on the same disk, portal's memory +32 MiB at most")
	Overlay        = add("A VM's disk as an overlay on an image, with its definition, p50", "≤ 100 ms")
	Upgrade        = add("Upgrade of a database with 100,000 VMs from schema 14", "≤ 30 s")
)

var all []Goal

func add(path, goal string) Goal {
	all = append(all, Goal{path, goal})
	return all[len(all)-1]
}

func limit(path, by string) Limit { return Limit{add(path, "limit: "+by)} }

// RowsVar names the environment variable of the file that collects the rows of all processes. It has no QUANTIX_
// prefix, because the program refuses unknown QUANTIX_ variables.
const RowsVar = "BENCH_ROWS"

// Row is a benchmark's result for a goal or a limit.
type Row struct {
	Path, Ours, Verdict, Beside string
	Ratio                       float64 // our main figure divided by the comparison's
	At                          time.Time
}

// Tell records a result, the comparison measured in the same run, and the ratio of the main figures. The last result
// of a goal counts.
func (g Goal) Tell(b testing.TB, met bool, ours, beside string, ratio float64) {
	b.Helper()
	verdict := "met"
	if !met {
		verdict = "**missed**"
	}
	g.record(b, verdict, ours, beside, ratio)
}

// Tell records a result without a verdict.
func (l Limit) Tell(b testing.TB, ours, beside string, ratio float64) {
	b.Helper()
	l.row.record(b, "", ours, beside, ratio)
}

func (g Goal) record(b testing.TB, verdict, ours, beside string, ratio float64) {
	b.Helper()
	line, err := json.Marshal(Row{g.path, ours, verdict, beside, ratio, time.Now()})
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("%s: %s (%s; %s; beside it %s, %.2f ×)", g.path, ours, g.goal, verdict, beside, ratio)
	name := os.Getenv(RowsVar)
	if name == "" {
		return
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		b.Fatal(err)
	}
	_, err = file.Write(append(line, '\n'))
	if closed := file.Close(); err != nil || closed != nil {
		b.Fatal(err, closed)
	}
}
