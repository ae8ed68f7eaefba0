//go:build linux && ordeal

package libvirt_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"quantix/internal/fleet"
)

// tcShim replaces tc where the kernel lacks traffic control. Its calls succeed, so the test can check that libvirt
// accepts the bandwidth.
const tcShim = `#!/bin/sh
exit 0
`

// If the kernel cannot enforce a port group's bandwidth, the start fails with libvirt's error. If it can, a running
// guest gets a changed bandwidth immediately.
func TestPortGroupBandwidthAppliesToRunningNICs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	n := newTestNetwork(t, f)
	set := func(to, from *fleet.Rate) error {
		spec := *n.Spec
		spec.PortGroups = []fleet.PortGroup{{Name: "slow", ToGuest: to, FromGuest: from}}
		n.Spec = &spec
		n.Generation++
		return f.ApplyNetwork(t.Context(), n)
	}
	f.requireNoError(set(&fleet.Rate{AverageKiB: 1000, PeakKiB: 2000, BurstKiB: 500}, nil))
	wantContains(t, "the definition", virsh(t, "net-dumpxml", n.Name, "--inactive"), "<portgroup name='slow'>", "<inbound average='1000' peak='2000' burst='500'/>")
	vm := f.newVM()
	vm.Spec.NICs = []fleet.NIC{{Network: n.Name, PortGroup: "slow", MAC: "52:54:00:0e:00:01"}}
	f.apply(vm)
	if err := f.StartVM(t.Context(), vm.ID); err == nil {
		t.Log("this kernel supports bandwidth limits")
		f.requireNoError(f.StopVM(t.Context(), vm.ID))
	} else if !strings.Contains(err.Error(), "tc") && !strings.Contains(err.Error(), "bandwidth") {
		t.Errorf("start on a kernel without bandwidth limits: %v", err)
	}
	file := filepath.Join(t.TempDir(), "tc")
	if err := os.WriteFile(file, []byte(tcShim), 0o755); err != nil {
		t.Fatal(err)
	}
	tc := strings.TrimSpace(run(t, "sh", "-c", "readlink -f $(command -v tc)"))
	run(t, "mount", "--bind", file, tc)
	t.Cleanup(func() {
		if err := syscall.Unmount(tc, 0); err != nil {
			t.Error(err)
		}
	})
	f.requireNoError(f.StartVM(t.Context(), vm.ID))
	tuned := func() string {
		return strings.ReplaceAll(strings.Join(strings.Fields(virsh(t, "domiftune", string(vm.ID), "52:54:00:0e:00:01", "--live")), " "), " :", ":")
	}
	for range 2 {
		f.requireNoError(set(&fleet.Rate{AverageKiB: 4000}, &fleet.Rate{AverageKiB: 300}))
		wantContains(t, "the running NIC after a change", tuned(), "inbound.average: 4000 inbound.peak: 0", "outbound.average: 300")
	}
	f.requireNoError(set(nil, nil))
	wantContains(t, "the running NIC without limits", tuned(), "inbound.average: 0", "outbound.average: 0")
	if st, _, err := f.VM(t.Context(), vm.ID); err != nil || len(st.NextBoot) != 0 || len(st.Drift) != 0 {
		t.Errorf("%+v %v", st, err)
	}
}
