package hardware

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/shirou/gopsutil/v4/common"
	"github.com/shirou/gopsutil/v4/host"

	"quantix/internal/fleet"
)

// hostTree is the directory that contains /sys, /proc and /etc.
type hostTree string

// withPaths returns a context with which gopsutil reads files below the tree.
func (t hostTree) withPaths(ctx context.Context) context.Context {
	if t == "/" {
		return ctx
	}
	return context.WithValue(ctx, common.EnvKey, common.EnvMap{
		common.HostProcEnvKey: t.path("proc"), common.HostSysEnvKey: t.path("sys"), common.HostEtcEnvKey: t.path("etc"),
		common.HostRootEnvKey: string(t), common.HostRunEnvKey: t.path("run"), common.HostVarEnvKey: t.path("var"),
	})
}

func (t hostTree) path(rel ...string) string {
	return filepath.Join(append([]string{string(t)}, rel...)...)
}

// readLine returns a file's content as one line; empty if the file does not exist.
func (t hostTree) readLine(rel ...string) string {
	data, err := os.ReadFile(t.path(rel...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// readNumber parses a file's content as an integer. It returns 0 if the file does not exist.
func (t hostTree) readNumber(rel ...string) int64 {
	n, _ := strconv.ParseInt(t.readLine(rel...), 10, 64)
	return n
}

func (t hostTree) exists(rel ...string) bool {
	_, err := os.Stat(t.path(rel...))
	return err == nil
}

// listDir returns a directory's entries, sorted; none if the directory does not exist.
func (t hostTree) listDir(rel ...string) []string {
	entries, err := os.ReadDir(t.path(rel...))
	if err != nil {
		return nil
	}
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = e.Name()
	}
	return out
}

// linkTargetName returns the last element of a symbolic link's target, such as a driver or a device.
func (t hostTree) linkTargetName(rel ...string) string {
	to, err := os.Readlink(t.path(rel...))
	if err != nil {
		return ""
	}
	return filepath.Base(to)
}

// osName returns the operating system's name and version: "Debian GNU/Linux 12".
func (t hostTree) osName(ctx context.Context) string {
	field := map[string]string{}
	for line := range strings.Lines(t.readLine("etc/os-release")) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			field[k] = strings.Trim(v, `"`)
		}
	}
	if field["NAME"] != "" {
		return strings.TrimSpace(field["NAME"] + " " + field["VERSION_ID"])
	}
	// Systems without /etc/os-release report name and version in their own ways; unknown values stay empty.
	platform, _, version, _ := host.PlatformInformationWithContext(ctx)
	return strings.TrimSpace(platform + " " + version)
}

// vendorAndProduct returns the machine's vendor and product, without placeholders of unconfigured boards.
func (t hostTree) vendorAndProduct() string {
	var out []string
	for _, f := range []string{"sys_vendor", "product_name"} {
		v := t.readLine("sys/class/dmi/id", f)
		if v != "" && !strings.Contains(v, "To Be Filled") && !strings.Contains(v, "Default string") {
			out = append(out, v)
		}
	}
	return strings.Join(out, " ")
}

func (t hostTree) hugePages() (out []fleet.HugePages) {
	const dir = "sys/kernel/mm/hugepages"
	for _, name := range t.listDir(dir) {
		size, ok := strings.CutPrefix(name, "hugepages-")
		kib, err := strconv.ParseInt(strings.TrimSuffix(size, "kB"), 10, 64)
		if ok && err == nil {
			out = append(out, fleet.HugePages{SizeKiB: kib, Total: t.readNumber(dir, name, "nr_hugepages"), Free: t.readNumber(dir, name, "free_hugepages")})
		}
	}
	return out
}

func (t hostTree) numaNodes() (out []fleet.NUMANode) {
	const dir = "sys/devices/system/node"
	for _, name := range t.listDir(dir) {
		id, err := strconv.Atoi(strings.TrimPrefix(name, "node"))
		if !strings.HasPrefix(name, "node") || err != nil {
			continue
		}
		node := fleet.NUMANode{ID: id, Threads: parseCPURanges(t.readLine(dir, name, "cpulist"))}
		for line := range strings.Lines(t.readLine(dir, name, "meminfo")) {
			f := strings.Fields(line) // Node 0 MemTotal: 16384 kB
			if len(f) >= 4 && f[2] == "MemTotal:" {
				kib, _ := strconv.ParseInt(f[3], 10, 64) // the kernel writes a number there
				node.MemoryBytes = kib << 10
			}
		}
		out = append(out, node)
	}
	return out
}

// parseCPURanges parses the kernel's list format: "0-3,8".
func parseCPURanges(s string) []int {
	out := []int{}
	for part := range strings.SplitSeq(s, ",") {
		from, to, isRange := strings.Cut(part, "-")
		a, err := strconv.Atoi(from)
		if err != nil {
			continue
		}
		b := a
		if isRange {
			if b, err = strconv.Atoi(to); err != nil {
				continue
			}
		}
		for n := a; n <= b && n < 1<<16; n++ {
			out = append(out, n)
		}
	}
	return out
}
