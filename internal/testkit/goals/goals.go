// Package goals holds the performance goals of Quantix. Benchmarks in several processes record results. All results
// form one table for the manual, which also contains missed goals.
package goals

import (
	"encoding/json"
	"os"
	"testing"
	"time"
)

// Goal is a row of the table whose result is compared with a limit, which yields a verdict.
type Goal struct{ path, goal string }

// Limit is a row of the table without a verdict: it compares a component with a theoretical optimum.
type Limit struct{ row Goal }

// The rows of the table, in order.
var (
	Pages           = addGoal("VM page · host list · dashboard, p50/p99", "p99 ≤ 20 ms")
	HostPage        = addGoal("Host with 500 VMs: summary · VMs · topology, p50/p99", "p99 ≤ 50 ms")
	WidePages       = addGoal("New-VM form · pool page · storage tree, p50/p99 (page)", "p99 ≤ 30 ms, page ≤ 80 KB")
	Matrix          = addGoal("Matrix of 50 hosts × 40 pools, p50/p99", "p99 ≤ 50 ms")
	HostStatusShown = addGoal("Time from a host's report to its changed status on an open pool page, p50/p99", "p99 ≤ 300 ms")
	List            = addGoal("VM list, 100 of 100,000, four clients, p50/p99", "p99 ≤ 12 ms, p50 ≤ 2.5 × the query alone")
	ListSilent      = addGoal("VM list filtered by `state:running` with all hosts offline, p50/p99", "same as with all hosts online")
	Searches        = addGoal("Searches without a sort index: part of a name · end of a name · address · rare label sorted by host · tasks by user · by kind, p99", "p99 ≤ 30 ms")
	TenantPages     = addGoal("Pages of a tenant with 50 VMs among 100,000 VMs and 10,000 projects: dashboard, VMs, search, tree, pools, networks, images, tasks, p50/p99", "p99 ≤ 20 ms")
	ManyProjects    = addGoal("A person with 1,000 of 10,000 projects: project menu · search in it · VM list · new-VM form · projects, p50/p99", "p99 ≤ 50 ms")
	Intent          = addGoal("From a queued job to its agent, 1,000 agents waiting, p50/p99", "p99 ≤ 4 ms")
	IntentAll       = addGoal("From a queued job to its agent, 5,000 agents waiting, p50/p99", "p99 ≤ 8 ms")
	Throughput      = addLimit("Claim and finish of jobs", "net/http alone, one request per job, no TLS")
	Mass            = addLimit("One job for each of 5,000 waiting agents at once, until all jobs have ended", "net/http alone, two requests per job, no TLS")
	OldPlan         = addGoal("Claim with 10,000 queued jobs, on a connection with a query plan from an empty table", "≤ 5 ms")
	Tabs            = addGoal("1,000 tabs on the VM list while 200 VMs/s change", "≤ 0.6 core, refresh p99 ≤ 2 s")
	Fleet           = addGoal("10,000 hosts, 9,500 agents sending heartbeats, 100,000 VMs", "≤ 0.8 core together, ≤ 600 MB, every page p99 ≤ 50 ms, heartbeats p99 ≤ 50 ms")
	MetricsCost     = addGoal("Metrics of 10,000 VMs on 250 hosts every 10 s, processor time of portal and PostgreSQL", "≤ 0.3 core together")
	MetricsSize     = addGoal("Metrics of 10,000 VMs on 250 hosts for a year, all that is stored then, with indexes", "≤ 2 GB")
	HealthEvents    = addGoal("1,000 health events a second from 100 hosts over mutual TLS, half of them conditions", "≤ 0.1 core of the portal")
	YearChart       = addGoal("Data of a VM's charts of a year, p50/p99", "p99 ≤ 80 ms")
	AgentRSS        = addGoal("Portal memory per agent with mutual TLS, all connections", "≤ 48 KB")
	Console         = addGoal("Console: CPU time per MiB, agent over mutual TLS", "≤ 1.0 × websockify, TLS on both")
	CSV             = addGoal("CSV of 100,000 VMs", "≥ 80,000 rows/s")
	FirstPage       = addGoal("First page, with headers", "≤ 55 KB")
	Heartbeats      = addGoal("Heartbeats without changes, with the load of 40 VMs each", "≥ 5,000 a second, no VM row written")
	MetricBeats     = addGoal("Heartbeats without changes, with the load and the metrics of 40 VMs each", "≥ 2,000 a second: 20,000 hosts every 10 s; no VM row written")
	Bulk            = addGoal("Bulk action on 500 VMs: response time p50/p99; time until all child tasks have begun", "≤ 300 ms")
	ParkedHTTP      = addGoal("Portal memory per waiting agent over plain HTTP", "≤ 24 KiB")
	Open            = addGoal("Console: time from opening to the first byte, p50", "≤ 6.4 ms")
	Start           = addGoal("Create and start a diskless guest, p50", "≤ libvirt + 60 ms")
	StartImage      = addGoal("Create and start a guest from an image by overlay, p50", "≤ qemu-img and libvirt + 150 ms")
	LinkedClone     = addGoal("A linked clone of a template, ready to start, p50", "≤ 200 ms")
	Snapshot        = addGoal("Snapshot with memory of a guest of 256 MiB, p50", "≤ virsh snapshot-create-as + 100 ms")
	BulkStart       = addGoal("50 diskless guests started on 2 hosts by one bulk action", "≤ 1.1 × loops over libvirt with the same parallelism")
	Definition      = addGoal("Spec to XML, typical VM, p50", "≤ 100 µs")
	FullDefinition  = addLimit("Spec to XML, VM with all fields, p50", "the XML library alone")
	Labels          = addGoal("Network assigned to 10,000 hosts by label; a pass over 40 such networks without changes", "all within 30 s, ≤ 1 s")
	WouldPass       = addGoal("Traffic test: 1,000 security groups of 10 rules, p50/p99", "≤ 20 ms")
	Transfer        = addGoal("Image of 1 GiB from agent to agent", "≥ 70 % of `cat` and `nc` over TCP with sync, same disk, same run")
	Upload          = addGoal("Upload of 2 GiB by curl through the portal and a relay", "≥ 60 % of curl to a plain Go file server on the same disk; portal memory grows by at most 32 MiB")
	Overlay         = addGoal("VM disk as an overlay on an image, with the VM's definition, p50", "≤ 100 ms")
	Migration       = addGoal("Live migration of an idle guest of 256 MiB", "≤ virsh migrate --p2p + 300 ms")
	Downtime        = addGoal("Pause of the guest by a live migration, as libvirt measures it", "≤ virsh migrate --p2p + 50 ms")
	Drain           = addGoal("Live migration of 20 guests to another host", "≤ 1.15 × a loop over virsh with the same parallelism")
	Tunnel          = addGoal("Memory stream of a live migration through the agents", "≥ 80 % of plain TCP between the same sockets")
	TunnelOverLink  = addGoal("Memory stream of a live migration through the agents, over links of 10 · 1 Gbit/s", "≥ 80 % of plain TCP over the same link, on both")
	MigrationPlan   = addGoal("Preview of 20 migrations among 50 hosts, p50/p99", "p99 ≤ 500 ms")
	Placement       = addGoal("Placement over 10,000 hosts, p50/p99", "p99 ≤ 10 ms")
	Upgrade         = addGoal("Upgrade of a database with 100,000 VMs from schema 14", "≤ 30 s")
)

