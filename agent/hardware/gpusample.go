package hardware

import (
	"bytes"
	"context"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"quantix/internal/fleet"
)

// gpuReader reads the load of GPUs: from nvidia-smi if the host has it, and from sysfs for the amdgpu driver, or the
// temperature and the power of the i915 and xe drivers.
type gpuReader struct {
	run func(ctx context.Context) ([]byte, error) // runs nvidia-smi
}

// nvidiaSMITimeout is how long nvidia-smi may take. It can hang while a GPU has an error.
const nvidiaSMITimeout = 3 * time.Second

// runNVIDIASMI returns nvidia-smi's output: a line per GPU.
func runNVIDIASMI(ctx context.Context) ([]byte, error) {
	path, err := exec.LookPath("nvidia-smi")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, nvidiaSMITimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--query-gpu=utilization.gpu,memory.used,temperature.gpu,power.draw", "--format=csv,noheader,nounits")
	cmd.WaitDelay = time.Second
	return cmd.Output()
}

// gpuLoad is the load of one GPU. A missing value is one that the driver does not report.
type gpuLoad struct{ usage, memory, temperature, power fleet.MetricValue }

func (l gpuLoad) isEmpty() bool {
	return l.usage.IsMissing() && l.memory.IsMissing() && l.temperature.IsMissing() && l.power.IsMissing()
}

// addTo adds the mean use, the sum of memory and power, and the highest temperature of all GPUs, and if there are several
// the values of each one.
func (g gpuReader) addTo(ctx context.Context, root hostTree, out map[string]fleet.MetricValue) {
	all := g.sysfs(root)
	if text, err := g.run(ctx); err == nil {
		all = append(all, parseNVIDIASMI(text)...)
	}
	all = slices.DeleteFunc(all, gpuLoad.isEmpty) // of another driver, or read from nvidia-smi
	used := 0
	for _, l := range all {
		if !l.usage.IsMissing() {
			out["gpu.usage"] += l.usage
			used++
		}
		if !l.memory.IsMissing() {
			out["gpu.memoryUsed"] += l.memory
		}
		if !l.power.IsMissing() {
			out["power.gpu"] += l.power
		}
		if !l.temperature.IsMissing() {
			out["temperature.gpu"] = max(out["temperature.gpu"], l.temperature)
		}
	}
	if used > 0 {
		out["gpu.usage"] /= fleet.MetricValue(used)
	}
	if len(all) < 2 {
		return
	}
	for i, l := range all[:min(len(all), fleet.MaxGPUs)] {
		of := "gpu." + strconv.Itoa(i)
		out[of+".usage"], out[of+".memoryUsed"], out[of+".temperature"], out[of+".power"] = l.usage, l.memory, l.temperature, l.power
	}
}

// parseNVIDIASMI parses lines such as "35, 1024, 61, 74.30". nvidia-smi writes "[N/A]" for an unsupported value.
func parseNVIDIASMI(text []byte) (out []gpuLoad) {
	for line := range bytes.Lines(text) {
		fields := strings.Split(strings.TrimSpace(string(line)), ",")
		if len(fields) != 4 {
			continue
		}
		var v [4]fleet.MetricValue
		for i, f := range fields {
			n, err := strconv.ParseFloat(strings.TrimSpace(f), 64)
			if v[i] = fleet.MetricValue(n); err != nil || n < 0 {
				v[i] = fleet.NoMetricValue()
			}
		}
		out = append(out, gpuLoad{v[0], v[1] * (1 << 20), v[2], v[3]})
	}
	return out
}

// sysfs reads the GPUs of drivers with files in sysfs.
func (g gpuReader) sysfs(root hostTree) (out []gpuLoad) {
	const cards = "sys/class/drm"
	for _, card := range root.listDir(cards) {
		if _, err := strconv.Atoi(strings.TrimPrefix(card, "card")); err != nil {
			continue // a connector, such as card0-DP-1
		}
		read := func(scale float64, rel ...string) fleet.MetricValue {
			n, err := strconv.ParseFloat(root.readLine(append([]string{cards, card, "device"}, rel...)...), 64)
			if err != nil {
				return fleet.NoMetricValue()
			}
			return fleet.MetricValue(n * scale)
		}
		l := gpuLoad{read(1, "gpu_busy_percent"), read(1, "mem_info_vram_used"), fleet.NoMetricValue(), fleet.NoMetricValue()}
		for _, monitor := range root.listDir(cards, card, "device/hwmon") {
			l.temperature = read(1e-3, "hwmon", monitor, "temp1_input")
			if l.power = read(1e-6, "hwmon", monitor, "power1_average"); l.power.IsMissing() {
				l.power = read(1e-6, "hwmon", monitor, "power1_input")
			}
		}
		out = append(out, l)
	}
	return out
}
