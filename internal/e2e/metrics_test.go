//go:build linux && ordeal

package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"quantix/internal/fleet"
)

// readMetric is a metric of the API's answer.
type readMetric struct {
	Name   string
	Points [][4]*float64
}

// vmMetrics returns the VM's metrics of a time, by name.
func (a api) vmMetrics(t *testing.T, id fleet.VMID, from, to time.Time) map[string]readMetric {
	t.Helper()
	return a.metricsOf(t, "/api/v1/vms/"+string(id), from, to)
}

// metricsOf returns the metrics of the object at an address, by name, in points of ten seconds.
func (a api) metricsOf(t *testing.T, object string, from, to time.Time) map[string]readMetric {
	t.Helper()
	q := url.Values{"from": {from.UTC().Format(time.RFC3339)}, "to": {to.UTC().Format(time.RFC3339)}, "step": {"10"}}
	out := map[string]readMetric{}
	for _, m := range requestJSON[struct{ Series []readMetric }](t, a, http.StatusOK, http.MethodGet, object+"/metrics?"+q.Encode(), nil).Series {
		out[m.Name] = m
	}
	return out
}

// mean returns the mean of the points with a value, and their number.
func (m readMetric) mean() (mean float64, n int) {
	for _, p := range m.Points {
		if p[1] != nil {
			mean, n = mean+*p[1], n+1
		}
	}
	return mean / float64(max(1, n)), n
}

// domainCounters returns the domain's CPU time in seconds and its written bytes.
func domainCounters(t *testing.T, h readyHost, name string) (cpu, written float64) {
	t.Helper()
	for line := range strings.Lines(virsh(t, h, "domstats", "--cpu-total", "--block", name)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		n, _ := strconv.ParseFloat(value, 64)
		switch {
		case key == "cpu.time":
			cpu = n / 1e9
		case strings.HasSuffix(key, ".wr.bytes"):
			written += n
		}
	}
	return cpu, written
}