var all []Goal

func addGoal(path, goal string) Goal {
	all = append(all, Goal{path, goal})
	return all[len(all)-1]
}

func addLimit(path, by string) Limit { return Limit{addGoal(path, "limit: "+by)} }

// RowsVar is the environment variable that names the file with the rows of all processes. It has no QUANTIX_ prefix,
// because the program refuses unknown QUANTIX_ variables.
const RowsVar = "BENCH_ROWS"

// Row is a benchmark's result for a goal or a limit.
type Row struct {
	Path, Ours, Verdict, Beside string
	Ratio                       float64 // our main figure divided by the main figure of the comparison
	At                          time.Time
}

// Record records a result, the comparison that was measured in the same run, and the ratio of their main figures. If a
// goal has several results, the last one counts.
func (g Goal) Record(b testing.TB, met bool, ours, beside string, ratio float64) {
	b.Helper()
	verdict := "met"
	if !met {
		verdict = "**missed**"
	}
	g.record(b, verdict, ours, beside, ratio)
}

// Record records a result without a verdict.
func (l Limit) Record(b testing.TB, ours, beside string, ratio float64) {
	b.Helper()
	l.row.record(b, "", ours, beside, ratio)
}

func (g Goal) record(b testing.TB, verdict, ours, beside string, ratio float64) {
	b.Helper()
	line, err := json.Marshal(Row{g.path, ours, verdict, beside, ratio, time.Now()})
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("%s: %s (%s; %s; reference %s, %.2f ×)", g.path, ours, g.goal, verdict, beside, ratio)
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
