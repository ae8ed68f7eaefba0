package hardware

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"quantix/internal/fleet"
)

// writeTree writes files below a new directory.
func writeTree(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

const (
	meminfo = "MemTotal: 1000 kB\nMemFree: 300 kB\nMemAvailable: 400 kB\nBuffers: 0 kB\nCached: 100 kB\nSwapTotal: 500 kB\nSwapFree: 450 kB\n"
	netHead = "Inter-|   Receive                                                |  Transmit\n face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n"
)

func TestSamplerMeasuresWhatTheKernelReports(t *testing.T) {
	root := t.TempDir()
	writeTree(t, root, map[string]string{
		"proc/meminfo": meminfo, "proc/loadavg": "1.50 1 1 1/100 1\n", "proc/vmstat": "", "proc/swaps": "",
		"proc/stat":                  "cpu  1000 0 500 8000 100 0 0 0 400 0\n",
		"proc/pressure/cpu":          "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\n",
		"proc/pressure/io":           "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
		"proc/diskstats":             "   8 0 sda 100 0 2000 50 10 0 800 40 0 0 0\n   8 1 sda1 100 0 2000 50 10 0 800 40 0 0 0\n",
		"sys/block/sda/device/model": "disk", "sys/class/net/eth0/device/vendor": "0x8086",
		"proc/net/dev":                         netHead + "  eth0: 1000 10 0 1 0 0 0 0 500 5 0 0 0 0 0 0\n virbr0: 9000 10 0 1 0 0 0 0 500 5 0 0 0 0 0 0\n",
		"sys/class/powercap/intel-rapl:0/name": "package-0\n", "sys/class/powercap/intel-rapl:0/energy_uj": "5000000\n",
		"sys/class/powercap/intel-rapl:0:0/name": "core\n", "sys/class/powercap/intel-rapl:0:0/energy_uj": "4000000\n",
		"sys/class/hwmon/hwmon0/name": "coretemp\n", "sys/class/hwmon/hwmon0/temp1_input": "51000\n", "sys/class/hwmon/hwmon0/temp1_label": "Package id 0\n",
		"sys/class/hwmon/hwmon0/temp2_input": "48000\n", "sys/class/hwmon/hwmon0/temp2_label": "Core 0\n",
		"sys/class/hwmon/hwmon1/name": "nvme\n", "sys/class/hwmon/hwmon1/temp1_input": "38850\n", "sys/class/hwmon/hwmon1/temp1_label": "Composite\n",
		"sys/class/hwmon/hwmon2/name": "drivetemp\n", "sys/class/hwmon/hwmon2/temp1_input": "41000\n",
		"sys/class/hwmon/hwmon3/name": "power_meter\n", "sys/class/hwmon/hwmon3/power1_average": "287000000\n",
	})
	noGPU := gpuReader{run: func(context.Context) ([]byte, error) { return nil, errors.New("not found") }}
	s := &Sampler{root: hostTree(root), gpus: noGPU}
	first, err := s.Sample(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, known := first.Metrics["cpu.user"]; known {
		t.Error("the first sample has a rate")
	}
	writeTree(t, root, map[string]string{
		"proc/stat":         "cpu  1400 0 600 8400 200 0 0 0 600 0\n", // 1,000 ticks: 200 user, 200 guest, 100 system, 100 iowait
		"proc/pressure/cpu": "some avg10=0.00 avg60=0.00 avg300=0.00 total=2000000\n",
		"proc/diskstats":    "   8 0 sda 110 0 4000 70 10 0 800 40 0 0 0\n   8 1 sda1 110 0 4000 70 10 0 800 40 0 0 0\n",
		"proc/net/dev":      netHead + "  eth0: 500 10 0 1 0 0 0 0 10500 5 0 0 0 0 0 0\n virbr0: 99000 10 0 1 0 0 0 0 500 5 0 0 0 0 0 0\n", // received bytes were reset
		"sys/class/powercap/intel-rapl:0/energy_uj": "305000000\n",
	})
	s.previous.at = time.Now().Add(-10 * time.Second)
	got, err := s.Sample(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{
		"cpu.user": 20, "cpu.guest": 20, "cpu.system": 10, "cpu.iowait": 10, "cpu.steal": 0, "load.1m": 1.5,
		"memory.used": 600 << 10, "memory.total": 1000 << 10, "pressure.cpu": 10, "pressure.io": 0,
		"disk.read": 2000 * 512 / 10, "disk.readOperations": 1, "disk.readLatency": 0.002, "disk.write": 0, "network.send": 1000,
		"temperature.cpu": 51, "power.cpu": 30, "temperature.disk": 41, "power.machine": 287,
	} {
		v, known := got.Metrics[name]
		if !known || float64(v) < want*0.99-1e-9 || float64(v) > want*1.01+1e-9 {
			t.Errorf("%s is %v (%v), want %v", name, v, known, want)
		}
	}
	for _, name := range []string{"network.receive", "pressure.memory", "disk.writeLatency", "gpu.usage", "power.gpu"} {
		if v, known := got.Metrics[name]; known {
			t.Errorf("%s is %v, want none", name, v)
		}
	}
	if got.CPUPercent < 49.9 || got.CPUPercent > 50.1 || got.MemoryUsed != 600<<10 {
		t.Errorf("the meter is %+v", got.HostMeter)
	}
}

// The output is that of nvidia-smi 550 on a host with two GPUs. The second one does not report its power.
func TestGPUsAreRead(t *testing.T) {
	root := t.TempDir()
	writeTree(t, root, map[string]string{
		"sys/class/drm/card0/device/gpu_busy_percent": "30\n", "sys/class/drm/card0/device/mem_info_vram_used": "1048576\n",
		"sys/class/drm/card0/device/hwmon/hwmon3/temp1_input": "70000\n", "sys/class/drm/card0/device/hwmon/hwmon3/power1_average": "90000000\n",
		"sys/class/drm/card0-DP-1/status": "connected\n", "sys/class/drm/card1/device/vendor": "0x1a03\n",
	})
	g := gpuReader{run: func(context.Context) ([]byte, error) {
		return []byte("35, 1024, 61, 74.30\n85, 2048, 65, [N/A]\n"), nil
	}}
	out := map[string]fleet.MetricValue{}
	g.addTo(t.Context(), hostTree(root), out)
	want := map[string]fleet.MetricValue{
		"gpu.usage": 50, "gpu.memoryUsed": 3073 << 20, "temperature.gpu": 70, "power.gpu": 164.3,
		"gpu.0.usage": 30, "gpu.0.memoryUsed": 1 << 20, "gpu.0.temperature": 70, "gpu.0.power": 90,
		"gpu.1.usage": 35, "gpu.1.memoryUsed": 1024 << 20, "gpu.1.temperature": 61, "gpu.1.power": 74.3,
		"gpu.2.usage": 85, "gpu.2.memoryUsed": 2048 << 20, "gpu.2.temperature": 65,
	}
	for name, v := range want {
		if got := out[name]; got < v-0.01 || got > v+0.01 {
			t.Errorf("%s is %v, want %v", name, got, v)
		}
	}
	if !out["gpu.2.power"].IsMissing() || len(out) != len(want)+1 {
		t.Errorf("%v", out)
	}
	for _, m := range fleet.HostMetrics {
		delete(out, m.Name)
	}
	if len(out) > 0 {
		t.Errorf("fleet.HostMetrics lacks %v", out)
	}
	one := map[string]fleet.MetricValue{}
	gpuReader{run: func(context.Context) ([]byte, error) { return []byte("35, 1024, 61, 74.30\n"), nil }}.addTo(t.Context(), hostTree(t.TempDir()), one)
	if len(one) != 4 {
		t.Errorf("the values of a single GPU are repeated: %v", one)
	}
	for _, text := range []string{"", "No devices were found\n", "1,2,3\n", "NaN, -1, , 5\n"} {
		for _, l := range parseNVIDIASMI([]byte(text)) {
			if !l.memory.IsMissing() && l.memory < 0 {
				t.Errorf("%q: %+v", text, l)
			}
		}
	}
}
