package libvirt

import (
	"strings"
	"testing"

	"quantix/agent/libvirt/domxml"
)

// A host reports the VM fields that its libvirt and QEMU do not support.
func TestUnsupportedMachinesAndBusesReportedAsGaps(t *testing.T) {
	t.Parallel()
	both := []domxml.AcceleratorKind{{Machines: []string{"q35", "pc"}}}
	for name, c := range map[string]struct {
		caps capabilities
		want string
	}{
		"libvirt 9.0":  {capabilities{version: 9_000_000, accelerators: both, spice: true}, "devices.watchdog=itco disks.bus=nvme"},
		"libvirt 11.4": {capabilities{version: 11_004_000, accelerators: both, spice: true}, "disks.bus=nvme"},
		"libvirt 11.5": {capabilities{version: 11_005_000, accelerators: both, spice: true}, ""},
		"no pc":        {capabilities{version: 12_000_000, accelerators: []domxml.AcceleratorKind{{Machines: []string{"q35"}}}, spice: true}, "boot.machine=pc"},
	} {
		var got []string
		for _, g := range c.caps.vmGaps() {
			if g.Why == "" {
				t.Errorf("%s: no gap for %s", name, g.Field)
			}
			got = append(got, g.Field+"="+g.Value)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: the gaps are %q, want %q", name, got, c.want)
		}
	}
}
