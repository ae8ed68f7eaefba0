package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// recordedHost is what a host with two VMs measured.
func recordedHost() HostMeasurements {
	load := fleet.HostLoad{
		Metrics: map[string]fleet.MetricValue{
			"load.1m": 0.5, "memory.used": 1 << 30, "memory.total": 4 << 30, "memory.swapUsed": 0, "temperature.cpu": 55, "temperature.gpu": 60, "power.gpu": 70, "gpu.usage": 25, "gpu.memoryUsed": 1 << 20,
			"cpu.user": 10,
		},
		Counters: map[string]float64{
			"cpu.user": 100, "cpu.system": 50, "cpu.guest": 200, "cpu.iowait": 5, "cpu.steal": 1, "cpu.total": 1000, "pressure.cpu": 1.5, "pressure.memory": 0, "pressure.io": 2,
			"disk.read": 1e6, "disk.write": 2e6, "disk.readOperations": 10, "disk.writeOperations": 20, "disk.readTime": 0.1, "disk.writeTime": 0.2,
			"network.receive": 3e6, "network.send": 4e6, "network.drops": 2, "power.cpu": 12345.5,
		},
	}
	vms := []hypervisor.VMLoad{
		{
			Meter: wire.Meter{ID: "v1", CPUNanos: 5_500_000_000, MemoryBytes: 1 << 28}, Run: 7, VCPUs: 2, StealNanos: 100_000_000, AssignedBytes: 1 << 29, GuestUsedBytes: 1 << 27,
			Disks: []hypervisor.DiskLoad{{Name: "vda", ReadBytes: 1000, WriteBytes: 500, Reads: 10, Writes: 5, ReadNanos: 7e6, WriteNanos: 9e6}, {Name: "vdb", ReadBytes: 1}},
			NICs:  []hypervisor.NICLoad{{Index: 0, ReceiveBytes: 70, SendBytes: 60, ReceivePackets: 9, SendPackets: 8, ReceiveDrops: 2, SendDrops: 1}},
		},
		{Meter: wire.Meter{ID: "v2"}, VCPUs: 1, GuestUsedBytes: -1},
	}
	return HostMeasurements{
		Host:  "h1",
		Load:  func(context.Context) (fleet.HostLoad, error) { return load, nil },
		Meter: func(context.Context) ([]hypervisor.VMLoad, error) { return vms, nil },
	}
}

