package domxml

import (
	"os"
	"path/filepath"
	"testing"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

func TestDefaultCPUSharesDependOnCgroupVersion(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		controllers string // of cgroup v2; empty: no cgroup v2
		want        uint64
	}{
		"cgroup v2":                  {"cpuset cpu io memory hugetlb pids rdma misc", 100},
		"cgroup v1":                  {"", 1024},
		"both, CPU controller in v1": {"hugetlb\n", 1024},
		"both, v1 controllers with cpu in their names": {"cpuset cpuacct", 1024},
	} {
		dir := t.TempDir()
		if c.controllers != "" {
			if err := os.WriteFile(filepath.Join(dir, "cgroup.controllers"), []byte(c.controllers), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		usual := defaultCPUSharesAt(dir)
		if usual != c.want {
			t.Errorf("%s: %d, want %d", name, usual, c.want)
		}
		// Removed shares become the default, and the guest then needs no restart.
		kept, live := &libvirtxml.Domain{}, &libvirtxml.Domain{CPUTune: &libvirtxml.DomainCPUTune{Shares: &libvirtxml.DomainCPUTuneShares{Value: 512}}}
		if want, has := CPUScheduleOf(kept, usual), CPUScheduleOf(live, usual); want.Shares != c.want || has.Shares != 512 {
			t.Errorf("%s: shares of %d become %d", name, has.Shares, want.Shares)
		}
		given := fleet.VMSpec{CPU: fleet.VMCPU{Shares: int(usual)}} //nolint:gosec // 100 or 1024
		if !isSameCPUShares(given, fleet.VMSpec{}, usual) {
			t.Errorf("%s: a guest reset to the default needs a restart", name)
		}
		if given.CPU.Shares *= 2; isSameCPUShares(given, fleet.VMSpec{}, usual) {
			t.Errorf("%s: twice the default counts as equal", name)
		}
	}
}
