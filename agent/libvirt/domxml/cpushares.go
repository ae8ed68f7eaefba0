package domxml

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// DefaultShares is the CPU weight of a guest without configured shares. It is read once, because it changes only with
// the cgroup version.
var DefaultShares = sync.OnceValue(func() uint64 { return defaultCPUSharesAt("/sys/fs/cgroup") })

// defaultCPUSharesAt reads the default weight from the cgroup directory of the host. With the CPU controller of cgroup v2
// the kernel's default cpu.weight is 100; otherwise the default cpu.shares is 1024. libvirt passes a domain's shares
// to either without conversion.
func defaultCPUSharesAt(cgroups string) uint64 {
	controllers, err := os.ReadFile(filepath.Join(cgroups, "cgroup.controllers"))
	if err == nil && slices.Contains(strings.Fields(string(controllers)), "cpu") {
		return 100
	}
	return 1024
}

// isSameCPUShares reports whether two specs give a guest the same CPU weight. No shares equal DefaultShares, because a
// running guest that was reset to the default has the default as an explicit value.
func isSameCPUShares(a, b fleet.VMSpec, defaultShares uint64) bool {
	return cmp.Or(a.CPU.Shares, int(defaultShares)) == cmp.Or(b.CPU.Shares, int(defaultShares)) //nolint:gosec // 100 or 1024
}

// CPUSchedule holds the scheduler settings of a domain's vCPUs. A domain without settings has the host's default.
type CPUSchedule struct {
	Shares, Period uint64
	Quota          int64 // -1: no limit
}

// CPUScheduleOf returns the scheduler settings of the domain.
func CPUScheduleOf(x *libvirtxml.Domain, defaultShares uint64) CPUSchedule {
	t := CopyOrZero(x.CPUTune)
	out := CPUSchedule{defaultShares, cpuPeriodMicroseconds, -1}
	if t.Shares != nil {
		out.Shares = uint64(t.Shares.Value)
	}
	if t.Period != nil && t.Quota != nil && t.Quota.Value > 0 {
		out.Period, out.Quota = t.Period.Value, t.Quota.Value
	}
	return out
}