// TestChartsShowLoadOfGuest lets a real guest use its CPU and write to a disk. The API and the page show the load soon, and
// it agrees with libvirt's own counters.
func TestChartsShowLoadOfGuest(t *testing.T) {
	t.Parallel()
	s := labProgram.get(t)
	a := s.api()
	name := uniqueName("busy")
	shared := a.poolByName(t, "shared").ID
	vm := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"name": name, "projectId": a.projectByName(t, "lab").ID, "hostId": a.hostByName(t, "host-1").ID, "start": true,
		"spec": map[string]any{"cpus": 1, "memoryMiB": 256, "disks": []any{
			map[string]any{"poolId": shared, "image": map[string]any{"poolId": shared, "volume": "tiny-guest.qcow2"}},
			map[string]any{"poolId": shared, "sizeBytes": 64 << 20},
		}},
	})
	a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseRunning)
	waitBooted(t, s.Hosts[0], name)
	command, err := json.Marshal(map[string]any{"execute": "guest-exec", "arguments": map[string]any{
		"path": "/bin/sh", "arg": []string{"-c", "while :; do dd if=/dev/zero of=/dev/vdb bs=64k count=512 conv=fsync; done"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	virsh(t, s.Hosts[0], "qemu-agent-command", name, string(command))
	began := time.Now()
	eventually(t, stepLimit, "the load in the metrics", func() (bool, string) {
		m := a.vmMetrics(t, vm.ID, began.Add(-10*time.Second), time.Now())
		cpu, _ := m["cpu.usage"].mean()
		written, _ := m["disk.write"].mean()
		return cpu > 10 && written > 100_000, fmt.Sprintf("CPU %.0f %%, writes %.0f bytes/s", cpu, written)
	})
	t.Logf("the load was visible after %.0f s", time.Since(began).Seconds())

	// The minute begins and ends with points of the API.
	from := time.Now().Truncate(10 * time.Second).Add(10 * time.Second)
	eventually(t, stepLimit, "the next ten seconds", func() (bool, string) { return !time.Now().Before(from), "" })
	cpu0, written0 := domainCounters(t, s.Hosts[0], name)
	to := from.Add(time.Minute)
	eventually(t, stepLimit+time.Minute, "a minute of load", func() (bool, string) { return !time.Now().Before(to), "" })
	cpu1, written1 := domainCounters(t, s.Hosts[0], name)
	seconds := time.Since(from).Seconds()
	var m map[string]readMetric
	eventually(t, stepLimit, "the minute's last sample", func() (bool, string) {
		m = a.vmMetrics(t, vm.ID, from, to)
		_, n := m["cpu.usage"].mean()
		return n >= 6, fmt.Sprintf("%d points", n)
	})
	for metric, want := range map[string]float64{"cpu.usage": 100 * (cpu1 - cpu0) / seconds, "disk.write": (written1 - written0) / seconds} {
		got, _ := m[metric].mean()
		off := math.Abs(got-want) / want
		t.Logf("%s: %.4g by the API, %.4g by virsh domstats, %.1f %% off", metric, got, want, 100*off)
		if off > 0.1 { // the load differs within the samples at both ends of the minute
			t.Errorf("%s is %v, but %v by virsh domstats", metric, got, want)
		}
	}

	p := newTab(t, s.URL)
	p.signIn(s)
	p.open("/vms/" + string(vm.ID) + "?tab=monitor")
	p.waitText(".chart-grid", "Disk throughput")
	p.waitText("[data-chart-state]", "Live")
	p.click(".chart summary", "Values")
	p.waitText(".chart-table", "%")
	p.click("[data-chart-range]", "Day")
	p.waitTrue("the range in the address", `location.search.includes("range=1d")`)
	p.waitText(".chart-grid", "Disk throughput")
}

// TestStoppedAgentLeavesGapInCharts stops a real agent for longer than a host stays online. The charts of the host and of
// its VM have no values of that time, and go on afterwards.
func TestStoppedAgentLeavesGapInCharts(t *testing.T) {
	t.Parallel()
	r := newRigWithoutHost(t, "gap", 29)
	r.joinHost()
	a := r.api()
	host := a.hostByName(t, r.name)
	project := requestJSON[fleet.Project](t, a, http.StatusCreated, http.MethodPost, "/api/v1/projects", map[string]any{"name": "gap"})
	vm := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"name": uniqueName("gap"), "projectId": project.ID, "hostId": host.ID, "start": true, "spec": map[string]any{"cpus": 1, "memoryMiB": 128},
	})
	a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseRunning)
	began := time.Now().Add(-10 * time.Second)
	charts := map[string]string{"/api/v1/vms/" + string(vm.ID): "cpu.usage", "/api/v1/hosts/" + string(host.ID): "memory.used"}
	waitValues := func(what string, since time.Time, n int) {
		t.Helper()
		for chart, name := range charts {
			eventually(t, stepLimit, what+" of "+chart, func() (bool, string) {
				_, got := a.metricsOf(t, chart, since, time.Now())[name].mean()
				return got >= n, fmt.Sprintf("%d points", got)
			})
		}
	}
	waitValues("the first values", began, 2)

	pid := labAgentPID(t, r.dir+"/h")
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	stopped := time.Now().Add(time.Second) // a report may be on its way
	r.waitHost(time.Minute, fleet.HostUnknown)
	eventually(t, time.Minute, "45 seconds without the agent", func() (bool, string) { return time.Since(stopped) > 45*time.Second, "" })
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	continued := time.Now()
	r.waitHost(stepLimit, fleet.HostOnline)
	waitValues("the values after the gap", continued.Add(-10*time.Second), 4)

	for chart, name := range charts {
		gap := 0
		for _, p := range a.metricsOf(t, chart, began, time.Now())[name].Points {
			start := time.Unix(int64(*p[0]), 0)
			if end := start.Add(10 * time.Second); start.Before(stopped) || end.After(continued.Add(-10*time.Second)) {
				continue // the first sample after the gap counts for ten seconds
			}
			if gap++; p[1] != nil || p[2] != nil || p[3] != nil {
				t.Errorf("%s %s: %v at %v, while the agent was stopped", chart, name, *p[1], start)
			}
		}
		if t.Logf("%s: a gap of %d points", name, gap); gap < 2 {
			t.Errorf("%s has %d points of the time without the agent", chart, gap)
		}
	}
}
