package hypervisor_test

import (
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

func TestFilterNameYieldsVMAndMAC(t *testing.T) {
	t.Parallel()
	vm := fleet.NewID[fleet.VMID]()
	if id, mac, ok := hypervisor.ParseFilterName(hypervisor.FilterName(vm, "52:54:00:AB:cd:ef")); id != vm || mac != "52:54:00:ab:cd:ef" || !ok {
		t.Errorf("%s %s %v", id, mac, ok)
	}
	for _, name := range []string{"", "clean-traffic", "quantix-nic-", "quantix-nic-525400abcdef-x", "quantix-group-" + string(vm), "quantix-nic-52-" + string(vm)} {
		if _, _, ok := hypervisor.ParseFilterName(name); ok {
			t.Errorf("%q is taken for a NIC's", name)
		}
	}
}