// scrape returns the families of an agent's /metrics. They follow the conventions of Prometheus.
func scrape(t *testing.T, from HostMeasurements, names map[fleet.VMID]string) map[string]*dto.MetricFamily {
	t.Helper()
	m := NewMetrics("test")
	m.ExposeHost(from)
	m.setVMNames(names)
	m.recordJob(fleet.VMApply, wire.Done, 0)
	m.recordReport(wire.Report{})
	m.failures.WithLabelValues("report").Inc()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	text := w.Body.Bytes()
	if len(text) < 1<<20 { // promlint compares each pair of lines
		problems, err := promlint.New(bytes.NewReader(text)).Lint()
		if err != nil || len(problems) > 0 {
			t.Errorf("promlint: %v, %v", problems, err)
		}
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// seriesOf returns the value of the line with these labels, written as "name=value".
func seriesOf(f *dto.MetricFamily, labels ...string) (float64, bool) {
	for _, m := range f.GetMetric() {
		have := map[string]bool{}
		for _, l := range m.GetLabel() {
			have[l.GetName()+"="+l.GetValue()] = true
		}
		all := true
		for _, l := range labels {
			all = all && have[l]
		}
		if all {
			return m.GetCounter().GetValue() + m.GetGauge().GetValue(), true
		}
	}
	return 0, false
}

func TestAgentExposesHostAndVMs(t *testing.T) {
	t.Parallel()
	all := scrape(t, recordedHost(), map[fleet.VMID]string{"v1": "web"})
	for _, want := range []struct {
		name   string
		labels []string
		value  float64
	}{
		{"quantix_vm_cpu_seconds_total", []string{"vm=v1", "name=web", "host=h1"}, 5.5},
		{"quantix_vm_cpu_steal_seconds_total", []string{"vm=v1"}, 0.1},
		{"quantix_vm_memory_assigned_bytes", []string{"vm=v1"}, 1 << 29},
		{"quantix_vm_disk_read_bytes_total", []string{"vm=v1", "disk=vda"}, 1000},
		{"quantix_vm_disk_read_bytes_total", []string{"vm=v1", "disk=vdb"}, 1},
		{"quantix_vm_disk_write_time_seconds_total", []string{"vm=v1", "disk=vda"}, 0.009},
		{"quantix_vm_network_receive_bytes_total", []string{"vm=v1", "nic=0"}, 70},
		{"quantix_host_cpu_seconds_total", []string{"host=h1", "mode=guest"}, 200},
		{"quantix_host_cpu_seconds_total", []string{"host=h1", "mode=idle"}, 644},
		{"quantix_host_gpu_usage_ratio", []string{"host=h1"}, 0.25},
		{"quantix_host_energy_joules_total", []string{"component=cpu"}, 12345.5},
		{"quantix_agent_measurement_success", []string{"of=vms"}, 1},
	} {
		if got, ok := seriesOf(all[want.name], want.labels...); !ok || got != want.value {
			t.Errorf("%s%v is %v (%v), want %v", want.name, want.labels, got, ok, want.value)
		}
	}
	if _, ok := seriesOf(all["quantix_vm_memory_guest_used_bytes"], "vm=v2"); ok {
		t.Error("a guest without a balloon driver has a value")
	}
	for name, f := range all {
		if strings.HasSuffix(name, "_total") != (f.GetType() == dto.MetricType_COUNTER) && strings.HasPrefix(name, "quantix_") {
			t.Errorf("%s is a %s", name, f.GetType())
		}
	}
}

func TestManualListsMetricsOfAgent(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../static/docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range scrape(t, recordedHost(), nil) {
		if strings.HasPrefix(name, "quantix_") && !bytes.Contains(text, []byte("`"+name+"`")) {
			t.Errorf("monitoring.md does not list %s", name)
		}
	}
}

// A hypervisor that does not answer has no values, instead of the last ones.
func TestAgentWithoutHypervisorHasNoVMValues(t *testing.T) {
	t.Parallel()
	from := recordedHost()
	from.Meter = func(context.Context) ([]hypervisor.VMLoad, error) { return nil, errors.New("libvirt does not answer") }
	all := scrape(t, from, nil)
	for name := range all {
		if strings.HasPrefix(name, "quantix_vm_") {
			t.Errorf("%s has values", name)
		}
	}
	if v, ok := seriesOf(all["quantix_agent_measurement_success"], "of=vms"); !ok || v != 0 {
		t.Errorf("quantix_agent_measurement_success is %v", v)
	}
	if _, ok := seriesOf(all["quantix_host_memory_used_bytes"], "host=h1"); !ok {
		t.Error("the host has no values")
	}
}

// Names on a host may be anything, and a hypervisor may list an object twice. The response stays valid and bounded.
func TestOddObjectsOfAgentStayBounded(t *testing.T) {
	t.Parallel()
	names := map[fleet.VMID]string{"v0": "quo\"te\n\\ \xff", "v1": strings.Repeat("x", 10_000)}
	var vms []hypervisor.VMLoad
	for i := range maxExposedVMs + 10 {
		vms = append(vms, hypervisor.VMLoad{Meter: wire.Meter{ID: fleet.VMID(fmt.Sprintf("v%d", i))}})
	}
	for i := range 200 {
		vms[0].Disks = append(vms[0].Disks, hypervisor.DiskLoad{Name: fmt.Sprintf("disk-%d", i)}, hypervisor.DiskLoad{Name: "disk-0"}, hypervisor.DiskLoad{})
		vms[0].NICs = append(vms[0].NICs, hypervisor.NICLoad{Index: i}, hypervisor.NICLoad{})
	}
	vms = append([]hypervisor.VMLoad{vms[0]}, vms...)
	from := recordedHost()
	from.Meter = func(context.Context) ([]hypervisor.VMLoad, error) { return vms, nil }
	all := scrape(t, from, names)
	if n := len(all["quantix_vm_cpu_seconds_total"].GetMetric()); n != maxExposedVMs {
		t.Errorf("%d VMs", n)
	}
	if n, of := len(all["quantix_vm_disk_reads_total"].GetMetric()), len(all["quantix_vm_network_receive_bytes_total"].GetMetric()); n != maxExposedParts || of != maxExposedParts {
		t.Errorf("%d disks and %d NICs", n, of)
	}
	if _, ok := seriesOf(all["quantix_vm_cpu_seconds_total"], "vm=v0", "name=quo\"te\n\\ \uFFFD"); !ok {
		t.Error("the odd name is missing")
	}
	for _, m := range all["quantix_vm_cpu_seconds_total"].GetMetric() {
		for _, l := range m.GetLabel() {
			if len(l.GetValue()) > 256 {
				t.Fatalf("a label has %d bytes", len(l.GetValue()))
			}
		}
	}
}

func TestConcurrentScrapesShareOneMeasurement(t *testing.T) {
	t.Parallel()
	from, calls := recordedHost(), 0
	meter := from.Meter
	from.Meter = func(ctx context.Context) ([]hypervisor.VMLoad, error) { calls++; return meter(ctx) }
	m := NewMetrics("test")
	m.ExposeHost(from)
	for range 3 {
		if _, err := m.registry.Gather(); err != nil {
			t.Fatal(err)
		}
	}
	if calls != 1 {
		t.Errorf("%d measurements", calls)
	}
}
