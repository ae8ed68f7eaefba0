package migration

import (
	"testing"

	golibvirt "github.com/digitalocean/go-libvirt"
)

func TestProgressCountsDisksAndMemory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stats   map[string]int64
		percent int
		note    string
	}{
		{nil, 0, "beginning the transfer"},
		{map[string]int64{golibvirt.DomainJobDiskTotal: 8 << 20, golibvirt.DomainJobDiskRemaining: 2 << 20, golibvirt.DomainJobDiskBps: 1 << 20}, 75, "disks: 2 MiB left of 8 MiB, 1 MiB/s"},
		{map[string]int64{golibvirt.DomainJobMemoryTotal: 4 << 20, golibvirt.DomainJobDiskTotal: 4 << 20}, 99, "disks: 0 B left of 4 MiB, memory: 0 B left of 4 MiB"},
		{map[string]int64{
			golibvirt.DomainJobMemoryTotal: 4 << 20, golibvirt.DomainJobMemoryRemaining: 3 << 20, golibvirt.DomainJobMemoryDirtyRate: 256, golibvirt.DomainJobMemoryPageSize: 4096,
			golibvirt.DomainJobDowntime: 300, golibvirt.DomainJobAutoConvergeThrottle: 20,
		}, 25, "memory: 3 MiB left of 4 MiB, the guest changes 1 MiB/s, the guest is slowed down by 20 %, expected pause 300 ms"},
	} {
		if percent, note := Progress(c.stats); percent != c.percent || note != c.note {
			t.Errorf("the progress of %v is %d %%, %q; want %d %%, %q", c.stats, percent, note, c.percent, c.note)
		}
	}
}
