package libvirt

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// defaultShares is the CPU weight of a guest without configured shares. It is read once, because it changes only with
// the cgroup version.
var defaultShares = sync.OnceValue(func() uint64 { return defaultSharesAt("/sys/fs/cgroup") })

// defaultSharesAt reads the default weight from the cgroup directory of the host. With the CPU controller of cgroup v2
// the kernel's default cpu.weight is 100; otherwise the default cpu.shares is 1024. libvirt passes a domain's shares
// to either without conversion.
func defaultSharesAt(cgroups string) uint64 {
	controllers, err := os.ReadFile(filepath.Join(cgroups, "cgroup.controllers"))
	if err == nil && slices.Contains(strings.Fields(string(controllers)), "cpu") {
		return 100
	}
	return 1024
}

// isSameCPUShares reports whether two specs give a guest the same CPU weight. No shares equal defaultShares, because a
// running guest that was reset to the default has the default as an explicit value.
func isSameCPUShares(a, b fleet.VMSpec, defaultShares uint64) bool {
	return cmp.Or(a.CPU.Shares, int(defaultShares)) == cmp.Or(b.CPU.Shares, int(defaultShares)) //nolint:gosec // 100 or 1024
}

// cpuSchedule holds the scheduler settings of a domain's vCPUs. A domain without settings has the host's default.
type cpuSchedule struct {
	shares, period uint64
	quota          int64 // -1: no limit
}

func cpuScheduleOf(x *libvirtxml.Domain, defaultShares uint64) cpuSchedule {
	t := copyOrZero(x.CPUTune)
	out := cpuSchedule{defaultShares, cpuPeriodMicroseconds, -1}
	if t.Shares != nil {
		out.shares = uint64(t.Shares.Value)
	}
	if t.Period != nil && t.Quota != nil && t.Quota.Value > 0 {
		out.period, out.quota = t.Period.Value, t.Quota.Value
	}
	return out
}

// applyCPUSchedule applies the definition's shares and limit to the running guest. It sets only values that differ,
// because a host without the CPU controller of cgroups refuses every such call.
func (a *applyRun) applyCPUSchedule(ctx context.Context, ref golibvirt.Domain, kept, live *libvirtxml.Domain) error {
	want, has := cpuScheduleOf(kept, defaultShares()), cpuScheduleOf(live, defaultShares())
	var set []golibvirt.TypedParam
	if want.shares != has.shares {
		set = append(set, golibvirt.TypedParam{Field: golibvirt.DomainSchedulerCPUShares, Value: *golibvirt.NewTypedParamValueUllong(want.shares)})
	}
	if want.period != has.period || want.quota != has.quota {
		set = append(set,
			golibvirt.TypedParam{Field: golibvirt.DomainSchedulerVCPUPeriod, Value: *golibvirt.NewTypedParamValueUllong(want.period)},
			golibvirt.TypedParam{Field: golibvirt.DomainSchedulerVCPUQuota, Value: *golibvirt.NewTypedParamValueLlong(want.quota)})
	}
	if len(set) == 0 {
		return nil
	}
	return a.c.do(ctx, func(l *golibvirt.Libvirt) error {
		return l.DomainSetSchedulerParametersFlags(ref, set, uint32(golibvirt.DomainAffectLive))
	})
}
